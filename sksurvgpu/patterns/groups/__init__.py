"""Events of a group, distributed over its rows: conditional Poisson regression, case series."""

from dataclasses import dataclass

import numpy as np
from scipy.special import xlogy

from ...data.vectors import inverse_of
from ..contests import Contests
from ..pattern import Lazy, Pattern, Weighted, are_counted


@dataclass(frozen=True)
class WeightedGroups(Weighted):
    """Rows in groups that share out their events."""

    total: np.ndarray  # float64 per group: weighted events


class GroupPattern(Pattern):
    """A multinomial distribution within each group of rows."""

    are_cases_apart = False  # whether events of a group are no rivals of each other

    on_cpu = Lazy(".cpu", "GroupsOnCpu")
    on_device = Lazy(".cuda", "GroupsOnDevice")
    in_part = Lazy(".part", "GroupsInPart")
    joined = Lazy(".part", "JoinedGroups")
    information = Lazy(".information", "GroupView")

    @staticmethod
    def weigh_rows(plan, weight):
        events = plan.value if weight is None else plan.value * weight
        total = np.bincount(plan.group_idx, events, minlength=plan.n_strata)
        live = (total > 0)[plan.group_idx] & are_counted(plan, weight)
        return WeightedGroups(plan, weight, live, total)

    @staticmethod
    def largest_loglik(likelihood, weighted):
        """Reached where a group's events are at the rows that have them, in their shares."""
        events, inverse = weighted.events(), inverse_of(weighted.total)
        return float(xlogy(events, events * inverse[weighted.plan.group_idx]).sum())

    @staticmethod
    def arrays(plan):
        return Pattern.arrays(plan) | {
            "observed": plan.value,
            "may_count": np.ones(plan.n_rows, np.uint8),
            "own": plan.group_idx.astype(np.int32),
            "last": np.arange(plan.n_strata),
            "ptr": np.asarray(plan.ptr, np.int64),
        }

    @classmethod
    def contests_among(cls, problem, weighted):
        plan, counts = problem.plan, are_counted(problem.plan, weighted.weight)
        group, is_event = plan.group_idx.astype(np.int64), plan.value > 0
        is_rival = counts & ~(cls.are_cases_apart & is_event)
        n_cells = plan.n_strata + 1
        return Contests.build(counts & is_event, group + 1, is_rival, group, group + 1, n_cells)
