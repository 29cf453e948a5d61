"""Models that are a sum over rows, on the CPU: the state of one fit over the kernels of `rows`."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...._compile import bind, device, specialize
from ....data.plans.weighted import inverse_of
from .. import rows as kernels
from ..bins import Centring, bins_of_groups
from ..columns import column_operation
from ..exact import Steps
from ._base import Pattern


@cache
def observed_row(row_formula, observed_formula):
    """Formula of a row with its observed curvature, on which Newton's method squares its error."""
    if observed_formula is None:
        return row_formula
    formulas = {"row_formula": row_formula, "observed_formula": observed_formula}
    return device(bind(kernels.observed_row, **formulas))


@cache
def _profile(row_formula, link_formula):
    sums = device(bind(kernels._sum_scores, row_formula=row_formula))
    bracket, step = map(device, kernels.intercept_formulas(link_formula))
    return specialize(kernels._profile, bracket=bracket, newton_step=step, sum_scores=sums)


@cache
def _kernel(template, row_formula):
    return specialize(template, row_formula=row_formula)


@cache
def _derivatives(row_formula):
    collect = column_operation(bind(kernels._collect, row_formula=row_formula))
    return device(bind(kernels._row_derivatives, collect=collect))


class RowPattern(Pattern):
    """A sum over rows, with or without an intercept."""

    def __init__(self, problem, weight):
        super().__init__(problem, weight)
        plan = problem.plan
        self._rows = kernels.Rows(plan.value, self.weighted.weight)
        self.group_ptr = np.array([0, plan.n_rows])
        self._one_group = np.zeros(plan.n_rows, np.uint16)
        self.ignores_shifts = self._likelihood.intercept
        self._intercept = 0.0
        likelihood = self._likelihood
        self.is_exact = likelihood.observed_formula is None
        self._observed = observed_row(likelihood.row_formula, likelihood.observed_formula)

    def evaluate(self, eta, u):
        if self._likelihood.intercept:
            profile = _profile(self._observed, self._likelihood.link_formula)
            self._intercept = profile(self._rows, eta, self._intercept)
        formula = self._likelihood.row_formula
        return _kernel(kernels._evaluate, formula)(self._rows, eta, self._intercept, u)

    def _write_curvature(self, formula, eta, rh):
        _kernel(kernels._curvature, formula)(self._rows, eta, self._intercept, rh)

    def refer(self, eta, u, rh):
        self._write_curvature(self._likelihood.row_formula, eta, rh)
        # without an intercept nothing is centred
        total = rh[:, 1].sum() if self._likelihood.intercept else 0.0
        inverse = inverse_of(np.array([total]))
        return Centring(bins_of_groups(self._one_group, inverse, self.group_ptr), few=True)

    def observe(self, eta, u, rh):
        self._write_curvature(self._observed, eta, rh)

    def exact_steps(self, eta):
        formula, rh, inverse = self._likelihood.row_formula, np.zeros((len(eta), 2)), 0.0
        if self._likelihood.intercept:
            self._write_curvature(formula, eta, rh)
            inverse = float(inverse_of(rh[:, 1:].sum(axis=0))[0])
        state = self._rows, eta, np.array([self._intercept]), np.zeros(3), inverse
        return Steps(_derivatives(formula), kernels._row_advance, state)

    def events(self):
        """Nothing: a score need not be a difference."""
        return np.zeros(len(self._rows.value))

    def sizes(self, eta, u):
        if self._likelihood.link_formula is not None:  # u is what was observed less its mean
            events = self.weighted.events()
            return np.abs(events) + np.abs(events - u)
        rh = np.empty((len(eta), 2))
        self._write_curvature(self._likelihood.row_formula, eta, rh)
        return np.abs(u) + rh[:, 1] * (1.0 + np.abs(eta + self._intercept))

    def error_weight(self):
        return float(self.weighted.weights().sum()) if self._likelihood.is_quadratic else 0.0

    def baseline(self):
        """The intercept."""
        return self._intercept

    def reach(self, trial_eta, eta):
        return 0.0 if self._likelihood.is_quadratic else super().reach(trial_eta, eta)
