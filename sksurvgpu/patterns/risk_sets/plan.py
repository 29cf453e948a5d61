"""RowPlan: times become integers once, and no kernel ever compares times.

The *event indices* of a stratum number its distinct event times from 1.  A row is at risk at index
k exactly when enter < k <= exit, with exit = #{event times <= time} and enter = #{event times <=
start}: intervals are (start, stop], so a row censored at an event time is at risk there and a row
that starts at it is not.  Ties, delayed entry, strata and coefficients that change over time are
statements about these integers.

A cut point of a time-varying coefficient splits the time axis into pieces (c_{b-1}, c_b].  A risk
set at a time in piece b holds only row copies of piece b, hence the split data set is the model
stratified by (stratum, piece).  Rows are ordered by the last piece that they reach, then stratum,
then exit: the copies of piece b are then a suffix of the rows, and copy = row + shift[b].
"""

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from ..._compile import kernel
from ...data.sorting import order_within

FEW_BINS = 64  # in all: up to here every column keeps a load for each
BINS_PER_STRATUM = (16, 8, 4, 1)  # more than 16 gained nothing where rows outnumber columns
DEATHS_PER_BIN = 8
SMALL_ROWS, SMALL_DEATHS = 5_000, 512  # here a bin a death costs nothing and makes the model exact
# ... and here it costs less than the iterations that it saves: without it the model is far from
# exact in as many directions as a fit under a small penalty has.  Devices have no room for more.
WIDE_DEATHS = 2_000


@dataclass(frozen=True)
class RowPlan:
    """Row order, risk-set integers and groups of one problem; independent of weights."""

    order: np.ndarray  # int32 (n_base,): caller's row of every row
    exit_idx: np.ndarray  # uint32 (n_rows,): cell of the exit
    enter_idx: np.ndarray | None  # uint32 (n_rows,): cell of the entry
    event: np.ndarray  # uint8 (n_rows,)
    cell_ptr: np.ndarray  # int64 (n_groups + 1,): cells of each (piece, stratum), pieces outside
    cell_time: np.ndarray  # float64 (n_cells,): event time, nan for the cell before the first
    first: np.ndarray  # int64 (n_pieces,): first row that reaches the piece
    shift: np.ndarray  # int64 (n_pieces,): row copy minus row
    n_strata: int
    is_wide: bool = field(default=False, kw_only=True)  # whether columns outnumber rows

    @property
    def n_base(self):
        return len(self.order)

    @property
    def n_rows(self):
        """Rows including their copies in later pieces."""
        return len(self.exit_idx)

    @property
    def n_pieces(self):
        return len(self.first)

    @cached_property
    def bins(self):
        """Event-time bins."""
        return plan_bins(self)

    def beside(self, n_columns):
        """The plan where there are so many columns."""
        return replace(self, is_wide=n_columns > self.n_base)

    @property
    def few(self):
        """Whether a column can afford to keep one number for every bin."""
        return self.bins.few

    @property
    def n_bins(self):
        return self.bins.n_bins

    @property
    def n_cells(self):
        return int(self.cell_ptr[-1])

    @cached_property
    def is_in_order(self):
        """Whether rows, copies included, are in the order of the cells of their exits."""
        return not np.any(self.exit_idx[1:] < self.exit_idx[:-1])

    @cached_property
    def entries(self):
        """Rows that enter late, in the order of the cells of their entry, and these cells."""
        ptr = np.bincount(self.enter_idx, minlength=self.n_cells)
        ptr[self.cell_ptr[:-1]] = 0  # who is there from the beginning leaves no cell
        ptr = np.concatenate([[0], np.cumsum(ptr)])
        rows = np.empty(ptr[-1], np.int32)
        _list_by_cell(self.enter_idx, ptr[:-1].copy(), ptr, rows)
        return rows, self.enter_idx[rows]

    def stratum_of_row(self):
        """Stratum of every row: all rows are in the first piece, whose groups are the strata."""
        return np.searchsorted(self.cell_ptr, self.exit_idx[: self.n_base], side="right") - 1

    @cached_property
    def is_in_risk_set(self):
        """Which rows some risk set holds."""
        if self.enter_idx is not None:
            return self.exit_idx > self.enter_idx
        is_first = np.zeros(self.n_cells, bool)
        is_first[self.cell_ptr[:-1]] = True
        return ~is_first[self.exit_idx]

    @cached_property
    def stratum_ptr(self):
        """Offsets of the rows of each stratum; of all rows where these have copies."""
        if self.n_pieces > 1:
            return np.array([0, self.n_rows])
        if self.is_in_order:
            return np.searchsorted(self.exit_idx, self.cell_ptr.astype(np.uint32))
        return np.searchsorted(self.stratum_of_row(), np.arange(self.n_strata + 1))

    @cached_property
    def row_bins(self):
        """Bins of rows."""
        bins, enter = self.bins, self.enter_idx
        enter_bin = None if enter is None else bins.cell_bin[enter]
        return RowBins.of(self, bins.few, bins.cell_bin[self.exit_idx], enter_bin, bins.last)

    def per_copy(self, per_row):
        """Spread one number a row over its copies."""
        if self.n_pieces == 1:
            return per_row
        return np.concatenate([per_row[start:] for start in self.first])


@kernel
def _count_at_or_before(event_time, event_ptr, stratum, value, out):
    """out_i = number of event times of the row's stratum at or before value_i.

    Looked for in steps that double, from where the row before has found its own: near by where rows
    are sorted.
    """
    for i in range(len(value)):
        first, high = event_ptr[stratum[i]], event_ptr[stratum[i] + 1]
        low, step = first, 1
        if i > 0 and stratum[i] == stratum[i - 1] and value[i] >= value[i - 1]:
            low = first + out[i - 1]
        while low + step < high and event_time[low + step - 1] <= value[i]:
            low += step
            step += step
        high = min(high, low + step)
        while low < high:
            middle = (low + high) >> 1
            if event_time[middle] <= value[i]:
                low = middle + 1
            else:
                high = middle
        out[i] = low - first


@kernel
def _find_cells(index, stratum, edge, count, cell_ptr, out):
    """Cells of event indices within a piece, by the strata of rows."""
    for i in range(len(index)):
        s = stratum[i]
        out[i] = min(max(index[i] - edge[s], 0), count[s]) + cell_ptr[s]


@kernel
def _list_by_cell(cell, place, ptr, out):
    """Rows of every cell that has places in `out`, in their order."""
    for i in range(len(cell)):
        k = cell[i]
        if place[k] < ptr[k + 1]:
            out[place[k]] = i
            place[k] += 1


def plan_rows(outcome, cuts=(), events=None, *, reorders=True):
    """Row plan of an outcome (`data.outcome.Outcome`), split at the given times.

    Where its rows are some of many, `events` are the event times of all of them,
    ``(event_time, event_ptr)`` by stratum.  Rows may stay in the order that they have (not
    `reorders`), unless copies of them are to follow each other, or strata of all rows are mixed.
    """
    n, cuts = len(outcome.time), np.asarray(cuts, dtype=np.float64)
    stratum, n_strata = _strata_of(outcome, events)
    reorders = reorders or (events is None and bool(np.any(stratum[1:] < stratum[:-1])))
    last_piece = np.zeros(n, np.int16)
    if len(cuts):
        last_piece = np.searchsorted(cuts, outcome.time, side="left").astype(np.int16)
    if not reorders and not len(cuts):
        order, place = np.arange(n, dtype=np.int32), slice(None)
    else:
        group = last_piece * np.int64(n_strata) + stratum
        place = order = order_within(group, n_strata * (len(cuts) + 1), outcome.time)
    time, event, stratum = outcome.time[place], outcome.event[place], stratum[place]
    last_piece, are_all = last_piece[place], events is None

    if are_all:
        are_sorted = reorders and not len(cuts)
        event_stratum, event_time = distinct_pairs(stratum[event], time[event], are_sorted)
        events = event_time, np.searchsorted(event_stratum, np.arange(n_strata + 1))
    exit_, enter = count_at_or_before(events, stratum, time), None
    if outcome.start is not None:
        enter = _count_unordered(events, stratum, outcome.start[place])
    if are_all and enter is not None and not enter.any():  # nobody enters late
        enter = None

    edges, counts, cell_ptr = split_events(events, cuts)
    event_times, event_ptr = events
    first = np.searchsorted(last_piece, np.arange(len(cuts) + 1))
    shift = np.concatenate([[0], np.cumsum(n - first)[:-1]]) - first

    def cells(index):
        out = np.empty(int(np.sum(n - first)), np.uint32)
        for b, start in enumerate(first):
            low = start + shift[b]
            _find_cells(
                index[start:],
                stratum[start:],
                edges[b],
                counts[b],
                cell_ptr[b * n_strata :],
                out[low : low + n - start],
            )
        return out

    events_of_pieces = [event[start:] & (last_piece[start:] == b) for b, start in enumerate(first)]
    return RowPlan(
        order=order,
        exit_idx=cells(exit_),
        enter_idx=None if enter is None else cells(enter),
        event=np.concatenate(events_of_pieces).astype(np.uint8),
        cell_ptr=cell_ptr,
        cell_time=times_of_cells(event_times, event_ptr, edges, counts, cell_ptr),
        first=first.astype(np.int64),
        shift=shift.astype(np.int64),
        n_strata=n_strata,
    )


def _strata_of(outcome, events):
    """Stratum of every row, and how many there are."""
    if outcome.stratum is None:
        return np.zeros(len(outcome.time), np.int32), 1
    n_strata = int(outcome.stratum.max()) + 1 if events is None else len(events[1]) - 1
    return outcome.stratum.astype(np.int32), n_strata


def count_at_or_before(events, stratum, value):
    """Number of event times of each row's stratum at or before its value."""
    out = np.empty(len(value), np.int32)
    _count_at_or_before(*events, stratum, value, out)
    return out


def _count_unordered(events, stratum, value):
    """`count_at_or_before` of values in no order: to sort them is less than to look for each."""
    order, out = order_within(stratum, len(events[1]) - 1, value), np.empty(len(value), np.int32)
    out[order] = count_at_or_before(events, stratum[order], value[order])
    return out


def distinct_pairs(stratum, time, are_sorted):
    """Distinct (stratum, time) pairs in ascending order."""
    if not are_sorted:
        order = np.lexsort((time, stratum))
        stratum, time = stratum[order], time[order]
    new = np.ones(len(time), bool)
    new[1:] = (stratum[1:] != stratum[:-1]) | (time[1:] != time[:-1])
    return stratum[new], time[new]


def split_events(events, cuts):
    """Cells of event times ``(event_time, event_ptr)`` of strata, split into pieces at `cuts`.

    ``edges[b, s]``, the event indices of stratum s that lie before piece b; their number in each
    piece and stratum; and offsets of the cells of these.
    """
    n_strata = len(events[1]) - 1
    every = np.arange(n_strata, dtype=np.int32)
    inner = [count_at_or_before(events, every, np.full(n_strata, cut)) for cut in cuts]
    edges = np.array([np.zeros(n_strata, np.int64), *inner, np.diff(events[1])])
    counts = np.diff(edges, axis=0)
    return edges, counts, np.concatenate([[0], np.cumsum(counts + 1)])


def times_of_cells(event_time, event_ptr, edges, counts, cell_ptr):
    """Event time of every cell, cells in the order (piece, stratum, index)."""
    out = np.full(cell_ptr[-1], np.nan)
    first_event = (event_ptr[:-1] + edges[:-1]).ravel()
    size = counts.ravel()
    inside = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
    out[np.repeat(cell_ptr[:-1] + 1, size) + inside] = event_time[
        np.repeat(first_event, size) + inside
    ]
    return out


@dataclass(frozen=True)
class BinPlan:
    """Event-time bins of equal death counts, a partition of every group's cells."""

    cell_bin: np.ndarray  # uint16 or uint32 per cell; a group's cell 0 counts to its first bin
    start: np.ndarray  # int64 per bin: the cell before its first
    end: np.ndarray  # int64 per bin: its last cell
    last: np.ndarray  # int64 per bin: the last bin of its group
    few: bool  # whether a column can afford to keep one number for every bin

    @property
    def n_bins(self):
        return len(self.start)

    @cached_property
    def is_exact(self):
        """Whether every event time has a bin of its own."""
        return bool(np.all(self.end - self.start <= 1))


@dataclass(frozen=True)
class RowBins:
    """Bins in which rows leave and enter: all that the problem has, or some rows' own."""

    few: bool  # whether a column can afford to keep one number for every bin
    exit_bin: np.ndarray  # per row: uint16 (few) or uint32
    enter_bin: np.ndarray | None  # likewise; None where nobody enters late
    last: np.ndarray  # int64 per bin: the last bin of its group
    row_ptr: np.ndarray | None  # int64 per bin + 1, where bins are ranges of rows

    @property
    def n_bins(self):
        return len(self.last)

    @classmethod
    def of(cls, plan, few, exit_bin, enter_bin, last):
        """Bins of the rows of a plan."""
        is_range = enter_bin is None and plan.n_pieces == 1
        row_ptr = None
        if is_range and not np.any(exit_bin[1:] < exit_bin[:-1]):
            row_ptr = np.searchsorted(exit_bin, np.arange(len(last) + 1))
        return cls(few, exit_bin, enter_bin, last, row_ptr)


def plan_bins(plan, whole_strata=False):
    """Bins of a plan: as many as the few can be, else one for each stratum."""
    deaths = np.bincount(plan.exit_idx[plan.event > 0], minlength=plan.cell_ptr[-1])
    return bins_of_deaths(deaths, plan.cell_ptr, plan.n_rows, whole_strata, plan.is_wide)


def bins_of_deaths(deaths, cell_ptr, n_rows, whole_strata=False, is_wide=False):
    """Bins of cells with so many deaths."""
    total = np.add.reduceat(deaths, cell_ptr[:-1])
    wanted, few = _count_bins(total, n_rows, is_wide)
    if whole_strata:
        wanted, few = np.ones_like(total), len(total) <= FEW_BINS
    bins = np.empty((3, int(wanted.sum())), np.int64)
    cell_bin = np.empty(len(deaths), np.uint16 if few else np.uint32)
    n_bins = _assign_bins(cell_ptr, deaths, total, wanted, cell_bin, *bins)
    return BinPlan(cell_bin, *bins[:, :n_bins].copy(), few=few)


def _count_bins(total, n_rows, is_wide):
    """Bins of every stratum from its number of deaths, and whether they are few."""
    most = WIDE_DEATHS if is_wide else SMALL_DEATHS
    if n_rows <= SMALL_ROWS and np.maximum(total, 1).sum() <= most:
        return np.maximum(total, 1), True
    for most in BINS_PER_STRATUM:
        wanted = np.clip(total // DEATHS_PER_BIN, 1, most)
        if wanted.sum() <= FEW_BINS:
            return wanted, True
    return np.ones_like(total), False


@kernel
def _assign_bins(cell_ptr, deaths, total, wanted, cell_bin, start, end, last):
    """Cut every group's cells into at most `wanted` bins of about equal deaths; number of bins."""
    n_bins = 0
    for g in range(len(total)):
        begin, stop = cell_ptr[g], cell_ptr[g + 1]
        opened, before, share = n_bins, 0, -1
        cell_bin[begin] = n_bins
        for k in range(begin + 1, stop):
            if before * wanted[g] // max(total[g], 1) != share:
                share = before * wanted[g] // max(total[g], 1)
                start[n_bins] = k - 1
                n_bins += 1
            cell_bin[k] = n_bins - 1
            end[n_bins - 1] = k
            before += deaths[k]
        if n_bins == opened:
            start[n_bins] = end[n_bins] = begin
            n_bins += 1
        last[opened:n_bins] = n_bins - 1
    return n_bins
