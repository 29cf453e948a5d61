"""Every kernel of a fit timed, one choice of the backend made every way, and a profiler's counters.

A warm fit runs under `ceilings.Watch`, which gives each launch's time on device and host. Below the
kernels stand the least times: X, and what an evaluation has of rows, read once at the bandwidth
that was measured; and how often the host copied, allocated and launched.
``python -m benchmarks.gpu.kernels "cox 1e5 x 1000" full`` is the fit that runs under the profiler.
"""

from __future__ import annotations

import csv
import io
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from functools import partial
from typing import NamedTuple

import numpy as np

from sksurvgpu.backends import choose
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

from ..processes import TookTooLongError, call, environment, run
from . import ceilings, problems
from .ceilings import Watch
from .day import SIZES, Part, name_of
from .problems import AbsentError, layout_of, no_matrices, only_matrices, setting

# in order of interest; the last ones may find no time
ITEMS = (
    "cox 1e6 x 1000",
    "ehr 1e5 x 2000",
    "folds, 1e5 x 1000",
    "strata 50, 1e6 x 1000",
    "fine-gray 1e6 x 1000",
    "strata 50000, 1e6 x 1000",
    "cox 1e5 x 1000",
    "float32, 1e6 x 1000",
    "exact, 1e5 x 1000",
    "exact, 1e6 x 1000",
)
EXACT_CYCLES = 3


class Kernels(Part):
    """Every kernel of a fit: which one to work on."""

    limit = 100.0
    table = (
        "launches:d | us on device=device_us:.1f | us of host=host_us:.1f | ms in all=total_ms:.3f"
    )

    def jobs(self, sizes):
        return [(item,) for item in ITEMS]

    def measure(self, item, sizes):
        what = problems.read_name(item, sizes)[0]
        problem = problems.problem_of(item, sizes)
        if problem is None:
            return {"not_run": "too large for these sizes"}
        backend = choose("cuda", "float32" if what == "float32" else "float64")
        found = watch_fit(problem, backend, sizes, what, sizes.fits if what == "folds" else 1)
        rate = ceilings.bandwidth(backend.device, sizes)
        floors = {name: 1e3 * n / rate for name, n in problems.bytes_of(problem).items()}
        return {**problems.describe(problem), **found, "floors_ms": floors}

    def lines(self, item, result):
        """The fit, its kernels, the floors."""
        device = sum(times["total_ms"] for times in result["kernels"].values())
        launches = sum(times["launches"] for times in result["kernels"].values())
        counts = ", ".join(f"{n} {name}" for name, n in result["counts"].items())
        note = f"fit {result['fit_ms']:.2f} ms, {result['iterations']} iterations; {counts}"
        yield {"item": item, "launches": launches, "total_ms": device, "note": note}
        for name, times in result["kernels"].items():
            yield {"item": f"  {name}", **times}
        for name, ms in result["floors_ms"].items():
            yield {"item": f"  floor: {name} read once", "device_us": 1e3 * ms}


def watch_fit(problem, backend, sizes, what="cox", n_fits=1):
    """Kernels of a warm fit, or batch; its own seconds were taken without the clocks."""
    rng, n = np.random.default_rng(0), problem.plan.n_base
    weight = None if n_fits == 1 else (rng.random((n, n_fits)) < 0.9).astype(float)
    batch = Batch(np.full((1, n_fits), sizes.penalty), weight=weight)
    algorithm = "exact" if what == "exact" else "majorized"
    most = min(EXACT_CYCLES, sizes.max_iter) if what == "exact" else sizes.max_iter
    options = Options(algorithm=algorithm, max_iter=most, baseline=False)
    run = Fits(problem, batch, backend, options).solve
    run()
    begin = time.perf_counter()
    solutions = run()
    seconds = time.perf_counter() - begin
    with Watch(backend.device) as watch:
        run()
    return {
        "fit_ms": 1e3 * seconds,
        "iterations": max(path[0].n_iter for path in solutions),
        "converged": all(path[0].converged for path in solutions),
        "kernels": watch.by_kernel(),
        "counts": dict(watch.counts),
    }


class Family(NamedTuple):
    """Ways of one choice, on a problem; `is_compiled` where kernels have it in their code."""

    problem: str
    kernels: str  # of what names
    ways: dict
    is_compiled: bool = False


def families(sizes):
    """Every choice."""
    large, exact = "cox 1e6 x 1000", "exact, 1e5 x 1000"
    counts = [max(32, k * sizes.threads // 2) for k in (1, 2, 4)]  # more have no registers
    threads = {f"{n} threads": partial(layout_of, threads=n) for n in counts}
    fewer = {name: threads[name] for name in list(threads)[:-1]}  # ... in the exact algorithm
    chunks = {
        f"{n} MiB of rows": partial(setting, "backends.cuda.memory", DENSE_BYTES=n * 2**20)
        for n in (32, 128, 512)
    }
    return {
        "form": Family(large, ".", {"matrix": only_matrices, "diagonal": no_matrices}),
        "threads": Family(large, ".", threads),
        "threads, exact": Family(exact, ".", fewer),
        "matrix": Family("ehr 1e5 x 2000", "^(tabulate|fill|scatter|contrast)$", chunks),
    }


class Variants(Part):
    """Which constant, or way, is best: the fit, and the kernels that a family asks for.

    A way that this version of the package does not have is "not run".
    """

    limit = 90.0
    table = (
        "fit ms=fit_ms:.2f | iter=iterations:d | kernels ms=kernels_ms:.3f | launches:d | "
        "slowest us=slowest_us:.1f"
    )

    def jobs(self, sizes):
        """A process a way: kernels keep the constants with which they were compiled."""
        every = families(sizes).items()
        return [(f"{family}: {way}",) for family, each in every for way in each.ways]

    def measure(self, item, sizes):
        """In a process without code on disk where that would be another way's."""
        if not families(sizes)[item.split(": ")[0]].is_compiled:
            return measure_here(item, sizes)
        given = {"item": item, "sizes": name_of(sizes)}
        with tempfile.TemporaryDirectory() as folder:
            how = {"timeout": self.limit, "NUMBA_CACHE_DIR": folder}
            return call(__name__, "measure_here", given, **how)


def measure_here(item, sizes):
    name, way = item.split(": ")
    sizes = SIZES[sizes] if isinstance(sizes, str) else sizes
    family = families(sizes)[name]
    problem = problems.problem_of(family.problem, sizes)
    if problem is None:
        return {"not_run": "too large for these sizes"}
    what = problems.read_name(family.problem, sizes)[0]
    try:
        with family.ways[way]():
            found = watch_fit(problem, choose("cuda"), sizes, what)
    except AbsentError as absent:
        return {"not_run": f"this version has none: {absent}"}
    kept = {k: v for k, v in found["kernels"].items() if re.search(family.kernels, k)}
    slowest = max(kept, key=lambda k: kept[k]["total_ms"], default=None)
    return {
        **found,
        "kernels_ms": sum(times["total_ms"] for times in kept.values()),
        "launches": sum(times["launches"] for times in kept.values()),
        "slowest_us": kept[slowest]["device_us"] if slowest else None,
        "note": f"{family.problem}; slowest: {slowest}",
    }


MOST_LAUNCHES = 60
# counter -> (key of the result, factor)
COUNTERS = {
    "gpu__time_duration.sum": ("us", 1e-3),  # ns
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("memory", 1.0),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("l2", 1.0),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("sm", 1.0),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("warps", 1.0),
    "l1tex__data_bank_conflicts_pipe_lsu.sum": ("conflicts", 1.0),
    "launch__registers_per_thread": ("registers", 1.0),
}
# item -> (problem, kernels by name)
PROFILED = {
    "iteration, 1e6": ("cox 1e6 x 1000", "."),
    "exact, 1e5": ("exact, 1e5 x 1000", "exact|cycle"),
}


class Profile(Part):
    """Counters of the kernels of one fit, by Nsight Compute: what a kernel waits for."""

    limit = 170.0
    table = (
        "launches:d | us:.1f | memory %=memory:.0f | L2 %=l2:.0f | SM %=sm:.0f | "
        "warps %=warps:.0f | bank conflicts=conflicts:.2g | registers:.0f"
    )

    def jobs(self, sizes):
        return [(item,) for item in PROFILED]

    def measure(self, item, sizes, run=run, find=shutil.which):
        """Medians over the first launches of each kernel."""
        executable = find("ncu")
        if executable is None:
            return {"not_run": "ncu not found"}
        problem, names = PROFILED[item]
        command = [executable, "--csv", "--page", "raw", "--print-units", "base"]
        command += ["--clock-control", "none", "--target-processes", "all"]
        command += ["--kernel-name", f"regex:{names}", "--launch-count", str(MOST_LAUNCHES)]
        command += ["--metrics", ",".join(COUNTERS), sys.executable, "-m", __name__, problem]
        command.append(name_of(sizes))
        try:
            status, printed = run(command, self.limit - 10.0, environment())
        except TookTooLongError as error:
            return {"not_run": f"no time: {error}"}
        found = read_counters(printed)
        return (
            {"kernels": found} if found else {"error": f"exit status {status}; {printed[-2_000:]}"}
        )

    def lines(self, item, result):
        yield {"item": item}
        for name, counters in result["kernels"].items():
            yield {"item": f"  {name[:40]}", **counters}


def read_counters(printed):
    """Kernel -> medians, from the table that begins with its header's "ID"."""
    text = printed[max(printed.find('"ID"'), 0) :]
    values = defaultdict(lambda: defaultdict(list))
    for line in csv.DictReader(io.StringIO(text)):
        for counter, (key, factor) in COUNTERS.items():
            try:
                number = float((line.get(counter) or "").replace(",", ""))
            except ValueError:  # the line of units
                continue
            values[line["Kernel Name"]][key].append(factor * number)
    return {
        name: {"launches": len(of["us"]), **{k: statistics.median(v) for k, v in of.items()}}
        for name, of in values.items()
        if of["us"]
    }


def fit(problem, sizes):
    """The fit that the profiler looks at: few iterations of a fit."""
    what = problems.read_name(problem, sizes)[0]
    algorithm, most = ("exact", 1) if what == "exact" else ("majorized", min(3, sizes.max_iter))
    options = Options(algorithm=algorithm, max_iter=most, baseline=False)
    batch = Batch(np.full((1, 1), sizes.penalty))
    return Fits(problems.problem_of(problem, sizes), batch, choose("cuda"), options).solve()


if __name__ == "__main__":
    fit(sys.argv[1], SIZES[sys.argv[2]])
