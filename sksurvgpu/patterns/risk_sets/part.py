"""Risk sets whose rows are in several partitions.

A partition sums w by own cell; the coordinator adds up, scans the cells of all rows, and sends back
the cumulative hazard at own cells: u and h are then known.  Kernels are those of the CPU backend
(`backends.cpu.risk_sets`, `backends.cpu.carried`), over own cells.
"""

from __future__ import annotations

import numpy as np

from ...backends.cpu.bins import Bins, Centring
from ...backends.sums.messages import Evaluated, Weights
from ...backends.sums.pattern import Pattern
from ..carried import cpu_kernels as carried
from ..weighted import inverse_of
from . import cpu_cells as kernels
from .part_plans import plan_competing_part, plan_part

NO_LOGS = (
    "predictors differ by more than exponentials can hold, and with delayed entry or competing "
    "risks sums are no logarithms; rescale the columns, or raise the penalty."
)


def _sum_by(index, numbers, n):
    """Sums of numbers by index, or counts (None); as floats, whatever NumPy makes of no rows."""
    return np.bincount(index, numbers, minlength=n).astype(np.float64)


class RiskSetPattern(Pattern):
    """Cox-type likelihoods."""

    plan_of = staticmethod(plan_part)

    def __init__(self, arranged, weight):
        super().__init__(arranged, weight)
        plan = self.plan
        self.joins = plan.part_bins.few
        self._given = weight
        self._weight = None if weight is None else plan.per_copy(weight[plan.order])
        self._is_counted = np.ones(plan.n_rows, bool) if weight is None else self._weight > 0.0
        self.live = plan.is_at_risk & self._is_counted
        dead = (plan.event > 0) & self._is_counted
        cell, n_own = plan.exit_idx[dead], len(plan.own)
        self._deaths = self._death_weight = _sum_by(cell, None, n_own)
        if weight is not None:
            self._death_weight = _sum_by(cell, self._weight[dead], n_own)
        self._uses_ties = arranged.rows.likelihood.uses_ties

    def _risk_sets(self):
        plan = self.plan
        return kernels.RiskSets(
            plan.exit_idx,
            plan.enter_idx,
            plan.event,
            self.live,
            plan.cell_ptr,
            self._weight,
            self._deaths,
            self._death_weight,
        )

    def weigh(self):
        given = self._given
        return Weights(
            total=float(self.plan.n_base if given is None else given.sum()),
            rows=int(self.plan.n_base if given is None else np.count_nonzero(given > 0.0)),
            events=float(self._death_weight.sum()),
            largest=np.nan,
            error_weight=0.0,
            tables={"deaths": self._deaths, "death_weight": self._death_weight},
        )

    # -- evaluations ------------------------------------------------------------------------------
    def evaluate(self, request):
        eta = self.predictor(request.coef)
        self._prepare(request)
        low, high = self.move(request, eta, self.live)
        top = request.shift
        if request.in_logs:
            top = 0.0
        elif np.isnan(top):
            top = float(np.max(eta, where=self.live, initial=-np.inf))
        if np.isnan(top) or top == np.inf:
            return self._undefined(top, low, high)
        loglik, tables = self._sum(eta, top if top > -np.inf else 0.0, request.in_logs)
        return Evaluated(loglik, top, low, high, tables)

    def _undefined(self, top, low, high):
        _, tables = self._sum(np.zeros(self.plan.n_rows), 0.0, False)
        tables = {name: np.full_like(table, np.nan) for name, table in tables.items()}
        return Evaluated(np.nan, top, low, high, tables)

    def _prepare(self, request):
        """Take what the coordinator has sent along about the weights."""

    def _sum(self, eta, top, in_logs):
        """Events' part of the log-likelihood, and sums by own cell."""
        n_own, delayed = len(self.plan.own), self.plan.enter_idx is not None
        risk, hazard = np.zeros((2, n_own))
        rest = np.zeros(n_own) if delayed else None
        ties = np.zeros((2, n_own)) if self._uses_ties else (None, None)
        cells = kernels.Cells(risk, hazard, rest, *ties)
        if in_logs:
            if delayed:
                raise ValueError(NO_LOGS)
            loglik = kernels.sum_log_cells(self._risk_sets(), eta, cells)
        else:
            w_row = np.empty(len(eta))
            loglik = kernels.sum_cells(self._risk_sets(), eta, top, cells, w_row)
        tables = {"risk": np.stack([risk, rest]) if delayed else risk}
        if self._uses_ties:
            tables["tied"] = cells.tied
        return loglik, tables

    # -- what was joined --------------------------------------------------------------------------
    def settle(self, eta, request):
        self._prepare(request)
        self._eta, self._request, self._u = eta, request, None
        return np.nan

    def _cells(self):
        """Hazards at own cells, as the coordinator has sent them."""
        tables = self._request.tables
        hazard = np.ascontiguousarray(tables["hazard"], dtype=np.float64)
        rest = None
        if self.plan.enter_idx is not None:
            hazard, rest = hazard
        held = tables["held"] if self._uses_ties else None
        return kernels.Cells(np.empty(0), hazard, rest, held, held)

    def residuals(self):
        if self._u is None:
            self._u = np.empty(len(self._eta))
            risk_sets, cells = self._risk_sets(), self._cells()
            if self._request.in_logs:
                kernels.residuals_in_logs(risk_sets, self._eta, cells, self._u)
            else:
                kernels.residuals(risk_sets, self._eta, self._request.top, cells, self._u)
        return self._u

    def _events(self):
        return self.plan.event * (1.0 if self._weight is None else self._weight)

    def sizes(self):
        events = self._events()
        return np.abs(events) + np.abs(events - self.residuals())

    def refer(self, h):
        cells, w_row = self._cells(), np.empty(len(h))
        edges = self._edges("edges")
        if self._request.in_logs:
            # w and the hazards have no common scale: without bins the model is only looser
            h[:] = np.maximum(self._events() - self.residuals(), 0.0)
            w_row[:], edges = 0.0, np.zeros_like(edges)
            cells = cells._replace(hazard=np.zeros_like(cells.hazard))
        else:
            self._write_curvature(cells, h, w_row)
        return self._centre(h, w_row, cells.hazard, edges)

    def _write_curvature(self, cells, h, w_row):
        numbers = self._eta, self._request.top, cells, h, w_row
        kernels.curvature(self._risk_sets(), *numbers, 0, len(h))

    def _edges(self, name):
        """A or B at the edges of bins; nothing where the second term stays in the partition."""
        if self.joins:
            return self._request.tables[name]
        return np.zeros((self.plan.part_bins.n_bins, 2))

    def _centre(self, h, w_row, hazard, edges, carried_row=None, back=None):
        bins, enter = self.plan.part_bins, self.plan.enter_idx
        inverse = np.zeros(bins.n_bins)
        if not self.joins and not self._request.in_logs:
            inverse = inverse_of(_sum_by(bins.exit_bin, h, bins.n_bins))
        of_bins = Bins(
            bins.exit_bin,
            bins.enter_bin,
            None if bins.enter_bin is None else hazard[enter],
            w_row,
            carried_row,
            bins.last,
            base=np.ascontiguousarray(edges[:, 0]),
            jump=edges[:, 1] - edges[:, 0],
            after=None if back is None else np.ascontiguousarray(back[:, 1]),
            fall=None if back is None else back[:, 0] - back[:, 1],
            inverse=inverse,
            row_ptr=bins.row_ptr,
        )
        return Centring(of_bins, bins.few)

    def jumps(self, columns):
        w = self._weights()
        found = self._sum_columns(columns, w, self.plan.exit_idx, len(self.plan.own))
        if self.plan.enter_idx is not None:
            found -= self._sum_columns(columns, w, self.plan.enter_idx, len(self.plan.own))
        if not self._uses_ties:
            return {"jumps": found}
        dead = w * self.plan.event
        tied = self._sum_columns(columns, dead, self.plan.exit_idx, len(self.plan.own))
        return {"jumps": found, "tied_jumps": tied}

    def scores(self, x, places):
        tables, enter = self._request.tables, self.plan.enter_idx
        hazards = tables["hazard_means"][places].T
        rows = x * self.residuals()[:, None]
        change = hazards[self.plan.exit_idx]
        if enter is not None:
            change -= hazards[enter]
        dead = np.flatnonzero(self.plan.event)
        cell, events = self.plan.exit_idx[dead], self._events()[dead, None]
        if self._uses_ties:
            change[dead] -= tables["held_means"][places].T[cell]
        rows += change * self._weights()[:, None]
        rows[dead] -= events * tables["means"][places].T[cell]
        return rows

    def _weights(self):
        """w of every row, on the scale of all partitions."""
        w = np.zeros(len(self._eta))
        np.exp(self._eta - self._request.top, out=w, where=self.live)
        return w if self._weight is None else w * self._weight

    def _sum_columns(self, columns, numbers, index, n):
        """Sums of x times numbers of rows, by an index of rows."""
        products = self.arranged.products
        return products.labelled(columns, numbers, products.labels(index, n))


class CarriedPattern(RiskSetPattern):
    """Risk sets with rows that stay beyond their exit, weighted by curves of censoring."""

    plan_of = staticmethod(plan_competing_part)

    def __init__(self, arranged, weight):
        super().__init__(arranged, weight)
        lanes = self._lanes = self.plan.lanes
        self._is_carried = lanes.competing & self._is_counted
        self.live |= lanes.may_count & self._is_counted

    def weigh(self):
        known, lanes = super().weigh(), self._lanes
        weight = np.ones(self.plan.n_rows) if self._weight is None else self._weight

        def total(rows):
            return _sum_by(lanes.entry_idx[rows], weight[rows], len(lanes.own_entries))

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
        shape = nothing, nothing, nothing, none, sums if len(sums) else np.zeros(1), none
        return carried.Carry(self._lanes.carry_idx, self._inverse, *shape)

    def _sum(self, eta, top, in_logs):
        risk, sums = np.zeros(len(self.plan.own)), np.zeros(len(self._lanes.own_lanes))
        carry, w_row = self._carry(sums), np.empty(len(eta))
        loglik = carried.sum_exits(self._risk_sets(), carry, eta, top, w_row, risk)
        return loglik, {"risk": risk, "carried": sums}

    def residuals(self):
        if self._u is None:
            self._u = np.empty(len(self._eta))
            carry, tables = self._carry(self._request.tables["back"]), self._request.tables
            numbers = self._eta, self._request.top, tables["hazard"], self._u
            carried.residuals(self._risk_sets(), carry, *numbers)
        return self._u

    def refer(self, h):
        cells, w_row = self._cells(), np.empty(len(h))
        self._write_curvature(cells, h, w_row)
        carried_row, rows = w_row * self._inverse, self._is_carried
        back = self._request.tables["back"]
        h[rows] += carried_row[rows] * back[self._lanes.carry_idx[rows]]
        edges = self._edges("edges"), carried_row, self._edges("back_edges")
        return self._centre(h, w_row, cells.hazard, *edges)

    def jumps(self, columns):
        sums = self._weights() * self._inverse
        n = len(self._lanes.own_lanes)
        found = np.zeros((len(columns), n))
        if n:
            found = self._sum_columns(columns, sums, self._lanes.carry_idx, n)
        return super().jumps(columns) | {"lane_jumps": found}
