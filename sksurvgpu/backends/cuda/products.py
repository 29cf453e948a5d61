"""Products with X, and row by row arithmetic between evaluations."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._compile import bind
from ._cuda import cuda, device, inlined, kernel
from .columns import all_entries, entries, entry, my_ranges
from .team import (
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
def _start_rows(X, first, end, offset, eta):
    """eta = offset on the copies of a member's rows."""
    for b in range(X.first.shape[0]):
        low, shift = max(X.cut[first], X.first[b]), X.shift[b]
        row = low + cuda.threadIdx.x
        while row < X.cut[end]:
            eta[row + shift] = offset[row + shift] if offset.shape[0] > 0 else 0.0
            row += cuda.blockDim.x


@device
def _add_column(X, j, step, first, end, eta):
    """eta += x_j step on a member's rows, by one warp."""
    low, high, kind, base = entries(X, j, first, end)
    for b in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
        q = low + cuda.threadIdx.x % WARP
        while q < high:
            row, x = entry(X, q, kind, base)
            if row >= X.first[b]:
                cuda.atomic.add(eta, row + X.shift[b], x * step)
            q += WARP


class Move(NamedTuple):
    """Nonzero coefficients, those of one fit after the other."""

    ptr: np.ndarray  # int64 per fit served + 1
    column: np.ndarray  # int64
    step: np.ndarray  # float64


@kernel
def predict(exchange, X, move, offset, eta_of_fits):
    """eta = offset + X coef, from scratch.  A member adds to its own rows, a warp a column."""
    team, _ = my_team(exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit = exchange.fits[t]
        _predict_fit(exchange, X, move, t, of_fit(offset, fit), eta_of_fits[fit])
        t += n_teams(exchange)


@device
def _predict_fit(exchange, X, move, t, offset, eta):
    first, end = my_ranges(X, exchange)
    warp, n_warps = cuda.threadIdx.x // WARP, cuda.blockDim.x // WARP
    _start_rows(X, first, end, offset, eta)
    cuda.syncthreads()
    at = move.ptr[t] + warp
    while at < move.ptr[t + 1]:
        _add_column(X, move.column[at], move.step[at], first, end, eta)
        at += n_warps


@kernel
def step(exchange, X, move, offset, live, eta_of_fits, trial_of_fits, out):
    """`predict` into the trial, and how far it is from eta over live rows.

    ``out[2 * fit:]``: range of the move, largest size of it.
    """
    begin()
    scratch, turn = new_scratch(), 0
    team, member = my_team(exchange)
    first, end = my_ranges(X, exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit, up, down = exchange.fits[t], -np.inf, -np.inf
        counts, eta, trial = of_fit(live, fit), eta_of_fits[fit], trial_of_fits[fit]
        _predict_fit(exchange, X, move, t, of_fit(offset, fit), trial)
        cuda.syncthreads()
        for b in range(X.first.shape[0]):
            row = max(X.cut[first], X.first[b]) + cuda.threadIdx.x
            while row < X.cut[end]:
                i = row + X.shift[b]
                if counts[i]:
                    up, down = max(up, trial[i] - eta[i]), max(down, eta[i] - trial[i])
                row += cuda.blockDim.x
        stage_max(up, 0, scratch)
        stage_max(down, 1, scratch)
        meet_maxima(exchange, 2, turn, scratch)
        up, down = total_max(exchange, 0, turn), total_max(exchange, 1, turn)
        turn += 1
        if member == 0 and cuda.threadIdx.x == 0:
            out[2 * fit] = max(up + down, 0.0)
            out[2 * fit + 1] = max(max(up, down), 0.0)
        t += n_teams(exchange)


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
