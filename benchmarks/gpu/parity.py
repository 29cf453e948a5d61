"""CUDA against the CPU: the same fits, objective, coefficients and optimality compared.

Below, compute-sanitizer over the same cases. The KKT residual of the device's coefficients is
computed anew on the CPU. A penalty is a share of the largest of use; each fit descends two of them.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from sksurvgpu import backends
from sksurvgpu.backends import cpu
from sksurvgpu.backends.contract import Operations, ask
from sksurvgpu.solver.fits import Fits, Options

from ..processes import TookTooLongError, environment, run
from . import cases
from .day import Part
from .problems import layout_of, no_matrices

SHARES = (0.3, 0.05)  # penalties, over the largest of use
TOL = 1e-9
OBJECTIVE, COEF = 1e-10, 1e-7  # largest differences, relative
# The residual is that of other sums than the device's: they differ in rounding.
KKT = 1.01


class Parity(Part):
    """Fits on the device, each compared with the CPU's."""

    limit = 200.0  # a model's kernels are compiled in its first item, for both
    table = "fits:d | objective:.1e | coef:.1e | KKT / tol=kkt:.1e | iterations:d"

    def jobs(self, sizes):
        """A process a model, so that one that hangs or fails leaves the others alone."""
        return [
            tuple(f"{model}: {kind}" for kind in CHECKS if kind not in OF_COX or model == "cox")
            for model in cases.MODELS
        ]

    def measure(self, item, sizes):
        """Largest differences of all fits of an item."""
        model, kind = item.split(": ")
        worst = Worst()
        CHECKS[kind](model, sizes, worst)
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
            "note": f"{len(self.failures)}; {self.failures[0]}" if self.failures else "ok",
        }


def compare(name, problem, batch, sizes, worst, form=nullcontext, **how):
    """Fit a batch on the CPU by a diagonal, on a device under `form`; the CPU's solutions."""
    options = Options(TOL, sizes.parity_max_iter, how.get("algorithm", "majorized"))
    with no_matrices():
        expected = Fits(problem, batch, cpu, options).solve()
    with form():
        backend = backends.choose("cuda", how.get("precision", "float64"))
        found = Fits(problem, batch, backend, options).solve()
    residuals = kkt_of(problem, batch, found)
    for fit, (one, two) in enumerate(zip(found, expected, strict=True)):
        worst.add(f"{name}, fit {fit}", one, two, residuals[fit], TOL)
    return expected


def kkt_of(problem, batch, solutions):
    """Scores in standard errors, relative to the unit of `tol`, computed on the CPU."""
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
    one = replace(batch, lambdas=np.full((1, 1), 1e100))
    for name in ("weight", "offset"):
        values = getattr(batch, name)
        one = replace(one, **{name: None if values is None else values[:, :1]})
    return Fits(problem, one, cpu).solve()[0][0].lam_max


def draw(case, seed, sizes):
    rng = np.random.default_rng([seed, *case.name.encode()])
    n_rows = max(sizes.rows[seed % len(sizes.rows)], case.least)
    return case.draw(rng, n_rows, sizes.columns), rng


def cases_of(model):
    return [case for case in cases.SMALL if case.model == model]


def _shape(sizes, number):
    threads, rows = sizes.shapes[number % len(sizes.shapes)]
    return layout_of(threads=threads, rows_per_range=rows)


def check_small(model, sizes, worst, **how):
    """All shapes of data, seeds and sizes of teams in turn."""
    for seed in range(sizes.seeds):
        for number, case in enumerate(cases_of(model)):
            if how.get("algorithm") == "exact" and not case.exact:
                continue
            problem, batch = cases.problem_of(draw(case, seed, sizes)[0])
            lambdas = largest_penalty(problem, batch) * np.array(SHARES)[:, None]
            with _shape(sizes, seed + number):
                name = f"{case.name}, seed {seed}"
                compare(name, problem, replace(batch, lambdas=lambdas), sizes, worst, **how)


def batch_of(drawn, rng, n_fits):
    """Problem and fits with weights and penalties of their own."""
    problem, batch = cases.problem_of(drawn)
    lam = largest_penalty(problem, batch)
    shares = np.geomspace(0.02, 0.8, n_fits) if n_fits > 1 else np.array([SHARES[1]])
    lambdas = lam * rng.permutation(shares)[None, :]
    return problem, replace(batch, lambdas=lambdas, weight=drawn.weights(rng, n_fits))


def check_batches(model, sizes, worst):
    """Fits of a batch on the CPU, on the device together, and the first and last alone."""
    for number, case in enumerate(cases_of(model)):
        drawn, rng = draw(case, number + 100, sizes)
        problem, batch = batch_of(drawn, rng, sizes.batch)
        with _shape(sizes, number):
            compare(f"{case.name}, batch", problem, batch, sizes, worst)
            for fit in {0, sizes.batch - 1}:
                own = np.ascontiguousarray(batch.weight[:, [fit]])
                one = replace(batch, lambdas=batch.lambdas[:, [fit]], weight=own)
                compare(f"{case.name}, {fit} of the batch alone", problem, one, sizes, worst)


def check_many(model, sizes, worst):
    """More fits than teams."""
    case = cases_of(model)[:3][-1]
    problem, batch = batch_of(*draw(case, 0, sizes), sizes.many_fits)
    compare(case.name, problem, batch, sizes, worst)


def check_penalties(model, sizes, worst):
    """Other penalties than the elastic net."""
    for name, parameters in cases.PENALTIES.items():
        drawn, _ = draw(cases_of(model)[0], 1, sizes)
        drawn.estimator.set_params(**parameters(sizes.columns))
        problem, batch = cases.problem_of(drawn)
        lambdas = np.full((1, 1), SHARES[0] * largest_penalty(problem, batch))
        compare(name, problem, replace(batch, lambdas=lambdas), sizes, worst)


def check_large(model, sizes, worst):
    drawn = cases.LARGE[model](np.random.default_rng(0), *sizes.large)
    problem, batch = cases.problem_of(drawn)
    lambdas = np.full((1, 1), SHARES[1] * largest_penalty(problem, batch))
    compare("large", problem, replace(batch, lambdas=lambdas), sizes, worst)


CHECKS = {
    "small": check_small,
    "diagonal": partial(check_small, form=no_matrices),
    "exact": partial(check_small, algorithm="exact"),
    "float32": partial(check_small, form=no_matrices, precision="float32"),
    "batch": check_batches,
    "penalties": check_penalties,
    "many fits": check_many,
    "large": check_large,
}
OF_COX = ("exact", "many fits")  # checks that only one model has


def fit_everything(model, rows, columns, max_iter):
    """Tiny fits that launch every kernel of a model; how many."""
    routes = [
        (nullcontext, "majorized", "float64"),
        (no_matrices, "majorized", "float64"),
        (no_matrices, "majorized", "float32"),
    ]
    exact = [(nullcontext, "exact", "float64")]
    plain = [(case, {}, routes + exact * case.exact) for case in cases_of(model)]
    n_fits = 0
    for case, more, own in [*plain, (plain[0][0], cases.PENALTIES["groups"](columns), routes)]:
        rng = np.random.default_rng(len(case.name))
        drawn = case.draw(rng, max(rows, case.least), columns)
        drawn.estimator.set_params(**more)
        problem, batch = cases.problem_of(drawn)
        lambdas = np.full((1, 2), 0.1 * largest_penalty(problem, batch))
        batch = replace(batch, lambdas=lambdas, weight=drawn.weights(rng, 2))
        for form, algorithm, precision in own:
            with layout_of(threads=64, rows_per_range=16), form():
                Fits(
                    problem,
                    batch,
                    backends.choose("cuda", precision),
                    Options(1e-3, max_iter, algorithm),
                ).solve()
            n_fits += 2
    return n_fits


SAMPLERS = "samplers"
EVERYTHING = (*cases.MODELS, SAMPLERS)
TOOLS = {
    # A failing call of the driver is an answer that Numba asks for, and handles.
    "memcheck": ["--report-api-errors", "no"],
    "racecheck": ["--racecheck-report", "all"],
    "synccheck": [],
}
FOUND = 86  # exit status where something was found
SUMMARY = re.compile(r"=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) .*")


class Sanitizer(Part):
    """compute-sanitizer over tiny fits of everything: memory accesses, and hazards.

    memcheck sees accesses out of bounds, racecheck hazards in shared memory, synccheck barriers
    that not all threads reach. Order between blocks through global memory is seen by none of them;
    the parity of large fits is what there is for that. ``python -m benchmarks.gpu.parity cox`` is
    what runs under the tools.
    """

    limit = 280.0
    table = "seconds:.0f | summary"

    def jobs(self, sizes):
        """A process for each tool and model, all of which may run at the same time."""
        return [(f"{tool}: {model}",) for tool in TOOLS for model in EVERYTHING]

    def measure(self, item, sizes, run=run, find=None):
        """Outcome of one tool on one model."""
        executable = (find or find_tool)()
        if executable is None:
            return {"not_run": "compute-sanitizer not found"}
        tool, model = item.split(": ")
        options = ["--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "20"]
        command = [executable, *options, *TOOLS[tool], sys.executable, "-m", __name__, model]
        try:
            status, printed = run(command, self.limit - 10.0, environment(1))
        except TookTooLongError as error:
            return {"not_run": f"no time: {error}"}
        return judge(status, printed)


def find_tool():
    """Path of compute-sanitizer, or None."""
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    folders = [str(Path(home, part)) for home in homes if home for part in ("bin", "extras/bin")]
    folders += [str(Path(home, "compute-sanitizer")) for home in homes if home]
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=os.pathsep.join(folders)
    )


def judge(status, printed):
    """A result, of the report that a tool printed."""
    counts = [int(match.group(1)) for match in SUMMARY.finditer(printed)]
    lines = [line for line in printed.splitlines() if line.startswith("=========")]
    if not counts:
        return {"error": "no summary; " + printed[-2_000:]}
    if status not in (0, FOUND):
        return {"error": f"exit status {status}; " + printed[-2_000:]}
    return {
        "passed": status == 0 and not any(counts),
        "summary": SUMMARY.search(printed).group(0).strip("= "),
        "report": [] if status == 0 else lines[:60],
    }


def run_kernels(model, rows=40, columns=4, max_iter=3):
    """Launch every kernel of a model on tiny data; nothing is compared.  How many runs."""
    from .samplers import draw_everything

    if model == SAMPLERS:
        return draw_everything()
    return fit_everything(model, rows, columns, max_iter)


if __name__ == "__main__":
    print(f"{run_kernels(sys.argv[1])} runs")
