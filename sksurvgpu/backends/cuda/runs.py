"""Sums over runs of neighbouring positions of a block: entries of a column that share a cell.

A thread whose position begins a run adds up its first `SHORT` positions, and a warp what is left
of a longer one.  So the order of a sum is that of positions, whatever the number of threads.
"""

from numba import int64

from ..._compile import BOUND, bind
from ._cuda import cuda, device
from .team import FULL, WARP, warp_size, warp_sum

key_of = visit = sum_short = keep = BOUND

SHORT = 16


def _sum_short(context, q, high, key):
    """Sums of a run's first positions from q on, and where the others begin, if there are some."""
    first, second, stop = 0.0, 0.0, min(q + SHORT, high)
    while q < stop and key_of(context, q) == key:
        one, two = visit(context, q)
        first += one
        second += two
        q += cuda.blockDim.y  # 1; unrolled, registers spill
    return first, second, q


def _sum_runs(low, high, context):
    """Visit the positions of ``range(low, high)``, and keep the sums of every run of them."""
    lane, kept, also = cuda.threadIdx.x % WARP, 0.0, 0.0
    start = low + cuda.threadIdx.x - lane
    while start < high:
        q, key, first, second = start + lane, -1, 0.0, 0.0
        if q < high:
            key = key_of(context, q)
            if q > low and key_of(context, q - 1) == key:
                key = -1
            else:
                first, second, q = sum_short(context, q, high, key)
        goes_on = key >= 0 and q < high and key_of(context, q) == key
        # A ballot is an int32: widened as it is, the last lane's vote would be 33 votes.
        waiting = int64(cuda.ballot_sync(FULL, goes_on)) & FULL
        while waiting != 0:
            of = cuda.ffs(waiting) - 1
            waiting &= waiting - 1
            p, shared = cuda.shfl_sync(FULL, q, of) + lane, cuda.shfl_sync(FULL, key, of)
            one, two = 0.0, 0.0
            while p < high and key_of(context, p) == shared:
                more = visit(context, p)
                one += more[0]
                two += more[1]
                p += warp_size()
            one, two = warp_sum(one), warp_sum(two)
            if lane == of:
                first += one
                second += two
        if key >= 0:
            first, second = keep(context, key, first, second)
            kept += first
            also += second
        start += cuda.blockDim.x
    return kept, also


def make_runs(key_of, visit, keep):
    """Device function ``(low, high, context)`` that all threads of a block call.

    ``key_of(context, q)`` is not negative; ``visit(context, q)``, once for every position, gives
    two numbers; ``keep(context, key, first, second)`` takes a run's sums of them, and gives two
    numbers that are added up: the thread's part of the results.
    """
    names = {"key_of": key_of, "visit": visit, "keep": keep}
    return device(bind(_sum_runs, **names, sum_short=device(bind(_sum_short, **names))))
