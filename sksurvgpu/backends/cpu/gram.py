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

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._compile import device, kernel
from ...data.design.columns import DENSE, SPARSE
from .bins import loads_of_strata
from .columns import (
    Columns,
    changes_over_time,
    column_operation,
    dot,
    entry_count,
    entry_row,
    entry_value,
    over_pieces,
    without_pieces,
)
from .optional import write
from .products import count_entries

_CHUNK = 4096
_DENSE_BYTES = 2**24  # of the rows of dense columns that are multiplied at once


@device
def _list_rows(X, columns, label, row, cursor, start, member, value):
    """Row lists of the columns for the chunk of rows that begins at `row`.

    Entries of chunk row i are ``start[i]:start[i + 1]`` of `member` (labels of the columns, which
    ascend) and `value`.  `cursor` remembers how far each column has been read.
    """
    end = row + _CHUNK
    start[:] = 0
    for a in range(len(columns)):
        c = X.source[columns[a]]
        for q in range(cursor[a], X.indptr[c + 1]):
            if X.indices[q] >= end:
                break
            start[X.indices[q] - row + 2] += 1
    for i in range(2, len(start)):
        start[i] += start[i - 1]
    for a in range(len(columns)):
        c = X.source[columns[a]]
        q = cursor[a]
        while q < X.indptr[c + 1] and X.indices[q] < end:
            i = X.indices[q] - row + 1
            member[start[i]] = label[a]
            if X.kind[c] == SPARSE:
                write(value, start[i], X.values[X.value_ptr[c] + q - X.indptr[c]])
            else:
                write(value, start[i], 1.0)
            start[i] += 1
            q += 1
        cursor[a] = q


@kernel
def most_entries(X, columns):
    """Largest number of entries that a chunk of rows can hold."""
    most = 0
    for a in range(len(columns)):
        c = X.source[columns[a]]
        most += min(_CHUNK, X.indptr[c + 1] - X.indptr[c])
    return most


@kernel
def add_pairs(X, columns, label, h, low, member, value, rows):
    """Add sum_i h_i x_ia x_ib to ``rows[label_a - low, label_b]`` for label_b <= label_a."""
    start, cursor = np.empty(_CHUNK + 2, np.int64), np.empty(len(columns), np.int64)
    for a in range(len(columns)):
        cursor[a] = X.indptr[X.source[columns[a]]]
    for row in range(0, X.n_base, _CHUNK):
        _list_rows(X, columns, label, row, cursor, start, member, value)
        for i in range(min(_CHUNK, X.n_base - row)):
            for s in range(start[i + 1] - 1, start[i] - 1, -1):
                if member[s] < low:
                    break
                target = rows[member[s] - low]
                scale = h[row + i] * entry_value(value, s)
                for t in range(start[i], s + 1):
                    target[member[t]] += scale * entry_value(value, t)


@column_operation
def multiply_into(rows, values, shift, state):
    """out_i = h_i x_i."""
    rh, out = state
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        out[i] = rh[i, 1] * entry_value(values, q)
    return 0.0


@kernel
def multiply_with_others(X, columns, a, others, rh, scratch, out):
    """x_a' diag(h) x_b for the columns at positions `others`."""
    scratch[:] = 0.0
    multiply_into(X, columns[a], 0, X.n_base, (rh, scratch))
    for k in range(len(others)):
        out[k] = dot(X, columns[others[k]], 0, X.n_base, scratch)


class Split(NamedTuple):
    """Positions of columns by how they are multiplied."""

    paired: np.ndarray  # sparse: entry by entry with each other
    dense: np.ndarray  # by BLAS with each other
    single: np.ndarray  # that change over time: one by one with all

    @classmethod
    def of(cls, X, columns):
        """Split columns."""
        everywhere = ~changes_over_time(X)[columns]
        is_dense = X.kind[X.source[columns]] == DENSE
        return cls(
            *map(np.flatnonzero, (~is_dense & everywhere, is_dense & everywhere, ~everywhere))
        )


def count(X, columns, group_of_row, n_groups):
    """Pairs that are added up one by one, products that are not, entries of columns and visits.

    `group_of_row` (None: bins are few) are strata whose loads are paired too, at most as many as
    their rows have entries.
    """
    paired, dense, single = Split.of(X, columns)
    in_row = np.zeros(X.n_base, np.float32)
    if len(paired):
        count_entries(without_pieces(X), columns[paired], 0, X.n_base, in_row)
    sparse = float(in_row.sum(dtype=np.float64))
    pairs = 0.5 * (float(np.dot(in_row, in_row)) + sparse)
    products = 0.5 * len(dense) ** 2 * (X.n_base + n_groups)
    n_single = len(dense) if len(paired) else 0
    entries = sparse + (len(dense) + len(single)) * X.n_base
    pairs += 0.5 * (n_single + len(single) * len(X.first)) * entries
    if group_of_row is None:
        products += 0.5 * len(columns) ** 2 * n_groups
    else:
        in_group = np.bincount(group_of_row, weights=in_row, minlength=n_groups)
        pairs += 0.5 * float(np.minimum(in_group, len(columns)) @ in_group)
    copies = float((X.n_base - X.first).sum()) / max(X.n_base, 1)
    return pairs, products, entries, copies * entries


def rows_of_model(X, columns, known, rh, bins, loads, threads):
    """Rows ``known:`` of the model's matrix over columns; `loads` (None: a bin a stratum)."""
    rows = rows_of_gram(X, columns, known, rh, threads)
    if loads is None:
        subtract_strata(rows, X, columns, rh, bins, known, threads)
    else:
        subtract_loads(rows, loads, bins.inverse, known)
    return rows


def rows_of_gram(X, columns, known, rh, threads):
    """Rows ``known:`` of X' diag(h) X over columns."""
    rows = np.zeros((len(columns) - known, len(columns)))
    if not X.n_base:
        return rows
    split, h = Split.of(X, columns), over_pieces(X, rh[:, 1])
    if len(split.paired):
        _add_paired(without_pieces(X), columns, split.paired, h, known, threads, rows)
        _mirror(rows[:, known:])
    _add_dense(X, columns, split.dense, h, known, rows)
    if len(split.single) or (len(split.dense) and len(split.paired)):
        _add_single(X, columns, split, rh, known, rows)
    return rows


def _add_paired(X, columns, paired, h, known, threads, rows):
    """Products of sparse columns, in the lower triangle."""
    if not len(paired) or paired[-1] < known:
        return
    all_ones = not np.any(X.kind[X.source[columns[paired]]] == SPARSE)

    def part(low, high):
        label = paired[: np.searchsorted(paired, high)]
        room = most_entries(X, columns[label])
        value = None if all_ones else np.empty(room)
        numbers = h, low, np.empty(room, np.uint32), value
        add_pairs(X, columns[label], label, *numbers, rows[low - known :])

    threads.over_triangle(part, known, rows.shape[1])


@kernel
def _mirror(square):
    """Copy the lower triangle to the upper one."""
    for a in range(square.shape[0]):
        for b in range(a):
            square[b, a] = square[a, b]


def _add_dense(X, columns, dense, h, known, rows):
    """Products of dense columns, some rows of X at a time."""
    new = dense[dense >= known]
    if not len(new) or not X.n_base:
        return
    values = _rows_of_values(X, columns[dense])
    chunk = max(64, _DENSE_BYTES // (8 * len(dense)))
    total = np.zeros((len(new), len(dense)))
    for low in range(0, X.n_base, chunk):
        part = values(low, min(low + chunk, X.n_base))
        part *= np.sqrt(np.maximum(h[low : low + chunk], 0.0))  # rounding may have made it negative
        total += part[len(dense) - len(new) :] @ part.T  # of all with all: half of it, by NumPy
    rows[np.ix_(new - known, dense)] = total


def _rows_of_values(X, columns):
    """Function ``(low, high)`` of the values of dense columns on rows of X, a copy."""
    begin = X.value_ptr[X.source[columns]]
    if not np.any(begin % X.n_base) and len(X.values) % X.n_base == 0:
        table, which = X.values.reshape(-1, X.n_base), begin // X.n_base
        return lambda low, high: table[which, low:high]
    return lambda low, high: np.stack([X.values[v + low : v + high] for v in begin])


def _add_single(X, columns, split, rh, known, rows):
    """Products of dense columns with sparse ones, and of those that change over time with all."""
    scratch = np.empty(len(rh))
    pairs = [(split.dense, split.paired), (split.single, np.arange(len(columns)))]
    for singles, others in pairs:
        for a in singles:
            needed = others if a >= known else others[others >= known]
            found = np.empty(len(needed))
            multiply_with_others(X, columns, a, needed, rh, scratch, found)
            if a >= known:
                rows[a - known, needed] = found
            is_new = needed >= known
            rows[needed[is_new] - known, a] = found[is_new]


def subtract_loads(rows, loads, inverse, known):
    """Take the second term from rows of the matrix, `loads` being those of all its columns."""
    weighted = loads[known:] * inverse
    step = max(1, _DENSE_BYTES // (8 * max(1, rows.shape[1])))
    for low in range(0, len(rows), step):
        rows[low : low + step] -= weighted[low : low + step] @ loads.T


def subtract_strata(rows, X, columns, rh, bins, known, threads):
    """Take the second term from rows of the matrix where each stratum is a bin."""
    indptr, stratum, load = loads_of_strata(X, columns, rh, bins)
    n_strata, m = len(bins.inverse), len(columns)
    every, nothing = np.arange(m), np.zeros(1, np.int64)
    loads = Columns(
        np.full(m, SPARSE, np.uint8),
        indptr,
        stratum,
        load,
        indptr[:-1].copy(),
        every,
        np.tile(np.array([[0, 1]]), (m, 1)),
        nothing,
        nothing,
        n_strata,
    )
    term = np.zeros_like(rows)
    _add_paired(loads, every, every, bins.inverse, known, threads, term)
    _mirror(term[:, known:])
    rows -= term
