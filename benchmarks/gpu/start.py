"""How a process starts; nothing that a fit needs is imported here before its time is taken."""

from __future__ import annotations

import tempfile
import time
from functools import cache

import numpy as np

from ..processes import call
from .day import Part

ROWS, WIDTH = 20_000, 100


class Start(Part):
    """Seconds of the first and second fit of a process: nothing on disk, and what the first left.

    The first compiles, or loads what was compiled before, and opens the context.
    """

    limit = 150.0
    table = "import s=import_s:.2f | first s=first_s:.2f | second s=second_s:.4f"

    def jobs(self, sizes):
        """Of one algorithm in one process: the second finds what the first one left on disk."""
        return [(f"{name}, cold", f"{name}, warm") for name in ("majorized", "exact")]

    def measure(self, item, sizes):
        algorithm, _ = item.split(", ")
        how = {"algorithm": algorithm, "max_iter": sizes.max_iter, "penalty": sizes.penalty}
        how |= {"n": max(ROWS // sizes.shrink, 60), "p": sizes.width or WIDTH}
        folder = cache_folder(algorithm)
        return call(__name__, "first_fits", how, timeout=self.limit, NUMBA_CACHE_DIR=folder)


@cache
def cache_folder(name):
    return tempfile.mkdtemp()


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
