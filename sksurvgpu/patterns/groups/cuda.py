"""Multinomial models within groups, on the device."""

from functools import cached_property

import numpy as np

from ...backends.cuda.pattern import Pattern
from ...backends.cuda.weights import add_all, add_runs, number_of
from . import cuda_kernels as kernels


class GroupPattern(Pattern):
    """Conditional Poisson regression: events of a group distributed over its rows."""

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        plan, device = problem.plan, layout.device
        self.few = plan.few
        runs = layout.plan.ptr[:-1], layout.plan.ptr[1:]
        events = self.rows.weight, device.empty(0, np.int32), self.rows.value
        wanted = n_fits, ("total", "inverse"), plan.few
        totals, self._inverse = add_runs(layout, number_of, runs, events, *wanted)
        own = layout.plan.own
        self.live = self._keep_counted(layout.plan.may_count, run=own, total=totals)
        top, risk = (device.empty((n_fits, plan.n_strata), np.float64) for _ in range(2))
        self._groups = kernels.Groups(own, totals, top, risk)

    @staticmethod
    def bytes_of_fit(plan):
        """Numbers of groups."""
        return 8 * 4 * plan.n_strata

    @cached_property
    def _largest(self):
        given = self._plan.n_rows, (self.rows, self._groups), self.n_weights
        return add_all(self.layout, kernels.largest_term, *given)

    def evaluate(self, fits, eta, loglik):
        self.layout.launch_teams(kernels.evaluate, fits, self.rows, self._groups, eta, loglik)

    def new_model(self, row_type):
        return self._model_of_groups(row_type, self._inverse)

    def refer(self, fits, eta, model):
        arguments = self.layout.served(fits), self.rows, self._groups, eta, model.h
        self.layout.launch_wide(kernels.curvature, eta.shape[1], *arguments)
