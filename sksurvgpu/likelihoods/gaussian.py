"""Least squares: y any number.

l = -sum c (y - eta)^2 / 2,   score = y - eta,   curvature = 1
"""

from dataclasses import dataclass

from numba import njit

from ..patterns.rows import RowPattern


@njit(error_model="numpy")
def gaussian_row(eta, y):
    return -0.5 * (y - eta) ** 2, y - eta, 1.0


@njit(error_model="numpy")
def identity_link(mean):
    return mean, 1.0


@dataclass(frozen=True)
class Gaussian:
    """Numbers with normal errors of unit variance."""

    intercept: bool = True
    pattern = RowPattern
    row_formula = staticmethod(gaussian_row)
    link_formula = staticmethod(identity_link)
    observed_formula = None
    is_quadratic = True

    @staticmethod
    def unit_deviance(value, score, curvature):
        """Twice what a row lacks to the largest log-likelihood."""
        return score**2

    @staticmethod
    def largest_terms(value):
        """Reached where every mean is its outcome."""
        return 0.0
