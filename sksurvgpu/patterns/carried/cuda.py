"""Risk sets that keep rows beyond their exit, on the device: formulas as in `cpu`.

What lanes bring to a risk set needs no scan over their cells: the carried rows are scanned in the
order of their lane cells, and every lane cell knows how many of them lie before it.  They are
scanned first, so that all members see the sums after the barrier of the scan for D, and B after A,
so that they see all jumps.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import int64

from ..._compile import BOUND
from ...backends.cuda import weights
from ...backends.cuda._cuda import cuda, device, inlined, kernel, specialize
from ...backends.cuda.products import of_fit
from ...backends.cuda.rake import add_exactly, make_rake
from ...backends.cuda.team import begin, my_team, n_teams, new_scratch, part_of, team_sum
from ..risk_sets.cuda import RiskSetsOnDevice
from ..risk_sets.cuda_cells import (
    hazard_of_row,
    keep_row,
    largest_predictor,
    make_risk_scan,
    part_of_fit,
    refer_bin,
    risk_weight,
    scan_hazard,
)

scan_risk = BOUND


class Carry(NamedTuple):
    """Lanes, and the rows that are carried along them."""

    idx: np.ndarray  # int32 per row: lane cell of its exit
    inverse: np.ndarray  # float64 (1 or fits, rows): 1 / G(T_i-), 0 where the row is not carried
    row: np.ndarray  # int32 per carried row, in the order of their lane cells
    is_first: np.ndarray  # uint8 per carried row: whether it is the first of its lane
    before: np.ndarray  # int32 per lane cell: rows carried from lane cells before it, of any lane
    cell: np.ndarray  # int32 per lane cell
    is_last: np.ndarray  # uint8 per lane cell: whether it is the last of its lane
    survival: np.ndarray  # float64 (1 or fits, lane cells): G_k
    lane_ptr: np.ndarray  # int64
    lane_cell: np.ndarray  # int64 per lane: first cell of its stratum
    stratum_lanes: np.ndarray  # int64
    stratum: np.ndarray  # int32 per cell
    sums: np.ndarray  # float64 (fits, carried rows): sums of v along the lane, up to the row
    back: np.ndarray  # float64 (fits, lane cells): B


class LanesOfFit(NamedTuple):
    """Numbers of lanes that belong to one fit."""

    inverse: np.ndarray
    survival: np.ndarray
    sums: np.ndarray
    back: np.ndarray


@inlined
def lanes_of_fit(carry, fit):
    return LanesOfFit(
        of_fit(carry.inverse, fit),
        of_fit(carry.survival, fit),
        carry.sums[fit],
        carry.back[fit],
    )


@device
def _load_carried(context, m):
    carry, _, lanes, _ = context
    return lanes.sums[m], 0.0, 0.0, int64(carry.is_first[m])


@device
def _weigh_carried(context, m):
    """v of a carried row, which `_load_carried` reads before its sum takes the place."""
    carry, part, lanes, top = context
    i = carry.row[m]
    lanes.sums[m] = risk_weight(part, i, top) * lanes.inverse[i]
    return _load_carried(context, m)


@device
def _take_carried(context, m, before, after):
    context[2].sums[m] = after[0] + after[1]
    return 0.0, 0.0


@device
def _load_back(context, position):
    carry, part, lanes = context
    q = carry.is_last.shape[0] - 1 - position
    k = carry.cell[q]
    jump = part.jump[k] * lanes.survival[q] if part.deaths[k] > 0.0 else 0.0
    return jump, 0.0, 0.0, int64(carry.is_last[q])


@device
def _take_back(context, position, before, after):
    """Keep the sum over later cells, which is B."""
    carry, _, lanes = context
    lanes.back[carry.is_last.shape[0] - 1 - position] = before[0] + before[1]
    return 0.0, 0.0


_scan_carried = make_rake(_weigh_carried, _take_carried, _load_carried, add_exactly)
_scan_back = make_rake(_load_back, _take_back, combine=add_exactly)


@device
def _late_risk(late, part, k):
    """Sum of v that the lanes of its stratum bring to the risk set of a cell."""
    carry, lanes = late
    risk, s = 0.0, carry.stratum[k]
    if part.deaths[k] > 0.0:
        for lane in range(carry.stratum_lanes[s], carry.stratum_lanes[s + 1]):
            first = carry.lane_ptr[lane]
            q = first + k - carry.lane_cell[lane]
            if carry.before[q] > carry.before[first]:
                risk += lanes.survival[q] * lanes.sums[carry.before[q] - 1]
    return risk


@device
def _take_expected(exchange, sets, part, carry, lanes):
    """u from w: observed minus expected events."""
    low, high = part_of(part.eta.shape[0], exchange)
    i = low + cuda.threadIdx.x
    while i < high:
        expected = 0.0
        if part.live[i] != 0:
            total = hazard_of_row(sets, part, i)
            if lanes.inverse[i] > 0.0:
                total += lanes.inverse[i] * lanes.back[carry.idx[i]]
            expected = part.u[i] * total
        part.u[i] = part.weight[i] * part.value[i] - expected
        i += cuda.blockDim.x


def _evaluate(exchange, sets, carry, rows, cells, eta_of_fits, loglik_of_fits, tops):
    """Log-likelihood and shift of eta per fit; writes u, the cells and B.  NaN if D underflows."""
    begin()
    scratch, turn = new_scratch(), 0
    team, member = my_team(exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit = exchange.fits[t]
        part, lanes = part_of_fit(sets, rows, cells, eta_of_fits, fit), lanes_of_fit(carry, fit)
        top = largest_predictor(exchange, part, turn, scratch)
        n_carried, n_marks, n_cells = carry.row.shape[0], sets.flags.shape[0], part.jump.shape[0]
        _scan_carried(exchange, n_carried, (carry, part, lanes, top), turn + 1, scratch)
        context = sets, part, top, (carry, lanes)
        loglik, _ = scan_risk(exchange, n_marks, context, turn + 2, scratch)
        cuda.syncthreads()  # a member scans the jumps that it has found
        scan_hazard(exchange, n_cells, (sets, part), turn + 3, scratch)
        _scan_back(exchange, carry.is_last.shape[0], (carry, part, lanes), turn + 4, scratch)
        loglik = team_sum(exchange, loglik, turn + 5, scratch)
        _take_expected(exchange, sets, part, carry, lanes)
        turn += 6
        if member == 0 and cuda.threadIdx.x == 0:
            loglik_of_fits[fit] = loglik if math.isfinite(top) else np.nan
            tops[fit] = top
        t += n_teams(exchange)


@cache
def evaluation(jump_formula):
    """Kernel of the evaluation under a likelihood's `jump_formula`."""
    scan_risk = make_risk_scan(jump_formula, _late_risk)
    return specialize(_evaluate, jump_formula.__name__, scan_risk=scan_risk)


@device
def _refer_row(sets, part, carry, lanes, i, top):
    """h, w and c = w / G(T-) of a row."""
    w = risk_weight(part, i, top)
    h, c = max(w * hazard_of_row(sets, part, i), 0.0), w * lanes.inverse[i]
    return h + c * lanes.back[carry.idx[i]], w, c


@kernel
def curvature(fits, sets, carry, rows, cells, eta_of_fits, tops, bin_cells, model):
    """h of every row, and the bins' numbers."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    is_carried = model.carried.shape[1] > 0
    for t in range(fits.shape[0]):
        fit = fits[t]
        part, lanes = part_of_fit(sets, rows, cells, eta_of_fits, fit), lanes_of_fit(carry, fit)
        i = first
        while i < part.eta.shape[0]:
            h, w, c = _refer_row(sets, part, carry, lanes, i, tops[fit])
            keep_row(model, fit, i, h, w)
            if is_carried:
                model.carried[fit, i] = c
            i += step
        k = first
        while k < model.last.shape[0]:
            refer_bin(part, model, bin_cells, fit, k)
            if is_carried:  # one lane a stratum: its cells are the stratum's
                model.after[fit, k] = lanes.back[bin_cells.end[k]]
                model.fall[fit, k] = lanes.back[bin_cells.start[k]] - model.after[fit, k]
            k += step


class CarriedOnDevice(RiskSetsOnDevice):
    """Risk sets with rows that stay beyond their exit, on the lanes of a `CompetingPlan`."""

    has_exact_steps = has_other_way = False

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        self._carry = layout.device.pack(self._find_carry(layout.plan))
        self._evaluate = evaluation(self.likelihood.jump_formula)

    @staticmethod
    def bytes_of_fit(plan):
        """More: 1/G, sums and c of carried rows; G and B of lane cells."""
        own = 32 * plan.n_rows + 16 * plan.carrying.lane_ptr[-1]
        return RiskSetsOnDevice.bytes_of_fit(plan) + own

    def _is_carried(self, plan):
        return plan.one_lane_a_stratum  # rows of whole strata have no later bins

    def _find_carry(self, plan):
        """Lanes of the plan on the device, and the curves of censoring under the weights."""
        inverse, survival = self._find_curves(plan)
        return Carry(
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

    def evaluate(self, fits, eta, loglik):
        self.layout.launch_teams(
            self._evaluate,
            fits,
            self._sets,
            self._carry,
            self.rows,
            self._cells,
            eta,
            loglik,
            self._top,
        )

    def _refer(self, fits, eta, model):
        self._launch_rows(
            curvature,
            fits,
            self._sets,
            self._carry,
            self.rows,
            self._cells,
            eta,
            self._top,
            self._bin_cells,
            model,
        )
