"""Poisson regression: y >= 0 with the log link; the logarithm of an exposure is an offset.

    l = sum c (y eta - mean),   mean = curvature = exp(eta),   score = y - mean

The terms log y! do not depend on eta and are left out.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.special import xlogy

from ..patterns.rows import RowPattern


@njit(error_model="numpy")
def poisson_row(eta, y):
    mean = math.exp(eta)
    return y * eta - mean, y - mean, mean


@njit(error_model="numpy")
def log_link(mean):
    return math.log(mean), 1.0 / mean


@dataclass(frozen=True)
class Poisson:
    """Counts under the log link."""

    intercept: bool = True
    pattern = RowPattern
    row_formula = staticmethod(poisson_row)
    link_formula = staticmethod(log_link)
    observed_formula = None
    is_quadratic = False

    @staticmethod
    def curvature_slope(eta):
        """Derivative of the curvature by the predictor: the curvature itself."""
        return np.exp(eta)

    @staticmethod
    def unit_deviance(value, score, curvature):
        """Twice what a row lacks to the largest log-likelihood; the curvature is the mean."""
        return 2.0 * (xlogy(value, value) - xlogy(value, curvature) - score)

    @staticmethod
    def largest_terms(value):
        """Reached where every mean is its outcome."""
        return xlogy(value, value) - value
