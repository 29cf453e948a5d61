"""The risk-set pattern: one suffix scan, one prefix scan and two gathers per evaluation.

Time has become integers (`plan`): every stratum owns a run of *cells*, one per event
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

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from ..._compile import BOUND, PART, bind, device, kernel, part_of_loop
from ...backends.cpu.optional import add, fill, read, row_weight, write
from ...backends.cpu.tasks import rows_in
from ...backends.formulas import two_sum
from .cpu_tree import add_logs

jump_formula = scan = BOUND

# Below this a risk-set sum has lost its digits to underflow and the scans continue in logarithms.
SMALLEST_RISK = 1e-280
# With delayed entry sums cancel that are two doubles each, right to 2^-106 of the largest in their
# stratum: half of these digits are left here. A hazard is the inverse of a sum, so that differences
# of hazards have as many. Where sums can go on in logarithms they do before quadratic models, whose
# numbers are one double, have lost theirs.
SMALLEST_SHARE, SMALLEST_OF_MODELS = 2.0**-53, 2.0**-43


class RiskSets(NamedTuple):
    """The integers of a risk-set problem, and the case weights of one fit (None: all one).

    Scans of cells read what there is per cell, and of strata; the rows may be in partitions.
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
    """Numbers that scans leave behind, per cell."""

    risk: np.ndarray  # D
    hazard: np.ndarray  # A
    rest: np.ndarray  # low-order part of D, then of A; None without entries; in logarithms, of a
    tied: np.ndarray  # T, None where the formula has no use for ties
    held: np.ndarray  # ... likewise


@part_of_loop
def add_risk(cells, k, w):
    """Add w to the sum of cell k, keeping its rounding error where entries will be taken out.

    Exits minus entries cancel: without the second number the error of D was up to 300 times larger.
    """
    cells.risk[k], error = two_sum(cells.risk[k], w)
    add(cells.rest, k, error)


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


@part_of_loop
def largest_predictor(risk_sets, eta, low, high):
    """Largest predictor of the live rows [low, high)."""
    top = -np.inf
    for i in rows_in(low, high):
        if not eta[i] <= top and risk_sets.live[i]:
            top = eta[i]
    return top


@part_of_loop
def weigh_row(risk_sets, eta, top, i):
    """w of a row, the same where it died, and its part of the log-likelihood.

    Selections, as events come in no order that branches could foresee.
    """
    c, shifted = row_weight(risk_sets.weight, i), eta[i] - top
    w = c * np.exp(shifted) if risk_sets.live[i] else 0.0
    term = c * shifted if risk_sets.event[i] & risk_sets.live[i] else 0.0
    return w, w if risk_sets.event[i] else 0.0, term


# Of a block of rows, beside its part of the log-likelihood: D, its low-order part and T of the cell
# that began before it.
TERMS, RISK, REST, TIED = range(4)


@part_of_loop
def sum_rows(risk_sets, eta, top, cells, w_row, low, high, begin, end, found):
    """Sums of w of the rows [low, high) by the cells [begin, end), and w itself.

    What belongs to a cell before these goes into `found`.
    """
    loglik, risk, rest, tied, split = 0.0, 0.0, 0.0, 0.0, low
    for k in range(begin, end):
        cells.risk[k] = 0.0
        write(cells.rest, k, 0.0)
        write(cells.tied, k, 0.0)
    while split < high and risk_sets.exit_idx[split] < begin:
        w, dead, term = weigh_row(risk_sets, eta, top, split)
        w_row[split] = w
        risk, error = two_sum(risk, w)
        rest += error
        tied += dead
        loglik += term
        split += 1
    for i in rows_in(split, high):
        w, dead, term = weigh_row(risk_sets, eta, top, i)
        w_row[i] = w
        add_risk(cells, risk_sets.exit_idx[i], w)
        add(cells.tied, risk_sets.exit_idx[i], dead)
        loglik += term
    found[TERMS], found[RISK], found[REST], found[TIED] = loglik, risk, rest, tied


@part_of_loop
def sum_risks(risk_sets, cells, first, end):
    """D of the cells of strata [first, end) from their sums; whether it has its digits."""
    for s in range(first, end):
        risk, rest, largest = 0.0, 0.0, 0.0
        for k in range(risk_sets.cell_ptr[s + 1] - 1, risk_sets.cell_ptr[s], -1):
            risk, error = two_sum(risk, cells.risk[k])
            rest += error + read(cells.rest, k, 0.0)
            cells.risk[k] = risk + rest
            largest = max(largest, risk)
            least = risk_sets.least * largest
            if risk_sets.deaths[k] > 0.0 and is_lost(cells.rest, cells.risk[k], least):
                return False
    return True


def find_jumps(risk_sets, cells, low, high, loglik):
    """Jumps a of the cells [low, high) from D, in the place of A; the log-likelihood less theirs.

    NaN where D underflows.
    """
    for k in rows_in(low, high):
        jump, held = 0.0, 0.0
        if risk_sets.deaths[k] > 0.0:
            if not cells.risk[k] > SMALLEST_RISK:
                return np.nan
            log_term, jump, held = jump_formula(
                cells.risk[k],
                read(cells.tied, k, 0.0),
                risk_sets.death_weight[k],
                risk_sets.deaths[k],
            )
            loglik -= log_term
        cells.hazard[k] = jump
        write(cells.held, k, held)
    return loglik


@cache
def jumps_of(formula):
    """`find_jumps` under a likelihood's `jump_formula`."""
    return part_of_loop(bind(find_jumps, jump_formula=formula))


@part_of_loop
def sum_jumps(risk_sets, cells, first, end):
    """A of the cells of strata [first, end) from their jumps."""
    for s in range(first, end):
        hazard, rest = 0.0, 0.0
        for k in range(risk_sets.cell_ptr[s], risk_sets.cell_ptr[s + 1]):
            hazard, error = two_sum(hazard, cells.hazard[k])
            rest += error
            cells.hazard[k] = hazard
            write(cells.rest, k, rest)


def scan_cells(risk_sets, cells, loglik):
    """D and A of every cell from its sums; less the log-likelihood's terms of cells.

    NaN where D underflows, or has lost its digits.
    """
    n_strata = len(risk_sets.cell_ptr) - 1
    if not sum_risks(risk_sets, cells, 0, n_strata):
        return np.nan
    loglik = find_jumps(risk_sets, cells, 0, len(cells.risk), loglik)
    sum_jumps(risk_sets, cells, 0, n_strata)
    return loglik


@part_of_loop
def hazard_of(risk_sets, cells, i):
    """Hazard that a row was exposed to: less what tied deaths do not carry, where it is one."""
    k = risk_sets.exit_idx[i]
    hazard, held = hazard_until(risk_sets.enter_idx, i, k, cells), read(cells.held, k, 0.0)
    return hazard - (held if risk_sets.event[i] else 0.0)


@part_of_loop
def take_expected(risk_sets, cells, u, low, high):
    """u of rows from w: observed minus expected events."""
    for i in rows_in(low, high):
        c = row_weight(risk_sets.weight, i) if risk_sets.event[i] else 0.0
        u[i] = c - u[i] * hazard_of(risk_sets, cells, i)


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
                log_term, jump, held = jump_formula(
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
    loglik = scan(risk_sets, cells, loglik)
    _take_expected_in_logs(risk_sets, eta, cells, u)
    return loglik, 0.0


@kernel
def curvature(risk_sets, eta, top, cells, h, w_row, low, high):
    """h of the rows [low, high) and w on the scale of the cells.

    As weight*event - u a small h would be lost to rounding.
    """
    for i in rows_in(low, high):
        c = row_weight(risk_sets.weight, i)
        w_row[i] = c * np.exp(eta[i] - top) if risk_sets.live[i] else 0.0
        h[i] = max(w_row[i] * hazard_of(risk_sets, cells, i), 0.0)


@kernel
def curvature_in_logs(risk_sets, eta, cells, start, h, w_row):
    """h of rows, and w in units of 1 / A at the `start` of their bin, a logarithm per row."""
    for i in range(len(eta)):
        h[i] = w_row[i] = 0.0
        if risk_sets.live[i]:
            k, log_w = risk_sets.exit_idx[i], np.log(row_weight(risk_sets.weight, i)) + eta[i]
            held = read(cells.held, k, -np.inf) if risk_sets.event[i] else -np.inf
            h[i] = max(np.exp(log_w + cells.hazard[k]) - np.exp(log_w + held), 0.0)
            w_row[i] = np.exp(log_w + start[i])


@kernel
def sum_cells(risk_sets, eta, top, cells, w_row):
    """Sums by cell, before any scan; the events' part of the log-likelihood."""
    n_cells, found = len(cells.risk), np.empty(TIED + 1)
    sum_rows(risk_sets, eta, top, cells, w_row, 0, len(eta), 0, n_cells, found)
    for i in range(len(eta)):
        leave_risk(risk_sets.enter_idx, i, w_row[i], cells)
    return found[TERMS]


def leave_risk(enter_idx, i, w, cells):
    """Take w out of the risk sets up to the row's entry."""


@overload(leave_risk, jit_options=PART)
def _leave_risk(enter_idx, i, w, cells):
    if isinstance(enter_idx, types.NoneType):
        return lambda enter_idx, i, w, cells: None
    return lambda enter_idx, i, w, cells: add_risk(cells, enter_idx[i], -w)


@kernel
def sum_log_cells(risk_sets, eta, cells):
    """Logarithms of sums by cell; the events' part of the log-likelihood."""
    return _sum_log_risk(risk_sets, eta, cells)


@kernel
def residuals(risk_sets, eta, top, cells, u):
    """u where the cells have what scans of the sums of all rows have left."""
    for i in range(len(eta)):
        c = row_weight(risk_sets.weight, i)
        u[i] = c * np.exp(eta[i] - top) if risk_sets.live[i] else 0.0
    take_expected(risk_sets, cells, u, 0, len(u))


@kernel
def residuals_in_logs(risk_sets, eta, cells, u):
    """u where the cells have what scans of logarithms have left."""
    _take_expected_in_logs(risk_sets, eta, cells, u)
