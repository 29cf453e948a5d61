"""Exact coordinate steps over risk sets on the device: a fused scan a coordinate.

A member of a team keeps, for each cell that its rows exit in, the sums of w, w x and w x^2, and
where the formula looks at ties the same over the deaths.  The first of each three are kept up to
date.  Those of a column are put together from its entries, which are in the order of cells; scanned
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
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import float64, int64

from ..._compile import bind
from ...data.design.columns import INDICATOR
from ._cuda import cuda, device
from .columns import Span, entry, my_ranges
from .exact import Functions, Steps
from .rake import make_rake
from .risk_sets import largest_predictor, part_of_fit
from .team import my_team, team_sums


class RiskSteps(NamedTuple):
    """State of exact steps; w of every row stands in ``rows.u``, which is not in use meanwhile."""

    sets: object
    rows: object
    cells: object
    eta: np.ndarray  # float64 (fits, rows)
    moments: np.ndarray  # float64 (fits, numbers): those of a member's cells, or of all cells
    width: int  # of w, w x and w x^2 those that a cell has: 2 where all columns are of ones


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

    sets: object
    part: object
    X: object
    span: Span
    own: Own
    moments: np.ndarray
    at: int
    width: int
    step: float
    is_tied: int  # 1: sums over the deaths


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
    return context.at + m * own.count + k - own.first


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
    numbers = state.width * (2 if state.cells.held.shape[1] > 0 else 1)
    return Own(
        low,
        high,
        first,
        last + 1 - first,
        numbers * (first + ranges[0]),  # neighbours may have a cell in common
        int64(low > 0 and exits[low - 1] == first),
        int64(high < exits.shape[0] and exits[high] == last),
    )


def context_of(X, fit, state, span, own, step, is_tied):
    part = part_of_fit(state.sets, state.rows, state.cells, state.eta, fit)
    moments, at = place(state, fit, own.at)  # noqa: F821 (bound)
    return Context(state.sets, part, X, span, own, moments, at, state.width, step, is_tied)


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
def _leaves(context, q, k):
    """Whether a position is not of a cell."""
    span = context.span
    return q < span.low or q >= span.high or context.sets.exit_idx[_row_of(context, q)] != k


@device
def _if_tied(context, i, value):
    part = context.part
    return value if part.held.shape[0] > 0 and part.value[i] > 0.0 else 0.0


@device
def _load_row(context, q):
    w, k = context.part.u[q], context.sets.exit_idx[q]
    return w, _if_tied(context, q, w), 0.0, int64(_leaves(context, q - 1, k))


@device
def _load_change(context, q):
    """Change of a row's w."""
    part, span = context.part, context.span
    i, x = entry(context.X, q, span.kind, span.base)
    change = -part.u[i]
    if part.live[i] != 0:
        change += part.weight[i] * math.exp(part.eta[i] + x * context.step)
    begins = int64(_leaves(context, q - 1, context.sets.exit_idx[i]))
    return change, _if_tied(context, i, change), 0.0, begins


@device
def _take_change(context, q, before, after):
    """Add a cell's sum at its last position; moves the row of an entry."""
    part, span, i = context.part, context.span, _row_of(context, q)
    k = context.sets.exit_idx[i]
    if span.kind != ROWS:
        part.eta[i] += entry(context.X, q, span.kind, span.base)[1] * context.step
        part.u[i] = weigh(part, i)
    if _leaves(context, q + 1, k):
        context.moments[place_of(context, 0, k)] += after[0]
        if part.held.shape[0] > 0:
            context.moments[place_of(context, context.width, k)] += after[1]
    return 0.0, 0.0


@device
def _load_entry(context, q):
    part, span = context.part, context.span
    i, x = entry(context.X, q, span.kind, span.base)
    first = part.u[i] * x
    if context.is_tied != 0:
        first = _if_tied(context, i, first)
    return first, first * x, 0.0, int64(_leaves(context, q - 1, context.sets.exit_idx[i]))


@device
def _take_entry(context, q, before, after):
    """Keep a cell's sums at its last entry."""
    k, m = context.sets.exit_idx[_row_of(context, q)], context.width * context.is_tied
    if _leaves(context, q + 1, k):
        context.moments[place_of(context, m + 1, k)] = after[0]
        context.moments[place_of(context, m + second_of(context.span), k)] = after[1]
    return 0.0, 0.0


_rake_rows = make_rake(_load_row, _take_change, alone=True)
_rake_changes = make_rake(_load_change, _take_change, alone=True)
_rake_entries = make_rake(_load_entry, _take_entry, alone=True)


# -- over cells --------------------------------------------------------------------------------


@device
def load_cell(context, q):
    """Cells from the last to the first; a segment begins at the last cell of a group."""
    own, moments, is_first = context.own, context.moments, context.sets.is_first
    k = own.first + own.count - 1 - q
    is_last = k + 1 == is_first.shape[0] or is_first[k + 1] != 0
    begins = int64(is_last and (q > 0 or own.goes_on == 0))
    first = moments[place_of(context, 1, k)]
    second = moments[place_of(context, second_of(context.span), k)]
    return moments[place_of(context, 0, k)], first, second, begins


def take_cell(context, q, before, after):
    """Slope (without the events' part) and curvature of a cell; clears the column's sums."""
    own, part, moments = context.own, context.part, context.moments
    width, has_ties = context.width, part.held.shape[0] > 0
    k, slope, curvature = own.first + own.count - 1 - q, 0.0, 0.0
    if part.deaths[k] > 0.0 and (k > own.first or own.is_begun == 0):
        tied = 0.0, 0.0, 0.0
        if has_ties:
            tied = (
                moments[place_of(context, width, k)],
                moments[place_of(context, width + 1, k)],
                moments[place_of(context, width + second_of(context.span), k)],
            )
        sums = after[0], after[1], after[2], *tied
        slope, curvature = coordinate_formula(  # noqa: F821 (bound)
            *sums, part.death_weight[k], part.deaths[k]
        )
    for m in range(1, width):
        moments[place_of(context, m, k)] = 0.0
        if has_ties:
            moments[place_of(context, width + m, k)] = 0.0
    return -slope, curvature


# -- the steps ---------------------------------------------------------------------------------


def _start(exchange, X, fit, state, turn, scratch):
    """w of a member's rows, on the scale of the largest of the fit, and its sums."""
    own = _own_cells(exchange, X, state)
    span = Span(int64(0), own.low, own.high, int64(ROWS), int64(0))
    seen = context(X, fit, state, span, own, 0.0, 0)  # noqa: F821 (bound)
    part, moments, numbers = seen.part, seen.moments, state.width
    top = largest_predictor(exchange, part, turn, scratch)
    if part.held.shape[0] > 0:
        numbers *= 2
    k = cuda.threadIdx.x
    while k < numbers * own.count:
        moments[seen.at + k] = 0.0
        k += cuda.blockDim.x
    i = own.low + cuda.threadIdx.x
    while i < own.high:
        part.eta[i] -= top
        part.u[i] = weigh(part, i)
        i += cuda.blockDim.x
    cuda.syncthreads()
    _rake_rows(exchange, (own.low, own.high, 0), seen, turn, scratch)
    return own, turn + 1


def _derivatives(exchange, X, span, t, state, own, turn, scratch):
    fit = exchange.fits[t]
    seen = context(X, fit, state, span, own, 0.0, 0)  # noqa: F821 (bound)
    entries = span.low, span.high, 0
    _rake_entries(exchange, entries, seen, turn, scratch)
    if seen.part.held.shape[0] > 0:
        seen = context(X, fit, state, span, own, 0.0, 1)  # noqa: F821
        _rake_entries(exchange, entries, seen, turn, scratch)
    cuda.syncthreads()
    _, member = my_team(exchange)
    part = int64(0), own.count, exchange.size - 1 - member  # later cells come first
    slope, curvature = rake_cells(exchange, part, seen, turn, scratch)  # noqa: F821
    slope, curvature = team_sums(exchange, slope, curvature, turn + 1, scratch)
    return slope, curvature, 0.0, turn + 2


def _advance(exchange, X, span, t, move, state, own, scratch):
    """New predictor and w of the column's rows, and the change in the sums."""
    step, _, turn = move
    seen = context(X, exchange.fits[t], state, span, own, step, 0)  # noqa: F821 (bound)
    _rake_changes(exchange, (span.low, span.high, 0), seen, turn, scratch)
    return turn


@cache
def _functions_of(formula, place):
    names = {
        "context": device(bind(context_of, place=place)),
        "rake_cells": make_rake(load_cell, device(bind(take_cell, coordinate_formula=formula))),
    }
    return Functions(*(device(bind(f, **names)) for f in (_start, _derivatives, _advance)))


def steps_of(formula, state, most_cells):
    """Exact steps under a likelihood's `coordinate_formula`.

    ``most_cells(size)`` tells how many cells a member of a team has at most.
    """
    numbers = state.width * (1 + (state.cells.held.shape[1] > 0))

    def bytes_of(size):
        return 8 * numbers * most_cells(size)

    far, near = (_functions_of(formula, place) for place in (in_global, _in_shared))
    return Steps(formula.__name__, state, far, near, bytes_of)
