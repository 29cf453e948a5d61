"""Risk sets with rows that stay beyond their exit: Fine and Gray's model.

`plan` has the lanes along which they are carried, `weigh` the curves of censoring that weigh them.
"""

import numpy as np

from ..pattern import Lazy
from ..risk_sets import RiskSetPattern, contests_until
from .weigh import arrays_of_lanes, weigh_lanes


class CarriedPattern(RiskSetPattern):
    """Sums over the risk sets of event times, with rows that stay beyond their exit."""

    has_lanes = True
    weighs_rows = False  # the censoring curve is of all rows
    weigh_rows = staticmethod(weigh_lanes)
    on_cpu = Lazy(".cpu", "CarriedOnCpu")
    on_device = Lazy(".cuda", "CarriedOnDevice")
    in_part = Lazy(".part", "CarriedInPart")
    joined = Lazy(".joined", "JoinedLanes")
    information = Lazy(".information", "CarriedView")

    @staticmethod
    def arrays(plan):
        return RiskSetPattern.arrays(plan) | arrays_of_lanes(plan)

    @classmethod
    def contests_among(cls, problem, weighted):
        """Rows are carried along their lane while the censoring curve is positive."""
        plan, carrying, is_positive = problem.plan, problem.plan.carrying, weighted.survival > 0
        n_positive = np.add.reduceat(is_positive, carrying.lane_ptr[:-1], dtype=int)
        end = carrying.lane_cell + n_positive - 1
        lane = np.searchsorted(carrying.lane_ptr, carrying.carry_idx, side="right") - 1
        exit_ = plan.exit_idx.astype(np.int64)
        last = np.where(carrying.competing, np.maximum(end[lane], exit_), exit_)
        return contests_until(weighted, last)
