"""Products of scores of sparse columns, by their entries.

The scores of rows along the columns of X are ``diag(a) X + W T``: a number a row, and few entries a
row of W that say with which weights it takes part in the tables T, of what rows of a cell or a
group have in common. The sum of products over rows is

    X'A A X + (X'A W) T + T'(X'A W)' + T'(W'W) T,

of which no part is as large as the scores, where tables have fewer lines than there are rows. A
row takes the same line of all tables, so that these are made, and added up, by runs of lines.
Clusters of rows, which are fewer, have scores that are written out: their sparse sums, and (G W) T
with G, which adds up the rows of a cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

import numpy as np
from scipy.sparse import csc_array, csr_array, diags_array, hstack

from ..backends.cpu.tile_gram import rows_of_gram
from ..backends.meat import meat_of

MOST_IN_RUN = 2**22  # numbers of columns at the lines of a run: 32 MiB, which are soon used again


def runs_of(n_lines, n_columns) -> Iterator[tuple[int, int]]:
    """Runs of lines, (first, end), in which columns fill no more than some memory."""
    size = max(1, MOST_IN_RUN // max(1, n_columns))
    return ((low, min(low + size, n_lines)) for low in range(0, n_lines, size))


def sums_by_line(X, columns, numbers, line, low, high):
    """Sums by lines from `low` to before `high`, whose ends take what is before and behind."""
    labels = X.labels(np.clip(line, low, high - 1) - low, high - low)
    return X.labelled(columns, numbers, labels)


class EntryScores:
    """Scores of rows as sums.

    Rows take a line, the same of all tables, with `weights` (n_tables, n_rows). ``tables(columns)``
    yields ``low, high, tables`` of runs of lines, one table below the other.
    """

    def __init__(self, of_x, line, weights, n_lines, tables: Callable[[np.ndarray], Iterator]):
        self.of_x, self.line, self.weights, self.tables = of_x, line, weights, tables  # of_x: a
        self.n_in_table, self.n_lines = n_lines, n_lines * len(weights)

    @cached_property
    def lines(self):
        """W."""
        ptr, shape = np.arange(len(self.line) + 1), (len(self.line), self.n_in_table)
        return csr_array(hstack([csr_array((w, self.line, ptr), shape) for w in self.weights]))

    def of_rows(self, X, columns, dense):
        """Sum of products over rows, and with `dense` scores of other columns.

        With H = X'A W + T'(W'W)/2, the last three terms are H T and its transpose.
        """
        total = rows_of_gram(X, columns, 0, self.of_x**2)
        square, in_tables = 0.5 * csr_array(self.lines.T @ self.lines), self.lines.T @ dense
        mixed = np.empty((len(columns), dense.shape[1]))
        for k, own in enumerate((dense * self.of_x[:, None]).T):
            mixed[:, k] = X.of_columns(columns, own)
        starts = self.n_in_table * np.arange(len(self.weights))[:, None]
        for low, high, table in self.tables(columns):
            own = (starts + np.arange(low, high)).ravel()
            half = self._cross(X, columns, low, high)
            half += (square[own][:, own] @ table).T
            part = half @ table
            total += part + part.T
            mixed += table.T @ in_tables[own]
        return total, mixed

    def _cross(self, X, columns, low, high):
        """X'A W of a run."""
        of_x = self.of_x * ((self.line >= low) & (self.line < high))
        parts = [sums_by_line(X, columns, of_x * w, self.line, low, high) for w in self.weights]
        return np.hstack(parts)

    def of_clusters(self, collect, sparse, columns, blocks, dense):
        """Sums over clusters, of rows that `collect` adds up; `sparse` has the columns."""
        n_columns, last = len(columns), len(columns) + np.arange(dense.shape[1])
        sums = csc_array(collect @ (diags_array(self.of_x) @ sparse))
        lines = csr_array(collect @ self.lines)

        def scores_of(J):
            return dense if J is last else sums[:, J].toarray() + lines @ self._whole(columns[J])

        total = meat_of([*blocks, last], scores_of)
        return total[:n_columns, :n_columns], total[:n_columns, n_columns:]

    def _whole(self, columns):
        """All lines of the tables."""
        out = np.empty((len(self.weights), self.n_in_table, len(columns)))
        for low, high, table in self.tables(columns):
            out[:, low:high] = table.reshape(len(out), high - low, -1)
        return out.reshape(self.n_lines, -1)
