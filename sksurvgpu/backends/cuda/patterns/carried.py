"""Fine and Gray's model on the device."""

import numpy as np

from .. import carried as kernels
from .. import carried_steps
from .risk_sets import RiskSetPattern, flag_runs


class CarriedPattern(RiskSetPattern):
    """Risk sets with rows that stay beyond their exit, on the lanes of a `CompetingPlan`."""

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        self._carry = self._upload_carry(problem.plan)
        self._has_one_lane = problem.plan.one_lane_a_stratum
        self._evaluate = kernels.evaluation(self.likelihood.jump_formula)

    @staticmethod
    def bytes_of_fit(plan):
        """More: 1/G and sums of carried rows; G, B and moments of lane cells, and late ones."""
        lane_cells = plan.carrying.lane_ptr[-1]
        own = 16 * plan.n_rows + 8 * 3 * plan.n_cells + 8 * 5 * lane_cells
        return RiskSetPattern.bytes_of_fit(plan) + own

    def _is_carried(self, plan):
        return plan.one_lane_a_stratum  # rows of whole strata have no later bins

    def _upload_carry(self, plan):
        upload, carrying = self.layout.device.upload, plan.carrying
        row = np.flatnonzero(carrying.competing)
        row = row[np.argsort(carrying.carry_idx[row], kind="stable")]
        size, n_cells = np.diff(carrying.lane_ptr), carrying.lane_ptr[-1]
        lane = np.repeat(np.arange(len(size)), size)
        where = np.arange(n_cells)
        flags = flag_runs(lane, kernels.LAST_OF_LANE)
        flags |= flag_runs(lane[::-1], kernels.FIRST_OF_LANE)[::-1]
        carry_idx = carrying.carry_idx[row]
        integers = (
            (row, np.int32),
            (flag_runs(lane[carry_idx][::-1], 1)[::-1], np.uint8),
            (np.searchsorted(carry_idx, where), np.int32),
            (where + (carrying.lane_cell - carrying.lane_ptr[:-1])[lane], np.int32),
            (flags, np.uint8),
        )
        of_lanes = carrying.lane_ptr, carrying.lane_cell, carrying.stratum_lanes
        strata = np.repeat(np.arange(plan.n_strata), np.diff(plan.cell_ptr))
        return kernels.Carry(
            upload(carrying.carry_idx.astype(np.int32)),
            self._of_weighted("inverse"),
            *(upload(values.astype(dtype)) for values, dtype in integers),
            self._of_weighted("survival"),
            *(upload(numbers.astype(np.int64)) for numbers in of_lanes),
            upload(strata.astype(np.int32)),
            self._take(len(row)),
            self._take(n_cells),
        )

    def evaluate(self, fits, eta, loglik):
        numbers = self.rows, self._cells, eta, loglik, self._top
        self.layout.launch_teams(self._evaluate, fits, self._sets, self._carry, *numbers)

    def _refer(self, fits, eta, rh):
        model = self._bin_cells, self.bins, rh
        numbers = self.rows, self._cells, eta, self._top, *model
        self._launch_rows(kernels.curvature, fits, self._sets, self._carry, *numbers)

    def exact_steps(self, fits, eta, rh):
        formula, n_ranges = self.likelihood.coordinate_formula, self.layout.n_ranges
        if self._has_one_lane:
            state = self._state_of_steps(eta, 1 + carried_steps.LATE, n_ranges, self._carry)
            return carried_steps.own_steps_of(formula, state, self._most_cells)
        n_lane_cells = self._carry.flags.shape[0]
        state = self._state_of_steps(eta, 1 + carried_steps.LATE, 0, self._carry, n_lane_cells)
        return carried_steps.steps_of(formula, state)
