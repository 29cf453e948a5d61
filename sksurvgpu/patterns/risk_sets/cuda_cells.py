"""The risk-set pattern on the device: the formulas of `cpu_cells`, one launch.

Sums over risk sets are scans over *marks*, from the last to the first.  A row's exit is a mark
that adds w and its entry one that takes it away again; a mark belongs to a cell, and marks are in
the order of cells.  What is summed up at a cell's first mark is its D, and what exits have added
since the cell's last mark, over deaths alone, its T; so its jump of the hazard is known there.

A team evaluates a fit with five barriers: for the largest predictor; in the scan for D, and after
it; in the one for A; and for the log-likelihood, after which rows find their hazards.  Rows that
are carried beyond their exit (`carried`) have scans of their own before the one for D and after the
one for A.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import int64

from ..._compile import BOUND, bind
from ...backends.cuda._cuda import cuda, device, inlined
from ...backends.cuda.pattern import make_evaluation
from ...backends.cuda.products import of_fit
from ...backends.cuda.rake import add_exactly, make_rake
from ...backends.cuda.team import barrier, larger, my_team, part_of, team_max, team_sum
from .cpu_cells import SMALLEST_RISK, SMALLEST_SHARE
from .weigh import FIRST_OF_CELL

jump_formula = late_risk = raise_hazard = load_mark = weigh_row = find_top = BOUND
scan_carried = scan_marks = scan_cells = scan_back = residual = shift_of = BOUND


class RiskSets(NamedTuple):
    """The integers of a risk-set problem, and what weights alone decide.

    What takes no part is empty: entries where every row is at risk from the beginning, the order
    where the rows' exits are the marks, what carried rows need where none are.
    """

    exit_idx: np.ndarray  # int32 per row: cell of its exit
    enter_idx: np.ndarray  # int32 per row
    order: np.ndarray  # int32 per mark: the row that exits, or ~row where it enters
    flags: np.ndarray  # uint8 per mark
    is_first: np.ndarray  # uint8 per cell: whether it is a group's cell 0
    live: np.ndarray  # uint8 (1 or fits, rows)
    deaths: np.ndarray  # float64 (1 or fits, cells)
    death_weight: np.ndarray  # ... likewise
    bin_start: np.ndarray  # int64 per bin: the cell before its first
    bin_end: np.ndarray  # int64 per bin: its last cell
    bin_inverse: np.ndarray  # float64 (1 or fits, bins): 1 / N
    lane_idx: np.ndarray  # int32 per row: lane cell of its exit
    inverse: np.ndarray  # float64 (1 or fits, rows): 1 / G(T_i-), 0 where the row is not carried
    survival: np.ndarray  # float64 (1 or fits, lane cells): G_k


class Cells(NamedTuple):
    """Numbers that an evaluation leaves behind, (fits, cells) each."""

    jump: np.ndarray  # a, where somebody died
    hazard: np.ndarray  # A
    rest: np.ndarray  # its low-order part; (1, 0) without delayed entry
    held: np.ndarray  # (1, 0) where the formula has no use for ties
    carried: np.ndarray  # per carried row: sums of v along the lane, up to the row
    back: np.ndarray  # per lane cell: B


class RiskState(NamedTuple):
    """Arguments of kernels of risk sets; `lanes` are a pattern's own integers, if it has some."""

    sets: RiskSets
    lanes: tuple
    rows: NamedTuple
    cells: Cells
    tops: np.ndarray  # float64 per fit: shift of eta, or inf where the cells hold logarithms


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
    inverse: np.ndarray
    survival: np.ndarray
    carried: np.ndarray
    back: np.ndarray


@inlined
def part_of_fit(state, eta, fit):
    sets, rows, cells = state.sets, state.rows, state.cells
    return RowsOfFit(
        rows.value,
        of_fit(rows.weight, fit),
        eta,
        rows.u[fit],
        of_fit(sets.live, fit),
        of_fit(sets.deaths, fit),
        of_fit(sets.death_weight, fit),
        cells.jump[fit],
        cells.hazard[fit],
        of_fit(cells.rest, fit),
        of_fit(cells.held, fit),
        of_fit(sets.inverse, fit),
        of_fit(sets.survival, fit),
        of_fit(cells.carried, fit),
        of_fit(cells.back, fit),
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
    if part.inverse.shape[0] > 0 and part.inverse[i] > 0.0:
        hazard += part.inverse[i] * part.back[sets.lane_idx[i]]
    if part.held.shape[0] > 0 and part.value[i] > 0.0:
        hazard -= part.held[k]
    return hazard


@device
def _residual(sets, part, i):
    """Observed minus expected events of a row, from w."""
    expected = part.u[i] * hazard_of_row(sets, part, i) if part.live[i] != 0 else 0.0
    return part.weight[i] * part.value[i] - expected


@device
def mark_at(sets, q):
    """The q-th mark from the last; its row, or the complement of that where the row enters."""
    m = sets.flags.shape[0] - 1 - q
    return m, int64(sets.order[m]) if sets.order.shape[0] > 0 else int64(m)


@device
def _part_of_marks(exchange, n, context):
    """A member's marks, from the last to the first."""
    low, high = part_of(n, exchange)
    return n - high, n - low, exchange.size[0] - 1 - my_team(exchange)[1]


@device
def is_death(part, i):
    return part.live[i] != 0 and part.value[i] > 0.0


@device
def _load_mark(context, q):
    sets, _, part, top = context
    m, code = mark_at(sets, q)
    if code < 0:
        return -risk_weight(part, ~code, top), 0.0, 0.0, int64(sets.flags[m])
    w = part.u[code]
    is_tied = part.held.shape[0] > 0 and is_death(part, code)
    return w, 0.0, w if is_tied else 0.0, int64(sets.flags[m])


def _weigh_mark(context, q):
    """As `load_mark`, which reads what is written here: every live row has one exit."""
    sets, _, part, top = context
    _, code = mark_at(sets, q)
    if code >= 0:
        part.u[code] = weigh_row(part, code, top)
    return load_mark(context, q)


def _raise_hazard(lanes, part, k, sums):
    """Jump of a cell; its term of the log-likelihood, nan if D underflows or loses its digits."""
    log_term, jump, held = 0.0, 0.0, 0.0
    risk, tied = sums[0] + sums[1] + late_risk(lanes, part, k), sums[2]
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
    sets, lanes, part, top = context
    m, code = mark_at(sets, q)
    loglik = 0.0
    if code >= 0 and is_death(part, code):
        loglik = part.weight[code] * (part.eta[code] - top)
    if int64(sets.flags[m]) & FIRST_OF_CELL:
        k = sets.exit_idx[code] if code >= 0 else sets.enter_idx[~code]
        loglik += raise_hazard(lanes, part, k, after)
    return loglik, 0.0


def make_mark_scan(load_mark, weigh_row, raise_hazard, combine):
    """Scan for D, which finds the jumps: of sums, or of logarithms."""
    weigh = device(bind(_weigh_mark, load_mark=load_mark, weigh_row=weigh_row))
    take = device(bind(_take_mark, raise_hazard=raise_hazard))
    return make_rake(weigh, take, load_mark, combine, _part_of_marks)


@device
def _no_late_risk(lanes, part, k):
    return 0.0


def make_risk_scan(jump_formula, late_risk=_no_late_risk):
    """Scan for D and the jumps; ``late_risk(lanes, part, k)`` is what else is at risk at a cell."""
    formulas = {"jump_formula": jump_formula, "late_risk": late_risk}
    raise_hazard = device(bind(_raise_hazard, **formulas))
    return make_mark_scan(_load_mark, risk_weight, raise_hazard, add_exactly)


@device
def _load_jump(context, k):
    sets, _, part, _ = context
    jump = part.jump[k] if part.deaths[k] > 0.0 else 0.0
    return jump, 0.0, 0.0, int64(sets.is_first[k])


@device
def _take_hazard(context, k, before, after):
    _, _, part, _ = context
    if part.rest.shape[0] > 0:  # differences of hazards need both parts
        part.hazard[k] = after[0]
        part.rest[k] = after[1]
    else:
        part.hazard[k] = after[0] + after[1]
    return 0.0, 0.0


_scan_hazard = make_rake(_load_jump, _take_hazard, combine=add_exactly)


def _evaluate(exchange, state, fit, eta, turn, scratch):
    """Log-likelihood, nan where D underflows; writes u, the cells and the shift of eta."""
    part = part_of_fit(state, eta, fit)
    top = find_top(exchange, part, turn, scratch)
    context = state.sets, state.lanes, part, top
    n_marks, n_cells = state.sets.flags.shape[0], part.jump.shape[0]
    turn = scan_carried(exchange, context, turn + 1, scratch)
    loglik, _ = scan_marks(exchange, n_marks, context, turn, scratch)
    barrier(exchange)  # jumps of a member's cells may be others'
    scan_cells(exchange, n_cells, context, turn + 1, scratch)
    turn = scan_back(exchange, context, turn + 2, scratch)
    loglik = team_sum(exchange, loglik, turn, scratch)
    low, high = part_of(eta.shape[0], exchange)
    i = low + cuda.threadIdx.x
    while i < high:
        part.u[i] = residual(state.sets, part, i)
        i += cuda.blockDim.x
    if cuda.threadIdx.x == 0:  # of every member: the same
        state.tops[fit] = shift_of(top)
    return loglik if math.isfinite(top) else np.nan, turn + 1


@device
def _as_it_is(top):
    return top


@device
def _scan_nothing(exchange, context, turn, scratch):
    return turn


def make_phases(label, **phases):
    """Kernel of an evaluation from its phases; those of `evaluation` where none is given."""
    given = {
        "find_top": largest_predictor,
        "scan_carried": _scan_nothing,
        "scan_cells": _scan_hazard,
        "scan_back": _scan_nothing,
        "residual": _residual,
        "shift_of": _as_it_is,
    }
    return make_evaluation(label, device(bind(_evaluate, **given | phases)))


@cache
def evaluation(jump_formula):
    """Kernel of the evaluation under a likelihood's `jump_formula`."""
    label = f"risk_sets_{jump_formula.__name__}"
    return make_phases(label, scan_marks=make_risk_scan(jump_formula))
