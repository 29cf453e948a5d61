"""Risk sets that keep rows beyond their exit: the weighted risk sets of Fine and Gray.

A row with a competing event at T_i stays at risk with weight G(t-) / G(T_i-).  With v_i = w_i /
G(T_i-) for such rows and 0 for others, and G_k = G(t_k-) on the row's lane
(`plan`),

    D_k = sum_{exit_i >= k} w_i + sum_lanes G_k sum_{exit_i < k} v_i     suffix and prefix scan
    a_k, A_k                  jump and cumulative hazard, as in `risk_sets`
    B_k = sum_{l > k} a_l G_l on a lane                                   suffix scan
    h_i = w_i A[exit_i] + v_i B[exit_i],   u_i = weight_i event_i - h_i

No term is ever subtracted, so that the same scans go on in logarithms where D underflows.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from ..._compile import BOUND, bind, device, kernel, part_of_loop, specialize
from ...backends.cpu import tasks
from ...backends.cpu.bins import Centring
from ...backends.cpu.exact import Steps
from ...backends.cpu.optional import row_weight
from ...backends.cpu.tasks import ALL, rows_in
from ..risk_sets.cpu import RiskSetsOnCpu, ratio_of_logs
from ..risk_sets.cpu_cells import (
    REST,
    RISK,
    TERMS,
    Cells,
    add_later_logs,
    jumps_of,
    largest_predictor,
    weigh_row,
)
from ..risk_sets.cpu_tasks import (
    EXPECTED,
    HAZARDS,
    JUMPS,
    LOGLIK,
    OF_CELLS,
    RISKS,
    SUMS,
    TOP,
    TOPS,
    begin_part,
    join_parts,
    join_tops,
    span_of,
)
from ..risk_sets.cpu_tree import add_logs
from .cpu_steps import LaneMoments, fill_moments, steps_of

find_jumps = of_cells = scan = BOUND


class Carry(NamedTuple):
    """Lanes of one fit."""

    idx: np.ndarray  # uint32 per row: lane cell of its exit
    inverse: np.ndarray  # per row: 1 / G(T_i-), 0 where the row is not carried
    lane_ptr: np.ndarray
    lane_cell: np.ndarray
    stratum_lanes: np.ndarray
    survival: np.ndarray  # per lane cell: G_k
    sums: np.ndarray  # per lane cell: sums of v by exit, then B
    jump: np.ndarray  # per cell: a


@part_of_loop
def _sum_exits(risk_sets, carry, eta, top, u, risk, low, high, begin, end, found):
    """Sums of w and v of the rows [low, high) by exit, and w itself into u.

    What belongs to a cell before `begin` goes into `found`, its v in the place of D's low part.
    """
    loglik, before, carried, split = 0.0, 0.0, 0.0, low
    risk[begin:end] = 0.0
    while split < high and risk_sets.exit_idx[split] < begin:
        u[split], _, term = weigh_row(risk_sets, eta, top, split)
        before += u[split]
        carried += u[split] * carry.inverse[split]
        loglik += term
        split += 1
    for i in rows_in(split, high):
        w, _, term = weigh_row(risk_sets, eta, top, i)
        u[i] = w
        risk[risk_sets.exit_idx[i]] += w
        carry.sums[carry.idx[i]] += w * carry.inverse[i]
        loglik += term
    found[TERMS], found[RISK], found[REST] = loglik, before, carried


@device
def _carry_forward(carry, lane, risk):
    """Add the rows carried along a lane to the risk sets after their exits."""
    shift, carried = carry.lane_cell[lane] - carry.lane_ptr[lane], 0.0
    for q in range(carry.lane_ptr[lane], carry.lane_ptr[lane + 1]):
        risk[q + shift] += carry.survival[q] * carried
        carried += carry.sums[q]


@device
def _carry_back(carry, lane):
    """B of a lane, from its end."""
    shift, total = carry.lane_cell[lane] - carry.lane_ptr[lane], 0.0
    for q in range(carry.lane_ptr[lane + 1] - 1, carry.lane_ptr[lane] - 1, -1):
        carry.sums[q] = total
        total += carry.jump[q + shift] * carry.survival[q]


@part_of_loop
def _sum_risks(risk_sets, carry, risk, first, end):
    """D of the cells of strata from their sums by exit."""
    for s in range(first, end):
        for k in range(risk_sets.cell_ptr[s + 1] - 2, risk_sets.cell_ptr[s] - 1, -1):
            risk[k] += risk[k + 1]
        for lane in range(carry.stratum_lanes[s], carry.stratum_lanes[s + 1]):
            _carry_forward(carry, lane, risk)


@part_of_loop
def _sum_jumps(risk_sets, carry, hazard, first, end):
    """A of the cells of strata, and B of their lanes, from the jumps that are in A's place."""
    for s in range(first, end):
        total = 0.0
        for k in range(risk_sets.cell_ptr[s], risk_sets.cell_ptr[s + 1]):
            carry.jump[k] = hazard[k]
            total += hazard[k]
            hazard[k] = total
        for lane in range(carry.stratum_lanes[s], carry.stratum_lanes[s + 1]):
            _carry_back(carry, lane)


@part_of_loop
def _take_expected(risk_sets, carry, hazard, u, low, high):
    """u of rows from w: observed minus expected events."""
    for i in rows_in(low, high):
        later = carry.inverse[i] * carry.sums[carry.idx[i]]
        total = hazard[risk_sets.exit_idx[i]] + (later if carry.inverse[i] > 0.0 else 0.0)
        mass = row_weight(risk_sets.weight, i) if risk_sets.event[i] else 0.0
        u[i] = mass - u[i] * total


def scan_lanes(risk_sets, carry, cells, loglik):
    """D, A and B from the sums of cells; less the log-likelihood's terms of cells.

    NaN where D underflows.
    """
    n_strata = len(risk_sets.cell_ptr) - 1
    _sum_risks(risk_sets, carry, cells.risk, 0, n_strata)
    n_cells = len(cells.risk)
    loglik = find_jumps(risk_sets, cells, 0, n_cells, loglik)
    if not np.isnan(loglik):
        _sum_jumps(risk_sets, carry, cells.hazard, 0, n_strata)
    return loglik


@device
def _complete(risk_sets, carry, risk, blocks, begin, end):
    """Add to the cells [begin, end) what blocks have found of cells that began before them."""
    for b in range(1, blocks.sizes[SUMS]):
        k = np.int64(risk_sets.exit_idx[blocks.rows[b]])
        if begin <= k < end:
            risk[k] += blocks.found[b, RISK]
            carry.sums[k] += blocks.found[b, REST]


@part_of_loop
def _sum_block(risk_sets, carry, eta, u, cells, blocks, b):
    low, high, begin, end = span_of(risk_sets, blocks, b, len(cells.risk))
    # cells of lanes are those of strata, or all rows are one block
    carry.sums[begin : end if b < blocks.sizes[SUMS] - 1 else len(carry.sums)] = 0.0
    _sum_exits(
        risk_sets,
        carry,
        eta,
        join_tops(blocks),
        u,
        cells.risk,
        low,
        high,
        begin,
        end,
        blocks.found[b],
    )


@part_of_loop
def _do_rows(risk_sets, carry, eta, u, cells, blocks, task, low, high):
    """Blocks [low, high) of a task over rows."""
    found, rows = blocks.found, blocks.rows
    if task == TOPS:
        for b in range(low, high):
            found[b, TOP] = largest_predictor(risk_sets, eta, rows[b], rows[b + 1])
    elif task == SUMS:
        for b in range(low, high):
            _sum_block(risk_sets, carry, eta, u, cells, blocks, b)
    elif task == EXPECTED and not np.isnan(found[0, LOGLIK]):
        for b in range(low, high):
            _take_expected(risk_sets, carry, cells.hazard, u, rows[b], rows[b + 1])


def do_cells(risk_sets, carry, cells, blocks, task, low, high):
    """Blocks [low, high) of a task over cells."""
    found, strata, ptr = blocks.found, blocks.strata, risk_sets.cell_ptr
    if task == RISKS:
        for b in range(low, high):
            begin, end = ptr[strata[b]], ptr[strata[b + 1]]
            _complete(risk_sets, carry, cells.risk, blocks, begin, end)
            _sum_risks(risk_sets, carry, cells.risk, strata[b], strata[b + 1])
    elif task == JUMPS:
        for b in range(low, high):
            first, end, start = blocks.cells[b], blocks.cells[b + 1], begin_part(blocks, b)
            found[b, OF_CELLS] = find_jumps(risk_sets, cells, first, end, start)
    elif task == HAZARDS:
        for b in range(low, high):
            _sum_jumps(risk_sets, carry, cells.hazard, strata[b], strata[b + 1])
        if low == 0:
            join_parts(blocks)


def evaluate(risk_sets, carry, eta, u, cells, blocks, sizes, task, low, high):
    """Tasks of an evaluation, as those of `risk_set_tasks`."""
    for now in range(task, len(sizes) if high == ALL else task + 1):
        end = min(high, sizes[now])
        _do_rows(risk_sets, carry, eta, u, cells, blocks, now, low, end)
        of_cells(risk_sets, carry, cells, blocks, now, low, end)
    return task + 1


@cache
def kernel_of(formula):
    """Kernel of an evaluation under a likelihood's `jump_formula`."""
    of_cells = part_of_loop(bind(do_cells, find_jumps=jumps_of(formula)))
    return specialize(evaluate, of_cells=of_cells)


@device
def _sum_log_exits(risk_sets, carry, eta, risk):
    """Sums of w and v by exit, as logarithms; the events' part of the log-likelihood."""
    loglik = 0.0
    risk[:] = -np.inf
    carry.sums[:] = -np.inf
    for i in range(len(eta)):
        if risk_sets.live[i]:
            c, k, q = row_weight(risk_sets.weight, i), risk_sets.exit_idx[i], carry.idx[i]
            log_w = np.log(c) + eta[i]
            risk[k] = add_logs(risk[k], log_w)
            carry.sums[q] = add_logs(carry.sums[q], log_w + np.log(carry.inverse[i]))
            if risk_sets.event[i]:
                loglik += c * eta[i]
    return loglik


@device
def _carry_logs_forward(carry, lane, risk):
    shift, carried = carry.lane_cell[lane] - carry.lane_ptr[lane], -np.inf
    for q in range(carry.lane_ptr[lane], carry.lane_ptr[lane + 1]):
        risk[q + shift] = add_logs(risk[q + shift], np.log(carry.survival[q]) + carried)
        carried = add_logs(carried, carry.sums[q])


@device
def _carry_logs_back(carry, lane):
    shift, total = carry.lane_cell[lane] - carry.lane_ptr[lane], -np.inf
    for q in range(carry.lane_ptr[lane + 1] - 1, carry.lane_ptr[lane] - 1, -1):
        carry.sums[q] = total
        total = add_logs(total, carry.jump[q + shift] + np.log(carry.survival[q]))


def evaluate_in_logs(risk_sets, carry, eta, u, cells):
    """`evaluate` for predictors of any range: every sum is a logarithm."""
    loglik = _sum_log_exits(risk_sets, carry, eta, cells.risk)
    add_later_logs(risk_sets.cell_ptr, cells.risk)
    for lane in range(len(carry.lane_cell)):
        _carry_logs_forward(carry, lane, cells.risk)
    loglik = scan(risk_sets, Cells(cells.risk, cells.hazard, carry.jump, None, None), loglik)
    for lane in range(len(carry.lane_cell)):
        _carry_logs_back(carry, lane)
    for i in range(len(eta)):
        c, u[i] = row_weight(risk_sets.weight, i), 0.0
        if risk_sets.live[i]:
            log_w, own = np.log(c) + eta[i], cells.hazard[risk_sets.exit_idx[i]]
            later = np.log(carry.inverse[i]) + carry.sums[carry.idx[i]]
            u[i] = (c if risk_sets.event[i] else 0.0) - np.exp(log_w + add_logs(own, later))
    return loglik, 0.0


@kernel
def add_carried_in_logs(risk_sets, carry, eta, end, carried_row, h):
    """c of rows in units of 1 / B at the `end` of their bin, and what they have of h later."""
    for i in range(len(eta)):
        carried_row[i] = 0.0
        if risk_sets.live[i]:
            log_c = np.log(row_weight(risk_sets.weight, i) * carry.inverse[i]) + eta[i]
            carried_row[i] = np.exp(log_c + end[i])
            h[i] += np.exp(log_c + carry.sums[carry.idx[i]])


@kernel
def add_carried(carry, w_row, carried_row, h, low, high):
    """c of rows, and what they have of h beyond their exits."""
    for i in rows_in(low, high):
        carried_row[i] = w_row[i] * carry.inverse[i]
        h[i] += carried_row[i] * carry.sums[carry.idx[i]]


@kernel
def sum_exits(risk_sets, carry, eta, top, u, risk):
    """Sums by exit, before any scan; the events' part of the log-likelihood."""
    n_cells, found = len(risk), np.empty(REST + 1)
    carry.sums[:] = 0.0
    _sum_exits(risk_sets, carry, eta, top, u, risk, 0, len(eta), 0, n_cells, found)
    return found[TERMS]


@kernel
def residuals(risk_sets, carry, eta, top, hazard, u):
    """u where A and B are those of all rows."""
    for i in range(len(eta)):
        c = row_weight(risk_sets.weight, i)
        u[i] = c * np.exp(eta[i] - top) if risk_sets.live[i] else 0.0
    _take_expected(risk_sets, carry, hazard, u, 0, len(u))


class CarriedOnCpu(RiskSetsOnCpu):
    """Risk sets with rows that stay beyond their exit, on the lanes of a `CompetingPlan`."""

    _kernel_of = staticmethod(kernel_of)

    def __init__(self, problem, weight, threads):
        super().__init__(problem, weight, threads)
        carrying = problem.plan.carrying
        self._carry = Carry(
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
        self._state, self._template_in_logs = (self.risk_sets, self._carry), evaluate_in_logs

    def _is_in_order(self):
        """Whether lane cells are in order, too."""
        plan = self.weighted.plan
        return plan.is_in_order and plan.one_lane_a_stratum

    def refer(self, eta, u, h):
        if self._in_logs:
            return self._refer_in_logs(eta, h)
        w_row = np.empty(len(eta))
        self._write_curvature(eta, h, w_row)
        carried_row = np.empty(len(eta))
        tasks.run_blocks(
            self._threads, self._row_blocks, add_carried, self._carry, w_row, carried_row, h
        )
        hazard = self.cells.hazard
        # whole strata have nothing before or after them
        back = self._carry.sums if self._one_lane else np.zeros(len(hazard))
        return self._centre(w_row, hazard, self.weighted.bin_inverse, carried_row, back)

    def _refer_in_logs(self, eta, h):
        plan, own = self.weighted.plan, self._bins_in_logs(eta, h)
        back = self._carry.sums if self._one_lane else np.full(plan.n_cells, -np.inf)
        start, end, carried_row = back[plan.bins.start], back[plan.bins.end], np.empty(len(h))
        add_carried_in_logs(self.risk_sets, self._carry, eta, end[own.exit_bin], carried_row, h)
        fade = ratio_of_logs(end, start)
        mirrored = {"after": np.ones(len(fade)), "fall": 1.0 - fade, "fade": fade}
        return Centring(own._replace(carried_row=carried_row, **mirrored), plan.few)

    def exact_steps(self, eta):
        n_cells = len(self.cells.risk)
        moments = LaneMoments(
            np.empty((n_cells, 3)), np.empty((len(self._carry.sums), 3)), np.empty((n_cells, 3))
        )
        w_row = np.empty(len(eta))
        eta -= np.max(eta[self.risk_sets.live])
        fill_moments(self.risk_sets, self._carry, eta, w_row, moments)
        state = self.risk_sets, self._carry, w_row, moments, eta
        return Steps(*steps_of(self._likelihood.coordinate_formula), state)
