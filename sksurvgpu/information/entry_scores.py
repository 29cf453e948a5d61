"""Sums over clusters of products of scores, of sparse columns by their entries.

The scores of rows along the columns of X are ``diag(a) X + W T``: a number a row, and few entries a
row of W that say with which weights it takes part in the tables T, of what rows of a cell or a
group have in common. With G, which adds up rows of clusters, the sum of products is

    X'A G'G A X + (X'A G'G W) T + T'(X'A G'G W)' + T'(W'G'G W) T,

of which no part is as large as the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array, hstack

from ..backends.cpu.tile_gram import rows_of_gram


class TableEntries(NamedTuple):
    """Of every row, the line of a table that its scores take, and with which weight."""

    line: np.ndarray
    weight: np.ndarray
    n_lines: int

    def matrix(self):
        n_rows = len(self.line)
        parts = self.weight, self.line, np.arange(n_rows + 1)
        return csr_array(parts, shape=(n_rows, self.n_lines))


class EntryScores(NamedTuple):
    """Scores of rows as sums; ``tables(columns)`` are those of `shares`, one below the other."""

    of_x: np.ndarray  # a
    shares: list[TableEntries]
    tables: Callable[[np.ndarray], np.ndarray]

    @property
    def n_lines(self):
        return sum(share.n_lines for share in self.shares)


class OfRows:
    """Products over rows that are clusters by themselves."""

    def __init__(self, X, scores, columns):
        self.X, self._scores, self._columns = X, scores, columns

    @cached_property
    def shares(self):
        """G W."""
        return csr_array(hstack([share.matrix() for share in self._scores.shares]))

    def gram(self):
        """X'A G'G A X."""
        weight = self._scores.of_x**2
        return rows_of_gram(self.X, self._columns, 0, weight)

    def cross(self, which):
        """X'A G'G W, of some of the columns."""
        X, a, columns = self.X, self._scores.of_x, self._columns[which]
        parts = [
            X.labelled(columns, a * share.weight, X.labels(share.line, share.n_lines))
            for share in self._scores.shares
        ]
        return np.hstack(parts)

    def add_up(self, numbers):
        return numbers

    def spread(self, numbers):
        """Numbers of clusters for their rows."""
        return numbers


class OfClusters(OfRows):
    """Products over clusters of rows, which `collect` adds up, by sparse matrices."""

    def __init__(self, X, scores, columns, collect, sparse):
        super().__init__(X, scores, columns)
        self._collect = collect
        self._sums = csc_array(collect @ (diags_array(scores.of_x) @ sparse))

    @cached_property
    def shares(self):
        return csr_array(self._collect @ super().shares)

    def gram(self):
        return (self._sums.T @ self._sums).toarray()

    def cross(self, which):
        return (self._sums[:, which].T @ self.shares).toarray()

    def add_up(self, numbers):
        return self._collect @ numbers

    def spread(self, numbers):
        return self._collect.T @ numbers


def meat_of_entries(sums, scores, columns, blocks):
    """Sum of products of scores of sparse columns, of which two blocks have tables at a time.

    With H = X'A G'G W + T'(W'G'G W)/2, the last three terms are H T and its transpose.
    """
    total, square = sums.gram(), 0.5 * csr_array(sums.shares.T @ sums.shares)

    def open_block(J):
        table = scores.tables(columns[J])
        return table, sums.cross(J) + (square @ table).T

    for k, J in enumerate(blocks):
        table, half = open_block(J)
        part = half @ table
        total[np.ix_(J, J)] += part + part.T
        for K in blocks[k + 1 :]:
            other, other_half = open_block(K)
            part = half @ other + (other_half @ table).T
            total[np.ix_(J, K)] += part
            total[np.ix_(K, J)] += part.T
    return total


def cross_with_dense(sums, scores, columns, blocks, dense):
    """Products of scores of sparse columns and of those of dense ones, (clusters, columns)."""
    of_rows = sums.spread(dense) * scores.of_x[:, None]
    total = np.column_stack([sums.X.of_columns(columns, own) for own in of_rows.T])
    in_tables = sums.shares.T @ dense
    for J in blocks:
        total[J] += scores.tables(columns[J]).T @ in_tables
    return total
