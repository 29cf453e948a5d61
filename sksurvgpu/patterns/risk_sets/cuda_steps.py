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
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numba import int64, uint64

from ..._compile import BOUND, bind
from ...backends.cuda._cuda import cuda, device, inlined, specialize
from ...backends.cuda.columns import Span, entries, entry, my_tiles
from ...backends.cuda.exact import Steps
from ...backends.cuda.rake import make_rake
from ...backends.cuda.runs import make_runs
from ...backends.cuda.team import begin, my_team, n_teams, new_scratch, team_sums
from ...data.design.columns import INDICATOR
from .cuda_cells import largest_predictor, part_of_fit

coordinate_formula = rake_cells = derivatives = minimum = BOUND


class RiskSteps(NamedTuple):
    """State of exact steps; w of every row stands in ``rows.u``, which is not in use meanwhile."""

    risk: object  # `cuda_cells.RiskState`
    eta: np.ndarray  # float64 (fits, rows)
    moments: np.ndarray  # float64 (fits, numbers of a cell, cells and a place for every range)
    width: int  # of w, w x and w x^2 those that a cell has: 2 where all columns are of ones


class MemberRows(NamedTuple):
    """Rows of a member, and the cells that these exit in."""

    low: int
    high: int
    first: int  # cell
    count: int
    member: int  # places before the cell's own: neighbours may have a cell in common
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
    step: float
    half: int  # 1: the second sums, over the deaths


ROWS = -1  # kind of a span whose positions are the rows themselves


@device
def _place_of(context, k):
    """Of a cell's numbers; those of the deaths follow those of all rows."""
    return uint64(k + context.own.member)


@device
def _uses_ties(context):
    """Whether the formula looks at ties a second time."""
    return context.part.held.shape[0] > 0


@device
def _second_of(span):
    """Which of a cell's numbers is w x^2; w x is, in a column of ones."""
    return 1 if span.kind == INDICATOR else 2


@device
def _own_cells(exchange, X, state):
    tiles, exits = my_tiles(X, exchange), state.risk.sets.exit_idx
    low, high, member = X.cut[tiles[0]], X.cut[tiles[1]], my_team(exchange)[1]
    if low == high:
        return MemberRows(low, high, int64(0), int64(0), int64(0), int64(0), int64(0))
    first, last = int64(exits[low]), int64(exits[high - 1])
    return MemberRows(
        low,
        high,
        first,
        last + 1 - first,
        member,
        int64(low > 0 and exits[low - 1] == first),
        int64(high < exits.shape[0] and exits[high] == last),
    )


@inlined
def _new_own():
    """Shared memory for what `_start` finds, so that registers do not hold it all the while."""
    return cuda.shared.array(8, int64)


@device
def _read_own(own):
    return MemberRows(own[0], own[1], own[2], own[3], own[4], own[5], own[6])


@inlined
def _context_of(X, fit, state, span, own, step, half):
    part = part_of_fit(state.risk, state.eta[fit], fit)
    return Context(state, part, int64(fit), X, span, own, state.moments[fit], step, half)


@device
def _weigh(part, i):
    """w of a row, eta being shifted already."""
    return part.weight[i] * math.exp(part.eta[i]) if part.live[i] != 0 else 0.0


@device
def _row_of(context, q):
    span = context.span
    return int64(q) if span.kind == ROWS else entry(context.X, q, span)[0]


@device
def _cell_of(context, q):
    return int64(context.state.risk.sets.exit_idx[uint64(_row_of(context, q))])


@device
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
    return change, change if _uses_ties(context) and part.value[i] > 0.0 else 0.0


@device
def _keep_change(context, k, first, second):
    context.moments[0, _place_of(context, k)] += first
    if _uses_ties(context):
        context.moments[context.state.width, _place_of(context, k)] += second
    return 0.0, 0.0


@device
def _weigh_entry(context, q):
    part = context.part
    i, x = entry(context.X, q, context.span)
    i = uint64(i)
    first = part.u[i] * x
    if context.half != 0 and not part.value[i] > 0.0:
        first = 0.0
    return first, first * x


@device
def _keep_sums(context, k, first, second):
    """A cell's entries may lie in several tiles, which come after each other."""
    m = context.state.width * context.half
    context.moments[m + 1, _place_of(context, k)] += first
    if context.span.kind != INDICATOR:
        context.moments[m + 2, _place_of(context, k)] += second
    return 0.0, 0.0


@device
def _cells_from_the_last(exchange, n, context):
    return int64(0), context.own.count, exchange.size[0] - 1 - my_team(exchange)[1]


@device
def _load_cell(context, q):
    """Cells from the last to the first; a segment begins at the last cell of a group."""
    own, moments, is_first = context.own, context.moments, context.state.risk.sets.is_first
    k = own.first + own.count - 1 - q
    is_last = k + 1 == is_first.shape[0] or is_first[uint64(k + 1)] != 0
    begins = int64(is_last and (q > 0 or own.goes_on == 0))
    at, second = _place_of(context, k), _second_of(context.span)
    return moments[0, at], moments[1, at], moments[second, at], begins


@device
def _second_sums(context, k):
    moments, width, at = context.moments, context.state.width, _place_of(context, k)
    return moments[width, at], moments[width + 1, at], moments[width + _second_of(context.span), at]


def _take_cell(context, q, before, after):
    """Slope (without the events' part) and curvature of a cell; clears the column's sums."""
    own, part, moments, width = context.own, context.part, context.moments, context.state.width
    k, slope, curvature = own.first + own.count - 1 - q, 0.0, 0.0
    if part.deaths[uint64(k)] > 0.0 and (k > own.first or own.is_begun == 0):
        tied = 0.0, 0.0, 0.0
        if _uses_ties(context):
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
        moments[m, _place_of(context, k)] = 0.0
        if _uses_ties(context):
            moments[width + m, _place_of(context, k)] = 0.0
    return -slope, curvature


_move_rows = make_runs(_cell_of, _move_row, _keep_change)
_weigh_entries = make_runs(_cell_of, _weigh_entry, _keep_sums)


@device
def _start(exchange, X, fit, state, kept, turn, scratch):
    """w of a member's rows, on the scale of the largest of the fit, and its sums."""
    own = _own_cells(exchange, X, state)
    if cuda.threadIdx.x == 0:
        kept[0], kept[1], kept[2], kept[3] = own.low, own.high, own.first, own.count
        kept[4], kept[5], kept[6] = own.member, own.is_begun, own.goes_on
    span = Span(own.low, own.high, int64(ROWS), int64(0), own.low)
    seen = _context_of(X, fit, state, span, own, 0.0, 0)
    top = largest_predictor(exchange, seen.part, turn, scratch)
    k = cuda.threadIdx.x
    while k < own.count:
        for m in range(seen.moments.shape[0]):
            seen.moments[m, _place_of(seen, own.first + k)] = 0.0
        k += cuda.blockDim.x
    i = own.low + cuda.threadIdx.x
    while i < own.high:
        seen.part.u[uint64(i)] = 0.0
        i += cuda.blockDim.x
    cuda.syncthreads()
    seen = _context_of(X, fit, state, span, own, -top, 0)
    _move_rows(own.low, own.high, seen)
    return turn + 1


def _derivatives(exchange, X, j, t, state, own, turn, scratch):
    """Slope and curvature of a column: the team's, the same bits in every thread.

    The number of the t-th fit served is read anew after each barrier, here and elsewhere: arrays
    of the fit are then found anew, and not kept in registers all the while.
    """
    fit, (tile, end) = exchange.fits[t], my_tiles(X, exchange)
    n_halves = 2 if state.risk.cells.held.shape[1] > 0 else 1
    while tile < end:
        half, span = 0, entries(X, j, tile)
        while half < n_halves:
            seen = _context_of(X, fit, state, span, _read_own(own), 0.0, half)
            _weigh_entries(span.low, span.high, seen)
            half += cuda.blockDim.y  # 1; unrolled, registers spill
        cuda.syncthreads()
        tile += cuda.blockDim.y
    span = entries(X, j, end - 1)
    seen = _context_of(X, exchange.fits[t], state, span, _read_own(own), 0.0, 0)
    slope, curvature = rake_cells(exchange, 0, seen, turn, scratch)
    slope, curvature = team_sums(exchange, slope, curvature, turn + 1, scratch)
    return slope, curvature, turn + 2


@device
def _advance(exchange, X, j, t, step, state, own):
    """New predictor and w of the column's rows, and the change in the sums."""
    tile, end = my_tiles(X, exchange)
    while tile < end:
        span = entries(X, j, tile)
        seen = _context_of(X, exchange.fits[t], state, span, _read_own(own), step, 0)
        _move_rows(span.low, span.high, seen)
        cuda.syncthreads()  # a cell may go on in the next tile
        tile += cuda.blockDim.y


@device
def _clip(step, reach):
    """A step that is no longer than `reach`; nan stays, which a device's `max` would lose."""
    if step > reach:
        return reach
    return -reach if step < -reach else step


def _cycle(exchange, X, work, state):
    """Step every column of every fit served once; writes ``work.coef`` and ``work.reach``.

    Every block computes the same step, and moves what belongs to its own rows.  All have read a
    column's coefficient before they meet, and the first member writes the new one after it.
    """
    begin()
    scratch, mine, turn = new_scratch(), _new_own(), 0
    team, member = my_team(exchange)
    t = team
    while t < exchange.fits.shape[0]:
        turn = _start(exchange, X, exchange.fits[t], state, mine, turn, scratch)
        for at in range(work.ptr[t], work.ptr[t + 1]):
            j, coef, reach = work.column[uint64(at)], work.coef[uint64(at)], work.reach[uint64(at)]
            slope, curvature, turn = derivatives(exchange, X, j, t, state, mine, turn, scratch)
            if not curvature > 0.0:
                continue
            z = coef * curvature + (work.events_slope[at] + slope)
            new = minimum(z, curvature, work.penalty, at)
            step = _clip(new - coef, reach)
            if member == 0 and cuda.threadIdx.x == 0:
                work.reach[at] = max(2.0 * abs(step), 0.5 * reach)
                # a step that was not cut short lands on `new` itself, so that zeros are exact
                work.coef[at] = new if abs(new - coef) <= abs(step) else coef + step
            if step != 0.0:
                _advance(exchange, X, work.column[at], t, step, state, mine)
            cuda.syncthreads()
        t += n_teams(exchange)


@cache
def _make_cycle(formula, minimum):
    """Kernel of one cycle under a likelihood's `coordinate_formula` and a penalty's `minimum`."""
    take = device(bind(_take_cell, coordinate_formula=formula))
    rake = make_rake(_load_cell, take, part=_cells_from_the_last)
    derivatives = device(bind(_derivatives, rake_cells=rake))
    label = f"{formula.__name__}_{minimum.__name__}"
    return specialize(_cycle, label, derivatives=derivatives, minimum=minimum)


def steps_of(formula, state):
    """Exact steps under a likelihood's `coordinate_formula`."""
    return Steps(partial(_make_cycle, formula), state)
