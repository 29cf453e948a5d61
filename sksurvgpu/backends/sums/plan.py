"""The plan of rows in partitions: their event times, and no row.

Cells, bins and lanes are those of `data.plans`, made from event times and deaths by stratum.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...patterns.carried.plan import entries_of_lanes, offsets_of_tables
from ...patterns.risk_sets.plan import BinPlan, bins_of_deaths, split_events, times_of_cells


@dataclass(frozen=True)
class Events:
    """Event times of strata, and how many rows have one there."""

    labels: np.ndarray  # of the strata, ascending
    time: np.ndarray
    ptr: np.ndarray  # int64 (n_strata + 1,)
    deaths: np.ndarray  # int64 per time
    last: np.ndarray  # (n_strata,): end of follow-up


@dataclass(frozen=True)
class Curves:
    """Times at which curves of censoring may change, by censoring group, and who uses them."""

    labels: np.ndarray  # of the groups, ascending
    time: np.ndarray
    ptr: np.ndarray  # int64 (n_groups + 1,)
    lanes: np.ndarray  # int64 (n_lanes, 2): pairs of a stratum and a group, ascending
    events_first: bool  # whether a row with an event at t has left the risk of censoring at t


@dataclass(frozen=True)
class Lanes:
    """Lanes of a plan, as `data.plans.carried.Carrying` has them."""

    lane_ptr: np.ndarray
    lane_cell: np.ndarray
    stratum_lanes: np.ndarray
    table_ptr: np.ndarray
    lane_table_idx: np.ndarray
    lane_group: np.ndarray
    events_first: bool


@dataclass(frozen=True)
class SumPlan:
    """What is known of the rows of all partitions together."""

    n_base: int  # rows of X
    n_strata: int = 1
    n_pieces: int = 1
    # of models with time
    cell_ptr: np.ndarray | None = None  # int64 (n_pieces * n_strata + 1,)
    cell_time: np.ndarray | None = None
    bins: BinPlan | None = None
    lanes: Lanes | None = None
    events: Events | None = None
    curves: Curves | None = None

    @property
    def n_cells(self):
        return 0 if self.cell_ptr is None else int(self.cell_ptr[-1])

    @property
    def few(self):
        """Whether a column can afford to keep one number for every bin."""
        return self.bins is None or self.bins.few

    @property
    def n_bins(self):
        return 1 if self.bins is None else self.bins.n_bins

    @property
    def one_lane_a_stratum(self):
        """Whether rows of a stratum are carried along the same curve."""
        return self.lanes is None or len(self.lanes.lane_cell) == self.n_strata


def plan_events(n_rows, events, cuts=(), curves=None):
    """Plan of rows with given event times, split at times `cuts`; with curves of censoring."""
    cuts, n_strata = np.asarray(cuts, dtype=np.float64), len(events.ptr) - 1
    pairs = events.time, events.ptr
    edges, counts, cell_ptr = split_events(pairs, cuts)
    cell_time = times_of_cells(*pairs, edges, counts, cell_ptr)
    deaths = times_of_cells(events.deaths.astype(float), events.ptr, edges, counts, cell_ptr)
    lanes = None if curves is None else _plan_lanes(curves, n_strata, cell_ptr, cell_time)
    whole = lanes is not None and len(lanes.lane_cell) > n_strata
    deaths = np.nan_to_num(deaths).astype(np.int64)
    return SumPlan(
        n_base=n_rows,
        n_strata=n_strata,
        n_pieces=len(cuts) + 1,
        cell_ptr=cell_ptr,
        cell_time=cell_time,
        bins=bins_of_deaths(deaths, cell_ptr, n_rows, whole_strata=whole),
        lanes=lanes,
        events=events,
        curves=curves,
    )


def _plan_lanes(curves, n_strata, cell_ptr, cell_time):
    stratum, group = curves.lanes.T
    first = cell_ptr[:-1][stratum]
    lane_ptr = np.concatenate([[0], np.cumsum(np.diff(cell_ptr)[stratum])])
    changes = curves.time, curves.ptr
    return Lanes(
        lane_ptr=lane_ptr,
        lane_cell=first,
        stratum_lanes=np.searchsorted(stratum, np.arange(n_strata + 1)),
        table_ptr=offsets_of_tables(changes),
        lane_table_idx=entries_of_lanes(changes, (group, lane_ptr, first), cell_time),
        lane_group=group,
        events_first=curves.events_first,
    )
