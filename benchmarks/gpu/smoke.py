"""The first fit on the device, against the CPU: whether anything else is worth measuring."""

from __future__ import annotations

import time

import numpy as np

from sksurvgpu.backends import choose, cpu
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch

from . import problems

ITEM_LIMIT = 60.0
COLUMNS = (
    ("first s", "first_s", ".2f"),
    ("second s", "second_s", ".4f"),
    ("CPU s", "cpu_s", ".3f"),
    ("coef", "coef", ".1e"),
    ("objective", "objective", ".1e"),
    ("iter", "iterations", "d"),
    ("CPU iter", "cpu_iterations", "d"),
    ("bitwise", "bitwise", ""),
)
ROWS, WIDTH, FITS = 20_000, 200, 3
COEF, OBJECTIVE = 1e-5, 1e-8  # largest relative differences at the default tolerance


def jobs(sizes):
    return [("majorized",), ("exact",)]


def measure(item, sizes):
    """Three fits of a batch, twice on the device (the same bits?), once on the CPU."""
    n, p = max(ROWS // sizes.shrink, 60), sizes.width or WIDTH
    problem = problems.cox_problem(n, p)
    weight = np.ones((n, FITS))
    weight[:, 1:] = np.random.default_rng(0).integers(3, size=(n, FITS - 1))
    batch = Batch(np.full((1, FITS), sizes.penalty), weight=weight)
    options = Options(algorithm=item, max_iter=sizes.max_iter)
    runs, seconds = [], []
    for backend in (choose("cuda"), choose("cuda"), cpu):
        begin = time.perf_counter()
        runs.append([path[0] for path in Fits(problem, batch, backend, options).solve()])
        seconds.append(time.perf_counter() - begin)
    found, again, expected = runs
    coef, objective = (_difference(found, expected, name) for name in ("coef", "objective"))
    same = all(np.array_equal(a.coef, b.coef) for a, b in zip(found, again, strict=True))
    ended = all(solution.converged for solution in (*found, *expected))
    return {
        "first_s": seconds[0],
        "second_s": seconds[1],
        "cpu_s": seconds[2],
        "coef": coef,
        "objective": objective,
        "iterations": max(solution.n_iter for solution in found),
        "cpu_iterations": max(solution.n_iter for solution in expected),
        "bitwise": "yes" if same else "no",
        "passed": bool(np.isfinite(coef) and objective <= OBJECTIVE and coef <= COEF) or not ended,
        "note": "" if ended else "not all converged",
    }


def _difference(found, expected, name):
    """Largest, relative to the largest number of each fit."""
    pairs = [(getattr(a, name), getattr(b, name)) for a, b in zip(found, expected, strict=True)]
    return max(float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-300)) for a, b in pairs)
