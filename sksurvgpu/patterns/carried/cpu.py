"""Fine and Gray's model on the CPU: the state of one fit over the kernels of `carried`."""

from __future__ import annotations

import numpy as np

from ...backends.cpu import tasks
from ...backends.cpu.exact import Steps
from ..risk_sets import cpu_tasks as risk_set_tasks
from ..risk_sets.cpu import RiskSetPattern
from . import cpu_kernels as kernels


class CarriedPattern(RiskSetPattern):
    """Risk sets with rows that stay beyond their exit, on the lanes of a `CompetingPlan`."""

    def __init__(self, problem, weight, threads):
        super().__init__(problem, weight, threads)
        carrying = problem.plan.carrying
        self._carry = kernels.Carry(
            carrying.carry_idx,
            self.weighted.inverse,
            carrying.lane_ptr,
            carrying.lane_cell,
            carrying.stratum_lanes,
            self.weighted.survival,
            np.zeros(len(self.weighted.survival)),
            np.zeros(len(self.cells.risk)),
        )
        self._one_lane = problem.plan.one_lane_a_stratum

    def _is_in_order(self):
        """Whether lane cells are in order, too."""
        plan = self.weighted.plan
        return plan.is_in_order and plan.one_lane_a_stratum

    def evaluate(self, eta, u):
        given = self.risk_sets, self._carry, eta, u, self.cells
        compiled = kernels.kernel_of(self._likelihood.jump_formula)
        loglik, self.top = risk_set_tasks.run(self._threads, compiled, given, self._blocks)
        return loglik

    def refer(self, eta, u, h):
        w_row = np.empty(len(eta))
        self._write_curvature(eta, h, w_row)
        carried_row = np.empty(len(eta))
        numbers = self._carry, w_row, carried_row, h
        tasks.run_blocks(self._threads, self._row_blocks, kernels.add_carried, *numbers)
        hazard = self.cells.hazard
        # whole strata have nothing before or after them
        back = self._carry.sums if self._one_lane else np.zeros(len(hazard))
        return self._centre(w_row, hazard, self.weighted.bin_inverse, carried_row, back)

    def exact_steps(self, eta):
        n_cells = len(self.cells.risk)
        moments = kernels.Moments(
            np.empty((n_cells, 3)), np.empty((len(self._carry.sums), 3)), np.empty((n_cells, 3))
        )
        w_row = np.empty(len(eta))
        eta -= np.max(eta[self.risk_sets.live])
        kernels.fill_moments(self.risk_sets, self._carry, eta, w_row, moments)
        state = self.risk_sets, self._carry, w_row, moments, eta
        return Steps(*kernels.steps_of(self._likelihood.coordinate_formula), state)
