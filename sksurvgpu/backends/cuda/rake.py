"""Segmented sums of three numbers, transformed and reduced on the way: scan, transform, reduce.

Every thread adds up a run of neighbouring positions; one scan over the threads of a block and one
exchange between the members of a team then tell each thread what lies before its run, and it walks
the run again, taking every position with its sums.  Nothing is written in between.
"""

from numba import int64

from ..._compile import bind
from ._cuda import cuda, device
from .team import FULL, WARP, WARPS, barrier, my_team, part_of


@device
def join(first, second):
    """Sums since the last beginning of a segment, after `first` and then `second`."""
    if second[3] != 0:
        return second
    return first[0] + second[0], first[1] + second[1], first[2] + second[2], first[3]


@device
def nothing():
    return 0.0, 0.0, 0.0, int64(0)


@device
def _shift_up(item, step):
    return (
        cuda.shfl_up_sync(FULL, item[0], step),
        cuda.shfl_up_sync(FULL, item[1], step),
        cuda.shfl_up_sync(FULL, item[2], step),
        cuda.shfl_up_sync(FULL, item[3], step),
    )


@device
def _scan_warp(item):
    """Sums up to and including this thread."""
    lane, step = cuda.threadIdx.x % WARP, 1
    while step < WARP:
        before = _shift_up(item, step)
        if lane >= step:
            item = join(before, item)
        step *= 2
    return item


@device
def _last_of_warp(item):
    return (
        cuda.shfl_sync(FULL, item[0], WARP - 1),
        cuda.shfl_sync(FULL, item[1], WARP - 1),
        cuda.shfl_sync(FULL, item[2], WARP - 1),
        cuda.shfl_sync(FULL, item[3], WARP - 1),
    )


@device
def _scan_block(item, scratch):
    """Sums of the threads before this one, and of all of the block."""
    lane, warp = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP
    item = _scan_warp(item)
    if lane == WARP - 1:
        scratch[warp] = item[0]
        scratch[WARPS + warp] = item[1]
        scratch[2 * WARPS + warp] = item[2]
        scratch[3 * WARPS + warp] = float(item[3])
    item = _shift_up(item, 1)
    if lane == 0:
        item = nothing()
    cuda.syncthreads()
    before = total = nothing()
    k = 0
    while k < cuda.blockDim.x // WARP:
        flag = int64(scratch[3 * WARPS + k])
        one = scratch[k], scratch[WARPS + k], scratch[2 * WARPS + k], flag
        if k < warp:
            before = join(before, one)
        total = join(total, one)
        k += cuda.blockDim.y  # 1; loops of a constant step are unrolled until registers spill
    cuda.syncthreads()
    return join(before, item), total


@device
def _sum_before(exchange, rank, total, turn):
    """What lies before a member's part, the members' sums being exchanged; a warp adds them up."""
    if exchange.size == 1:
        return nothing()
    team, _ = my_team(exchange)
    partial, carry = exchange.partial[team, turn & 1], nothing()
    if cuda.threadIdx.x == 0:
        partial[0, rank] = total[0]
        partial[1, rank] = total[1]
        partial[2, rank] = total[2]
        partial[3, rank] = float(total[3])
    barrier(exchange)
    start = 0
    while start < rank:
        m, one = start + cuda.threadIdx.x % WARP, nothing()
        if m < rank:
            one = partial[0, m], partial[1, m], partial[2, m], int64(partial[3, m])
        carry = join(carry, _last_of_warp(_scan_warp(one)))
        start += cuda.warpsize
    return carry


@device
def _nothing_before(exchange, rank, total, turn):
    return nothing()


@device
def share_of(n, exchange):
    """A member's part of ``range(n)``, for a rake."""
    low, high = part_of(n, exchange)
    return low, high, my_team(exchange)[1]


def _rake(exchange, part, context, turn, scratch):
    low, high, rank = part
    # runs of an odd length: shared memory serves neighbours from different banks
    share = (high - low + cuda.blockDim.x - 1) // cuda.blockDim.x | 1
    begin = min(low + cuda.threadIdx.x * share, high)
    end, run = min(begin + share, high), nothing()
    q = begin
    while q < end:
        run = join(run, load(context, q))  # noqa: F821 (bound)
        q += cuda.blockDim.y
    before, total = _scan_block(run, scratch)
    before = join(sum_before(exchange, rank, total, turn), before)  # noqa: F821
    first, second = 0.0, 0.0
    q = begin
    while q < end:
        item = load(context, q)  # noqa: F821
        if item[3] != 0:
            before = nothing()
        after = join(before, item)
        one, two = take(context, q, before, after)  # noqa: F821
        first += one
        second += two
        before = after
        q += cuda.blockDim.y
    return first, second


def make_rake(load, take, alone=False):
    """Device function ``(exchange, part, context, turn, scratch)``, for the thread's part of sums.

    `part` has the first and last position of a member, and its rank among those that positions of
    the team come from, in their order; every block for itself where it rakes `alone`.  Else it
    takes one turn.  ``load(context, q)`` gives position q's three numbers and segment flag (int64);
    ``take(context, q, before, after)``, called once for each, after the thread's last `load` of it,
    is told the sums before and including it, and gives two numbers that are added up.
    """
    before = _nothing_before if alone else _sum_before
    return device(bind(_rake, load=load, take=take, sum_before=before))
