"""The risk-set pattern on the device: the formulas of `cpu_cells`, one launch.

Sums over risk sets are scans over *marks*, from the last to the first.  A row's exit is a mark
that adds w and its entry one that takes it away again; a mark belongs to a cell, and marks are in
the order of cells.  What is summed up at a cell's first mark is its D, and what exits have added
since the cell's last mark, over deaths alone, its T; so its jump of the hazard is known there.

A team evaluates a fit with four barriers: for the largest predictor; in the scan for D, and in the
one for A, over the cells whose first marks a member has, so that their jumps are its own; and for
the log-likelihood, after which rows find their hazards.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import int64

from ..._compile import BOUND, bind
from ...backends.cuda._cuda import cuda, device, inlined, kernel, specialize
from ...backends.cuda.products import of_fit
from ...backends.cuda.rake import add_exactly, make_rake
from ...backends.cuda.team import (
    begin,
    larger,
    my_team,
    n_teams,
    new_scratch,
    part_of,
    team_max,
    team_sum,
)
from .cpu_cells import SMALLEST_RISK, SMALLEST_SHARE
from .weigh import FIRST_OF_CELL

jump_formula = late_risk = raise_hazard = find_top = scan_marks = scan_cells = BOUND
take_expected = BOUND


class RiskSets(NamedTuple):
    """The integers of a risk-set problem, and what weights alone decide.

    What takes no part is empty: entries where every row is at risk from the beginning, the order
    where the rows' exits are the marks, deaths by cell where the formula has no use for ties.
    """

    exit_idx: np.ndarray  # int32 per row: cell of its exit
    enter_idx: np.ndarray  # int32 per row
    order: np.ndarray  # int32 per mark: the row that exits, or ~row where it enters
    flags: np.ndarray  # uint8 per mark
    is_first: np.ndarray  # uint8 per cell: whether it is a group's cell 0
    live: np.ndarray  # uint8 (1 or fits, rows)
    deaths: np.ndarray  # float64 (1 or fits, cells)
    death_weight: np.ndarray  # ... likewise


class Cells(NamedTuple):
    """Numbers that an evaluation leaves behind, (fits, cells) each."""

    jump: np.ndarray  # a, where somebody died
    hazard: np.ndarray  # A
    rest: np.ndarray  # its low-order part; (1, 0) without delayed entry
    held: np.ndarray  # (1, 0) where the formula has no use for ties


class RowsOfFit(NamedTuple):
    """All of this for one fit, and its rows."""

    value: np.ndarray
    weight: np.ndarray
    eta: np.ndarray
    u: np.ndarray  # w of live rows until the last phase
    live: np.ndarray
    deaths: np.ndarray
    death_weight: np.ndarray
    jump: np.ndarray
    hazard: np.ndarray
    rest: np.ndarray
    held: np.ndarray


@inlined
def part_of_fit(sets, rows, cells, eta, fit):
    return RowsOfFit(
        rows.value,
        of_fit(rows.weight, fit),
        eta[fit],
        rows.u[fit],
        of_fit(sets.live, fit),
        of_fit(sets.deaths, fit),
        of_fit(sets.death_weight, fit),
        cells.jump[fit],
        cells.hazard[fit],
        of_fit(cells.rest, fit),
        of_fit(cells.held, fit),
    )


def _largest_term(sets, fit, k):
    """Term of a cell in the log-likelihood where nobody is at risk but its deaths."""
    deaths, d = of_fit(sets.deaths, fit)[k], of_fit(sets.death_weight, fit)[k]
    if not deaths > 0.0:
        return 0.0
    term, _, _ = jump_formula(d, d, d, deaths)
    return -term


@cache
def largest_term_of(jump_formula):
    return device(bind(_largest_term, jump_formula=jump_formula))


# -- rows -------------------------------------------------------------------------------------


@device
def largest_predictor(exchange, part, turn, scratch):
    """Largest predictor of a live row, nan if one is; takes a turn."""
    low, high = part_of(part.eta.shape[0], exchange)
    top = -np.inf
    i = low + cuda.threadIdx.x
    while i < high:
        if part.live[i] != 0:
            top = larger(top, part.eta[i])
        i += cuda.blockDim.x
    top = team_max(exchange, top, turn, scratch)
    return top if top > -np.inf or top != top else 0.0  # 0: nobody is ever at risk


@device
def risk_weight(part, i, top):
    """w of a row."""
    return part.weight[i] * math.exp(part.eta[i] - top) if part.live[i] != 0 else 0.0


@device
def hazard_of_row(sets, part, i):
    """Cumulative hazard that a row's w meets, without what tied deaths do not carry."""
    k = sets.exit_idx[i]
    hazard = part.hazard[k]
    if sets.enter_idx.shape[0] > 0:
        e = sets.enter_idx[i]
        hazard = (hazard - part.hazard[e]) + (part.rest[k] - part.rest[e])
    if part.held.shape[0] > 0 and part.value[i] > 0.0:
        hazard -= part.held[k]
    return hazard


@device
def _take_expected(exchange, sets, part):
    """u from w: observed minus expected events."""
    low, high = part_of(part.eta.shape[0], exchange)
    i = low + cuda.threadIdx.x
    while i < high:
        expected = part.u[i] * hazard_of_row(sets, part, i) if part.live[i] != 0 else 0.0
        part.u[i] = part.weight[i] * part.value[i] - expected
        i += cuda.blockDim.x


# -- the scan for D, over marks ---------------------------------------------------------------


@device
def mark_at(sets, q):
    """The q-th mark from the last; its row, or the complement of that where the row enters."""
    m = sets.flags.shape[0] - 1 - q
    return m, int64(sets.order[m]) if sets.order.shape[0] > 0 else int64(m)


@device
def cell_of(sets, code):
    return sets.exit_idx[code] if code >= 0 else sets.enter_idx[~code]


@device
def part_of_marks(exchange, n, context):
    """A member's marks, from the last to the first."""
    low, high = part_of(n, exchange)
    return n - high, n - low, exchange.size[0] - 1 - my_team(exchange)[1]


@device
def is_death(part, i):
    return part.live[i] != 0 and part.value[i] > 0.0


@device
def _load_mark(context, q):
    sets, part, top, _ = context
    m, code = mark_at(sets, q)
    if code < 0:
        return -risk_weight(part, ~code, top), 0.0, 0.0, int64(sets.flags[m])
    w = part.u[code]
    is_tied = part.held.shape[0] > 0 and is_death(part, code)
    return w, 0.0, w if is_tied else 0.0, int64(sets.flags[m])


@device
def _weigh_mark(context, q):
    """As `_load_mark`, which reads what is written here: every live row has one exit."""
    sets, part, top, _ = context
    _, code = mark_at(sets, q)
    if code >= 0:
        part.u[code] = risk_weight(part, code, top)
    return _load_mark(context, q)


def _raise_hazard(part, k, risk, tied):
    """Jump of a cell; its term of the log-likelihood, nan if D underflows or loses its digits."""
    log_term, jump, held = 0.0, 0.0, 0.0
    if part.deaths[k] > 0.0:
        log_term = np.nan
        # The largest w is that of a row at the top, 1 times its weight, in whatever stratum.
        if risk > (SMALLEST_SHARE if part.rest.shape[0] > 0 else SMALLEST_RISK):
            log_term, jump, held = jump_formula(risk, tied, part.death_weight[k], part.deaths[k])
    part.jump[k] = jump
    if part.held.shape[0] > 0:
        part.held[k] = held
    return -log_term


def _take_mark(context, q, before, after):
    """Terms of the log-likelihood: a death's own, that of a cell at its first mark."""
    sets, part, top, late = context
    m, code = mark_at(sets, q)
    loglik = 0.0
    if code >= 0 and is_death(part, code):
        loglik = part.weight[code] * (part.eta[code] - top)
    if int64(sets.flags[m]) & FIRST_OF_CELL:
        k = cell_of(sets, code)
        risk = after[0] + after[1] + late_risk(late, part, k)
        loglik += raise_hazard(part, k, risk, after[2])
    return loglik, 0.0


@device
def _no_late_risk(late, part, k):
    return 0.0


def make_risk_scan(jump_formula, late_risk=_no_late_risk):
    """Scan for D and the jumps; ``late_risk(late, part, k)`` is what else is at risk at a cell."""
    raise_hazard = device(bind(_raise_hazard, jump_formula=jump_formula))
    take = device(bind(_take_mark, raise_hazard=raise_hazard, late_risk=late_risk))
    return make_rake(_weigh_mark, take, _load_mark, add_exactly, part_of_marks)


# -- the scan for A, over cells ---------------------------------------------------------------


@device
def _first_cell(sets, m, n_cells):
    """The first cell whose marks begin at a mark or later."""
    if m == sets.flags.shape[0]:
        return int64(n_cells)
    _, code = mark_at(sets, sets.flags.shape[0] - 1 - m)
    return int64(cell_of(sets, code)) + int64(int64(sets.flags[m]) & FIRST_OF_CELL == 0)


@device
def part_of_cells(exchange, n, context):
    """The cells whose first marks a member has, and what lies between them."""
    sets, member = context[0], my_team(exchange)[1]
    low, high = part_of(sets.flags.shape[0], exchange)
    low = _first_cell(sets, low, n) if member > 0 else int64(0)
    return low, _first_cell(sets, high, n), member


@device
def _load_jump(context, k):
    sets, part = context
    jump = part.jump[k] if part.deaths[k] > 0.0 else 0.0
    return jump, 0.0, 0.0, int64(sets.is_first[k])


@device
def _take_hazard(context, k, before, after):
    _, part = context
    if part.rest.shape[0] > 0:  # differences of hazards need both parts
        part.hazard[k] = after[0]
        part.rest[k] = after[1]
    else:
        part.hazard[k] = after[0] + after[1]
    return 0.0, 0.0


scan_hazard = make_rake(_load_jump, _take_hazard, combine=add_exactly, part=part_of_cells)


# -- the evaluation ---------------------------------------------------------------------------


def _evaluate(exchange, sets, rows, cells, eta_of_fits, loglik_of_fits, tops):
    """Log-likelihood and shift of eta per fit; writes u and the cells.  NaN where D underflows."""
    begin()
    scratch, turn = new_scratch(), 0
    team, member = my_team(exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit = exchange.fits[t]
        part = part_of_fit(sets, rows, cells, eta_of_fits, fit)
        top = find_top(exchange, part, turn, scratch)
        context = sets, part, top, 0
        n_marks, n_cells = sets.flags.shape[0], part.jump.shape[0]
        loglik, _ = scan_marks(exchange, n_marks, context, turn + 1, scratch)
        cuda.syncthreads()  # a member scans the jumps that it has found
        scan_cells(exchange, n_cells, (sets, part), turn + 2, scratch)
        loglik = team_sum(exchange, loglik, turn + 3, scratch)
        take_expected(exchange, sets, part)
        turn += 4
        if member == 0 and cuda.threadIdx.x == 0:
            loglik_of_fits[fit] = loglik if math.isfinite(top) else np.nan
            tops[fit] = top
        t += n_teams(exchange)


def make_evaluation(label, find_top, scan_marks, scan_cells, take_expected):
    """Kernel of an evaluation from its phases."""
    phases = {"find_top": find_top, "scan_marks": scan_marks, "scan_cells": scan_cells}
    return specialize(_evaluate, label, **phases, take_expected=take_expected)


@cache
def evaluation(jump_formula):
    """Kernel of the evaluation under a likelihood's `jump_formula`."""
    return make_evaluation(
        jump_formula.__name__,
        largest_predictor,
        make_risk_scan(jump_formula),
        scan_hazard,
        _take_expected,
    )


# -- the quadratic model ----------------------------------------------------------------------


class BinCells(NamedTuple):
    """Where bins lie; 1 / N of fits by weights alone."""

    start: np.ndarray  # int64 per bin: the cell before its first
    end: np.ndarray  # int64 per bin: its last cell
    inverse: np.ndarray  # float64 (1 or fits, bins)


@device
def hazard_at(part, k):
    return part.hazard[k] + part.rest[k] if part.rest.shape[0] > 0 else part.hazard[k]


@device
def keep_row(model, fit, i, h, w):
    """h of a row, and its w where bins need it."""
    model.h[fit, i] = h
    if model.w.shape[1] > 0:
        model.w[fit, i] = w


@device
def refer_bin(part, model, bin_cells, fit, k):
    """A bin's numbers; where bins are many, one a group, there is but one."""
    model.inverse[fit, k] = of_fit(bin_cells.inverse, fit)[k]
    if model.w.shape[1] > 0:
        model.base[fit, k] = hazard_at(part, bin_cells.start[k])
        model.jump[fit, k] = hazard_at(part, bin_cells.end[k]) - model.base[fit, k]


@kernel
def curvature(fits, sets, rows, cells, eta_of_fits, tops, bin_cells, model):
    """h of every row, and the bins' numbers.  As weight*event - u a small h would be lost."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    for t in range(fits.shape[0]):
        fit = fits[t]
        part = part_of_fit(sets, rows, cells, eta_of_fits, fit)
        i = first
        while i < part.eta.shape[0]:
            w = risk_weight(part, i, tops[fit])
            keep_row(model, fit, i, max(w * hazard_of_row(sets, part, i), 0.0), w)
            i += step
        k = first
        while k < model.last.shape[0]:
            refer_bin(part, model, bin_cells, fit, k)
            k += step
        if model.hazard.shape[1] > 0:
            k = first
            while k < part.hazard.shape[0]:
                model.hazard[fit, k] = hazard_at(part, k)
                k += step
