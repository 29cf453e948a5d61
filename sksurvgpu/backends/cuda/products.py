"""Products with X, and row by row arithmetic between evaluations."""

from __future__ import annotations

import numpy as np
from numba import int64

from ..._compile import BOUND, bind
from ._cuda import cuda, device, inlined, kernel
from .columns import all_entries, entry
from .team import (
    FULL,
    WARP,
    block_max,
    block_sum,
    new_scratch,
    warp_sum,
)

number = entry_number = add_entries = multiply_tasks = BOUND

LONG = 1_024  # entries of a column on which a whole block works


@inlined
def of_fit(values, fit):
    """Row array of a fit; one stands for all fits where they share it."""
    return values[fit if values.shape[0] > 1 else 0]


@device
def _multiply_row(X, lists, row, lane, lanes, coef):
    """A lane's part of a row's product with coefficients; four entries are on their way at once."""
    total, q, end = 0.0, lists.ptr[row] + lane, lists.ptr[row + 1]
    while q < end:
        q1, q2, q3 = q + lanes, q + 2 * lanes, q + 3 * lanes
        p1, p2, p3 = min(q1, end - 1), min(q2, end - 1), min(q3, end - 1)
        a, b = coef[lists.column[q]], coef[lists.column[p1]]
        c, d = coef[lists.column[p2]], coef[lists.column[p3]]
        if lists.value.shape[0] > 0 and (a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0):
            a, b = a * lists.value[q], b * lists.value[p1]
            c, d = c * lists.value[p2], d * lists.value[p3]
        b, c, d = b if q1 < end else 0.0, c if q2 < end else 0.0, d if q3 < end else 0.0
        total += (a + b) + (c + d)
        q += 4 * lanes
    while lane < lists.dense.shape[0]:
        c = lists.dense[lane]
        if coef[c] != 0.0:
            total += coef[c] * X.values[X.value_ptr[c] + row]
        lane += lanes
    return total


@kernel
def predict(X, lists, fits, table, lanes, offset, eta):
    """eta = offset + X coef, from scratch, `lanes` neighbouring threads a row.

    ``table`` (fits served, pieces, columns of X): coefficients of the columns of X in every piece.
    """
    doubled = cuda.ffs(lanes) - 1  # a division would take half of the registers
    lane, place = cuda.grid(1) & (lanes - 1), (cuda.threadIdx.x % WARP) >> doubled
    for b in range(X.first.shape[0]):
        row_of_warp = X.first[b] + (cuda.grid(1) >> doubled) - place
        while row_of_warp < lists.ptr.shape[0] - 1:  # all lanes take part in sums
            row = row_of_warp + place
            is_row, i = row < lists.ptr.shape[0] - 1, row + X.shift[b]
            for t in range(fits.shape[0]):
                total, step = 0.0, lanes >> 1
                if is_row:
                    total = _multiply_row(X, lists, row, lane, lanes, table[t, b])
                while step > 0:
                    total += cuda.shfl_xor_sync(FULL, total, step)
                    step >>= 1
                if is_row and lane == 0:
                    own = of_fit(offset, fits[t])
                    eta[fits[t], i] = total + (own[i] if own.shape[0] > 0 else 0.0)
            row_of_warp += cuda.gridsize(1) >> doubled


def _entry_number(X, rows, fit, b, q, span):
    """``number(rows, fit, i, x_i)`` of the entry at q, where the span and piece b have one."""
    _, high, kind, base = span
    row, x = entry(X, min(q, high - 1), kind, base)
    value = number(rows, fit, max(row, X.first[b]) + X.shift[b], x)
    return value if q < high and row >= X.first[b] else 0.0


def _add_entries(X, rows, fit, j, q, step):
    """Sum over every `step`-th entry of a column; four are on their way at once."""
    span, total = all_entries(X, j), 0.0
    for b in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
        at = span[0] + q
        while at < span[1]:
            one = entry_number(X, rows, fit, b, at, span)
            two = entry_number(X, rows, fit, b, at + step, span)
            three = entry_number(X, rows, fit, b, at + 2 * step, span)
            four = entry_number(X, rows, fit, b, at + 3 * step, span)
            total += (one + two) + (three + four)
            at += 4 * step
    return total


@device
def _is_long(X, j):
    low, high, _, _ = all_entries(X, j)
    return high - low > LONG


def _multiply_tasks(X, fits, columns, rows, out, scratch):
    """out_t = sum of numbers over the entries of column ``columns[t]`` for ``fits[t]``.

    A block looks at as many tasks as it has warps: all of it works on a long column, the short ones
    have a warp each.  The order of a sum follows from the length of the column alone.
    """
    n, n_warps = fits.shape[0], cuda.blockDim.x // WARP
    lane, warp, t = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP, cuda.blockIdx.x
    while t < n:
        task, is_long = t + lane * cuda.gridDim.x, False
        if lane < n_warps and task < n:
            is_long = _is_long(X, columns[task])
        left = all_long = int64(cuda.ballot_sync(FULL, is_long)) & FULL
        is_whole = True
        while is_whole:  # the block, for a long column after the other, and then its warps
            is_whole = left != 0
            which, q, step = warp, lane, cuda.warpsize
            if is_whole:
                which, q, step = cuda.ffs(left) - 1, cuda.threadIdx.x, cuda.blockDim.x
            task, total = t + which * cuda.gridDim.x, 0.0
            if not is_whole and (all_long >> warp) & 1:
                task = n  # is done
            if task < n:
                total = add_entries(X, rows, fits[task], columns[task], q, step)
            total = block_sum(total, scratch) if is_whole else warp_sum(total)
            if q == 0 and task < n:
                out[task] = total
            left &= left - 1
        t += n_warps * cuda.gridDim.x


def _multiply_columns(X, fits, columns, rows, out):
    multiply_tasks(X, fits, columns, rows, out, new_scratch())


@device
def _residual(rows, fit, i, x):
    return x * rows.u[fit, i]


@device
def _size(rows, fit, i, x):
    """u is a difference, of what was observed and what is expected: rounding follows their size."""
    events = rows.value[i] * of_fit(rows.weight, fit)[i]
    return abs(x) * (abs(events) + abs(events - rows.u[fit, i]))


@device
def _events(rows, fit, i, x):
    return x * rows.value[i] * of_fit(rows.weight, fit)[i]


def _tasks_with(number):
    entry_number = device(bind(_entry_number, number=number))
    add_entries = device(bind(_add_entries, entry_number=entry_number))
    return device(bind(_multiply_tasks, add_entries=add_entries))


def product_with(number):
    """Kernel of the products of columns with a number a row."""
    return kernel(bind(_multiply_columns, multiply_tasks=_tasks_with(number)))


_multiply_residuals = _tasks_with(_residual)
multiply_residuals = product_with(_residual)
multiply_sizes = product_with(_size)
multiply_events = product_with(_events)


@kernel
def shorten(fits, share, eta, trial):
    """Pull trial predictors back to a share of their steps."""
    for t in range(fits.shape[0]):
        fit = fits[t]
        i = cuda.grid(1)
        while i < eta.shape[1]:
            trial[fit, i] = eta[fit, i] + share[t] * (trial[fit, i] - eta[fit, i])
            i += cuda.gridsize(1)


@kernel
def copy_rows(fits, source, target):
    """Copy the rows of the given fits, from one number type to another if need be."""
    for t in range(fits.shape[0]):
        fit = fits[t]
        i = cuda.grid(1)
        while i < source.shape[1]:
            target[fit, i] = source[fit, i]
            i += cuda.gridsize(1)


@device
def _measure_part(live, one, other, low, high, scratch):
    """Largest and least difference of two predictors over some live rows, by a block."""
    up, down = -np.inf, -np.inf
    i = low + cuda.threadIdx.x
    while i < high:
        if live[i]:
            move = one[i] - other[i]
            up, down = max(up, move), max(down, -move)
        i += cuda.blockDim.x
    return block_max(up, scratch), block_max(down, scratch)


@kernel
def finish_attempt(X, fits, columns, rows, served, live, predictors, moves, out):
    """``out[t]``: slopes of `multiply_residuals`.  ``moves`` (fits served, parts, 2): of steps.

    It does not matter which of the predictors is the trial: sizes and ranges are the same.
    """
    scratch, (one, other), n_parts = new_scratch(), predictors, moves.shape[1]
    t, n_rows = cuda.blockIdx.x, int64(predictors[0].shape[1])
    _multiply_residuals(X, fits, columns, rows, out, scratch)
    while t < served.shape[0] * n_parts:
        s, part = t // n_parts, t % n_parts
        fit, low, high = served[s], n_rows * part // n_parts, n_rows * (part + 1) // n_parts
        up, down = _measure_part(of_fit(live, fit), one[fit], other[fit], low, high, scratch)
        if cuda.threadIdx.x == 0:
            moves[s, part, 0], moves[s, part, 1] = up, down
        t += cuda.gridDim.x
