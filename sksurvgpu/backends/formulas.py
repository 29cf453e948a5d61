"""Scalar formulas that every backend compiles: written once, called from any kernel."""

from math import isfinite

from numba import njit


@njit(error_model="numpy")
def two_sum(a, b):
    """a + b and its rounding error."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


@njit(error_model="numpy")
def restored(total, lost):
    """A sum with the errors of its steps; those of one beyond all numbers are none."""
    return total + lost if isfinite(total) else total
