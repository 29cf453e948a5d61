"""Products of scores of sparse columns, by their entries.

The scores of rows along the columns of X are ``diag(a) X + W T``: a number a row, and few entries a
row of W that say with which weights it takes part in the tables T, of what rows of a cell or a
group have in common. The sum of products over rows is

    X'A A X + (X'A W) T + T'(X'A W)' + T'(W'W) T,

of which no part is as large as the scores, where tables have fewer lines than there are rows.
Clusters of rows, which are fewer, have scores that are written out: their sparse sums, and (G W) T
with G, which adds up the rows of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array, hstack

from ..backends.cpu.tile_gram import rows_of_gram
from ..backends.meat import meat_of


class TableEntries(NamedTuple):
    """Of every row, the line of a table that its scores take, and with which weight."""

    line: np.ndarray
    weight: np.ndarray
    n_lines: int

    def matrix(self):
        n_rows = len(self.line)
        parts = self.weight, self.line, np.arange(n_rows + 1)
        return csr_array(parts, shape=(n_rows, self.n_lines))


class EntryScores:
    """Scores of rows as sums; ``tables(columns)`` are those of `shares`, one below the other."""

    def __init__(self, of_x, shares, tables: Callable[[np.ndarray], np.ndarray]):
        self.of_x, self.shares, self.tables = of_x, shares, tables  # of_x: a
        self.n_lines = sum(share.n_lines for share in shares)

    @cached_property
    def lines(self):
        """W."""
        return csr_array(hstack([share.matrix() for share in self.shares]))

    def of_rows(self, X, columns, blocks, dense):
        """Sum of products over rows, and with `dense` scores of other columns.

        Two blocks have tables at a time. With H = X'A W + T'(W'W)/2, the last three terms are H T
        and its transpose.
        """
        total = rows_of_gram(X, columns, 0, self.of_x**2)
        square, in_tables = 0.5 * csr_array(self.lines.T @ self.lines), self.lines.T @ dense
        mixed = np.empty((len(columns), dense.shape[1]))
        for k, own in enumerate((dense * self.of_x[:, None]).T):
            mixed[:, k] = X.of_columns(columns, own)

        def open_block(J):
            table = self.tables(columns[J])
            return table, self._cross(X, columns[J]) + (square @ table).T

        for k, J in enumerate(blocks):
            table, half = open_block(J)
            part = half @ table
            total[np.ix_(J, J)] += part + part.T
            mixed[J] += table.T @ in_tables
            for K in blocks[k + 1 :]:
                other, other_half = open_block(K)
                part = half @ other + (other_half @ table).T
                total[np.ix_(J, K)] += part
                total[np.ix_(K, J)] += part.T
        return total, mixed

    def _cross(self, X, columns):
        """X'A W."""
        parts = [
            X.labelled(columns, self.of_x * share.weight, X.labels(share.line, share.n_lines))
            for share in self.shares
        ]
        return np.hstack(parts)

    def of_clusters(self, collect, sparse, columns, blocks, dense):
        """Sums over clusters, of rows that `collect` adds up; `sparse` has the columns."""
        n_columns, last = len(columns), len(columns) + np.arange(dense.shape[1])
        sums = csc_array(collect @ (diags_array(self.of_x) @ sparse))
        lines = csr_array(collect @ self.lines)

        def scores_of(J):
            return dense if J is last else sums[:, J].toarray() + lines @ self.tables(columns[J])

        total = meat_of([*blocks, last], scores_of)
        return total[:n_columns, :n_columns], total[:n_columns, n_columns:]
