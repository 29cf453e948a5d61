"""Fits on a device: time by operation, the floors from bytes and exchanges, the CPU beside them.

Times end with a download, which waits for the device; medians of warm runs.  Cold costs stand
apart: compiling (`gpu_first_fit`), upload of X and of the rows of a fit.

Floors: an evaluation reads and writes every number of a row and of a cell once; a sweep reads the
indices of the visited columns once, and a team exchanges a sum for each column.
"""

from __future__ import annotations

import statistics
import time
from collections import defaultdict
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from sksurvgpu.backends import choose, cpu
from sksurvgpu.backends import cuda as cuda_backend
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.penalties.elastic_net import Strengths
from sksurvgpu.solver.problem import Batch
from sksurvgpu.solver.solve import Options, solve

from . import gpu_ceilings as ceilings
from . import gpu_problems as problems
from .report import number

ITEM_LIMIT = 120.0
PENALTY = float(np.sqrt(2.0))  # the papers' prior variance of 1, on the sum scale
EHR_SHARE = 0.01  # of the largest penalty
ROW_BYTES, CELL_BYTES = 38, 41  # of an evaluation; see `floor_of_evaluation`
PUBLISHED_STEP = 5.2  # us, the papers' fused kernel at n = 10^5
STRATA = (1, 5, 50, 500, 5_000, 50_000)
# item -> (what, target, unit)
TARGETS = {
    "cox 1e6 x 1000": {"sweep_ms": 5.0, "fit_ms": 150.0},
    "exact 1e5 x 1000": {"step_us": PUBLISHED_STEP},
    "cross-validation 1e6 x 1000": {"fit_ms": 10_000.0},
}
HEADERS = [
    "timings",
    "evaluation ms",
    "floor",
    "us / column",
    "sweep ms",
    "floor",
    "fit ms",
    "iter",
    "upload ms",
    "CPU ms",
    "note",
]


@dataclass(frozen=True)
class Scale:
    """`shrink` divides rows; items of more nonzeros than `largest` are left out."""

    shrink: int = 1
    columns: int | None = None
    repeats: int = 3
    calls: int = 5
    folds: int = 10
    replicates: int = 10
    max_iter: int = 1_000
    largest: float = 1e9
    ceilings: object = field(default_factory=ceilings.Scale)


FULL = Scale()
SMALL = Scale(shrink=20, largest=1e7, ceilings=ceilings.SMALL)


def jobs(scale):
    """In order of interest; the last ones may find no time."""
    items = ["cox 1e6 x 1000", "exact 1e5 x 1000", "cross-validation 1e6 x 1000"]
    items += [f"strata {k}, 1e6 x 1000" for k in STRATA[1:]]
    items += ["fine-gray 1e6 x 1000", "cox 1e5 x 1000", "cox 2e6 x 1000", "float32 1e6 x 1000"]
    items += ["ehr 1e5 x 2000", "exact 1e6 x 1000", "cox 1e5 x 10000", "cox 1e6 x 10000"]
    return {"timings": tuple(items)}


def measure(item, scale):
    """One row of the table."""
    what, _, size = item.rpartition(", ") if item.startswith("strata") else item.partition(" ")
    n, p = (int(float(part)) for part in size.split(" x "))
    n, p = max(n // scale.shrink, 200), scale.columns or p
    if n * p * problems.DENSITY > scale.largest:
        return {"not_run": "too large for this scale"}
    if what == "cross-validation":
        return _measure_folds(n, p, scale)
    if what == "exact":
        return _measure_exact(problems.cox_problem(n, p), scale)
    precision = "float32" if what == "float32" else "float64"
    problem = _problem(what, n, p)
    lam = EHR_SHARE * _largest_penalty(problem) if what == "ehr" else PENALTY
    result = {**problems.describe(problem), **_measure_parts(problem, lam, precision, scale)}
    batch = Batch(np.full((1, 1), lam))
    result |= _measure_fit(problem, batch, choose("cuda", precision), scale)
    if what == "cox" and p <= 1_000 and n <= 1_000_000:
        result["cpu_ms"] = 1e3 * _cpu_seconds(problem, batch, scale)
    return result


def _problem(what, n, p):
    if what.startswith("strata"):
        return problems.cox_problem(n, p, min(int(what.split()[1]), n // 2))
    makers = {"fine-gray": problems.fine_gray_problem, "ehr": problems.ehr_problem}
    return makers.get(what, problems.cox_problem)(n, p)


def _largest_penalty(problem):
    return solve(problem, Batch(np.full((1, 1), 1e100)), cpu)[0][0].lam_max


def _cpu_seconds(problem, batch, scale):
    """One fit on all cores, its kernels having been compiled or loaded before."""
    options = Options(max_iter=scale.max_iter, baseline=False)
    solve(problem, batch, cpu, Options(max_iter=1, baseline=False), problems.n_cores())
    begin = time.perf_counter()
    solve(problem, batch, cpu, options, problems.n_cores())
    return time.perf_counter() - begin


# -- operations -------------------------------------------------------------------------------


def open_session(problem, precision="float64", weights=None, n_fits=1):
    """Session as a fit has it."""
    device = choose("cuda", precision).device
    layout = cuda_backend.Layout(device, problem)
    rows = weights, None, n_fits, np.dtype(precision), ElasticNet.formulas
    return cuda_backend.Session(layout, problem, *rows)


def _measure_parts(problem, lam, precision, scale):
    """An evaluation, a gradient, a reference point, and one pass over all columns, from zero."""
    session, p = open_session(problem, precision), problem.n_columns
    fits, columns, zero = np.zeros(1, np.int32), np.arange(p), np.zeros(p)
    seconds = partial(_median, calls=scale.calls)
    session.start(fits, [zero])

    def refer():
        session.refer(fits)
        session.load(fits, [columns])

    found = {
        "evaluation_ms": 1e3 * seconds(lambda: session.evaluate(fits)),
        "gradient_ms": 1e3 * seconds(lambda: session.gradient(fits, [columns])),
        "refer_ms": 1e3 * seconds(refer),
    }
    passes = []

    def sweep():
        penalty, ones = Strengths(np.full(p, lam), zero), np.ones(p)
        # a pass whose moves are not larger than those of the first is the last one
        [(_, n)] = session.sweep(fits, [columns], [zero], [penalty], [ones], [1.0])
        passes.append(n)

    sweep_seconds = seconds(sweep)
    layout = session.layout
    size = layout.n_ranges
    found["sweep_ms"] = 1e3 * sweep_seconds
    found["column_us"] = 1e6 * sweep_seconds / (p * passes[-1])
    found["team"], found["rows_of_a_member"] = size, layout.most_rows(size)
    return found | _floors(problem, layout.device, size, scale)


def _median(call, calls):
    """Seconds of a warm call."""
    call()
    seconds = []
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def _floors(problem, device, size, scale):
    """Least milliseconds of an evaluation and of a sweep, from what was measured on the chip."""
    bandwidth = ceilings.known_bandwidth(device, scale.ceilings)
    exchange = ceilings.known_latency(device, size, scale.ceilings)
    indices = 4 * len(problem.design.indices)
    exchanges = 0.0 if exchange is None else exchange * problem.n_columns
    return {
        "evaluation_floor_ms": 1e3 * floor_of_evaluation(problem.plan) / bandwidth,
        "sweep_floor_ms": 1e3 * (indices / bandwidth + exchanges),
        "sweep_bytes_floor_ms": 1e3 * indices / bandwidth,
        "exchange_us": None if exchange is None else 1e6 * exchange,
    }


def floor_of_evaluation(plan):
    """Bytes, each number once.

    Row: eta, weight, outcome, u (8 each), cell (4), live and flag (1 each).  Cell: deaths, their
    weight, risk sum, jump and hazard (8 each), a flag.
    """
    return ROW_BYTES * plan.n_rows + CELL_BYTES * plan.n_cells


# -- whole fits -------------------------------------------------------------------------------


@contextmanager
def stopwatch():
    """Seconds of a fit's layout and session (uploads), and of every operation asked for."""
    seconds, counts = defaultdict(float), defaultdict(int)
    layout, session = cuda_backend.Layout, cuda_backend.Session
    serve = cuda_backend.serve_in_rounds

    def timed(name, make, wait):
        def call(*arguments):
            begin = time.perf_counter()
            made = make(*arguments)
            wait(made)
            seconds[name] += time.perf_counter() - begin
            return made

        return call

    def watched(serve_round, coroutines):
        def serve_timed(name, fits, requests):
            begin = time.perf_counter()
            answers = serve_round(name, fits, requests)
            seconds[name] += time.perf_counter() - begin
            counts[name] += 1
            return answers

        return serve(serve_timed, coroutines)

    cuda_backend.Layout = timed("upload X", layout, lambda made: made.device.download(made.X.cut))
    cuda_backend.Session = timed(
        "upload rows", session, lambda made: made.device.download(made.loglik)
    )
    cuda_backend.serve_in_rounds = watched
    try:
        yield seconds, counts
    finally:
        cuda_backend.Layout, cuda_backend.Session = layout, session
        cuda_backend.serve_in_rounds = serve


def _measure_fit(problem, batch, backend, scale, repeats=None):
    """Milliseconds of a whole fit without uploads; these, and operations, beside it."""
    options = Options(max_iter=scale.max_iter, baseline=False)
    runs = []
    for _ in range(1 + (scale.repeats if repeats is None else repeats)):
        with stopwatch() as (seconds, counts):
            begin = time.perf_counter()
            solutions = solve(problem, batch, backend, options)
            total = time.perf_counter() - begin
        upload = seconds["upload X"] + seconds["upload rows"]
        runs.append((total - upload, upload, dict(seconds), dict(counts)))
    first, warm = runs[0], sorted(runs[1:] or runs, key=lambda run: run[0])
    solve_seconds, upload, seconds, counts = warm[(len(warm) - 1) // 2]
    return {
        "fit_ms": 1e3 * solve_seconds,
        "upload_ms": 1e3 * upload,
        "first_fit_ms": 1e3 * (first[0] + first[1]),
        "operations_ms": {name: 1e3 * s for name, s in seconds.items()},
        "operations": counts,
        "iterations": max(path[0].n_iter for path in solutions),
        "converged": all(path[0].converged for path in solutions),
        "nonzero": int(np.count_nonzero(solutions[0][0].coef)),
        "fits": len(solutions),
    }


def _measure_folds(n, p, scale):
    """All folds and replicates of a cross-validation as one batch, at the papers' penalty."""
    problem = problems.cox_problem(n, p)
    rng = np.random.default_rng(0)
    n_fits = scale.folds * scale.replicates
    weight = np.ones((n, n_fits))
    for replicate in range(scale.replicates):
        fold = rng.permutation(n) % scale.folds
        for k in range(scale.folds):
            weight[fold == k, replicate * scale.folds + k] = 0.0
    batch = Batch(np.full((1, n_fits), PENALTY), weight=weight)
    result = _measure_fit(problem, batch, choose("cuda"), scale, repeats=1)
    return {**problems.describe(problem), **result}


def _measure_exact(problem, scale):
    """One cycle of exact steps over all columns."""
    session, p = open_session(problem), problem.n_columns
    fits, columns, zero = np.zeros(1, np.int32), np.arange(p), np.zeros(p)
    numbers = [columns], [zero], [Strengths(np.full(p, PENALTY), zero)], [np.ones(p)]

    def cycle():
        session.start(fits, [zero])
        begin = time.perf_counter()
        session.cycle(fits, *numbers)
        return time.perf_counter() - begin

    cycle()
    seconds = statistics.median(cycle() for _ in range(scale.repeats))
    step = 1e6 * seconds / p
    return {**problems.describe(problem), "sweep_ms": 1e3 * seconds, "step_us": step}


# -- the table --------------------------------------------------------------------------------


def row(item, result):
    names = ("evaluation_ms", "evaluation_floor_ms", "column_us", "sweep_ms", "sweep_floor_ms")
    forms = (".3f", ".3f", ".2f", ".2f", ".2f")
    column = {"column_us": result.get("column_us", result.get("step_us"))}
    numbers = [number({**result, **column}.get(k), f) for k, f in zip(names, forms, strict=True)]
    more = ("fit_ms", ".1f"), ("iterations", "d"), ("upload_ms", ".0f"), ("cpu_ms", ".0f")
    return [item, *numbers, *(number(result.get(k), f) for k, f in more), _note(item, result)]


def _note(item, result):
    notes = [
        f"{name.replace('_', ' ')} {'within' if result[name] <= most else 'MISSES'} {most:g}"
        for name, most in TARGETS.get(item, {}).items()
    ]
    if not result.get("converged", True):
        notes.append("did not converge")
    return "; ".join(notes)


def failed(result):
    return False
