"""Products with X, and row by row arithmetic between evaluations."""

from __future__ import annotations

import numpy as np

from ..._compile import bind
from ._cuda import cuda, device, inlined, kernel
from .columns import all_entries, entry
from .team import (
    FULL,
    WARP,
    begin,
    block_sum,
    meet_maxima,
    meet_sums,
    my_team,
    n_teams,
    new_scratch,
    part_of,
    stage_max,
    stage_sum,
    total_max,
    total_sum,
)


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


def _multiply_columns(X, fits, columns, rows, out):
    """out_t = sum of ``number(rows, fit, i, x_i)`` over column ``columns[t]`` for ``fits[t]``.

    A block serves a task at a time, so that sums keep their order.
    """
    scratch = new_scratch()
    t = cuda.blockIdx.x
    while t < fits.shape[0]:
        fit, j, total = fits[t], columns[t], 0.0
        low, high, kind, base = all_entries(X, j)
        for b in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
            q = low + cuda.threadIdx.x
            while q < high:
                row, x = entry(X, q, kind, base)
                if row >= X.first[b]:
                    total += number(rows, fit, row + X.shift[b], x)  # noqa: F821 (bound)
                q += cuda.blockDim.x
        total = block_sum(total, scratch)
        if cuda.threadIdx.x == 0:
            out[t] = total
        t += cuda.gridDim.x


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


def product_with(number):
    """Kernel of the products of columns with a number a row."""
    return kernel(bind(_multiply_columns, number=number))


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


@kernel
def measure_step(exchange, live, eta, trial, out):
    """Largest and least move of the predictor over live rows, and the largest predictor there.

    ``out`` (fits, 2): range of the move, largest size of it.
    """
    begin()
    scratch, turn = new_scratch(), 0
    team, member = my_team(exchange)
    low, high = part_of(eta.shape[1], exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit = exchange.fits[t]
        counts, up, down = of_fit(live, fit), -np.inf, -np.inf
        i = low + cuda.threadIdx.x
        while i < high:
            if counts[i]:
                move = trial[fit, i] - eta[fit, i]
                up, down = max(up, move), max(down, -move)
            i += cuda.blockDim.x
        stage_max(up, 0, scratch)
        stage_max(down, 1, scratch)
        meet_maxima(exchange, 2, turn, scratch)
        up, down = total_max(exchange, 0, turn), total_max(exchange, 1, turn)
        turn += 1
        if member == 0 and cuda.threadIdx.x == 0:
            out[t, 0] = max(up + down, 0.0)
            out[t, 1] = max(max(up, down), 0.0)
        t += n_teams(exchange)


@kernel
def square_step(exchange, rh, eta, trial, out):
    """``out`` (fits, 3): sums of h, h v and h v^2, v the move of the predictor."""
    begin()
    scratch, turn = new_scratch(), 0
    team, member = my_team(exchange)
    low, high = part_of(eta.shape[1], exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit = exchange.fits[t]
        zero, one, two = 0.0, 0.0, 0.0
        i = low + cuda.threadIdx.x
        while i < high:
            h, v = rh[fit, 2 * i + 1], trial[fit, i] - eta[fit, i]
            zero += h
            one += h * v
            two += h * v * v
            i += cuda.blockDim.x
        stage_sum(zero, 0, scratch)
        stage_sum(one, 1, scratch)
        stage_sum(two, 2, scratch)
        meet_sums(exchange, 3, turn, scratch)
        for k in range(3):
            value = total_sum(exchange, k, turn)
            if member == 0 and cuda.threadIdx.x == 0:
                out[t, k] = value
        turn += 1
        t += n_teams(exchange)
