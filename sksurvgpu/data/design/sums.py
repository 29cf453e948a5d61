"""Sums over the rows of groups, for every column in one pass over the stored entries.

For column x, group g and row weights w:

    n = sum 1[x != 0],    T = sum (x - c),    Q = sum (x - c)^2,

each plain and times w, and the least and the greatest value; c is the mean of a column that lies
far from zero, else 0, so that Q - T^2 / n keeps its digits. Rows that are not stored count 0.

What is known of a row is read once for every entry, in no order that a cache would foresee. The
rows are therefore taken in blocks whose groups and weights stay in the second level of the cache,
with all columns for each block: 4 ns an entry instead of 20, for a million rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from pandas import DataFrame, Index, concat

from ..._compile import device, kernel
from ..._threads import over_columns
from .computed import ComputedColumns
from .kernels import COMPUTED, DENSE, INDICATOR, SQUARE, VALUE
from .units import check_largest, choose_centers, find_centers

BLOCK_ROWS = 8192  # of 12 bytes each
ROUNDING = 1e-12  # share of a square that a sum over all rows leaves of nothing


class RowGroups(NamedTuple):
    """Group and weight of every row, as kernels take them."""

    group: np.ndarray  # int32
    weight: np.ndarray  # float64; empty where all weigh 1


class ColumnSums(NamedTuple):
    """Arrays of shape (n_columns, n_groups); weighted ones are empty without weights."""

    count: np.ndarray  # int64
    total: np.ndarray
    square: np.ndarray
    weighted_count: np.ndarray
    weighted_total: np.ndarray
    weighted_square: np.ndarray
    least: np.ndarray
    most: np.ndarray
    has_others: np.ndarray  # bool (n_columns,): values beside 0 and 1


class ColumnMoments(NamedTuple):
    """Of columns (first axis) in groups (second); variances divide by the sum of weights."""

    size: np.ndarray  # (n_groups,): sum of weights
    effective: np.ndarray  # (n_groups,): squared sum of weights over the sum of their squares
    shifted: np.ndarray  # means less what was taken from the columns, which keep their digits
    mean: np.ndarray
    variance: np.ndarray
    prevalence: np.ndarray  # share of the rows that are not 0

    @property
    def unbiased(self) -> np.ndarray:
        """Variances times n / (n - 1), where n is the effective number of rows."""
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.where(self.effective > 1, self.effective / (self.effective - 1), np.nan)
        return self.variance * factor


@dataclass(frozen=True, eq=False)
class GroupSums:
    """Sums of a design's columns over groups of rows."""

    sums: ColumnSums
    center: np.ndarray  # (n_columns,)
    n_rows: np.ndarray  # (n_groups,)
    weight: np.ndarray | None  # (n_groups, 2): sums of weights and of their squares

    @property
    def is_binary(self) -> np.ndarray:
        """Columns of zeros and ones, bool (n_columns,)."""
        return ~self.sums.has_others

    def __add__(self, other: GroupSums) -> GroupSums:
        """Sums over the rows of both, about the means of these, so that squares keep their digits.

        `settled` ends a series of such sums.
        """
        (n, mean), (more, mean_of_more) = self._means(), other._means()
        if not n or not more:
            return other if more else self
        center = mean + (mean_of_more - mean) * (more / (n + more))
        one, two = self._moved(center), other._moved(center)
        sums = [a + b for a, b in zip(one.sums[:6], two.sums[:6], strict=True)]
        sums += [
            np.minimum(one.sums.least, two.sums.least),
            np.maximum(one.sums.most, two.sums.most),
            one.sums.has_others | two.sums.has_others,
        ]
        weight = None if self.weight is None else self.weight + other.weight
        return GroupSums(ColumnSums(*sums), center, self.n_rows + other.n_rows, weight)

    def _means(self):
        n = self.n_rows.sum()
        return n, self.center + self.sums.total.sum(axis=1) / max(n, 1)

    def _moved(self, center):
        """Sums with other numbers taken from the columns."""
        by = (self.center - center)[:, None]

        def move(total, square, size):
            return total + size * by, square + by * (2.0 * total + size * by)

        s = self.sums
        total, square = move(s.total, s.square, self.n_rows)
        moved = {"total": total, "square": square}
        if self.weight is not None:
            both = move(s.weighted_total, s.weighted_square, self.weight[:, 0])
            moved |= {"weighted_total": both[0], "weighted_square": both[1]}
        return replace(self, sums=s._replace(**moved), center=center)

    def settled(self, has_all) -> GroupSums:
        """Sums with centers as `sum_by_group` chooses them of all rows at once.

        Only columns that store all rows (`has_all`) have one.
        """
        n, mean = self._means()
        total, square = self.sums.total.sum(axis=1), self.sums.square.sum(axis=1)
        is_constant = self.sums.least.min(axis=1) == self.sums.most.max(axis=1)
        center = choose_centers(mean, square - total**2 / n, n, 0.0)
        center = np.where(is_constant, self.sums.least.min(axis=1), center)
        found = self._moved(np.where(has_all & ~self.is_binary, center, 0.0))
        sums, still = found.sums, is_constant & ~self.is_binary
        for part in sums[1:3] + sums[4:6]:
            part[still] = 0.0
        _fill_ones(sums, self.is_binary)
        return found

    def moments(self, weighted=False) -> ColumnMoments:
        """Means and variances; NaN in groups without weight."""
        if weighted:
            _, _, _, count, total, square, *_ = self.sums
            size, squares = self.weight.T
        else:
            count, total, square, *_ = self.sums
            size = squares = self.n_rows.astype(np.float64)
        with np.errstate(divide="ignore", invalid="ignore"):
            shifted = total / size
            variance = square / size - shifted**2
            variance[variance <= ROUNDING * square / size] = 0.0
            effective = size**2 / squares
            mean = shifted + self.center[:, None]
            return ColumnMoments(size, effective, shifted, mean, variance, count / size)


# Both loops are functions of arrays, without another call: references to arrays are counted at
# every call, which for every entry would take ten times as long.
@device
def _add_ones(column, q, stop, groups, j, sums):
    """Add the entries of an indicator from q to the end of the block; the entry after them."""
    group, weight = groups
    count, weighted_count = sums.count, sums.weighted_count
    is_weighted = len(weight) > 0
    while q < len(column) and column[q] < stop:
        i = np.uint64(column[q])
        g = np.uint64(group[i])
        count[j, g] += 1
        if is_weighted:
            weighted_count[j, g] += weight[i]
        q += 1
    return q


@device
def _add_values(columns, j, q, stop, groups, shift, sums):
    """Add up a column with values by group; entries of a dense one are its rows."""
    column = columns.indices[columns.indptr[j] : columns.indptr[j + 1]]
    values, is_dense = columns.values[columns.value_ptr[j] :], columns.kind[j] == DENSE
    group, weight = groups
    count, total, square, weighted_count, weighted_total, weighted_square, least, most, _ = sums
    is_weighted, has_others = len(weight) > 0, False
    end = stop if is_dense else len(column)
    while q < end:
        i = np.uint64(q) if is_dense else np.uint64(column[q])
        if i >= np.uint64(stop):
            break
        g, value = np.uint64(group[i]), values[q]
        x, nonzero = value - shift, 1 if value != 0.0 else 0
        count[j, g] += nonzero
        total[j, g] += x
        square[j, g] += x * x
        if is_weighted:
            weighted_count[j, g] += nonzero * weight[i]
            weighted_total[j, g] += x * weight[i]
            weighted_square[j, g] += x * x * weight[i]
        least[j, g] = min(least[j, g], value)
        most[j, g] = max(most[j, g], value)
        has_others |= value * value != value
        q += 1
    sums.has_others[j] |= has_others
    return q


@kernel
def _sum_columns(first, last, columns, groups, center, sums):
    """Write the sums of columns first..last-1, which belong to this call."""
    n = len(groups.group)
    place = np.zeros(last - first, dtype=np.int64)
    for start in range(0, n, BLOCK_ROWS):
        stop = min(n, start + BLOCK_ROWS)
        for j in range(first, last):
            q = place[j - first]
            if columns.kind[j] == INDICATOR:
                column = columns.indices[columns.indptr[j] : columns.indptr[j + 1]]
                q = _add_ones(column, q, stop, groups, j, sums)
            else:
                q = _add_values(columns, j, q, stop, groups, center[j], sums)
            place[j - first] = q


def sum_by_group(
    design, group=None, n_groups=1, weight=None, *, is_part=False, n_threads=1
) -> GroupSums:
    """Sums of all columns over the rows of each group; -1 as its number leaves a row out.

    By default one group has all rows. Weights, factors of the weighted sums, may be negative.
    Sums over a part of the rows (`is_part`) can be added without a loss of digits.
    """
    n = design.n_rows
    group = np.zeros(n, np.int32) if group is None else group.astype(np.int32)
    n_rows = np.bincount(group + 1, minlength=n_groups + 1)[1:]
    of_weights = None
    if weight is not None:
        both = [np.bincount(group + 1, w, minlength=n_groups + 1)[1:] for w in (weight, weight**2)]
        of_weights = np.column_stack(both)
    n_all = n_groups + int((group < 0).any())
    group[group < 0] = n_groups  # a group of its own, dropped below
    weights = np.empty(0) if weight is None else np.ascontiguousarray(weight, np.float64)
    sums = _empty_sums(design, n_all, weight is not None)
    center = find_centers(design, rounding=None if is_part else 0.0)
    columns, groups = design.arrays(), RowGroups(group, weights)
    cost = design.n_stored + 64

    def add_up(first, last):
        _sum_columns(first, last, columns, groups, center, sums)

    over_columns(add_up, cost, n_threads)
    sums = ColumnSums(*(part[:, :n_groups] for part in sums[:-1]), sums.has_others)
    of_ones = design.kind == INDICATOR
    _fill_ones(sums, of_ones)
    some = sums.count[of_ones] > 0
    sums.least[of_ones] = np.where(some, 1.0, np.inf)
    sums.most[of_ones] = np.where(some, 1.0, -np.inf)
    _count_zeros(design, n_rows, sums)
    largest = np.maximum(np.abs(sums.least), np.abs(sums.most))
    check_largest(np.where(sums.count > 0, largest, 0.0).max(axis=1), design.names)
    return GroupSums(sums, center, n_rows, of_weights)


def _empty_sums(design, n_groups, is_weighted):
    shape = design.n_columns, n_groups
    weighted = shape if is_weighted else (design.n_columns, 0)
    return ColumnSums(
        np.zeros(shape, np.int64),
        *np.zeros((2, *shape)),
        *np.zeros((3, *weighted)),
        np.full(shape, np.inf),
        np.full(shape, -np.inf),
        np.zeros(design.n_columns, bool),
    )


def _fill_ones(sums, of_ones):
    """A one is its own square."""
    for target in (sums.total, sums.square):
        target[of_ones] = sums.count[of_ones]
    for target in (sums.weighted_total, sums.weighted_square):
        target[of_ones] = sums.weighted_count[of_ones]


def _count_zeros(design, n_rows, sums):
    """Let the rows that are not stored count in the least and greatest values."""
    is_partial = (design.kind != DENSE)[:, None] & (sums.count < n_rows)
    sums.least[is_partial] = np.minimum(sums.least, 0.0)[is_partial]
    sums.most[is_partial] = np.maximum(sums.most, 0.0)[is_partial]


def find_scales(design, weight=None, n_threads=1) -> np.ndarray:
    """Standard deviation of every column, by n or the sum of weights; 1 of constant ones."""
    variance, is_computed = np.empty(design.n_columns), design.kind == COMPUTED
    if not is_computed.all():
        sums = sum_by_group(design.select(~is_computed), weight=weight, n_threads=n_threads)
        variance[~is_computed] = sums.moments(weight is not None).variance[:, 0]
    if is_computed.any():
        computed, columns = ComputedColumns(design), np.flatnonzero(is_computed)
        weight = np.ones(design.n_rows) if weight is None else weight
        mean, square = (
            computed.sums(columns, weight / weight.sum(), form, None, 1, _at_once)[:, 0]
            for form in (VALUE, SQUARE)
        )
        left = square - mean**2
        variance[columns] = np.where(left > ROUNDING * square, left, 0.0)
    return np.sqrt(np.where(variance > 0.0, variance, 1.0))


def _at_once(part, columns):
    part(0, len(columns))


def column_names(design) -> np.ndarray:
    """Names of the columns; x0, x1 and so on where they have none."""
    if design.names is not None:
        return design.names
    return np.array([f"x{j}" for j in range(design.n_columns)], dtype=object)


def describe_columns(design, groups, weights, n_threads):
    """Table behind `Design.describe`."""
    from ..vectors import check_labels, check_row_values, encode

    labels, weight, group = None, None, np.zeros(design.n_rows, np.int64)
    if groups is not None:
        group, labels = encode(check_labels(groups, "groups", design.n_rows))
    if weights is not None:
        weight = check_row_values(weights, "weights", design.n_rows, minimum=0)
        group = np.where(weight > 0, group, -1)
    n_groups = 1 if labels is None else len(labels)
    found = sum_by_group(design, group, n_groups, weight, n_threads=n_threads)
    moments = found.moments(weight is not None)
    parts = {
        "rows": found.sums.count,
        "mean": moments.mean,
        "sd": np.sqrt(moments.unbiased),
        "prevalence": moments.prevalence,
        "min": np.where(found.n_rows > 0, found.sums.least, np.nan),
        "max": np.where(found.n_rows > 0, found.sums.most, np.nan),
    }
    names = Index(column_names(design))
    if labels is None:
        return DataFrame({key: part[:, 0] for key, part in parts.items()}, index=names)
    groups = Index(labels, name="group")
    tables = {key: DataFrame(part, index=names, columns=groups) for key, part in parts.items()}
    return concat(tables, axis=1)
