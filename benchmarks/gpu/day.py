"""The calls of the day: parts, how one shares its call's minutes, sizes, and items in processes.

A `Part` is a class in one of the modules that `MODULES` names. An error on a device leaves its
process without it, and a kernel that waits for ever ends only with its process. So a part's items
run in a process that reports each one's begin and result; where it fails or falls silent, the item
at hand gets the blame and a new process takes the rest.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import ClassVar, NamedTuple

from ..processes import ROOT, environment
from ..report import columns


class Part:
    """Items that are measured together, and their table.

    A result with "error", or whose "passed" is False, is a failure; its "note" ends the line.
    `published` has lines of the table that nobody measures.
    """

    limit = 60.0  # seconds of one item
    table = ""  # columns, as of `report.columns`, of the items' lines
    published = ()
    known: ClassVar[dict] = {}

    def __init_subclass__(cls):
        Part.known[cls.__name__.lower()] = cls()

    @property
    def columns(self):
        return columns(self.table) if self.table else ()

    def jobs(self, sizes):
        """Items, in tuples that share a process."""
        raise NotImplementedError

    def measure(self, item, sizes):
        """A dictionary for JSON."""
        raise NotImplementedError

    def lines(self, item, result):
        """Of the table."""
        return [{"item": item, **result}]

    def footer(self, results):
        """Text after the table."""
        return ""


class Call(NamedTuple):
    """Its minutes, and each part's share of them."""

    minutes: float
    shares: dict


CALLS = {
    "call0": Call(1.0, {"chip": 1.0}),
    "call1": Call(
        8.0,
        {
            "smoke": 0.1,
            "ceilings": 0.1,
            "kernels": 0.2,
            "passes": 0.1,
            "variants": 0.2,
            "start": 0.15,
            "profile": 0.15,
        },
    ),
    "call2": Call(6.0, {"parity": 0.8, "samplers": 0.2}),
    "papers": Call(8.0, {"fusion": 0.1, "papers": 0.6, "crossover": 0.3}),
    "call3": Call(5.0, {"sanitizer": 1.0}),
}
SIDE_BY_SIDE = ("parity", "sanitizer")  # parts whose processes may run at the same time
MODULES = {"chip": "first", "smoke": "first"}
MODULES |= {"variants": "kernels", "profile": "kernels", "sanitizer": "parity"}
MARGIN = 0.05  # of the minutes, for starting, and ending what is late


def part_of(name):
    """The part of a name; modules without a device's packages are not imported before."""
    import_module(f"{__package__}.{MODULES.get(name, name)}")
    return Part.known[name]


def schedule(shares, begin, seconds):
    """Parts and when each must end; what an earlier one left of its share is the next one's."""
    scale = (1.0 - MARGIN) * seconds / sum(shares.values())
    passed = 0.0
    for part, share in shares.items():
        passed += share
        yield part, begin + scale * passed


def fails(result):
    """Whether an item was found wrong or ended in an error."""
    return "error" in result or result.get("passed") is False


@dataclass(frozen=True)
class Sizes:
    """Numbers of the day itself, a short one, or a simulated one; a part reads its own."""

    # ceilings: numbers copied, gathered (64 KiB of shared memory), and how often
    copied: int = 2**27
    meetings: int = 2_000
    launches: int = 500
    gathered: int = 2**13
    gathers: int = 2**16
    rounds: int = 32
    blocks: int = 512
    threads: int = 256
    repeats: int = 5
    teams: tuple = (1, 8, 32, 128)
    # parity: shapes are threads of a block and rows of a range, for teams of one block and of many
    seeds: int = 20
    rows: tuple = (40, 97, 256, 600)
    columns: int = 6
    shapes: tuple = ((256, 2_048), (256, 16), (64, 16), (128, 33))
    batch: int = 7
    many_fits: int = 700
    large: tuple = (200_000, 300)
    parity_max_iter: int = 1_000
    max_iter: int = 1_000
    # timings: the papers' prior variance of 1 is this penalty on the sum; `shrink` divides the rows
    # of a problem, `width` replaces its columns
    penalty: float = 2**0.5
    shrink: int = 1
    width: int | None = None
    most_nonzeros: float = 1.1e8
    fits: int = 100
    penalties: int = 20
    crossing_rows: tuple = (1_000, 10_000, 100_000, 1_000_000)
    crossing_fits: tuple = (1, 10, 100)
    most_work: float = 1e8  # nonzeros times fits that the CPU is asked for
    cells: tuple = (100_000, 177_828, 316_228, 562_341, 1_000_000)
    coordinates: int = 200
    # samplers: chains, rows, columns; rows, columns, categories
    draws: int = 2**26
    compared_draws: int = 100_000
    lasso: tuple = (64, 425, 2_000)
    multinomial: tuple = (506_450, 56, 9)
    parity_lasso: tuple = (2, 60, 100)
    parity_multinomial: tuple = (2_000, 5, 4)
    parity_iterations: int = 50
    iterations: int = 20


FULL = Sizes()
SMALL = replace(
    FULL,
    copied=2**24,
    meetings=200,
    launches=100,
    repeats=3,
    seeds=2,
    many_fits=300,
    large=(20_000, 100),
    shrink=20,
    most_nonzeros=1e7,
    fits=10,
    penalties=5,
    crossing_rows=(1_000, 10_000),
    cells=(100_000,),
    coordinates=20,
    draws=2**20,
    compared_draws=10_000,
    lasso=(8, 60, 100),
    multinomial=(5_000, 10, 4),
    iterations=5,
)
TINY = Sizes(
    copied=2**8,
    meetings=2,
    launches=2,
    gathered=64,
    gathers=64,
    rounds=2,
    blocks=1,
    threads=32,
    repeats=1,
    teams=(1, 2, 4),
    seeds=1,
    rows=(40,),
    columns=2,
    shapes=((32, 12),),
    batch=2,
    many_fits=3,
    large=(60, 3),
    max_iter=1,
    penalty=0.1,
    shrink=10**6,
    width=2,
    fits=2,
    penalties=2,
    crossing_rows=(60,),
    crossing_fits=(1,),
    cells=(70,),
    coordinates=1,
    draws=8,
    compared_draws=6,
    lasso=(2, 4, 6),
    multinomial=(12, 2, 3),
    parity_lasso=(2, 4, 6),
    parity_multinomial=(12, 2, 3),
    parity_iterations=4,
    iterations=1,
)
SIZES = {"full": FULL, "small": SMALL, "tiny": TINY}


def name_of(sizes):
    return next(name for name, known in SIZES.items() if known == sizes)


MARK = "@@"
NO_TIME = {"not_run": "no time"}
LEAST_SECONDS = 5.0  # less is not worth a process
KEPT_LINES = 40
QUIET = {"NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", "PYTHONUNBUFFERED": "1"}


@dataclass
class Job:
    """Items of one part that share a process; `n_threads` limits the CPU's."""

    part: str
    items: tuple
    sizes: str  # name in SIZES
    n_threads: int | None = None
    results: dict = field(default_factory=dict)

    @property
    def left(self):
        return [item for item in self.items if item not in self.results]


def run_job(job, deadline):
    """Results of all items, within the time there is."""
    limit = part_of(job.part).limit
    while job.left and deadline - time.monotonic() > LEAST_SECONDS:
        before = len(job.results)
        log = _run_process(job, deadline, limit)
        in_time = time.monotonic() < deadline
        if in_time and len(job.results) == before:  # the next process would do no better
            job.results |= {item: {"error": "".join(log)[-2_000:]} for item in job.left}
    job.results |= dict.fromkeys(job.left, NO_TIME)
    return job.results


def _run_process(job, deadline, limit):
    """Results of one process; returns what else it printed."""
    order = {"part": job.part, "items": job.left, "sizes": job.sizes}
    order["seconds"] = deadline - time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.day", json.dumps(order)],
        env=environment(job.n_threads, **QUIET),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines = queue.Queue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        return _follow(job, lines, deadline, limit)
    finally:
        _end(process)
        reader.join()
        process.stdout.close()


def _read(stream, lines):
    for line in stream:
        lines.put(line)
    lines.put(None)


def _end(process):
    """End a process and its children, if they are still there."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _follow(job, lines, deadline, limit):
    """Take results as they come, until the process ends or falls silent for too long."""
    log, item = [], None
    while True:
        wait = min(limit, deadline - time.monotonic())
        try:
            line = lines.get(timeout=max(wait, 0.0))
        except queue.Empty:
            if item is not None:
                is_late = time.monotonic() >= deadline
                silent = {"error": f"no result after {limit:.0f} s; " + "".join(log)[-1_000:]}
                job.results[item] = {"not_run": "no time left to end"} if is_late else silent
            return log
        if line is None:
            if item is not None:
                job.results[item] = {"error": "the process ended; " + "".join(log)[-2_000:]}
            return log
        if not line.startswith(MARK):
            log = [*log, line][-KEPT_LINES:]
            continue
        said = json.loads(line[len(MARK) :])
        item = said.get("begin")
        if item is None:
            job.results[said["item"]] = said["result"]


def run_items(part, items, sizes, seconds, say=print):
    """Measure items in turn, as long as there is time; False where one failed."""
    measure, begin = part_of(part).measure, time.monotonic()
    for item in items:
        passed = time.monotonic() - begin
        if passed > seconds - LEAST_SECONDS:
            say(MARK + json.dumps({"item": item, "result": NO_TIME}), flush=True)
            continue
        say(MARK + json.dumps({"begin": item}), flush=True)
        try:
            result, is_right = measure(item, SIZES[sizes]), True
        except Exception:
            result, is_right = {"error": traceback.format_exc()[-2_000:]}, False
        result = {"seconds": time.monotonic() - begin - passed, **result}
        say(MARK + json.dumps({"item": item, "result": result}), flush=True)
        if not is_right:  # the device may be lost to this process
            return False
    return True


if __name__ == "__main__":
    from benchmarks.gpu.day import run_items as run_order  # this module is another one here

    sys.exit(0 if run_order(**json.loads(sys.argv[1])) else 1)
