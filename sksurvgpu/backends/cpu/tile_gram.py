"""The Gram matrix of the quadratic model, X' diag(h) X - sum_k c_k c_k' / N_k.

Sparse columns are added up by rows: a row with r nonzeros adds h_i to r(r+1)/2 entries, so a sparse
X costs its co-occurring pairs and not m^2 dot products.  Rows are taken in chunks whose row lists
stay in cache, X being transposed chunk by chunk and never as a whole.  Threads own rows of the
target, so that sums keep the order of the rows.  (Tiles of the target, and one target row at a
time, were both slower: their inner loops are short.)  Dense columns are multiplied with each other
by BLAS, and with the others one by one, as columns are that change over time.

The second term is a product of loads where bins are few.  With a bin a stratum, the loads of a
column are a sparse column themselves, whose rows are strata.
"""

from typing import NamedTuple

import numpy as np

from ..._compile import device, kernel
from ...data.design.kernels import COMPUTED, DENSE, ONE, SPARSE
from ...data.design.tiles import tile_at
from .bins import CONSTANT
from .columns import entry_value, lower_bound
from .grouped_gram import SAMPLED, PairTables, add_grouped, groups_of
from .optional import write
from .tile_loads import loads_of_strata

_CHUNK = 4096
_GAP = 256  # rows without weight that are worth looking up where columns go on, as in samples
_DENSE_BYTES = 2**24  # of the rows of dense columns that are multiplied at once


@device
def _next_rows(h, row):
    """First and end of the next rows with weight, from `row` on, until a gap or a chunk ends."""
    while row < len(h) and h[row] == 0.0:
        row += 1
    end, limit, i = row, min(row + _CHUNK, len(h)), row
    while i < limit and i - end < _GAP:
        i += 1
        if h[i - 1] != 0.0:
            end = i
    return row, end


@device
def _list_rows(tile, columns, label, row, end, cursor, start, member, value):
    """Row lists of the columns for some of a tile's rows, `row` to before `end`.

    Entries of row i of these are ``start[i]:start[i + 1]`` of `member` (labels of the columns,
    which ascend) and `value`.  `cursor` remembers how far each column has been read.
    """
    start[: end - row + 2] = 0
    for a in range(len(columns)):
        stop = tile.indptr[columns[a] + 1]
        if cursor[a] < stop and tile.indices[cursor[a]] < row:
            cursor[a] += lower_bound(tile.indices[cursor[a] : stop], row)
        for q in range(cursor[a], stop):
            if tile.indices[q] >= end:
                break
            start[tile.indices[q] - row + 2] += 1
    for i in range(2, end - row + 2):
        start[i] += start[i - 1]
    for a in range(len(columns)):
        c = columns[a]
        q = cursor[a]
        while q < tile.indptr[c + 1] and tile.indices[q] < end:
            i = tile.indices[q] - row + 1
            member[start[i]] = label[a]
            if tile.kind[c] == SPARSE:
                write(value, start[i], tile.values[tile.value_ptr[c] + q - tile.indptr[c]])
            else:
                write(value, start[i], 1.0)
            start[i] += 1
            q += 1
        cursor[a] = q


@kernel
def add_pairs(X, columns, label, h, low, member, value, rows):
    """Add sum_i h_i x_ia x_ib to ``rows[label_a - low, label_b]`` for label_b <= label_a."""
    start, cursor = np.empty(_CHUNK + 2, np.int64), np.empty(len(columns), np.int64)
    for t in range(len(X.starts) - 1):
        tile = tile_at(X, t)
        for a in range(len(columns)):
            cursor[a] = tile.indptr[columns[a]]
        own = h[tile.first : tile.first + tile.n_rows]
        row, end = _next_rows(own, 0)
        while row < tile.n_rows:
            _list_rows(tile, columns, label, row, end, cursor, start, member, value)
            _add_pairs_of_lists(start, own[row:end], low, member, value, rows)
            row, end = _next_rows(own, end)


@device
def _add_pairs_of_lists(start, h, low, member, value, rows):
    for i in range(len(h)):
        if h[i] == 0.0:
            continue
        for s in range(start[i + 1] - 1, start[i] - 1, -1):
            if member[s] < low:
                break
            target = rows[member[s] - low]
            scale = h[i] * entry_value(value, s)
            for t in range(start[i], s + 1):
                target[member[t]] += scale * entry_value(value, t)


class ColumnSplit(NamedTuple):
    """Positions of columns by how they are multiplied."""

    paired: np.ndarray  # sparse: entry by entry with each other
    dense: np.ndarray  # by BLAS with each other, computed ones, too
    grouped: list  # by labels, see `grouped_gram`
    single: np.ndarray  # that change over time: one by one with all

    @classmethod
    def of(cls, products, columns):
        """Split columns."""
        everywhere = products.whole[columns]
        is_dense = products.kind[products.source[columns]] >= DENSE
        paired, dense, single = map(
            np.flatnonzero, (~is_dense & everywhere, is_dense & everywhere, ~everywhere)
        )
        grouped = groups_of(products, products.source[columns], dense)
        if grouped:
            dense = np.setdiff1d(dense, np.concatenate([where for where, *_ in grouped]))
        return cls(paired, dense, grouped, single)


def count_entries(products):
    """Entries of all columns of X; codes of one variable are read once for all its columns."""
    every = np.arange(len(products.entries))
    grouped = [where for where, *_ in groups_of(products, every, every)]
    alone = np.delete(products.entries, np.concatenate([every[:0], *grouped]))
    return float(alone.sum()) + len(grouped) * products.n_base


def count(products, columns, group_of_row, n_groups):
    """Pairs that are added up one by one, products that are not, entries of columns and visits.

    `group_of_row` (None: bins are few) are strata whose loads are paired too, at most as many as
    their rows have entries.
    """
    paired, dense, grouped, single = ColumnSplit.of(products, columns)
    n_base, in_row = products.n_base, np.zeros(products.n_base)
    source = products.source[columns[paired]]
    products.add(source, np.ones(len(paired)), ONE, in_row)
    sparse = float(products.entries[source].sum())
    pairs = 0.5 * (float(np.dot(in_row, in_row)) + sparse)
    by_blas = 0.5 * len(dense) ** 2 * (n_base + n_groups)
    n_single = len(dense) if len(paired) else 0
    entries = sparse + (len(dense) + len(single) + len(grouped)) * n_base
    pairs += 0.5 * (n_single + len(single) * products.n_pieces) * entries
    pairs += len(grouped) * (0.5 * len(grouped) * n_base + sparse + len(dense) * n_base)
    if group_of_row is None:
        by_blas += 0.5 * len(columns) ** 2 * n_groups
    else:
        in_group = np.bincount(group_of_row, weights=in_row, minlength=n_groups)
        pairs += 0.5 * float(np.minimum(in_group, len(columns)) @ in_group)
    copies = float((n_base - products.first).sum()) / max(n_base, 1)
    return pairs, by_blas, entries, copies * entries


def rows_of_model(products, columns, known, h, centring, loads, tables=None):
    """Rows ``known:`` of the model's matrix over columns; `loads` (None: a bin a stratum)."""
    rows = rows_of_gram(products, columns, known, h, tables)
    if loads is None:
        _subtract_strata(rows, products, columns, h, centring, known)
    else:
        subtract_loads(rows, loads, centring.bins.inverse, known)
    return rows


def centred_rows(products, columns, h):
    """X' diag(h) X over columns, less what their mean makes of it; 0 where that leaves nothing."""
    rows, load, total = (
        rows_of_gram(products, columns, 0, h),
        products.of_columns(columns, h),
        h.sum(),
    )
    plain = np.diagonal(rows).copy()
    if total > 0.0:
        rows -= np.outer(load, load / total)
    lost = np.diagonal(rows) <= CONSTANT * plain
    rows[lost], rows[:, lost] = 0.0, 0.0
    return rows


def rows_of_gram(products, columns, known, h_copies, tables=None):
    """Rows ``known:`` of X' diag(h) X over columns; `tables` are those of the same h."""
    rows = np.zeros((len(columns) - known, len(columns)))
    if not products.n_base:
        return rows
    split, source = ColumnSplit.of(products, columns), products.source[columns]
    h = products.over_pieces(h_copies, (0, products.n_pieces))
    if len(split.paired):
        _add_paired(products.tiles, source, split.paired, h, known, products.threads, rows)
        _mirror(rows[:, known:])
    _add_dense(products, source, split.dense, h, known, rows)
    if split.grouped:
        add_grouped(products, source, split, h, known, rows, tables or PairTables())
    if len(split.single) or (len(split.dense) and len(split.paired)):
        _add_single(products, columns, split, h_copies, known, rows)
    return rows


def _add_paired(tiles, source, paired, h, known, threads, rows):
    """Products of sparse columns, in the lower triangle."""
    if not len(paired) or paired[-1] < known:
        return
    all_ones = not np.any(tiles.kind[source[paired]] == SPARSE)

    def part(low, high):
        label = paired[: np.searchsorted(paired, high)]
        own = source[label]
        stored = np.diff(tiles.indptr, axis=1)[:, own]
        room = int(np.minimum(stored, _CHUNK).sum(axis=1).max())  # entries of a chunk of rows
        member, value = np.empty(room, np.uint32), None if all_ones else np.empty(room)
        add_pairs(tiles, own, label, h, low, member, value, rows[low - known :])

    threads.over_triangle(part, known, rows.shape[1])


@kernel
def _mirror(square):
    """Copy the lower triangle to the upper one."""
    for a in range(square.shape[0]):
        for b in range(a):
            square[b, a] = square[a, b]


def _add_dense(products, source, dense, h, known, rows):
    """Products of dense columns, some rows of X at a time."""
    new = dense[dense >= known]
    if not len(new):
        return
    chunk = max(64, _DENSE_BYTES // (8 * len(dense)))
    is_all = len(dense) == rows.shape[1]
    total = rows if is_all else np.zeros((len(new), len(dense)))
    for tile in products.tiles.each():
        values = _rows_of_values(tile, source[dense], products.computed)
        root = np.sqrt(np.maximum(h[tile.first : tile.end], 0.0))  # may be negative by rounding
        some = np.flatnonzero(root)
        is_sample = len(some) < SAMPLED * tile.n_rows
        for low in range(0, len(some) if is_sample else tile.n_rows, chunk):
            which = some[low : low + chunk] if is_sample else slice(low, low + chunk)
            part = values(which)
            part *= root[which]
            total += part[len(dense) - len(new) :] @ part.T  # of all with all: half, by NumPy
    if not is_all:
        rows[np.ix_(new - known, dense)] = total


def values_of(products, columns):
    """Values of columns that are the same at all times, (columns, rows)."""
    source = products.source[columns]
    if not len(columns) or np.any(products.kind[source] < DENSE):
        return products.dense(columns)
    values = np.empty((len(columns), products.n_base))
    for tile in products.tiles.each():
        own = _rows_of_values(tile, source, products.computed)
        values[:, tile.first : tile.end] = own(slice(0, tile.n_rows))
    return values


def _rows_of_values(tile, columns, computed):
    """Function of the values of dense columns on some rows of a tile, a copy."""
    if (tile.kind[columns] == COMPUTED).any():
        return lambda rows: _with_computed(tile, columns, computed, rows)
    begin = tile.value_ptr[columns]
    if not np.any(begin % tile.n_rows) and len(tile.values) % tile.n_rows == 0:
        table, which = tile.values.reshape(-1, tile.n_rows), begin // tile.n_rows
        return lambda rows: table[which[:, None], rows] if np.ndim(rows) else table[which, rows]
    return lambda rows: np.stack([tile.values[v : v + tile.n_rows][rows] for v in begin])


def _with_computed(tile, columns, computed, rows):
    """Values of dense columns and of computed ones on some rows of a tile."""
    rows, is_computed = np.arange(tile.n_rows)[rows], tile.kind[columns] == COMPUTED
    out = np.empty((len(columns), len(rows)))
    out[is_computed] = computed.values(columns[is_computed], tile.first + rows)
    for a in np.flatnonzero(~is_computed):
        out[a] = tile.values[tile.value_ptr[columns[a]] + rows]
    return out


def _add_single(products, columns, split, h, known, rows):
    """Products of dense columns with sparse ones, and of those that change over time with all."""
    pairs = [(split.dense, split.paired), (split.single, np.arange(len(columns)))]
    for singles, others in pairs:
        for a in singles:
            needed = others if a >= known else others[others >= known]
            found = products.of_columns(columns[needed], h * products.dense(columns[a : a + 1])[0])
            if a >= known:
                rows[a - known, needed] = found
            is_new = needed >= known
            rows[needed[is_new] - known, a] = found[is_new]


def subtract_loads(rows, loads, inverse, known):
    """Take the second term from rows of the matrix, `loads` being those of all its columns."""
    weighted = loads * np.sqrt(inverse)
    step = max(1, _DENSE_BYTES // (8 * max(1, rows.shape[1])))
    for low in range(0, len(rows), step):  # of all with all: half of it, by NumPy
        rows[low : low + step] -= weighted[known + low : known + low + step] @ weighted.T


def _subtract_strata(rows, products, columns, h, centring, known):
    """Take the second term from rows of the matrix where each stratum is a bin."""
    if (products.kind[products.source[columns]] == COMPUTED).any():
        bins = centring.bins
        labels = products.labels(bins.exit_bin, len(bins.base))
        loads = products.labelled(columns, h, labels)
        subtract_loads(rows, loads, bins.inverse, known)
        return
    loads, inverse = loads_of_strata(products, columns, h, centring)
    every, term = np.arange(len(columns)), np.zeros_like(rows)
    _add_paired(loads, every, every, inverse, known, products.threads, term)
    _mirror(term[:, known:])
    rows -= term
