"""From which size on the device wins: the same batches there and on all cores of the CPU.

The device's time has everything but compiling: planning of the batch, upload, fits, download.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from sksurvgpu.backends import choose, cpu
from sksurvgpu.solver.problem import Batch
from sksurvgpu.solver.solve import Options, solve

from . import gpu_problems as problems
from .gpu_timings import PENALTY
from .report import number

ITEM_LIMIT = 100.0
HEADERS = ["crossover: rows, fits", "nonzeros x fits", "CPU ms", "CUDA ms", "CPU / CUDA", "note"]


@dataclass(frozen=True)
class Scale:
    rows: tuple = (1_000, 10_000, 100_000, 1_000_000)
    columns: int = 1_000
    fits: tuple = (1, 10, 100)
    most_work: float = 1e8  # nonzeros times fits that the CPU is asked for
    repeats: int = 3


FULL = Scale()
SMALL = Scale(rows=(1_000, 10_000), columns=200, repeats=1)


def jobs(scale):
    pairs = [(n, fits) for n in scale.rows for fits in scale.fits]
    work = {pair: pair[0] * pair[1] * scale.columns * problems.DENSITY for pair in pairs}
    kept = sorted((w, pair) for pair, w in work.items() if w <= scale.most_work)
    return {"crossover": tuple(f"{n}, {fits}" for _, (n, fits) in kept)}


def measure(item, scale):
    n, n_fits = map(int, item.split(", "))
    problem = problems.cox_problem(n, scale.columns)
    rng = np.random.default_rng(0)
    weight = None if n_fits == 1 else (rng.random((n, n_fits)) < 0.9).astype(float)
    batch = Batch(np.full((1, n_fits), PENALTY), weight=weight)
    seconds = {}
    for name, backend in (("cpu", cpu), ("cuda", choose("cuda"))):
        options = Options(baseline=False)
        solve(problem, replace(batch, lambdas=batch.lambdas[:, :1]), backend, options)
        runs = []
        for _ in range(scale.repeats):
            begin = time.perf_counter()
            solve(problem, batch, backend, options, problems.n_cores())
            runs.append(time.perf_counter() - begin)
        seconds[name] = min(runs)
    work = len(problem.design.indices) * n_fits
    return {"work": work, "cpu_ms": 1e3 * seconds["cpu"], "cuda_ms": 1e3 * seconds["cuda"]}


def crossover(results):
    """Least nonzeros times fits from which on the device always won; None: nowhere."""
    found = None
    for work, ratio in reversed(_measured(results)):
        if ratio <= 1.0:
            break
        found = work
    return found


def _measured(results):
    """Work and ratio of times, by work."""
    kept = [result for result in results.values() if "work" in result]
    return sorted((result["work"], result["cpu_ms"] / result["cuda_ms"]) for result in kept)


def row(item, result):
    ratio = result["cpu_ms"] / result["cuda_ms"]
    times = [number(result[name], ".1f") for name in ("cpu_ms", "cuda_ms")]
    return [item, f"{result['work']:,}", *times, f"{ratio:.2f}", ""]


def footer_of(results):
    """What a rule for backend="auto" would be."""
    if not _measured(results):
        return "nothing was measured"
    work = crossover(results)
    return "CUDA wins nowhere" if work is None else f"CUDA wins from {work:,} on"


def failed(result):
    return False
