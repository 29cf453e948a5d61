"""Multinomial models within groups, on the device."""

import numpy as np

from ....data.plans.weighted import inverse_of
from .. import groups as kernels
from ._base import Pattern, bins_of_groups


class GroupPattern(Pattern):
    """Conditional Poisson regression: events of a group distributed over its rows."""

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        plan, device = problem.plan, layout.device
        self.few = plan.few
        totals = np.array([weighted.total for weighted in self.weighted])
        per_fit = np.broadcast_to(inverse_of(totals), (n_fits, plan.n_strata))
        self.bins = bins_of_groups(layout, plan.group_idx, device.upload(per_fit))
        top, risk = (device.empty((n_fits, plan.n_strata), np.float64) for _ in range(2))
        self._groups = kernels.Groups(self.bins.own, device.upload(totals), top, risk)

    @staticmethod
    def bytes_of_fit(plan):
        """Numbers of groups, those of exact steps included."""
        return 8 * 6 * plan.n_strata

    def evaluate(self, fits, eta, loglik):
        self.layout.launch_teams(kernels.evaluate, fits, self.rows, self._groups, eta, loglik)

    def refer(self, fits, eta, rh):
        arguments = self.layout.served(fits), self.rows, self._groups, eta, rh
        self.layout.launch_wide(kernels.curvature, eta.shape[1], *arguments)

    def exact_steps(self, fits, eta, rh):
        sums = (self.layout.device.zeros(self.bins.inverse.shape, np.float64) for _ in range(2))
        return kernels.steps_of(kernels.GroupSteps(self.rows, self._groups, eta, *sums))
