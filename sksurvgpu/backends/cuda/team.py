"""Teams of thread blocks: one team works on one fit at a time.

A launch has as many blocks as are resident, so that blocks may wait for each other; block b is
member ``b % size`` of team ``b // size``, and team t serves the fits t, t + n_teams, ... of the
launch.  Members exchange a few numbers through global memory and meet at the team's barrier.

`Exchange.partial` has two sides that calls use in turn, by the parity of a counter that the kernel
keeps: a member that writes one side has passed a barrier that all readers of its last content
reached after reading.
"""

from typing import NamedTuple

import numpy as np
from numba import float64, int64, uint32, uint64

from ..._compile import BOUND, bind
from ._cuda import cuda, device, inlined

combine = rest = over_warp = stage = of_warps = BOUND

WARP = 32
WARPS = 32  # of the largest block
VALUES = 4  # that members exchange at once
FULL = 0xFFFFFFFF
TURN = 0x80000000


class Exchange(NamedTuple):
    """Who works on what in a launch, and where members exchange numbers."""

    fits: np.ndarray  # int32: fits that the launch serves
    size: np.ndarray  # int32 (1,): blocks of a team; read anew, loops do not keep what follows
    arrived: np.ndarray  # uint32 per team: state of its barrier
    partial: np.ndarray  # float64 (teams, 2, VALUES, size)


@device
def warp_size():
    """Step of loops by warps: a constant would have them unrolled until registers spill.

    Blocks have one row of threads.
    """
    return WARP * cuda.blockDim.y


@device
def my_team(exchange):
    """Number of this block's team, and its place in it."""
    block, size = uint32(cuda.blockIdx.x), uint32(exchange.size[0])
    return int64(block // size), int64(block % size)


@device
def n_teams(exchange):
    return cuda.gridDim.x // exchange.size[0]


@device
def begin():
    """Make the launch a cooperative one, so that all of its blocks are resident or none is.

    That a grid barrier is there is enough for that; none needs to be waited for.
    """
    if cuda.gridDim.y > 1:  # never, and no compiler can know
        cuda.cg.this_grid().sync()


@device
def barrier(exchange):
    """Wait for all blocks of the team, whose writes before it are seen after it.

    The counter's sign bit turns when the last one arrives: member 0 adds what the others leave to
    2^31.  Thread 0's fences order the writes of its whole block, which has met before.
    """
    cuda.syncthreads()
    if exchange.size[0] == 1:
        return
    if cuda.threadIdx.x == 0:
        number, member = my_team(exchange)
        arrival = uint32(1)
        if member == 0:
            arrival = uint32(TURN - (exchange.size[0] - 1))
        cuda.threadfence()
        team = uint64(number)
        before = cuda.atomic.add(exchange.arrived, team, arrival)
        while (before ^ cuda.atomic.add(exchange.arrived, team, uint32(0))) & uint32(TURN) == 0:
            cuda.nanosleep(uint32(20))
        cuda.threadfence()
    cuda.syncthreads()


# Places are unsigned: signed ones might be negative, and registers hold what that would mean.


@device
def add(a, b):
    return a + b


@device
def larger(a, b):
    """The larger one; nan where one is, so that it is not lost."""
    return a if a > b or a != a else b


@device
def _zero():
    return 0.0


@device
def _lowest():
    return -np.inf


def _over_warp(value):
    step = WARP // 2
    while step > 0:
        value = combine(value, cuda.shfl_xor_sync(FULL, value, step))
        step //= 2
    return value


def _of_warps(scratch, k):
    """Over the numbers that the block's warps have left: in every warp, all at once."""
    lane, value = cuda.threadIdx.x % WARP, rest()
    if lane < cuda.blockDim.x // WARP:
        value = scratch[uint64(k * WARPS + lane)]
    return over_warp(value)


def _stage(value, k, scratch):
    """Hand in a thread's part of the k-th number; `scratch` is shared, of VALUES * WARPS."""
    value = over_warp(value)
    if cuda.threadIdx.x % WARP == 0:
        scratch[uint64(k * WARPS + cuda.threadIdx.x // WARP)] = value


def _over_block(value, scratch):
    stage(value, 0, scratch)
    cuda.syncthreads()
    value = of_warps(scratch, 0)
    cuda.syncthreads()
    return value


def _meet(exchange, n_values, turn, scratch):
    """Publish the block's numbers that were handed in, and wait for the team."""
    cuda.syncthreads()
    team, member = my_team(exchange)
    numbers = exchange.partial[uint64(team), uint64(turn & 1)]
    for k in range(n_values):
        value = of_warps(scratch, k)
        if cuda.threadIdx.x == 0:
            numbers[k, uint64(member)] = value
    barrier(exchange)


def _total(exchange, k, turn):
    """The team's k-th number."""
    numbers = exchange.partial[uint64(my_team(exchange)[0]), uint64(turn & 1), k]
    value, member = rest(), cuda.threadIdx.x % WARP
    while member < exchange.size[0]:
        value = combine(value, numbers[uint64(member)])
        member += warp_size()
    return over_warp(value)


def _make_reductions(combine, rest):
    """Over a warp and a block; hand in, meet and total, over a team."""
    names = {"combine": combine, "rest": rest}
    names["over_warp"] = device(bind(_over_warp, combine=combine))
    names["of_warps"] = device(bind(_of_warps, **names))
    names["stage"] = device(bind(_stage, **names))
    block, meet, total = (device(bind(f, **names)) for f in (_over_block, _meet, _total))
    return names["over_warp"], block, names["stage"], meet, total


warp_sum, block_sum, stage_sum, meet_sums, total_sum = _make_reductions(add, _zero)
warp_max, block_max, stage_max, meet_maxima, total_max = _make_reductions(larger, _lowest)


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
    return int64(size) * member // exchange.size[0], int64(size) * (member + 1) // exchange.size[0]


@inlined
def new_scratch():
    """Shared memory of the exchanges."""
    return cuda.shared.array(128, float64)  # VALUES * WARPS
