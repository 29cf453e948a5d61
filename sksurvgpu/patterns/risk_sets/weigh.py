"""Risk sets under one vector of case weights, and their flat arrays for devices.

Sums over risk sets are scans over *marks*, from the last to the first.  A row's exit is a mark, and
its entry another; a mark belongs to a cell, and marks are in the order of cells.
"""

from dataclasses import dataclass
from functools import cache

import numpy as np

from ..._compile import BOUND, kernel, specialize
from ...data.vectors import inverse_of
from ..pattern import Weighted

jump_formula = BOUND

# What marks say; a scan from the last one reads the first two as SEGMENT and TALLY of rakes.
LAST_OF_GROUP, LAST_OF_CELL, FIRST_OF_CELL = 1, 2, 4


@dataclass(frozen=True)
class WeightedRiskSets(Weighted):
    """Rows at risk until their exits; live ones are in some risk set."""

    deaths: np.ndarray  # float64 per cell: deaths of positive weight
    death_weight: np.ndarray  # float64 per cell: sum of their weights
    bin_inverse: np.ndarray  # float64 per bin: 1 / sum of its deaths' weights, 0 without any

    @property
    def observed(self):
        return self.plan.event.astype(np.float64)


def weigh_risk_sets(plan, weight):
    """Row plan under weights in the order of its rows."""
    live = np.empty(plan.n_rows, bool)
    deaths, death_weight = np.zeros((2, plan.n_cells))
    weights = np.ones(plan.n_rows) if weight is None else weight
    weigh_cells(plan.exit_idx, plan.event, plan.is_in_risk_set, weights, live, deaths, death_weight)
    deaths = death_weight if weight is None else deaths
    inverse = inverse_of_bins(plan.bins, death_weight)
    return WeightedRiskSets(plan, weight, live, deaths, death_weight, inverse)


def inverse_of_bins(bins, death_weight):
    """1 / weight of the deaths in every bin, 0 where there are none."""
    of_bins = np.empty(bins.n_bins)
    weigh_bins(bins.start, bins.end, death_weight, of_bins)
    return inverse_of(of_bins)


@kernel
def weigh_cells(exit_idx, event, is_in_risk_set, weight, live, deaths, death_weight):
    """Which rows are live; number and weights of the deaths in every cell, which are 0 before."""
    for i in range(len(exit_idx)):
        live[i] = is_in_risk_set[i] and weight[i] > 0.0
        if event[i] > 0 and weight[i] > 0.0:
            deaths[exit_idx[i]] += 1.0
            death_weight[exit_idx[i]] += weight[i]


@kernel
def weigh_bins(start, end, death_weight, of_bins):
    """Weight of the deaths in every bin, whose cells are those after `start` to `end`."""
    for b in range(len(start)):
        total = 0.0
        for k in range(start[b] + 1, end[b] + 1):
            total += death_weight[k]
        of_bins[b] = total


@cache
def sum_largest_terms(jump_formula):
    """Kernel of the log-likelihood where nobody is at risk but the deaths."""
    return specialize(_sum_largest, jump_formula=jump_formula)


def _sum_largest(deaths, death_weight):
    total = 0.0
    for k in range(len(deaths)):
        if deaths[k] > 0.0:
            d = death_weight[k]
            log_term, _, _ = jump_formula(d, d, d, deaths[k])
            total -= log_term
    return total


def arrays_of_cells(plan):
    """Flat arrays of a row plan, for devices."""
    bins, nothing = plan.bins, np.empty(0, np.int32)
    is_first = np.zeros(plan.n_cells, np.uint8)
    is_first[plan.cell_ptr[:-1]] = 1
    enter_bin = enter_idx = nothing
    if plan.enter_idx is not None:
        enter_idx = plan.enter_idx.astype(np.int32)
        enter_bin = bins.cell_bin[enter_idx].astype(np.int32) if bins.few else nothing
    marks, flags = _find_marks(plan, is_first)
    death_ptr, death_row = group_by(plan.exit_idx, plan.event, plan.n_cells)
    return {
        "observed": plan.event.astype(np.float64),
        "may_count": plan.is_in_risk_set.astype(np.uint8),
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
    flags = flag_last(group, LAST_OF_GROUP) | flag_last(cell, LAST_OF_CELL)
    return order, flags | flag_first(cell, FIRST_OF_CELL)


def flag_last(labels, flag):
    """A flag at the last of every run of equal labels."""
    is_last = np.ones(len(labels), bool)
    is_last[:-1] = labels[1:] != labels[:-1]
    return is_last * np.uint8(flag)


def flag_first(labels, flag):
    """A flag at the first of every run of equal labels."""
    return flag_last(labels[::-1], flag)[::-1]


def group_by(label, is_one, n_labels):
    """Some of the rows by their label: offsets of every label's, and the rows."""
    row = np.flatnonzero(is_one)
    row = row[np.argsort(label[row], kind="stable")].astype(np.int32)
    return np.searchsorted(label[row], np.arange(n_labels + 1)), row
