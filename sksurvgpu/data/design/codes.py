"""Columns that are functions of a code: a row has one small number for all columns of a variable.

Sums over the rows of each code come first, in one pass over bytes; those of all columns follow from
them, whatever their number.
"""

from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np

from ..._compile import kernel
from .computed import ComputedBlock
from .kernels import ONE, SIZE, SQUARE

FEW_CODES = 256  # whose sums are so small that four of each stay in the nearest cache


def part_of(values, form):
    """Part of entries that counts."""
    if form == SIZE:
        return np.abs(values)
    if form == SQUARE:
        return values * values
    return (values != 0.0).astype(np.float64) if form == ONE else values


@dataclass(frozen=True)
class StepBasis:
    """Columns of ones where a code is above a threshold: column t has those above t."""

    n_codes: int
    nbytes = 0

    @property
    def n_columns(self):
        return self.n_codes - 1

    def values(self, columns):
        """Values of columns by code, (n_codes, len(columns))."""
        return (np.arange(self.n_codes)[:, None] > columns).astype(np.float64)

    def sums(self, by_code, columns, form):
        """Sums of columns, from those of the rows of each code, (n_codes, n_labels)."""
        del form  # of ones all are the same
        above = np.cumsum(by_code[::-1], axis=0)[::-1]
        return above[columns + 1]

    def combine(self, columns, coef, form):
        """Columns times coefficients, by code."""
        del form
        rises = np.zeros(self.n_codes)
        np.add.at(rises, columns + 1, coef)
        return np.cumsum(rises)

    def grouped(self, columns):
        """Group of each code, of codes that columns do not tell apart; values of the groups."""
        every = np.arange(len(columns) + 1)[:, None]
        group = np.searchsorted(columns, np.arange(self.n_codes))
        return group, (every > every[:-1].T).astype(np.float64)


@dataclass(frozen=True, eq=False)
class CodedColumns(ComputedBlock):
    """Columns of several variables, one behind the other, each with a code in every row."""

    codes: np.ndarray  # unsigned (n_variables, n_rows)
    bases: tuple[StepBasis, ...]  # the columns of each variable

    @property
    def n_rows(self):
        return self.codes.shape[1]

    @property
    def n_columns(self):
        return int(self._ptr[-1])

    @cached_property
    def _ptr(self):
        return np.cumsum([0] + [basis.n_columns for basis in self.bases])

    @property
    def nbytes(self):
        return self.codes.nbytes + sum(basis.nbytes for basis in self.bases)

    def take(self, rows):
        return CodedColumns(np.ascontiguousarray(self.codes[:, rows]), self.bases)

    def by_variable(self, columns):
        """Variables, which of the columns are theirs, and the numbers of these."""
        edges = np.searchsorted(columns, self._ptr)
        for v in np.flatnonzero(np.diff(edges)):
            some = slice(edges[v], edges[v + 1])
            yield v, some, columns[some] - self._ptr[v]

    def sums(self, columns, numbers, form, label=None, n_labels=1):
        out = np.empty((len(columns), n_labels))
        for v, some, own in self.by_variable(columns):
            if label is None:
                out[some] = self.bases[v].sums(self._by_code(v, numbers), own, form)
                continue
            group, values = self._label(v, own)  # of fewer than codes, where labels are many
            by_group = np.zeros((len(values), n_labels))
            add_by_code_and_label(group, label, numbers, by_group)
            out[some] = part_of(values, form).T @ by_group
        return out

    def _by_code(self, v, numbers):
        n_codes = self.bases[v].n_codes
        by_code = np.zeros((4 if n_codes <= FEW_CODES else 1, n_codes))
        add_by_code(self.codes[v], numbers, by_code)
        return by_code.sum(axis=0)[:, None]

    def groups(self, columns):
        for v, some, own in self.by_variable(columns):
            yield some, partial(self._label, v, own)

    def _label(self, v, columns):
        group, values = self.bases[v].grouped(columns)
        return group.astype(np.min_scalar_type(len(values)))[self.codes[v]], values

    def add(self, columns, coef, form, out):
        for v, some, own in self.by_variable(columns):
            add_of_code(self.codes[v], self.bases[v].combine(own, coef[some], form), out)

    def values(self, columns, rows):
        out = np.empty((len(columns), len(rows)))
        for v, some, own in self.by_variable(columns):
            out[some] = self.bases[v].values(own)[self.codes[v, rows]].T
        return out


@kernel
def add_by_code(codes, numbers, out):
    """Add numbers of rows to sums by code, every fourth row to the same ones if there are four:
    the sum of a code that comes twice in a row would have to wait for itself."""
    n = len(codes)
    whole = n - n % 4 if len(out) == 4 else 0
    for i in range(0, whole, 4):
        out[0, codes[i]] += numbers[i]
        out[1, codes[i + 1]] += numbers[i + 1]
        out[2, codes[i + 2]] += numbers[i + 2]
        out[3, codes[i + 3]] += numbers[i + 3]
    for i in range(whole, n):
        out[0, codes[i]] += numbers[i]


@kernel
def add_by_code_and_label(codes, label, numbers, out):
    """Add numbers of rows to sums by code and label."""
    for i in range(len(codes)):
        out[codes[i], label[i]] += numbers[i]


@kernel
def add_of_code(codes, by_code, out):
    """Add the number of each row's code."""
    for i in range(len(codes)):
        out[i] += by_code[codes[i]]
