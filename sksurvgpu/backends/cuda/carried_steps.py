"""Exact coordinate steps for Fine and Gray's model on the device: two fused scans a coordinate.

Sums of w, w x and w x^2 by exit are kept per cell, those of the carried rows (as v) per lane cell.
One scan along the lanes gives what they bring to every cell, a second one from the last cell on
adds what is still at risk.  Where strata have one lane each, members own cells and sums as in
`risk_set_steps`, else these are the team's, as in `shared_steps`.
"""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import numpy as np
from numba import int64

from ..._compile import bind
from ...data.plans.described import FIRST_OF_LANE
from ._cuda import cuda, device
from .carried import lanes_of_fit
from .columns import entry
from .exact import Functions, Steps
from .products import of_fit
from .rake import make_rake
from .risk_set_steps import functions_of, place_of, place_steps, second_of, second_sums, weigh, yes
from .risk_sets import part_of_fit
from .shared_steps import clear_part, shift_rows
from .team import barrier, my_team, part_of, team_sums


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
    _rake_lanes(exchange, own.carried.shape[0], own, turn, scratch)
    # no barrier: the second scan has one, before it looks at what the lanes have brought to cells
    own = _of_fit(state, exchange.fits[t])
    n_cells = own.left.shape[0]
    slope, curvature = rake_cells(exchange, n_cells, own, turn + 1, scratch)  # noqa: F821 (bound)
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
    label = f"lanes_{formula.__name__}"
    return Steps(label, state, Functions(_start, _derivatives_of(formula), _advance))


# -- one lane a stratum: a member's cells are those of its lanes -------------------------------


@device
def _of_carried(context, i):
    return of_fit(context.state.carry.inverse, context.fit)[i]


@device
def _load_own_lane(context, q):
    """Cells from the first to the last; a segment begins where rows of a stratum do."""
    own, state = context.own, context.state
    k = own.first + q
    begins = state.sets.is_first[k] != 0
    if q == 0:
        stratum, exits = state.carry.stratum, state.sets.exit_idx
        begins = own.low == 0 or stratum[exits[own.low - 1]] != stratum[k]
    first, second, third = second_sums(context, k)
    return first, second, third, int64(begins)


@device
def _take_own_lane(context, q, before, after):
    """Keep what is carried to a cell in place of what it carries on; w stays."""
    k, state, moments = context.own.first + q, context.state, context.moments
    survival = of_fit(state.carry.survival, context.fit)[k]
    moments[place_of(context, 2 * state.width, k)] = survival * before[0]
    moments[place_of(context, state.width + 1, k)] = survival * before[1]
    moments[place_of(context, state.width + second_of(context.span), k)] = survival * before[2]
    return 0.0, 0.0


@device
def _own_cells(exchange, n, context):
    return int64(0), context.own.count, my_team(exchange)[1]


_rake_own_lanes = make_rake(_load_own_lane, _take_own_lane, part=_own_cells)


@device
def _carry_on(exchange, context, turn, scratch):
    _rake_own_lanes(exchange, 0, context, turn, scratch)
    # no barrier: the scan of the cells has one, before it looks at what is carried to them
    return turn + 1


def _take_own_cell(context, q, before, after):
    """Slope (without the events' part) and curvature of a cell; clears the column's sums."""
    own, part, moments = context.own, context.part, context.moments
    k, width, slope, curvature = own.first + own.count - 1 - q, context.state.width, 0.0, 0.0
    if part.deaths[k] > 0.0 and (k > own.first or own.is_begun == 0):
        _, first, second = second_sums(context, k)
        slope, curvature = coordinate_formula(  # noqa: F821 (bound)
            after[0] + moments[place_of(context, 2 * width, k)],
            after[1] + first,
            after[2] + second,
            0.0,
            0.0,
            0.0,
            part.death_weight[k],
            part.deaths[k],
        )
    for m in range(1, width):
        moments[place_of(context, m, k)] = 0.0
        moments[place_of(context, width + m, k)] = 0.0
    return -slope, curvature


@cache
def _own_functions_of(formula, place):
    take = device(bind(_take_own_cell, coordinate_formula=formula))
    return functions_of(place, _of_carried, yes, take, _carry_on)


def own_steps_of(formula, state, most_cells):
    """Exact steps where rows of a stratum are carried along one lane."""
    functions = partial(_own_functions_of, formula)
    return place_steps(f"carried_{formula.__name__}", functions, state, most_cells)
