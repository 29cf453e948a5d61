"""From which size on the device wins: the same batches there and on all cores of the CPU.

The device's time has everything but compiling: planning of the batch, upload, fits, download.
"""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from sksurvgpu.backends import choose, cpu
from sksurvgpu.solver.problem import Batch
from sksurvgpu.solver.solve import Options, solve

from . import problems

ITEM_LIMIT = 100.0
COLUMNS = (
    ("nonzeros x fits", "work", ",d"),
    ("CPU ms", "cpu_ms", ".1f"),
    ("CUDA ms", "cuda_ms", ".1f"),
    ("CPU / CUDA", "ratio", ".2f"),
)
WIDTH = 1_000


def jobs(sizes):
    """By work, so that what finds no time are the largest."""
    width = sizes.width or WIDTH
    pairs = [(n, fits) for n in sizes.crossing_rows for fits in sizes.crossing_fits]
    work = {pair: pair[0] * pair[1] * width * problems.DENSITY for pair in pairs}
    kept = sorted((w, pair) for pair, w in work.items() if w <= sizes.most_work)
    return [tuple(f"rows {n}, fits {fits}" for _, (n, fits) in kept)]


def measure(item, sizes):
    n, n_fits = (int(part.split()[1]) for part in item.split(", "))
    problem = problems.cox_problem(n, sizes.width or WIDTH)
    rng = np.random.default_rng(0)
    weight = None if n_fits == 1 else (rng.random((n, n_fits)) < 0.9).astype(float)
    batch = Batch(np.full((1, n_fits), sizes.penalty), weight=weight)
    options, seconds = Options(max_iter=sizes.max_iter, baseline=False), {}
    for name, backend in (("cpu", cpu), ("cuda", choose("cuda"))):
        solve(problem, replace(batch, lambdas=batch.lambdas[:, :1]), backend, options)
        runs = []
        for _ in range(min(sizes.repeats, 3)):
            begin = time.perf_counter()
            solve(problem, batch, backend, options, problems.n_cores())
            runs.append(time.perf_counter() - begin)
        seconds[name] = min(runs)
    return {
        "work": len(problem.design.indices) * n_fits,
        "cpu_ms": 1e3 * seconds["cpu"],
        "cuda_ms": 1e3 * seconds["cuda"],
        "ratio": seconds["cpu"] / seconds["cuda"],
    }


def crossover(results):
    """Least nonzeros times fits from which on the device always won; None: nowhere."""
    found = None
    measured = sorted((r["work"], r["ratio"]) for r in results.values() if "work" in r)
    for work, ratio in reversed(measured):
        if ratio <= 1.0:
            break
        found = work
    return found


def footer(results):
    """What a rule for backend="auto" would be."""
    if not any("work" in result for result in results.values()):
        return "nothing was measured"
    work = crossover(results)
    return "CUDA wins nowhere" if work is None else f"CUDA wins from {work:,} on"
