"""Exact coordinate steps for Fine and Gray's model on the device: two fused scans a coordinate.

Sums of w, w x and w x^2 by exit are kept per cell, those of the carried rows (as v) per lane cell.
One scan along the lanes gives what they bring to every cell, a second one from the last cell on
adds what is still at risk.  Where strata have one lane each, members own the cells of both as in
`risk_set_steps`; else the sums are the team's, as in `shared_steps`, those of lane cells follow
those of cells, and lanes add up at a cell.
"""

from __future__ import annotations

from functools import cache, partial

from numba import int64, uint64

from ..._compile import bind
from ...data.plans.described import FIRST_OF_LANE
from ._cuda import cuda, device
from .exact import Steps
from .products import of_fit
from .rake import make_rake
from .risk_set_steps import functions_of, place_of, place_steps, second_of, yes
from .shared_steps import shared_functions_of
from .team import my_team

LATE = 2  # sums of a cell that are what lanes bring to it, after those by exit and of its lane


@device
def _late_of(context, m, k):
    return place_of(context, LATE * context.state.width + m, k)


def _take_cell(context, q, before, after):
    """Slope (without the events' part) and curvature of a cell; clears the column's sums."""
    own, part, moments = context.own, context.part, context.moments
    k, width, slope, curvature = own.first + own.count - 1 - q, context.state.width, 0.0, 0.0
    if part.deaths[uint64(k)] > 0.0 and (k > own.first or own.is_begun == 0):
        slope, curvature = coordinate_formula(  # noqa: F821 (bound)
            after[0] + moments[_late_of(context, 0, k)],
            after[1] + moments[_late_of(context, 1, k)],
            after[2] + moments[_late_of(context, second_of(context.span), k)],
            0.0,
            0.0,
            0.0,
            part.death_weight[uint64(k)],
            part.deaths[uint64(k)],
        )
    for m in range(width):
        moments[_late_of(context, m, k)] = 0.0
        if m > 0:
            moments[place_of(context, m, k)] = 0.0
    return -slope, curvature


# -- one lane a stratum: a member's cells are those of its lanes -------------------------------


@device
def _of_carried(context, i):
    return of_fit(context.state.carry.inverse, context.fit)[i]


@device
def _own_cells(exchange, n, context):
    return int64(0), context.own.count, my_team(exchange)[1]


@device
def _load_own_lane(context, q):
    """Cells from the first to the last; a segment begins where rows of a stratum do."""
    own, state, moments, k = context.own, context.state, context.moments, context.own.first + q
    begins, width = state.sets.is_first[k] != 0, state.width
    if q == 0:
        stratum, exits = state.carry.stratum, state.sets.exit_idx
        begins = own.low == 0 or stratum[exits[own.low - 1]] != stratum[k]
    first = moments[place_of(context, width + 1, k)]
    second = moments[place_of(context, width + second_of(context.span), k)]
    return moments[place_of(context, width, k)], first, second, int64(begins)


@device
def _take_own_lane(context, q, before, after):
    """Keep what is carried to a cell; clears the column's sums."""
    k, state, moments = context.own.first + q, context.state, context.moments
    survival = of_fit(state.carry.survival, context.fit)[k]
    moments[_late_of(context, 0, k)] = survival * before[0]
    moments[_late_of(context, 1, k)] = survival * before[1]
    moments[_late_of(context, second_of(context.span), k)] = survival * before[2]
    for m in range(1, state.width):
        moments[place_of(context, state.width + m, k)] = 0.0
    return 0.0, 0.0


_rake_own_lanes = make_rake(_load_own_lane, _take_own_lane, part=_own_cells)


@device
def _carry_on(exchange, context, turn, scratch):
    _rake_own_lanes(exchange, 0, context, turn, scratch)
    # no barrier: the scan of the cells has one, before it looks at what is carried to them
    return turn + 1


@cache
def _own_functions_of(formula, place):
    take = device(bind(_take_cell, coordinate_formula=formula))
    return functions_of(place, _of_carried, yes, take, _carry_on)


def own_steps_of(formula, state, most_cells):
    """Exact steps where rows of a stratum are carried along one lane."""
    functions = partial(_own_functions_of, formula)
    return place_steps(f"carried_{formula.__name__}", functions, state, most_cells)


# -- several lanes a stratum -------------------------------------------------------------------


@device
def _lane_place_of(context, m, q):
    n_lane_cells = context.state.carry.flags.shape[0]
    return uint64(context.state.numbers * context.own.count + m * n_lane_cells + q)


@device
def _add(context, i, m, value):
    """Add to number m of a row's cell and of its lane's."""
    state, moments, i = context.state, context.moments, uint64(i)
    inverse = of_fit(state.carry.inverse, context.fit)[i]
    cuda.atomic.add(moments, place_of(context, m, state.sets.exit_idx[i]), value)
    if inverse > 0.0:
        place = _lane_place_of(context, m, state.carry.idx[i])
        cuda.atomic.add(moments, place, value * inverse)


@device
def _load_lane(context, q):
    moments, begins = context.moments, int64(context.state.carry.flags[q]) & FIRST_OF_LANE
    first = moments[_lane_place_of(context, 1, q)]
    second = moments[_lane_place_of(context, second_of(context.span), q)]
    return moments[_lane_place_of(context, 0, q)], first, second, begins


@device
def _take_lane(context, q, before, after):
    """Bring what was carried so far to the cell; clears the column's sums."""
    carry, moments, second = context.state.carry, context.moments, second_of(context.span)
    k, survival = carry.cell[q], of_fit(carry.survival, context.fit)[q]
    cuda.atomic.add(moments, _late_of(context, 0, k), survival * before[0])
    cuda.atomic.add(moments, _late_of(context, 1, k), survival * before[1])
    if second > 1:
        cuda.atomic.add(moments, _late_of(context, second, k), survival * before[2])
    for m in range(1, context.state.width):
        moments[_lane_place_of(context, m, q)] = 0.0
    return 0.0, 0.0


_rake_lanes = make_rake(_load_lane, _take_lane)


@device
def _carry_on_lanes(exchange, context, turn, scratch):
    _rake_lanes(exchange, context.state.carry.flags.shape[0], context, turn, scratch)
    return turn + 1


@cache
def _functions_of(formula):
    take = device(bind(_take_cell, coordinate_formula=formula))
    return shared_functions_of(_add, take, _carry_on_lanes)


def steps_of(formula, state):
    """Exact steps under a likelihood's `coordinate_formula`."""
    return Steps(f"lanes_{formula.__name__}", state, _functions_of(formula))
