"""CompetingPlan: a row plan whose rows with a competing event are carried beyond their exit.

Fine and Gray's risk sets keep a row with a competing event at T_i, with weight G(t-) / G(T_i-), G
being the Kaplan-Meier curve of the censoring in the row's censoring group.  Every pair (stratum,
censoring group) that occurs is a *lane*: a copy of the stratum's cells along which such rows are
carried.  Where censoring groups are the strata, or there is one of both, lanes are the strata and
their cells those of the plan.

Curves change at the distinct times of a group's rows: the group owns a run of a table with one
entry more than it has times, entry t being the curve after its first t times.
"""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from ..risk_sets.plan import RowPlan, count_at_or_before, distinct_pairs, plan_bins, plan_rows

MOST_LANE_CELLS = 2**31  # 36 bytes each, and their numbers are 32-bit


@dataclass(frozen=True)
class Lanes:
    """Lanes of a plan, and where their cells are in the tables of censoring curves."""

    lane_ptr: np.ndarray  # int64 (n_lanes + 1,): cells of each lane
    lane_cell: np.ndarray  # int64 (n_lanes,): first cell of the lane's stratum
    stratum_lanes: np.ndarray  # int64 (n_strata + 1,): lanes of each stratum
    table_ptr: np.ndarray  # int64 (n_groups + 1,)
    lane_table_idx: np.ndarray  # int64 per lane cell: entry that is G(t_k-)
    events_first: bool  # whether a row with an event at t has left the risk of censoring at t


@dataclass(frozen=True)
class Carrying(Lanes):
    """Lanes, and the rows that are carried along them, in the order of the plan."""

    competing: np.ndarray  # bool per row
    censored: np.ndarray  # bool per row
    carry_idx: np.ndarray  # uint32 per row: lane cell of its exit
    row_table_idx: np.ndarray  # int64 per row: entry that is G(T_i-)


@dataclass(frozen=True)
class CompetingPlan(RowPlan):
    """Row plan of a model with competing events."""

    carrying: Carrying

    @cached_property
    def bins(self):
        """Event-time bins; whole strata where these have several curves."""
        return plan_bins(self, whole_strata=not self.one_lane_a_stratum)

    @property
    def one_lane_a_stratum(self):
        """Whether rows of a stratum are carried along the same curve."""
        return len(self.carrying.lane_cell) == self.n_strata


def plan_competing(outcome, censoring_group=None, events_first=False, *, reorders=True):
    """Plan of a competing-risks outcome; censoring groups numbered from 0 (None: the strata)."""
    plan = plan_rows(outcome, reorders=reorders)
    status, time = outcome.status[plan.order], outcome.time[plan.order]
    stratum = plan.stratum_of_row()
    if censoring_group is None:
        group, of_stratum = stratum, np.arange(plan.n_strata)
        lane_group, lane_stratum, lane_of_row = of_stratum, of_stratum, stratum
    else:
        group = censoring_group[plan.order]
        n_groups = int(group.max()) + 1
        lanes, lane_of_row = np.unique(stratum * n_groups + group, return_inverse=True)
        lane_stratum, lane_group = np.divmod(lanes, n_groups)
    are_sorted = reorders and censoring_group is None
    of_group, times = distinct_pairs(group, time, are_sorted)
    curves = times, np.searchsorted(of_group, np.arange(int(group.max()) + 2))
    lanes = plan_lanes(lane_stratum, lane_group, curves, plan, events_first)
    ahead = lanes.lane_ptr[:-1] - lanes.lane_cell
    carrying = Carrying(
        **vars(lanes),
        competing=status == 2,
        censored=status == 0,
        carry_idx=(plan.exit_idx + ahead[lane_of_row]).astype(np.uint32),
        row_table_idx=entries_of_rows(curves, group, time),
    )
    return CompetingPlan(**{f.name: getattr(plan, f.name) for f in fields(plan)}, carrying=carrying)


def plan_lanes(stratum, group, curves, plan, events_first):
    """Lanes of pairs of a stratum and a group, ascending; `plan` has the cells of strata.

    Curves change at the times ``(times, ptr)`` of every group.
    """
    first = plan.cell_ptr[:-1][stratum]
    size = np.diff(plan.cell_ptr)[stratum]
    lane_ptr = np.concatenate([[0], np.cumsum(size)])
    if lane_ptr[-1] > MOST_LANE_CELLS:
        raise ValueError(
            f"`censoring_groups` needs {lane_ptr[-1]:,} numbers, an event time of a stratum for "
            f"each of its groups, more than {MOST_LANE_CELLS:,}; merge groups, or make them strata."
        )
    cell = np.arange(lane_ptr[-1]) + np.repeat(first - lane_ptr[:-1], size)
    group_of_cell, table_ptr = np.repeat(group, size), offsets_of_tables(curves)
    # the first cell of a stratum has no time, and nothing is carried to it
    before = np.nextafter(np.nan_to_num(plan.cell_time[cell], nan=0.0), -np.inf)
    return Lanes(
        lane_ptr,
        first,
        np.searchsorted(stratum, np.arange(plan.n_strata + 1)),
        table_ptr,
        table_ptr[group_of_cell] + count_at_or_before(curves, group_of_cell, before),
        events_first,
    )


def entries_of_rows(curves, group, time):
    """Entry of every row's time, before which it has left, in the table of its group's curve."""
    return offsets_of_tables(curves)[group] + count_at_or_before(curves, group, time) - 1


def offsets_of_tables(curves):
    """Where tables of curves begin that change at given ``(times, ptr)`` of every group."""
    return curves[1] + np.arange(len(curves[1]))
