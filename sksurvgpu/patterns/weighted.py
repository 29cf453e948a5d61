"""A plan under one vector of case weights: what is known of its rows before any predictor.

It is found once for a vector, by `weigh`, and read by all who need it: the patterns of every
backend, standard errors, the search for infinite coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from .._compile import kernel


@dataclass(frozen=True)
class Weighted:
    """Rows of a plan, copies in later pieces included, with the weights of one fit."""

    plan: Any
    weight: np.ndarray | None  # float64 per row; None: all one
    live: np.ndarray  # bool per row: whether its predictor matters

    @property
    def observed(self):
        """What was counted or measured in every row."""
        return self.plan.value

    def events(self):
        """The same, times the weight."""
        return self.observed if self.weight is None else self.observed * self.weight

    def weights(self):
        """Weight of every row."""
        return np.ones(self.plan.n_rows) if self.weight is None else self.weight


@dataclass(frozen=True)
class WeightedGroups(Weighted):
    """Rows in groups that share out their events."""

    total: np.ndarray  # float64 per group: weighted events


@dataclass(frozen=True)
class WeightedSets(Weighted):
    """Matched sets, of one weight each."""

    cases: np.ndarray  # int64 per set; 0 where it says nothing, having no others or no weight

    @property
    def observed(self):
        return self.live * self.plan.value


@dataclass(frozen=True)
class WeightedRiskSets(Weighted):
    """Rows at risk until their exits; live ones are in some risk set."""

    deaths: np.ndarray  # float64 per cell: deaths of positive weight
    death_weight: np.ndarray  # float64 per cell: sum of their weights
    bin_inverse: np.ndarray  # float64 per bin: 1 / sum of its deaths' weights, 0 without any

    @property
    def observed(self):
        return self.plan.event.astype(np.float64)


@dataclass(frozen=True)
class WeightedLanes(WeightedRiskSets):
    """Rows that are carried along the lanes of a `CompetingPlan`."""

    inverse: np.ndarray  # float64 per row: 1 / G(T_i-), 0 where the row is not carried
    survival: np.ndarray  # float64 per lane cell: G(t_k-)


def weigh(plan, pattern, weight):
    """Plan under weights, in the order of the caller, for the pattern that a likelihood names."""
    weight = None if weight is None else plan.per_copy(weight[plan.order])
    return _OF_PATTERN[pattern](plan, weight)


def inverse_of(total):
    """1 / total, and 0 where nothing was summed."""
    return np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)


def _is_counted(plan, weight):
    """Rows of positive weight."""
    return np.ones(plan.n_rows, bool) if weight is None else weight > 0


def _weigh_rows(plan, weight):
    return Weighted(plan, weight, _is_counted(plan, weight))


def _weigh_groups(plan, weight):
    events = plan.value if weight is None else plan.value * weight
    total = np.bincount(plan.group_idx, events, minlength=plan.n_strata)
    live = (total > 0)[plan.group_idx] & _is_counted(plan, weight)
    return WeightedGroups(plan, weight, live, total)


def _weigh_sets(plan, weight):
    def count(rows):
        return np.bincount(plan.group_idx[rows], minlength=plan.n_strata)

    cases, sizes = count(plan.value > 0), np.diff(plan.ptr)
    says_something = (cases > 0) & (cases < sizes) & (count(_is_counted(plan, weight)) > 0)
    cases = np.where(says_something, cases, 0)
    return WeightedSets(plan, weight, (cases > 0)[plan.group_idx], cases)


def _weigh_risk_sets(plan, weight):
    bins, given = plan.bins, np.ones(plan.n_rows) if weight is None else weight
    live, of_bins = np.empty(plan.n_rows, bool), np.empty(bins.n_bins)
    deaths, death_weight = np.zeros(plan.n_cells), np.zeros(plan.n_cells)
    rows = plan.exit_idx, plan.event, plan.is_in_risk_set
    weigh_cells(*rows, given, live, deaths, death_weight)
    weigh_bins(bins.start, bins.end, death_weight, of_bins)
    deaths = death_weight if weight is None else deaths
    return WeightedRiskSets(plan, weight, live, deaths, death_weight, inverse_of(of_bins))


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


def _weigh_lanes(plan, weight):
    plain, carrying = _weigh_risk_sets(plan, weight), plan.carrying
    failed, lost = count_censoring(
        carrying.table_ptr, carrying.row_table_idx, carrying.censored, plain.weights()
    )
    tables = censoring_survival(carrying.table_ptr, failed, lost, carrying.events_first)
    carried = carrying.competing & _is_counted(plan, weight)
    inverse = np.zeros(plan.n_rows)
    inverse[carried] = 1.0 / tables[carrying.row_table_idx[carried]]
    has_events = np.diff(plan.cell_ptr) > 1
    given = {field.name: getattr(plain, field.name) for field in fields(plain)}
    given["live"] = plain.live | (carried & has_events[plan.stratum_of_row()])
    return WeightedLanes(**given, inverse=inverse, survival=tables[carrying.lane_table_idx])


@kernel
def count_censoring(table_ptr, row_idx, censored, weight):
    """Weights of the rows that fail, and of those that are lost, by entry of their curves."""
    failed, lost = np.zeros(table_ptr[-1]), np.zeros(table_ptr[-1])
    for i in range(len(row_idx)):
        if censored[i]:
            lost[row_idx[i]] += weight[i]
        else:
            failed[row_idx[i]] += weight[i]
    return failed, lost


@kernel
def censoring_survival(table_ptr, failed, lost, events_first):
    """Tables of the Kaplan-Meier curves of censoring, one run a group."""
    survival = np.ones(table_ptr[-1])
    for g in range(len(table_ptr) - 1):
        begin, end = table_ptr[g], table_ptr[g + 1]
        later = 0.0
        for t in range(end - 2, begin - 1, -1):
            stay = later if events_first else later + failed[t]
            survival[t + 1] = stay / (stay + lost[t]) if lost[t] > 0.0 else 1.0
            later += failed[t] + lost[t]
        for t in range(begin, end - 1):
            survival[t + 1] *= survival[t]
    return survival


_OF_PATTERN = {
    "rows": _weigh_rows,
    "group_sums": _weigh_groups,
    "subsets": _weigh_sets,
    "risk_sets": _weigh_risk_sets,
    "carried_risk_sets": _weigh_lanes,
}
