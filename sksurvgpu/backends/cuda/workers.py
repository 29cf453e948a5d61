"""Who works on one of many small problems: a thread, a warp or a block, by the problem's size.

A template is written once over the names of `WORKERS` and bound to one of them:

    lane(), lanes()     which of the worker's threads this is, of how many
    worker(), workers() which worker of the launch, of how many
    meet()              wait for the worker's threads, whose writes before it are seen after it
    total(value, scratch), largest(value, scratch)      over its threads, the same bits in all
"""

from ._cuda import cuda, device
from .team import WARP, block_max, block_sum, warp_max, warp_sum


@device
def _zero():
    return 0


@device
def _one():
    return 1


@device
def _nothing():
    pass


@device
def _thread():
    return cuda.grid(1)


@device
def _threads():
    return cuda.gridsize(1)


@device
def _alone(value, scratch):
    return value


@device
def _lane_of_warp():
    return cuda.threadIdx.x % WARP


@device
def _warp_size():
    """Read from the device: loops with a constant step are unrolled until registers spill."""
    return cuda.warpsize


@device
def _warp():
    return cuda.grid(1) // WARP


@device
def _warps():
    return cuda.gridsize(1) // WARP


@device
def _meet_warp():
    cuda.syncwarp()


@device
def _warp_total(value, scratch):
    return warp_sum(value)


@device
def _warp_largest(value, scratch):
    return warp_max(value)


@device
def _lane_of_block():
    return cuda.threadIdx.x


@device
def _block_size():
    return cuda.blockDim.x


@device
def _block():
    return cuda.blockIdx.x


@device
def _blocks():
    return cuda.gridDim.x


@device
def _meet_block():
    cuda.syncthreads()


WORKERS = {
    "thread": {
        "lane": _zero,
        "lanes": _one,
        "worker": _thread,
        "workers": _threads,
        "meet": _nothing,
        "total": _alone,
        "largest": _alone,
    },
    "warp": {
        "lane": _lane_of_warp,
        "lanes": _warp_size,
        "worker": _warp,
        "workers": _warps,
        "meet": _meet_warp,
        "total": _warp_total,
        "largest": _warp_largest,
    },
    "block": {
        "lane": _lane_of_block,
        "lanes": _block_size,
        "worker": _block,
        "workers": _blocks,
        "meet": _meet_block,
        "total": block_sum,
        "largest": block_max,
    },
}
