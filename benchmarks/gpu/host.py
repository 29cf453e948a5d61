"""The host's work for a fit, measured without a device: ``python -m benchmarks.gpu.host``.

The driver is a stand-in (`stand_in`): launches do nothing, memory is the host's. All else is what
runs beside a device: numba-cuda, the solver, the backend's host code.

``iteration``: host time of an iteration, of the solver and of what prepares launches and copies,
and what it asks of the driver. What a device would answer was recorded from sessions on the CPU.
Times are CPU times of one thread, of every iteration the least of some runs.

``folds``: what comes before the first kernel of a batch, for folds and replicates at a million
rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from sksurvgpu import CoxLassoCCD, FineGrayCCD, LogisticCCD, SurvivalKFold, competing_risks, surv
from sksurvgpu._compile import listeners
from sksurvgpu.backends import choose
from sksurvgpu.backends.contract import Operations, Room, ask, serve_in_rounds
from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.estimators._preparing import prepare
from sksurvgpu.inference._replicates import Replicates
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.selection.folds import split_rows
from sksurvgpu.solver.fits import Fits, Options
from sksurvgpu.solver.problem import Batch
from sksurvgpu.solver.solve import fit
from sksurvgpu.solver.way import Way

from ..processes import timed
from .problems import cox_problem
from .stand_in import Counts, call_on_stand_in, counts

HERE = f"{__package__}.host"
PENALTY = 0.25  # over the root of the number of rows


class Answers(CpuSession):
    """A session on the CPU that says of itself what a device's does without CuPy."""

    def room(self):
        return Room(0.0, True, ("diagonal", "matrix"))


@dataclass
class Replay:
    """A session on the device, whose answers were recorded."""

    session: object
    answers: Iterator
    marks: list = field(default_factory=list)  # time, counts and model at every outer iteration

    def serve(self, name, fits, requests):
        self.session.serve(name, fits, requests)
        return next(self.answers)

    def report(self, way, point, iteration, residual):
        if not self.marks or way is self.marks[0][0]:
            self.marks.append((way, way.model, time.thread_time(), np.array(counts())))

    def iterations(self):
        """Of the first fit: whether the model was kept, seconds, and what was asked for."""
        return [
            (before is after, end - start, (later - asked).tolist())
            for (_, before, start, asked), (_, after, end, later) in pairwise(self.marks)
        ]


def record(problem, formulas, fits):
    """Answers of sessions on the CPU to fits, round by round."""
    rows, answers = (problem, None, None, Threads(1), formulas), []
    sessions = [Answers(*rows) for _ in fits]

    def serve(name, indices, requests):
        pairs = zip(indices, requests, strict=True)
        answers.append([getattr(sessions[fit], name)(*own) for fit, own in pairs])
        return deepcopy(answers[-1])

    serve_in_rounds(serve, fits)
    return answers


def replay(n, p, n_fits=1, runs=1):
    """Of every run: `Replay.iterations`, CPU seconds, and kernels that were compiled."""
    from sksurvgpu.backends.cuda.layout import Layout
    from sksurvgpu.backends.cuda.session import Session

    problem, penalty = cox_problem(n, p), ElasticNet(1.0)
    batch = Batch(np.full((1, n_fits), PENALTY * np.sqrt(n)), penalty=penalty)
    every = Fits(problem, batch, None, Options(tol=1e-8))
    rows = problem, None, None, n_fits, np.dtype(float), penalty.formulas

    def fits():
        return [fit(every, b) for b in range(n_fits)]

    answers, found, report = record(problem, penalty.formulas, fits()), [], Way.report
    compiled, begin = [], time.process_time()
    listeners.append(compiled.append)
    layout = Layout(choose("cuda").device, problem)
    for _ in range(runs):
        own = Replay(Session(layout, *rows), iter(deepcopy(answers)))
        Way.report = lambda way, *state, to=own: to.report(way, *state)
        serve_in_rounds(own.serve, fits())
        found.append((own.iterations()[1:], (end := time.process_time()) - begin, compiled[:]))
        compiled.clear()
        begin = end
    listeners.remove(compiled.append)
    Way.report = report
    return found


def iteration(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.host iteration")
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--fits", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args(arguments)
    sizes = {"n": given.rows, "p": given.columns, "n_fits": given.fits, "runs": given.runs}
    runs = call_on_stand_in(HERE, "replay", sizes)
    (_, first, compiled), (_, second, _) = runs[0], runs[-1]
    print(f"first run: {first:.3f} s, {len(compiled)} kernels compiled; last run: {second:.3f} s")
    for is_kept, name in ((True, "model kept"), (False, "new model")):
        chosen = [[row for row in rows if row[0] == is_kept] for rows, *_ in runs]
        if chosen[0]:
            seconds = np.min([[row[1] for row in rows] for rows in chosen], axis=0)
            asked = Counts(*np.median([row[2] for row in chosen[-1]], axis=0).astype(int))
            print(
                f"{name}: {1e3 * np.median(seconds):.3f} ms of host time, median of "
                f"{len(seconds)} iterations; {asked.launches} launches, {asked.uploads} uploads, "
                f"{asked.downloads} downloads, {asked.allocations} allocations"
            )


def draw(model, n):
    rng = np.random.default_rng(0)
    X = (rng.random((n, 2)) < 0.05).astype(float)
    time_of, event = rng.exponential(size=n), rng.random(n) < 0.05
    if model is FineGrayCCD:
        return X, competing_risks(np.where(event, 1 + (time_of > 1), 0), time_of)
    return (X, event) if model is LogisticCCD else (X, surv(event, time_of))


def ask_for_bounds():
    """Coroutine: bounds that every fit asks of its weights."""
    yield from ask(Operations.largest_loglik)
    yield from ask(Operations.error_weight)


def batches(fitted, prepared, n_fits):
    """Batches by name: weights of splits, and of replicates."""
    splits = split_rows(n_fits, None, None, prepared, n_repeats=1, random_state=0)
    yield "folds", splits.train
    units = Replicates(fitted, prepared.outcome, None, None, "multinomial", 0)
    yield "replicates", units.columns(np.arange(n_fits))


def set_up(n, n_fits):
    """Lines about batches: seconds until their sessions are there, by the clock and by the CPU."""
    found, backend = [], choose("cuda")
    SurvivalKFold(2)  # compiled code is loaded here
    for model in (CoxLassoCCD, FineGrayCCD, LogisticCCD):
        X, y = draw(model, n)
        fitted = model()
        prepared = prepare(fitted, X, y)
        for name, weight in batches(fitted, prepared, n_fits):
            batch = replace(prepared.batch, lambdas=np.full((1, n_fits), 0.1), weight=weight)
            for call in ("first", "next"):
                fits = [ask_for_bounds() for _ in range(n_fits)]
                _, spent = timed(lambda: backend.run(prepared.problem, batch, fits, 1))  # noqa: B023
                what = f"{model.__name__}, {n_fits} {name}, {call} run"
                wall, processor = spent["seconds"], spent["cpu_seconds"]
                found.append(f"{what}: {wall:.3f} s, of the processor {processor:.3f} s")
    return found


def folds(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.host folds")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--fits", type=int, default=100)
    given = parser.parse_args(arguments)
    lines = call_on_stand_in(HERE, "set_up", {"n": given.rows, "n_fits": given.fits})
    print("\n".join(lines))


if __name__ == "__main__":
    {"iteration": iteration, "folds": folds}[sys.argv[1]](sys.argv[2:])
