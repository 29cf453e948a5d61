"""Seconds of the first and second fit of a fresh process: nothing on disk, and what the first left.

The first compiles, or loads what was compiled before, and opens the context.
"""

from __future__ import annotations

import tempfile
import time
from functools import cache

import numpy as np

from ..processes import call

ITEM_LIMIT = 150.0
COLUMNS = (
    ("import s", "import_s", ".2f"),
    ("first s", "first_s", ".2f"),
    ("second s", "second_s", ".4f"),
)
ROWS, WIDTH = 20_000, 100


def jobs(sizes):
    """Of one algorithm in one process: the second finds what the first one left on disk."""
    return [(f"{name}, cold", f"{name}, warm") for name in ("majorized", "exact")]


@cache
def cache_folder(name):
    return tempfile.mkdtemp()


def measure(item, sizes):
    algorithm, _ = item.split(", ")
    arguments = {"algorithm": algorithm, "n": max(ROWS // sizes.shrink, 60)}
    arguments |= {"p": sizes.width or WIDTH, "penalty": sizes.penalty}
    arguments["max_iter"] = sizes.max_iter
    folder = cache_folder(algorithm)
    return call(__name__, "first_fits", arguments, timeout=ITEM_LIMIT, NUMBA_CACHE_DIR=folder)


def first_fits(algorithm, n, p, penalty, max_iter):
    """Seconds in this process."""
    begin = time.perf_counter()
    from sksurvgpu.backends import choose
    from sksurvgpu.solver.fits import Fits, Options
    from sksurvgpu.solver.problem import Batch

    from .problems import cox_problem

    backend = choose("cuda")
    seconds, problem = [time.perf_counter() - begin], cox_problem(n, p)
    options = Options(algorithm=algorithm, max_iter=max_iter, baseline=False)
    for _ in range(2):
        begin = time.perf_counter()
        Fits(problem, Batch(np.full((1, 1), penalty)), backend, options).solve()
        seconds.append(time.perf_counter() - begin)
    return dict(zip(("import_s", "first_s", "second_s"), seconds, strict=True))
