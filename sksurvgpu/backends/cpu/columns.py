"""Whole columns of X, for steps along one after the other, and the loops over their entries.

A column is an indicator (row numbers only), valued sparse (row numbers and values) or dense
(values only).  `column_operation` is the single place that tells them apart: an operation is one
loop over `entry_row` and `entry_value`.

Rows come in *pieces*.  A plain problem has one piece.  With coefficients that change over time
every piece of the time axis holds its own copy of the rows that reach it, but never of X: the row
copies of piece b are the last ``n_base - first[b]`` rows of X, stored at ``row + shift[b]``.  A
column whose coefficient is constant is visited in all pieces, a varying one in its own pieces.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from ..._compile import BOUND, PART, bind, device, kernel
from ...data.design.columns import DENSE, INDICATOR

operation = BOUND


class Columns(NamedTuple):
    """Arrays by which a kernel walks through any column."""

    kind: np.ndarray  # uint8, per column of X
    indptr: np.ndarray  # int64, per column of X + 1
    indices: np.ndarray  # uint32 or uint16: an unsigned index compiles to a plain load
    values: np.ndarray  # float64, stored values of sparse and dense columns
    value_ptr: np.ndarray  # int64, per column of X
    source: np.ndarray  # int64, per model column: its column of X
    piece_ptr: np.ndarray  # int64 (columns, 2): first piece and end of the pieces of a model column
    first: np.ndarray  # int64, per piece: first row of X that reaches it
    shift: np.ndarray  # int64, per piece: position of a row copy minus its row of X
    n_base: int  # rows of X


def columns_of(design, source, piece_ptr, first, shift):
    """View a design as columns."""
    return Columns(
        design.kind,
        design.indptr,
        design.indices.view(f"u{design.indices.itemsize}"),
        design.values,
        design.value_ptr,
        source,
        piece_ptr,
        first,
        shift,
        design.n_rows,
    )


def entry_row(rows, q, shift):
    """Row of entry q; ``rows=None`` stands for a dense column."""


def entry_value(values, q):
    """Value of entry q; ``values=None`` stands for ones."""


def n_entries(rows, values):
    """Entries of a column."""


# Rows are unsigned: a signed index costs a test for negative values at every access.
@overload(entry_row, jit_options=PART)
def _entry_row(rows, q, shift):
    if isinstance(rows, types.NoneType):
        return lambda rows, q, shift: np.uint64(q) + np.uint64(shift)
    return lambda rows, q, shift: np.uint64(rows[q]) + np.uint64(shift)


@overload(entry_value, jit_options=PART)
def _entry_value(values, q):
    if isinstance(values, types.NoneType):
        return lambda values, q: 1.0
    return lambda values, q: values[q]


@overload(n_entries, jit_options=PART)
def _entry_count(rows, values):
    if isinstance(rows, types.NoneType):
        return lambda rows, values: len(values)
    return lambda rows, values: len(rows)


@device
def lower_bound(rows, row):
    """Position of the first entry at or after `row` in ascending `rows`."""
    low, high = 0, len(rows)
    if row <= 0:
        return 0
    while low < high:
        middle = (low + high) >> 1
        if rows[middle] < row:
            low = middle + 1
        else:
            high = middle
    return low


def _visit(X, j, state):
    """Sum of ``operation(rows, values, shift, state)`` over the pieces of column j."""
    total = 0.0
    c = X.source[j]
    v = X.value_ptr[c]
    for b in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
        start, shift = X.first[b], X.shift[b]
        if start >= X.n_base:
            continue
        if X.kind[c] == DENSE:
            total += operation(None, X.values[v + start : v + X.n_base], shift + start, state)
            continue
        rows = X.indices[X.indptr[c] : X.indptr[c + 1]]
        a = lower_bound(rows, start)
        if X.kind[c] == INDICATOR:
            total += operation(rows[a:], None, shift, state)
        else:
            total += operation(rows[a:], X.values[v + a : v + len(rows)], shift, state)
    return total


def column_operation(loop):
    """Turn a loop over entries into a function ``(X, j, state)`` of column j.

    The loop is bound by name and not passed as an argument: Numba calls function arguments through
    pointers, which is slow and cannot be cached.
    """
    return device(bind(_visit, operation=device(loop)))


@column_operation
def dot(rows, values, shift, r):
    """Sum of x_i r_i, in four partial sums: one alone waits for every addition to finish."""
    n = n_entries(rows, values)
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = n - n % 4
    for q in range(0, whole, 4):
        s0 += entry_value(values, q) * r[entry_row(rows, q, shift)]
        s1 += entry_value(values, q + 1) * r[entry_row(rows, q + 1, shift)]
        s2 += entry_value(values, q + 2) * r[entry_row(rows, q + 2, shift)]
        s3 += entry_value(values, q + 3) * r[entry_row(rows, q + 3, shift)]
    for q in range(whole, n):
        s0 += entry_value(values, q) * r[entry_row(rows, q, shift)]
    return (s0 + s1) + (s2 + s3)


@column_operation
def add_scaled(rows, values, shift, state):
    """eta_i += x_i step."""
    eta, step = state
    for q in range(n_entries(rows, values)):
        eta[entry_row(rows, q, shift)] += entry_value(values, q) * step
    return 0.0


@kernel
def gradient_of_columns(X, columns, u, out):
    """out_a = x_a'u for the given columns."""
    for a in range(len(columns)):
        out[a] = dot(X, columns[a], u)
