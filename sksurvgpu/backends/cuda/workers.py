"""Who works on one of many small problems: a thread, a warp or a block, by the problem's size.

A worker has `width` neighbouring threads: a power of two up to a warp's, or a block's.  So one
kernel does for all, whose workers need not be in step.
"""

from typing import NamedTuple

import numpy as np

from ..._compile import BOUND, bind
from ._cuda import cuda, device
from .team import FULL, WARP, add, block_max, block_sum, larger

over_block = combine = BOUND


class Worker(NamedTuple):
    """A thread's view of its worker."""

    lane: int  # which of the worker's threads this is
    width: int
    scratch: np.ndarray  # as from `new_scratch`


@device
def my_worker(width):
    """Number of this worker in the launch, and how many there are."""
    return cuda.grid(1) // width, cuda.gridsize(1) // width


@device
def _mask(worker):
    """Lanes of the warp that are this worker's."""
    if worker.width >= WARP:
        return FULL
    return ((1 << worker.width) - 1) << (cuda.threadIdx.x % WARP - worker.lane)


@device
def meet(worker):
    """Wait for the worker's threads, whose writes before it are seen after it."""
    if worker.width > WARP:
        cuda.syncthreads()
    else:
        cuda.syncwarp(_mask(worker))


def _over_worker(value, worker):
    """Over the worker's threads, the same bits in all."""
    if worker.width > WARP:
        return over_block(value, worker.scratch)
    step = worker.width // 2
    while step > 0:
        value = combine(value, cuda.shfl_xor_sync(_mask(worker), value, step))
        step //= 2
    return value


total = device(bind(_over_worker, over_block=block_sum, combine=add))
largest = device(bind(_over_worker, over_block=block_max, combine=larger))  # nan where one is
