"""Risk sets that keep rows beyond their exit, as a coordinator joins those of partitions."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from ..._compile import specialize
from ...backends.sums.joined import Joining
from ...backends.sums.labels import number_labels
from ..risk_sets import cpu_cells
from ..risk_sets.joined import (
    JoinedRiskSets,
    RiskSetTotals,
    WeighedCells,
    WeighingCells,
    join_events,
    plan_events,
    tables_of,
)
from ..risk_sets.plan import distinct_pairs
from . import cpu as kernels
from .plan import plan_lanes
from .weigh import censoring_survival

_specialized = cache(specialize)


@dataclass(frozen=True)
class Curves:
    """Times at which curves of censoring may change, by censoring group, and who uses them."""

    labels: np.ndarray  # of the groups, ascending
    time: np.ndarray
    ptr: np.ndarray  # int64 (n_groups + 1,)
    lanes: np.ndarray  # int64 (n_lanes, 2): pairs of a stratum and a group, ascending
    events_first: bool  # whether a row with an event at t has left the risk of censoring at t


def join_curves(descriptions, events, events_first):
    """Times of the curves of censoring of all partitions, and the lanes that occur."""
    labels, numbers = number_labels(descriptions, "censor_labels")
    tables = [description.tables for description in descriptions]
    group, lane_group = (
        np.concatenate([n[t[name]] for n, t in zip(numbers, tables, strict=True)])
        for name in ("censor_group", "lane_group")
    )
    of_group, times = distinct_pairs(
        group, np.concatenate([t["censor_time"] for t in tables]), False
    )
    strata = [np.searchsorted(events.labels, t["labels"])[t["lane_stratum"]] for t in tables]
    lanes = np.unique(np.column_stack([np.concatenate(strata), lane_group]), axis=0)
    ptr = np.searchsorted(of_group, np.arange(len(labels) + 1))
    return Curves(labels, times, ptr, lanes, events_first)


@dataclass(frozen=True)
class WeighedLanes(WeighedCells):
    """All rows under one vector of weights: sums over them, and curves of censoring."""

    survival: np.ndarray  # by entry


class WeighingLanes(WeighingCells):
    """Adds up `Weights`, deaths by cell, and what fails and is lost by entry of the curves."""

    def __init__(self, problem, arranged):
        super().__init__(problem, arranged)
        self._failed, self._lost = np.zeros((2, problem.plan.lanes.table_ptr[-1]))

    def add(self, part, weights):
        super().add(part, weights)
        own = self._arranged[part].own_entries
        self._failed[own] += weights.tables["failed"]
        self._lost[own] += weights.tables["lost"]

    def join(self):
        lanes = self._problem.plan.lanes
        survival = censoring_survival(lanes.table_ptr, self._failed, self._lost, lanes.events_first)
        return WeighedLanes(**vars(super().join()), survival=survival)


class CarriedTotals(RiskSetTotals):
    """Tables of risk sets that keep rows beyond their exit, by cell and by lane cell."""

    def clear(self):
        super().clear()
        lanes = self._problem.plan.lanes
        self._carried = np.zeros(lanes.lane_ptr[-1])
        self._survival = self._weighed.survival[lanes.lane_table_idx]

    def fields(self, part):
        return {"tables": {"censoring": self._censoring(part)}}

    def _censoring(self, part):
        return self._weighed.survival[self._arranged[part].own_entries]

    def _add_tables(self, part, tables, scale):
        super()._add_tables(part, tables, scale)
        self._carried[self._arranged[part].own_lanes] += scale * tables["carried"]

    def _scale(self, factor):
        super()._scale(factor)
        self._carried *= factor

    def _may_use_logs(self):
        return False

    def _scan(self, cells):
        lanes, nothing = self._problem.plan.lanes, np.empty(0)
        carry = kernels.Carry(
            np.empty(0, np.uint32),
            nothing,
            lanes.lane_ptr,
            lanes.lane_cell,
            lanes.stratum_lanes,
            self._survival,
            self._carried,
            np.zeros(len(cells.risk)),
        )
        jumps = cpu_cells.jumps_of(self._problem.likelihood.jump_formula)
        scan = _specialized(kernels.scan_lanes, find_jumps=jumps)
        return scan(self._cell_sums(), carry, cells, self.loglik)

    def _fields_of_slopes(self, cells, top, paired, part):
        fields = super()._fields_of_slopes(cells, top, paired, part)
        bins, lanes = self._problem.plan.bins, self._arranged[part].own_lanes
        # whole strata have nothing before or after them
        one_lane = self._problem.plan.one_lane_a_stratum
        back = self._carried if one_lane else np.zeros(len(cells.hazard))
        fields["tables"] |= {
            "censoring": self._censoring(part),
            "back": self._carried[lanes],
            "back_edges": np.column_stack([back[bins.start], back[bins.end]]),
        }
        return fields


class JoinedLanes(JoinedRiskSets):
    """Joins sums by cell and by lane cell; of their information there are no sums."""

    weighing = WeighingLanes
    information = Joining.information

    @staticmethod
    def open(descriptions, n_rows, cuts, events_first):
        events = join_events(descriptions)
        curves = join_curves(descriptions, events, events_first)
        stratum, group = curves.lanes.T
        plan = plan_events(n_rows, events, cuts, whole_strata=len(stratum) > len(events.labels))
        of_groups = curves.time, curves.ptr
        lanes = plan_lanes(stratum, group, of_groups, plan, events_first)
        plan = replace(plan, lanes=lanes, curves=curves)
        return plan, tables_of(plan) | {
            "labels_censoring": curves.labels,
            "table_time": curves.time,
            "table_ptr": curves.ptr,
            "lane_stratum": stratum,
            "lane_group": group,
        }

    @staticmethod
    def totals(problem):
        return CarriedTotals
