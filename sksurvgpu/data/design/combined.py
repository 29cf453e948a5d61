"""Columns that are sums of those of another block, times factors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .codes import part_of
from .computed import ComputedBlock
from .kernels import VALUE

__all__ = ["CombinedColumns"]

VALUES_AT_ONCE = 2**20  # of columns of the other block


@dataclass(frozen=True, eq=False)
class CombinedColumns(ComputedBlock):
    """Sums over rows are combined as the columns are."""

    block: ComputedBlock
    matrix: np.ndarray  # (columns of the block, n_columns): factors in each sum

    @property
    def n_rows(self):
        return self.block.n_rows

    @property
    def n_columns(self):
        return self.matrix.shape[1]

    @property
    def nbytes(self):
        return self.block.nbytes + self.matrix.nbytes

    @property
    def _every(self):
        return np.arange(len(self.matrix))

    def take(self, rows):
        return CombinedColumns(self.block.take(rows), self.matrix)

    def sums(self, columns, numbers, form, label=None, n_labels=1):
        if form == VALUE:
            found = self.block.sums(self._every, numbers, form, label, n_labels)
            return self.matrix[:, columns].T @ found
        out = np.zeros((len(columns), n_labels))
        label = np.zeros(self.n_rows, np.uint8) if label is None else label
        for rows, values in self._parts(columns, form):
            for k, of_column in enumerate(values * numbers[rows]):
                out[k] += np.bincount(label[rows], of_column, n_labels)
        return out

    def add(self, columns, coef, form, out):
        if form == VALUE:
            self.block.add(self._every, self.matrix[:, columns] @ coef, form, out)
            return
        for rows, values in self._parts(columns, form):
            out[rows] += coef @ values

    def values(self, columns, rows):
        return self.matrix[:, columns].T @ self.block.values(self._every, rows)

    def _parts(self, columns, form):
        """Yield rows, as many at once as memory takes, and what counts of their values."""
        size = max(VALUES_AT_ONCE // len(self.matrix), 1)
        for low in range(0, self.n_rows, size):
            rows = np.arange(low, min(low + size, self.n_rows))
            yield rows, part_of(self.values(columns, rows), form)
