"""Segmented sums over a team, with the rounding errors of the additions kept beside them.

A position holds (value, its low-order part, whether a segment begins there).  Every member scans
its part of the positions once for its total, members exchange totals, and a second scan emits the
sums.  Without the low-order part, differences of sums (risk sets with delayed entry) would lose
digits; it costs arithmetic where memory is the limit.

Other sums of pairs of numbers can be scanned too, if (0, 0) is their empty sum.
"""

from numba import int64

from ..._compile import bind
from ..formulas import two_sum
from ._cuda import cuda, device
from .team import FULL, WARP, WARPS, barrier, my_team, part_of


@device
def add_pairs(first, second):
    """Sum of (value, low-order part) twice."""
    total, error = two_sum(first[0], second[0])
    return total, (first[1] + second[1]) + error


def _join(first, second):
    """Sum since the last beginning of a segment, after `first` and then `second`."""
    if second[2] != 0:
        return second
    value, low = combine(first, second)  # noqa: F821 (bound)
    return value, low, first[2]


def _scan_warp(item):
    lane, step = cuda.threadIdx.x % WARP, 1
    while step < WARP:
        before = (
            cuda.shfl_up_sync(FULL, item[0], step),
            cuda.shfl_up_sync(FULL, item[1], step),
            cuda.shfl_up_sync(FULL, item[2], step),
        )
        if lane >= step:
            item = join(before, item)  # noqa: F821 (bound)
        step *= 2
    return item


def _scan_tile(item, scratch):
    """Inclusive sum at the thread's position of a tile of one position a thread; the tile's."""
    warp, item = cuda.threadIdx.x // WARP, scan_warp(item)  # noqa: F821 (bound)
    if cuda.threadIdx.x % WARP == WARP - 1:
        scratch[warp] = item[0]
        scratch[WARPS + warp] = item[1]
        scratch[2 * WARPS + warp] = float(item[2])
    cuda.syncthreads()
    before = total = (0.0, 0.0, int64(0))
    for k in range(cuda.blockDim.x // WARP):
        one = (scratch[k], scratch[WARPS + k], int64(scratch[2 * WARPS + k]))
        if k < warp:
            before = join(before, one)  # noqa: F821 (bound)
        total = join(total, one)  # noqa: F821
    cuda.syncthreads()
    return join(before, item), total  # noqa: F821


def _part_total(low, high, context, scratch):
    """Sum of a member's part since the last beginning of a segment."""
    total, start = (0.0, 0.0, int64(0)), low
    while start < high:
        q, item = start + cuda.threadIdx.x, (0.0, 0.0, int64(0))
        if q < high:
            item = load(context, q)  # noqa: F821 (bound)
        _, tile = scan_tile(item, scratch)  # noqa: F821
        total = join(total, tile)  # noqa: F821
        start += cuda.blockDim.x
    return total


def _emit_part(low, high, carry, context, scratch):
    """Emit the inclusive sums of a member's part, `carry` being what lies before it."""
    start = low
    while start < high:
        q, item = start + cuda.threadIdx.x, (0.0, 0.0, int64(0))
        if q < high:
            item = load(context, q)  # noqa: F821 (bound)
        inclusive, tile = scan_tile(item, scratch)  # noqa: F821
        if q < high:
            value = join(carry, inclusive)  # noqa: F821
            emit(context, q, value[0], value[1])  # noqa: F821
        carry = join(carry, tile)  # noqa: F821
        start += cuda.blockDim.x


def _sum_before(partial, member):
    """What lies before a member's part, from the sums of all members; a warp adds them up."""
    carry, start, last = (0.0, 0.0, int64(0)), 0, WARP - 1
    while start < member:
        m, item = start + cuda.threadIdx.x % WARP, (0.0, 0.0, int64(0))
        if m < member:
            item = (partial[0, m], partial[1, m], int64(partial[2, m]))
        item = scan_warp(item)  # noqa: F821 (bound)
        whole = (
            cuda.shfl_sync(FULL, item[0], last),
            cuda.shfl_sync(FULL, item[1], last),
            cuda.shfl_sync(FULL, item[2], last),
        )
        carry = join(carry, whole)  # noqa: F821
        start += WARP
    return carry


def _scan(exchange, n, context, turn, scratch):
    """Scan ``range(n)``; takes one turn.  What was emitted is seen after a barrier."""
    low, high = part_of(n, exchange)
    carry = (0.0, 0.0, int64(0))
    if exchange.size > 1:
        total = part_total(low, high, context, scratch)  # noqa: F821 (bound)
        team, member = my_team(exchange)
        partial = exchange.partial[team, turn & 1]
        if cuda.threadIdx.x == 0:
            partial[0, member] = total[0]
            partial[1, member] = total[1]
            partial[2, member] = float(total[2])
        barrier(exchange)
        carry = sum_before(partial, member)  # noqa: F821 (bound)
    emit_part(low, high, carry, context, scratch)  # noqa: F821


def make_scan(load, emit, combine=add_pairs):
    """Device function ``(exchange, n, context, turn, scratch)``.

    ``load(context, q)`` gives position q's value, low-order part and segment flag (int64);
    ``emit(context, q, value, low)`` takes the inclusive sum there; ``combine(first, second)``
    adds two pairs, and may look at no more than the first two entries of each.
    """
    join = device(bind(_join, combine=combine))
    warp = device(bind(_scan_warp, join=join))
    tile = device(bind(_scan_tile, scan_warp=warp, join=join))
    total = device(bind(_part_total, load=load, scan_tile=tile, join=join))
    part = device(bind(_emit_part, load=load, emit=emit, scan_tile=tile, join=join))
    before = device(bind(_sum_before, scan_warp=warp, join=join))
    return device(bind(_scan, part_total=total, emit_part=part, sum_before=before))
