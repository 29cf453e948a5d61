"""Refresh patterns: how a likelihood is evaluated on rows, and its quadratic model.

A pattern object belongs to one fit.  It knows the row plan, the weights of the fit and the scan
results of the last evaluation, and answers to:

``evaluate(eta, u)``          log-likelihood; writes the score residuals u
``refer(eta, u, rh)``         the quadratic model at the last evaluation: h into ``rh[:, 1]``
``load(X, columns, rh)``      curvature of columns in that model, and their loads
``centring(loads)``           what ``sweep`` needs for the model's second term
``gram_term(loads)``          the second term as a matrix, where loads are kept
``live``, ``events()``        rows whose predictor matters; the part of u without eta
``largest_loglik()``          bound of the log-likelihood, for the duality gap
``baseline()``                what predictions need of the last evaluation
``cycle(...)``                one cycle of the exact algorithm
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..._compile import bind, device, specialize
from . import bins as bin_kernels
from . import exact
from . import risk_sets as kernels


@cache
def _evaluation(template, formula):
    return specialize(template, jump_formula=formula)


@cache
def _exact_cycle(formula):
    scan = device(bind(exact._scan_cells, coordinate_formula=formula))
    return specialize(exact.cycle, scan_cells=scan)


class RiskSetPattern:
    """Cox-type likelihoods: see `risk_sets`."""

    def __init__(self, problem, weight):
        plan, bins = problem.plan, problem.bins
        n_cells = plan.cell_ptr[-1]
        weight = None if weight is None else plan.per_copy(weight[plan.order])
        self.risk_sets = kernels.RiskSets(
            plan.exit_idx,
            plan.enter_idx,
            plan.event,
            _live(plan, weight),
            plan.cell_ptr,
            weight,
            *_count_deaths(plan, weight),
        )
        risk, hazard = np.zeros((2, n_cells))
        rest = None if plan.enter_idx is None else np.zeros(n_cells)
        ties = np.zeros((2, n_cells)) if problem.likelihood.uses_ties else (None, None)
        self.cells = kernels.Cells(risk, hazard, rest, *ties)
        self._likelihood = problem.likelihood
        self._evaluate = _evaluation(kernels.evaluate, self._likelihood.jump_formula)
        self.top, self._in_logs = 0.0, False
        self._bins = bins
        self._start_bins(plan, bins)

    def _start_bins(self, plan, bins):
        deaths = np.concatenate([[0.0], np.cumsum(self.risk_sets.death_weight)])
        self._deaths_inverse = _inverse(deaths[bins.end + 1] - deaths[bins.start + 1])
        delayed = plan.enter_idx is not None
        self._row_bins = (
            bins.cell_bin[plan.exit_idx],
            bins.cell_bin[plan.enter_idx] if delayed else None,
        )
        self.sweep = bin_kernels.sweep_few if bins.few else bin_kernels.sweep_strata

    def evaluate(self, eta, u):
        loglik, self.top = self._evaluate(self.risk_sets, eta, u, self.cells)
        self._in_logs = not np.isfinite(loglik) and self.risk_sets.enter_idx is None
        if self._in_logs:
            in_logs = _evaluation(kernels.evaluate_in_logs, self._likelihood.jump_formula)
            loglik, self.top = in_logs(self.risk_sets, eta, u, self.cells)
        return loglik

    def refer(self, eta, u, rh):
        """Take the quadratic model at the last evaluation: h into ``rh[:, 1]``, and the bins."""
        w_row = np.empty(len(eta))
        kernels.curvature(self.risk_sets, eta, self.top, u, rh, w_row)
        hazard, inverse = self.cells.hazard, self._deaths_inverse
        if self._in_logs:
            # w and the hazards have no common scale here; without bins the model is only looser
            w_row[:], hazard, inverse = 0.0, np.zeros_like(hazard), np.zeros_like(inverse)
        plan, delayed = self._bins, self.risk_sets.enter_idx is not None
        self.bins = bin_kernels.Bins(
            *self._row_bins,
            hazard[self.risk_sets.enter_idx] if delayed else None,
            w_row,
            plan.last,
            base=hazard[plan.start],
            jump=hazard[plan.end] - hazard[plan.start],
            inverse=inverse,
            center=np.zeros(plan.n_bins),
        )

    def gram_term(self, loads):
        """The second term of the model as a matrix."""
        return (loads * self.bins.inverse) @ loads.T

    def baseline(self):
        """Logarithm of the cumulative hazard of a zero predictor, per cell.

        A hazard itself may overflow where rows lie far from zero, and their curves would not.
        """
        if self._in_logs:
            return self.cells.hazard.copy()
        with np.errstate(divide="ignore"):
            logs = np.log(self.cells.hazard)
        logs -= self.top
        return logs

    def cycle(self, X, columns, coef, l1, l2, events_slope, reach, eta):
        """One cycle of exact coordinate steps, in place."""
        run = _exact_cycle(self._likelihood.coordinate_formula)
        w_row, moments = np.empty(len(eta)), np.empty((len(self.cells.risk), 6))
        eta -= np.max(eta[self.risk_sets.live])
        exact.fill_cells(self.risk_sets, eta, w_row, moments)
        run(X, columns, coef, l1, l2, events_slope, reach, self.risk_sets, eta, w_row, moments)

    def events(self):
        """Weight of the event of every row: the part of u that does not depend on eta."""
        weight = self.risk_sets.weight
        return self.risk_sets.event * (1.0 if weight is None else weight)

    def largest_loglik(self):
        """Upper bound of the log-likelihood."""
        bound = _evaluation(kernels.largest_loglik, self._likelihood.jump_formula)
        return bound(self.risk_sets)

    @property
    def live(self):
        """Rows whose predictor matters."""
        return self.risk_sets.live

    def load(self, X, columns, rh, threads):
        """Curvature of columns (centred, and not), and their loads where bins are few."""
        curvature = np.empty((len(columns), 2))
        loads = np.empty((len(columns), self._bins.n_bins)) if self._bins.few else None

        def part(low, high):
            where, out = columns[low:high], curvature[low:high]
            if loads is None:
                scratch = np.zeros(self._bins.n_bins)
                bin_kernels.load_strata(X, where, rh, self.bins, scratch, out)
            else:
                bin_kernels.load_few(X, where, rh, self.bins, loads[low:high], out)

        threads.over_ranges(part, len(columns))
        return curvature, loads

    def centring(self, loads):
        """The model's second term as `sweep` takes it, at v = 0."""
        self.bins.center[:] = 0.0
        return (self.bins,) if loads is None else (self.bins, loads)


def _live(plan, weight):
    """Rows that some risk set holds; the predictor of the others may be anything."""
    if plan.enter_idx is None:
        is_first = np.zeros(plan.cell_ptr[-1], bool)
        is_first[plan.cell_ptr[:-1]] = True
        live = ~is_first[plan.exit_idx]
    else:
        live = plan.exit_idx > plan.enter_idx
    return live if weight is None else live & (weight > 0)


def _count_deaths(plan, weight):
    """Per cell: deaths of positive weight, and the sum of their weights."""
    dead, n_cells = plan.event > 0, plan.cell_ptr[-1]
    if weight is None:
        deaths = np.bincount(plan.exit_idx[dead], minlength=n_cells).astype(np.float64)
        return deaths, deaths
    dead &= weight > 0
    cell, total = plan.exit_idx[dead], weight[dead]
    deaths = np.bincount(cell, minlength=n_cells).astype(np.float64)
    return deaths, np.bincount(cell, total, minlength=n_cells)


def _inverse(total):
    """1 / total, and 0 where nothing was summed."""
    return np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)


PATTERNS = {"risk_sets": RiskSetPattern}
