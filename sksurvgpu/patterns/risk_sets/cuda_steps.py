"""Exact coordinate steps over risk sets on the device: a fused scan a coordinate.

A member of a team keeps, for each cell that its rows exit in, the sums of w, w x and w x^2, and
where the formula looks at ties a second time, over the deaths.  Those of w are kept up to date.
Those of a column are put together from its entries, which are in the order of cells; scanned
from the last cell on; turned into slope and curvature (a formula of the likelihood) and cleared on
the way.  A column of ones needs no w x^2: it is w x.

Two barriers a column: one before a member knows what later members' rows bring to its cells, and
one that adds up slope and curvature.  A cell whose rows are several members' is taken by the one
that has its first row, and all of its deaths (`layout` cuts the rows so that it does).  No sum
depends on the order of threads.  What enters late, or has copies, is not in the order of its cells,
and has no exact steps here.
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import float64, int64, uint64

from ..._compile import BOUND, bind
from ...backends.cuda._cuda import cuda, device
from ...backends.cuda.columns import Span, entries, entry, my_tiles
from ...backends.cuda.exact import Functions, Steps
from ...backends.cuda.rake import make_rake
from ...backends.cuda.runs import make_runs
from ...backends.cuda.team import my_team, team_sums
from ...data.design.columns import INDICATOR
from .cuda_cells import largest_predictor, part_of_fit

place = uses_ties = coordinate_formula = context = move_rows = weigh_entries = rake_cells = BOUND


class RiskSteps(NamedTuple):
    """State of exact steps; w of every row stands in ``rows.u``, which is not in use meanwhile."""

    sets: object
    rows: object
    cells: object
    eta: np.ndarray  # float64 (fits, rows)
    moments: np.ndarray  # float64 (fits, numbers): those of a member's cells, or of all cells
    width: int  # of w, w x and w x^2 those that a cell has: 2 where all columns are of ones
    numbers: int  # that a cell has in all


class MemberRows(NamedTuple):
    """Rows of a member, and the cells that these exit in."""

    low: int
    high: int
    first: int  # cell
    count: int
    at: int  # where their numbers stand, if not in shared memory
    is_begun: int  # whether the first cell has rows of an earlier member
    goes_on: int  # whether the last one has rows of a later member


class Context(NamedTuple):
    """Rows and cells as rakes see them.

    A position is an entry of a column, a row or, from the last on, a cell.
    """

    state: RiskSteps
    part: object
    fit: int
    X: object
    span: Span
    own: MemberRows
    moments: np.ndarray
    at: int
    step: float
    half: int  # 1: the second sums, over the deaths


ROWS = -1  # kind of a span whose positions are the rows themselves


# -- where a member's numbers are --------------------------------------------------------------


@device
def _in_shared(state, fit, at):
    return cuda.shared.array(0, float64), int64(0)


@device
def _in_global(state, fit, at):
    return state.moments[fit], int64(at)


@device
def _place_of(context, m, k):
    """Of number m of a cell; those of the deaths follow those of all rows."""
    own = context.own
    return uint64(context.at + m * own.count + k - own.first)


@device
def _second_of(span):
    """Which of a cell's numbers is w x^2; w x is, in a column of ones."""
    return 1 if span.kind == INDICATOR else 2


@device
def _own_cells(exchange, X, state):
    tiles, exits = my_tiles(X, exchange), state.sets.exit_idx
    low, high, member = X.cut[tiles[0]], X.cut[tiles[1]], my_team(exchange)[1]
    if low == high:
        return MemberRows(low, high, int64(0), int64(0), int64(0), int64(0), int64(0))
    first, last = int64(exits[low]), int64(exits[high - 1])
    return MemberRows(
        low,
        high,
        first,
        last + 1 - first,
        state.numbers * (first + member),  # neighbours may have a cell in common
        int64(low > 0 and exits[low - 1] == first),
        int64(high < exits.shape[0] and exits[high] == last),
    )


@device
def _read_own(own):
    return MemberRows(own[0], own[1], own[2], own[3], own[4], own[5], own[6])


def _context_of(X, fit, state, span, own, step, half):
    part = part_of_fit(state.sets, state.rows, state.cells, state.eta, fit)
    moments, at = place(state, fit, own.at)
    return Context(state, part, int64(fit), X, span, own, moments, at, step, half)


@device
def _weigh(part, i):
    """w of a row, eta being shifted already."""
    return part.weight[i] * math.exp(part.eta[i]) if part.live[i] != 0 else 0.0


# -- by cell: runs of neighbouring entries -----------------------------------------------------


@device
def _row_of(context, q):
    span = context.span
    return int64(q) if span.kind == ROWS else entry(context.X, q, span)[0]


@device
def _cell_of(context, q):
    return int64(context.state.sets.exit_idx[uint64(_row_of(context, q))])


def _move_row(context, q):
    """New predictor and w of a row; how far w has moved."""
    part, span = context.part, context.span
    i, x = int64(q), 1.0
    if span.kind != ROWS:
        i, x = entry(context.X, q, span)
    i = uint64(i)
    part.eta[i] += x * context.step
    w = _weigh(part, i)
    change, part.u[i] = w - part.u[i], w
    return change, change if uses_ties() and part.value[i] > 0.0 else 0.0


def _keep_change(context, k, first, second):
    context.moments[_place_of(context, 0, k)] += first
    if uses_ties():
        context.moments[_place_of(context, context.state.width, k)] += second
    return 0.0, 0.0


def _weigh_entry(context, q):
    part = context.part
    i, x = entry(context.X, q, context.span)
    i = uint64(i)
    first = part.u[i] * x
    if uses_ties() and context.half != 0 and not part.value[i] > 0.0:
        first = 0.0
    return first, first * x


@device
def _keep_sums(context, k, first, second):
    """A cell's entries may lie in several tiles, which come after each other."""
    m = context.state.width * context.half
    context.moments[_place_of(context, m + 1, k)] += first
    if context.span.kind != INDICATOR:
        context.moments[_place_of(context, m + 2, k)] += second
    return 0.0, 0.0


# -- over cells --------------------------------------------------------------------------------


@device
def _cells_from_the_last(exchange, n, context):
    return int64(0), context.own.count, exchange.size[0] - 1 - my_team(exchange)[1]


@device
def _load_cell(context, q):
    """Cells from the last to the first; a segment begins at the last cell of a group."""
    own, moments, is_first = context.own, context.moments, context.state.sets.is_first
    k = own.first + own.count - 1 - q
    is_last = k + 1 == is_first.shape[0] or is_first[uint64(k + 1)] != 0
    begins = int64(is_last and (q > 0 or own.goes_on == 0))
    first = moments[_place_of(context, 1, k)]
    second = moments[_place_of(context, _second_of(context.span), k)]
    return moments[_place_of(context, 0, k)], first, second, begins


@device
def _second_sums(context, k):
    moments, width = context.moments, context.state.width
    return (
        moments[_place_of(context, width, k)],
        moments[_place_of(context, width + 1, k)],
        moments[_place_of(context, width + _second_of(context.span), k)],
    )


def _take_cell(context, q, before, after):
    """Slope (without the events' part) and curvature of a cell; clears the column's sums."""
    own, part, moments, width = context.own, context.part, context.moments, context.state.width
    k, slope, curvature = own.first + own.count - 1 - q, 0.0, 0.0
    if part.deaths[uint64(k)] > 0.0 and (k > own.first or own.is_begun == 0):
        tied = 0.0, 0.0, 0.0
        if uses_ties():
            tied = _second_sums(context, k)
        slope, curvature = coordinate_formula(
            after[0],
            after[1],
            after[2],
            tied[0],
            tied[1],
            tied[2],
            part.death_weight[uint64(k)],
            part.deaths[uint64(k)],
        )
    for m in range(1, width):
        moments[_place_of(context, m, k)] = 0.0
        if uses_ties():
            moments[_place_of(context, width + m, k)] = 0.0
    return -slope, curvature


# -- the steps ---------------------------------------------------------------------------------


def _start(exchange, X, fit, state, kept, turn, scratch):
    """w of a member's rows, on the scale of the largest of the fit, and its sums."""
    own = _own_cells(exchange, X, state)
    if cuda.threadIdx.x == 0:
        kept[0], kept[1], kept[2], kept[3] = own.low, own.high, own.first, own.count
        kept[4], kept[5], kept[6] = own.at, own.is_begun, own.goes_on
    span = Span(own.low, own.high, int64(ROWS), int64(0), own.low)
    seen = context(X, fit, state, span, own, 0.0, 0)
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
    seen = context(X, fit, state, span, own, -top, 0)
    move_rows(own.low, own.high, seen)
    return turn + 1


def _derivatives(exchange, X, j, t, state, own, turn, scratch):
    fit, (tile, end) = exchange.fits[t], my_tiles(X, exchange)
    while tile < end:
        half, span = 0, entries(X, j, tile)
        while half < (2 if uses_ties() else 1):
            seen = context(X, fit, state, span, _read_own(own), 0.0, half)
            weigh_entries(span.low, span.high, seen)
            half += cuda.blockDim.y  # 1; unrolled, registers spill
        cuda.syncthreads()
        tile += cuda.blockDim.y
    span = entries(X, j, end - 1)
    seen = context(X, exchange.fits[t], state, span, _read_own(own), 0.0, 0)
    slope, curvature = rake_cells(exchange, 0, seen, turn, scratch)
    slope, curvature = team_sums(exchange, slope, curvature, turn + 1, scratch)
    return slope, curvature, turn + 2


def _advance(exchange, X, j, t, step, state, own):
    """New predictor and w of the column's rows, and the change in the sums."""
    tile, end = my_tiles(X, exchange)
    while tile < end:
        span = entries(X, j, tile)
        seen = context(X, exchange.fits[t], state, span, _read_own(own), step, 0)
        move_rows(span.low, span.high, seen)
        cuda.syncthreads()  # a cell may go on in the next tile
        tile += cuda.blockDim.y


@device
def _yes():
    return True


@device
def _no():
    return False


@cache
def _functions_of(formula, uses_ties, place):
    ties = {"uses_ties": _yes if uses_ties else _no}

    def bound(function, **names):
        return device(bind(function, **ties, **names))

    take = bound(_take_cell, coordinate_formula=formula)
    names = {
        "context": device(bind(_context_of, place=place)),
        "move_rows": make_runs(_cell_of, bound(_move_row), bound(_keep_change)),
        "weigh_entries": make_runs(_cell_of, bound(_weigh_entry), _keep_sums),
        "rake_cells": make_rake(_load_cell, take, part=_cells_from_the_last),
    }
    return Functions(*(bound(f, **names) for f in (_start, _derivatives, _advance)))


def steps_of(formula, state, most_cells):
    """Exact steps under a likelihood's `coordinate_formula`.

    ``most_cells(size)`` are those of a member of a team, at most.
    """
    uses_ties = state.cells.held.shape[1] > 0
    far, near = (_functions_of(formula, uses_ties, place) for place in (_in_global, _in_shared))
    bytes_of = lambda size: 8 * state.numbers * most_cells(size)  # noqa: E731
    return Steps(formula.__name__, state, far, near, bytes_of)
