"""Columns of X on the device, in tiles of rows, and the tiles that a member of a team owns.

Columns are an indicator, valued sparse or dense, and tiles those of the host, uploaded as they are
(`data.design.tiles`).  Whoever walks through a column walks through its entries tile by tile.
"""

from typing import NamedTuple

import numpy as np
from numba import int64, uint32, uint64

from ...data.design.columns import DENSE, INDICATOR, SPARSE
from ._cuda import device
from .team import my_team


class Columns(NamedTuple):
    """Arrays by which a kernel walks through any column."""

    kind: np.ndarray  # uint8, per column of X
    ptr: np.ndarray  # int64 (tiles, columns of X + 1): where a column's entries in a tile begin
    indices: np.ndarray  # uint16: rows within their tile
    pairs: np.ndarray  # uint32: two of them each, the same memory
    values: np.ndarray  # float64
    value_ptr: np.ndarray  # int64 (tiles, columns of X), or (1, columns) where all are of ones
    source: np.ndarray  # int64, per model column: its column of X
    piece_ptr: np.ndarray  # int64 (columns, 2)
    first: np.ndarray  # int64, per piece: first row of X that reaches it
    shift: np.ndarray  # int64, per piece: row copy minus row
    cut: np.ndarray  # int64 (tiles + 1,): rows of X where tiles begin
    range: np.ndarray  # int64 (ranges + 1,): tiles where ranges begin


class Span(NamedTuple):
    """Where entries of a column in a tile lie: positions, kind, base of values, first row."""

    low: int
    high: int
    kind: int
    base: int
    row: int


@device
def my_tiles(X, exchange):
    """First and end of the tiles of a member, which owns as many ranges as the others."""
    _, member = my_team(exchange)
    ranges = int64(uint32(X.range.shape[0] - 1) // uint32(exchange.size[0]))
    return X.range[member * ranges], X.range[(member + 1) * ranges]


@device
def entries(X, j, tile):
    """Entries of model column j in a tile."""
    c, tile = uint64(X.source[uint64(j)]), uint64(tile)
    kind, row = int64(X.kind[c]), X.cut[tile]
    if kind == DENSE:
        return Span(int64(0), X.cut[tile + uint64(1)] - row, kind, X.value_ptr[tile, c], row)
    low, base = X.ptr[tile, c], int64(0)
    if kind == SPARSE:
        base = X.value_ptr[tile, c] - low
    return Span(low, X.ptr[tile, c + uint64(1)], kind, base, row)


@device
def entry(X, q, span):
    """Row of X and value of the entry at position q."""
    if span.kind == INDICATOR:
        return span.row + int64(X.indices[uint64(q)]), 1.0
    if span.kind == SPARSE:
        return span.row + int64(X.indices[uint64(q)]), X.values[uint64(span.base + q)]
    return span.row + q, X.values[uint64(span.base + q)]
