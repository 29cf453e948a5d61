"""Matched sets on the CPU: the state of one fit over the kernels of `subsets`."""

from __future__ import annotations

import numpy as np

from .. import subsets as kernels
from ..bins import Centring, bins_of_groups
from ..exact import Steps
from ._base import Pattern


class SubsetPattern(Pattern):
    """The exact conditional likelihood of matched sets."""

    majorant = 2.0
    is_exact = False

    def __init__(self, problem, weight):
        super().__init__(problem, weight)
        plan, weighted = problem.plan, self.weighted
        largest = int(np.diff(plan.ptr).max(initial=0))
        self.sets = kernels.Sets(
            plan.ptr,
            plan.group_idx,
            plan.value,
            weighted.weight,
            weighted.cases,
            np.zeros(plan.n_strata),
            np.zeros(plan.n_rows),
        )
        self._scratch = kernels.Scratch(*np.empty((2, largest)), np.empty(largest + 1))
        self._few, self.group_ptr = plan.few, plan.ptr

    def evaluate(self, eta, u):
        return kernels.evaluate(self.sets, self._scratch, eta, u)

    def refer(self, eta, u, rh):
        inverse = np.empty(len(self.sets.cases))
        kernels.curvature(self.sets, self._scratch, rh, inverse)
        return Centring(bins_of_groups(self.sets.idx, inverse, self.sets.ptr), self._few)

    def exact_steps(self, eta):
        largest = len(self._scratch.p)
        p, q = np.empty((2, len(eta)))
        law = np.empty((largest + 1, 3))
        steps = kernels.Steps(self.sets, eta, p, q, np.zeros(largest), law, np.zeros(2))
        kernels.fill_steps(steps)
        return Steps(kernels.subset_derivatives, kernels.subset_advance, steps)
