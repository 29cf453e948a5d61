"""The quadratic model's second term on the device: loads of columns in bins, and curvatures.

The formulas are those of `backends.cpu.bins`.  A block serves a task, one column of one fit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int64

from ._cuda import cuda, device, kernel
from .columns import all_entries, entry
from .team import FULL, WARP, block_sum, new_scratch, warp_sum


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
def add_uniform(sums, k, value):
    """Add a value of every lane to ``sums[k]``, k being the same in all lanes."""
    value = warp_sum(value)
    if cuda.threadIdx.x % WARP == 0:
        cuda.atomic.add(sums, k, value)


@device
def _add_entry(bins, fit, i, x, load, later):
    """Take the time before the row's entry out of its loads."""
    part, enter = x * bins.w[fit, i] * bins.hazard[fit, bins.enter_idx[i]], bins.enter[i]
    cuda.atomic.add(load, bins.own[i], part)
    cuda.atomic.add(load, enter, -part)
    cuda.atomic.add(later, enter, -x * bins.w[fit, i])


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
def _deposit(k, h, w, c, sums):
    """Add every lane's numbers to its bin k; a warp's entries mostly belong to one."""
    load, later, carried = sums
    leader = cuda.shfl_sync(FULL, k, 0)
    if leader >= 0 and cuda.all_sync(FULL, k == leader or k < 0):
        add_uniform(load, leader, h)
        add_uniform(later, leader, w)
        add_uniform(carried, leader, c)
    elif k >= 0:
        cuda.atomic.add(load, k, h)
        cuda.atomic.add(later, k, w)
        cuda.atomic.add(carried, k, c)


@device
def _load_entries(X, bins, rh, fit, j, sums):
    """Sums of x h, x w and x c by bin of exit; the thread's part of sum x^2 h."""
    low, high, kind, base = all_entries(X, j)
    total, n_tiles = 0.0, (high - low + cuda.blockDim.x - 1) // cuda.blockDim.x
    for piece in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
        for tile in range(n_tiles):
            q = low + tile * cuda.blockDim.x + cuda.threadIdx.x
            k, h, w, c = int64(-1), 0.0, 0.0, 0.0
            if q < high:
                k, i, x, h, w, c = _read_entry(X, bins, rh, fit, piece, q, kind, base)
                total += x * h
                if k >= 0 and bins.enter.shape[0] > 0:
                    _add_entry(bins, fit, i, x, sums[0], sums[1])
            _deposit(k, h, w, c, sums)
    return total


@device
def _finish_load(bins, fit, total, sums, constant, out):
    """Loads from the sums by bin of exit; the centred curvature."""
    load, later, carried = sums
    n_bins, before = load.shape[0], 0.0
    if bins.carried.shape[1] > 0:
        for k in range(n_bins):
            load[k] += bins.fall[fit, k] * before - bins.after[fit, k] * carried[k]
            before = before + carried[k] if k < bins.last[k] else 0.0
    centred = total
    for k in range(n_bins - 1, -1, -1):
        if bins.w.shape[1] > 0:
            load[k] -= bins.base[fit, k] * later[k]
            if k < bins.last[k]:
                load[k] += bins.jump[fit, k] * later[k + 1]
                later[k] += later[k + 1]
        centred -= load[k] * load[k] * bins.inverse[fit, k]
        out[k] = load[k]
    return centred if centred > constant * total else 0.0


@kernel
def load_few(X, fits, columns, bins, rh, constant, loads, curvature):
    """Loads of a task's column in all bins into ``loads[fit, column]``; its curvature.

    ``curvature`` (tasks, 2): in the model, 0 below the share `constant` of the one without bins,
    and that one.
    """
    scratch, shared = new_scratch(), cuda.shared.array(0, float64)
    n_bins = bins.last.shape[0]
    sums = shared[:n_bins], shared[n_bins : 2 * n_bins], shared[2 * n_bins : 3 * n_bins]
    t = cuda.blockIdx.x
    while t < fits.shape[0]:
        k = cuda.threadIdx.x
        while k < 3 * n_bins:
            shared[k] = 0.0
            k += cuda.blockDim.x
        cuda.syncthreads()
        total = block_sum(_load_entries(X, bins, rh, fits[t], columns[t], sums), scratch)
        if cuda.threadIdx.x == 0:
            out = loads[fits[t], columns[t]]
            curvature[t, 0] = _finish_load(bins, fits[t], total, sums, constant, out)
            curvature[t, 1] = total
        cuda.syncthreads()
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
