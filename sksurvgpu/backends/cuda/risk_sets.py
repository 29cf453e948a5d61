"""The risk-set pattern on the device: the formulas of `backends.cpu.risk_sets`, one launch.

Sums over risk sets are scans over *marks*, from the last to the first.  A row's exit is a mark
that adds w and its entry one that takes it away again; a mark belongs to a cell, and marks are in
the order of cells.  What is summed up at a cell's first mark is its D.

A team evaluates a fit in phases between barriers: the largest predictor; w of every row; the scan
for D; the jumps of the hazard, a thread a cell; the scan for A; u of every row.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import int64

from ..._compile import bind
from ...data.plans.described import FIRST_OF_CELL, LAST_OF_GROUP
from ..cpu.risk_sets import SMALLEST_RISK
from ._cuda import cuda, device, inlined, kernel, specialize
from .products import of_fit
from .scan import make_scan
from .team import (
    barrier,
    begin,
    larger,
    my_team,
    n_teams,
    new_scratch,
    part_of,
    team_max,
    team_sum,
)


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
    death_ptr: np.ndarray  # int64 per cell + 1: its deaths
    death_row: np.ndarray  # int32
    live: np.ndarray  # uint8 (1 or fits, rows)
    deaths: np.ndarray  # float64 (1 or fits, cells)
    death_weight: np.ndarray  # ... likewise


class Cells(NamedTuple):
    """What an evaluation leaves behind, (fits, cells) each."""

    risk: np.ndarray  # D, where somebody died
    jump: np.ndarray  # a
    hazard: np.ndarray  # A
    rest: np.ndarray  # its low-order part; (1, 0) without delayed entry
    held: np.ndarray  # (1, 0) where the formula has no use for ties


class Part(NamedTuple):
    """All of this for one fit, and its rows."""

    value: np.ndarray
    weight: np.ndarray
    eta: np.ndarray
    u: np.ndarray  # w until the last phase
    live: np.ndarray
    deaths: np.ndarray
    death_weight: np.ndarray
    risk: np.ndarray
    jump: np.ndarray
    hazard: np.ndarray
    rest: np.ndarray
    held: np.ndarray


@inlined
def part_of_fit(sets, rows, cells, eta, fit):
    return Part(
        rows.value,
        of_fit(rows.weight, fit),
        eta[fit],
        rows.u[fit],
        of_fit(sets.live, fit),
        of_fit(sets.deaths, fit),
        of_fit(sets.death_weight, fit),
        cells.risk[fit],
        cells.jump[fit],
        cells.hazard[fit],
        of_fit(cells.rest, fit),
        of_fit(cells.held, fit),
    )


def _largest_term(sets, fit, k):
    """What a cell adds to the log-likelihood where nobody is at risk but its deaths."""
    deaths, d = of_fit(sets.deaths, fit)[k], of_fit(sets.death_weight, fit)[k]
    if not deaths > 0.0:
        return 0.0
    term, _, _ = jump_formula(d, d, d, deaths)  # noqa: F821 (bound)
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
def weigh_rows(exchange, part, top):
    """w of a member's rows into u; the thread's part of the events' log-likelihood."""
    low, high = part_of(part.eta.shape[0], exchange)
    loglik = 0.0
    i = low + cuda.threadIdx.x
    while i < high:
        part.u[i] = risk_weight(part, i, top)
        if part.live[i] != 0 and part.value[i] > 0.0:
            loglik += part.weight[i] * (part.eta[i] - top)
        i += cuda.blockDim.x
    return loglik


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
        expected = part.u[i] * hazard_of_row(sets, part, i)
        part.u[i] = part.weight[i] * part.value[i] - expected
        i += cuda.blockDim.x


# -- marks ------------------------------------------------------------------------------------


@device
def code_of_mark(sets, m):
    """The mark's row, or its complement where the row enters."""
    return int64(sets.order[m]) if sets.order.shape[0] > 0 else int64(m)


@device
def cell_of_mark(sets, m):
    code = code_of_mark(sets, m)
    return sets.exit_idx[code] if code >= 0 else sets.enter_idx[~code]


@device
def _load_mark(context, q):
    sets, part = context
    m = sets.flags.shape[0] - 1 - q
    code = code_of_mark(sets, m)
    w = part.u[code] if code >= 0 else -part.u[~code]
    return w, 0.0, int64(sets.flags[m]) & LAST_OF_GROUP


@device
def _emit_risk(context, q, value, low):
    sets, part = context
    m = sets.flags.shape[0] - 1 - q
    if int64(sets.flags[m]) & FIRST_OF_CELL:
        part.risk[cell_of_mark(sets, m)] = value + low


scan_risk = make_scan(_load_mark, _emit_risk)


# -- cells ------------------------------------------------------------------------------------


@device
def _sum_tied(sets, part, k):
    """Sum of w over the deaths at a cell, where the formula looks at it."""
    total = 0.0
    if sets.death_ptr.shape[0] > 0:
        for q in range(sets.death_ptr[k], sets.death_ptr[k + 1]):
            total += part.u[sets.death_row[q]]
    return total


def _raise_hazard(exchange, sets, part):
    """Jumps of a member's cells; the thread's part of the log-likelihood, nan if D underflows."""
    low, high = part_of(part.jump.shape[0], exchange)
    loglik = 0.0
    k = low + cuda.threadIdx.x
    while k < high:
        log_term, jump, held = 0.0, 0.0, 0.0
        if part.deaths[k] > 0.0:
            log_term = np.nan
            if part.risk[k] > SMALLEST_RISK:
                log_term, jump, held = jump_formula(  # noqa: F821 (bound)
                    part.risk[k], _sum_tied(sets, part, k), part.death_weight[k], part.deaths[k]
                )
        loglik -= log_term
        part.jump[k] = jump
        if part.held.shape[0] > 0:
            part.held[k] = held
        k += cuda.blockDim.x
    return loglik


def raising(jump_formula):
    """`_raise_hazard` under a likelihood's `jump_formula`."""
    return device(bind(_raise_hazard, jump_formula=jump_formula))


@device
def _load_jump(context, k):
    sets, part = context
    return part.jump[k], 0.0, int64(sets.is_first[k])


@device
def _emit_hazard(context, k, value, low):
    _, part = context
    if part.rest.shape[0] > 0:  # differences of hazards need both parts
        part.hazard[k] = value
        part.rest[k] = low
    else:
        part.hazard[k] = value + low


scan_hazard = make_scan(_load_jump, _emit_hazard)


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
        top = largest_predictor(exchange, part, turn, scratch)
        loglik = weigh_rows(exchange, part, top)
        barrier(exchange)
        scan_risk(exchange, sets.flags.shape[0], (sets, part), turn + 1, scratch)
        barrier(exchange)
        loglik += raise_hazard(exchange, sets, part)  # noqa: F821 (bound)
        # no barrier: a thread scans the cells that it has raised
        scan_hazard(exchange, part.jump.shape[0], (sets, part), turn + 2, scratch)
        barrier(exchange)
        _take_expected(exchange, sets, part)
        loglik = team_sum(exchange, loglik, turn + 3, scratch)
        turn += 4
        if member == 0 and cuda.threadIdx.x == 0:
            loglik_of_fits[fit] = loglik if math.isfinite(top) else np.nan
            tops[fit] = top
        t += n_teams(exchange)


@cache
def evaluation(jump_formula):
    """Kernel of the evaluation under a likelihood's `jump_formula`."""
    return specialize(_evaluate, jump_formula.__name__, raise_hazard=raising(jump_formula))


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
def keep_row(bins, rh, fit, i, h, w):
    """h of a row, and its w where bins need it."""
    rh[fit, 2 * i + 1] = h
    if bins.w.shape[1] > 0:
        bins.w[fit, i] = w


@device
def refer_bin(part, bins, bin_cells, fit, k):
    """A bin's numbers; where bins are many, one a group, there is but one."""
    bins.inverse[fit, k] = of_fit(bin_cells.inverse, fit)[k]
    if bins.w.shape[1] > 0:
        bins.base[fit, k] = hazard_at(part, bin_cells.start[k])
        bins.jump[fit, k] = hazard_at(part, bin_cells.end[k]) - bins.base[fit, k]


@kernel
def curvature(fits, sets, rows, cells, eta_of_fits, tops, bin_cells, bins, rh):
    """h of every row, and the bins' numbers.  As weight*event - u a small h would be lost."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    for t in range(fits.shape[0]):
        fit = fits[t]
        part = part_of_fit(sets, rows, cells, eta_of_fits, fit)
        i = first
        while i < part.eta.shape[0]:
            w = risk_weight(part, i, tops[fit])
            keep_row(bins, rh, fit, i, max(w * hazard_of_row(sets, part, i), 0.0), w)
            i += step
        k = first
        while k < bins.last.shape[0]:
            refer_bin(part, bins, bin_cells, fit, k)
            k += step
        if bins.hazard.shape[1] > 0:
            k = first
            while k < part.hazard.shape[0]:
                bins.hazard[fit, k] = hazard_at(part, k)
                k += step
