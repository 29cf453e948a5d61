"""Teams of thread blocks: one team works on one fit at a time.

A launch has as many blocks as are resident, so that blocks may wait for each other; block b is
member ``b % size`` of team ``b // size``, and team t serves the fits t, t + n_teams, ... of the
launch.  Members exchange a few numbers through global memory and meet at the team's barrier.

`Exchange.partial` has two sides that calls use in turn, by the parity of a counter that the kernel
keeps: a member that writes one side has passed a barrier that all readers of its last content
reached after reading.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import float64, int64, uint32

from ..._compile import bind
from ._cuda import cuda, device, inlined

WARP = 32
WARPS = 32  # of the largest block
VALUES = 4  # that members exchange at once
FULL = 0xFFFFFFFF
TURN = 0x80000000


class Exchange(NamedTuple):
    """Who works on what in a launch, and where members exchange numbers."""

    fits: np.ndarray  # int32: fits that the launch serves
    size: int  # blocks of a team
    arrived: np.ndarray  # uint32 per team: state of its barrier
    partial: np.ndarray  # float64 (teams, 2, VALUES, size)


@device
def my_team(exchange):
    """Number of this block's team, and its place in it."""
    return cuda.blockIdx.x // exchange.size, cuda.blockIdx.x % exchange.size


@device
def n_teams(exchange):
    return cuda.gridDim.x // exchange.size


@device
def begin():
    """Make the launch a cooperative one, so that all of its blocks are resident or none is."""
    cuda.cg.this_grid().sync()


@device
def barrier(exchange):
    """Wait for all blocks of the team, whose writes before it are seen after it.

    The counter's sign bit turns when the last one arrives: member 0 adds what the others leave to
    2^31.  Thread 0's fences order the writes of its whole block, which has met before.
    """
    cuda.syncthreads()
    if exchange.size == 1:
        return
    if cuda.threadIdx.x == 0:
        team, member = my_team(exchange)
        arrival = uint32(1)
        if member == 0:
            arrival = uint32(TURN - (exchange.size - 1))
        cuda.threadfence()
        before = cuda.atomic.add(exchange.arrived, team, arrival)
        while (before ^ cuda.atomic.add(exchange.arrived, team, uint32(0))) & uint32(TURN) == 0:
            cuda.nanosleep(uint32(20))
        cuda.threadfence()
    cuda.syncthreads()


# -- sums and maxima over a warp, a block, a team: the same bits in every thread ---------------


@device
def add(a, b):
    return a + b


@device
def larger(a, b):
    """The larger one; nan where one is, so that it is not lost."""
    return a if a > b or a != a else b


def _over_warp(value):
    step = WARP // 2
    while step > 0:
        value = combine(value, cuda.shfl_xor_sync(FULL, value, step))  # noqa: F821 (bound)
        step //= 2
    return value


warp_sum, warp_max = (device(bind(_over_warp, combine=f)) for f in (add, larger))


def _over_block(value, scratch):
    value = over_warp(value)  # noqa: F821 (bound)
    if cuda.threadIdx.x % WARP == 0:
        scratch[cuda.threadIdx.x // WARP] = value
    cuda.syncthreads()
    value = scratch[0]
    for warp in range(1, cuda.blockDim.x // WARP):
        value = combine(value, scratch[warp])  # noqa: F821 (bound)
    cuda.syncthreads()
    return value


def _stage(value, k, scratch):
    """Hand in a thread's part of the k-th number; `scratch` is shared, of VALUES * WARPS."""
    value = over_warp(value)  # noqa: F821 (bound)
    if cuda.threadIdx.x % WARP == 0:
        scratch[k * WARPS + cuda.threadIdx.x // WARP] = value


def _meet(exchange, n_values, turn, scratch):
    """Publish the block's numbers that were handed in, and wait for the team."""
    cuda.syncthreads()
    team, member = my_team(exchange)
    if cuda.threadIdx.x == 0:
        for k in range(n_values):
            value = scratch[k * WARPS]
            for warp in range(1, cuda.blockDim.x // WARP):
                value = combine(value, scratch[k * WARPS + warp])  # noqa: F821
            exchange.partial[team, turn & 1, k, member] = value
    barrier(exchange)


def _total(exchange, k, turn, rest):
    """The team's k-th number; `rest` is the neutral value."""
    team, _ = my_team(exchange)
    value, member = rest, cuda.threadIdx.x % WARP
    while member < exchange.size:
        value = combine(value, exchange.partial[team, turn & 1, k, member])  # noqa: F821
        member += cuda.warpsize  # unlike a constant, keeps the loop from being unrolled
    return over_warp(value)  # noqa: F821


_TEMPLATES = _over_block, _stage, _meet, _total
block_sum, stage_sum, meet_sums, _total_sum = (
    device(bind(f, combine=add, over_warp=warp_sum)) for f in _TEMPLATES
)
block_max, stage_max, meet_maxima, _total_max = (
    device(bind(f, combine=larger, over_warp=warp_max)) for f in _TEMPLATES
)


@device
def total_sum(exchange, k, turn):
    return _total_sum(exchange, k, turn, 0.0)


@device
def total_max(exchange, k, turn):
    return _total_max(exchange, k, turn, -np.inf)


@device
def team_sum(exchange, value, turn, scratch):
    """Sum of `value` over all threads of the team; the next exchange takes the next turn."""
    stage_sum(value, 0, scratch)
    meet_sums(exchange, 1, turn, scratch)
    return total_sum(exchange, 0, turn)


@device
def team_sums(exchange, first, second, turn, scratch):
    """Sums of two numbers over all threads of the team; takes a turn."""
    stage_sum(first, 0, scratch)
    stage_sum(second, 1, scratch)
    meet_sums(exchange, 2, turn, scratch)
    return total_sum(exchange, 0, turn), total_sum(exchange, 1, turn)


@device
def team_max(exchange, value, turn, scratch):
    """Largest `value` of all threads of the team."""
    stage_max(value, 0, scratch)
    meet_maxima(exchange, 1, turn, scratch)
    return total_max(exchange, 0, turn)


@device
def part_of(size, exchange):
    """A member's part of ``range(size)``, in contiguous parts of equal length."""
    _, member = my_team(exchange)
    return int64(size) * member // exchange.size, int64(size) * (member + 1) // exchange.size


@inlined
def new_scratch():
    """Shared memory of the exchanges."""
    return cuda.shared.array(128, float64)  # VALUES * WARPS
