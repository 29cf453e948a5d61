"""Columns that are products of two others, of which only these are stored.

Sums of many products take a pass over rows: a row adds its number at each pair of its entries, to a
table of pairs. Sums of few take a pass over the rows of each second column. The entries that either
way reads are counted, and the shorter way is gone. Tables are of so few first columns that they
stay in cache.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..._compile import kernel, part_of_loop
from .codes import part_of
from .columns import Design
from .computed import ComputedBlock
from .kernels import DENSE, INDICATOR, SPARSE, VALUE
from .of_blocks import design_of

TABLE = 2**19  # numbers of a table


class Pairs(NamedTuple):
    """Columns that are multiplied, ascending by the first, then by the second, which is larger."""

    first: np.ndarray
    second: np.ndarray

    def take(self, which) -> Pairs:
        """Some of the pairs."""
        return Pairs(self.first[which], self.second[which])


class EntriesByRow(NamedTuple):
    """Columns and values of the rows' entries."""

    ptr: np.ndarray  # int64 (n_rows + 1,)
    columns: np.ndarray  # ascending in each row
    values: np.ndarray  # empty where all are ones


class Strip(NamedTuple):
    """Place of pairs in a table: that of columns a and b is ``offset[a - low] + b - low``."""

    low: int
    high: int  # behind the last of the first columns
    offset: np.ndarray
    begin: np.ndarray  # where entries of each row begin; moved on from strip to strip

    def place(self, pairs):
        """Places of pairs."""
        return self.offset[pairs.first - self.low] + pairs.second - self.low


def products_of(design, pairs) -> Design:
    """Make a design of the products of pairs of a design's columns, in their order."""
    used, pairs = _renumbered(pairs)
    base = design.select(used).stored()
    has_dense = (base.kind[pairs.first] == DENSE) | (base.kind[pairs.second] == DENSE)
    parts = [some for some in (np.flatnonzero(~has_dense), np.flatnonzero(has_dense)) if len(some)]
    blocks = []
    for some in parts:
        used, own = _renumbered(pairs.take(some))
        blocks.append(PairProducts(base.select(used).with_names(None), own))
    return design_of(*blocks).select(np.argsort(np.concatenate(parts)))


def _renumbered(pairs):
    """Columns of pairs, and these by number among them."""
    used = np.union1d(*pairs)
    return used, Pairs(*(np.searchsorted(used, columns).astype(np.int32) for columns in pairs))


@dataclass(frozen=True, eq=False)
class PairProducts(ComputedBlock):
    """Products of pairs of a design's columns, none of which is computed."""

    base: Design
    pairs: Pairs

    @property
    def n_rows(self):
        return self.base.n_rows

    @property
    def n_columns(self):
        return len(self.pairs.first)

    @property
    def nbytes(self):
        return self.base.nbytes + sum(part.nbytes for part in (*self._by_row, *self.pairs))

    def take(self, rows):
        return PairProducts(self.base[rows], self.pairs)

    @cached_property
    def _by_row(self):
        """Entries by row; none where a column is dense."""
        if (self.base.kind == DENSE).any():
            return EntriesByRow(np.zeros(1, np.int64), np.empty(0, np.uint16), np.empty(0))
        found, p = self.base.to_scipy().tocsr(), self.base.n_columns
        columns = found.indices.astype(np.uint16 if p <= 2**16 else np.int32)
        values = found.data if (self.base.kind == SPARSE).any() else np.empty(0)
        return EntriesByRow(found.indptr.astype(np.int64), columns, values)

    @cached_property
    def _steps(self):
        """Before each column: entries behind those of columns in their rows; places of pairs."""
        ptr, columns, _ = self._by_row
        behind = np.repeat(ptr[1:], np.diff(ptr)) - np.arange(1, len(columns) + 1)
        p = self.base.n_columns
        behind = np.bincount(columns, behind, p).astype(np.int64)
        return [np.concatenate([[0], np.cumsum(part)]) for part in (behind, p - np.arange(p))]

    def _strips(self, pairs, n_labels):
        """Ranges of pairs, and their strip, or None where columns are the shorter way."""
        if (self.base.kind == DENSE).any():
            yield slice(0, len(pairs.first)), None
            return
        (behind, places), begin, end = self._steps, None, 0
        while end < len(pairs.first):
            low, start = int(pairs.first[end]), end
            high = np.searchsorted(places, places[low] + TABLE // n_labels, "right") - 1
            high = max(low + 1, int(high))
            end = int(np.searchsorted(pairs.first, high))
            size = (places[high] - places[low]) * n_labels
            by_row = self.n_rows + behind[high] - behind[low] + size
            if by_row >= self.base.n_stored[pairs.second[start:end]].sum():
                yield slice(start, end), None
                continue
            begin = self._by_row.ptr[:-1].copy() if begin is None else begin
            offset = places[low : high + 1] - places[low] - np.arange(high - low + 1)
            yield slice(start, end), Strip(low, high, offset, begin)

    def _part(self, form):
        """Columns, and the same by row, whose entries are what of them counts."""
        base, by_row = self.base.arrays(), self._by_row
        if form == VALUE:
            return base, by_row
        by_row = by_row._replace(values=part_of(by_row.values, form))
        return base._replace(values=part_of(base.values, form)), by_row

    def sums(self, columns, numbers, form, label=None, n_labels=1):
        out, pairs = np.zeros((len(columns), n_labels)), self.pairs.take(columns)
        label = np.zeros(1, np.uint8) if label is None else label
        base, by_row = self._part(form)
        for some, strip in self._strips(pairs, n_labels):
            own = pairs.take(some)
            if strip is None:
                add_sums_by_column(base, own, numbers, label, out[some])
            else:
                table = np.zeros((strip.offset[-1] + self.base.n_columns - strip.low, n_labels))
                add_sums_by_row(by_row, strip, numbers, label, table)
                out[some] = table[strip.place(own)]
        return out

    def add(self, columns, coef, form, out):
        pairs, coef = self.pairs.take(columns), np.ascontiguousarray(coef, dtype=np.float64)
        base, by_row = self._part(form)
        for some, strip in self._strips(pairs, 1):
            own = pairs.take(some)
            if strip is None:
                add_by_column(base, own, coef[some], out)
            else:
                size = strip.offset[-1] + self.base.n_columns - strip.low
                add_by_row(by_row, strip, np.bincount(strip.place(own), coef[some], size), out)

    def values(self, columns, rows):
        first, second = self.pairs.take(columns)
        used = np.union1d(first, second)
        table = self.base.select(used)[rows].to_scipy().toarray(order="F").T
        return table[np.searchsorted(used, first)] * table[np.searchsorted(used, second)]


@part_of_loop
def _size(X, j, n_rows):
    return n_rows if X.kind[j] == DENSE else X.indptr[j + 1] - X.indptr[j]


@part_of_loop
def _row(X, j, k):
    """Row of entry k of a column."""
    return k if X.kind[j] == DENSE else np.int64(X.indices[X.indptr[j] + k])


@part_of_loop
def _value(X, j, k):
    return 1.0 if X.kind[j] == INDICATOR else X.values[X.value_ptr[j] + k]


@part_of_loop
def _label(label, i, n_rows):
    """Label of a row; there may be one for all."""
    return np.int64(label[i]) if len(label) == n_rows else np.int64(label[0])


@part_of_loop
def _begin(rows, strip, i):
    """First entry of a row that may be of the strip."""
    q = strip.begin[i]
    while q < rows.ptr[i + 1] and rows.columns[q] < strip.low:
        q += 1
    strip.begin[i] = q
    return q


@kernel
def add_sums_by_row(rows, strip, numbers, label, table):
    """Add numbers of rows at each pair of entries of a row, times these."""
    n, n_labels, flat = len(numbers), table.shape[1], table.reshape(-1)
    place, product = np.empty(len(strip.offset), np.uint64), np.empty(len(strip.offset))
    for i in range(n):
        where, before = _label(label, i, n), 0
        for q in range(_begin(rows, strip, i), rows.ptr[i + 1]):
            b = np.int64(rows.columns[q]) - strip.low
            x = rows.values[q] if len(rows.values) else 1.0
            behind = np.uint64(b * n_labels)  # unsigned: signed ones are looked at for a minus
            for k in range(before):
                flat[place[k] + behind] += product[k] * x
            if b + strip.low < strip.high:
                place[before] = np.uint64(strip.offset[b] * n_labels + where)
                product[before] = numbers[i] * x
                before += 1


@kernel
def add_by_row(rows, strip, table, out):
    """Add to numbers of rows what the table has at each pair of entries of a row, times these."""
    place, own = np.empty(len(strip.offset), np.uint64), np.empty(len(strip.offset))
    for i in range(len(out)):
        before = 0
        for q in range(_begin(rows, strip, i), rows.ptr[i + 1]):
            b = np.int64(rows.columns[q]) - strip.low
            x = rows.values[q] if len(rows.values) else 1.0
            behind, total = np.uint64(b), 0.0
            for k in range(before):
                total += table[place[k] + behind] * own[k]
            out[i] += total * x
            if b + strip.low < strip.high:
                place[before], own[before] = np.uint64(strip.offset[b]), x
                before += 1


@part_of_loop
def _spread(X, pairs, q, numbers, own):
    """Write a pair's first column times numbers of rows over all of them, not that of the last."""
    if q > 0 and pairs.first[q] == pairs.first[q - 1]:
        return
    if q > 0:
        for k in range(_size(X, pairs.first[q - 1], len(own))):
            own[_row(X, pairs.first[q - 1], k)] = 0.0
    for k in range(_size(X, pairs.first[q], len(own))):
        i = _row(X, pairs.first[q], k)
        own[i] = _value(X, pairs.first[q], k) * numbers[i]


@kernel
def add_sums_by_column(X, pairs, numbers, label, out):
    """Add sums of products times numbers of rows."""
    n = len(numbers)
    own = np.zeros(n)
    for q in range(len(pairs.first)):
        _spread(X, pairs, q, numbers, own)
        a, b, total = pairs.first[q], pairs.second[q], 0.0
        is_dense = X.kind[b] == DENSE
        along = a if is_dense else b  # of both the one that is sparse, if any
        for k in range(_size(X, along, n)):
            i = _row(X, along, k)
            x = own[i] * _value(X, b, i if is_dense else k)
            if len(label) == n:
                out[q, label[i]] += x
            else:
                total += x
        out[q, label[0]] += total


@kernel
def add_by_column(X, pairs, coef, out):
    """Add products times coefficients to numbers of rows."""
    n = len(out)
    own, ones = np.zeros(n), np.ones(n)
    for q in range(len(pairs.first)):
        _spread(X, pairs, q, ones, own)
        a, b = pairs.first[q], pairs.second[q]
        is_dense = X.kind[b] == DENSE
        along = a if is_dense else b
        for k in range(_size(X, along, n)):
            i = _row(X, along, k)
            out[i] += coef[q] * own[i] * _value(X, b, i if is_dense else k)
