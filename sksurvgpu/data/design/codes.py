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
FEW_SUMS = 2**14  # by code and by label, that stay in a cache
TILE = 2**14  # rows, whose numbers stay in cache for all variables


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
        """Group of each code, of codes that columns do not tell apart; the steps between these."""
        group = np.searchsorted(columns, np.arange(self.n_codes))
        return group.astype(np.min_scalar_type(len(columns))), StepBasis(len(columns) + 1)


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

    @cached_property
    def _most(self):
        return max(basis.n_codes for basis in self.bases)

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
        every = list(self.by_variable(columns))
        if label is None:
            by_code = np.zeros((len(every), 4 if self._most <= FEW_CODES else 1, self._most))
            add_by_code(self.codes, np.array([v for v, *_ in every], int), numbers, by_code)
            for (v, some, own), sums in zip(every, by_code.sum(axis=1), strict=True):
                out[some] = self.bases[v].sums(sums[: self.bases[v].n_codes, None], own, form)
            return out
        for v, some, own in every:
            codes, basis, own = self._apart(v, own, FEW_SUMS // n_labels)
            by_code = np.zeros((basis.n_codes, n_labels))
            add_by_code_and_label(codes, label, numbers, by_code)
            out[some] = basis.sums(by_code, own, form)
        return out

    def groups(self, columns):
        for v, some, own in self.by_variable(columns):
            key = v if self.bases[v].n_codes <= FEW_CODES else None
            yield some, key, partial(self._label, v, own)

    def _label(self, v, columns):
        """Codes of rows, and values of columns by them."""
        codes, basis, columns = self._apart(v, columns, FEW_CODES)
        return codes, basis.values(columns)

    def _apart(self, v, columns, few):
        """Codes of rows, or, if these are not few, those of what columns tell apart; the columns
        of these."""
        if self.bases[v].n_codes <= few:
            return self.codes[v], self.bases[v], columns
        group, basis = self.bases[v].grouped(columns)
        return np.take(group, self.codes[v]), basis, np.arange(len(columns))

    def add(self, columns, coef, form, out):
        every = list(self.by_variable(columns))
        by_code = np.zeros((len(every), self._most))
        for (v, some, own), to in zip(every, by_code, strict=True):
            to[: self.bases[v].n_codes] = self.bases[v].combine(own, coef[some], form)
        add_of_code(self.codes, np.array([v for v, *_ in every], int), by_code, out)

    def values(self, columns, rows):
        out = np.empty((len(columns), len(rows)))
        for v, some, own in self.by_variable(columns):
            write_by_code(self.codes[v, rows], self.bases[v].values(own), some.start, out)
        return out


@kernel
def add_by_code(codes, variables, numbers, out):
    """Add numbers of rows to sums by code, every fourth row to the same ones if there are four:
    the sum of a code that comes twice in a row would have to wait for itself."""
    for low in range(0, len(numbers), TILE):
        own = numbers[low : low + TILE]
        n = len(own)
        for k in range(len(variables)):
            line, sums = codes[variables[k], low : low + TILE], out[k]
            whole = n - n % 4 if len(sums) == 4 else 0
            for i in range(0, whole, 4):
                sums[0, line[i]] += own[i]
                sums[1, line[i + 1]] += own[i + 1]
                sums[2, line[i + 2]] += own[i + 2]
                sums[3, line[i + 3]] += own[i + 3]
            for i in range(whole, n):
                sums[0, line[i]] += own[i]


@kernel
def add_by_code_and_label(codes, label, numbers, out):
    """Add numbers of rows to sums by code and label."""
    for i in range(len(codes)):
        out[codes[i], label[i]] += numbers[i]


@kernel
def add_of_code(codes, variables, by_code, out):
    """Add the number of each row's code, of several variables."""
    for low in range(0, len(out), TILE):
        own = out[low : low + TILE]
        for k in range(len(variables)):
            line, of_code = codes[variables[k], low : low + TILE], by_code[k]
            for i in range(len(own)):
                own[i] += of_code[line[i]]


@kernel
def write_by_code(codes, values, first, out):
    """Write columns of values by code as lines from the first one on."""
    for a in range(values.shape[1]):
        own, line = values[:, a].copy(), out[first + a]
        for i in range(len(codes)):
            line[i] = own[codes[i]]
