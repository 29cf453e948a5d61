"""Risk sets whose rows are in several partitions, as one of these has them.

Cells and bins are numbered by the event times of all rows.  A partition needs the numbers of its
own cells only, those where a row of it begins or ends: arrays over these have an entry each, and
its rows point into them.  It sums w by own cell; the coordinator adds up, scans the cells of all
rows, and sends back the cumulative hazard at own cells: u and h are then known.  Kernels are those
of the CPU backend, over own cells.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from ...backends.sums.labels import numbered, renumbered
from ...backends.sums.messages import Arranged, Evaluated, Weights
from ...backends.sums.pattern import PatternInPart
from ...data.vectors import inverse_of
from . import cpu_cells as kernels
from .cpu import centre, new_cells, risk_sets_of
from .plan import RowBins, RowPlan, plan_rows

NO_LOGS = (
    "predictors differ by more than exponentials can hold, and with delayed entry or competing "
    "risks sums are no logarithms; rescale the columns, or raise the penalty."
)


@dataclass(frozen=True)
class PartPlan(RowPlan):
    """A row plan over own cells."""

    own: np.ndarray  # int64: cells of the problem
    is_at_risk: np.ndarray  # bool per row: whether some risk set holds it
    part_bins: RowBins


def plan_part(rows, tables):
    """Plan of a partition's rows, and the cells that it owns."""
    plan, _ = plan_own_cells(rows, tables)
    return plan, Arranged(plan.own)


def plan_own_cells(rows, tables):
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


def own_numbers(n, indices):
    """Which of n numbers occur in some of the index arrays, and these arrays among those."""
    occurs = np.zeros(n, bool)
    for index in indices:
        occurs[index] = True
    position = np.cumsum(occurs) - 1
    return np.flatnonzero(occurs), [position[index].astype(np.uint32) for index in indices]


def _plan_bins(plan, end, few):
    """Bins of a plan over the problem's cells, `end` being the last cell of each."""
    exit_bin, enter_bin = np.searchsorted(end, plan.exit_idx), None
    if not few:
        own, exit_bin = np.unique(exit_bin, return_inverse=True)
        last = np.arange(len(own))  # a stratum each
    else:
        group = np.searchsorted(plan.cell_ptr, end, side="right")
        last = np.searchsorted(group, group, side="right") - 1
        if plan.enter_idx is not None:
            enter_bin = np.searchsorted(end, plan.enter_idx).astype(np.uint16)
    return RowBins.of(plan, few, exit_bin.astype(np.uint16 if few else np.uint32), enter_bin, last)


def distinct(first, second):
    """Distinct pairs in ascending order, and how often each occurs."""
    order = np.lexsort((second, first))
    first, second = first[order], second[order]
    new = np.ones(len(first), bool)
    new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
    begin = np.flatnonzero(new)
    return first[new], second[new], np.diff(np.append(begin, len(first)))


def sum_by(index, numbers, n):
    """Sums of numbers by index, or counts (None); as floats, whatever NumPy makes of no rows."""
    return np.bincount(index, numbers, minlength=n).astype(np.float64)


class RiskSetsInPart(PatternInPart):
    """Cox-type likelihoods."""

    plan_of = staticmethod(plan_part)

    @staticmethod
    def describe(rows):
        outcome = rows.outcome
        stratum, labels = numbered(outcome.stratum, outcome.stratum_labels, rows.n_rows)
        is_counted = np.ones(rows.n_rows, bool) if rows.weight is None else rows.weight > 0.0
        counts = outcome.event & is_counted
        of_stratum, time, deaths = distinct(stratum[counts], outcome.time[counts])
        last = np.full(len(labels), -np.inf)
        np.maximum.at(last, stratum[is_counted], outcome.time[is_counted])
        return {
            "labels": labels,
            "stratum": of_stratum,
            "time": time,
            "deaths": deaths,
            "last": last,
        }

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
        self._deaths = self._death_weight = sum_by(cell, None, n_own)
        if weight is not None:
            self._death_weight = sum_by(cell, self._weight[dead], n_own)
        self._uses_ties = arranged.rows.likelihood.uses_ties

    def _risk_sets(self):
        return risk_sets_of(self.plan, self.live, self._weight, self._deaths, self._death_weight)

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
        cells = new_cells(n_own, delayed, self._uses_ties)
        if in_logs:
            if delayed:
                raise ValueError(NO_LOGS)
            loglik = kernels.sum_log_cells(self._risk_sets(), eta, cells)
        else:
            w_row = np.empty(len(eta))
            loglik = kernels.sum_cells(self._risk_sets(), eta, top, cells, w_row)
        tables = {"risk": np.stack([cells.risk, cells.rest]) if delayed else cells.risk}
        if self._uses_ties:
            tables["tied"] = cells.tied
        return loglik, tables

    def settle(self, eta, request):
        self._prepare(request)
        self._eta, self._request, self._u = eta, request, None
        return np.nan

    def _cells(self):
        """Hazards at own cells, as the coordinator has sent them."""
        tables = self._request.tables
        hazard = np.ascontiguousarray(tables["hazard"], dtype=np.float64)
        rest, held = None, tables["held"] if self._uses_ties else None
        if self.plan.enter_idx is not None:
            hazard, rest = hazard
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
        kernels.curvature(
            self._risk_sets(), self._eta, self._request.top, cells, h, w_row, 0, len(h)
        )

    def _edges(self, name):
        """A or B at the edges of bins; nothing where the second term stays in the partition."""
        if self.joins:
            return self._request.tables[name]
        return np.zeros((self.plan.part_bins.n_bins, 2))

    def _centre(self, h, w_row, hazard, edges, carried_row=None, back_edges=None):
        bins, enter = self.plan.part_bins, self.plan.enter_idx
        inverse = np.zeros(bins.n_bins)
        if not self.joins and not self._request.in_logs:
            inverse = inverse_of(sum_by(bins.exit_bin, h, bins.n_bins))
        at_entry = None if bins.enter_bin is None else hazard[enter]
        back_edges = None if back_edges is None else back_edges.T
        return centre(bins, w_row, at_entry, edges.T, inverse, carried_row, back_edges)

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
