"""Clocks, and what the chip can do: bandwidth, barriers, launches, gathers, sums.

Calls are timed by the host's clock, launches by events of the device.  An event before a launch and
one after it would also time what the host does between them; so a kernel that only waits goes
first, and while it waits the host queues event, launch and event.  Barriers are those of
`backends.cuda.team`: a team's own, in a launch whose blocks are resident.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from functools import cache

import numpy as np
from numba import float64, int32

from sksurvgpu.backends import choose
from sksurvgpu.backends.cuda import team
from sksurvgpu.backends.cuda._cuda import Device, cuda, kernel

from .day import Part

COPIES = ("upload", "write", "send", "download", "empty", "zeros")
WAITS, WAIT = 20, 100_000  # so many naps of so many nanoseconds, 2 ms: more than a launch takes


class Ceilings(Part):
    """The limits of the chip, by which everything else is measured."""

    table = "ceiling=value:.4g | =unit"

    def jobs(self, sizes):
        teams = [f"{what}, team of {size}" for what in ("barrier", "sum") for size in sizes.teams]
        return [("copy", *teams, "launch", *GATHERS)]

    def measure(self, item, sizes):
        device = choose("cuda").device
        if ", team of " in item:
            what, size = item.split(", team of ")
            seconds = latency(device, what, int(size), sizes)
            if seconds is None:
                return {"not_run": f"fewer than {size} blocks are resident"}
            return {"value": 1e6 * seconds, "unit": "us"}
        if item in GATHERS:
            return _measure_shared(device, GATHERS[item], sizes)
        if item == "launch":
            return _measure_launch(device, sizes)
        return {"value": 1e-9 * bandwidth(device, sizes), "unit": "GB/s"}


@kernel
def copy_numbers(source, target):
    """Four independent loads a thread and step."""
    n, step = source.shape[0] // 4, cuda.gridsize(1)
    for i in range(cuda.grid(1), n, step):
        a, b = source[i], source[i + n]
        c, d = source[i + 2 * n], source[i + 3 * n]
        target[i], target[i + n] = a, b
        target[i + 2 * n], target[i + 3 * n] = c, d


@cache
def bandwidth(device, sizes):
    """Bytes read and written a second; measured once a process."""
    numbers = np.random.default_rng(0).random(2**12)
    source = device.upload(np.tile(numbers, sizes.copied // len(numbers) or 1)[: sizes.copied])
    target = device.zeros(source.shape[0], np.float64)

    def run():
        device.launch(copy_numbers, sizes.blocks * 4, sizes.threads, (source, target))

    seconds = median_seconds(run, lambda: device.download(target[:1]), sizes.repeats)
    return 2 * source.nbytes / seconds


@kernel
def meet_often(exchange, n):
    team.begin()
    for _ in range(n):
        team.barrier(exchange)


@kernel
def sum_often(exchange, n, out):
    """The least that a coordinate costs: the partial sums of a team, exchanged."""
    team.begin()
    scratch, total = team.new_scratch(), 1.0
    for turn in range(n):
        total = team.team_sum(exchange, 1.0, turn, scratch)
    if cuda.grid(1) == 0:
        out[0] = total


def new_exchange(device, size):
    """Memory by which one team of blocks meets."""
    return team.Exchange(
        device.upload(np.zeros(1, np.int32)),
        device.upload(np.array([size], np.int32)),
        device.zeros(1, np.uint32),
        device.zeros((1, 2, team.VALUES, size), np.float64),
    )


@cache
def latency(device, what, size, sizes):
    """Seconds of one barrier, or of one sum, of a team; None where it would not be resident.

    The launch itself is taken off: a long run's time minus a short one's.
    """
    exchange, out = new_exchange(device, size), device.zeros(1, np.float64)
    run, more = (meet_often, ()) if what == "barrier" else (sum_often, (out,))
    if device.resident_blocks(run, sizes.threads, (exchange, 1, *more)) < size:
        return None

    def seconds(n):
        def launch():
            device.launch(run, size, sizes.threads, (exchange, n, *more))

        return median_seconds(launch, lambda: device.download(out), sizes.repeats)

    few = max(sizes.meetings // 10, 1)
    return max(seconds(sizes.meetings) - seconds(few), 0.0) / max(sizes.meetings - few, 1)


@kernel
def do_nothing(arrays, n):
    pass


def _measure_launch(device, sizes):
    """Time between launches of three arrays and a number, one after the other."""
    arrays = tuple(device.zeros(1, np.float64) for _ in range(3))

    def run():
        for _ in range(sizes.launches):
            device.launch(do_nothing, 1, sizes.threads, (arrays, 1))

    seconds = median_seconds(run, lambda: device.download(arrays[0]), sizes.repeats)
    return {"value": 1e6 * seconds / sizes.launches, "unit": "us"}


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


@kernel
def count_shared(index, n_rounds, out):
    """Add ones to integers in shared memory: native atomics, and the same result always."""
    shared = cuda.shared.array(0, int32)
    n, per_block = out.shape[1], index.shape[0] // cuda.gridDim.x
    for k in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        shared[k] = 0
    cuda.syncthreads()
    low = cuda.blockIdx.x * per_block
    for r in range(n_rounds):
        for q in range(low + cuda.threadIdx.x, low + per_block, cuda.blockDim.x):
            cuda.atomic.add(shared, (index[q] ^ r) & (n - 1), 1)
    cuda.syncthreads()
    cuda.atomic.add(out, (0, cuda.threadIdx.x), shared[cuda.threadIdx.x & (n - 1)])


@kernel
def gather_global(index, n_rounds, out):
    """Sum what indices point at in memory that the L2 cache holds."""
    n, per_block, total = out.shape[1], index.shape[0] // cuda.gridDim.x, 0.0
    low = cuda.blockIdx.x * per_block
    for r in range(n_rounds):
        for q in range(low + cuda.threadIdx.x, low + per_block, cuda.blockDim.x):
            total += out[0, (index[q] ^ r) & (n - 1)]
    if total < 0.0:
        out[0, 0] = total


# item -> kernel, bytes of shared memory a number, numbers over those of `gathered`
GATHERS = {
    "gather, shared memory": (gather_shared, 8, 1),
    "integer sums, shared memory": (count_shared, 4, 1),
    "gather, L2": (gather_global, 0, 64),
}


def _measure_shared(device, how, sizes):
    """Of float64 or int32 through int32 indices; one block a multiprocessor, four without shares.

    As in products with columns, but that the indices come from a cache.
    """
    function, width, more = how
    blocks, n = device.n_multiprocessors * (1 if width else 4), sizes.gathered * more
    rng = np.random.default_rng(0)
    index = device.upload(rng.integers(n, size=blocks * sizes.gathers, dtype=np.int32))
    out = device.zeros((1, n), np.float64)
    arguments = index, sizes.rounds, out
    shared = width * sizes.gathered

    def run():
        device.launch(function, blocks, sizes.threads, arguments, shared)

    seconds = median_seconds(run, lambda: device.download(out[:1]), sizes.repeats)
    return {"value": 1e-9 * blocks * sizes.gathers * sizes.rounds / seconds, "unit": "G/s"}


def median_seconds(run, wait, repeats):
    """Median time of a run that ends with a download; the first one compiles."""
    seconds = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        run()
        wait()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds[1:])


@kernel
def pause(n):
    for _ in range(n):
        cuda.nanosleep(WAIT)


class HostEvent:
    """On a simulated device, where a launch has ended when it returns."""

    def record(self):
        self.at = time.perf_counter()

    def synchronize(self):
        pass

    def elapsed_time(self, later):
        return 1e3 * (later.at - self.at)


class Watch:
    """Every launch on a device inside the context: name, time on device and host, size.

    Copies and allocations are counted.
    """

    def __init__(self, device, waits=WAITS):
        self.device, self.launches, self.counts = device, [], defaultdict(int)
        self._is_real = isinstance(device, Device)
        self._event = cuda.event if self._is_real else HostEvent
        self._waits = waits if self._is_real else 0

    def __enter__(self):
        launch = self.device.launch
        self.device.launch = self._watched(launch)
        self._names = [name for name in COPIES if hasattr(self.device, name)]
        for name in self._names:
            setattr(self.device, name, self._counted(name, getattr(self.device, name)))
        if self._waits:
            launch(pause, 1, 1, (1,))  # compiles it
        self._launch = launch
        return self

    def __exit__(self, *error):
        for name in ("launch", *self._names):
            delattr(self.device, name)  # the class's own is back

    def _watched(self, launch):
        def watched(kernel, blocks, threads, arguments, *more, **named):
            first, last = self._event(), self._event()
            if self._waits:
                self._launch(pause, 1, 1, (self._waits,))
            first.record()
            begin = time.perf_counter()
            launch(kernel, blocks, threads, arguments, *more, **named)
            host = time.perf_counter() - begin
            last.record()
            self.launches.append((kernel.py_func.__name__, first, last, host))

        return watched

    def _counted(self, name, function):
        def counted(*arguments):
            self.counts[name] += 1
            return function(*arguments)

        return counted

    def by_kernel(self):
        """Name -> launches, milliseconds in all, microseconds of one on device and host."""
        found = defaultdict(list)
        for name, first, last, host in self.launches:
            last.synchronize()
            found[name].append((first.elapsed_time(last), host))
        return {
            name: {
                "launches": len(times),
                "total_ms": sum(ms for ms, _ in times),
                "device_us": 1e3 * statistics.median(ms for ms, _ in times),
                "host_us": 1e6 * statistics.median(host for _, host in times),
            }
            for name, times in sorted(found.items(), key=lambda pair: -sum(t for t, _ in pair[1]))
        }
