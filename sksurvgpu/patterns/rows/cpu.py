"""Models that are a sum over rows, on the CPU: the state of one fit over the kernels of `rows`."""

from __future__ import annotations

from functools import cache

import numpy as np

from ..._compile import bind, device, specialize
from ...backends.cpu import tasks
from ...backends.cpu.bins import Centring, bins_of_groups
from ...backends.cpu.columns import column_operation
from ...backends.cpu.exact import Steps
from ...backends.cpu.pattern import Pattern
from ..weighted import inverse_of
from . import cpu_kernels as kernels


@cache
def observed_row(row_formula, observed_formula):
    """Formula of a row with its observed curvature, on which Newton's method squares its error."""
    if observed_formula is None:
        return row_formula
    formulas = {"row_formula": row_formula, "observed_formula": observed_formula}
    return device(bind(kernels.observed_row, **formulas))


@cache
def _profile(row_formula, link_formula):
    bracket, step = map(device, kernels.intercept_formulas(link_formula))
    parts = {
        "sum_scores": bind(kernels.sum_scores, row_formula=row_formula),
        "open_search": bind(kernels.open_search, bracket=bracket),
        "move": bind(kernels.move, newton_step=step),
    }
    parts = {name: device(part) for name, part in parts.items()}
    return specialize(kernels.profile, **parts)


@cache
def _evaluation(row_formula):
    return tasks.adder(device(bind(kernels.add_terms, row_formula=row_formula)))


@cache
def _curvature(row_formula):
    return specialize(kernels.curvature, row_formula=row_formula)


@cache
def _derivatives(row_formula):
    collect = column_operation(bind(kernels._collect, row_formula=row_formula))
    return device(bind(kernels._row_derivatives, collect=collect))


class RowPattern(Pattern):
    """A sum over rows, with or without an intercept."""

    def __init__(self, problem, weight, threads):
        super().__init__(problem, weight, threads)
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
            self._find_intercept(eta)
        shifted = kernels.Shifted(self._rows, self._intercept)
        evaluate = _evaluation(self._likelihood.row_formula)
        return tasks.add_up(self._threads, evaluate, shifted, eta, u, self._row_blocks)

    def _find_intercept(self, eta):
        n_blocks, known = len(self._row_blocks) - 1, np.zeros(kernels.STEPS + 1)
        known[kernels.INTERCEPT] = self._intercept
        given = self._rows, eta, self._row_blocks, np.empty((n_blocks, 4)), known
        profile = _profile(self._observed, self._likelihood.link_formula)
        tasks.run(self._threads, profile, given, np.array([n_blocks, 1, n_blocks, 1]))
        self._intercept = float(known[kernels.INTERCEPT])

    def _write_curvature(self, formula, eta, h):
        given = self._rows, eta, self._intercept, h
        tasks.run_blocks(self._threads, self._row_blocks, _curvature(formula), *given)

    def refer(self, eta, u, h):
        self._write_curvature(self._likelihood.row_formula, eta, h)
        # without an intercept nothing is centred
        total = h.sum() if self._likelihood.intercept else 0.0
        inverse = inverse_of(np.array([total]))
        return Centring(bins_of_groups(self._one_group, inverse, self.group_ptr), few=True)

    def observe(self, eta, u, h):
        self._write_curvature(self._observed, eta, h)

    def exact_steps(self, eta):
        formula, h, inverse = self._likelihood.row_formula, np.zeros(len(eta)), 0.0
        if self._likelihood.intercept:
            self._write_curvature(formula, eta, h)
            inverse = float(inverse_of(np.array([h.sum()]))[0])
        state = self._rows, eta, np.array([self._intercept]), np.zeros(3), inverse
        return Steps(_derivatives(formula), kernels._row_advance, state)

    def events(self):
        """Nothing: a score need not be a difference."""
        return np.zeros(len(self._rows.value))

    def sizes(self, eta, u):
        if self._likelihood.link_formula is not None:  # u is what was observed less its mean
            return super().sizes(eta, u)
        h = np.empty(len(eta))
        self._write_curvature(self._likelihood.row_formula, eta, h)
        return np.abs(u) + h * (1.0 + np.abs(eta + self._intercept))

    def error_weight(self):
        return float(self.weighted.weights().sum()) if self._likelihood.is_quadratic else 0.0

    def baseline(self):
        """The intercept."""
        return self._intercept

    def reach(self, trial_eta, eta):
        return 0.0 if self._likelihood.is_quadratic else super().reach(trial_eta, eta)
