"""Matched sets on the CPU: the state of one fit over the kernels of `subsets`."""

from __future__ import annotations

import numpy as np

from ...backends.cpu import tasks
from ...backends.cpu.bins import Centring, bins_of_groups
from ...backends.cpu.exact import Steps
from ...backends.cpu.pattern import Pattern
from . import cpu_kernels as kernels


class SubsetPattern(Pattern):
    """The exact conditional likelihood of matched sets."""

    is_exact = False

    def __init__(self, problem, weight, threads):
        super().__init__(problem, weight, threads)
        plan, weighted = problem.plan, self.weighted
        self.sets = kernels.Sets(
            plan.ptr,
            plan.group_idx,
            plan.value,
            weighted.weight,
            weighted.cases,
            np.zeros(plan.n_strata),
            np.zeros(plan.n_rows),
            int(np.diff(plan.ptr).max(initial=0)),
        )
        self._few, self.group_ptr = plan.few, plan.ptr

    def evaluate(self, eta, u):
        given = self.sets, eta, u
        return tasks.add_up(self._threads, kernels.evaluate, *given, self._group_blocks)

    def refer(self, eta, u, h):
        inverse = np.empty(len(self.sets.cases))
        given = self.sets, h, inverse
        tasks.run_blocks(self._threads, self._group_blocks, kernels.curvature, *given)
        return Centring(bins_of_groups(self.sets.idx, inverse, self.sets.ptr), self._few)

    def exact_steps(self, eta):
        largest = self.sets.largest
        p, q = np.empty((2, len(eta)))
        law = np.empty((largest + 1, 3))
        steps = kernels.Steps(self.sets, eta, p, q, np.zeros(largest), law, np.zeros(2))
        kernels.fill_steps(steps)
        return Steps(kernels.subset_derivatives, kernels.subset_advance, steps)
