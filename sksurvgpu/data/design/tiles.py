"""Tiles: a design's rows in the order of a plan, cut where 16 bits number them.

Tile t has the rows ``starts[t]`` to before ``starts[t + 1]`` of the order, each a design of its
own: 2 bytes a one, and a column's values of the tile side by side.  A pass over all entries loops
over tiles outside and columns inside, so that what it reads or writes by row stays in cache, and
sums over rows are added up in the order of tiles, whoever adds them.

A tile is made in one counting pass: entries are counted by tile and column, which says where each
goes, and then written there in ascending order by way of a bitmap (see `kernels`).
"""

from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from ..._compile import device, kernel
from ..._threads import over_columns
from .columns import Design
from .computed import ComputedColumns
from .kernels import (
    COMPUTED,
    DENSE,
    INDICATOR,
    SLACK,
    SPARSE,
    DesignArrays,
    drain_bitmap,
    drain_words,
    invert_order,
    mark,
    mark_words,
)
from .units import moved

LARGEST = 65_536  # rows that 16 bits number
# A small tile's numbers stay in a nearer cache, and more tiles are more pieces of work for threads;
# a column costs each tile some 15 ns, as much as 40 entries.  Nanoseconds an entry of a gradient
# and of a predictor, rows in tiles of 8,192, 16,384, 32,768 and 65,536, and whole with 32-bit rows
# (Zen 3, 1 MiB of cache a core, 2026-11):
#     10^6 x 300, 5 %:          .37  .44   .43  .47   .53  .48   .41  .49   .67  .70
#     10^6 x 5,000, 0.2 %:     1.23 1.24   .78  .82   .60  .68   .57  .65   .90  .81
#     10^6 x 20,000, 0.03 %:   5.29 5.86  3.13 3.23  1.86 1.91  1.26 1.30  1.07 1.00
SIZES = (8_192, 16_384, LARGEST)
ENTRIES = 256  # of a column and tile, on average, that a tile is worth being smaller for

FEWEST = 200_000  # entries: fewer are written in the time that threads take to start
# A column with an entry in so many rows, or in fewer, is sorted by a visit to every 64 of them.
FREQUENT = 150


class Tile(NamedTuple):
    """Some neighbouring rows, as a kernel reads them."""

    kind: np.ndarray  # uint8, per column of X
    indptr: np.ndarray  # int64, per column of X + 1
    indices: np.ndarray  # uint16: rows within the tile, ascending in every column
    values: np.ndarray  # float64: those of dense columns side by side, then of sparse ones
    value_ptr: np.ndarray  # int64, per column of X
    first: int  # row
    n_rows: int

    @property
    def end(self):
        """Row behind the last."""
        return self.first + self.n_rows


class Tiles(NamedTuple):
    """All rows in tiles, one behind the other: kernels loop over them without Python's lock.

    Computed columns behind the last one that is stored have a kind and nothing else.
    """

    kind: np.ndarray  # uint8, per column of X
    starts: np.ndarray  # int64 (n_tiles + 1,): first row of each
    indptr: np.ndarray  # int64 (n_tiles, n_columns + 1)
    first_index: np.ndarray  # int64 (n_tiles + 1,): where those of a tile are
    indices: np.ndarray  # uint16
    value_ptr: np.ndarray  # int64 (n_tiles, n_columns), or (1, n_columns) where there are no values
    first_value: np.ndarray  # int64 (n_tiles + 1,)
    values: np.ndarray  # float64

    @property
    def n_rows(self):
        return int(self.starts[-1])

    @property
    def n_tiles(self):
        return len(self.starts) - 1

    @property
    def nbytes(self):
        return sum(array.nbytes for array in self)

    def each(self):
        """The tiles, one by one."""
        return [_tile_at(self, t) for t in range(self.n_tiles)]


def _tile_at(X, t):
    """Tile t, a view."""
    return Tile(
        X.kind,
        X.indptr[t],
        X.indices[X.first_index[t] : X.first_index[t + 1]],
        X.values[X.first_value[t] : X.first_value[t + 1]],
        X.value_ptr[min(t, len(X.value_ptr) - 1)],
        X.starts[t],
        X.starts[t + 1] - X.starts[t],
    )


tile_at = device(_tile_at)


class OrderedDesign:
    """A design under an order of its rows, perhaps with numbers taken from its columns.

    What passes read, `tiles`, and a design of the rows in that order are made when they are first
    asked for, the one without the other, and kept.
    """

    def __init__(self, given, order, center=None, n_threads=1):
        self.given, self.order, self.center = given, order, center
        self._n_threads, self._lock = n_threads, Lock()
        self._tiles = self._whole = None

    def __getstate__(self):
        return self.given, self.order, self.center, self._n_threads

    def __setstate__(self, state):
        self.__init__(*state)

    def centred(self, center):
        """Tiles with other numbers taken from their columns, or (None) with none."""
        return OrderedDesign(self.given, self.order, center, self._n_threads)

    def select(self, columns):
        """Some of the columns as a design, rows in their order."""
        center = None if self.center is None else self.center[columns]
        return OrderedDesign(self.given.select(columns), self.order, center, self._n_threads).whole

    @property
    def tiles(self):
        """The rows in tiles."""
        with self._lock:
            if self._tiles is None:
                self._tiles = self._make_tiles()
            return self._tiles

    @property
    def computed(self):
        """Columns that tiles do not have, or None."""
        return ComputedColumns(self.given, self.order) if self.given.blocks else None

    def cut(self, starts=None):
        """Tiles that begin where asked for; these are not kept."""
        n_threads = self._n_threads
        return tiles_of(self.given, self.order, self.center, starts=starts, n_threads=n_threads)

    def _make_tiles(self):
        if self.center is not None or not self.given.keeps_order:
            return self.cut()
        if np.any(self.order != np.arange(len(self.order))):
            return self.cut()
        with _lock:
            if self.given not in _of_outcomes:
                _of_outcomes[self.given] = self.cut()
            return _of_outcomes[self.given]

    @property
    def whole(self):
        """The design of the rows in their order."""
        with self._lock:
            if self._whole is None:
                whole = self.given.stored().reordered(self.order, n_threads=self._n_threads)
                if self.center is not None:
                    whole = moved(whole, -self.center, in_place=whole is not self.given)
                self._whole = whole
            return self._whole


# Tiles of designs that stay in their order, so that many outcomes have the same.
_of_outcomes: WeakKeyDictionary[Design, Tiles] = WeakKeyDictionary()
_lock = Lock()


def tiles_of(design: Design, order, center=None, *, starts=None, n_threads: int = 1) -> Tiles:
    """Cut the rows of a design into tiles: their row i is row ``order[i]`` of the design.

    Of computed columns tiles have nothing.
    A design whose row numbers are 16-bit, and whose rows stay where they are, is one tile and is
    not copied. From the values of each column its `center` is taken; columns with other than 0 have
    one a row. Tile t has rows ``starts[t]`` to before ``starts[t + 1]``, at most 65,536; by default
    as many as suit the number of entries. Threads write ranges of columns, and no bit depends on
    them.
    """
    inverse, is_moved = invert_order(order, design.n_rows)
    _check_rows(design)
    is_short = design.indices.dtype == np.uint16 and starts is None
    if is_short and not is_moved and (center is None or not center.any()):
        return _shared(design)
    n_threads = n_threads if design.n_entries >= FEWEST else 1
    starts = even_starts(design.n_rows, _size_of(design)) if starts is None else starts
    if np.diff(starts).max() > LARGEST:
        raise ValueError(
            f"a tile has {np.diff(starts).max():,} rows, whose numbers are 16-bit; cut it where "
            f"it has {LARGEST:,} at most."
        )
    tiles = _plan(design, inverse, starts, n_threads)
    center = np.zeros(design.n_columns) if center is None else center
    order, columns = np.asarray(order, np.int32), _unsigned(design)
    cost = np.diff(design.indptr) + np.where(design.kind == DENSE, design.n_rows, 64)
    cost = cost[: tiles.indptr.shape[1] - 1]

    def fill(first, last):
        _fill(first, last, order, inverse, is_moved, center, columns, tiles)

    over_columns(fill, cost, n_threads)
    return tiles


def even_starts(n_rows, size):
    """Where tiles of so many rows begin, and the end; one tile if there are no rows."""
    return np.minimum(np.arange(max(1, -(-n_rows // size)) + 1) * size, n_rows)


def _unsigned(design):
    """Columns whose row numbers are unsigned: a signed index is tested at every access."""
    indices = design.indices.view(f"u{design.indices.itemsize}")
    return DesignArrays(design.kind, design.indptr, indices, design.values, design.value_ptr)


def _shared(design):
    """One tile of a design's own arrays."""
    return Tiles(
        design.kind,
        np.array([0, design.n_rows]),
        design.indptr[None],
        np.array([0, len(design.indices)]),
        design.indices,
        design.value_ptr[None],
        np.array([0, len(design.values)]),
        design.values,
    )


def _check_rows(design):
    """Refuse row numbers that the design has no rows for: a kernel would read beyond its arrays."""
    stored = np.flatnonzero(np.diff(design.indptr))
    last = design.indices[design.indptr[stored + 1] - 1]
    beyond = np.flatnonzero(last >= design.n_rows)
    if len(beyond):
        column, row = stored[beyond[0]], last[beyond[0]]
        raise ValueError(
            f"`design` has an entry of column {column:,} in row {row:,}, and its rows are numbered "
            f"from 0 to {design.n_rows - 1:,}; build it anew, with `n_rows` of at least {row + 1:,}"
            " or without that entry."
        )


def _size_of(design):
    """Rows of a tile: the fewest that leave enough entries to a column, on average."""
    share = design.n_entries / max(design.n_rows * design.n_columns, 1)
    size = next((size for size in SIZES if share * size >= ENTRIES), LARGEST)
    n_tiles = max(1, -(-design.n_rows // size))
    return min(LARGEST, max(1, -(-design.n_rows // n_tiles)))


def _plan(design, inverse, starts, n_threads):
    """Tiles whose entries are not written yet."""
    n_tiles = len(starts) - 1
    n_columns = min(1 + np.flatnonzero(design.kind != COMPUTED).max(initial=0), design.n_columns)
    kind, counts = design.kind[:n_columns], np.zeros((n_columns, n_tiles), np.int64)
    tile_of_row = np.repeat(np.arange(n_tiles, dtype=np.uint32), np.diff(starts))[inverse]
    columns = _unsigned(design)
    cost = np.diff(design.indptr[: n_columns + 1]) + 64
    over_columns(lambda a, b: _count(a, b, tile_of_row, columns, counts), cost, n_threads)
    indptr = np.zeros((n_tiles, n_columns + 1), np.int64)
    np.cumsum(counts.T, axis=1, out=indptr[:, 1:])
    first_index = np.concatenate([[0], np.cumsum(indptr[:, -1])])
    is_valued = kind != INDICATOR
    value_ptr, first_value = np.zeros((1, n_columns), np.int64), np.zeros(n_tiles + 1, int)
    if is_valued.any():
        value_ptr = np.zeros(counts.T.shape, np.int64)
        dense_first = np.argsort(kind != DENSE, kind="stable")
        sizes = np.where(kind == DENSE, np.diff(starts)[:, None], counts.T) * is_valued
        sizes = sizes[:, dense_first]
        ends = np.cumsum(sizes, axis=1)
        value_ptr[:, dense_first] = ends - sizes
        value_ptr[:, ~is_valued] = 0
        first_value[1:] = np.cumsum(ends[:, -1])
    indices = np.empty(first_index[-1], np.uint16)
    values = np.empty(first_value[-1])
    return Tiles(design.kind, starts, indptr, first_index, indices, value_ptr, first_value, values)


@kernel
def _count(first, last, tile_of_row, columns, counts):
    """Entries of the columns first..last-1 in every tile; a call owns those columns."""
    for j in range(first, last):
        for k in range(columns.indptr[j], columns.indptr[j + 1]):
            counts[j, tile_of_row[columns.indices[k]]] += 1


@device
def _fill_dense(j, order, center, given, tiles):
    """Write the values of a dense column."""
    source = given.value_ptr[j]
    for t in range(tiles.starts.size - 1):
        target = tiles.first_value[t] + tiles.value_ptr[t, j] - tiles.starts[t]
        for i in range(tiles.starts[t], tiles.starts[t + 1]):
            tiles.values[target + i] = given.values[source + order[i]] - center[j]


@device
def _fill_sparse(j, ordered, moving, is_valued, tiles):
    """Write the rows of a column, which are given in ascending order, and its values by row."""
    k = 0
    for t in range(tiles.starts.size - 1):
        target = tiles.first_index[t] + tiles.indptr[t, j]
        count = tiles.indptr[t, j + 1] - tiles.indptr[t, j]
        for q in range(count):
            tiles.indices[target + q] = ordered[k + q] - tiles.starts[t]
        if is_valued:
            target = tiles.first_value[t] + tiles.value_ptr[t, j]
            for q in range(count):
                tiles.values[target + q] = moving[ordered[k + q]]
        k += count


@kernel
def _fill(first, last, order, inverse, is_moved, center, given, tiles):
    """Write columns first..last-1 into the tiles; a call owns those columns.

    Bitmaps, and scratch for the rows and values of a column, are private to the call.
    """
    n = inverse.size
    words = np.zeros((n >> 6) + 1, dtype=np.uint64)
    summary = np.zeros((n >> 12) + 1, dtype=np.uint64)
    rows = np.empty(n + SLACK, dtype=np.int32)
    moving = np.empty(n, dtype=np.float64)
    for j in range(first, last):
        if given.kind[j] == DENSE:
            _fill_dense(j, order, center, given, tiles)
            continue
        stored = given.indices[given.indptr[j] : given.indptr[j + 1]]
        ordered = rows[: stored.size]
        if not is_moved:
            for k in range(stored.size):
                ordered[k] = stored[k]
        elif FREQUENT * stored.size >= n:
            mark_words(inverse, stored, words)
            drain_words(words, rows)
        else:
            mark(inverse, stored, words, summary)
            drain_bitmap(words, summary, ordered)
        is_valued = given.kind[j] == SPARSE
        if is_valued:
            for k in range(stored.size):
                moving[inverse[stored[k]]] = given.values[given.value_ptr[j] + k] - center[j]
        _fill_sparse(j, ordered, moving, is_valued, tiles)
