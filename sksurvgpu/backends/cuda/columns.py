"""Columns of X on the device, and the rows that a member of a team owns.

Columns are an indicator, valued sparse or dense, as on the CPU (`backends.cpu.columns`), and so are
pieces of time.  The rows of X are cut into as many ranges as the largest team has members; a
smaller team's members own several neighbouring ranges each.  `cut_ptr` says where every column
crosses the cuts, so that nobody searches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64, uint32, uint64

from ...data.design.columns import DENSE, INDICATOR, SPARSE
from ._cuda import cuda, device, inlined, kernel
from .team import my_team

SPANS = 32  # columns whose places are read at once


class Columns(NamedTuple):
    """Arrays by which a kernel walks through any column."""

    kind: np.ndarray  # uint8, per column of X
    indptr: np.ndarray  # int64
    indices: np.ndarray  # int32
    values: np.ndarray  # float64
    value_ptr: np.ndarray  # int64
    source: np.ndarray  # int64, per model column: its column of X
    piece_ptr: np.ndarray  # int64 (columns, 2)
    first: np.ndarray  # int64, per piece: first row of X that reaches it
    shift: np.ndarray  # int64, per piece: row copy minus row
    cut: np.ndarray  # int64 (ranges + 1,): rows of X where ranges begin
    cut_ptr: np.ndarray  # int32 (columns of X, ranges + 1): entries of the column before the cut


@device
def my_ranges(X, exchange):
    """First and end of the ranges that a member owns."""
    _, member = my_team(exchange)
    ranges = int64(uint32(X.cut.shape[0] - 1) // uint32(exchange.size[0]))
    return member * ranges, (member + 1) * ranges


@device
def entries(X, j, first, end):
    """Entries of model column j in ranges ``[first, end)``: positions, kind, base of values."""
    c, first, end = uint64(X.source[uint64(j)]), uint64(first), uint64(end)
    kind = X.kind[c]
    if kind == DENSE:
        return X.cut[first], X.cut[end], kind, X.value_ptr[c]
    begin = X.indptr[c]
    base = X.value_ptr[c] - begin if kind == SPARSE else int64(0)
    return begin + X.cut_ptr[c, first], begin + X.cut_ptr[c, end], kind, base


@device
def all_entries(X, j):
    """`entries` of all rows."""
    return entries(X, j, 0, X.cut.shape[0] - 1)


@device
def entry(X, q, kind, base):
    """Row of X and value of the entry at position q."""
    if kind == INDICATOR:
        return int64(X.indices[uint64(q)]), 1.0
    if kind == SPARSE:
        return int64(X.indices[uint64(q)]), X.values[uint64(base + q)]
    return int64(q), X.values[uint64(base + q)]


class Span(NamedTuple):
    """Where a member's entries of a model column lie."""

    low: int
    high: int
    kind: int
    base: int


@inlined
def new_spans():
    """Shared memory for spans of the next columns."""
    return cuda.shared.array(128, int64)  # 4 * SPANS


@device
def read_spans(X, columns, ranges, spans):
    """Spans of up to `SPANS` columns: threads read at once what one would wait for in turn.

    They have met since they looked at the last ones.
    """
    k = cuda.threadIdx.x
    while k < min(SPANS, columns.shape[0]):
        low, high, kind, base = entries(X, columns[uint64(k)], ranges[0], ranges[1])
        spans[uint64(4 * k)], spans[uint64(4 * k + 1)] = low, high
        spans[uint64(4 * k + 2)], spans[uint64(4 * k + 3)] = int64(kind), base
        k += cuda.blockDim.x
    cuda.syncthreads()


@device
def span_of(spans, k):
    """Of the k-th column that was read."""
    at = uint32(4) * (uint32(k) % uint32(SPANS))
    low, high = spans[uint64(at)], spans[uint64(at + uint32(1))]
    return Span(low, high, spans[uint64(at + uint32(2))], spans[uint64(at + uint32(3))])


@kernel
def find_cuts(X):
    """Fill `cut_ptr`: a binary search for every column and cut."""
    n_cuts = X.cut.shape[0]
    task = cuda.grid(1)
    while task < X.kind.shape[0] * n_cuts:
        c, k = task // n_cuts, task % n_cuts
        begin = X.indptr[c]
        low, high = begin, X.indptr[c + 1]
        while low < high:
            middle = (low + high) >> 1
            if X.indices[middle] < X.cut[k]:
                low = middle + 1
            else:
                high = middle
        X.cut_ptr[c, k] = low - begin
        task += cuda.gridsize(1)
