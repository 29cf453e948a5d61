"""Columns of a dense matrix in the type that it has: one, two or four bytes an entry, not eight.

Sums are in float64: entries are converted as they are read, from columns or from rows side by side,
whichever way the matrix lies.  Where it lies otherwise, or in half precision, which kernels do not
know, pieces of it are copied.
"""

from dataclasses import dataclass

import numpy as np

from ..._compile import kernel, part_of_loop
from ..by_column import check_column_names
from ..vectors import check_unmasked
from .columns import Design
from .computed import ComputedBlock
from .kernels import ONE, SIZE, SQUARE
from .of_blocks import design_of
from .tables import check_shape, refuse_nonfinite

TYPES = "bool", "int8", "uint8", "int16", "uint16", "float16", "float32"
LANES = 64  # sums of a column at once, which wait for nothing and fill registers
TILE = 8192  # rows, whose numbers stay in cache for all columns
AT_ONCE, CHUNK = 8, 512  # columns read in turns, as one alone comes slowly; rows of a turn
PIECE = 2**18  # entries that are copied at once


def keep_types(values, *, names=None) -> Design:
    """Use a dense matrix in its type (bytes, flags, float16, float32), without a float64 copy.

    Fits convert entries as they read them, and sums are in float64. Results are those of the matrix
    in float64; bytes, flags and float32 are read faster, half precision slower.

    Parameters
    ----------
    values : ndarray of shape (n_rows, n_columns)
        Of flags, integers of 8 or 16 bits, float16 or float32, all finite; also one that lies in a
        file (``numpy.load(path, mmap_mode="r")``). It is not copied, and not to be written to,
        where its rows or columns lie side by side.
    names : sequence of str, optional
        Of the columns.

    Returns
    -------
    X : Design
        With computed columns; ``with_columns`` adds others.

    Notes
    -----
    Columns are not centred: bring those far from zero, as of years, near to it first.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import keep_types
    >>> values = np.random.default_rng(0).integers(0, 256, (1000, 20), dtype=np.uint8)
    >>> X = keep_types(values)
    >>> X
    <Design of 1,000 rows and 20 columns (20 computed) with 0 sparse entries>
    """
    if not isinstance(values, np.ndarray):
        raise TypeError(
            f"`values` is of type {type(values).__name__}, must be an array of NumPy: of a frame "
            "table.to_numpy(), with names=table.columns, of a file of HDF5 or zarr dataset[:]."
        )
    check_unmasked(values, "values")
    values = np.asarray(values)
    check_shape(values.shape, "values")
    if values.dtype not in TYPES:
        raise TypeError(
            f"`values` has dtype {values.dtype}, must have one of {', '.join(TYPES)}; a matrix of "
            "another type goes to estimators as it is."
        )
    if names is not None:
        names = np.array([*names], dtype=object)
        check_column_names(names, "names", only_text=True)
        if names.shape != values.shape[1:]:
            raise ValueError(
                f"`names` has {names.size:,} entries, `values` has {values.shape[1]:,} columns."
            )
    if not (values.flags.c_contiguous or values.flags.f_contiguous):
        values = np.asfortranarray(values)
    block = NarrowColumns(values.view(np.uint8).T if values.dtype == bool else values.T)
    if values.dtype.kind == "f":
        refuse_nonfinite(block.count_nonfinite(), str if names is None else names.item, "values")
    return design_of(block, names=names)


@dataclass(frozen=True, eq=False)
class NarrowColumns(ComputedBlock):
    """Columns of a matrix."""

    lines: np.ndarray  # (n_columns, n_rows), either of which lie side by side

    @property
    def n_columns(self):
        return self.lines.shape[0]

    @property
    def n_rows(self):
        return self.lines.shape[1]

    @property
    def nbytes(self):
        return self.lines.nbytes

    @property
    def _is_half(self):
        return self.lines.dtype == np.float16

    def count_nonfinite(self):
        """Count the NaN and infinite values of each column."""
        found = np.zeros(self.n_columns, np.int64)
        step = max(1, PIECE // self.n_columns)
        for low in range(0, self.n_rows, step):
            found += np.count_nonzero(~np.isfinite(self.lines[:, low : low + step]), axis=1)
        return found

    def take(self, rows):
        taken = self.lines[:, rows]
        is_by_column = self.lines.flags.c_contiguous
        return NarrowColumns(taken if is_by_column else np.asfortranarray(taken))

    def _pieces(self, columns):
        """Rows, lines of numbers for them, and which of these are the columns."""
        if self.lines.flags.c_contiguous and not self._is_half:
            yield slice(0, self.n_rows), self.lines, columns
            return
        kept = np.float32 if self._is_half else self.lines.dtype
        # by all columns, so that sums are the same whichever of them a thread has
        step, every = max(TILE // 8, PIECE // max(1, self.n_columns)), np.arange(len(columns))
        for low in range(0, self.n_rows, step):
            rows = slice(low, low + step)
            yield rows, np.ascontiguousarray(self.lines[columns, rows], kept), every

    def sums(self, columns, numbers, form, label=None, n_labels=1):
        out = np.zeros((len(columns), n_labels))
        is_by_row = not (self.lines.flags.c_contiguous or self._is_half)
        if label is None and is_by_row and len(columns):
            # the same bits either way: a sum takes one row after the other
            if columns[-1] - columns[0] >= 2 * len(columns):
                add_sums_of_some(self.lines.T, columns, numbers, form, out[:, 0])
                return out
            total = np.zeros(columns[-1] + 1 - columns[0])
            add_sums_of_rows(self.lines.T, columns[0], numbers, form, total)
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
        return self.lines[np.ix_(columns, rows)].astype(np.float64)


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
    total = np.empty((AT_ONCE, LANES))
    for low in range(0, len(numbers), TILE):
        high = min(low + TILE, len(numbers))
        whole = high - (high - low) % LANES
        for a in range(0, len(which), AT_ONCE):
            some, total[:] = which[a : a + AT_ONCE], 0.0
            for first in range(low, whole, LANES):
                own = numbers[first : first + LANES]
                for c in range(len(some)):
                    x, sums = lines[some[c]][first : first + LANES], total[c]
                    for k in range(LANES):
                        sums[k] += _part(x[k], form) * own[k]
            for c in range(len(some)):
                for i in range(whole, high):
                    total[c, 0] += _part(lines[some[c], i], form) * numbers[i]
                out[a + c] += total[c].sum()


@kernel
def add_sums_of_rows(rows, first, numbers, form, out):
    """Add sums of columns that lie side by side, the first one's number given."""
    for i in range(len(numbers)):
        row, number = rows[i, first : first + len(out)], numbers[i]
        for a in range(len(row)):
            out[a] += _part(row[a], form) * number


@kernel
def add_sums_of_some(rows, columns, numbers, form, out):
    """Add sums of some columns, whose rows lie side by side."""
    for i in range(len(numbers)):
        for a in range(len(columns)):
            out[a] += _part(rows[i, columns[a]], form) * numbers[i]


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
        high = min(low + TILE, len(out))
        for a in range(0, len(which), AT_ONCE):
            for first in range(low, high, CHUNK):
                own = out[first : min(first + CHUNK, high)]
                for c in range(a, min(a + AT_ONCE, len(which))):
                    x, step = lines[which[c]][first : first + CHUNK], coef[c]
                    for i in range(len(own)):
                        own[i] += _part(x[i], form) * step
