"""Multinomial models within groups, on the CPU: the state of one fit over kernels of `groups`."""

from __future__ import annotations

import numpy as np
from scipy.special import xlogy

from .. import groups as kernels
from ..bins import Centring, bins_of_groups
from ._base import Pattern, inverse_of


class GroupPattern(Pattern):
    """Conditional Poisson regression: events of a group distributed over its rows."""

    def __init__(self, problem, weight):
        plan = problem.plan
        weight = None if weight is None else weight[plan.order]
        total = np.empty(plan.n_strata)
        self._groups = kernels.Groups(plan.ptr, plan.group_idx, plan.value, weight, total)
        kernels.sum_outcomes(self._groups)
        self._few, self.group_ptr = plan.few, plan.ptr
        self._live = (total > 0)[plan.group_idx]
        if weight is not None:
            self._live &= weight > 0

    def evaluate(self, eta, u):
        return kernels.evaluate(self._groups, eta, u)

    def refer(self, eta, u, rh):
        kernels.curvature(self._groups, eta, rh)
        inverse = inverse_of(self._groups.total)
        return Centring(bins_of_groups(self._groups.idx, inverse, self._groups.ptr), self._few)

    def cycle(self, X, columns, coef, l1, l2, events_slope, reach, eta):
        w_row, risk = np.empty(len(eta)), np.empty(len(self._groups.total))
        kernels.fill_groups(self._groups, eta, w_row, risk)
        state = self._groups, w_row, risk, eta, np.zeros(2)
        kernels.cycle(X, columns, coef, l1, l2, events_slope, reach, state)

    @property
    def live(self):
        return self._live

    def events(self):
        value, weight = self._groups.value, self._groups.weight
        return value if weight is None else value * weight

    def largest_loglik(self):
        """Each group's events at the rows that have them, in their shares."""
        events = self.events()
        return float(xlogy(events, events * inverse_of(self._groups.total)[self._groups.idx]).sum())
