"""Lines (row, column, value) in any order become columns with ascending rows.

A counting sort by column: the lines of every column are counted in a first pass and written to
their places in a second, O(1) a line. The rows of a column are then sorted as `kernels.py` sorts
them, by marking bits, which also finds the same row twice. Columns are packed as they are settled.
"""

from typing import NamedTuple

import numpy as np

from .._compile import device, kernel
from ..data.design.columns import Design
from ..data.design.kernels import INDICATOR, SPARSE, DesignArrays, drain_bitmap
from ..data.design.tables import packed_offsets, value_sizes

# What becomes of the values of a row that a column has several times.
ERROR: int = 0
SUM: int = 1
MAX: int = 2
LAST: int = 3
FIRST: int = 4
MIN: int = 5
MEAN: int = 6
# By the names that users give them; to count lines is to add ones.
POLICIES = {
    "error": ERROR,
    "last": LAST,
    "first": FIRST,
    "sum": SUM,
    "mean": MEAN,
    "max": MAX,
    "min": MIN,
    "count": SUM,
    "present": MAX,
}
NOT_SETTLED = -1


class Placed(NamedTuple):
    """Lines with their rows and the numbers of their columns.

    Values are None where all are 1, and moments where the order of the table is that of lines.
    """

    rows: np.ndarray
    columns: np.ndarray
    values: np.ndarray | None
    moments: np.ndarray | None


class Settled(NamedTuple):
    """Columns as a Design takes them, and what happened on the way.

    `n_rows_of` are the rows of every column before rare ones were left out, `is_kept` says which
    were not, `has_lines` which have any line. `repeated` is None or the column and the row of a
    line that must not be there.
    """

    columns: DesignArrays
    n_rows_of: np.ndarray
    is_kept: np.ndarray
    has_lines: np.ndarray
    n_duplicates: int
    n_zeros: int
    repeated: tuple | None

    def design(self, n_rows, names=None) -> Design:
        """The columns that are kept."""
        return Design(n_rows, *self.columns, names=names)

    def infinite(self):
        """A column, rare ones among them, that has an infinite value; None where none has."""
        is_finite = np.isfinite(self.columns.values)
        if is_finite.all():
            return None
        valued = np.flatnonzero(self.columns.kind == SPARSE)
        starts = self.columns.value_ptr[valued]
        column = valued[np.searchsorted(starts, np.argmin(is_finite), side="right") - 1]
        return int(np.flatnonzero(self.is_kept)[column])


class Tally:
    """Lines of every column so far, and whether one has a value other than 1."""

    def __init__(self):
        self.counts = np.zeros(0, dtype=np.int64)
        self.is_valued = np.zeros(0, dtype=np.bool_)

    def grow(self, n_columns):
        """Make room for columns up to `n_columns` - 1."""
        n_new = n_columns - self.counts.size
        if n_new:
            self.counts = np.append(self.counts, np.zeros(n_new, dtype=np.int64))
            self.is_valued = np.append(self.is_valued, np.zeros(n_new, dtype=np.bool_))

    def add(self, lines: Placed):
        """Count lines of columns for which there is room."""
        self.counts += np.bincount(lines.columns, minlength=self.counts.size)
        if lines.values is not None:
            self.is_valued[lines.columns[lines.values != 1.0]] = True


class Grouping:
    """Places for all lines that a tally has counted, in columns of a given order.

    `order` has the numbers of the columns in the tally, and `policies` are by column in it: what
    becomes of several lines of a row. Lines are in order, unless each `has_moments` that say which
    is the first and which the last of a row.
    """

    def __init__(self, tally, order, n_rows, policies, *, has_moments=False):
        self.n_rows, self._policies = n_rows, policies
        # Sums of ones are values, too.
        is_valued = tally.is_valued[order] | (policies == SUM)
        kind = np.where(is_valued, SPARSE, INDICATOR).astype(np.uint8)
        indptr = np.concatenate([[0], np.cumsum(tally.counts[order])])
        sizes = value_sizes(kind, indptr, n_rows)
        indices, values = np.empty(indptr[-1], dtype=np.int32), np.empty(sizes.sum())
        self._columns = DesignArrays(kind, indptr, indices, values, packed_offsets(sizes))
        self._moments = np.empty(indptr[-1] if has_moments else 0, dtype=np.int64)
        self._column_of = np.empty(order.size, dtype=np.int32)
        self._column_of[order] = np.arange(order.size, dtype=np.int32)
        self._next = indptr[:-1].copy()

    def place(self, lines: Placed):
        """Write lines to their columns; return whether there was room for all of them."""
        values = np.empty(0) if lines.values is None else lines.values
        moments = np.empty(0, dtype=np.int64) if lines.moments is None else lines.moments
        lines = Placed(lines.rows, lines.columns, values, moments)
        return _place(lines, self._column_of, self._next, self._columns, self._moments)

    def settle(self, min_count) -> Settled:
        """Sort rows, join duplicates, drop zeros and columns with fewer rows than `min_count`."""
        columns = self._columns
        has_lines, size = np.diff(columns.indptr) > 0, self.n_rows if columns.values.size else 0
        scratch = np.empty(size), np.empty(size, dtype=np.int64)
        n_rows_of = np.full(columns.kind.size, NOT_SETTLED, dtype=np.int64)
        dropped = np.zeros(2, dtype=np.int64)
        row = _settle(
            self.n_rows, min_count, columns, self._moments, self._policies, scratch, n_rows_of,
            dropped,
        )  # fmt: skip
        repeated = None if row < 0 else (int(np.argmax(n_rows_of == NOT_SETTLED)), int(row))
        is_kept = (n_rows_of >= min_count) & (n_rows_of != NOT_SETTLED)
        kind = columns.kind[is_kept]
        indptr = np.concatenate([[0], np.cumsum(n_rows_of[is_kept])])
        sizes = value_sizes(kind, indptr, self.n_rows)
        # These arrays have no other owner, and this object is not used again: free what is unused.
        columns.indices.resize(indptr[-1], refcheck=False)
        columns.values.resize(sizes.sum(), refcheck=False)
        offsets = packed_offsets(sizes)
        columns = DesignArrays(kind, indptr, columns.indices, columns.values, offsets)
        n_duplicates, n_zeros = dropped.tolist()
        return Settled(columns, n_rows_of, is_kept, has_lines, n_duplicates, n_zeros, repeated)


@kernel
def _place(lines, column_of, following, columns, moments):
    """Write line after line; return False where a column has more than were counted."""
    for i in range(lines.rows.size):
        j = column_of[lines.columns[i]]
        k = following[j]
        if k == columns.indptr[j + 1]:
            return False
        columns.indices[k] = lines.rows[i]
        if moments.size:
            moments[k] = lines.moments[i]
        if columns.kind[j] == SPARSE:
            position = columns.value_ptr[j] + k - columns.indptr[j]
            columns.values[position] = lines.values[i] if lines.values.size else 1.0
        following[j] = k + 1
    return True


@device
def _join(policy, held, value, aside, moment):
    """Value of a row, and what is kept beside it, after one more of its lines.

    Beside the value is its moment, or for means the number of lines.
    """
    if policy == SUM:
        return held + value, aside
    if policy == MEAN:
        return held + value, aside + 1
    if policy == LAST:
        return (value, moment) if moment >= aside else (held, aside)
    if policy == FIRST:
        return (value, moment) if moment < aside else (held, aside)
    is_further = value > held if policy == MAX else value < held
    return (value, aside) if is_further else (held, aside)


@device
def _mark(rows, values, moments, policy, scratch, words, summary):
    """Mark rows in both bitmaps and leave their values, joined, in `scratch`.

    Returns how many rows were marked, or -1 - row where a second line of a row is an error.
    """
    one = np.uint64(1)
    joined, aside = scratch
    count = 0
    for k in range(rows.size):
        row = rows[k]
        bit = one << np.uint64(row & 63)
        moment = moments[k] if moments.size else np.int64(0)
        if words[row >> 6] & bit:
            if policy == ERROR:
                return -1 - np.int64(row)
            if values.size:
                joined[row], aside[row] = _join(policy, joined[row], values[k], aside[row], moment)
            continue
        words[row >> 6] |= bit
        summary[row >> 12] |= one << np.uint64((row >> 6) & 63)
        count += 1
        if values.size:
            joined[row], aside[row] = values[k], 1 if policy == MEAN else moment
    return count


@device
def _write_values(rows, policy, scratch, values):
    """Write the values of rows, moved up where one is zero; return how many are left."""
    joined, aside = scratch
    count = 0
    for k in range(rows.size):
        value = joined[rows[k]]
        if policy == MEAN:
            value /= aside[rows[k]]
        if value != 0.0:
            rows[count] = rows[k]
            values[count] = value
            count += 1
    return count


@kernel
def _settle(n_rows, min_count, columns, moments, policies, scratch, counts, dropped):
    """Settle one column after the other in place: none ends behind where it did.

    Writes the rows of every column to `counts`, its new kind to `columns.kind`, and the numbers of
    duplicates and of zeros to `dropped`. Returns the row of a duplicate that is an error, else -1.
    """
    words = np.zeros((n_rows >> 6) + 1, dtype=np.uint64)
    summary = np.zeros((n_rows >> 12) + 1, dtype=np.uint64)
    end, value_end = 0, 0
    for j in range(counts.size):
        lines = columns.indices[columns.indptr[j] : columns.indptr[j + 1]]
        source = columns.value_ptr[j]
        n_values = lines.size if columns.kind[j] == SPARSE else 0
        values = columns.values[source : source + n_values]
        aside = moments[columns.indptr[j] : columns.indptr[j + 1]] if moments.size else moments
        count = _mark(lines, values, aside, policies[j], scratch, words, summary)
        if count < 0:
            return -1 - count
        dropped[0] += lines.size - count
        rows = columns.indices[end : end + count]
        drain_bitmap(words, summary, rows)
        only_ones = True
        if n_values:
            values = columns.values[value_end : value_end + count]
            n_nonzero = _write_values(rows, policies[j], scratch, values)
            dropped[1] += count - n_nonzero
            count = n_nonzero
            only_ones = (values[:count] == 1.0).all()
        columns.kind[j] = INDICATOR if only_ones else SPARSE
        counts[j] = count
        if count >= min_count:
            end += count
            value_end += 0 if only_ones else count
    return -1
