"""Lanes under one vector of case weights, with the curves of censoring that these give."""

from dataclasses import dataclass, fields

import numpy as np

from ..._compile import kernel
from ..pattern import are_counted
from ..risk_sets.weigh import WeightedRiskSets, flag_first, flag_last, group_by, weigh_risk_sets


@dataclass(frozen=True)
class WeightedLanes(WeightedRiskSets):
    """Rows that are carried along the lanes of a `CompetingPlan`."""

    inverse: np.ndarray  # float64 per row: 1 / G(T_i-), 0 where the row is not carried
    survival: np.ndarray  # float64 per lane cell: G(t_k-)


def weigh_lanes(plan, weight):
    """`CompetingPlan` under weights in the order of its rows."""
    plain, carrying = weigh_risk_sets(plan, weight), plan.carrying
    failed, lost = count_censoring(
        carrying.table_ptr, carrying.row_table_idx, carrying.censored, plain.weights()
    )
    tables = censoring_survival(carrying.table_ptr, failed, lost, carrying.events_first)
    carried = carrying.competing & are_counted(plan, weight)
    inverse = np.zeros(plan.n_rows)
    inverse[carried] = 1.0 / tables[carrying.row_table_idx[carried]]
    has_events = np.diff(plan.cell_ptr) > 1
    risk_sets = {field.name: getattr(plain, field.name) for field in fields(plain)}
    risk_sets["live"] = plain.live | (carried & has_events[plan.stratum_of_row()])
    survival = tables[carrying.lane_table_idx]
    return WeightedLanes(**risk_sets, inverse=inverse, survival=survival)


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


def arrays_of_lanes(plan):
    """Flat arrays of a `CompetingPlan` beside those of its cells, for devices."""
    carrying = plan.carrying
    size, stratum = np.diff(carrying.lane_ptr), np.arange(plan.n_strata, dtype=np.int32)
    lane, n_entries = np.repeat(np.arange(len(size)), size), carrying.table_ptr[-1]
    before, row = group_by(carrying.carry_idx, carrying.competing, len(lane))
    counts = carrying.competing & (np.diff(plan.cell_ptr) > 1)[plan.stratum_of_row()]
    failed_ptr, failed_row = group_by(carrying.row_table_idx, ~carrying.censored, n_entries)
    lost_ptr, lost_row = group_by(carrying.row_table_idx, carrying.censored, n_entries)
    return {
        "may_count": (plan.is_in_risk_set | counts).astype(np.uint8),
        "carry_idx": carrying.carry_idx.astype(np.int32),
        "carried_row": row,
        "carried_first": flag_first(lane[carrying.carry_idx[row]], 1),
        "carried_before": before[:-1].astype(np.int32),
        "lane_cell_idx": (
            np.arange(len(lane)) + (carrying.lane_cell - carrying.lane_ptr[:-1])[lane]
        ).astype(np.int32),
        "lane_last": flag_last(lane, 1),
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
