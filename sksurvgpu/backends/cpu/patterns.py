"""Refresh patterns: how a likelihood is evaluated on rows, and its quadratic model.

A pattern object belongs to one fit.  It knows the row plan, the weights of the fit and the scan
results of the last evaluation, and answers to:

``evaluate(eta, u)``          log-likelihood; writes the score residuals u
``refer(eta, u, rh)``         the quadratic model at the last evaluation: h into ``rh[:, 1]``
``load(X, columns, rh)``      curvature of columns in that model, and their loads
``centring(loads)``           what `sweep` needs for the model's second term
"""

from __future__ import annotations

from functools import cache

import numpy as np

from . import exact
from . import risk_sets as kernels
from ._compile import bind, device, specialize
from .sweep import sweep_binned, sweep_grouped


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
            plan.cell_ptr,
            weight,
            np.zeros(n_cells),
            np.zeros(n_cells),
        )
        kernels.count_deaths(self.risk_sets)
        self.cells = kernels.Cells(*np.zeros((5, n_cells)))
        self._likelihood = problem.likelihood
        self._evaluate = _evaluation(kernels.evaluate, self._likelihood.jump_formula)
        self.top, self._in_logs = 0.0, False
        self.bins = self.group = None
        if bins is None:
            self._prepare_groups(problem)
        else:
            self._prepare_bins(plan, bins)

    def _prepare_bins(self, plan, bins):
        self.sweep = sweep_binned
        self.bins = kernels.Bins(
            bins.cell_bin[plan.exit_idx],
            None if plan.enter_idx is None else bins.cell_bin[plan.enter_idx],
            bins.start,
            bins.end,
            bins.next_bin,
        )
        deaths = np.concatenate([[0.0], np.cumsum(self.risk_sets.death_weight)])
        self._bin_inverse = _inverse(deaths[bins.end + 1] - deaths[bins.start + 1])
        self.center = np.zeros(len(bins.start))

    def _prepare_groups(self, problem):
        self.sweep = sweep_grouped
        self.group = problem.group
        n_groups = len(problem.plan.cell_ptr) - 1
        self.inverse, self.center = np.zeros(n_groups), np.zeros(n_groups)
        self._scratch = np.zeros(n_groups)

    def evaluate(self, eta, u):
        loglik, self.top = self._evaluate(self.risk_sets, eta, u, self.cells)
        self._in_logs = not np.isfinite(loglik) and self.risk_sets.enter_idx is None
        if self._in_logs:
            in_logs = _evaluation(kernels.evaluate_in_logs, self._likelihood.jump_formula)
            loglik, self.top = in_logs(self.risk_sets, eta, u, self.cells)
        return loglik

    def refer(self, eta, u, rh):
        self._w_row = np.empty(len(eta))
        kernels.curvature(self.risk_sets, eta, self.top, u, rh, self._w_row)
        self._hazard = self.cells.hazard.copy()
        if self.group is not None:
            kernels.sum_groups(rh, self.group, self._scratch)
            self.inverse = _inverse(self._scratch)
            self._scratch[:] = 0.0
        elif self._in_logs:
            # w and the hazards have no common scale here; without bins the model is only looser
            self._w_row[:] = self._hazard[:] = 0.0
            self.inverse = np.zeros_like(self._bin_inverse)
        else:
            self.inverse = self._bin_inverse

    def baseline(self):
        """Cumulative hazard of a zero predictor, per cell."""
        if self._in_logs:
            return np.exp(self.cells.hazard)
        return self.cells.hazard * np.exp(-self.top)

    def cycle(self, X, columns, coef, l1, l2, events_slope, reach, eta):
        """One cycle of exact coordinate steps, in place."""
        run = _exact_cycle(self._likelihood.coordinate_formula)
        w_row, moments = np.empty(len(eta)), np.empty((len(self.cells.risk), 6))
        eta -= np.max(eta)
        exact.fill_cells(self.risk_sets, eta, w_row, moments)
        run(X, columns, coef, l1, l2, events_slope, reach, self.risk_sets, eta, w_row, moments)

    def events(self):
        """Weight of the event of every row: the part of u that does not depend on eta."""
        weight = self.risk_sets.weight
        return self.risk_sets.event * (1.0 if weight is None else weight)

    def load(self, X, columns, rh, threads):
        curvature = np.empty(len(columns))
        if self.group is not None:

            def grouped_part(low, high):
                scratch = np.zeros(len(self.center))
                kernels.load_groups(
                    X, columns[low:high], rh, self.group, self.inverse, scratch, curvature[low:high]
                )

            threads.over_ranges(grouped_part, len(columns))
            return curvature, None
        loads = np.empty((len(columns), len(self.center)))

        def part(low, high):
            kernels.load_bins(
                X,
                columns[low:high],
                rh,
                self._w_row,
                self.bins,
                self.risk_sets.enter_idx,
                self._hazard,
                self.inverse,
                loads[low:high],
                curvature[low:high],
            )

        threads.over_ranges(part, len(columns))
        return curvature, loads

    def centring(self, loads):
        self.center[:] = 0.0
        if self.group is not None:
            return self.group, self.center, self.inverse
        return loads, self.center, self.inverse


def _inverse(total):
    """1 / total, and 0 where nothing was summed."""
    return np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)


PATTERNS = {"risk_sets": RiskSetPattern}
