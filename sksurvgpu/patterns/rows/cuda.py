"""Models that are a sum over rows, on the device."""

from functools import cached_property

import numpy as np

from ...backends.cuda.pattern import Pattern
from ...backends.cuda.products import multiply_sizes
from ...backends.cuda.weights import add_all, number_of
from . import cuda_kernels as kernels


class RowPattern(Pattern):
    """A sum over rows, with or without an intercept."""

    few = True

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        self.is_exact = problem.likelihood.observed_formula is None
        self.live = self._keep_counted(layout.plan.may_count)
        likelihood, n_rows = self.likelihood, problem.plan.n_rows
        self.ignores_shifts = likelihood.intercept
        formulas = likelihood.row_formula, likelihood.observed_formula, likelihood.link_formula
        self._evaluate = kernels.evaluation(*formulas, likelihood.intercept)
        self._curvature = kernels.curvature(likelihood.row_formula, likelihood.intercept)
        self._intercept = layout.device.zeros(n_fits, np.float64)
        # others read `rows`, whose events would be a part of the scores, and these have none
        self._rows, no_events = self.rows, layout.device.zeros(n_rows, np.float64)
        self.rows = self._rows._replace(value=no_events)

    def evaluate(self, fits, eta, loglik):
        self.layout.launch_teams(self._evaluate, fits, self._rows, eta, loglik, self._intercept)

    def new_model(self, row_type):
        inverse = self.layout.device.zeros((self.n_fits, 1), np.float64)
        return self._model_of_groups(row_type, inverse)

    def refer(self, fits, eta, model):
        numbers = self._intercept, model.h, model.inverse
        self.layout.launch_teams(self._curvature, fits, self._rows, eta, *numbers)

    def sizes(self, eta):
        if self.likelihood.link_formula is not None:  # u is what was observed less its mean
            return multiply_sizes, self._rows
        state = kernels.RowSizes(self._rows, eta, self._intercept)
        return kernels.multiply_sizes(self.likelihood.row_formula), state

    @cached_property
    def _largest(self):
        terms = self.likelihood.largest_terms(self._plan.value)
        return self._add_weights(terms) if np.ndim(terms) else terms * self._totals

    @cached_property
    def _totals(self):
        return self._add_weights(())

    def _add_weights(self, factor):
        """Sums of the weights of all rows, times factors."""
        device, weight = self.layout.device, self._rows.weight
        context = weight, device.empty(0, np.int32), device.upload(np.asarray(factor, float))
        return add_all(self.layout, number_of, weight.shape[1], context, self.n_weights)

    def error_weight(self, fit):
        return self._of_weights(self._totals, fit) if self.likelihood.is_quadratic else 0.0

    def baseline(self, fit):
        """The intercept."""
        return float(self.layout.device.download(self._intercept)[fit])

    def reach(self, span, size):
        return 0.0 if self.likelihood.is_quadratic else super().reach(span, size)
