"""Clocks: of calls by the host's, of launches by events of the device.

An event before a launch and one after it would also time what the host does between them.  So a
kernel that only waits goes first, and while it waits the host queues event, launch and event.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict

from sksurvgpu.backends.cuda._cuda import Device, cuda, kernel

COPIES = ("upload", "write", "send", "download", "empty", "zeros")
WAITS, WAIT = 20, 100_000  # so many naps of so many nanoseconds, 2 ms: more than a launch takes


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
