"""CUDA against the CPU: the same fits, objective, coefficients and optimality compared.

The KKT residual of the device's coefficients is computed anew on the CPU.  A penalty is a share of
the largest of use; each fit descends two of them.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from . import gpu_cases as cases
from .report import number
from .scaling import forbid_matrices

# A model's kernels are compiled in its first item, for the device and for the CPU.
ITEM_LIMIT = 200.0
SHARES = (0.3, 0.05)  # penalties, over the largest of use
TOL = 1e-9
OBJECTIVE, COEF = 1e-10, 1e-7  # largest differences, relative
# The residual is that of other sums than the device's: they differ in rounding.
KKT = 1.01
HEADERS = ["parity", "fits", "objective", "coef", "KKT / tol", "iterations", "note"]


@dataclass(frozen=True)
class Scale:
    """How much is compared.

    Small problems have the rows of `rows` in turn; `shapes` are threads and rows of a range, for
    teams of one block and of many.
    """

    seeds: int = 20
    rows: tuple = (40, 97, 256, 600)
    columns: int = 6
    shapes: tuple = ((256, 2_048), (256, 16), (64, 16), (128, 33))
    batch: int = 7
    many_fits: int = 700
    large: tuple = (200_000, 300)
    tol: float = TOL
    max_iter: int = 1_000


FULL = Scale()
SMALL = Scale(seeds=2, large=(20_000, 100), many_fits=300)


def jobs(scale):
    """A process a model, so that one that hangs or fails leaves the others alone."""
    kinds = ("small", "exact", "float32", "batch", "large")
    listed = {model: tuple(f"{model}: {kind}" for kind in kinds) for model in cases.MODELS}
    listed["cox"] += ("cox: many fits",)
    return listed


def measure(item, scale):
    """Largest differences of all fits of an item."""
    model, kind = item.split(": ")
    check = {
        "small": _check_small,
        "exact": partial(_check_small, algorithm="exact"),
        "float32": partial(_check_small, precision="float32"),
        "batch": _check_batches,
        "many fits": _check_many,
        "large": _check_large,
    }[kind]
    worst = Worst()
    check(model, scale, worst)
    return worst.summary()


class Worst:
    """Largest differences so far, and what was compared where they exceeded a limit."""

    def __init__(self):
        self.fits, self.iterations, self.failures = 0, 0, []
        self.differences = {"objective": 0.0, "coef": 0.0, "kkt": 0.0}

    def add(self, name, found, expected, kkt, tol):
        """Compare the solutions of one fit."""
        self.fits += 1
        for one, two, residual in zip(found, expected, kkt, strict=True):
            self.iterations = max(self.iterations, one.n_iter)
            size, largest = abs(two.objective), np.abs(two.coef).max(initial=1.0)
            now = {
                "objective": abs(one.objective - two.objective) / max(size, 1e-300),
                "coef": float(np.abs(one.coef - two.coef).max(initial=0.0) / largest),
                "kkt": residual / tol if two.converged else 0.0,
            }
            limits = {"objective": OBJECTIVE, "coef": COEF, "kkt": KKT}
            if not two.converged:  # rounding ended both fits, at no particular point
                limits |= {"coef": np.inf, "kkt": np.inf}
            for key, value in now.items():
                # `not <=`: nan is a failure
                if not value <= limits[key]:
                    self.failures.append(f"{name}: {key} {value:.1e}")
                elif two.converged:
                    self.differences[key] = max(self.differences[key], value)

    def summary(self):
        return {
            "fits": self.fits,
            "iterations": self.iterations,
            **self.differences,
            "passed": not self.failures,
            "failures": self.failures[:20],
            "n_failures": len(self.failures),
        }


# -- comparing --------------------------------------------------------------------------------


@contextmanager
def layout_of(threads, rows_per_range):
    """Teams of other sizes than the problem's own."""
    from sksurvgpu.backends import cuda
    from sksurvgpu.backends.cuda.layout import Layout

    own = cuda.Layout
    cuda.Layout = partial(Layout, threads=threads, rows_per_range=rows_per_range)
    try:
        yield
    finally:
        cuda.Layout = own


@contextmanager
def sweeps_only():
    """The CPU takes no matrix, as a device takes none: both go the same way."""
    from sksurvgpu.solver import costs

    own = costs.is_cheap, costs.of_matrix
    forbid_matrices()
    try:
        yield
    finally:
        costs.is_cheap, costs.of_matrix = own


def compare(name, problem, batch, scale, worst, algorithm="majorized", precision="float64"):
    """Fit a batch on both; returns the CPU's solutions."""
    from sksurvgpu.backends import choose, cpu
    from sksurvgpu.solver.solve import Options, solve

    options = Options(scale.tol, scale.max_iter, algorithm)
    with sweeps_only():
        expected = solve(problem, batch, cpu, options)
    found = solve(problem, batch, choose("cuda", precision), options)
    residuals = kkt_of(problem, batch, found)
    for fit, (one, two) in enumerate(zip(found, expected, strict=True)):
        worst.add(f"{name}, fit {fit}", one, two, residuals[fit], scale.tol)
    return expected


def kkt_of(problem, batch, solutions):
    """Scores in standard errors, relative to the unit of `tol`, computed on the CPU."""
    from sksurvgpu.backends import cpu
    from sksurvgpu.backends.contract import Operations, ask

    columns = np.arange(problem.n_columns)
    factor = np.ones(len(columns)) if batch.factor is None else batch.factor

    def judge(of_fit):
        """Coroutine: a gradient at each solution."""
        found = []
        for solution in of_fit:
            yield from ask(Operations.start, solution.coef)
            gradient = yield from ask(Operations.gradient, columns)
            penalty = batch.penalty.at(solution.lam, factor, np.zeros(len(columns), bool))
            violation = penalty.violation(solution.coef, gradient)
            null = solution.null
            violation[violation <= null.noise] = 0.0
            unit = null.root * max(null.allows(1.0, solution.deviation), 1e-300)
            found.append(float((violation / unit).max(initial=0.0)))
        return found

    return cpu.run(problem, batch, [judge(of_fit) for of_fit in solutions], 1)


def largest_penalty(problem, batch):
    """The least penalty under which nothing is selected, of the first fit."""
    from sksurvgpu.backends import cpu
    from sksurvgpu.solver.solve import solve

    one = replace(batch, lambdas=np.full((1, 1), 1e100))
    for name in ("weight", "offset"):
        values = getattr(batch, name)
        one = replace(one, **{name: None if values is None else values[:, :1]})
    return solve(problem, one, cpu)[0][0].lam_max


# -- items ------------------------------------------------------------------------------------


def _draw(case, seed, scale):
    rng = np.random.default_rng([seed, *case.name.encode()])
    n_rows = max(scale.rows[seed % len(scale.rows)], case.least)
    return case.draw(rng, n_rows, scale.columns), rng


def _small_cases(model):
    return [case for case in cases.SMALL if case.model == model]


def _check_small(model, scale, worst, **how):
    for seed in range(scale.seeds):
        for number_, case in enumerate(_small_cases(model)):
            if how.get("algorithm") == "exact" and not case.ends:
                continue
            problem, batch = cases.problem_of(_draw(case, seed, scale)[0])
            lambdas = largest_penalty(problem, batch) * np.array(SHARES)[:, None]
            with layout_of(*scale.shapes[(seed + number_) % len(scale.shapes)]):
                name = f"{case.name}, seed {seed}"
                compare(name, problem, replace(batch, lambdas=lambdas), scale, worst, **how)


def _batch_of(drawn, rng, n_fits):
    """Problem and fits with weights and penalties of their own."""
    problem, batch = cases.problem_of(drawn)
    lam = largest_penalty(problem, batch)
    shares = np.geomspace(0.02, 0.8, n_fits) if n_fits > 1 else np.array([SHARES[1]])
    lambdas = lam * rng.permutation(shares)[None, :]
    return problem, replace(batch, lambdas=lambdas, weight=drawn.weights(rng, n_fits))


def _check_batches(model, scale, worst):
    """Fits of a batch on the CPU, on the device together, and the first and last alone."""
    for number_, case in enumerate(_small_cases(model)):
        seed = number_ + 100
        drawn, rng = _draw(case, seed, scale)
        problem, batch = _batch_of(drawn, rng, scale.batch)
        with layout_of(*scale.shapes[number_ % len(scale.shapes)]):
            compare(f"{case.name}, batch", problem, batch, scale, worst)
            for fit in {0, scale.batch - 1}:
                one = replace(
                    batch,
                    lambdas=batch.lambdas[:, [fit]],
                    weight=np.ascontiguousarray(batch.weight[:, [fit]]),
                )
                compare(f"{case.name}, {fit} of the batch alone", problem, one, scale, worst)


def _check_many(model, scale, worst):
    """More fits than teams."""
    case = _small_cases(model)[2]
    drawn, rng = _draw(case, 0, scale)
    problem, batch = _batch_of(drawn, rng, scale.many_fits)
    compare(case.name, problem, batch, scale, worst)


def _check_large(model, scale, worst):
    case = next(case for case in cases.LARGE if case.model == model)
    drawn = case.draw(np.random.default_rng(0), *scale.large)
    problem, batch = cases.problem_of(drawn)
    lambdas = np.full((1, 1), SHARES[1] * largest_penalty(problem, batch))
    compare(case.name, problem, replace(batch, lambdas=lambdas), scale, worst)


# -- the table --------------------------------------------------------------------------------


def row(item, result):
    note = "ok" if result["passed"] else f"FAILED: {result['n_failures']}; {result['failures'][0]}"
    return [
        item,
        number(result["fits"], "d"),
        *(number(result[name], ".1e") for name in ("objective", "coef", "kkt")),
        number(result["iterations"], "d"),
        note,
    ]


def failed(result):
    return not result.get("passed", "not_run" in result)
