"""Models that are a sum over rows, on the device."""

from __future__ import annotations

import numpy as np

from .. import rows as kernels
from ..exact import run_cycle
from ._base import Pattern, bins_of_groups


class RowPattern(Pattern):
    """Canonical exponential families, with or without an intercept."""

    few = True

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        likelihood, n_rows = self.likelihood, problem.plan.n_rows
        self.ignores_shifts = likelihood.intercept
        formula, link = likelihood.row_formula, likelihood.link_formula
        self._evaluate = kernels.evaluation(formula, link if likelihood.intercept else None)
        self._curvature = kernels.curvature(formula, likelihood.intercept)
        self._intercept = layout.device.zeros(n_fits, np.float64)
        inverse = layout.device.zeros((n_fits, 1), np.float64)
        self.bins = bins_of_groups(layout, np.zeros(n_rows, np.int32), inverse)

    def evaluate(self, fits, eta, loglik):
        self.layout.launch_teams(self._evaluate, fits, self.rows, eta, loglik, self._intercept)

    def refer(self, fits, eta, rh):
        numbers = self._intercept, rh, self.bins.inverse
        self.layout.launch_teams(self._curvature, fits, self.rows, eta, *numbers)

    def cycle(self, fits, numbers, eta, rh):
        if self.likelihood.intercept:
            self.refer(fits, eta, rh)

        def state(blocks):
            own = self.layout.device.empty(blocks, np.float64)
            return kernels.RowSteps(self.rows, eta, self._intercept, self.bins.inverse, own)

        run = kernels.cycle(self.likelihood.row_formula)
        return run_cycle(self.layout, run, fits, numbers, state)

    def baseline(self, fit):
        """The intercept."""
        return float(self.layout.device.download(self._intercept)[fit])

    def reach(self, span, size):
        return 0.0 if self.likelihood.is_quadratic else super().reach(span, size)
