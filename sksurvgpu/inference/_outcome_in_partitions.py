"""Many outcomes of rows in partitions: what has one entry a row is in memory, X is not.

An outcome, its weights and its strata are cut as X is and sent to where its partitions are read.
Fits come one after the other, and threads or workers share the partitions of each.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from ..estimators._partitioned import check_parameters
from ..estimators._prepared import count_threads
from ..partitions.columns import ColumnsInPartitions
from ..partitions.dask import as_rows
from ._outcome import SharedInput


class SharedPartitions(SharedInput):
    """Input that all outcomes share, X in partitions."""

    most_at_once = 1

    def __init__(self, *given):
        with ExitStack() as self._opened:
            super().__init__(*given)

    def _open(self, X):
        check_parameters(self.model)
        self.X = as_rows(X)
        self._far = self._opened.enter_context(self._columns())
        self._ends = self._far.ends
        self._shape = self._far.n_rows, self._far.n_columns, self._far.names

    def _columns(self):
        return ColumnsInPartitions(self.X, {}, count_threads(self.model.n_jobs))

    def _column(self, j):
        return self._far.column(j)

    def describe(self):
        """Names of the columns, digests of partitions, and where these end."""
        with self._columns() as far:
            return [far.names, far.digests(), self._ends]

    def arrange(self, first, n_threads):
        """Leave X where it is; partitions order their rows as they like."""

    def _rows(self, outcome, y, rest):
        place = partial(self.X.beside, ends=self._ends)
        return self.X, place(y), {key: place(values) for key, values in rest.items()}
