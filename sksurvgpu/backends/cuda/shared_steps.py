"""Exact coordinate steps over risk sets whose sums by cell are the team's.

Rows that enter late take their w away from risk sets of any member, and copies of rows are not in
the order of cells: entries are added to the sums by floating-point atomics, whose order depends on
the threads, and every column has a barrier more than where members have cells of their own
(`risk_set_steps`).
"""

from __future__ import annotations

from functools import cache

from numba import int64, uint64

from ..._compile import bind
from ._cuda import cuda, device
from .columns import entry
from .exact import Functions, Steps
from .rake import make_rake
from .risk_set_steps import (
    Own,
    Span,
    context_of,
    in_global,
    load_cell,
    no,
    nothing_is_carried,
    place_of,
    second_of,
    take_cell,
    weigh,
    yes,
)
from .risk_sets import largest_predictor
from .team import barrier, part_of, team_sums

_context_of = device(bind(context_of, place=in_global))


@device
def _context(X, fit, state, span, step):
    none = int64(0)
    own = Own(none, none, none, int64(state.cells.jump.shape[1]), none, none, none)
    return _context_of(X, fit, state, span, own, step, 0)


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
def _add(context, i, m, value):
    """Add to number m of a row's cells."""
    sets, part, moments = context.state.sets, context.part, context.moments
    i = uint64(i)
    k = sets.exit_idx[i]
    cuda.atomic.add(moments, place_of(context, m, k), value)
    if sets.enter_idx.shape[0] > 0:
        cuda.atomic.add(moments, place_of(context, m, sets.enter_idx[i]), -value)
    if part.held.shape[0] > 0 and part.value[i] > 0.0:
        cuda.atomic.add(moments, place_of(context, context.state.width + m, k), value)


def _start(exchange, X, fit, state, own, turn, scratch):
    """w of every row, and its sums per cell."""
    none = int64(0)
    context = _context(X, fit, state, Span(none, none, none, none, none), 0.0)
    part = context.part
    shift_rows(exchange, part, turn, scratch)
    low, high = part_of(context.moments.shape[0], exchange)
    k = low + cuda.threadIdx.x
    while k < high:
        context.moments[k] = 0.0
        k += cuda.blockDim.x
    barrier(exchange)
    low, high = part_of(part.eta.shape[0], exchange)
    i = low + cuda.threadIdx.x
    while i < high:
        part.u[i] = weigh(part, i)
        add(context, i, 0, part.u[i])  # noqa: F821 (bound)
        i += cuda.blockDim.x
    barrier(exchange)
    return turn + 1


def _scatter(context):
    """Put w x and w x^2 of a member's rows into the cells where they exit and enter."""
    X, span = context.X, context.span
    for piece in range(X.piece_ptr[span.j, 0], X.piece_ptr[span.j, 1]):
        q = span.low + cuda.threadIdx.x
        while q < span.high:
            row, x = entry(X, q, span.kind, span.base)
            if row >= X.first[piece]:
                i = uint64(row + X.shift[piece])
                first, second = context.part.u[i] * x, second_of(span)
                add(context, i, 1, first)  # noqa: F821 (bound)
                if second > 1:
                    add(context, i, second, first * x)  # noqa: F821
            q += cuda.blockDim.x


def _derivatives(exchange, X, span, t, state, own, turn, scratch):
    scatter(_context(X, exchange.fits[t], state, span, 0.0))  # noqa: F821 (bound)
    barrier(exchange)
    context = _context(X, exchange.fits[t], state, span, 0.0)
    turn = carry_on(exchange, context, turn, scratch)  # noqa: F821 (bound)
    # no barrier: the scan has one, before it looks at what is carried to cells
    slope, curvature = rake_cells(exchange, context.own.count, context, turn, scratch)  # noqa: F821 (bound)
    slope, curvature = team_sums(exchange, slope, curvature, turn + 1, scratch)
    return slope, curvature, 0.0, turn + 2


def _advance(exchange, X, span, t, move, state, own, scratch):
    """New predictor and w of the column's rows, and the change in the cells' sums."""
    step, _, turn = move
    context = _context(X, exchange.fits[t], state, span, step)
    part = context.part
    for piece in range(X.piece_ptr[span.j, 0], X.piece_ptr[span.j, 1]):
        q = span.low + cuda.threadIdx.x
        while q < span.high:
            row, x = entry(X, q, span.kind, span.base)
            if row >= X.first[piece]:
                i = uint64(row + X.shift[piece])
                part.eta[i] += x * step
                w = weigh(part, i)
                add(context, i, 0, w - part.u[i])  # noqa: F821 (bound)
                part.u[i] = w
            q += cuda.blockDim.x
    return turn


def shared_functions_of(add, take, carry_on=nothing_is_carried):
    """Steps that add to a row's sums by `add`, with the rake over cells that calls `take`."""
    names = {"add": add, "carry_on": carry_on, "rake_cells": make_rake(load_cell, take)}
    names["scatter"] = device(bind(_scatter, add=add))
    return Functions(*(device(bind(f, **names)) for f in (_start, _derivatives, _advance)))


@cache
def _functions_of(formula, uses_ties):
    take = bind(take_cell, coordinate_formula=formula, has_factor=yes if uses_ties else no)
    return shared_functions_of(_add, device(take))


def steps_of(formula, state):
    """Exact steps under a likelihood's `coordinate_formula`."""
    functions = _functions_of(formula, state.cells.held.shape[1] > 0)
    return Steps(f"shared_{formula.__name__}", state, functions)
