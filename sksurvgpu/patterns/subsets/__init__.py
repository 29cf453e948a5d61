"""Matched sets, given how many of their rows are cases: exact conditional logistic regression.

Plans and answers of partitions are those of `groups`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..contests import Contests
from ..groups import GroupPattern
from ..pattern import Lazy, Weighted, are_counted


@dataclass(frozen=True)
class WeightedSets(Weighted):
    """Matched sets, of one weight each."""

    cases: np.ndarray  # int64 per set; 0 where it says nothing, having no others or no weight

    @property
    def observed(self):
        return self.live * self.plan.value


class SubsetPattern(GroupPattern):
    """The subset of a matched set's rows that are its cases, given their number."""

    on_cpu = Lazy(".cpu", "SubsetsOnCpu")
    on_device = Lazy(".cuda", "SubsetsOnDevice")
    in_part = Lazy(".part", "SubsetsInPart")
    joined = Lazy(".part", "JoinedSets")
    information = Lazy(".information", "SubsetView")

    @staticmethod
    def weigh_rows(plan, weight):
        def count(rows):
            return np.bincount(plan.group_idx[rows], minlength=plan.n_strata)

        cases, sizes = count(plan.value > 0), np.diff(plan.ptr)
        says_something = (cases > 0) & (cases < sizes) & (count(are_counted(plan, weight)) > 0)
        cases = np.where(says_something, cases, 0)
        return WeightedSets(plan, weight, (cases > 0)[plan.group_idx], cases)

    @staticmethod
    def largest_loglik(likelihood, weighted):
        """Reached where every case is certain."""
        return 0.0

    @staticmethod
    def arrays(plan):
        cases = np.bincount(plan.group_idx[plan.value > 0], minlength=plan.n_strata)
        cases = np.where(cases < np.diff(plan.ptr), cases, 0)  # without others, they say nothing
        return GroupPattern.arrays(plan) | {
            "observed": (cases > 0)[plan.group_idx] * plan.value,
            "cases": cases.astype(np.int32),
            "first": np.asarray(plan.ptr[:-1], np.int32),  # row of every set, with its weight
        }

    @staticmethod
    def contests_among(problem, weighted):
        """Cases of a set are no rivals of each other."""
        plan, counts = problem.plan, are_counted(problem.plan, weighted.weight)
        group, is_case = plan.group_idx.astype(np.int64), plan.value > 0
        is_event, is_rival = counts & is_case, counts & ~is_case
        return Contests.build(is_event, group + 1, is_rival, group, group + 1, plan.n_strata + 1)
