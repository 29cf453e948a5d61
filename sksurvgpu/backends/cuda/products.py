"""Products with X, and row by row arithmetic between evaluations.

Columns are multiplied with a number a row tile by tile: a block holds the numbers of a tile in
shared memory, and its warps add up entries of some columns.  The last block of all that have the
same columns adds up the sums of tiles, so that no bit depends on how many blocks there are.
"""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, uint32, uint64

from ..._compile import BOUND, bind
from ...data.design.columns import INDICATOR
from ._cuda import cuda, device, inlined, kernel, specialize
from .columns import entries, entry
from .team import FULL, WARP, block_max, new_scratch, warp_size, warp_sum

number = size_of = number_at = sum_values = multiply_tile = BOUND


@inlined
def of_fit(values, fit):
    """Row array of a fit; one stands for all fits where they share it."""
    return values[fit if values.shape[0] > 1 else 0]


@device
def _hold(table, held):
    """A table's numbers to shared memory."""
    for t in range(table.shape[0]):
        for b in range(table.shape[1]):
            k = cuda.threadIdx.x
            while k < table.shape[2]:
                held[(t * table.shape[1] + b) * table.shape[2] + k] = table[t, b, k]
                k += cuda.blockDim.x
    cuda.syncthreads()


@device
def _add_dense(X, lists, row, lane, lanes, coef):
    """A lane's part of a row's product with the coefficients of dense columns."""
    tile, end, total = int64(0), X.cut.shape[0] - 1, 0.0
    while end - tile > 1:
        middle = (tile + end) >> 1
        if X.cut[middle] <= row:
            tile = middle
        else:
            end = middle
    while lane < lists.dense.shape[0]:
        c = lists.dense[lane]
        if coef[c] != 0.0:
            total += coef[c] * X.values[X.value_ptr[tile, c] + row - X.cut[tile]]
        lane += lanes
    return total


@device
def _multiply_row(X, lists, row, lane, lanes, coef):
    """A lane's part of a row's product with coefficients; four entries are on their way at once."""
    total, step = 0.0, uint64(lanes)
    q, end = uint64(lists.ptr[row] + lane), uint64(lists.ptr[row + 1])
    while q < end:
        q1, last = q + step, end - uint64(1)
        q2 = q1 + step
        q3 = q2 + step
        p1, p2, p3 = min(q1, last), min(q2, last), min(q3, last)
        a, b = coef[uint64(lists.column[q])], coef[uint64(lists.column[p1])]
        c, d = coef[uint64(lists.column[p2])], coef[uint64(lists.column[p3])]
        if lists.value.shape[0] > 0 and (a != 0.0 or b != 0.0 or c != 0.0 or d != 0.0):
            a, b = a * lists.value[q], b * lists.value[p1]
            c, d = c * lists.value[p2], d * lists.value[p3]
        b, c, d = b if q1 < end else 0.0, c if q2 < end else 0.0, d if q3 < end else 0.0
        total += (a + b) + (c + d)
        q = q3 + step
    if lane < lists.dense.shape[0]:
        total += _add_dense(X, lists, row, lane, lanes, coef)
    return total


@kernel
def predict(X, lists, fits, table, lanes, is_near, offset, eta):
    """eta = offset + X coef, from scratch, `lanes` neighbouring threads a row.

    ``table`` (fits served, pieces, columns of X): coefficients of the columns of X in every piece;
    `is_near`: whether shared memory holds it.
    """
    held, size = cuda.shared.array(0, float64), table.shape[1] * table.shape[2]
    if is_near == 1:
        _hold(table, held)
    doubled = cuda.ffs(lanes) - 1  # a division would take half of the registers
    lane, place = cuda.grid(1) & (lanes - 1), (cuda.threadIdx.x % WARP) >> doubled
    for b in range(X.first.shape[0]):
        row_of_warp = X.first[b] + (cuda.grid(1) >> doubled) - place
        while row_of_warp < lists.ptr.shape[0] - 1:  # all lanes take part in sums
            row = row_of_warp + place
            is_row, i = row < lists.ptr.shape[0] - 1, row + X.shift[b]
            for t in range(fits.shape[0]):
                total, step, coef = 0.0, lanes >> 1, table[t, b]
                if is_near == 1:
                    coef = held[t * size + b * table.shape[2] :]
                if is_row:
                    total = _multiply_row(X, lists, row, lane, lanes, coef)
                while step > 0:
                    total += cuda.shfl_xor_sync(FULL, total, step)
                    step >>= 1
                if is_row and lane == 0:
                    own = of_fit(offset, fits[t])
                    eta[fits[t], i] = total + (own[i] if own.shape[0] > 0 else 0.0)
            row_of_warp += cuda.gridsize(1) >> doubled


class Shares(NamedTuple):
    """Columns that fits ask for, shared out, and sums over tiles that wait to be added up."""

    fits: np.ndarray  # int32: fits that the launch serves
    ptr: np.ndarray  # int64 per fit served + 1: its columns
    column: np.ndarray  # int64: model columns, those of one fit after the other
    sums: np.ndarray  # float64 (tiles, as many columns or more)
    arrived: np.ndarray  # uint32 (fits served, parts of a fit's columns): tiles; 0 between launches
    is_near: int  # whether shared memory holds the numbers of a tile


@device
def _share_of(X, shares, task):
    """Place in the fits served, tile, part, and first and end of the columns, of a block's task."""
    n_tiles, n_parts = uint32(X.cut.shape[0] - 1), uint32(shares.arrived.shape[1])
    rest, part = uint32(task) // n_parts, int64(uint32(task) % n_parts)
    s, tile = int64(rest // n_tiles), int64(rest % n_tiles)
    first, size = shares.ptr[s], shares.ptr[s + 1] - shares.ptr[s]
    low, high = size * part // int64(n_parts), size * (part + 1) // int64(n_parts)
    return s, tile, part, first + low, first + high


def _number_at(X, rows, fit, piece, row):
    """Number of a row of X, 0 where the piece lacks it."""
    return number(rows, fit, row + X.shift[piece]) if row >= X.first[piece] else 0.0


@device
def _sum_ones(X, span, values):
    """A lane's part of the sum over a column of ones, whose row numbers are read in pairs."""
    lane, one, two = cuda.threadIdx.x % WARP, 0.0, 0.0
    q, end = uint64((span.low + 1) // 2 + lane), uint64(span.high // 2)
    if lane == 0 and span.low % 2 == 1 and span.low < span.high:
        one = values[uint64(X.indices[uint64(span.low)])]
    if lane == 1 and span.high % 2 == 1 and span.low + span.low % 2 < span.high:
        one = values[uint64(X.indices[uint64(span.high - 1)])]
    while q < end:
        p = q + uint64(WARP)
        pair, other = X.pairs[q], X.pairs[min(p, end - uint64(1))]  # on their way at once
        one += values[uint64(pair & uint32(0xFFFF))]
        two += values[uint64(pair >> uint32(16))]
        if p < end:
            one += values[uint64(other & uint32(0xFFFF))]
            two += values[uint64(other >> uint32(16))]
        q = p + uint64(warp_size())
    return one + two


def _sum_values(X, rows, fit, piece, span, is_near, values):
    """A lane's part of the sum over any column."""
    q, total = span.low + cuda.threadIdx.x % WARP, 0.0
    while q < span.high:
        row, x = entry(X, q, span)
        if is_near == 1:
            total += size_of(x) * values[uint64(row - span.row)]
        else:
            total += size_of(x) * number_at(X, rows, fit, piece, row)
        q += warp_size()
    return total


def _multiply_tile(X, rows, shares, task, values):
    """Sums over the entries of some columns in a tile, a warp each."""
    s, tile, _, low, high = _share_of(X, shares, task)
    fit, row, rest = shares.fits[s], X.cut[tile], X.cut[tile + 1] - X.cut[tile]
    for piece in range(X.first.shape[0]):
        i = cuda.threadIdx.x
        while shares.is_near == 1 and i < rest:
            values[uint64(i)] = number_at(X, rows, fit, piece, row + i)
            i += cuda.blockDim.x
        cuda.syncthreads()
        k = low + cuda.threadIdx.x // WARP
        while k < high:
            j, total = shares.column[uint64(k)], 0.0
            if X.piece_ptr[j, 0] <= piece and piece < X.piece_ptr[j, 1]:
                span = entries(X, j, tile)
                if span.kind == INDICATOR and shares.is_near == 1:
                    total = warp_sum(_sum_ones(X, span, values))
                else:
                    total = sum_values(X, rows, fit, piece, span, shares.is_near, values)
                    total = warp_sum(total)
            if cuda.threadIdx.x % WARP == 0:
                shares.sums[tile, k] = total + (shares.sums[tile, k] if piece > 0 else 0.0)
            k += cuda.blockDim.x // WARP
        cuda.syncthreads()


@device
def _is_last(X, shares, task):
    """Whether the sums of all other tiles are there; the block has met since it wrote its own."""
    s, _, part, _, _ = _share_of(X, shares, task)
    is_last = 0
    if cuda.threadIdx.x == 0:
        cuda.threadfence()
        before = cuda.atomic.add(shares.arrived, (s, part), uint32(1))
        if before == uint32(X.cut.shape[0] - 2):
            cuda.threadfence()
            is_last, shares.arrived[s, part] = 1, uint32(0)
    return cuda.syncthreads_or(is_last) != 0


@device
def _add_tiles(X, shares, task, out):
    """Sums over all rows."""
    _, _, _, low, high = _share_of(X, shares, task)
    k = low + cuda.threadIdx.x
    while k < high:
        total = 0.0
        for tile in range(X.cut.shape[0] - 1):
            total += shares.sums[tile, k]
        out[k] = total
        k += cuda.blockDim.x


def _multiply_columns(X, shares, rows, out):
    """``out[k]``: sum of the k-th column times a number a row of its fit."""
    values, n_tiles = cuda.shared.array(0, float64), X.cut.shape[0] - 1
    task = int64(cuda.blockIdx.x)
    while task < shares.arrived.size * n_tiles:
        multiply_tile(X, rows, shares, task, values)
        if _is_last(X, shares, task):
            _add_tiles(X, shares, task, out)
        task += cuda.gridDim.x


@device
def _residual(rows, fit, i):
    return rows.u[fit, i]


@device
def _size(rows, fit, i):
    """u is a difference, of what was observed and what is expected: rounding follows their size."""
    events = _events(rows, fit, i)
    return abs(events) + abs(events - rows.u[fit, i])


@device
def _events(rows, fit, i):
    return rows.value[i] * of_fit(rows.weight, fit)[i]


@device
def _as_it_is(x):
    return x


@device
def absolute(x):
    return abs(x)


def _tile_with(number, size_of=_as_it_is):
    """Products of columns and a tile, with a number a row."""
    names = {"number_at": device(bind(_number_at, number=number))}
    names["sum_values"] = device(bind(_sum_values, size_of=size_of, **names))
    return device(bind(_multiply_tile, **names))


def product_with(number, size_of=_as_it_is):
    """Kernel of the products of columns, or of the sizes of entries, with a number a row."""
    label = number.__name__.strip("_")
    return specialize(_multiply_columns, label, multiply_tile=_tile_with(number, size_of))


_multiply_residuals = device(bind(_multiply_columns, multiply_tile=_tile_with(_residual)))
multiply_sizes = product_with(_size, absolute)
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
def finish_attempt(X, shares, rows, live, predictors, moves, out):
    """``out``: slopes of columns.  ``moves`` (fits served, parts, 2): of steps.

    It does not matter which of the predictors is the trial: sizes and ranges are the same.
    """
    scratch, (one, other), n_parts = new_scratch(), predictors, moves.shape[1]
    t, n_rows = cuda.blockIdx.x, int64(predictors[0].shape[1])
    _multiply_residuals(X, shares, rows, out)
    while t < shares.fits.shape[0] * n_parts:
        s, part = t // n_parts, t % n_parts
        fit, low, high = shares.fits[s], n_rows * part // n_parts, n_rows * (part + 1) // n_parts
        up, down = _measure_part(of_fit(live, fit), one[fit], other[fit], low, high, scratch)
        if cuda.threadIdx.x == 0:
            moves[s, part, 0], moves[s, part, 1] = up, down
        t += cuda.gridDim.x
