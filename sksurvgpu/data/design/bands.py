"""Columns of which a row has a few neighbouring ones that are not zero, as of B-splines, or sums of
such columns.
"""

from dataclasses import dataclass

import numpy as np

from ..._compile import kernel
from .codes import part_of
from .computed import ComputedBlock
from .kernels import SIZE, SQUARE, VALUE

ROWS_AT_ONCE = 2**16


@dataclass(frozen=True, eq=False)
class BandColumns(ComputedBlock):
    """Columns of one variable."""

    first: np.ndarray  # uint16: the first band that a row has
    weights: np.ndarray  # (n_rows, width): values of that one and of those behind it
    n_bands: int
    matrix: np.ndarray | None = None  # (n_bands, n_columns): each column's sum of bands

    @property
    def n_rows(self):
        return len(self.first)

    @property
    def n_columns(self):
        return self.n_bands if self.matrix is None else self.matrix.shape[1]

    @property
    def nbytes(self):
        return sum(of.nbytes for of in (self.first, self.weights, self.matrix) if of is not None)

    def take(self, rows):
        return BandColumns(self.first[rows], self.weights[rows], self.n_bands, self.matrix)

    def _combine(self, bands, columns):
        """Columns, of numbers of bands; rows may reach beyond the last."""
        if self.matrix is None:
            return bands[columns]
        return self.matrix[:, columns].T @ bands[: self.n_bands]

    def sums(self, columns, numbers, form, label=None, n_labels=1):
        label = np.zeros(1, np.uint8) if label is None else label
        if self.matrix is not None and form != VALUE:
            out, some = np.zeros((len(columns), n_labels)), self.matrix[:, columns]
            _add_sums_of_parts(self.first, self.weights, some, form, label, numbers, out)
            return out
        found = np.zeros((self.n_bands + self.weights.shape[1], n_labels))
        _add_sums(self.first, part_of(self.weights, form), label, numbers, found)
        return self._combine(found, columns)

    def add(self, columns, coef, form, out):
        if self.matrix is not None and form != VALUE:
            for low in range(0, self.n_rows, ROWS_AT_ONCE):
                rows = np.arange(low, min(low + ROWS_AT_ONCE, self.n_rows))
                out[rows] += coef @ part_of(self.values(columns, rows), form)
            return
        every = np.zeros(self.n_bands + self.weights.shape[1])
        if self.matrix is None:
            np.add.at(every, columns, coef)
        else:
            every[: self.n_bands] = self.matrix[:, columns] @ coef
        _add_products(self.first, part_of(self.weights, form), every, out)

    def values(self, columns, rows):
        width, every = self.weights.shape[1], np.arange(len(rows))
        found = np.zeros((self.n_bands + width, len(rows)))
        first, weights = self.first[rows], self.weights[rows]
        for d in range(width):
            found[first + d, every] = weights[:, d]
        return self._combine(found, columns)


@kernel
def _add_sums(first, weights, label, numbers, out):
    """Add entries times numbers of rows, by label of rows, which may be one for all."""
    is_one = len(label) < len(first)
    for i in range(len(first)):
        where = np.int64(label[0]) if is_one else np.int64(label[i])
        for d in range(weights.shape[1]):
            out[first[i] + d, where] += weights[i, d] * numbers[i]


@kernel
def _add_sums_of_parts(first, weights, matrix, form, label, numbers, out):
    """Add what counts of sums of bands times numbers of rows, by label as above."""
    is_one = len(label) < len(first)
    for i in range(len(first)):
        where = np.int64(label[0]) if is_one else np.int64(label[i])
        for k in range(matrix.shape[1]):
            x = 0.0
            for d in range(weights.shape[1]):
                x += weights[i, d] * matrix[first[i] + d, k]
            x = abs(x) if form == SIZE else x * x if form == SQUARE else np.float64(x != 0.0)
            out[k, where] += x * numbers[i]


@kernel
def _add_products(first, weights, coef, out):
    """Add entries times coefficients of columns."""
    for i in range(len(first)):
        for d in range(weights.shape[1]):
            out[i] += weights[i, d] * coef[first[i] + d]
