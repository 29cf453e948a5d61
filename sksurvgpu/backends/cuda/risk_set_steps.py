"""Exact coordinate steps over risk sets on the device: a fused scan a coordinate.

Per cell, `moments` holds the sums of w, w x and w x^2 over exits minus entries, then the same over
the deaths.  Those of w are kept up to date; those of a column are scattered by the members that own
its rows, scanned from the last cell on, turned into slope and curvature (a formula of the
likelihood) and cleared on the way.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import int64

from ..._compile import bind
from ._cuda import cuda, device
from .columns import entries, entry, my_ranges
from .exact import Steps
from .rake import make_rake
from .risk_sets import largest_predictor, part_of_fit
from .team import barrier, part_of, team_sums


class RiskSteps(NamedTuple):
    """State of exact steps; w of every row stands in ``rows.u``, which is not in use meanwhile."""

    sets: object
    rows: object
    cells: object
    eta: np.ndarray  # float64 (fits, rows)
    moments: np.ndarray  # float64 (fits, cells, 6)


@device
def _of_fit(state, fit):
    """The integers, and one fit's rows, cells and moments."""
    part = part_of_fit(state.sets, state.rows, state.cells, state.eta, fit)
    return state.sets, part, state.moments[fit]


@device
def weigh(part, i):
    """w of a row, eta being shifted already."""
    return part.weight[i] * math.exp(part.eta[i]) if part.live[i] != 0 else 0.0


@device
def shift_rows(exchange, part, turn, scratch):
    """Shift the predictor so that its largest value is 0; takes a turn."""
    top = largest_predictor(exchange, part, turn, scratch)
    low, high = part_of(part.eta.shape[0], exchange)
    i = low + cuda.threadIdx.x
    while i < high:
        part.eta[i] -= top
        i += cuda.blockDim.x


@device
def clear_part(exchange, moments):
    """Zeros in a member's part of (positions, numbers)."""
    low, high = part_of(moments.shape[0], exchange)
    k = low + cuda.threadIdx.x
    while k < high:
        for m in range(moments.shape[1]):
            moments[k, m] = 0.0
        k += cuda.blockDim.x


@device
def _add_weight(sets, part, moments, i, change):
    """Add to a row's w in its cells."""
    k = sets.exit_idx[i]
    cuda.atomic.add(moments, (k, 0), change)
    if sets.enter_idx.shape[0] > 0:
        cuda.atomic.add(moments, (sets.enter_idx[i], 0), -change)
    if part.held.shape[0] > 0 and part.value[i] > 0.0:
        cuda.atomic.add(moments, (k, 3), change)


@device
def _start(exchange, fit, state, turn, scratch):
    """w of every row, and its sums per cell."""
    sets, part, moments = _of_fit(state, fit)
    shift_rows(exchange, part, turn, scratch)
    clear_part(exchange, moments)
    barrier(exchange)
    low, high = part_of(part.eta.shape[0], exchange)
    i = low + cuda.threadIdx.x
    while i < high:
        part.u[i] = weigh(part, i)
        _add_weight(sets, part, moments, i, part.u[i])
        i += cuda.blockDim.x
    barrier(exchange)
    return turn + 1


@device
def _scatter(X, j, ranges, own):
    """Put w x and w x^2 of a member's rows into the cells where they exit and enter."""
    sets, part, moments = own
    low, high, kind, base = entries(X, j, ranges[0], ranges[1])
    for piece in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
        q = low + cuda.threadIdx.x
        while q < high:
            row, x = entry(X, q, kind, base)
            if row >= X.first[piece]:
                i = row + X.shift[piece]
                k, first = sets.exit_idx[i], part.u[i] * x
                cuda.atomic.add(moments, (k, 1), first)
                cuda.atomic.add(moments, (k, 2), first * x)
                if sets.enter_idx.shape[0] > 0:
                    e = sets.enter_idx[i]
                    cuda.atomic.add(moments, (e, 1), -first)
                    cuda.atomic.add(moments, (e, 2), -first * x)
                if part.held.shape[0] > 0 and part.value[i] > 0.0:
                    cuda.atomic.add(moments, (k, 4), first)
                    cuda.atomic.add(moments, (k, 5), first * x)
            q += cuda.blockDim.x


@device
def _load_cell(context, q):
    """Cells from the last to the first; a segment begins at the last cell of a group."""
    sets, _, moments = context
    k = moments.shape[0] - 1 - q
    is_last = k + 1 == moments.shape[0] or sets.is_first[k + 1] != 0
    return moments[k, 0], moments[k, 1], moments[k, 2], int64(is_last)


def _take_cell(context, q, before, after):
    """Slope (without the events' part) and curvature of a cell; clears the column's sums."""
    _, part, moments = context
    k, slope, curvature = moments.shape[0] - 1 - q, 0.0, 0.0
    if part.deaths[k] > 0.0:
        slope, curvature = coordinate_formula(  # noqa: F821 (bound)
            after[0],
            after[1],
            after[2],
            moments[k, 3],
            moments[k, 4],
            moments[k, 5],
            part.death_weight[k],
            part.deaths[k],
        )
    for m in (1, 2, 4, 5):
        moments[k, m] = 0.0
    return -slope, curvature


def _derivatives(exchange, X, j, t, state, turn, scratch):
    _scatter(X, j, my_ranges(X, exchange), _of_fit(state, exchange.fits[t]))
    barrier(exchange)
    slope, curvature = rake_cells(  # noqa: F821 (bound)
        exchange, state.moments.shape[1], _of_fit(state, exchange.fits[t]), turn, scratch
    )
    slope, curvature = team_sums(exchange, slope, curvature, turn + 1, scratch)
    return slope, curvature, 0.0, turn + 2


@device
def _advance(exchange, X, j, t, step, extra, state):
    """New predictor and w of the column's rows, and the change in the cells' sums."""
    sets, part, moments = _of_fit(state, exchange.fits[t])
    first, end = my_ranges(X, exchange)
    low, high, kind, base = entries(X, j, first, end)
    for piece in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
        q = low + cuda.threadIdx.x
        while q < high:
            row, x = entry(X, q, kind, base)
            if row >= X.first[piece]:
                i = row + X.shift[piece]
                part.eta[i] += x * step
                w = weigh(part, i)
                _add_weight(sets, part, moments, i, w - part.u[i])
                part.u[i] = w
            q += cuda.blockDim.x


@cache
def _derivatives_of(coordinate_formula):
    take = device(bind(_take_cell, coordinate_formula=coordinate_formula))
    return device(bind(_derivatives, rake_cells=make_rake(_load_cell, take)))


def steps_of(formula, state):
    """Exact steps under a likelihood's `coordinate_formula`."""
    return Steps(formula.__name__, _start, _derivatives_of(formula), _advance, state)
