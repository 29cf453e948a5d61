"""Exact coordinate steps over risk sets on the device: a fused scan a coordinate.

A member of a team keeps, for each cell that its rows exit in, the sums of w, w x and w x^2, and
where the formula looks at ties a second time, over the deaths.  Those of w are kept up to date.
Those of a column are put together from its entries, which are in the order of cells; scanned
from the last cell on; turned into slope and curvature (a formula of the likelihood) and cleared on
the way.  A column of ones needs no w x^2: it is w x.

Two barriers a column: one before a member knows what later members' rows bring to its cells, and
one that adds up slope and curvature.  A cell whose rows are several members' is taken by the one
that has its first row, and all of its deaths (`layout` cuts the rows so that it does).  No sum
depends on the order of threads.  What enters late, or has copies, is not in the order of its cells:
such sums are the team's (`shared_steps`).
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numba import float64, int64, uint64

from ..._compile import bind
from ...data.design.columns import INDICATOR
from ._cuda import cuda, device
from .columns import Span, entry, my_ranges
from .exact import Functions, Steps
from .rake import make_rake
from .risk_sets import largest_predictor, part_of_fit
from .runs import make_runs
from .team import my_team, team_sums


class RiskSteps(NamedTuple):
    """State of exact steps; w of every row stands in ``rows.u``, which is not in use meanwhile."""

    sets: object
    rows: object
    cells: object
    eta: np.ndarray  # float64 (fits, rows)
    carry: object  # that of rows which are carried on, else 0
    moments: np.ndarray  # float64 (fits, numbers): those of a member's cells, or of all cells
    width: int  # of w, w x and w x^2 those that a cell has: 2 where all columns are of ones
    numbers: int  # that a cell has in all


class Own(NamedTuple):
    """Rows of a member, and the cells that these exit in."""

    low: int
    high: int
    first: int  # cell
    count: int
    at: int  # where their numbers stand, if not in shared memory
    is_begun: int  # whether the first cell has rows of an earlier member
    goes_on: int  # whether the last one has rows of a later member


class Context(NamedTuple):
    """What rakes see; a position is an entry of a column, a row or, from the last on, a cell."""

    state: RiskSteps
    part: object
    fit: int
    X: object
    span: Span
    own: Own
    moments: np.ndarray
    at: int
    step: float
    half: int  # 1: the second sums, of w times the pattern's factor


ROWS = -1  # kind of a span whose positions are the rows themselves


# -- where a member's numbers are --------------------------------------------------------------


@device
def _in_shared(state, fit, at):
    return cuda.shared.array(0, float64), int64(0)


@device
def in_global(state, fit, at):
    return state.moments[fit], int64(at)


@device
def place_of(context, m, k):
    """Of number m of a cell; those of the deaths follow those of all rows."""
    own = context.own
    return uint64(context.at + m * own.count + k - own.first)


@device
def second_of(span):
    """Which of a cell's numbers is w x^2; w x is, in a column of ones."""
    return 1 if span.kind == INDICATOR else 2


@device
def _own_cells(exchange, X, state):
    ranges, exits = my_ranges(X, exchange), state.sets.exit_idx
    low, high = X.cut[ranges[0]], X.cut[ranges[1]]
    if low == high:
        return Own(low, high, int64(0), int64(0), int64(0), int64(0), int64(0))
    first, last = int64(exits[low]), int64(exits[high - 1])
    return Own(
        low,
        high,
        first,
        last + 1 - first,
        state.numbers * (first + ranges[0]),  # neighbours may have a cell in common
        int64(low > 0 and exits[low - 1] == first),
        int64(high < exits.shape[0] and exits[high] == last),
    )


@device
def _read_own(own):
    return Own(own[0], own[1], own[2], own[3], own[4], own[5], own[6])


def context_of(X, fit, state, span, own, step, half):
    part = part_of_fit(state.sets, state.rows, state.cells, state.eta, fit)
    moments, at = place(state, fit, own.at)  # noqa: F821 (bound)
    return Context(state, part, int64(fit), X, span, own, moments, at, step, half)


@device
def weigh(part, i):
    """w of a row, eta being shifted already."""
    return part.weight[i] * math.exp(part.eta[i]) if part.live[i] != 0 else 0.0


# -- by cell: runs of neighbouring entries -----------------------------------------------------


@device
def _row_of(context, q):
    span = context.span
    return int64(q) if span.kind == ROWS else entry(context.X, q, span.kind, span.base)[0]


@device
def _cell_of(context, q):
    return int64(context.state.sets.exit_idx[uint64(_row_of(context, q))])


def _move_row(context, q):
    """New predictor and w of a row; how far w has moved."""
    part, span = context.part, context.span
    i, x = int64(q), 1.0
    if span.kind != ROWS:
        i, x = entry(context.X, q, span.kind, span.base)
    i = uint64(i)
    part.eta[i] += x * context.step
    w = weigh(part, i)
    change, part.u[i] = w - part.u[i], w
    return change, change * factor(context, i)  # noqa: F821 (bound)


def _keep_change(context, k, first, second):
    context.moments[place_of(context, 0, k)] += first
    if has_factor():  # noqa: F821 (bound)
        context.moments[place_of(context, context.state.width, k)] += second
    return 0.0, 0.0


def _weigh_entry(context, q):
    part, span = context.part, context.span
    i, x = entry(context.X, q, span.kind, span.base)
    i = uint64(i)
    first = part.u[i] * x
    if context.half != 0:
        first *= factor(context, i)  # noqa: F821 (bound)
    return first, first * x


@device
def _keep_sums(context, k, first, second):
    m = context.state.width * context.half
    context.moments[place_of(context, m + 1, k)] = first
    context.moments[place_of(context, m + second_of(context.span), k)] = second
    return 0.0, 0.0


# -- over cells --------------------------------------------------------------------------------


@device
def _cells_from_the_last(exchange, n, context):
    return int64(0), context.own.count, exchange.size[0] - 1 - my_team(exchange)[1]


@device
def load_cell(context, q):
    """Cells from the last to the first; a segment begins at the last cell of a group."""
    own, moments, is_first = context.own, context.moments, context.state.sets.is_first
    k = own.first + own.count - 1 - q
    is_last = k + 1 == is_first.shape[0] or is_first[uint64(k + 1)] != 0
    begins = int64(is_last and (q > 0 or own.goes_on == 0))
    first = moments[place_of(context, 1, k)]
    second = moments[place_of(context, second_of(context.span), k)]
    return moments[place_of(context, 0, k)], first, second, begins


@device
def second_sums(context, k):
    moments, width = context.moments, context.state.width
    return (
        moments[place_of(context, width, k)],
        moments[place_of(context, width + 1, k)],
        moments[place_of(context, width + second_of(context.span), k)],
    )


def take_cell(context, q, before, after):
    """Slope (without the events' part) and curvature of a cell; clears the column's sums."""
    own, part, moments, width = context.own, context.part, context.moments, context.state.width
    k, slope, curvature = own.first + own.count - 1 - q, 0.0, 0.0
    if part.deaths[uint64(k)] > 0.0 and (k > own.first or own.is_begun == 0):
        tied = 0.0, 0.0, 0.0
        if has_factor():  # noqa: F821 (bound)
            tied = second_sums(context, k)
        slope, curvature = coordinate_formula(  # noqa: F821 (bound)
            after[0],
            after[1],
            after[2],
            *tied,
            part.death_weight[uint64(k)],
            part.deaths[uint64(k)],
        )
    for m in range(1, width):
        moments[place_of(context, m, k)] = 0.0
        if has_factor():  # noqa: F821 (bound)
            moments[place_of(context, width + m, k)] = 0.0
    return -slope, curvature


# -- the steps ---------------------------------------------------------------------------------


def _start(exchange, X, fit, state, kept, turn, scratch):
    """w of a member's rows, on the scale of the largest of the fit, and its sums."""
    own = _own_cells(exchange, X, state)
    if cuda.threadIdx.x == 0:
        kept[0], kept[1], kept[2], kept[3] = own.low, own.high, own.first, own.count
        kept[4], kept[5], kept[6] = own.at, own.is_begun, own.goes_on
    span = Span(int64(0), own.low, own.high, int64(ROWS), int64(0))
    seen = context(X, fit, state, span, own, 0.0, 0)  # noqa: F821 (bound)
    top = largest_predictor(exchange, seen.part, turn, scratch)
    k = cuda.threadIdx.x
    while k < state.numbers * own.count:
        seen.moments[uint64(seen.at + k)] = 0.0
        k += cuda.blockDim.x
    i = own.low + cuda.threadIdx.x
    while i < own.high:
        seen.part.u[uint64(i)] = 0.0
        i += cuda.blockDim.x
    cuda.syncthreads()
    seen = context(X, fit, state, span, own, -top, 0)  # noqa: F821
    move_rows(own.low, own.high, seen)  # noqa: F821
    return turn + 1


def _derivatives(exchange, X, span, t, state, own, turn, scratch):
    fit = exchange.fits[t]
    seen, half = context(X, fit, state, span, _read_own(own), 0.0, 0), 0  # noqa: F821 (bound)
    while half < (2 if has_factor() else 1):  # noqa: F821
        seen = context(X, fit, state, span, _read_own(own), 0.0, half)  # noqa: F821
        weigh_entries(span.low, span.high, seen)  # noqa: F821
        half += cuda.blockDim.y  # 1; unrolled, registers spill
    cuda.syncthreads()
    seen = context(X, exchange.fits[t], state, span, _read_own(own), 0.0, 0)  # noqa: F821
    turn = carry_on(exchange, seen, turn, scratch)  # noqa: F821
    slope, curvature = rake_cells(exchange, 0, seen, turn, scratch)  # noqa: F821
    slope, curvature = team_sums(exchange, slope, curvature, turn + 1, scratch)
    return slope, curvature, 0.0, turn + 2


def _advance(exchange, X, span, t, move, state, own, scratch):
    """New predictor and w of the column's rows, and the change in the sums."""
    step, _, turn = move
    seen = context(X, exchange.fits[t], state, span, _read_own(own), step, 0)  # noqa: F821 (bound)
    move_rows(span.low, span.high, seen)  # noqa: F821
    return turn


@device
def _of_deaths(context, i):
    return 1.0 if context.part.value[i] > 0.0 else 0.0


@device
def _no_factor(context, i):
    return 0.0


@device
def nothing_is_carried(exchange, context, turn, scratch):
    return turn


@device
def yes():
    return True


@device
def no():
    return False


def functions_of(place, factor, has_factor, take, carry_on=nothing_is_carried):
    """Steps whose members own their cells, with the rake over these that calls `take`."""
    factors = {"factor": factor, "has_factor": has_factor}

    def bound(function, **names):
        return device(bind(function, **factors, **names))

    names = {
        "context": device(bind(context_of, place=place)),
        "carry_on": carry_on,
        "move_rows": make_runs(_cell_of, bound(_move_row), bound(_keep_change)),
        "weigh_entries": make_runs(_cell_of, bound(_weigh_entry), _keep_sums),
        "rake_cells": make_rake(load_cell, take, part=_cells_from_the_last),
    }
    return Functions(*(bound(f, **names) for f in (_start, _derivatives, _advance)))


@cache
def _functions_of(formula, uses_ties, place):
    factors = (_of_deaths, yes) if uses_ties else (_no_factor, no)
    take = bind(take_cell, coordinate_formula=formula, has_factor=factors[1])
    return functions_of(place, *factors, device(take))


def place_steps(label, functions, state, most_cells):
    """Steps by ``functions(place)``; ``most_cells(size)``: of a member of a team, at most."""
    far, near = map(functions, (in_global, _in_shared))
    return Steps(label, state, far, near, lambda size: 8 * state.numbers * most_cells(size))


def steps_of(formula, state, most_cells):
    """Exact steps under a likelihood's `coordinate_formula`."""
    uses_ties = state.cells.held.shape[1] > 0
    functions = partial(_functions_of, formula, uses_ties)
    return place_steps(formula.__name__, functions, state, most_cells)
