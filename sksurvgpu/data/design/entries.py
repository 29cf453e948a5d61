"""Summaries of the columns of a design, in one pass over each, and columns divided by a number.

Columns are compared by a sum over their entries, of a random number of the row times a hash of the
value, modulo 2^64 (Carter and Wegman 1979): equal columns have equal sums, indicators that share
out all rows have sums that add up to that of a column of ones, and others do so with a chance of
2^-64. Whoever relies on it compares entries, too.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..._compile import kernel
from .columns import Design
from .kernels import DENSE, INDICATOR, SPARSE
from .tables import packed_offsets

MULTIPLIER, SHIFT = np.uint64(0xBF58476D1CE4E5B9), np.uint64(31)


class ColumnSummary(NamedTuple):
    """Of every column: rows that are not zero, and of all rows the largest absolute value, the
    standard deviation, whether there are values other than 0 and 1, and the sum it is known by.
    """

    n_rows_of: np.ndarray
    largest: np.ndarray
    deviation: np.ndarray
    is_valued: np.ndarray
    fingerprint: np.ndarray


def describe_entries(design: Design) -> ColumnSummary:
    """Pass over all columns."""
    p = design.n_columns
    found = ColumnSummary(
        np.zeros(p, np.int64), *np.zeros((2, p)), np.zeros(p, np.bool_), np.zeros(p, np.uint64)
    )
    random = np.random.default_rng(0).integers(0, 2**64, design.n_rows, dtype=np.uint64)
    _describe(design.n_rows, design.arrays(), random, found)
    return found


@kernel
def _describe(n_rows, columns, random, found):
    """Write what `ColumnSummary` has, one column after the other.

    Squares are of values divided by the largest, which keeps them in the range of floating point.
    """
    kind, indptr, indices, values, value_ptr = columns
    one = np.ones(1)
    bits = np.zeros(1)
    for j in range(kind.size):
        is_dense, is_indicator = kind[j] == DENSE, kind[j] == INDICATOR
        size = n_rows if is_dense else indptr[j + 1] - indptr[j]
        own = one if is_indicator else values[value_ptr[j] : value_ptr[j] + size]
        largest, count, total = 0.0, 0, np.uint64(0)
        for k in range(size):
            value = own[0] if is_indicator else own[k]
            if value == 0.0:
                continue
            largest = max(largest, abs(value))
            count += 1
            found.is_valued[j] |= value != 1.0
            bits[0] = value
            mixed = bits.view(np.uint64)[0] * MULTIPLIER
            row = np.int64(k) if is_dense else np.int64(indices[indptr[j] + k])
            total += random[row] * (mixed ^ (mixed >> SHIFT))
        found.n_rows_of[j], found.largest[j], found.fingerprint[j] = count, largest, total
        mean = square = 0.0
        if largest > 0.0:
            for k in range(size):
                mean += (own[0] if is_indicator else own[k]) / largest
            mean /= n_rows
            for k in range(size):
                square += ((own[0] if is_indicator else own[k]) / largest - mean) ** 2
            square += (n_rows - size) * mean**2
        found.deviation[j] = largest * np.sqrt(square / n_rows)


def entries_of(design: Design, j: int):
    """Rows in which column j is not zero, and its values there."""
    values = design.stored_values(j)
    some = np.flatnonzero(values)
    if design.kind[j] >= DENSE:
        return some, values[some]
    rows = design.indices[design.indptr[j] : design.indptr[j + 1]]
    return (rows, values) if len(some) == len(rows) else (rows[some], values[some])


def divided(design: Design, scale: np.ndarray) -> Design:
    """Divide every column by its number; those divided by 1 stay as they are."""
    if (scale == 1.0).all():
        return design
    design = design.stored()
    kind = design.kind.copy()
    kind[(kind == INDICATOR) & (scale != 1.0)] = SPARSE
    stored = np.where(kind == DENSE, design.n_rows, np.diff(design.indptr))
    sizes = np.where(kind == INDICATOR, 0, stored)
    value_ptr = packed_offsets(sizes)
    values = np.empty(sizes.sum())
    for j in np.flatnonzero(sizes):
        start, own = design.value_ptr[j], values[value_ptr[j] : value_ptr[j] + sizes[j]]
        is_one = design.kind[j] == INDICATOR
        own[:] = (1.0 if is_one else design.values[start : start + sizes[j]]) / scale[j]
    return replace(design, kind=kind, values=values, value_ptr=value_ptr)
