"""Exact coordinate steps for Fine and Gray's model on the device: two fused scans a coordinate.

Sums of w, w x and w x^2 by exit are kept per cell, those of the carried rows (as v) per lane cell.
One scan along the lanes gives what they bring to every cell, a second one from the last cell on
adds what is still at risk; both as in `risk_set_steps`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import int64

from ..._compile import bind
from ._cuda import cuda, device
from .carried import FIRST_OF_LANE, lanes_of_fit
from .columns import entry
from .exact import Functions, Steps
from .rake import make_rake, share_of
from .risk_set_steps import weigh
from .risk_sets import part_of_fit
from .shared_steps import clear_part, shift_rows
from .team import barrier, part_of, team_sums


class CarriedSteps(NamedTuple):
    """State of exact steps; w of every row stands in ``rows.u``."""

    sets: object
    carry: object
    rows: object
    cells: object
    eta: np.ndarray  # float64 (fits, rows)
    left: np.ndarray  # float64 (fits, cells, 3): by exit
    carried: np.ndarray  # float64 (fits, lane cells, 3): of carried rows, by exit
    late: np.ndarray  # float64 (fits, cells, 3): what lanes bring to a cell; 0 between columns


class FitSteps(NamedTuple):
    """All of it for one fit."""

    sets: object
    carry: object
    part: object
    lanes: object
    left: np.ndarray
    carried: np.ndarray
    late: np.ndarray


@device
def _of_fit(state, fit):
    return FitSteps(
        state.sets,
        state.carry,
        part_of_fit(state.sets, state.rows, state.cells, state.eta, fit),
        lanes_of_fit(state.carry, fit),
        state.left[fit],
        state.carried[fit],
        state.late[fit],
    )


@device
def _add_weight(own, i, change):
    """Add to a row's w in the sums."""
    cuda.atomic.add(own.left, (own.sets.exit_idx[i], 0), change)
    inverse = own.lanes.inverse[i]
    if inverse > 0.0:
        cuda.atomic.add(own.carried, (own.carry.idx[i], 0), change * inverse)


@device
def _start(exchange, X, fit, state, turn, scratch):
    """w of every row, and its sums."""
    own = _of_fit(state, fit)
    part = own.part
    shift_rows(exchange, part, turn, scratch)
    clear_part(exchange, own.left)
    clear_part(exchange, own.carried)
    clear_part(exchange, own.late)
    barrier(exchange)
    low, high = part_of(part.eta.shape[0], exchange)
    i = low + cuda.threadIdx.x
    while i < high:
        part.u[i] = weigh(part, i)
        _add_weight(own, i, part.u[i])
        i += cuda.blockDim.x
    barrier(exchange)
    return 0, turn + 1


@device
def _scatter(X, span, own):
    """Put w x and w x^2 of a member's rows where they leave, and where they are carried from."""
    q = span.low + cuda.threadIdx.x
    while q < span.high:
        i, x = entry(X, q, span.kind, span.base)
        k, first, inverse = own.sets.exit_idx[i], own.part.u[i] * x, own.lanes.inverse[i]
        cuda.atomic.add(own.left, (k, 1), first)
        cuda.atomic.add(own.left, (k, 2), first * x)
        if inverse > 0.0:
            lane_cell = own.carry.idx[i]
            cuda.atomic.add(own.carried, (lane_cell, 1), first * inverse)
            cuda.atomic.add(own.carried, (lane_cell, 2), first * x * inverse)
        q += cuda.blockDim.x


@device
def _load_lane(own, q):
    carried, is_first = own.carried, int64(own.carry.flags[q]) & FIRST_OF_LANE
    return carried[q, 0], carried[q, 1], carried[q, 2], is_first


@device
def _take_lane(own, q, before, after):
    """Bring what was carried so far to the cell; clears the column's sums."""
    k, survival = own.carry.cell[q], own.lanes.survival[q]
    cuda.atomic.add(own.late, (k, 0), survival * before[0])
    cuda.atomic.add(own.late, (k, 1), survival * before[1])
    cuda.atomic.add(own.late, (k, 2), survival * before[2])
    own.carried[q, 1] = 0.0
    own.carried[q, 2] = 0.0
    return 0.0, 0.0


@device
def _load_cell(own, q):
    """Cells from the last to the first; a segment begins at the last cell of a stratum."""
    left = own.left
    k = left.shape[0] - 1 - q
    is_last = k + 1 == left.shape[0] or own.sets.is_first[k + 1] != 0
    return left[k, 0], left[k, 1], left[k, 2], int64(is_last)


def _take_cell(own, q, before, after):
    """Slope (without the events' part) and curvature of a cell; clears the column's sums."""
    part, late = own.part, own.late
    k, slope, curvature = own.left.shape[0] - 1 - q, 0.0, 0.0
    if part.deaths[k] > 0.0:
        slope, curvature = coordinate_formula(  # noqa: F821 (bound)
            after[0] + late[k, 0],
            after[1] + late[k, 1],
            after[2] + late[k, 2],
            0.0,
            0.0,
            0.0,
            part.death_weight[k],
            part.deaths[k],
        )
    own.left[k, 1] = 0.0
    own.left[k, 2] = 0.0
    for m in range(3):
        late[k, m] = 0.0
    return -slope, curvature


_rake_lanes = make_rake(_load_lane, _take_lane)


def _derivatives(exchange, X, span, t, state, own, turn, scratch):
    _scatter(X, span, _of_fit(state, exchange.fits[t]))
    barrier(exchange)
    own = _of_fit(state, exchange.fits[t])
    lanes = share_of(own.carried.shape[0], exchange)
    _rake_lanes(exchange, lanes, own, turn, scratch)
    # no barrier: the second scan has one, before it looks at what the lanes have brought to cells
    own = _of_fit(state, exchange.fits[t])
    cells = share_of(own.left.shape[0], exchange)
    slope, curvature = rake_cells(exchange, cells, own, turn + 1, scratch)  # noqa: F821 (bound)
    slope, curvature = team_sums(exchange, slope, curvature, turn + 2, scratch)
    return slope, curvature, 0.0, turn + 3


@device
def _advance(exchange, X, span, t, move, state, own, scratch):
    """New predictor and w of the column's rows, and the change in the sums."""
    own, (step, _, turn) = _of_fit(state, exchange.fits[t]), move
    part, q = own.part, span.low + cuda.threadIdx.x
    while q < span.high:
        i, x = entry(X, q, span.kind, span.base)
        part.eta[i] += x * step
        w = weigh(part, i)
        _add_weight(own, i, w - part.u[i])
        part.u[i] = w
        q += cuda.blockDim.x
    return turn


@cache
def _derivatives_of(coordinate_formula):
    take = device(bind(_take_cell, coordinate_formula=coordinate_formula))
    return device(bind(_derivatives, rake_cells=make_rake(_load_cell, take)))


def steps_of(formula, state):
    """Exact steps under a likelihood's `coordinate_formula`."""
    label = f"carried_{formula.__name__}"
    return Steps(label, state, Functions(_start, _derivatives_of(formula), _advance))
