"""Every kernel of a fit, timed on the device: which one to work on.

A warm fit runs under `ceilings.Watch`, which gives each launch's time on device and host.  Below
the kernels stand the least times: X, and what an evaluation has of rows, read once at the bandwidth
that was measured; and how often the host copied, allocated and launched.
"""

from __future__ import annotations

import time

import numpy as np

from sksurvgpu.backends import choose
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

from . import ceilings, problems
from .ceilings import Watch

ITEM_LIMIT = 100.0
COLUMNS = (
    ("launches", "launches", "d"),
    ("us on device", "device_us", ".1f"),
    ("us of host", "host_us", ".1f"),
    ("ms in all", "total_ms", ".3f"),
)
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


def jobs(sizes):
    return [(item,) for item in ITEMS]


def measure(item, sizes):
    what = problems.read_name(item, sizes)[0]
    problem = problems.problem_of(item, sizes)
    if problem is None:
        return {"not_run": "too large for these sizes"}
    backend = choose("cuda", "float32" if what == "float32" else "float64")
    found = watch_fit(problem, backend, sizes, what, sizes.fits if what == "folds" else 1)
    rate = ceilings.bandwidth(backend.device, sizes)
    floors = {name: 1e3 * n / rate for name, n in problems.bytes_of(problem).items()}
    return {**problems.describe(problem), **found, "floors_ms": floors}


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


def lines(item, result):
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
