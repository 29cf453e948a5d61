"""Columns far from one or from zero: what their units are, and centring.

A column that lies many standard deviations from zero loses its digits in sums of squares. Models
with a free baseline or intercept ignore shifts of the predictor, so that such columns can be
centred, and their means given back to the baseline. Squares of values beyond `LARGEST` and below
its inverse leave the range of floating point.
"""

from dataclasses import replace

import numpy as np

from ..._compile import kernel
from .kernels import INDICATOR

# A column is centred where its standard deviation is a share of its mean between these: below, it
# is constant up to rounding.
NEAR_CONSTANT, ROUNDING = 1 / 30, 64 * np.finfo(float).eps
LARGEST = 1e100


def _values(design, n_stored):
    """Offsets and number of the values of every column; 0 of an indicator."""
    return design.value_ptr, np.where(design.kind == INDICATOR, 0, n_stored)


@kernel
def _find_largest(values, ptr, size, largest):
    """Largest absolute value of each column."""
    for j in range(len(ptr)):
        most = 0.0
        for q in range(ptr[j], ptr[j] + size[j]):
            most = max(most, abs(values[q]))
        largest[j] = most


@kernel
def summarize(values, ptr, size, found):
    """Sum, squares about the mean, least and largest of the values of every column."""
    for j in range(len(ptr)):
        if size[j] == 0:
            continue
        low = high = values[ptr[j]]
        total = square = 0.0
        for q in range(ptr[j], ptr[j] + size[j]):
            total += values[q]
            low, high = min(low, values[q]), max(high, values[q])
        mean = total / size[j]
        for q in range(ptr[j], ptr[j] + size[j]):
            square += (values[q] - mean) ** 2
        found[j, 1], found[j, 2], found[j, 3], found[j, 4] = total, square, low, high


def largest_values(design):
    """Largest absolute value of each column, 0 of computed ones."""
    largest = np.empty(design.n_columns)
    _find_largest(design.values, *_values(design, design.n_stored), largest)
    is_one = (design.kind == INDICATOR) & (np.diff(design.indptr) > 0)
    return np.where(is_one, 1.0, largest)


def check_magnitudes(design, name="X"):
    """Refuse columns whose squares a fit could not compute with."""
    check_largest(largest_values(design), design.names, name)


def check_largest(largest, names, name="X"):
    """Refuse columns by their largest absolute values."""
    is_bad = (largest > LARGEST) | ((largest > 0) & (largest < 1 / LARGEST))
    if not is_bad.any():
        return
    j = int(np.argmax(is_bad))
    label = f"x{j}" if names is None else repr(names[j])
    more = f" ({is_bad.sum():,} such columns)" if is_bad.sum() > 1 else ""
    raise ValueError(
        f"`{name}` column {label} has values of at most {largest[j]:.3g} in absolute value{more}, "
        "whose squares leave the range of floating point: bring it between "
        f"{1 / LARGEST:g} and {LARGEST:g}, that is {'divide' if largest[j] > 1 else 'multiply'} it "
        "by a power of ten."
    )


def find_centers(design, rounding=ROUNDING):
    """Number to take from each column: the mean of one that lies far from zero, 0 from others.

    Only columns with a value for every row can lie so far. With `rounding` 0 those count whose
    deviation may be that of rounding, with None constants, too.
    """
    stored, found = design.n_stored, np.zeros((design.n_columns, 5))
    ptr, size = _values(design, np.where(stored == design.n_rows, stored, 0))
    summarize(design.values, ptr, size, found)
    return choose_centers(found[:, 1] / np.maximum(size, 1), found[:, 2], design.n_rows, rounding)


def choose_centers(mean, square, n_rows, rounding=ROUNDING):
    """`find_centers` from means of columns, 0 of others, and sums of squares about these."""
    with np.errstate(over="ignore", invalid="ignore"):  # of values that are refused later
        relative = square / (np.where(mean == 0.0, 1.0, mean) ** 2 * max(n_rows, 1))
    is_far = (mean != 0.0) & (relative < NEAR_CONSTANT**2)
    if rounding is not None:
        is_far &= relative > rounding**2
    return np.where(is_far, mean, 0.0)


def moved(design, by, *, in_place=False):
    """Add a number to all values of each column; columns with other than 0 have one a row."""
    values = design.values if in_place else design.values.copy()
    for j in np.flatnonzero(by):
        values[design.value_ptr[j] : design.value_ptr[j] + design.n_rows] += by[j]
    return replace(design, values=values)
