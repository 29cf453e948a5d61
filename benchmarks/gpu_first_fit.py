"""Seconds of the first fit of a process on a device: compiling, the context, and the fit."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

ITEM_LIMIT = 120.0
HEADERS = ["first fit", "first s", "second s", "note"]


@dataclass(frozen=True)
class Scale:
    rows: int = 20_000
    columns: int = 100
    max_iter: int = 1_000


FULL = SMALL = Scale()


def jobs(scale):
    """A fresh process each."""
    return {name: (name,) for name in ("cox", "cox, exact")}


def measure(item, scale):
    from sksurvgpu.backends import choose
    from sksurvgpu.solver.problem import Batch
    from sksurvgpu.solver.solve import Options, solve

    from .gpu_problems import cox_problem

    problem = cox_problem(scale.rows, scale.columns)
    algorithm = "exact" if item.endswith("exact") else "majorized"
    options = Options(algorithm=algorithm, max_iter=scale.max_iter, baseline=False)
    batch, seconds = Batch(np.full((1, 1), 10.0)), []
    for _ in range(2):
        begin = time.perf_counter()
        solve(problem, batch, choose("cuda"), options)
        seconds.append(time.perf_counter() - begin)
    return {"first_s": seconds[0], "second_s": seconds[1]}


def row(item, result):
    return [item, f"{result['first_s']:.2f}", f"{result['second_s']:.3f}", ""]


def failed(result):
    return False
