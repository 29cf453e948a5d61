"""The risk-set pattern: one suffix scan, one prefix scan and two gathers per evaluation.

Time has become integers (`data/plans/rows.py`): every stratum owns a run of *cells*, one per event
index preceded by a cell 0 that stands for "before the first event".  Row i is at risk at the cells
(enter_i, exit_i] of its stratum.  With w = weight * exp(eta):

    D_k  sum of w over the rows at risk      suffix scan of exits minus entries
    a_k  jump of the cumulative hazard       a formula of (D_k, ...) given by the likelihood
    A_k  cumulative hazard                   prefix scan of a
    h_i = w_i (A[exit_i] - A[enter_i]) - (event_i) w_i held[exit_i],   u_i = weight_i event_i - h_i

`held` is the part of the jump that tied deaths do not carry (Efron); a formula returns
``(log_term, a_k, held_k)`` from ``(D_k, T_k, weight of the deaths, number of deaths)``, T_k being
the sum of w over the deaths at k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from ..._compile import PART, device, kernel
from ..formulas import two_sum
from .interval_tree import add_logs
from .optional import add, fill, read, row_weight, write

# Below this a risk-set sum has lost its digits to underflow and the scans continue in logarithms.
SMALLEST_RISK = 1e-280
# With delayed entry sums cancel that are two doubles each, right to 2^-106 of the largest in their
# stratum: half of these digits are left here. A hazard is the inverse of a sum, so that differences
# of hazards have as many. Where sums can go on in logarithms they do before quadratic models, whose
# numbers are one double, have lost theirs.
SMALLEST_SHARE, SMALLEST_OF_MODELS = 2.0**-53, 2.0**-43


class RiskSets(NamedTuple):
    """The integers of a risk-set problem, and the case weights of one fit (None: all one).

    Scans of cells read what there is per cell, and of strata; the rows may be elsewhere.
    """

    exit_idx: np.ndarray  # uint32 per row: cell of its exit
    enter_idx: np.ndarray  # uint32 per row, or None where every row is at risk from the beginning
    event: np.ndarray  # uint8 per row
    live: np.ndarray  # bool per row: of positive weight and in some risk set; others are absent
    cell_ptr: np.ndarray  # int64, per stratum + 1
    weight: np.ndarray  # float64 per row, or None
    deaths: np.ndarray  # float64 per cell: number of deaths of positive weight
    death_weight: np.ndarray  # float64 per cell: sum of their weights
    least: float = SMALLEST_OF_MODELS  # share of the largest D from which on others have digits


class Cells(NamedTuple):
    """What the scans leave behind, per cell."""

    risk: np.ndarray  # D
    hazard: np.ndarray  # A
    rest: np.ndarray  # low-order part of D, then of A; None without entries; in logarithms, of a
    tied: np.ndarray  # T, None where the formula has no use for ties
    held: np.ndarray  # ... likewise


@device
def add_risk(cells, k, w):
    """Add w to the sum of cell k, keeping its rounding error where entries will be taken out.

    Exits minus entries cancel: without the second number the error of D was up to 300 times larger.
    """
    cells.risk[k], error = two_sum(cells.risk[k], w)
    add(cells.rest, k, error)


def leave_risk(enter_idx, i, w, cells):
    """Take w out of the risk sets up to the row's entry."""


@overload(leave_risk, jit_options=PART)
def _leave_risk(enter_idx, i, w, cells):
    if isinstance(enter_idx, types.NoneType):
        return lambda enter_idx, i, w, cells: None
    return lambda enter_idx, i, w, cells: add_risk(cells, enter_idx[i], -w)


def is_lost(rest, risk, least):
    """Whether a risk-set sum has lost its digits to larger ones that left before it."""


@overload(is_lost, jit_options=PART)
def _is_lost(rest, risk, least):
    if isinstance(rest, types.NoneType):
        return lambda rest, risk, least: False
    return lambda rest, risk, least: not risk > least


def enter_cell(enter_idx, i):
    """Cell of the row's entry; cell 0 belongs to nobody's risk set."""


@overload(enter_cell, jit_options=PART)
def _enter_cell(enter_idx, i):
    if isinstance(enter_idx, types.NoneType):
        return lambda enter_idx, i: np.uint32(0)
    return lambda enter_idx, i: enter_idx[i]


def hazard_until(enter_idx, i, k, cells):
    """Cumulative hazard between the row's entry and cell k."""


@overload(hazard_until, jit_options=PART)
def _hazard_until(enter_idx, i, k, cells):
    if isinstance(enter_idx, types.NoneType):
        return lambda enter_idx, i, k, cells: cells.hazard[k]

    def difference(enter_idx, i, k, cells):
        e = enter_idx[i]
        return (cells.hazard[k] - cells.hazard[e]) + (
            read(cells.rest, k, 0.0) - read(cells.rest, e, 0.0)
        )

    return difference


@device
def largest_predictor(risk_sets, eta):
    top = -np.inf
    for i in range(len(eta)):
        if risk_sets.live[i] and not eta[i] <= top:
            top = eta[i]
    return top if top > -np.inf or top != top else 0.0  # 0: nobody is ever at risk


@device
def _sum_risk(risk_sets, eta, top, cells, w_row):
    """Sums of w per cell, w itself, and the events' part of the log-likelihood."""
    loglik = 0.0
    cells.risk[:] = 0.0
    fill(cells.rest, 0.0)
    fill(cells.tied, 0.0)
    for i in range(len(eta)):
        c = row_weight(risk_sets.weight, i)
        shifted = eta[i] - top
        w = c * np.exp(shifted) if risk_sets.live[i] else 0.0
        k = risk_sets.exit_idx[i]
        w_row[i] = w
        add_risk(cells, k, w)
        leave_risk(risk_sets.enter_idx, i, w, cells)
        if risk_sets.event[i]:
            add(cells.tied, k, w)
            if risk_sets.live[i]:
                loglik += c * shifted
    return loglik


def scan_cells(risk_sets, cells, loglik):
    """D and A of every cell from its sums; less the log-likelihood's terms of cells.

    NaN where D underflows, or has lost its digits.
    """
    for s in range(len(risk_sets.cell_ptr) - 1):
        first, end = risk_sets.cell_ptr[s], risk_sets.cell_ptr[s + 1]
        risk, rest, largest = 0.0, 0.0, 0.0
        for k in range(end - 1, first, -1):
            risk, error = two_sum(risk, cells.risk[k])
            rest += error + read(cells.rest, k, 0.0)
            cells.risk[k] = risk + rest
            largest = max(largest, risk)
            least = risk_sets.least * largest
            if risk_sets.deaths[k] > 0.0 and is_lost(cells.rest, cells.risk[k], least):
                return np.nan
        hazard, rest = 0.0, 0.0
        cells.hazard[first] = 0.0
        write(cells.rest, first, 0.0)
        write(cells.held, first, 0.0)
        for k in range(first + 1, end):
            held = 0.0
            if risk_sets.deaths[k] > 0.0:
                if not cells.risk[k] > SMALLEST_RISK:
                    return np.nan
                log_term, jump, held = jump_formula(  # noqa: F821 (bound)
                    cells.risk[k],
                    read(cells.tied, k, 0.0),
                    risk_sets.death_weight[k],
                    risk_sets.deaths[k],
                )
                loglik -= log_term
                hazard, error = two_sum(hazard, jump)
                rest += error
            cells.hazard[k] = hazard
            write(cells.rest, k, rest)
            write(cells.held, k, held)
    return loglik


@device
def _take_expected(risk_sets, cells, u):
    """u from w: observed minus expected events."""
    for i in range(len(u)):
        k = risk_sets.exit_idx[i]
        hazard = hazard_until(risk_sets.enter_idx, i, k, cells)
        c = 0.0
        if risk_sets.event[i]:
            c = row_weight(risk_sets.weight, i)
            hazard -= read(cells.held, k, 0.0)
        u[i] = c - u[i] * hazard


def evaluate(risk_sets, eta, u, cells):
    """Log-likelihood and shift of eta; writes u and the cells.  NaN where D underflows."""
    top = largest_predictor(risk_sets, eta)
    if not np.isfinite(top):
        return np.nan, top
    loglik = _sum_risk(risk_sets, eta, top, cells, u)
    loglik = scan(risk_sets, cells, loglik)  # noqa: F821 (bound by specialize)
    if not np.isnan(loglik):
        _take_expected(risk_sets, cells, u)
    return loglik, top


@device
def _sum_log_risk(risk_sets, eta, cells):
    """Logarithms of the sums of w per cell; returns the events' part of the log-likelihood."""
    cells.risk[:] = -np.inf
    fill(cells.tied, -np.inf)
    loglik = 0.0
    for i in range(len(eta)):
        c = row_weight(risk_sets.weight, i)
        if risk_sets.live[i]:
            k = risk_sets.exit_idx[i]
            cells.risk[k] = add_logs(cells.risk[k], np.log(c) + eta[i])
            if risk_sets.event[i]:
                write(cells.tied, k, add_logs(read(cells.tied, k, -np.inf), np.log(c) + eta[i]))
                loglik += c * eta[i]
    return loglik


@kernel
def add_later_logs(cell_ptr, risk):
    """D of every cell from its sums by exit, as logarithms."""
    for s in range(len(cell_ptr) - 1):
        for k in range(cell_ptr[s + 1] - 2, cell_ptr[s], -1):
            risk[k] = add_logs(risk[k], risk[k + 1])


def scan_log_cells(risk_sets, cells, loglik):
    """A of every cell from D, and its jump as `rest`, as logarithms; as `scan_cells` otherwise.

    Formulas are homogeneous: at D they are those at D = 1 shifted by log D.
    """
    fill(cells.rest, -np.inf)
    for s in range(len(risk_sets.cell_ptr) - 1):
        first, end = risk_sets.cell_ptr[s], risk_sets.cell_ptr[s + 1]
        hazard = -np.inf
        cells.hazard[first] = hazard
        write(cells.held, first, hazard)
        for k in range(first + 1, end):
            write(cells.held, k, -np.inf)
            if risk_sets.deaths[k] > 0.0:
                log_term, jump, held = jump_formula(  # noqa: F821 (bound)
                    1.0,
                    np.exp(read(cells.tied, k, -np.inf) - cells.risk[k]),
                    risk_sets.death_weight[k],
                    risk_sets.deaths[k],
                )
                loglik -= log_term + risk_sets.death_weight[k] * cells.risk[k]
                log_jump = np.log(jump) - cells.risk[k]
                hazard = add_logs(hazard, log_jump)
                write(cells.rest, k, log_jump)
                write(cells.held, k, np.log(held) - cells.risk[k])
            cells.hazard[k] = hazard
    return loglik


@device
def _take_expected_in_logs(risk_sets, eta, cells, u):
    for i in range(len(eta)):
        c = row_weight(risk_sets.weight, i)
        u[i] = 0.0
        if risk_sets.live[i]:
            k = risk_sets.exit_idx[i]
            log_w = np.log(c) + eta[i]
            u[i] = -np.exp(log_w + cells.hazard[k])
            if risk_sets.event[i]:
                u[i] += c + np.exp(log_w + read(cells.held, k, -np.inf))


def evaluate_in_logs(risk_sets, eta, u, cells):
    """`evaluate` for predictors of any range, without delayed entry: every sum is a logarithm."""
    loglik = _sum_log_risk(risk_sets, eta, cells)
    add_later_logs(risk_sets.cell_ptr, cells.risk)
    loglik = scan(risk_sets, cells, loglik)  # noqa: F821 (bound by specialize)
    _take_expected_in_logs(risk_sets, eta, cells, u)
    return loglik, 0.0


@kernel
def curvature(risk_sets, eta, top, cells, rh, w_row):
    """h into the second column of `rh`, and w on the scale of the cells.

    As weight*event - u a small h would be lost to rounding.
    """
    for i in range(len(eta)):
        c, k = row_weight(risk_sets.weight, i), risk_sets.exit_idx[i]
        w_row[i] = c * np.exp(eta[i] - top) if risk_sets.live[i] else 0.0
        hazard = hazard_until(risk_sets.enter_idx, i, k, cells)
        if risk_sets.event[i]:
            hazard -= read(cells.held, k, 0.0)
        rh[i, 1] = max(w_row[i] * hazard, 0.0)


# -- rows that share their cells with rows elsewhere ------------------------------------------


@kernel
def sum_cells(risk_sets, eta, top, cells, w_row):
    """Sums by cell, before any scan; the events' part of the log-likelihood."""
    return _sum_risk(risk_sets, eta, top, cells, w_row)


@kernel
def sum_log_cells(risk_sets, eta, cells):
    """... as logarithms."""
    return _sum_log_risk(risk_sets, eta, cells)


@kernel
def residuals(risk_sets, eta, top, cells, u):
    """u where the cells have what scans of the sums of all rows have left."""
    for i in range(len(eta)):
        c = row_weight(risk_sets.weight, i)
        u[i] = c * np.exp(eta[i] - top) if risk_sets.live[i] else 0.0
    _take_expected(risk_sets, cells, u)


@kernel
def residuals_in_logs(risk_sets, eta, cells, u):
    """... as logarithms."""
    _take_expected_in_logs(risk_sets, eta, cells, u)
