"""Columns of a dense matrix in the type that it has: one, two or four bytes an entry, not eight.

Sums are in float64: entries are converted as they are read, from columns or from rows side by side,
whichever way the matrix lies.  Where it lies otherwise, or in half precision, which kernels do not
know, pieces of it are copied.
"""

from __future__ import annotations

import numpy as np

from ..._compile import kernel, part_of_loop
from .computed import ComputedBlock
from .kernels import ONE, SIZE, SQUARE
from .tables import check_shape, refuse_nonfinite

__all__ = ["NarrowColumns"]

TYPES = "bool", "int8", "uint8", "int16", "uint16", "float16", "float32"
LANES = 64  # sums of a column at once, which wait for nothing and fill registers
TILE = 8192  # rows, whose numbers stay in cache for all columns
PIECE = 2**18  # entries that are copied at once


class NarrowColumns(ComputedBlock):
    """Columns of a matrix, which is not copied where its columns or rows lie side by side.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        Of 8 or 16 bits or float32, all finite. It is not to be written to.
    name : str, default="X"
        Name of the matrix in messages.
    """

    def __init__(self, values, name="X"):
        values = np.asarray(values)
        check_shape(values.shape, name, may_be_empty=True)
        if values.dtype not in TYPES:
            raise TypeError(
                f"`{name}` has dtype {values.dtype}, which has no narrow columns; pass one of "
                f"{', '.join(TYPES)}."
            )
        self.n_rows, self.n_columns = values.shape
        if not (values.flags.c_contiguous or values.flags.f_contiguous):
            values = np.asfortranarray(values)
        self._lines, self.nbytes = values.T, values.nbytes  # a line is a column
        if values.dtype == bool:
            self._lines = self._lines.view(np.uint8)
        self._is_half = values.dtype == np.float16
        if values.dtype.kind == "f":
            refuse_nonfinite(self._count_nonfinite(), str, name)

    def _count_nonfinite(self):
        """How many NaN and infinite values each column has."""
        found = np.zeros(self.n_columns, np.int64)
        step = max(1, PIECE // self.n_columns)
        for low in range(0, self.n_rows, step):
            found += np.count_nonzero(~np.isfinite(self._lines[:, low : low + step]), axis=1)
        return found

    def take(self, rows):
        lines = self._lines[:, rows]
        taken = object.__new__(NarrowColumns)
        taken._lines = lines if self._lines.flags.c_contiguous else np.asfortranarray(lines)
        taken._is_half, taken.nbytes = self._is_half, lines.nbytes
        taken.n_columns, taken.n_rows = lines.shape
        return taken

    def _pieces(self, columns):
        """Rows, lines of numbers for them, and which of these are the columns."""
        if self._lines.flags.c_contiguous and not self._is_half:
            yield slice(0, self.n_rows), self._lines, columns
            return
        kept = np.float32 if self._is_half else self._lines.dtype
        step, every = max(TILE // 8, PIECE // max(1, len(columns))), np.arange(len(columns))
        for low in range(0, self.n_rows, step):
            rows = slice(low, low + step)
            yield rows, np.ascontiguousarray(self._lines[columns, rows], kept), every

    def _as_rows(self, columns):
        """Rows of all columns from the first to the last one, where these are most of them."""
        is_apart = len(columns) == 0 or columns[-1] - columns[0] >= 2 * len(columns)
        if self._is_half or self._lines.flags.c_contiguous or is_apart:
            return None
        return self._lines.T

    def sums(self, columns, numbers, form, label=None, n_labels=1):
        out, rows = np.zeros((len(columns), n_labels)), self._as_rows(columns)
        if label is None and rows is not None:
            total = np.zeros(columns[-1] + 1 - columns[0])
            add_sums_of_rows(rows, columns[0], numbers, form, total)
            out[:, 0] = total[columns - columns[0]]
            return out
        for part, lines, which in self._pieces(columns):
            if label is None:
                add_sums_of_lines(lines, which, numbers[part], form, out[:, 0])
            else:
                add_labelled_sums_of_lines(lines, which, numbers[part], form, label[part], out)
        return out

    def add(self, columns, coef, form, out):
        coef = np.ascontiguousarray(coef, dtype=np.float64)
        for part, lines, which in self._pieces(columns):
            add_lines(lines, which, coef, form, out[part])

    def values(self, columns, rows):
        return self._lines[np.ix_(columns, rows)].astype(np.float64)


@part_of_loop
def _part(value, form):
    """Part of an entry that counts, by choices that vectors have."""
    x = np.float64(value)
    if form == ONE:
        x = 1.0 if x != 0.0 else 0.0
    factor = x if form == SQUARE else 1.0
    return (abs(x) if form == SIZE else x) * factor


@kernel
def add_sums_of_lines(lines, which, numbers, form, out):
    """Add sums of lines times numbers of rows."""
    total = np.empty(LANES)
    for low in range(0, len(numbers), TILE):
        high = min(low + TILE, len(numbers))
        whole = high - (high - low) % LANES
        for a in range(len(which)):
            line = lines[which[a]]
            total[:] = 0.0
            for first in range(low, whole, LANES):
                x, own = line[first : first + LANES], numbers[first : first + LANES]
                for k in range(LANES):
                    total[k] += _part(x[k], form) * own[k]
            for i in range(whole, high):
                total[0] += _part(line[i], form) * numbers[i]
            out[a] += total.sum()


@kernel
def add_sums_of_rows(rows, first, numbers, form, out):
    """Add sums of columns that lie side by side, the first one's number given."""
    for i in range(len(numbers)):
        row, number = rows[i, first : first + len(out)], numbers[i]
        for a in range(len(row)):
            out[a] += _part(row[a], form) * number


@kernel
def add_labelled_sums_of_lines(lines, which, numbers, form, label, out):
    """Add sums of lines times numbers of rows by labels of rows."""
    for a in range(len(which)):
        line = lines[which[a]]
        for i in range(len(numbers)):
            out[a, label[i]] += _part(line[i], form) * numbers[i]


@kernel
def add_lines(lines, which, coef, form, out):
    """Add lines times coefficients to numbers of rows."""
    for low in range(0, len(out), TILE):
        own = out[low : low + TILE]
        for a in range(len(which)):
            x, step = lines[which[a]][low : low + TILE], coef[a]
            for i in range(len(own)):
                own[i] += _part(x[i], form) * step
