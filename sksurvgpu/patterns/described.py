"""Plans as machines with many threads read them: flat arrays, by name, whatever the weights.

Sums over risk sets are scans over *marks*, from the last to the first.  A row's exit is a mark, and
its entry another; a mark belongs to a cell, and marks are in the order of cells.
"""

from __future__ import annotations

import numpy as np

# What marks say; a scan from the last one reads the first two as SEGMENT and TALLY of rakes.
LAST_OF_GROUP, LAST_OF_CELL, FIRST_OF_CELL = 1, 2, 4


def describe(plan, pattern):
    """Arrays of a plan by name, for the pattern that a likelihood names."""
    every = {"order": np.asarray(plan.order, np.int32), "ones": np.ones((1, plan.n_rows))}
    return every | _OF_PATTERN[pattern](plan)


def _describe_rows(plan):
    return {
        "observed": plan.value,
        "may_count": np.ones(plan.n_rows, np.uint8),
        "own": np.zeros(plan.n_rows, np.int32),  # group of every row
        "last": np.zeros(1, np.int64),  # number of every group
    }


def _describe_groups(plan):
    return {
        "observed": plan.value,
        "may_count": np.ones(plan.n_rows, np.uint8),
        "own": plan.group_idx.astype(np.int32),
        "last": np.arange(plan.n_strata),
        "ptr": np.asarray(plan.ptr, np.int64),
    }


def _describe_sets(plan):
    cases = np.bincount(plan.group_idx[plan.value > 0], minlength=plan.n_strata)
    cases = np.where(cases < np.diff(plan.ptr), cases, 0)  # without others, they say nothing
    return _describe_groups(plan) | {
        "observed": (cases > 0)[plan.group_idx] * plan.value,
        "cases": cases.astype(np.int32),
        "first": np.asarray(plan.ptr[:-1], np.int32),  # row of every set, whose weight is the set's
    }


def _describe_risk_sets(plan):
    bins, nothing = plan.bins, np.empty(0, np.int32)
    is_first = np.zeros(plan.n_cells, np.uint8)
    is_first[plan.cell_ptr[:-1]] = 1
    enter_bin = enter_idx = nothing
    may_count = 1 - is_first[plan.exit_idx]  # rows that some risk set holds
    if plan.enter_idx is not None:
        enter_idx, may_count = plan.enter_idx.astype(np.int32), plan.exit_idx > plan.enter_idx
        enter_bin = bins.cell_bin[enter_idx].astype(np.int32) if bins.few else nothing
    marks, flags = _find_marks(plan, is_first)
    death_ptr, death_row = _group_by(plan.exit_idx, plan.event, plan.n_cells)
    return {
        "observed": plan.event.astype(np.float64),
        "may_count": may_count.astype(np.uint8),
        "exit_idx": plan.exit_idx.astype(np.int32),
        "enter_idx": enter_idx,
        "marks": marks,
        "flags": flags,
        "is_first": is_first,
        "death_ptr": death_ptr,
        "death_row": death_row,
        "start": bins.start,
        "end": bins.end,
        "begin": bins.start + 1,  # a bin's cells are those behind its start
        "stop": bins.end + 1,
        "own": bins.cell_bin[plan.exit_idx].astype(np.int32),
        "enter": enter_bin,
        "last": bins.last,
    }


def _find_marks(plan, is_first):
    """Order of the marks (empty where they are the rows), and what they say.

    Marks of cell 0 count in no risk set: they are left out where that costs nothing.
    """
    cell, order = plan.exit_idx, np.empty(0, np.int32)
    if plan.n_pieces > 1 or plan.enter_idx is not None:
        code = np.arange(plan.n_rows, dtype=np.int32)
        if plan.enter_idx is not None:
            cell, code = np.concatenate([cell, plan.enter_idx]), np.concatenate([code, ~code])
        counts = np.flatnonzero(is_first[cell] == 0)
        counts = counts[np.argsort(cell[counts], kind="stable")]
        cell, order = cell[counts], code[counts]
    group = np.repeat(np.arange(len(plan.cell_ptr) - 1), np.diff(plan.cell_ptr))[cell]
    flags = _flag_last(group, LAST_OF_GROUP) | _flag_last(cell, LAST_OF_CELL)
    return order, flags | _flag_first(cell, FIRST_OF_CELL)


def _flag_last(labels, flag):
    """A flag at the last of every run of equal labels."""
    is_last = np.ones(len(labels), bool)
    is_last[:-1] = labels[1:] != labels[:-1]
    return is_last * np.uint8(flag)


def _flag_first(labels, flag):
    return _flag_last(labels[::-1], flag)[::-1]


def _group_by(label, is_one, n_labels):
    """Some of the rows by their label: offsets of every label's, and the rows."""
    row = np.flatnonzero(is_one)
    row = row[np.argsort(label[row], kind="stable")].astype(np.int32)
    return np.searchsorted(label[row], np.arange(n_labels + 1)), row


def _describe_lanes(plan):
    found, carrying = _describe_risk_sets(plan), plan.carrying
    size, stratum = np.diff(carrying.lane_ptr), np.arange(plan.n_strata, dtype=np.int32)
    lane, n_entries = np.repeat(np.arange(len(size)), size), carrying.table_ptr[-1]
    before, row = _group_by(carrying.carry_idx, carrying.competing, len(lane))
    counts = carrying.competing & (np.diff(plan.cell_ptr) > 1)[plan.stratum_of_row()]
    failed_ptr, failed_row = _group_by(carrying.row_table_idx, ~carrying.censored, n_entries)
    lost_ptr, lost_row = _group_by(carrying.row_table_idx, carrying.censored, n_entries)
    return found | {
        "may_count": found["may_count"] | counts,
        "carry_idx": carrying.carry_idx.astype(np.int32),
        "carried_row": row,
        "carried_first": _flag_first(lane[carrying.carry_idx[row]], 1),
        "carried_before": before[:-1].astype(np.int32),
        "lane_cell_idx": (
            np.arange(len(lane)) + (carrying.lane_cell - carrying.lane_ptr[:-1])[lane]
        ).astype(np.int32),
        "lane_last": _flag_last(lane, 1),
        "lane_ptr": carrying.lane_ptr,
        "lane_cell": carrying.lane_cell,
        "stratum_lanes": carrying.stratum_lanes,
        "stratum": np.repeat(stratum, np.diff(plan.cell_ptr)),
        "competing": carrying.competing.astype(np.uint8),
        "table_ptr": carrying.table_ptr,
        "row_table_idx": carrying.row_table_idx,
        "lane_table_idx": carrying.lane_table_idx,
        "failed_ptr": failed_ptr,
        "failed_row": failed_row,
        "lost_ptr": lost_ptr,
        "lost_row": lost_row,
    }


_OF_PATTERN = {
    "rows": _describe_rows,
    "group_sums": _describe_groups,
    "subsets": _describe_sets,
    "risk_sets": _describe_risk_sets,
    "carried_risk_sets": _describe_lanes,
}
