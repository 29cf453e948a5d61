"""Plans of the rows of a partition: integers of the problem's cells, and of those that it owns.

Cells, bins, lanes and curves are numbered by the event times of all rows.  A partition needs the
numbers of its own cells only, those where a row of it begins or ends: arrays over these have an
entry each, and its rows point into them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from ...backends.sums.describing import numbered
from ...backends.sums.messages import Arranged
from ..carried.plan import offsets_of_tables
from .plan import RowPlan, count_at_or_before, plan_rows


@dataclass(frozen=True)
class PartBins:
    """Bins of rows: all that the problem has where these are few, else the partition's own."""

    few: bool
    n_bins: int
    exit_bin: np.ndarray  # per row, uint16 (few) or uint32
    enter_bin: np.ndarray | None
    last: np.ndarray  # int64 per bin: last bin of its group
    row_ptr: np.ndarray | None  # int64 per bin + 1, where bins are ranges of rows


@dataclass(frozen=True)
class PartPlan(RowPlan):
    """A row plan over own cells."""

    own: np.ndarray  # int64: cells of the problem
    is_at_risk: np.ndarray  # bool per row: whether some risk set holds it
    part_bins: PartBins


@dataclass(frozen=True)
class PartLanes:
    """Carried rows over own lane cells and own entries of censoring curves."""

    competing: np.ndarray  # bool per row
    censored: np.ndarray  # bool per row
    may_count: np.ndarray  # bool per row: competing, in a stratum with events
    carry_idx: np.ndarray  # uint32 per row: own lane cell of its exit; 0 where it is not carried
    entry_idx: np.ndarray  # int64 per row: own entry that is G(T-)
    own_lanes: np.ndarray
    own_entries: np.ndarray


@dataclass(frozen=True)
class CompetingPartPlan(PartPlan):
    """... with rows that are carried beyond their exit."""

    lanes: PartLanes


def plan_part(rows, tables):
    """Plan of a partition's rows, and the cells that it owns."""
    plan, _ = _plan(rows, tables)
    return plan, Arranged(plan.own)


def plan_competing_part(rows, tables):
    """... with competing events."""
    plan, (outcome, whole) = _plan(rows, tables)
    lanes = _plan_lanes(rows, tables, outcome, whole)
    given = {field.name: getattr(plan, field.name) for field in fields(plan)}
    arranged = Arranged(plan.own, lanes.own_lanes, lanes.own_entries)
    return CompetingPartPlan(**given, lanes=lanes), arranged


def _plan(rows, tables):
    """Plan over own cells; the outcome, and its plan over the problem's cells."""
    outcome = rows.outcome
    code, labels = numbered(outcome.stratum, outcome.stratum_labels, rows.n_rows)
    code = renumbered(code, labels, tables["labels_strata"])
    few = bool(tables["few"][0])
    # the second term inside the partition wants the rows of a stratum side by side
    reorders = not few and bool(np.any(np.diff(code) < 0))
    events = tables["event_time"], tables["event_ptr"]
    outcome = replace(outcome, stratum=code)
    whole = plan_rows(outcome, rows.cuts, events, reorders=reorders)
    cells = [whole.exit_idx] if whole.enter_idx is None else [whole.exit_idx, whole.enter_idx]
    own, local = own_numbers(whole.n_cells, cells)
    given = {field.name: getattr(whole, field.name) for field in fields(whole)}
    given |= {
        "exit_idx": local[0],
        "enter_idx": local[1] if len(local) > 1 else None,
        "cell_ptr": np.array([0, len(own)]),
        "cell_time": whole.cell_time[own],
    }
    bins = _plan_bins(whole, tables["bin_end"], few)
    plan = PartPlan(**given, own=own, is_at_risk=whole.is_in_risk_set, part_bins=bins)
    return plan, (outcome, whole)


def renumbered(code, labels, of_problem):
    """Numbers of rows' labels among those of the problem."""
    if len(labels) and labels.dtype.kind in "biu":
        labels = labels.astype(of_problem.dtype)  # the problem's may be uint64, where all fit
    number = np.searchsorted(of_problem, labels)
    if np.any(number == len(of_problem)) or np.any(of_problem[number] != labels):
        raise ValueError(
            "the partition has labels that it did not have when the fit began; its data must stay "
            "as they are until the fit is done."
        )
    return number.astype(np.int64)[code]


def own_numbers(n, indices):
    """Which of n numbers occur in some of the index arrays, and these arrays among those."""
    occurs = np.zeros(n, bool)
    for index in indices:
        occurs[index] = True
    position = np.cumsum(occurs) - 1
    return np.flatnonzero(occurs), [position[index].astype(np.uint32) for index in indices]


def _plan_bins(plan, end, few):
    """Bins of a plan over the problem's cells, `end` being the last cell of each."""
    exit_bin, enter_bin, row_ptr = np.searchsorted(end, plan.exit_idx), None, None
    if not few:
        own, exit_bin = np.unique(exit_bin, return_inverse=True)
        n_bins = len(own)
        last = np.arange(n_bins)  # a stratum each
    else:
        n_bins, group = len(end), np.searchsorted(plan.cell_ptr, end, side="right")
        last = np.searchsorted(group, group, side="right") - 1
        if plan.enter_idx is not None:
            enter_bin = np.searchsorted(end, plan.enter_idx).astype(np.uint16)
        elif plan.n_pieces == 1 and not np.any(np.diff(exit_bin) < 0):
            row_ptr = np.searchsorted(exit_bin, np.arange(n_bins + 1))
    exit_bin = exit_bin.astype(np.uint16 if few else np.uint32)
    return PartBins(few, n_bins, exit_bin, enter_bin, last, row_ptr)


def _plan_lanes(rows, tables, outcome, plan):
    """Lanes and curves of rows, `plan` being that over the problem's cells."""
    order, stratum = plan.order, outcome.stratum[plan.order]
    code, labels = outcome.censoring_group, outcome.censoring_labels
    if code is None:
        code, labels = numbered(rows.outcome.stratum, outcome.stratum_labels, rows.n_rows)
    group = renumbered(code, labels, tables["labels_censoring"])[order]
    status, time = outcome.status[order], outcome.time[order]

    n_groups = len(tables["labels_censoring"])
    lane = np.searchsorted(
        tables["lane_stratum"] * n_groups + tables["lane_group"], stratum * n_groups + group
    )
    size = np.diff(plan.cell_ptr)[tables["lane_stratum"]]
    ahead = np.concatenate([[0], np.cumsum(size)])[:-1] - plan.cell_ptr[tables["lane_stratum"]]
    competing = status == 2
    own_lanes, (carry_idx,) = own_numbers(
        int(size.sum()), [plan.exit_idx[competing] + ahead[lane[competing]]]
    )
    every_carry = np.zeros(len(order), np.uint32)
    every_carry[competing] = carry_idx

    curves = tables["table_time"], tables["table_ptr"]
    entry = offsets_of_tables(curves)[group] + count_at_or_before(curves, group, time) - 1
    n_entries = len(curves[0]) + n_groups
    own_entries, (entry_idx,) = own_numbers(n_entries, [entry])
    has_events = np.diff(tables["event_ptr"]) > 0
    return PartLanes(
        competing=competing,
        censored=status == 0,
        may_count=competing & has_events[stratum],
        carry_idx=every_carry,
        entry_idx=entry_idx.astype(np.int64),
        own_lanes=own_lanes,
        own_entries=own_entries,
    )
