"""What the chip can do: bandwidth, barriers, launches, gathers.  The floors of the timings.

Barriers are those of `backends.cuda.team`: a team's own, in a launch whose blocks are resident.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from functools import cache

import numpy as np
from numba import float64

from sksurvgpu.backends import choose
from sksurvgpu.backends.cuda import team
from sksurvgpu.backends.cuda._cuda import cuda, kernel

ITEM_LIMIT = 60.0
HEADERS = ["ceiling", "", "note"]


@dataclass(frozen=True)
class Scale:
    copied: int = 2**27  # float64 numbers, 1 GiB
    meetings: int = 2_000
    launches: int = 500
    gathered: int = 2**13  # float64 numbers in shared memory, 64 KiB
    gathers: int = 2**16  # a block, in a round
    rounds: int = 32
    blocks: int = 512
    threads: int = 256
    repeats: int = 5


FULL = Scale()
SMALL = Scale(copied=2**24, meetings=200, launches=100, repeats=3)
TEAMS = (1, 8, 32, 128)


def jobs(scale):
    sizes = [f"{what}, team of {size}" for what in ("barrier", "sum") for size in TEAMS]
    return {"ceilings": ("copy", *sizes, "launch", "gather")}


def measure(item, scale):
    device = choose("cuda").device
    if ", team of " in item:
        what, size = item.split(", team of ")
        return _measure_team(device, what, int(size), scale)
    return {"copy": _measure_copy, "launch": _measure_launch, "gather": _measure_gather}[item](
        device, scale
    )


def median_seconds(run, synchronize, repeats):
    """Median time of a run that ends with a download; the first one compiles."""
    seconds = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        run()
        synchronize()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


# -- bandwidth --------------------------------------------------------------------------------


@kernel
def copy_numbers(source, target):
    """Four independent loads a thread and step."""
    n, step = source.shape[0] // 4, cuda.gridsize(1)
    for i in range(cuda.grid(1), n, step):
        a, b = source[i], source[i + n]
        c, d = source[i + 2 * n], source[i + 3 * n]
        target[i], target[i + n] = a, b
        target[i + 2 * n], target[i + 3 * n] = c, d


def bandwidth(device, scale):
    """Bytes read and written a second."""
    numbers = np.random.default_rng(0).random(2**12)
    source = device.upload(np.tile(numbers, scale.copied // len(numbers) or 1)[: scale.copied])
    target = device.zeros(source.shape[0], np.float64)

    def run():
        device.launch(copy_numbers, scale.blocks * 4, scale.threads, (source, target))

    seconds = median_seconds(run, lambda: device.download(target[:1]), scale.repeats)
    return 2 * source.nbytes / seconds


@cache
def known_bandwidth(device, scale):
    """Measured once a process."""
    return bandwidth(device, scale)


def _measure_copy(device, scale):
    return {"value": 1e-9 * bandwidth(device, scale), "unit": "GB/s"}


# -- barriers ---------------------------------------------------------------------------------


@kernel
def meet_often(exchange, n):
    team.begin()
    for _ in range(n):
        team.barrier(exchange)


@kernel
def sum_often(exchange, n, out):
    """What a coordinate costs at least: the partial sums of a team, exchanged."""
    team.begin()
    scratch, total = team.new_scratch(), 1.0
    for turn in range(n):
        total = team.team_sum(exchange, 1.0, turn, scratch)
    if cuda.grid(1) == 0:
        out[0] = total


def latency(device, what, size, scale):
    """Seconds of one barrier, or of one sum, of a team; None where it would not be resident.

    The launch itself is taken off: a long run's time minus a short one's.
    """
    exchange = team.Exchange(
        device.upload(np.zeros(1, np.int32)),
        size,
        device.zeros(1, np.uint32),
        device.zeros((1, 2, team.VALUES, size), np.float64),
    )
    out = device.zeros(1, np.float64)
    run, more = (meet_often, ()) if what == "barrier" else (sum_often, (out,))
    if device.resident_blocks(run, scale.threads, (exchange, 1, *more)) < size:
        return None

    def seconds(n):
        def launch():
            device.launch(run, size, scale.threads, (exchange, n, *more))

        return median_seconds(launch, lambda: device.download(out), scale.repeats)

    few = max(scale.meetings // 10, 1)
    return max(seconds(scale.meetings) - seconds(few), 0.0) / max(scale.meetings - few, 1)


@cache
def known_latency(device, size, scale):
    """Of a sum, measured once a process and size."""
    return latency(device, "sum", size, scale)


def _measure_team(device, what, size, scale):
    seconds = latency(device, what, size, scale)
    if seconds is None:
        return {"not_run": f"fewer than {size} blocks are resident"}
    return {"value": 1e6 * seconds, "unit": "us"}


# -- launches and gathers ---------------------------------------------------------------------


@kernel
def do_nothing(a, b, c, n):
    pass


def _measure_launch(device, scale):
    """Time between launches of three arrays and a number, one after the other."""
    arrays = [device.zeros(1, np.float64) for _ in range(3)]

    def run():
        for _ in range(scale.launches):
            device.launch(do_nothing, 1, scale.threads, (*arrays, 1))

    seconds = median_seconds(run, lambda: device.download(arrays[0]), scale.repeats)
    return {"value": 1e6 * seconds / scale.launches, "unit": "us"}


@kernel
def gather_shared(index, n_rounds, out):
    """Sum what a block's indices point at in its shared memory (2^k numbers), again and again."""
    shared = cuda.shared.array(0, float64)
    n, per_block = out.shape[1], index.shape[0] // cuda.gridDim.x
    for k in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        shared[k] = 1.0
    cuda.syncthreads()
    low, total = cuda.blockIdx.x * per_block, 0.0
    for r in range(n_rounds):
        for q in range(low + cuda.threadIdx.x, low + per_block, cuda.blockDim.x):
            total += shared[(index[q] ^ r) & (n - 1)]
    cuda.atomic.add(out, (0, cuda.threadIdx.x), total)


def _measure_gather(device, scale):
    """Gathers of float64 from shared memory through int32 indices, on one block a multiprocessor.

    As in a sweep, but that the indices come from a cache.
    """
    blocks = device.n_multiprocessors
    rng = np.random.default_rng(0)
    index = device.upload(rng.integers(scale.gathered, size=blocks * scale.gathers, dtype=np.int32))
    out = device.zeros((1, scale.gathered), np.float64)
    arguments = index, scale.rounds, out
    shared = 8 * scale.gathered

    def run():
        device.launch(gather_shared, blocks, scale.threads, arguments, shared)

    seconds = median_seconds(run, lambda: device.download(out[:1]), scale.repeats)
    return {"value": 1e-9 * blocks * scale.gathers * scale.rounds / seconds, "unit": "G/s"}


# -- the table --------------------------------------------------------------------------------


def row(item, result):
    return [item, f"{result['value']:.4g}", result["unit"]]


def failed(result):
    return False
