"""Refresh patterns: how a likelihood is evaluated on rows, and its quadratic model.

A pattern object belongs to one fit.  It knows the row plan, the weights of the fit and the scan
results of the last evaluation, and answers to:

``evaluate(eta, u)``          log-likelihood; writes the score residuals u
``refer(eta, u, rh)``         the quadratic model at the last evaluation: h into ``rh[:, 1]``
``load(X, columns, rh)``      curvature of columns in that model, and their loads
``centring(loads)``           what `sweep` needs for the model's second term
"""

from __future__ import annotations

import numpy as np

from . import risk_sets as kernels
from ._compile import specialize
from .sweep import sweep_binned, sweep_grouped

_EVALUATE = {}


def _evaluation(template, formula):
    """One compiled kernel per formula, made on first use."""
    if (template, formula) not in _EVALUATE:
        _EVALUATE[template, formula] = specialize(template, jump_formula=formula)
    return _EVALUATE[template, formula]


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
        self._evaluate = _evaluation(kernels.evaluate, problem.likelihood.jump_formula)
        self.top = 0.0
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
        self.inverse = _inverse(deaths[bins.end + 1] - deaths[bins.start + 1])
        self.center = np.zeros(len(bins.start))

    def _prepare_groups(self, problem):
        self.sweep = sweep_grouped
        self.group = problem.group
        n_groups = len(problem.plan.cell_ptr) - 1
        self.inverse, self.center = np.zeros(n_groups), np.zeros(n_groups)
        self._scratch = np.zeros(n_groups)

    @property
    def w_row(self):
        return self._w_row

    def evaluate(self, eta, u):
        loglik, self.top = self._evaluate(self.risk_sets, eta, u, self.cells)
        return loglik

    def refer(self, eta, u, rh):
        self._w_row = np.empty(len(eta))
        kernels.curvature(self.risk_sets, eta, self.top, u, rh, self._w_row)
        self._hazard = self.cells.hazard.copy()
        if self.group is not None:
            kernels.sum_groups(rh, self.group, self._scratch)
            self.inverse = _inverse(self._scratch)
            self._scratch[:] = 0.0

    def load(self, X, columns, rh, threads):
        curvature = np.empty(len(columns))
        if self.group is not None:
            scratch = [np.zeros_like(self._scratch) for _ in range(1)]
            kernels.load_groups(
                X, columns, rh, self.group, self.inverse, scratch[0], curvature
            )
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
