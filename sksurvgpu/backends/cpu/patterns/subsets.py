"""Matched sets on the CPU: the state of one fit over the kernels of `subsets`."""

from __future__ import annotations

import numpy as np

from .. import subsets as kernels
from ..bins import Centring, bins_of_groups
from ._base import Pattern


class SubsetPattern(Pattern):
    """The exact conditional likelihood of matched sets."""

    majorant = 2.0

    def __init__(self, problem, weight):
        plan = problem.plan
        weight = None if weight is None else weight[plan.order]
        n_sets, largest = plan.n_strata, int(np.diff(plan.ptr).max())
        cases, tau = np.zeros(n_sets, np.int64), np.zeros(n_sets)
        self._sets = kernels.Sets(
            plan.ptr, plan.group_idx, plan.value, weight, cases, tau, np.zeros(plan.n_rows)
        )
        kernels.count_cases(self._sets)
        self._scratch = kernels.Scratch(*np.empty((2, largest)), np.empty(largest + 1))
        self._few, self.group_ptr = plan.few, plan.ptr
        self._live = (cases > 0)[plan.group_idx]

    def evaluate(self, eta, u):
        return kernels.evaluate(self._sets, self._scratch, eta, u)

    def refer(self, eta, u, rh):
        inverse = np.empty(len(self._sets.cases))
        kernels.curvature(self._sets, self._scratch, rh, inverse)
        return Centring(bins_of_groups(self._sets.idx, inverse, self._sets.ptr), self._few)

    def cycle(self, X, columns, coef, l1, l2, events_slope, reach, eta):
        largest = len(self._scratch.p)
        p, q = np.empty((2, len(eta)))
        law = np.empty((largest + 1, 3))
        steps = kernels.Steps(self._sets, eta, p, q, np.zeros(largest), law, np.zeros(2))
        kernels.fill_steps(steps)
        kernels.cycle(X, columns, coef, l1, l2, events_slope, reach, steps)

    @property
    def live(self):
        return self._live

    def events(self):
        case, weight = self._sets.case, self._sets.weight
        counts = self._live * case
        return counts if weight is None else counts * weight

    def largest_loglik(self):
        """Reached where every case is certain."""
        return 0.0
