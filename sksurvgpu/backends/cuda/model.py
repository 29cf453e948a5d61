"""The quadratic model of fits on the device: curvatures of columns, and their loads in bins.

The formulas are those of `backends.cpu.bins`.  A block serves a task, one column of one fit, or
adds up h over a part of the rows.
"""

from typing import NamedTuple

import numpy as np
from numba import float64, int64

from ._cuda import cuda, device, kernel
from .columns import entries, entry
from .team import FULL, WARP, block_sum, new_scratch, warp_sum


class Model(NamedTuple):
    """Numbers per fit and row, or per fit and bin; an array that is empty takes no part.

    Where bins are many, one a group, only `own`, `h` and `inverse` are there.
    """

    own: np.ndarray  # int32 per row: bin of its exit, or its group
    enter: np.ndarray  # int32 per row: bin of its entry
    enter_idx: np.ndarray  # int32 per row: cell of its entry
    hazard: np.ndarray  # float64 (fits, cells)
    h: np.ndarray  # (fits, rows), the one array that may be in single precision
    w: np.ndarray  # float64 (fits, rows)
    carried: np.ndarray  # float64 (fits, rows): c_i
    last: np.ndarray  # int64 per bin: last bin of its stratum
    base: np.ndarray  # float64 (fits, bins): A[start]
    jump: np.ndarray  # A[end] - A[start]
    decay: np.ndarray  # 1; in logarithms A[start] / A[end], as `w` is w A[start] there, `base` 1
    after: np.ndarray  # B[end]
    fall: np.ndarray  # B[start] - B[end]
    fade: np.ndarray  # 1; in logarithms B[end] / B[start], as `carried` is c B[end] there
    inverse: np.ndarray  # 1 / N, 0 where nobody died


@device
def _add_to_bins(k, h, w, c, n_bins, sums):
    """Add every lane's numbers to its bin k, none where k < 0, in an order that is always the same.

    Lanes of one bin hand their sums to the first of them, which adds them to the warp's.
    """
    cuda.syncwarp()
    lane, peers = cuda.threadIdx.x % WARP, cuda.match_any_sync(FULL, k)
    after = int64(cuda.ffs((int64(peers) & FULL) >> (lane + 1)))
    next_peer = lane + after if after > 0 else int64(-1)
    while cuda.any_sync(FULL, next_peer >= 0):
        source = next_peer if next_peer >= 0 else lane
        more_h, more_w, more_c = cuda.shfl_sync(FULL, h, source), 0.0, 0.0
        if sums.shape[0] > n_bins:
            more_w = cuda.shfl_sync(FULL, w, source)
        if sums.shape[0] > 2 * n_bins:
            more_c = cuda.shfl_sync(FULL, c, source)
        beyond = cuda.shfl_sync(FULL, next_peer, source)
        if next_peer >= 0:
            h, w, c, next_peer = h + more_h, w + more_w, c + more_c, beyond
    if k >= 0 and cuda.ffs(peers) - 1 == lane:
        sums[k] += h
        if sums.shape[0] > n_bins:
            sums[n_bins + k] += w
        if sums.shape[0] > 2 * n_bins:
            sums[2 * n_bins + k] += c


@device
def _read_entry(X, model, fit, piece, q, span):
    """An entry's bin (-1 where the piece lacks its row), row copy, and x, x h, x w and x c."""
    row, x = entry(X, q, span)
    if row < X.first[piece]:
        return int64(-1), row, 0.0, 0.0, 0.0, 0.0
    i, w, c = row + X.shift[piece], 0.0, 0.0
    if model.w.shape[1] > 0:
        w = x * model.w[fit, i]
    if model.carried.shape[1] > 0:
        c = x * model.carried[fit, i]
    return int64(model.own[i]), i, x, x * model.h[fit, i], w, c


@device
def _load_tile(X, model, fit, piece, span, sums):
    """The warp's sums of x h, x w and x c by bin of exit; the thread's part of sum x^2 h."""
    n_bins, lane, total = model.last.shape[0], cuda.threadIdx.x % WARP, 0.0
    q = span.low + lane
    while q - lane < span.high:
        k, i, x, h, w, c = int64(-1), int64(0), 0.0, 0.0, 0.0, 0.0
        if q < span.high:
            k, i, x, h, w, c = _read_entry(X, model, fit, piece, q, span)
        total += x * h
        if model.hazard.shape[1] > 0:  # take the time before the row's entry out of its loads
            enter, part = int64(-1), 0.0
            if k >= 0:
                enter, part = int64(model.enter[i]), w * model.hazard[fit, model.enter_idx[i]]
            _add_to_bins(enter, -part, -w, 0.0, n_bins, sums)
            h += part
        _add_to_bins(k, h, w, c, n_bins, sums)
        q += cuda.warpsize
    return total


@device
def _load_entries(X, model, fit, j, sums):
    """`_load_tile` of all tiles and pieces, which warps take in turn."""
    total = 0.0
    for piece in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
        tile = cuda.threadIdx.x // WARP
        while tile < X.cut.shape[0] - 1:
            total += _load_tile(X, model, fit, piece, entries(X, j, tile), sums)
            tile += cuda.blockDim.x // WARP
    return total


@device
def _combine(model, fit, size, sums):
    """Add up the warps' sums in their order, and take out of loads what follows from their bin."""
    k, n_bins = cuda.threadIdx.x, model.last.shape[0]
    while k < n_bins:
        place = k
        while place < size:
            other = place + size
            while other < sums.shape[0]:
                sums[place] += sums[other]
                other += size
            place += n_bins
        if model.w.shape[1] > 0:
            sums[k] -= model.base[fit, k] * sums[n_bins + k]
        if model.carried.shape[1] > 0:
            sums[k] -= model.after[fit, k] * sums[2 * n_bins + k]
        k += cuda.blockDim.x


@device
def _accumulate(last, decay, from_end, sums):
    """Running sums over the bins of each stratum, which ends with bin `last`; they are few."""
    for k in range(1, last.shape[0]):
        at = last.shape[0] - 1 - k if from_end else k
        before = at + 1 if from_end else at - 1
        if last[before] == last[at]:
            sums[at] += decay[at] * sums[before]


@device
def _finish_load(model, fit, sums, out):
    """Loads with what comes from other bins; the thread's part of the sum of load^2 / N."""
    squares, k, n_bins = 0.0, cuda.threadIdx.x, model.last.shape[0]
    while k < n_bins:
        load, last = sums[k], model.last[k]
        if model.w.shape[1] > 0 and k < last:
            load += model.jump[fit, k] * sums[n_bins + k + 1]
        if model.carried.shape[1] > 0 and k > 0 and model.last[k - 1] == last:
            load += model.fall[fit, k] * sums[2 * n_bins + k - 1]
        squares += load * load * model.inverse[fit, k]
        if out.shape[0] > 0:
            out[k] = load
        k += cuda.blockDim.x
    return squares


def numbers_of(model):
    """How many sums a bin has while a column is loaded."""
    return 1 + (model.w.shape[1] > 0) + (model.carried.shape[1] > 0)


@device
def _keep_curvature(total, squares, constant, out):
    """Curvature in the model, 0 below a share of the one without bins, and that one."""
    centred = total - squares
    if cuda.threadIdx.x == 0:
        out[0] = centred if centred > constant * total else 0.0
        out[1] = total


@device
def _add_up(h, fits, sums, scratch):
    """``sums`` (fits served, parts): h added up over parts of the rows."""
    t, n_rows, n_parts = cuda.blockIdx.x, int64(h.shape[1]), sums.shape[1]
    while t < fits.shape[0] * n_parts:
        s, part = t // n_parts, t % n_parts
        i, total = n_rows * part // n_parts + cuda.threadIdx.x, 0.0
        while i < n_rows * (part + 1) // n_parts:
            total += h[fits[s], i]
            i += cuda.blockDim.x
        total = block_sum(total, scratch)
        if cuda.threadIdx.x == 0:
            sums[s, part] = total
        t += cuda.gridDim.x


@kernel
def load_few(X, fits, columns, model, constant, size, places, loads, curvature, served, sums):
    """Curvature of a task's column, (tasks, 2), where bins are few.

    Its loads go to ``loads[fit, places[task]]``, or nowhere if `places` is empty.  Every warp has
    `size` sums of its own.
    """
    scratch, shared = new_scratch(), cuda.shared.array(0, float64)
    warp, n_warps = cuda.threadIdx.x // WARP, cuda.blockDim.x // WARP
    n_bins, t = model.last.shape[0], cuda.blockIdx.x
    own = shared[warp * size : (warp + 1) * size]
    while t < fits.shape[0]:
        k, fit, place = cuda.threadIdx.x % WARP, fits[t], int64(0)
        while k < size:
            own[k] = 0.0
            k += cuda.warpsize
        total = block_sum(_load_entries(X, model, fit, columns[t], own), scratch)
        _combine(model, fit, size, shared[: n_warps * size])
        cuda.syncthreads()
        if cuda.threadIdx.x == cuda.blockDim.x - 1 and model.w.shape[1] > 0:
            _accumulate(model.last, model.decay[fit], True, shared[n_bins : 2 * n_bins])
        if cuda.threadIdx.x == 0 and model.carried.shape[1] > 0:
            _accumulate(model.last, model.fade[fit], False, shared[2 * n_bins : 3 * n_bins])
        cuda.syncthreads()
        if places.shape[0] > 0:
            place = places[t]
        squares = block_sum(_finish_load(model, fit, shared, loads[fit, place]), scratch)
        _keep_curvature(total, squares, constant, curvature[t])
        t += cuda.gridDim.x
    _add_up(model.h, served, sums, scratch)


@kernel
def load_groups(X, fits, columns, model, constant, curvature, served, sums):
    """Curvature of a task's column, (tasks, 2), where every group is a bin, without copies of rows.

    A group's entries are neighbours in one tile: the thread at the first of them adds them up.
    """
    scratch, t = new_scratch(), cuda.blockIdx.x
    while t < fits.shape[0]:
        fit, total, squares, tile = fits[t], 0.0, 0.0, cuda.threadIdx.x // WARP
        while tile < X.cut.shape[0] - 1:
            span = entries(X, columns[t], tile)
            q = span.low + cuda.threadIdx.x % WARP
            while q < span.high:
                i, x = entry(X, q, span)
                total += x * x * model.h[fit, i]
                if q == span.low or model.own[entry(X, q - 1, span)[0]] != model.own[i]:
                    load = _sum_run(X, model, fit, q, span)
                    squares += load * load * model.inverse[fit, model.own[i]]
                q += cuda.warpsize
            tile += cuda.blockDim.x // WARP
        total = block_sum(total, scratch)
        _keep_curvature(total, block_sum(squares, scratch), constant, curvature[t])
        t += cuda.gridDim.x
    _add_up(model.h, served, sums, scratch)


@device
def _sum_run(X, model, fit, q, span):
    """Sum of x h over the entries of one group, of which that at q is the first."""
    load, group = 0.0, int64(-1)
    while q < span.high:
        i, x = entry(X, q, span)
        if group >= 0 and model.own[i] != group:
            break
        group = int64(model.own[i])
        load += x * model.h[fit, i]
        q += 1
    return load


@device
def _spend(X, model, fit, j, sums):
    """The lane's part of the sum of load^2 / N over the groups of a column; clears its loads."""
    squares, lane = 0.0, cuda.threadIdx.x
    for piece in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
        for tile in range(X.cut.shape[0] - 1):
            span = entries(X, j, tile)
            q = span.low + lane
            while q - lane < span.high:
                k = int64(-1)
                if q < span.high:
                    k = _read_entry(X, model, fit, piece, q, span)[0]
                cuda.syncwarp()
                first = cuda.ffs(cuda.match_any_sync(FULL, k)) - 1
                if k >= 0 and lane == first:
                    squares += sums[k] * sums[k] * model.inverse[fit, k]
                    sums[k] = 0.0
                q += cuda.warpsize
    return squares


@kernel
def load_copies(X, fits, columns, model, constant, sums_of_warps, curvature, served, sums):
    """Curvature of a task's column, (tasks, 2), where every group is a bin, and rows have copies.

    Copies of a group's rows are no neighbours.  A block is a warp, whose `sums_of_warps` (warps,
    groups) are zero before and after.
    """
    scratch, t, own = new_scratch(), cuda.blockIdx.x, sums_of_warps[cuda.blockIdx.x]
    while t < fits.shape[0]:
        total = warp_sum(_load_entries(X, model, fits[t], columns[t], own))
        squares = warp_sum(_spend(X, model, fits[t], columns[t], own))
        _keep_curvature(total, squares, constant, curvature[t])
        t += cuda.gridDim.x
    _add_up(model.h, served, sums, scratch)
