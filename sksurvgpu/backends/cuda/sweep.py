"""Passes of coordinate descent over the quadratic model: one launch for all fits that sweep.

A team holds the curvature h of its rows and r = -h v, what the residual has changed by, every
member those of its own ranges, in shared memory where they fit.  For each column a member sums
x_i r_i over its rows, meets the team, computes the same step as everybody else and moves its own
rows: one barrier a column.  What decides which column is due (coefficients, their last moves) is
kept by every block for itself, the same bits in all of them, so that no member has to be told.

The gradient where the sweep begins comes with the columns, in double precision: what r adds to it
vanishes at the optimum, and with it the rounding of an r in single precision.  Else the model and
the rules are those of `backends.cpu.sweep`.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import float32, float64, int64

from ..._compile import bind
from ...penalties.blocks import move_block_of
from ..cpu.sweep import SETTLED
from . import group_sweep
from ._cuda import cuda, device, specialize
from .columns import (
    SPANS,
    entry,
    four_entries,
    my_ranges,
    new_spans,
    read_spans,
    span_of,
)
from .runs import make_runs
from .team import begin, my_team, n_teams, new_scratch, team_sum


class Work(NamedTuple):
    """Columns to sweep over, those of one fit after the other, and numbers that go with them."""

    ptr: np.ndarray  # int64 per fit served + 1
    column: np.ndarray  # int64
    coef: np.ndarray  # float64: before, and after
    penalty: NamedTuple  # of arrays
    unit: np.ndarray
    curvature: np.ndarray
    gradient: np.ndarray


class Private(NamedTuple):
    """What every block keeps for itself."""

    coef: np.ndarray  # float64 (blocks, most columns of a fit)
    moved: np.ndarray  # ... likewise: size of the last move
    center: np.ndarray  # float64 (blocks, bins) where bins are few, else (fits, groups)


class MemberRows(NamedTuple):
    """Rows of one fit as a member sees them: row i of X's copies stands at ``2 * (i - start)``."""

    rh: np.ndarray  # r and h side by side
    start: int
    own: np.ndarray  # group of every row, where bins are many
    center: np.ndarray  # U_k
    inverse: np.ndarray  # 1 / N_k
    loads: np.ndarray  # float64 (columns, bins), where bins are few


# -- rows in shared memory, or where they are -------------------------------------------------


@device
def _share_float64(rh, row):
    return cuda.shared.array(0, float64), row


@device
def _share_float32(rh, row):
    return cuda.shared.array(0, float32), row


@device
def _leave_in_place(rh, row):
    return rh, int64(0)


PLACES = {"float64": _share_float64, "float32": _share_float32, "global": _leave_in_place}


@device
def _take_rows(X, ranges, rh, rows):
    """r = 0, and h, of a member's rows."""
    for b in range(X.first.shape[0]):
        low, shift = max(X.cut[ranges[0]], X.first[b]), X.shift[b]
        row = low + cuda.threadIdx.x
        while row < X.cut[ranges[1]]:
            i = row + shift
            rows.rh[2 * (i - rows.start)] = 0.0
            rows.rh[2 * (i - rows.start) + 1] = rh[2 * i + 1]
            row += cuda.blockDim.x


# -- few bins: their centres are kept by every block for itself --------------------------------


def _rows_few(X, ranges, fit, private, bins, loads, rh):
    """Rows of a fit, centres at rest."""
    center = private.center[cuda.blockIdx.x]
    k = cuda.threadIdx.x
    while k < center.shape[0]:
        center[k] = 0.0
        k += cuda.blockDim.x
    local, start = place(rh[fit], X.cut[ranges[0]])  # noqa: F821 (bound)
    return MemberRows(local, start, bins.own, center, bins.inverse[fit], loads[fit])


@device
def _residual_few(rows, at, i):
    return rows.rh[at]


@device
def _move_few(rows, at, i, change):
    rows.rh[at] -= change


@device
def _slope_of_centers(rows, j):
    total = 0.0
    k = cuda.threadIdx.x
    while k < rows.center.shape[0]:
        total += rows.loads[j, k] * rows.center[k]
        k += cuda.blockDim.x
    return total


@device
def _move_centers(rows, j, step):
    k = cuda.threadIdx.x
    while k < rows.center.shape[0]:
        rows.center[k] += rows.loads[j, k] * rows.inverse[k] * step
        k += cuda.blockDim.x


# -- a bin a group: a group's rows belong to one member, and so does its centre ----------------


def _rows_many(X, ranges, fit, private, bins, loads, rh):
    """Rows of a fit, centres of a member's groups at rest; there are no loads."""
    center = private.center[fit]
    for b in range(X.first.shape[0]):
        low = max(X.cut[ranges[0]], X.first[b])
        row = low + cuda.threadIdx.x
        while row < X.cut[ranges[1]]:
            center[bins.own[row + X.shift[b]]] = 0.0
            row += cuda.blockDim.x
    local, start = place(rh[fit], X.cut[ranges[0]])  # noqa: F821 (bound)
    return MemberRows(local, start, bins.own, center, bins.inverse[fit], loads[0])


@device
def _residual_many(rows, at, i):
    """r_i + h_i U_k, k the row's group."""
    return rows.rh[at] + rows.rh[at + 1] * rows.center[rows.own[i]]


@device
def _move_copy(rows, at, i, change):
    """Of a row with copies: those of a group are no neighbours, and added in any order."""
    rows.rh[at] -= change
    k = rows.own[i]
    cuda.atomic.add(rows.center, k, change * rows.inverse[k])


class Moves(NamedTuple):
    """What moves with a column's coefficient, the rows of a group being neighbours."""

    X: object
    span: object
    rows: MemberRows
    step: float


@device
def _group_of(moves, q):
    return int64(moves.rows.own[entry(moves.X, q, moves.span.kind, moves.span.base)[0]])


@device
def _move_entry(moves, q):
    """Move an entry's r; how far."""
    rows, span = moves.rows, moves.span
    i, x = entry(moves.X, q, span.kind, span.base)
    at = 2 * (i - rows.start)
    change = rows.rh[at + 1] * x * moves.step
    rows.rh[at] -= change
    return change, 0.0


@device
def _move_center(moves, k, change, none):
    moves.rows.center[k] += change * moves.rows.inverse[k]
    return 0.0, 0.0


_move_runs = make_runs(_group_of, _move_entry, _move_center)


@device
def _move_groups(X, span, rows, step):
    """Move a member's rows and groups; the order of threads changes no sum."""
    _move_runs(span.low, span.high, Moves(X, span, rows, step))


@device
def _no_slope(rows, j):
    return 0.0


@device
def _no_move(rows, j, step):
    pass


# -- the sweep --------------------------------------------------------------------------------


def _add_slope(rows, pair, first, shift):
    row, x = pair
    i = row + shift
    if row < first:
        return 0.0
    return x * residual(rows, 2 * (i - rows.start), i)  # noqa: F821 (bound)


def _slope(X, span, ranges, rows):
    """The thread's part of how much a column's gradient in the model has changed."""
    total = 0.0
    for b in range(X.piece_ptr[span.j, 0], X.piece_ptr[span.j, 1]):
        first, shift, q = X.first[b], X.shift[b], span.low + cuda.threadIdx.x
        while q < span.high:
            one, two, three, four = four_entries(X, q, span)
            total += add_slope(rows, one, first, shift)  # noqa: F821 (bound)
            total += add_slope(rows, two, first, shift)  # noqa: F821
            total += add_slope(rows, three, first, shift)  # noqa: F821
            total += add_slope(rows, four, first, shift)  # noqa: F821
            q += 4 * cuda.blockDim.x
    if ranges[0] == 0:  # every member has the centres; the first one adds their part
        total += slope_of_centers(rows, span.j)  # noqa: F821 (bound)
    return total


def _move(X, span, rows, step):
    """Move a member's rows, and the centres that it keeps."""
    for b in range(X.piece_ptr[span.j, 0], X.piece_ptr[span.j, 1]):
        first, shift, q = X.first[b], X.shift[b], span.low + cuda.threadIdx.x
        while q < span.high:
            row, x = entry(X, q, span.kind, span.base)
            if row >= first:
                i = row + shift
                at = 2 * (i - rows.start)
                move_row(rows, at, i, rows.rh[at + 1] * x * step)  # noqa: F821 (bound)
            q += cuda.blockDim.x
    move_centers(rows, span.j, step)  # noqa: F821 (bound)


@device
def _is_due(work, private, a, at, passed):
    """Whether a pass visits a column: not settled, and after the first pass not zero."""
    if work.curvature[at] <= 0.0:
        return False
    return passed == 0 or private.coef[cuda.blockIdx.x, a] != 0.0


def _descend(exchange, X, work, private, rows, limits):
    """Cyclic passes over the columns of one fit; how often a column was due, and turns taken."""
    start, end, max_passes, shrink, turn = limits
    ranges, scratch, block = my_ranges(X, exchange), new_scratch(), cuda.blockIdx.x
    spans, first, due = new_spans(), 0.0, 0
    for passed in range(max_passes):
        largest = 0.0
        for at in range(start, end):
            a = at - start
            if a % SPANS == 0:
                read_spans(X, work.column[at:end], ranges, spans)
            if not _is_due(work, private, a, at, passed):
                continue
            due += 1
            if passed > 0 and private.moved[block, a] <= SETTLED * shrink * first:
                continue
            old, curvature = private.coef[block, a], work.curvature[at]
            span = span_of(work.column[at], spans, a)
            part = slope(X, span, ranges, rows)  # noqa: F821 (bound)
            gradient = work.gradient[at] + team_sum(exchange, part, turn, scratch)
            turn += 1
            z = old * curvature + gradient
            new = minimum(z, curvature, work.penalty, at)  # noqa: F821
            moved = curvature * abs(new - old) / work.unit[at]
            largest = max(largest, moved)
            if cuda.threadIdx.x == 0:
                private.coef[block, a] = new
                private.moved[block, a] = moved
            if new != old:
                move(X, span, rows, new - old)  # noqa: F821 (bound)
            cuda.syncthreads()
        if passed == 0:
            first = largest
        if largest <= shrink * first:
            break
    return due, turn


def _sweep(exchange, X, work, private, bins, loads, rh, shrink, max_passes, due):
    """Sweep the fits served; `work.coef` and `due` (per fit served) take the results."""
    begin()
    team, member = my_team(exchange)
    ranges, turn, block = my_ranges(X, exchange), 0, cuda.blockIdx.x
    t = team
    while t < exchange.fits.shape[0]:
        fit, start, end = exchange.fits[t], work.ptr[t], work.ptr[t + 1]
        at = start + cuda.threadIdx.x
        while at < end:
            private.coef[block, at - start] = work.coef[at]
            at += cuda.blockDim.x
        rows = rows_of(X, ranges, fit, private, bins, loads, rh)  # noqa: F821 (bound)
        _take_rows(X, ranges, rh[fit], rows)
        cuda.syncthreads()
        limits = start, end, max_passes, shrink[t], turn
        count, turn = descend(exchange, X, work, private, rows, limits)  # noqa: F821 (bound)
        if member == 0:
            at = start + cuda.threadIdx.x
            while at < end:
                work.coef[at] = private.coef[block, at - start]
                at += cuda.blockDim.x
            if cuda.threadIdx.x == 0:
                due[t] = count
        cuda.syncthreads()
        t += n_teams(exchange)


@cache
def sweep_of(few, is_whole, place, formulas):
    """Sweep kernel for few bins or many, rows being in the given place (`PLACES`), or copied.

    It binds the `minimum` of a penalty, or the step of one whose columns move in blocks.
    """
    if few:
        residual, of_centers = _residual_few, _slope_of_centers
        move = device(bind(_move, move_row=_move_few, move_centers=_move_centers))
    else:
        residual, of_centers, move = _residual_many, _no_slope, _move_groups
        if not is_whole:
            move = device(bind(_move, move_row=_move_copy, move_centers=_no_move))
    add_slope = device(bind(_add_slope, residual=residual))
    slope = device(bind(_slope, add_slope=add_slope, slope_of_centers=of_centers))
    rows_of = device(bind(_rows_few if few else _rows_many, place=PLACES[place]))
    many = "many" if is_whole else "copies"
    label = f"{'few' if few else many}_{place}_{(formulas.block or formulas.minimum).__name__}"
    if formulas.block is None:
        descend = device(bind(_descend, slope=slope, move=move, minimum=formulas.minimum))
    else:
        parts = {
            "slopes": device(bind(group_sweep.find_slopes, slope=slope)),
            "steps": device(bind(group_sweep.take_steps, move=move)),
            "move_block": move_block_of(formulas),
        }
        descend = device(bind(group_sweep.descend_blocks, **parts))
    return specialize(_sweep, label, rows_of=rows_of, descend=descend)
