"""Models whose link is not canonical, by scalar formulas as a user would write them."""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.special import gammaln, log_ndtr

from sksurvgpu.patterns.rows import RowPattern

FAR = 8.0  # standard deviations, beyond which a normal tail is a continued fraction
SIZE = 2.5  # of the negative binomial


@njit(error_model="numpy")
def tail(t):
    """log P(Z > t), the hazard of Z at t, and the hazard less t: Z standard normal."""
    if t < FAR:
        survival = 0.5 * math.erfc(t * math.sqrt(0.5))
        hazard = math.exp(-0.5 * t * t) / (survival * math.sqrt(2.0 * math.pi))
        return math.log(survival), hazard, hazard - t
    above = 0.0
    for k in range(40, 0, -1):
        above = k / (t + above)
    return -0.5 * t * t - 0.5 * math.log(2.0 * math.pi) - math.log(t + above), t + above, above


@njit(error_model="numpy")
def probit_row(eta, y):
    loglik, score, curvature = 0.0, 0.0, 0.0
    if y > 0.0:
        log, hazard, excess = tail(-eta)
        loglik, score, curvature = y * log, y * hazard, y * hazard * excess
    if y < 1.0:
        log, hazard, excess = tail(eta)
        loglik += (1.0 - y) * log
        score -= (1.0 - y) * hazard
        curvature += (1.0 - y) * hazard * excess
    return loglik, score, curvature


@dataclass(frozen=True)
class Probit:
    """y in {0, 1} with probability Phi(eta)."""

    intercept: bool = True
    pattern = RowPattern
    row_formula = staticmethod(probit_row)
    link_formula = None
    observed_formula = None
    is_quadratic = False

    @staticmethod
    def largest_terms(value):
        return 0.0


@njit(error_model="numpy")
def counts_row(eta, y):
    mean = math.exp(eta)
    share = 1.0 / (1.0 + mean / SIZE)
    # the variance of the score, which is less than the observed curvature of a large count
    return y * eta - (y + SIZE) * math.log(SIZE + mean), (y - mean) * share, mean * share


@njit(error_model="numpy")
def counts_observed(eta, y):
    share = 1.0 / (1.0 + math.exp(eta) / SIZE)
    return (y + SIZE) * share * (1.0 - share)


@dataclass(frozen=True)
class Overdispersed:
    """Counts, negative binomial of a known size, under the log link."""

    intercept: bool = True
    pattern = RowPattern
    row_formula = staticmethod(counts_row)
    link_formula = None
    observed_formula = staticmethod(counts_observed)
    is_quadratic = False

    @staticmethod
    def largest_terms(value):
        positive = np.maximum(value, 1e-300)
        return value * np.log(positive) - (value + SIZE) * np.log(SIZE + value)


def probit_loglik(eta, y):
    """Log-likelihood of rows, by SciPy."""
    return log_ndtr(np.where(y > 0, eta, -eta))


def counts_loglik(eta, y):
    """Log-likelihood of rows, by the density."""
    p = SIZE / (SIZE + np.exp(eta))
    density = gammaln(y + SIZE) - gammaln(SIZE) - gammaln(y + 1) + SIZE * np.log(p)
    constant = gammaln(y + SIZE) - gammaln(SIZE) - gammaln(y + 1) + SIZE * np.log(SIZE)
    return density + y * np.log1p(-p) - constant
