"""The host's work for a fit, measured without a device: ``python -m benchmarks.gpu.host``.

``iteration``: host time of an iteration, of the solver and of what prepares launches and copies.
The driver is replaced: launches do nothing, memory is the host's, and what a device would answer
was recorded from sessions on the CPU. All else is what runs beside a device: the solver, the
backend's host code, the types and words of arguments. Times are CPU times of one thread, of every
iteration the least of some runs.

``folds``: what comes before the first kernel of a batch, for folds and replicates at a million
rows. The device is a stand-in that keeps arrays and runs no kernel, so that the time is the host's
alone: uploads are copies within its memory.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace

import numpy as np

from sksurvgpu import CoxLassoCCD, FineGrayCCD, LogisticCCD, SurvivalKFold, competing_risks, surv
from sksurvgpu.backends import cuda
from sksurvgpu.backends.contract import Operations, Room, ask, serve_in_rounds
from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cuda import _cuda
from sksurvgpu.backends.cuda.arrays import address_of
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.session import Session
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

# -- iterations -------------------------------------------------------------------------------

# A device like an H100: layouts and numbers of blocks follow from it.
LIMITS = {"MULTIPROCESSOR_COUNT": 132, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232_448}
BLOCKS_EACH = 4  # resident on a multiprocessor
PENALTY = 0.25  # over the root of the number of rows


class IdleDriver:
    """Calls of the driver that copy what goes up and down, and otherwise do nothing."""

    def allocate(self, n_bytes):
        memory = np.zeros(n_bytes, np.uint8)
        return SimpleNamespace(device_pointer=address_of(memory), memory=memory)

    def __getattr__(self, name):
        def call(*arguments):
            if name.startswith("cuMemcpy"):
                ctypes.memmove(*arguments[:3])

        setattr(self, name, call)
        return call


class LaunchingDevice(_cuda.Device):
    """Kernels have their types found and are not compiled."""

    def _compile(self, kernel, kinds, arguments):
        key = kernel, kinds
        if key not in self._compiled:
            assert tuple(map(kernel.typeof_pyval, arguments))
            blocks = BLOCKS_EACH * self.n_multiprocessors
            compiled = SimpleNamespace(
                cooperative=True, max_cooperative_grid_blocks=lambda threads, shared: blocks
            )
            self._compiled[key] = compiled, len(self._compiled)
        return self._compiled[key]


@contextmanager
def idle_device():
    """A device without a driver."""
    idle, kept = IdleDriver(), (_cuda.cuda, _cuda.driver, _cuda.misfit)
    context = SimpleNamespace(
        memalloc=idle.allocate,
        deallocations=SimpleNamespace(clear=lambda: None),
        get_memory_info=lambda: (2**36, 2**36),
    )
    functions = {
        "select_device": lambda ordinal: None,
        "get_current_device": lambda: SimpleNamespace(name="idle", id=0, **LIMITS),
        "current_context": lambda: context,
        "synchronize": lambda: None,
        "pinned_array": np.empty,
        "is_cuda_array": _cuda.cuda.is_cuda_array,
        "types": _cuda.cuda.types,
        "jit": _cuda.cuda.jit,
        "driver": SimpleNamespace(driver=SimpleNamespace(get_version=lambda: None)),
    }
    names = {name: getattr(_cuda.driver, name) for name in ("CudaAPIError", "binding")}
    _cuda.cuda = SimpleNamespace(gpus=[0], **functions)
    _cuda.driver = SimpleNamespace(driver=idle, **names)
    _cuda.misfit = lambda *versions: None
    try:
        yield LaunchingDevice(0)
    finally:
        _cuda.cuda, _cuda.driver, _cuda.misfit = kept


class Answers(CpuSession):
    """A session on the CPU that says of itself what a device's does."""

    def room(self):
        return Room(2.0**34, True, ("diagonal", "matrix"))


@dataclass
class Replay:
    """A session on the device, whose answers were recorded."""

    session: object
    answers: Iterator
    marks: list = field(default_factory=list)  # time and model at every outer iteration

    def serve(self, name, fits, requests):
        self.session.serve(name, fits, requests)
        return next(self.answers)

    def report(self, way, point, iteration, residual):
        self.marks.append((time.thread_time(), way, way.model))

    def iterations(self):
        """Seconds of the first fit's outer iterations, and whether its model was kept."""
        own = [mark for mark in self.marks if mark[1] is self.marks[0][1]]
        return [
            (end - start, before is after) for (start, _, before), (end, _, after) in pairwise(own)
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


def measure_iterations(n, p, n_fits, runs):
    """Host seconds of outer iterations: with the model kept, and with a new one."""
    problem, penalty = cox_problem(n, p), ElasticNet(1.0)
    batch = Batch(np.full((1, n_fits), PENALTY * np.sqrt(n)), penalty=penalty)
    every = Fits(problem, batch, None, Options(tol=1e-8))
    rows = problem, None, None, n_fits, np.dtype(float), penalty.formulas

    def fits():
        return [fit(every, b) for b in range(n_fits)]

    answers, kept, found = record(problem, penalty.formulas, fits()), Way.report, []
    with idle_device() as device:
        layout = Layout(device, problem)
        try:
            for _ in range(runs):
                replay = Replay(Session(layout, *rows), iter(deepcopy(answers)))
                Way.report = lambda way, *state, to=replay: to.report(way, *state)
                serve_in_rounds(replay.serve, fits())
                found.append(replay.iterations()[1:])
        finally:
            Way.report = kept
    least = np.min([[seconds for seconds, _ in run] for run in found], axis=0)
    is_kept = np.array([is_kept for _, is_kept in found[0]])
    return least[is_kept], least[~is_kept]


def iteration(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.host iteration")
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--fits", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args(arguments)
    found = measure_iterations(given.rows, given.columns, given.fits, given.runs)
    for name, seconds in zip(("model kept", "new model"), found, strict=True):
        if len(seconds):
            each = 1e3 * np.median(seconds)
            print(f"{name}: {each:.3f} ms of host time, median of {len(seconds)} iterations")


# -- folds ------------------------------------------------------------------------------------


class KeepingDevice:
    """Keeps arrays; what comes back from it are ones."""

    name, n_multiprocessors, shared_bytes = "idle device", 132, 227 * 1024

    def use(self):
        pass

    def free_bytes(self):
        return 2**40

    def upload(self, array):
        return np.array(array)

    def empty(self, shape, dtype):
        return np.empty(shape, dtype)

    def zeros(self, shape, dtype):
        return np.zeros(shape, dtype)

    def download(self, array):
        return np.ones(array.shape, array.dtype)

    def send(self, *arrays):
        return [np.array(array) for array in arrays]

    def pack(self, value):
        return value

    def view(self, array, dtype, shape=None):
        found = array.view(dtype)
        return found if shape is None else found.reshape(shape)

    def write(self, array, values):
        array[...] = np.asarray(values).reshape(array.shape)

    def launch(self, *arguments, **options):
        pass

    def resident_blocks(self, *arguments, **options):
        return self.n_multiprocessors


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


def folds(given=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.host folds")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--fits", type=int, default=100)
    arguments = parser.parse_args(given)
    SurvivalKFold(2)  # compiled code is loaded here
    for model in (CoxLassoCCD, FineGrayCCD, LogisticCCD):
        X, y = draw(model, arguments.rows)
        fitted, backend = model(), cuda.CudaBackend(KeepingDevice())
        prepared = prepare(fitted, X, y)
        for name, weight in batches(fitted, prepared, arguments.fits):
            changes = {"weight": weight}
            batch = prepared._batch([0.1] * 1, np.ones(arguments.fits), changes)
            for call in ("first", "next"):
                fits = [ask_for_bounds() for _ in range(arguments.fits)]
                _, spent = timed(lambda: backend.run(prepared.problem, batch, fits, 1))  # noqa: B023
                wall, processor = spent["seconds"], spent["cpu_seconds"]
                what = f"{model.__name__}, {arguments.fits} {name}, {call} run"
                print(f"{what}: {wall:.3f} s, of the processor {processor:.3f} s")


if __name__ == "__main__":
    {"iteration": iteration, "folds": folds}[sys.argv[1]](sys.argv[2:])
