"""Coarser times: sums by time must not be those of few rows, at any site.

A grid of times g_1 < ... < g_K is proposed.  Each site counts, by stratum and kind of row (exits,
deaths, entries, competing events, censored rows), how many it has in each interval (g_{k-1}, g_k]
and up to each time, both rounded down to multiples of its `min_rows`.  Intervals are joined, see
`times`, until each kind has none or at least `min_rows` rows in each of them at every site, as far
as the rounded numbers prove it.  A time becomes the end of its interval; an entry becomes the end
of the one before, so that (start, time] stays an interval, and a row of a person ends where the
next one begins.  What happens after g_K counts as not seen: follow-up ends there.

A row stands for a person once: with several rows, by the last one of its kind.
"""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ..backends.sums.messages import Tables

KINDS = ("exits", "deaths", "entries", "competing", "censored")


class Proposed(NamedTuple):
    """Rows of a site by stratum, kind and time, rounded down to multiples of `min_rows`.

    tables    labels of strata; of every kind, such as ``deaths``: ``deaths``, those at each time,
              and ``deaths_by``, those up to it, (n_labels, n_times); ``deaths_begin`` and
              ``deaths_end`` (n_labels,), whether there are none before the first step of
              ``deaths_by``, and after its last
    """

    min_rows: int
    tables: Tables


class Times(NamedTuple):
    """Times of every stratum: those of `labels[s]` are times[ptr[s]:ptr[s + 1]]."""

    labels: np.ndarray
    times: np.ndarray
    ptr: np.ndarray

    def of(self, label) -> np.ndarray:
        """Times of a stratum; none where it has none."""
        [at] = np.nonzero(self.labels == label)
        return self.times[self.ptr[at[0]] : self.ptr[at[0] + 1]] if len(at) else self.times[:0]


def labels_of(outcome):
    """Labels of the strata of an outcome, 0 alone without any, and every row's number."""
    if outcome.stratum is None:
        return np.zeros(1, np.int64), np.zeros(outcome.n_rows, np.int64)
    return outcome.stratum_labels, outcome.stratum


def end_follow_up(outcome, end):
    """An outcome that ends at a time, and which rows begin before that."""
    late = outcome.time > end
    changed: dict[str, Any] = {
        "time": np.minimum(outcome.time, end),
        "event": outcome.event & ~late,
    }
    if outcome.status is not None:
        changed["status"] = np.where(late, 0, outcome.status).astype(np.uint8)
    begins = np.ones(outcome.n_rows, bool) if outcome.start is None else outcome.start < end
    return replace(outcome, **changed), begins


def rows_of_kinds(outcome, uses_ties=False):
    """Which rows are of each kind; sums over deaths tell those of other exits, too."""
    everyone = np.ones(outcome.n_rows, bool)
    found = {"exits": everyone, "deaths": outcome.event}
    if outcome.start is not None and outcome.start.any():
        found["entries"] = everyone
    if outcome.status is not None:
        found |= {"competing": outcome.status == 2, "censored": outcome.status == 0}
    elif uses_ties:
        found["censored"] = ~outcome.event
    return found


def _places(outcome, grid):
    """Interval of every row's exit, and the one after that before which it enters."""
    end = np.minimum(np.searchsorted(grid, outcome.time), len(grid) - 1)
    if outcome.start is None:
        return end, None
    return end, np.minimum(np.searchsorted(grid, outcome.start, side="right"), len(grid) - 1)


def propose(outcome, unit, grid, min_rows, uses_ties=False) -> Proposed:
    """Times that a site proposes for the grid."""
    labels, stratum = labels_of(outcome)
    present, stratum = np.unique(stratum, return_inverse=True)
    labels = labels[present]
    end, begin = _places(outcome, grid)
    tables, shape = {"labels": labels}, (len(labels), len(grid))
    for kind, is_kind in rows_of_kinds(outcome, uses_ties).items():
        place = begin if kind == "entries" else end
        rows = _last_of_units(is_kind, place, unit)
        counts = np.zeros(shape, np.int64)
        np.add.at(counts, (stratum[rows], place[rows]), 1)
        by = np.cumsum(counts, axis=1)
        rounded = by // min_rows * min_rows
        step = np.argmax(rounded == rounded[:, -1:], axis=1)  # the last one
        tables[kind] = counts // min_rows * min_rows
        tables[f"{kind}_by"] = rounded
        every, first = np.arange(len(labels)), np.argmax(rounded > 0, axis=1)
        tables[f"{kind}_end"] = by[every, step] == by[:, -1]
        tables[f"{kind}_begin"] = by[every, first] == counts[every, first]
    return Proposed(min_rows, tables)


def _last_of_units(is_kind, place, unit):
    """Rows of a kind, of each unit the last one."""
    rows = np.flatnonzero(is_kind)
    if unit is None:
        return rows
    rows = rows[np.lexsort((place[rows], unit[rows]))]
    return rows[np.append(unit[rows][1:] != unit[rows][:-1], True)] if len(rows) else rows


def coarsen(outcome, times: Times, unit=None):
    """An outcome at coarser times, and which of its rows are left."""
    labels, stratum = labels_of(outcome)
    time, start = outcome.time.copy(), outcome.start
    start = None if start is None else start.copy()
    keeps = np.ones(outcome.n_rows, bool)
    for number, label in enumerate(labels):
        rows, grid = np.flatnonzero(stratum == number), times.of(label)
        if not len(grid):
            keeps[rows] = False
            continue
        time[rows] = grid[np.minimum(np.searchsorted(grid, time[rows]), len(grid) - 1)]
        if start is not None:
            place = np.searchsorted(grid, start[rows], side="right")
            start[rows] = np.concatenate([[0.0], grid])[place]
    if start is not None:
        if unit is not None:
            _part(outcome, np.lexsort((outcome.start, stratum, unit)), unit, time, start)
        keeps &= start < time
    return replace(outcome, time=time, start=start), keeps


def _part(outcome, rows, unit, time, start):
    """Let no two rows of a person share an interval: it belongs to an event, or to the later row.

    `rows` are those of a person in each stratum, in the order of time.
    """
    _, stratum = labels_of(outcome)
    is_next = (unit[rows[1:]] == unit[rows[:-1]]) & (stratum[rows[1:]] == stratum[rows[:-1]])
    row, following = rows[:-1][is_next], rows[1:][is_next]
    has_event = outcome.event[row]
    start[following] = np.where(
        has_event, np.maximum(start[following], time[row]), start[following]
    )
    time[row] = np.where(has_event, time[row], np.minimum(time[row], start[following]))


def find_cut(outcome, times: Times) -> bool:
    """Whether rows begin where others end, between two times: they may be one person's."""
    if outcome.start is None:
        return False
    labels, stratum = labels_of(outcome)
    for number, label in enumerate(labels):
        rows = stratum == number
        ends = outcome.time[rows & ~outcome.event]
        ends = np.setdiff1d(ends, times.of(label))
        if np.isin(outcome.start[rows], ends).any():
            return True
    return False


def few(counts, min_rows):
    """Where there are some, and fewer than a sum must have."""
    return (counts > 0) & (counts < min_rows)


def find_rare(labels, unit, min_rows) -> bool:
    """Whether some combination of labels is one that few rows have, or persons."""
    unit = np.arange(len(labels[0])) if unit is None else unit
    persons = np.unique(np.column_stack([*labels, unit]), axis=0)
    counts = np.unique(persons[:, :-1], axis=0, return_counts=True)[1]
    return bool(few(counts, min_rows).any())


def find_few(outcome, unit, min_rows, uses_ties=False) -> list[str]:
    """Kinds of rows of which a time has too few, by name; of a group of censoring, too."""
    if outcome.status is not None and outcome.censoring_group is not None:
        of_groups = replace(outcome, stratum=outcome.censoring_group, censoring_group=None)
        found = find_few(of_groups, unit, min_rows)
        if found:
            return found
    _, stratum = labels_of(outcome)
    found = []
    for kind, is_kind in rows_of_kinds(outcome, uses_ties).items():
        time = outcome.start if kind == "entries" else outcome.time
        rows = np.flatnonzero(is_kind & (time > 0.0) if kind == "entries" else is_kind)
        whose = rows if unit is None else unit[rows]
        if find_rare([stratum[rows], time[rows]], whose, min_rows):
            found.append(kind)
    return found


def rare_strata(outcome, unit, min_rows, uses_ties=False) -> np.ndarray:
    """Numbers of the strata that have some rows of a kind, and too few."""
    labels, stratum = labels_of(outcome)
    is_rare = np.zeros(len(labels), bool)
    for kind, is_kind in rows_of_kinds(outcome, uses_ties).items():
        if kind == "entries":
            is_kind = is_kind & (outcome.start > 0.0)
        rows = _last_of_units(is_kind, outcome.time, unit)
        is_rare |= few(np.bincount(stratum[rows], minlength=len(labels)), min_rows)
    return np.flatnonzero(is_rare)
