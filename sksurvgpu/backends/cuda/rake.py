"""Segmented scans over a team, transformed and reduced on the way: scan, transform, reduce.

An item is three numbers and a flag; `ADD` has the ways to add two of them up.  Every warp owns
neighbouring positions and takes them in tiles, ITEMS neighbours a lane.  It adds up its tiles; one
exchange between warps and one between members then tell it what lies before them, and it walks
them again, taking every position with its sums.  Nothing is written in between.

Longer runs would need fewer shuffles, and a warp's loads would touch a line of memory for each
lane; ITEMS numbers are what memory gives at least, so that nothing is fetched in vain.
"""

import math
from functools import cache

from numba import int64, uint64

from ..._compile import BOUND, bind
from ..formulas import two_sum
from ._cuda import cuda, device
from .team import FULL, WARP, WARPS, barrier, my_team, part_of, warp_size

combine = join = scan_warp = load = part = sum_first = sum_before = sum_again = again = BOUND
take = BOUND

ITEMS = 4  # of 8 bytes: a sector
SEGMENT, TALLY = 1, 2  # flags: all sums, or the third one alone, begin anew at this position


@device
def add(first, second):
    """Three sums."""
    return first[0] + second[0], first[1] + second[1], first[2] + second[2]


@device
def add_exactly(first, second):
    """A sum with the rounding errors of its additions beside it; a plain one.

    Without the errors, differences of sums (risk sets with delayed entry) would lose digits.
    """
    total, error = two_sum(first[0], second[0])
    return total, (first[1] + second[1]) + error, first[2] + second[2]


@device
def add_scaled(first, second):
    """Two sums on a common scale: (m, s, t) stands for s exp(m) and t exp(m), or for 0 if s = 0."""
    if second[1] == 0.0:
        return first[0], first[1], first[2]
    if first[1] == 0.0:
        return second[0], second[1], second[2]
    difference = first[0] - second[0]
    scale = math.exp(-abs(difference))
    if difference > 0.0:
        return first[0], first[1] + second[1] * scale, first[2] + second[2] * scale
    return second[0], second[1] + first[1] * scale, second[2] + first[2] * scale


@device
def nothing():
    return 0.0, 0.0, 0.0, int64(0)


def _join(first, second):
    """Sums since the last beginning, after `first` and then `second`."""
    flag = second[3]
    if flag & SEGMENT:
        return second
    kept = first[0], first[1], 0.0 if flag & TALLY else first[2]
    one, two, three = combine(kept, second)
    return one, two, three, first[3] | flag


@device
def _shift_up(item, step):
    return (
        cuda.shfl_up_sync(FULL, item[0], step),
        cuda.shfl_up_sync(FULL, item[1], step),
        cuda.shfl_up_sync(FULL, item[2], step),
        cuda.shfl_up_sync(FULL, item[3], step),
    )


@device
def _of_lane(item, lane):
    return (
        cuda.shfl_sync(FULL, item[0], lane),
        cuda.shfl_sync(FULL, item[1], lane),
        cuda.shfl_sync(FULL, item[2], lane),
        cuda.shfl_sync(FULL, item[3], lane),
    )


@device
def _put(numbers, k, step, item):
    """Unsigned places, since signed ones may be negative, which costs registers."""
    numbers[uint64(k)], numbers[uint64(step + k)] = item[0], item[1]
    numbers[uint64(2 * step + k)] = item[2]
    numbers[uint64(3 * step + k)] = float(item[3])


@device
def _get(numbers, k, step):
    flag = int64(numbers[uint64(3 * step + k)])
    one, two = numbers[uint64(k)], numbers[uint64(step + k)]
    return one, two, numbers[uint64(2 * step + k)], flag


def _scan_warp(item):
    """Sums up to and including this lane."""
    lane, step = cuda.threadIdx.x % WARP, 1
    while step < WARP:
        before = _shift_up(item, step)
        if lane >= step:
            item = join(before, item)
        step *= 2
    return item


def _sum_before(exchange, rank, own, turn, scratch):
    """Sums before a warp, every warp of the team bringing those of its positions."""
    lane, warp, warps = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP, cuda.blockDim.x // WARP
    if lane == 0:
        _put(scratch, warp, WARPS, own)
    cuda.syncthreads()
    one, sums = nothing(), exchange.partial[uint64(my_team(exchange)[0]), uint64(turn & 1)]
    if lane < warps:
        one = _get(scratch, lane, WARPS)
    one = scan_warp(one)
    own = _of_lane(one, max(warp - 1, 0)) if warp > 0 else nothing()
    if cuda.threadIdx.x == warps - 1:  # the lane that has the sums of all warps
        at = uint64(rank)
        sums[0, at], sums[1, at], sums[2, at] = one[0], one[1], one[2]
        sums[3, at] = float(one[3])
    barrier(exchange)
    carry, start = nothing(), 0
    while start < rank:
        m, one = start + lane, nothing()
        if m < rank:
            at = uint64(m)
            one = sums[0, at], sums[1, at], sums[2, at], int64(sums[3, at])
        carry = join(carry, _of_lane(scan_warp(one), WARP - 1))
        start += warp_size()
    return join(carry, own)


def _sum_run(q, end, context):
    """Sums of a lane's positions of a tile."""
    run = nothing()
    while q < end:
        run = join(run, load(context, q))
        q += cuda.blockDim.y  # 1; loops of a constant step are unrolled until registers spill
    return run


def _rake(exchange, n, context, turn, scratch):
    """Take all positions of ``range(n)``; the thread's part of the results.  Takes one turn."""
    low, high, rank = part(exchange, n, context)
    lane, warp, warps = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP, cuda.blockDim.x // WARP
    share = (high - low + warps - 1) // warps
    begin = min(low + warp * share, high)
    end = min(begin + share, high)
    carry, start = nothing(), begin
    while start < end:
        q = start + lane * ITEMS
        run = scan_warp(sum_first(q, min(q + ITEMS, end), context))
        carry = join(carry, _of_lane(run, WARP - 1))
        start += ITEMS * warp_size()
    carry = sum_before(exchange, rank, carry, turn, scratch)
    first, second, start = 0.0, 0.0, begin
    while start < end:
        q = start + lane * ITEMS
        before = _shift_up(scan_warp(sum_again(q, min(q + ITEMS, end), context)), 1)
        before = join(carry, before if lane > 0 else nothing())
        stop = min(q + ITEMS, end)
        while q < stop:
            item = again(context, q)
            if item[3] & SEGMENT:
                before = nothing()
            after = join(before, item)
            one, two = take(context, q, before, after)
            first += one
            second += two
            before = after
            q += cuda.blockDim.y
        carry = _of_lane(before, WARP - 1)
        start += ITEMS * warp_size()
    return first, second


@device
def even_part(exchange, n, context):
    low, high = part_of(n, exchange)
    return low, high, my_team(exchange)[1]


@cache
def _scans_of(combine):
    """Of warps and teams, for all rakes that add up alike."""
    join = device(bind(_join, combine=combine))
    names = {"join": join, "scan_warp": device(bind(_scan_warp, join=join))}
    return names | {"sum_before": device(bind(_sum_before, **names))}


def make_rake(load, take, again=None, combine=add, part=even_part):
    """Device function ``(exchange, n, context, turn, scratch)``.

    ``load(context, q)`` gives position q's numbers and flag (int64); a thread loads its positions
    by it and later, twice, by `again`, which may read what `load` has written for the same one.
    ``take(context, q, before, after)`` is told the sums before and including it, and gives two
    numbers that are added up.  ``combine(first, second)`` adds up three numbers twice, zeros being
    the empty sum.  ``part(exchange, n, context)`` gives a member's first position, the end, and
    its rank in their order.
    """
    again, names = again or load, _scans_of(combine)
    runs = {f: device(bind(_sum_run, join=names["join"], load=f)) for f in (load, again)}
    sums = {"sum_first": runs[load], "sum_again": runs[again]}
    return device(bind(_rake, **names, **sums, again=again, take=take, part=part))
