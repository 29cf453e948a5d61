"""The quadratic model's second term on the device: loads of columns in bins, and curvatures.

The formulas are those of `backends.cpu.bins`.  A block serves a task, one column of one fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int64

from ._cuda import cuda, device, kernel
from .columns import all_entries, entry
from .team import FULL, WARP, block_sum, new_scratch


class Bins(NamedTuple):
    """Bins of rows, and the model's numbers per fit and bin; an array that is empty takes no part.

    Where bins are many, one a group, only `own` and `inverse` are there.
    """

    own: np.ndarray  # int32 per row: bin of its exit, or its group
    enter: np.ndarray  # int32 per row: bin of its entry
    enter_idx: np.ndarray  # int32 per row: cell of its entry
    hazard: np.ndarray  # float64 (fits, cells)
    w: np.ndarray  # float64 (fits, rows)
    carried: np.ndarray  # float64 (fits, rows): c_i
    last: np.ndarray  # int64 per bin: last bin of its stratum
    base: np.ndarray  # float64 (fits, bins): A[start]
    jump: np.ndarray  # A[end] - A[start]
    after: np.ndarray  # B[end]
    fall: np.ndarray  # B[start] - B[end]
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
def _read_entry(X, bins, rh, fit, piece, q, kind, base):
    """An entry's bin (-1 where the piece lacks its row), row copy, and x, x h, x w and x c."""
    row, x = entry(X, q, kind, base)
    if row < X.first[piece]:
        return int64(-1), row, 0.0, 0.0, 0.0, 0.0
    i, w, c = row + X.shift[piece], 0.0, 0.0
    if bins.w.shape[1] > 0:
        w = x * bins.w[fit, i]
    if bins.carried.shape[1] > 0:
        c = x * bins.carried[fit, i]
    return int64(bins.own[i]), i, x, x * rh[fit, 2 * i + 1], w, c


@device
def _load_entries(X, bins, rh, fit, j, sums):
    """The warp's sums of x h, x w and x c by bin of exit; the thread's part of sum x^2 h."""
    low, high, kind, base = all_entries(X, j)
    total, n_bins, lane = 0.0, bins.last.shape[0], cuda.threadIdx.x % WARP
    for piece in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
        q = low + cuda.threadIdx.x
        while q - lane < high:
            k, i, x, h, w, c = int64(-1), int64(0), 0.0, 0.0, 0.0, 0.0
            if q < high:
                k, i, x, h, w, c = _read_entry(X, bins, rh, fit, piece, q, kind, base)
            total += x * h
            if bins.enter.shape[0] > 0:  # take the time before the row's entry out of its loads
                enter, part = int64(-1), 0.0
                if k >= 0:
                    enter, part = int64(bins.enter[i]), w * bins.hazard[fit, bins.enter_idx[i]]
                _add_to_bins(enter, -part, -w, 0.0, n_bins, sums)
                h += part
            _add_to_bins(k, h, w, c, n_bins, sums)
            q += cuda.blockDim.x
    return total


@device
def _combine(bins, fit, size, sums):
    """Add up the warps' sums in their order, and take out of loads what follows from their bin."""
    k, n_bins = cuda.threadIdx.x, bins.last.shape[0]
    while k < n_bins:
        place = k
        while place < size:
            other = place + size
            while other < sums.shape[0]:
                sums[place] += sums[other]
                other += size
            place += n_bins
        if bins.w.shape[1] > 0:
            sums[k] -= bins.base[fit, k] * sums[n_bins + k]
        if bins.carried.shape[1] > 0:
            sums[k] -= bins.after[fit, k] * sums[2 * n_bins + k]
        k += cuda.blockDim.x


@device
def _accumulate(last, from_end, sums):
    """Running sums over the bins of each stratum, which ends with bin `last`, by one warp."""
    lane, known, stratum = cuda.threadIdx.x % WARP, 0.0, int64(-1)
    k = lane
    while k - lane < last.shape[0]:
        at = last.shape[0] - 1 - k if from_end else k
        total, own, step = 0.0, int64(-1), 1
        if k < last.shape[0]:
            total, own = sums[at], last[at]
        while step < WARP:
            theirs = cuda.shfl_up_sync(FULL, total, step)
            if cuda.shfl_up_sync(FULL, own, step) == own and lane >= step:
                total += theirs
            step *= 2
        total += known if own == stratum else 0.0
        if k < last.shape[0]:
            sums[at] = total
        known, stratum = cuda.shfl_sync(FULL, total, WARP - 1), cuda.shfl_sync(FULL, own, WARP - 1)
        k += cuda.warpsize


@device
def _finish_load(bins, fit, sums, out):
    """Loads with what comes from other bins; the thread's part of the sum of load^2 / N."""
    squares, k, n_bins = 0.0, cuda.threadIdx.x, bins.last.shape[0]
    while k < n_bins:
        load, last = sums[k], bins.last[k]
        if bins.w.shape[1] > 0 and k < last:
            load += bins.jump[fit, k] * sums[n_bins + k + 1]
        if bins.carried.shape[1] > 0 and k > 0 and bins.last[k - 1] == last:
            load += bins.fall[fit, k] * sums[2 * n_bins + k - 1]
        squares += load * load * bins.inverse[fit, k]
        out[k] = load
        k += cuda.blockDim.x
    return squares


def numbers_of(bins):
    """How many sums a bin has while a column is loaded."""
    return 1 + (bins.w.shape[1] > 0) + (bins.carried.shape[1] > 0)


@kernel
def load_few(X, fits, columns, bins, rh, constant, size, loads, curvature):
    """Loads of a task's column in all bins into ``loads[fit, column]``; its curvature.

    ``curvature`` (tasks, 2): in the model, 0 below the share `constant` of the one without bins,
    and that one.  Every warp has `size` sums of its own.
    """
    scratch, shared = new_scratch(), cuda.shared.array(0, float64)
    warp, n_warps = cuda.threadIdx.x // WARP, cuda.blockDim.x // WARP
    n_bins, t = bins.last.shape[0], cuda.blockIdx.x
    own = shared[warp * size : (warp + 1) * size]
    while t < fits.shape[0]:
        k = cuda.threadIdx.x % WARP
        while k < size:
            own[k] = 0.0
            k += cuda.warpsize
        total = block_sum(_load_entries(X, bins, rh, fits[t], columns[t], own), scratch)
        _combine(bins, fits[t], size, shared[: n_warps * size])
        cuda.syncthreads()
        if warp == n_warps - 1 and bins.w.shape[1] > 0:
            _accumulate(bins.last, True, shared[n_bins : 2 * n_bins])
        if warp == 0 and bins.carried.shape[1] > 0:
            _accumulate(bins.last, False, shared[2 * n_bins : 3 * n_bins])
        cuda.syncthreads()
        squares = _finish_load(bins, fits[t], shared, loads[fits[t], columns[t]])
        centred = total - block_sum(squares, scratch)
        if cuda.threadIdx.x == 0:
            curvature[t, 0] = centred if centred > constant * total else 0.0
            curvature[t, 1] = total
        t += cuda.gridDim.x


@kernel
def clear_loads(fits, columns, loads):
    """Set the loads of columns to zero."""
    t = cuda.blockIdx.x
    while t < fits.shape[0]:
        k = cuda.threadIdx.x
        while k < loads.shape[2]:
            loads[fits[t], columns[t], k] = 0.0
            k += cuda.blockDim.x
        t += cuda.gridDim.x


@kernel
def load_groups(X, fits, columns, bins, rh, constant, curvature):
    """Curvature of a task's column where every group is a bin, and without bins.

    The entries of a group are neighbours: the thread at the first of them sums them up.  With
    pieces of time they are not, and the curvature without bins, which is larger, stands for both.
    """
    scratch, is_whole = new_scratch(), X.first.shape[0] == 1
    t = cuda.blockIdx.x
    while t < fits.shape[0]:
        fit, j, total, centre = fits[t], columns[t], 0.0, 0.0
        low, high, kind, base = all_entries(X, j)
        for b in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
            q = low + cuda.threadIdx.x
            while q < high:
                row, x = entry(X, q, kind, base)
                if row >= X.first[b]:
                    i = row + X.shift[b]
                    total += x * x * rh[fit, 2 * i + 1]
                    if is_whole and (
                        q == low or bins.own[entry(X, q - 1, kind, base)[0]] != bins.own[i]
                    ):
                        load = _sum_run(X, bins, rh, fit, (q, high, kind, base))
                        centre += load * load * bins.inverse[fit, bins.own[i]]
                q += cuda.blockDim.x
        total = block_sum(total, scratch)
        centred = total - block_sum(centre, scratch)
        if cuda.threadIdx.x == 0:
            curvature[t, 0] = centred if centred > constant * total else 0.0
            curvature[t, 1] = total
        t += cuda.gridDim.x


@device
def _sum_run(X, bins, rh, fit, span):
    """Sum of x h over the entries of one group, which begin at the first of the span."""
    q, high, kind, base = span
    load, group = 0.0, int64(-1)
    while q < high:
        i, x = entry(X, q, kind, base)
        if group >= 0 and bins.own[i] != group:
            break
        group = int64(bins.own[i])
        load += x * rh[fit, 2 * i + 1]
        q += 1
    return load
