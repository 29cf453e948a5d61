"""Logistic regression: y in {0, 1}, or a share.

    l = sum c (y eta - log(1 + exp(eta)))
    mean = 1 / (1 + exp(-eta)),   score = y - mean,   curvature = mean (1 - mean)

Both tails of the mean are computed without cancellation.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from ..patterns.rows import RowPattern


@njit(error_model="numpy")
def logistic_row(eta, y):
    small = math.exp(-abs(eta))
    upper = 1.0 / (1.0 + small)
    lower = small * upper
    mean = upper if eta >= 0.0 else lower
    # y eta - log(1 + exp(eta)), in terms that are not large where their sum is small
    loglik = -(1.0 - y) * eta if eta >= 0.0 else y * eta
    return loglik - math.log1p(small), y - mean, upper * lower


def expit(eta):
    """Mean of an array of predictors."""
    return np.exp(-np.logaddexp(0.0, -eta))


@njit(error_model="numpy")
def logit(mean):
    return math.log(mean / (1.0 - mean)), 1.0 / (mean * (1.0 - mean))


@dataclass(frozen=True)
class Logistic:
    """Bernoulli outcomes under the logit link."""

    intercept: bool = True
    pattern = RowPattern
    row_formula = staticmethod(logistic_row)
    link_formula = staticmethod(logit)
    observed_formula = None
    is_quadratic = False

    @staticmethod
    def curvature_slope(eta):
        """Derivative of the curvature by the predictor."""
        return expit(eta) * expit(-eta) * -np.tanh(0.5 * eta)

    @staticmethod
    def unit_deviance(value, score, curvature):
        """Twice what a row lacks to the largest log-likelihood; outcomes are 0 or 1.

        The probability of what was observed is curvature / |score|, without cancellation.
        """
        missed = np.abs(score)
        unlikely = missed > 0.5
        lost = np.log(np.where(unlikely, missed / np.where(unlikely, curvature, 1.0), 1.0))
        return 2.0 * np.where(unlikely, lost, -np.log1p(-np.minimum(missed, 0.5)))

    @staticmethod
    def largest_terms(value):
        """Reached where every mean is its outcome: 0 for outcomes 0 and 1."""
        return 0.0
