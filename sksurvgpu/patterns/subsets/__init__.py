"""Matched sets, given how many of their rows are cases: exact conditional logistic regression.

Plans and answers of partitions are those of `groups`.
"""

from dataclasses import dataclass

import numpy as np

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

    are_cases_apart = True

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
