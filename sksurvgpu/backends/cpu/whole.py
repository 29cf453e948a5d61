"""Products of the whole of X: loops over columns, and BLAS where dense ones lie side by side."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data.design.columns import DENSE
from . import products
from .columns import changes_over_time, over_pieces, without_pieces

FEWEST = 16  # columns of a matrix that is worth a call
BLOCK = 512  # columns a call, whatever the number of threads: sums are the same for any
SMALLEST_ROW_RANGE = 50_000


class Run(NamedTuple):
    """Model columns `first` and so on, whose values are the rows of `table`."""

    first: int
    table: np.ndarray

    @property
    def end(self):
        return self.first + len(self.table)


def _dense_runs(X):
    """Runs of dense columns, each at most `BLOCK` long."""
    is_dense = (X.kind[X.source] == DENSE) & (X.n_base > 0)
    begin = X.value_ptr[X.source]
    follows = is_dense[1:] & is_dense[:-1] & (np.diff(begin) == X.n_base)
    edges = np.concatenate([[0], np.flatnonzero(~follows) + 1, [len(begin)]])
    ranges = np.column_stack([edges[:-1], edges[1:]])[np.diff(edges) >= FEWEST]
    runs = []
    for low, high in ranges[is_dense[ranges[:, 0]]]:
        for first in range(low, high, BLOCK):
            end = min(first + BLOCK, high)
            values = X.values[begin[first] : begin[first] + (end - first) * X.n_base]
            runs.append(Run(first, values.reshape(-1, X.n_base)))
    return runs


class Products:
    """X times coefficients, and columns of X times numbers a row.

    Columns that do not change over time are multiplied on the rows of X, whatever their copies.
    """

    def __init__(self, X, threads):
        self._X, self._threads = X, threads
        self._base = without_pieces(X) if len(X.first) > 1 else X
        self._changes = changes_over_time(X)
        self._runs = [run for run in _dense_runs(X) if not self._changes[run.first : run.end].any()]
        in_run = np.zeros(len(X.source), bool)
        for run in self._runs:
            in_run[run.first : run.end] = True
        self._beside = np.flatnonzero(~in_run)

    def predict(self, coef, offset, eta):
        """eta = offset + X coef."""
        active = np.flatnonzero(coef)
        if self._base is self._X:
            eta[:] = 0.0 if offset is None else offset
            self._add(self._X, active, coef, eta)
            return
        changing = active[self._changes[active]]
        eta[: self._X.n_base] = 0.0
        self._add(self._base, active[~self._changes[active]], coef, eta)
        for first, shift in zip(self._X.first[1:], self._X.shift[1:], strict=True):
            eta[first + shift : self._X.n_base + shift] = eta[first : self._X.n_base]
        if len(changing):
            self._add(self._X, changing, coef, eta)
        if offset is not None:
            eta += offset

    def _add(self, X, active, coef, eta):
        def part(low, high):
            products.add_product(X, active, coef[active], low, high, eta)

        self._threads.over_ranges(part, X.n_base, SMALLEST_ROW_RANGE)

    def of_columns(self, columns, u):
        """x_j'u of columns."""
        if not self._runs or len(columns) < len(self._changes):
            return self._by_loops(products.gradient_of_columns, columns, u)
        out, base = np.empty(len(self._changes)), over_pieces(self._X, u)

        def multiply(run):
            np.dot(run.table, base, out=out[run.first : run.end])

        self._threads.map(multiply, self._runs)
        out[self._beside] = self._by_loops(products.gradient_of_columns, self._beside, u)
        return out[columns]

    def absolute(self, r):
        """|x_j|'r of all columns."""
        return self._by_loops(products.absolute_products, np.arange(len(self._changes)), r)

    def _by_loops(self, kernel, columns, numbers):
        out = np.empty(len(columns))
        changes = self._changes[columns]
        parts = [(self._base, ~changes, over_pieces(self._X, numbers))]
        if changes.any():
            parts.append((self._X, changes, numbers))
        for X, which, values in parts:
            some, found = columns[which], np.empty(np.count_nonzero(which))

            def part(low, high, X=X, some=some, values=values, found=found):
                kernel(X, some[low:high], values, found[low:high])

            self._threads.over_ranges(part, len(some))
            out[which] = found
        return out
