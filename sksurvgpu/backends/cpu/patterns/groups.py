"""Multinomial models within groups, on the CPU: the state of one fit over kernels of `groups`."""

from __future__ import annotations

import numpy as np

from ....data.plans.weighted import inverse_of
from .. import groups as kernels
from ..bins import Centring, bins_of_groups
from ..exact import Steps
from ._base import Pattern


class GroupPattern(Pattern):
    """Conditional Poisson regression: events of a group distributed over its rows."""

    def __init__(self, problem, weight):
        super().__init__(problem, weight)
        plan, weighted = problem.plan, self.weighted
        numbers = plan.value, weighted.weight, weighted.total
        self._groups = kernels.Groups(plan.ptr, plan.group_idx, *numbers)
        self._few, self.group_ptr = plan.few, plan.ptr

    def evaluate(self, eta, u):
        return kernels.evaluate(self._groups, eta, u)

    def refer(self, eta, u, rh):
        kernels.curvature(self._groups, eta, rh)
        inverse = inverse_of(self._groups.total)
        return Centring(bins_of_groups(self._groups.idx, inverse, self._groups.ptr), self._few)

    def exact_steps(self, eta):
        w_row, risk = np.empty(len(eta)), np.empty(len(self._groups.total))
        kernels.fill_groups(self._groups, eta, w_row, risk)
        state = self._groups, w_row, risk, eta, np.zeros(2)
        return Steps(kernels.group_derivatives, kernels.group_advance, state)
