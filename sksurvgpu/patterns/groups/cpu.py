"""Multinomial models within groups, on the CPU: the state of one fit over kernels of `groups`."""

from __future__ import annotations

import numpy as np

from ...backends.cpu import tasks
from ...backends.cpu.bins import Centring, bins_of_groups
from ...backends.cpu.exact import Steps
from ...backends.cpu.pattern import Pattern
from ..weighted import inverse_of
from . import cpu_kernels as kernels


class GroupPattern(Pattern):
    """Conditional Poisson regression: events of a group distributed over its rows."""

    def __init__(self, problem, weight, threads):
        super().__init__(problem, weight, threads)
        plan, weighted = problem.plan, self.weighted
        numbers = plan.value, weighted.weight, weighted.total
        self._groups = kernels.Groups(plan.ptr, plan.group_idx, *numbers)
        self._few, self.group_ptr = plan.few, plan.ptr

    def evaluate(self, eta, u):
        given = self._groups, eta, u
        return tasks.add_up(self._threads, kernels.evaluate, *given, self._group_blocks)

    def refer(self, eta, u, h):
        given = self._groups, eta, h
        tasks.run_blocks(self._threads, self._group_blocks, kernels.curvature, *given)
        inverse = inverse_of(self._groups.total)
        return Centring(bins_of_groups(self._groups.idx, inverse, self._groups.ptr), self._few)

    def exact_steps(self, eta):
        w_row, risk = np.empty(len(eta)), np.empty(len(self._groups.total))
        kernels.fill_groups(self._groups, eta, w_row, risk)
        state = self._groups, w_row, risk, eta, np.zeros(2)
        return Steps(kernels.group_derivatives, kernels.group_advance, state)
