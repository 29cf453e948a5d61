"""Coordinate descent on matrices: a block a fit, all fits of a round in one launch.

A warp takes 32 coordinates at a time.  Its lanes hold one each and all look where theirs would go;
the first that moves does, and those after it look again, so that visits are those of plain cyclic
descent and coordinates at rest cost nothing.  Then the block applies the moves of the 32 to the
gradient of all others.  Matrices are those of correlations, in single precision, so that any units
fit; the gradient is in double precision and curvatures are the host's.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import float32, float64, int64

from ..._compile import bind
from ._cuda import cuda, device, inlined, specialize
from .team import FULL, WARP, warp_max

# Passes go on while so many shrink moves that much, else Newton's steps on the host are faster.
PASSES, QUICK, MOST_PASSES = 40, 0.1, 400
MOST_THREADS = 512  # of a block
STATIC_SHARED = 8 * 1024  # what the kernel declares, and what the system reserves


class Work(NamedTuple):
    """Coordinates of the fits served, those of one after the other."""

    ptr: np.ndarray  # int64 per fit + 1
    matrix: np.ndarray  # int64 per fit: which matrix
    weight: np.ndarray  # float64 per fit, of it
    enough: np.ndarray  # float64 per fit
    where: np.ndarray  # int64: position in the matrix, or -1
    root: np.ndarray  # float64: square root of the matrix's diagonal
    gradient: np.ndarray
    curvature: np.ndarray
    unit: np.ndarray
    coef: np.ndarray
    penalty: NamedTuple


@inlined
def _slopes_near(work, low, end):
    """Gradient of a fit in shared memory."""
    shared = cuda.shared.array(0, float64)
    return shared[: end - low]


@inlined
def _slopes_far(work, low, end):
    return work.gradient[low:end]


@device
def _load_corner(matrix, where, corner):
    """The matrix among the warp's coordinates, a column a lane."""
    lane = cuda.threadIdx.x
    for r in range(WARP):
        row, value = cuda.shfl_sync(FULL, where, r), float32(0.0)
        if row >= 0 and where >= 0:
            value = matrix[row, where]
        corner[r, lane] = value


@device
def _list_moves(step, where, moves):
    """Hand the warp's moves to the block; how many there are."""
    rows, steps = moves
    lane, is_listed = cuda.threadIdx.x, step != 0.0 and where >= 0
    votes = cuda.ballot_sync(FULL, is_listed)
    if is_listed:
        place = cuda.popc(votes & ((1 << lane) - 1))
        rows[place], steps[place] = where, step
    return cuda.popc(votes)


def _advance(work, t, start, slopes, matrix, corner, moves):
    """One warp: first group from `start` on that moves; its end, moves, and the largest of them."""
    low, n = work.ptr[t], work.ptr[t + 1] - work.ptr[t]
    lane, largest, count = cuda.threadIdx.x, 0.0, 0
    while start < n:
        c = min(start + lane, n - 1)
        at = low + c
        curvature = work.curvature[at] if start + lane < n else 0.0
        coef, slope, where, root = work.coef[at], slopes[c], work.where[at], work.root[at]
        begin, step = 0, 0.0
        while True:
            new = coef
            if lane >= begin and curvature > 0.0:
                z = coef * curvature + slope
                new = minimum(z, curvature, work.penalty, at)  # noqa: F821 (bound)
            change = new - coef
            votes = cuda.ballot_sync(FULL, change != 0.0)
            if votes == 0:
                break
            if begin == 0:
                _load_corner(matrix, where, corner)
            first = cuda.ffs(votes) - 1
            pull = work.weight[t] * cuda.shfl_sync(FULL, root * change, first)
            if lane == first:
                slope -= curvature * change
                largest = max(largest, curvature * abs(change) / work.unit[at])
                coef, step = new, change
            else:
                slope -= root * pull * corner[first, lane]
            begin = first + 1
        start += WARP
        if begin > 0:
            count = _list_moves(work.weight[t] * root * step, where, moves)
            if curvature > 0.0:
                work.coef[at], slopes[c] = coef, slope
            break
    return start, count, warp_max(largest)


@device
def _apply(work, t, end, count, slopes, matrix, moves):
    """The block: take the moves of the group that ends at `end` from the gradient of others."""
    rows, steps = moves
    low, n = work.ptr[t], work.ptr[t + 1] - work.ptr[t]
    c = cuda.threadIdx.x
    while c < n:
        column, total = work.where[low + c], 0.0
        if column >= 0 and (c < end - WARP or c >= end):
            for k in range(count):
                total += steps[k] * matrix[rows[k], column]
            slopes[c] -= work.root[low + c] * total
        c += cuda.blockDim.x


def _pass(work, t, slopes, matrix, shared):
    """One pass over all coordinates; its largest move."""
    corner, moves, found, size = shared
    n, start, largest = work.ptr[t + 1] - work.ptr[t], int64(0), 0.0
    while start < n:
        if cuda.threadIdx.x < WARP:
            start, count, moved = advance(work, t, start, slopes, matrix, corner, moves)  # noqa: F821
            if cuda.threadIdx.x == 0:
                found[0], found[1], size[0] = start, count, moved
        cuda.syncthreads()
        start, largest = found[0], max(largest, size[0])
        _apply(work, t, start, found[1], slopes, matrix, moves)
        cuda.syncthreads()
    return largest


def _descend(work, matrices, largest_of_fit):
    """Passes for every fit until moves are small enough, or hardly shrink; writes `work.coef`."""
    corner = cuda.shared.array((32, 32), float32)  # WARP
    moves = cuda.shared.array(32, int64), cuda.shared.array(32, float64)
    found, size = cuda.shared.array(2, int64), cuda.shared.array(1, float64)
    t = cuda.blockIdx.x
    while t < work.matrix.shape[0]:
        low, end = work.ptr[t], work.ptr[t + 1]
        slopes, matrix = slopes_of(work, low, end), matrices[work.matrix[t]]  # noqa: F821 (bound)
        c = cuda.threadIdx.x
        while c < end - low:
            slopes[c] = work.gradient[low + c]
            c += cuda.blockDim.x
        cuda.syncthreads()
        passes, before, largest = 0, np.inf, np.inf
        while passes < MOST_PASSES:
            largest = run_pass(work, t, slopes, matrix, (corner, moves, found, size))  # noqa: F821
            passes += 1
            if largest <= work.enough[t]:
                break
            if passes % PASSES == 0:
                if largest > QUICK * before:
                    break
                before = largest
        if cuda.threadIdx.x == 0:
            largest_of_fit[t] = largest
        t += cuda.gridDim.x


@cache
def _kernel_of(minimum, is_near):
    advance = device(bind(_advance, minimum=minimum))
    run_pass = device(bind(_pass, advance=advance))
    slopes_of = _slopes_near if is_near else _slopes_far
    label = f"{'near' if is_near else 'far'}_{minimum.__name__}"
    return specialize(_descend, label, MOST_THREADS, slopes_of=slopes_of, run_pass=run_pass)


def descend(layout, minimum, matrices, work, most_columns):
    """Launch for `Work` of the host; new coefficients of all fits in a row, and largest moves."""
    n_fits, device = len(work.matrix), layout.device
    both, edge = np.concatenate([work.coef, np.zeros(n_fits)]), len(work.coef)
    *numbers, both = device.send(*work[:-2], *work.penalty, both)
    own, penalty = numbers[: len(work) - 2], type(work.penalty)(*numbers[len(work) - 2 :])
    arguments = Work(*own, both[:edge], penalty), matrices, both[edge:]
    shared = 8 * max(most_columns, 1)
    is_near = shared + STATIC_SHARED <= device.shared_bytes
    kernel, shared = _kernel_of(minimum, is_near), shared if is_near else 0
    threads = min(layout.many_threads, MOST_THREADS)
    device.launch(kernel, n_fits, threads, arguments, shared)
    return np.split(device.download(both), [edge])
