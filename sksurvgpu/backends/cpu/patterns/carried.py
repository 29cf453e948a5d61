"""Fine and Gray's model on the CPU: the state of one fit over the kernels of `carried`."""

from __future__ import annotations

import numpy as np

from .. import carried as kernels
from .. import risk_sets
from ..exact import Steps
from .risk_sets import RiskSetPattern


class CarriedPattern(RiskSetPattern):
    """Risk sets with rows that stay beyond their exit, on the lanes of a `CompetingPlan`."""

    def __init__(self, problem, weight):
        super().__init__(problem, weight)
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
        self._evaluate = self._evaluation(kernels.evaluate, kernels.scan_lanes)

    def evaluate(self, eta, u):
        loglik, self.top = self._evaluate(self.risk_sets, self._carry, eta, u, self.cells)
        return loglik

    def refer(self, eta, u, rh):
        w_row = np.empty(len(eta))
        risk_sets.curvature(self.risk_sets, eta, self.top, self.cells, rh, w_row)
        carried_row = w_row * self._carry.inverse
        rh[:, 1] += carried_row * self._carry.sums[self._carry.idx]
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
