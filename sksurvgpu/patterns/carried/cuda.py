"""Fine and Gray's model on the device."""

import numpy as np

from ...backends.cuda import weights
from ..risk_sets.cuda import RiskSetPattern
from . import cuda_kernels as kernels


class CarriedPattern(RiskSetPattern):
    """Risk sets with rows that stay beyond their exit, on the lanes of a `CompetingPlan`."""

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        self._carry = layout.device.pack(self._find_carry(layout.plan))
        self._evaluate = kernels.evaluation(self.likelihood.jump_formula)

    @staticmethod
    def bytes_of_fit(plan):
        """More: 1/G, sums and c of carried rows; G and B of lane cells."""
        own = 32 * plan.n_rows + 16 * plan.carrying.lane_ptr[-1]
        return RiskSetPattern.bytes_of_fit(plan) + own

    def _is_carried(self, plan):
        return plan.one_lane_a_stratum  # rows of whole strata have no later bins

    def _find_carry(self, plan):
        """Lanes of the plan on the device, and the curves of censoring under the weights."""
        inverse, survival = self._find_curves(plan)
        return kernels.Carry(
            plan.carry_idx,
            inverse,
            plan.carried_row,
            plan.carried_first,
            plan.carried_before,
            plan.lane_cell_idx,
            plan.lane_last,
            survival,
            plan.lane_ptr,
            plan.lane_cell,
            plan.stratum_lanes,
            plan.stratum,
            self._take(plan.carried_row.shape[0]),
            self._take(plan.lane_last.shape[0]),
        )

    def _find_curves(self, plan):
        """1 / G of carried rows and G of lane cells, (1 or fits, ...) each."""
        layout, weight, empty = self.layout, self.rows.weight, self.layout.device.empty
        [failed], [curves] = (
            self._add_weights((ptr[:-1], ptr[1:]), weight, ["total"], row)
            for ptr, row in (
                (plan.failed_ptr, plan.failed_row),
                (plan.lost_ptr, plan.lost_row),
            )
        )
        tables, events_first = plan.table_ptr, self._plan.carrying.events_first
        n_tasks = self.n_weights * (tables.shape[0] - 1)
        layout.launch_tasks(weights.find_curves, n_tasks, tables, failed, curves, events_first)
        entries = plan.row_table_idx, plan.lane_table_idx
        found = tuple(empty((self.n_weights, own.shape[0]), np.float64) for own in entries)
        layout.launch_wide(
            weights.read_curves,
            max(own.shape[0] for own in entries),
            *(curves, plan.lane_table_idx, found[1]),
            *(plan.row_table_idx, plan.competing, weight, found[0]),
        )
        return found

    def evaluate_again(self, fits, eta, loglik):
        return False

    def evaluate(self, fits, eta, loglik):
        numbers = self.rows, self._cells, eta, loglik, self._top
        self.layout.launch_teams(self._evaluate, fits, self._sets, self._carry, *numbers)

    def _refer(self, fits, eta, model):
        numbers = self.rows, self._cells, eta, self._top, self._bin_cells, model
        self._launch_rows(kernels.curvature, fits, self._sets, self._carry, *numbers)
