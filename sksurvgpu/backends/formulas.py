"""Scalar formulas that every backend compiles: written once, called from any kernel."""

from __future__ import annotations

from numba import njit


@njit(error_model="numpy")
def soft_threshold(z, level):
    """Minimizer of ``(x - z)**2 / 2 + level * abs(x)``."""
    if z > level:
        return z - level
    if z < -level:
        return z + level
    return 0.0


@njit(error_model="numpy")
def coordinate_minimum(coef, gradient, curvature, l1, l2):
    """Minimizer along one coordinate of ``-gradient*d + curvature*d**2/2 + penalty(coef + d)``."""
    return soft_threshold(coef * curvature + gradient, l1) / (curvature + l2)


@njit(error_model="numpy")
def two_sum(a, b):
    """a + b and its rounding error."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)
