"""Columns of which a row has a few neighbouring ones that are not zero, as of B-splines."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..._compile import kernel
from .codes import part_of
from .computed import ComputedBlock

__all__ = ["BandColumns"]


@dataclass(frozen=True, eq=False)
class BandColumns(ComputedBlock):
    """Columns of one variable."""

    first: np.ndarray  # uint16: the first column that a row has
    weights: np.ndarray  # (n_rows, width): values of that one and of those behind it
    n_columns: int

    @property
    def n_rows(self):
        return len(self.first)

    @property
    def nbytes(self):
        return self.first.nbytes + self.weights.nbytes

    def take(self, rows):
        return BandColumns(self.first[rows], self.weights[rows], self.n_columns)

    def sums(self, columns, numbers, form, label=None, n_labels=1):
        width = self.weights.shape[1]
        found = np.zeros((self.n_columns + width, n_labels))  # rows may reach beyond the last
        label = np.zeros(1, np.uint8) if label is None else label
        _add_sums(self.first, part_of(self.weights, form), label, numbers, found)
        return found[columns]

    def add(self, columns, coef, form, out):
        every = np.zeros(self.n_columns + self.weights.shape[1])
        np.add.at(every, columns, coef)
        _add_products(self.first, part_of(self.weights, form), every, out)

    def values(self, columns, rows):
        offset = columns[:, None] - self.first[rows].astype(np.int64)
        width = self.weights.shape[1]
        found = self.weights[rows[None, :], np.clip(offset, 0, width - 1)]
        return np.where((offset >= 0) & (offset < width), found, 0.0)


@kernel
def _add_sums(first, weights, label, numbers, out):
    """Add entries times numbers of rows, by label of rows, which may be one for all."""
    is_one = len(label) < len(first)
    for i in range(len(first)):
        where = np.int64(label[0]) if is_one else np.int64(label[i])
        for d in range(weights.shape[1]):
            out[first[i] + d, where] += weights[i, d] * numbers[i]


@kernel
def _add_products(first, weights, coef, out):
    """Add entries times coefficients of columns."""
    for i in range(len(first)):
        for d in range(weights.shape[1]):
            out[i] += weights[i, d] * coef[first[i] + d]
