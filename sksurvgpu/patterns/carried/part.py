"""Risk sets whose rows are in several partitions and may stay beyond their exit.

A partition has the numbers of its own lane cells, where a row of it is carried on, and of its own
entries of the curves of censoring, beside those of its cells.
"""

from dataclasses import dataclass, fields

import numpy as np

from ...backends.sums.labels import numbered, renumbered
from ...backends.sums.messages import Arranged
from ..risk_sets.part import (
    NO_LOGS,
    PartPlan,
    RiskSetsInPart,
    distinct,
    own_numbers,
    plan_own_cells,
    sum_by,
)
from . import cpu as kernels
from .plan import entries_of_rows


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
    """A row plan over own cells, with rows that are carried beyond their exit."""

    lanes: PartLanes


def plan_competing_part(rows, tables):
    """Plan of a partition's rows with competing events, and the cells and lanes that it owns."""
    plan, (outcome, whole) = plan_own_cells(rows, tables)
    lanes = _plan_lanes(rows, tables, outcome, whole)
    given = {field.name: getattr(plan, field.name) for field in fields(plan)}
    arranged = Arranged(plan.own, lanes.own_lanes, lanes.own_entries)
    return CompetingPartPlan(**given, lanes=lanes), arranged


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
    entry = entries_of_rows(curves, group, time)
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


class CarriedInPart(RiskSetsInPart):
    """Risk sets with rows that stay beyond their exit, weighted by curves of censoring."""

    plan_of = staticmethod(plan_competing_part)

    @staticmethod
    def describe(rows):
        found, outcome = RiskSetsInPart.describe(rows), rows.outcome
        stratum, labels = numbered(outcome.stratum, outcome.stratum_labels, rows.n_rows)
        group = stratum
        if outcome.censoring_group is not None:
            group, labels = outcome.censoring_group, outcome.censoring_labels
        censor_group, censor_time, _ = distinct(group, outcome.time)
        lane_stratum, lane_group, _ = distinct(stratum, group)
        return found | {
            "censor_labels": labels,
            "censor_group": censor_group,
            "censor_time": censor_time,
            "lane_stratum": lane_stratum,
            "lane_group": lane_group,
        }

    def __init__(self, arranged, weight):
        super().__init__(arranged, weight)
        lanes = self._lanes = self.plan.lanes
        self._is_carried = lanes.competing & self._is_counted
        self.live |= lanes.may_count & self._is_counted

    def weigh(self):
        known, lanes = super().weigh(), self._lanes
        weight = np.ones(self.plan.n_rows) if self._weight is None else self._weight

        def total(rows):
            return sum_by(lanes.entry_idx[rows], weight[rows], len(lanes.own_entries))

        known.tables.update(lost=total(lanes.censored), failed=total(~lanes.censored))
        return known

    def _prepare(self, request):
        if request.in_logs:
            raise ValueError(NO_LOGS)
        survival = request.tables["censoring"][self._lanes.entry_idx[self._is_carried]]
        self._inverse = np.zeros(self.plan.n_rows)
        self._inverse[self._is_carried] = 1.0 / survival

    def _carry(self, sums):
        """Lanes over own lane cells; who has none is never asked for its sums."""
        nothing, none = np.zeros(1, np.int64), np.zeros(0)
        # kernels read a number for every row, whether they need it or not
        return kernels.Carry(
            self._lanes.carry_idx,
            self._inverse,
            nothing,
            nothing,
            nothing,
            none,
            sums if len(sums) else np.zeros(1),
            none,
        )

    def _sum(self, eta, top, in_logs):
        risk, sums = np.zeros(len(self.plan.own)), np.zeros(len(self._lanes.own_lanes))
        carry, w_row = self._carry(sums), np.empty(len(eta))
        loglik = kernels.sum_exits(self._risk_sets(), carry, eta, top, w_row, risk)
        return loglik, {"risk": risk, "carried": sums}

    def residuals(self):
        if self._u is None:
            self._u = np.empty(len(self._eta))
            carry, tables = self._carry(self._request.tables["back"]), self._request.tables
            kernels.residuals(
                self._risk_sets(), carry, self._eta, self._request.top, tables["hazard"], self._u
            )
        return self._u

    def refer(self, h):
        cells, w_row = self._cells(), np.empty(len(h))
        self._write_curvature(cells, h, w_row)
        carried_row, rows = w_row * self._inverse, self._is_carried
        back = self._request.tables["back"]
        h[rows] += carried_row[rows] * back[self._lanes.carry_idx[rows]]
        return self._centre(
            h, w_row, cells.hazard, self._edges("edges"), carried_row, self._edges("back_edges")
        )

    def jumps(self, columns):
        sums = self._weights() * self._inverse
        n = len(self._lanes.own_lanes)
        found = np.zeros((len(columns), n))
        if n:
            found = self._sum_columns(columns, sums, self._lanes.carry_idx, n)
        return super().jumps(columns) | {"lane_jumps": found}
