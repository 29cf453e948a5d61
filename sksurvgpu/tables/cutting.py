r"""Follow-up of units is cut into rows where something changes, and lines become columns.

Unit u is followed over (start, stop]. The starts and stops of its lines that lie inside, and cuts
common to all units, divide this into rows :math:`(c_0, c_1], (c_1, c_2], \ldots` A line
(unit, column, start, stop, value) covers whole rows, neighbours of each other, so that a column is
written in one pass over its lines in the order of units and starts: rows that an earlier line of
the unit has covered are the last that were written. O(log) a line, O(1) an entry.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._compile import device, kernel
from ..data.design.columns import Design
from ..data.design.kernels import INDICATOR, SPARSE, DesignArrays
from ..data.design.tables import packed_offsets, value_sizes
from ..data.sorting import order_by_group
from .grouping import ERROR, LAST, SUM

CUT_ONLY = -1  # the column of a line that cuts rows and has no value
INSERTION_LIMIT = 48  # above, merging is faster than insertion


class Spans(NamedTuple):
    """Values that units have from one time to another, by unit and start (see `arrange`)."""

    unit: np.ndarray
    column: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    value: np.ndarray

    @classmethod
    def join(cls, parts) -> Spans:
        """Lines of several parts, one after the other."""
        return cls(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))

    def take(self, order) -> Spans:
        """Some lines, or all in another order."""
        return Spans(*(field[order] for field in self))


class RowsAtRisk(NamedTuple):
    """Rows of unit u are ptr[u]..ptr[u + 1] - 1, (start, stop] each."""

    ptr: np.ndarray
    start: np.ndarray
    stop: np.ndarray

    @property
    def unit(self) -> np.ndarray:
        """Unit of every row, int32."""
        return np.repeat(np.arange(self.ptr.size - 1, dtype=np.int32), np.diff(self.ptr))

    def mark_last(self, units) -> np.ndarray:
        """Rows that are the last of some units, given as a mask."""
        is_last = np.zeros(self.start.size, dtype=np.bool_)
        is_last[self.ptr[1:][units] - 1] = True
        return is_last


class Filled(NamedTuple):
    """Columns, lines that overlap an earlier one, entries that are zero, and lines in conflict.

    `conflict` holds two lines of a unit that overlap in a column that does not allow it, else -1.
    """

    X: Design
    n_overlaps: int
    n_zeros: int
    conflict: np.ndarray


def arrange(lines: Spans, n_units) -> Spans:
    """Lines by unit and start; equal ones stay in their order."""
    unit, start = lines.unit, lines.start
    is_after = (unit[1:] > unit[:-1]) | ((unit[1:] == unit[:-1]) & (start[1:] >= start[:-1]))
    if is_after.all():
        return lines
    order, ptr = _counted(unit, n_units)
    _sort_within(ptr, start, order)
    return lines.take(order)


def _counted(keys, n_keys):
    """Order by small whole numbers of at least 0, and where each of them begins in it."""
    return order_by_group(keys, np.arange(keys.size, dtype=np.int32), n_keys)


def _by_column(lines, n_columns):
    """Order by column, unit and start, and where columns begin; what only cuts is left out."""
    order, ptr = _counted(lines.column + 1, n_columns + 1)
    return order[ptr[1] :], ptr[1:] - ptr[1]


def close(lines: Spans, policy) -> None:
    """Write where lines without a stop end, in place.

    That is where the next line of the unit and column begins that starts later, or never. Where
    lines are added up or the largest counts, it is never.
    """
    _close(lines, _by_column(lines, policy.size)[0], policy)


def cut_rows(start, stop, lines: Spans, cuts) -> RowsAtRisk:
    """Rows of all units, of which every one has at least one.

    Units have a `start` and a `stop` each, `lines` are by unit, and all units are cut at `cuts`.
    """
    size = start.size * (1 + cuts.size) + 2 * lines.unit.size
    ptr, row_start = np.zeros(start.size + 1, dtype=np.int64), np.empty(size)
    _cut(start, stop, lines, cuts, ptr, row_start)
    row_start.resize(ptr[-1], refcheck=False)
    row_stop = np.empty_like(row_start)
    row_stop[:-1] = row_start[1:]
    row_stop[ptr[1:] - 1] = stop
    return RowsAtRisk(ptr, row_start, row_stop)


def fill_columns(lines: Spans, rows: RowsAtRisk, policy, keeps_zeros=None) -> Filled:
    """Columns of values in rows, 0 where no line covers a row.

    `lines` are by unit and start. The `policy` of a column says what becomes of lines of a unit
    that overlap: ERROR, SUM, MAX or LAST; zeros are stored where it `keeps_zeros`.
    """
    n_columns = policy.size
    if keeps_zeros is None:
        keeps_zeros = np.zeros(n_columns, dtype=np.bool_)
    first, end = np.empty((2, lines.unit.size), dtype=np.int32)
    capacity, is_valued = np.zeros(n_columns, dtype=np.int64), np.zeros(n_columns, dtype=np.bool_)
    _find_spans(lines, rows, first, end, capacity, is_valued)
    kind = np.where(is_valued | (policy == SUM), SPARSE, INDICATOR).astype(np.uint8)
    sizes = value_sizes(kind, np.concatenate([[0], np.cumsum(capacity)]), rows.start.size)
    indices, values = np.empty(capacity.sum(), dtype=np.int32), np.empty(sizes.sum())
    indptr = np.zeros(n_columns + 1, dtype=np.int64)
    found, conflict = np.zeros(2, dtype=np.int64), np.full(2, -1, dtype=np.int64)
    order, column_ptr = _by_column(lines, n_columns)
    out = DesignArrays(kind, indptr, indices, values, column_ptr)
    _fill(lines, (order, first, end), policy, keeps_zeros, out, found, conflict)
    np.maximum.accumulate(indptr, out=indptr)  # a conflict leaves the columns after its own
    sizes = value_sizes(kind, indptr, rows.start.size)
    indices.resize(indptr[-1], refcheck=False)
    values.resize(sizes.sum(), refcheck=False)
    X = Design(rows.start.size, kind, indptr, indices, values, packed_offsets(sizes))
    return Filled(X, int(found[0]), int(found[1]), conflict)


@kernel
def _sort_within(ptr, key, order):
    """Sort the entries of `order` of every unit by their keys; equal ones stay as they are."""
    for u in range(ptr.size - 1):
        of_unit = order[ptr[u] : ptr[u + 1]]
        if of_unit.size > INSERTION_LIMIT:
            for i, moved in enumerate(of_unit[np.argsort(key[of_unit], kind="mergesort")]):
                of_unit[i] = moved
            continue
        for i in range(1, of_unit.size):
            moved, k = of_unit[i], i
            while k > 0 and key[of_unit[k - 1]] > key[moved]:
                of_unit[k] = of_unit[k - 1]
                k -= 1
            of_unit[k] = moved


@kernel
def _close(lines, order, policy):
    later, following = np.inf, -1
    for i in range(order.size - 1, -1, -1):
        k = order[i]
        j = lines.column[k]
        if following < 0 or lines.unit[following] != lines.unit[k] or lines.column[following] != j:
            later = np.inf
        elif lines.start[following] > lines.start[k]:
            later = lines.start[following]
        if np.isnan(lines.stop[k]):
            lines.stop[k] = later if policy[j] == ERROR or policy[j] == LAST else np.inf
        following = k


@device
def _sort_times(times):
    """Sort in place, drop repeated ones and return how many are left."""
    if times.size > INSERTION_LIMIT:
        times.sort()
    else:
        for i in range(1, times.size):
            moved, k = times[i], i
            while k > 0 and times[k - 1] > moved:
                times[k] = times[k - 1]
                k -= 1
            times[k] = moved
    count = 1
    for i in range(1, times.size):
        if times[i] != times[count - 1]:
            times[count] = times[i]
            count += 1
    return count


@kernel
def _cut(start, stop, lines, cuts, ptr, row_start):
    end, k = 0, 0
    for u in range(start.size):
        low, high, first = start[u], stop[u], end
        row_start[end] = low
        end += 1
        while k < lines.unit.size and lines.unit[k] == u:
            for time in (lines.start[k], lines.stop[k]):
                if low < time < high:
                    row_start[end] = time
                    end += 1
            k += 1
        for time in cuts:
            if low < time < high:
                row_start[end] = time
                end += 1
        end = first + _sort_times(row_start[first:end])
        ptr[u + 1] = end


@kernel
def _find_spans(lines, rows, first, end, capacity, is_valued):
    """Rows first..end - 1 that every line covers, and entries and kinds of columns from these."""
    for k in range(lines.unit.size):
        u, j = lines.unit[k], lines.column[k]
        low = rows.ptr[u]
        starts = rows.start[low : rows.ptr[u + 1]]
        first[k] = low + np.searchsorted(starts, lines.start[k])
        end[k] = low + np.searchsorted(starts, lines.stop[k])
        if j >= 0 and end[k] > first[k]:
            capacity[j] += end[k] - first[k]
            is_valued[j] |= lines.value[k] != 1.0


@kernel
def _fill(lines, spans, policy, keeps_zeros, out, found, conflict):
    """Write one column after the other; `out.value_ptr` says where the lines of each begin.

    `found` counts lines that overlap an earlier one, and zeros that were left out. `conflict` gets
    two lines where columns do not allow that, and the rest is not written.
    """
    order, first, end = spans
    written, value_end = 0, 0
    for j in range(policy.size):
        begin, value_begin = written, value_end
        has_values = out.kind[j] == SPARSE
        unit, reach, holder = -1, 0, -1
        for i in range(out.value_ptr[j], out.value_ptr[j + 1]):
            k = order[i]
            if lines.unit[k] != unit:
                unit, reach = lines.unit[k], 0
            if first[k] < min(reach, end[k]):
                found[0] += 1
                if policy[j] == ERROR:
                    conflict[0], conflict[1] = holder, k
                    return
                if has_values:
                    # The value of row r is at value_end - reach + r.
                    low = value_end - reach + first[k]
                    joined = out.values[low : low + min(reach, end[k]) - first[k]]
                    _join(joined, lines.value[k], policy[j])
            uncovered = max(reach, first[k])
            n_new = end[k] - uncovered
            if n_new > 0:
                rows = out.indices[written : written + n_new]
                values = out.values[value_end : value_end + n_new * has_values]
                _append(uncovered, rows, values, lines.value[k])
                written, value_end = written + n_new, value_end + values.size
                reach, holder = end[k], k
        if has_values:
            rows, values = out.indices[begin:written], out.values[value_begin:value_end]
            count, only_ones = _drop_zeros(rows, values, keeps_zeros[j])
            found[1] += rows.size - count
            written = begin + count
            value_end = value_begin + (0 if only_ones else count)
            out.kind[j] = INDICATOR if only_ones else SPARSE
        out.indptr[j + 1] = written


@device
def _join(values, value, policy):
    for i in range(values.size):
        if policy == SUM:
            values[i] += value
        elif policy == LAST or value > values[i]:
            values[i] = value


@device
def _append(row, rows, values, value):
    for i in range(rows.size):
        rows[i] = row + i
    for i in range(values.size):
        values[i] = value


@device
def _drop_zeros(rows, values, keeps_zeros):
    """Move rows and values up over zeros; return how many are left, and whether all are 1."""
    count, only_ones = 0, True
    for i in range(rows.size):
        value = values[i]
        if value != 0.0 or keeps_zeros:
            rows[count] = rows[i]
            values[count] = value
            only_ones &= value == 1.0
            count += 1
    return count, only_ones
