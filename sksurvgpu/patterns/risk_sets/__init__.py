"""Rows at risk between two times: Cox's partial likelihood, and whatever is a sum over its cells.

`plan` has the integers that times become, `weigh` what weights make of them.
"""

import numpy as np

from ..contests import Contests
from ..pattern import Lazy, Pattern, are_counted
from .weigh import arrays_of_cells, sum_largest_terms, weigh_risk_sets


class RiskSetPattern(Pattern):
    """Sums over the risk sets of event times."""

    has_cells = weighs_rows = True
    weigh_rows = staticmethod(weigh_risk_sets)
    on_cpu = Lazy(".cpu", "RiskSetsOnCpu")
    on_device = Lazy(".cuda", "RiskSetsOnDevice")
    in_part = Lazy(".part", "RiskSetsInPart")
    joined = Lazy(".joined", "JoinedRiskSets")
    information = Lazy(".information", "RiskSetView")

    @staticmethod
    def largest_loglik(likelihood, weighted):
        """Reached where, at every event time, nobody is at risk but the deaths."""
        sum_terms = sum_largest_terms(likelihood.jump_formula)
        return sum_terms(weighted.deaths, weighted.death_weight)

    @staticmethod
    def arrays(plan):
        return Pattern.arrays(plan) | arrays_of_cells(plan)

    @classmethod
    def contests_among(cls, problem, weighted):
        return contests_until(weighted, weighted.plan.exit_idx)


def contests_until(weighted, exit_):
    """Contests of risk sets that rows leave after a cell."""
    plan, counts = weighted.plan, are_counted(weighted.plan, weighted.weight)
    enter = plan.enter_idx
    if enter is None:
        enter = plan.cell_ptr[np.searchsorted(plan.cell_ptr, plan.exit_idx, side="right") - 1]
    is_event = counts & (plan.event > 0)
    return Contests.build(is_event, plan.exit_idx, counts, enter, exit_, plan.n_cells)
