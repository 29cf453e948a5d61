"""Kernels that need every kind of synchronization, on which the simulator is tested."""

from typing import NamedTuple

import numpy as np
from numba import float64, int32, uint32

from .rebinding import cuda

THREADS = 64
WARPS = THREADS // 32
FULL = 0xFFFFFFFF
SIZES = [1, 31, 32, 33, 64, 65, 300]


@cuda.jit(device=True)
def scan_warp(value):
    step = 1
    while step < 32:
        before = cuda.shfl_up_sync(FULL, value, step)
        if cuda.laneid >= step:
            value += before
        step *= 2
    return value


@cuda.jit(device=True)
def scan_block(value, totals):
    """Inclusive sum over a block, and its total; `totals` is shared, one entry a warp."""
    warp = cuda.threadIdx.x // 32
    value = scan_warp(value)
    if cuda.laneid == 31:
        totals[warp] = value
    cuda.syncthreads()
    total = 0.0
    for k in range(WARPS):
        if k < warp:
            value += totals[k]
        total += totals[k]
    cuda.syncthreads()
    return value, total


@cuda.jit
def scan_in_one_block(x, out):
    totals = cuda.shared.array(WARPS, float64)
    carry, start = 0.0, 0
    while start < x.size:
        i = start + cuda.threadIdx.x
        value, total = scan_block(x[i] if i < x.size else 0.0, totals)
        if i < x.size:
            out[i] = carry + value
        carry += total
        start += THREADS


class Chain(NamedTuple):
    """State of a scan over many blocks: each publishes its own total, then its inclusive sum."""

    ticket: np.ndarray
    flag: np.ndarray
    total: np.ndarray
    inclusive: np.ndarray


@cuda.jit(device=True)
def sum_before(chain, part, total):
    """Sum over earlier parts, from those that have published; publishes the own ones."""
    prefix = 0.0
    if part > 0:
        chain.total[part] = total
        cuda.threadfence()
        cuda.atomic.exch(chain.flag, part, 1)
        before = part - 1
        while before >= 0:
            state = cuda.atomic.add(chain.flag, before, 0)
            if state == 0:
                cuda.nanosleep(uint32(20))
                continue
            cuda.threadfence()
            prefix += chain.inclusive[before] if state == 2 else chain.total[before]
            before = -1 if state == 2 else before - 1
    chain.inclusive[part] = prefix + total
    cuda.threadfence()
    cuda.atomic.exch(chain.flag, part, 2)
    return prefix


@cuda.jit
def scan_in_many_blocks(x, out, chain):
    totals = cuda.shared.array(WARPS, float64)
    part = cuda.shared.array(1, int32)
    prefix = cuda.shared.array(1, float64)
    if cuda.threadIdx.x == 0:
        part[0] = cuda.atomic.add(chain.ticket, 0, 1)
    cuda.syncthreads()
    i = part[0] * THREADS + cuda.threadIdx.x
    value, total = scan_block(x[i] if i < x.size else 0.0, totals)
    if cuda.threadIdx.x == 0:
        prefix[0] = sum_before(chain, part[0], total)
    cuda.syncthreads()
    if i < x.size:
        out[i] = prefix[0] + value


@cuda.jit(device=True)
def grid_barrier(arrived):
    """The sign bit turns when the last block arrives: block 0 adds what others leave to 2^31."""
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        arrival = uint32(1)
        if cuda.blockIdx.x == 0:
            arrival = uint32(0x80000000 - (cuda.gridDim.x - 1))
        cuda.threadfence()
        before = cuda.atomic.add(arrived, 0, arrival)
        while (before ^ cuda.atomic.add(arrived, 0, uint32(0))) & 0x80000000 == 0:
            cuda.nanosleep(uint32(20))
        cuda.threadfence()
    cuda.syncthreads()


@cuda.jit
def smooth(x, other, arrived, n_rounds):
    """Every entry becomes the mean of its neighbours, and again, from one array to the other."""
    for _ in range(n_rounds):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            other[i] = 0.5 * (x[max(i - 1, 0)] + x[min(i + 1, x.size - 1)])
        grid_barrier(arrived)
        x, other = other, x


@cuda.jit
def smooth_in_one_launch(x, other, n_rounds):
    grid = cuda.cg.this_grid()
    for _ in range(n_rounds):
        for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
            other[i] = 0.5 * (x[max(i - 1, 0)] + x[min(i + 1, x.size - 1)])
        grid.sync()
        x, other = other, x
