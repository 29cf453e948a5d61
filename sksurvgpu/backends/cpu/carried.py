"""Risk sets that keep rows beyond their exit: the weighted risk sets of Fine and Gray.

A row with a competing event at T_i stays at risk with weight G(t-) / G(T_i-).  With v_i = w_i /
G(T_i-) for such rows and 0 for others, and G_k = G(t_k-) on the row's lane
(`data/plans/carried.py`),

    D_k = sum_{exit_i >= k} w_i + sum_lanes G_k sum_{exit_i < k} v_i     suffix and prefix scan
    a_k, A_k                  jump and cumulative hazard, as in `risk_sets`
    B_k = sum_{l > k} a_l G_l on a lane                                   suffix scan
    h_i = w_i A[exit_i] + v_i B[exit_i],   u_i = weight_i event_i - h_i

No term is ever subtracted.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from ..._compile import bind, device, kernel
from .columns import add_scaled, column_operation, entry_count, entry_row, entry_value
from .optional import row_weight
from .risk_sets import SMALLEST_RISK, largest_predictor


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


@device
def _sum_exits(risk_sets, carry, eta, top, u, risk):
    """Sums of w and v by exit, w itself into u, and the events' part of the log-likelihood."""
    loglik = 0.0
    risk[:] = 0.0
    carry.sums[:] = 0.0
    for i in range(len(eta)):
        c = row_weight(risk_sets.weight, i)
        u[i] = c * np.exp(eta[i] - top) if risk_sets.live[i] else 0.0
        risk[risk_sets.exit_idx[i]] += u[i]
        if carry.inverse[i] > 0.0:
            carry.sums[carry.idx[i]] += u[i] * carry.inverse[i]
        if risk_sets.event[i] and risk_sets.live[i]:
            loglik += c * (eta[i] - top)
    return loglik


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


@device
def _sum_risk(risk_sets, carry, s, risk):
    """D of a stratum's cells from its sums by exit."""
    for k in range(risk_sets.cell_ptr[s + 1] - 2, risk_sets.cell_ptr[s] - 1, -1):
        risk[k] += risk[k + 1]
    for lane in range(carry.stratum_lanes[s], carry.stratum_lanes[s + 1]):
        _carry_forward(carry, lane, risk)


@device
def _take_expected(risk_sets, carry, hazard, u):
    """u from w: observed minus expected events."""
    for i in range(len(u)):
        total = hazard[risk_sets.exit_idx[i]]
        if carry.inverse[i] > 0.0:
            total += carry.inverse[i] * carry.sums[carry.idx[i]]
        mass = row_weight(risk_sets.weight, i) if risk_sets.event[i] else 0.0
        u[i] = mass - u[i] * total


def scan_lanes(risk_sets, carry, cells, loglik):
    """D, A and B from the sums of cells; less the log-likelihood's terms of cells.

    NaN where D underflows.
    """
    for s in range(len(risk_sets.cell_ptr) - 1):
        _sum_risk(risk_sets, carry, s, cells.risk)
        first, end = risk_sets.cell_ptr[s], risk_sets.cell_ptr[s + 1]
        cells.hazard[first] = 0.0
        for k in range(first + 1, end):
            jump = 0.0
            if risk_sets.deaths[k] > 0.0:
                if not cells.risk[k] > SMALLEST_RISK:
                    return np.nan
                log_term, jump, _ = jump_formula(  # noqa: F821 (bound)
                    cells.risk[k], 0.0, risk_sets.death_weight[k], risk_sets.deaths[k]
                )
                loglik -= log_term
            carry.jump[k] = jump
            cells.hazard[k] = cells.hazard[k - 1] + jump
        for lane in range(carry.stratum_lanes[s], carry.stratum_lanes[s + 1]):
            _carry_back(carry, lane)
    return loglik


def evaluate(risk_sets, carry, eta, u, cells):
    """Log-likelihood and shift of eta; writes u, the cells and B.  NaN where D underflows."""
    top = largest_predictor(risk_sets, eta)
    loglik = _sum_exits(risk_sets, carry, eta, top, u, cells.risk)
    loglik = scan(risk_sets, carry, cells, loglik)  # noqa: F821 (bound by specialize)
    if not np.isnan(loglik):
        _take_expected(risk_sets, carry, cells.hazard, u)
    return loglik, top


# -- rows that share their cells with rows elsewhere ------------------------------------------


@kernel
def sum_exits(risk_sets, carry, eta, top, u, risk):
    """Sums by exit, before any scan; the events' part of the log-likelihood."""
    return _sum_exits(risk_sets, carry, eta, top, u, risk)


@kernel
def residuals(risk_sets, carry, eta, top, hazard, u):
    """u where A and B are those of all rows."""
    for i in range(len(eta)):
        c = row_weight(risk_sets.weight, i)
        u[i] = c * np.exp(eta[i] - top) if risk_sets.live[i] else 0.0
    _take_expected(risk_sets, carry, hazard, u)


# -- exact steps ------------------------------------------------------------------------------


class Moments(NamedTuple):
    """Sums of w, w x and w x^2 by exit: per cell, and of v per lane cell; scratch per cell."""

    left: np.ndarray  # (n_cells, 3)
    carried: np.ndarray  # (n_lane_cells, 3)
    late: np.ndarray  # (n_cells, 3): what lanes bring to the risk set


@kernel
def fill_moments(risk_sets, carry, eta, w_row, moments):
    """w of every row, and its sums; those of w x and w x^2 are 0 between coordinates."""
    moments.left[:] = 0.0
    moments.carried[:] = 0.0
    for i in range(len(eta)):
        c = row_weight(risk_sets.weight, i)
        w_row[i] = c * np.exp(eta[i]) if risk_sets.live[i] else 0.0
        moments.left[risk_sets.exit_idx[i], 0] += w_row[i]
        moments.carried[carry.idx[i], 0] += w_row[i] * carry.inverse[i]


@column_operation
def _scatter(rows, values, shift, state):
    risk_sets, carry, w_row, moments, _ = state
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        x = entry_value(values, q)
        first, second = w_row[i] * x, w_row[i] * x * x
        k = risk_sets.exit_idx[i]
        moments.left[k, 1] += first
        moments.left[k, 2] += second
        if carry.inverse[i] > 0.0:
            moments.carried[carry.idx[i], 1] += first * carry.inverse[i]
            moments.carried[carry.idx[i], 2] += second * carry.inverse[i]
    return 0.0


@column_operation
def _refresh(rows, values, shift, state):
    """New w of the column's rows, and its change in the sums."""
    risk_sets, carry, w_row, moments, eta = state
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        c = row_weight(risk_sets.weight, i)
        w = c * np.exp(eta[i]) if risk_sets.live[i] else 0.0
        moments.left[risk_sets.exit_idx[i], 0] += w - w_row[i]
        moments.carried[carry.idx[i], 0] += (w - w_row[i]) * carry.inverse[i]
        w_row[i] = w
    return 0.0


@device
def _sum_late(carry, lane, moments):
    """Prefix sums of a lane, at the cells of its stratum; clears what belongs to the column."""
    shift = carry.lane_cell[lane] - carry.lane_ptr[lane]
    s0, s1, s2 = 0.0, 0.0, 0.0
    for q in range(carry.lane_ptr[lane], carry.lane_ptr[lane + 1]):
        late, survival = moments.late[q + shift], carry.survival[q]
        late[0] += survival * s0
        late[1] += survival * s1
        late[2] += survival * s2
        s0 += moments.carried[q, 0]
        s1 += moments.carried[q, 1]
        s2 += moments.carried[q, 2]
        moments.carried[q, 1] = moments.carried[q, 2] = 0.0


def _scan(risk_sets, carry, moments):
    """Slope (without the events' part) and curvature along the scattered column."""
    slope, curvature = 0.0, 0.0
    for s in range(len(risk_sets.cell_ptr) - 1):
        first, end = risk_sets.cell_ptr[s], risk_sets.cell_ptr[s + 1]
        moments.late[first:end] = 0.0
        for lane in range(carry.stratum_lanes[s], carry.stratum_lanes[s + 1]):
            _sum_late(carry, lane, moments)
        s0, s1, s2 = 0.0, 0.0, 0.0
        for k in range(end - 1, first - 1, -1):
            left, late = moments.left[k], moments.late[k]
            s0 += left[0]
            s1 += left[1]
            s2 += left[2]
            left[1] = left[2] = 0.0
            deaths = risk_sets.deaths[k]
            if deaths > 0.0:
                g, h = coordinate_formula(  # noqa: F821 (bound by specialize)
                    s0 + late[0],
                    s1 + late[1],
                    s2 + late[2],
                    0.0,
                    0.0,
                    0.0,
                    risk_sets.death_weight[k],
                    deaths,
                )
                slope -= g
                curvature += h
    return slope, curvature


def _carried_derivatives(X, j, state):
    risk_sets, carry, _, moments, _ = state
    _scatter(X, j, 0, X.n_base, state)
    return scan(risk_sets, carry, moments)  # noqa: F821 (bound by specialize)


@device
def _carried_advance(X, j, step, state):
    add_scaled(X, j, 0, X.n_base, (state[4], step))
    _refresh(X, j, 0, X.n_base, state)


@cache
def steps_of(formula):
    """Functions of exact steps under a likelihood's `coordinate_formula`."""
    scan = device(bind(_scan, coordinate_formula=formula))
    return device(bind(_carried_derivatives, scan=scan)), _carried_advance
