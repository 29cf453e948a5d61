"""Host time of a fit on a device: of the solver and of what prepares launches and copies.

``python -m benchmarks.gpu.iteration`` needs no device.  The driver is replaced: launches do
nothing, memory is the host's, and what a device would answer was recorded from sessions on the CPU.
All else is what runs beside a device: the solver, the backend's host code, the types and words of
arguments.  Times are CPU times of one thread, of every iteration the least of some runs.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import pairwise
from types import SimpleNamespace

import numpy as np

from sksurvgpu.backends.contract import Room, serve_in_rounds
from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cuda import _cuda
from sksurvgpu.backends.cuda.arrays import address_of
from sksurvgpu.backends.cuda.descent import MOST_PASSES
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.session import Session
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.solver import solve as solving
from sksurvgpu.solver.minimize import Quadratic, passes_of
from sksurvgpu.solver.problem import Batch

from .problems import cox_problem

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


class IdleDevice(_cuda.Device):
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
        yield IdleDevice(0)
    finally:
        _cuda.cuda, _cuda.driver, _cuda.misfit = kept


class Answers(CpuSession):
    """A session on the CPU, with the matrix that a device would hold."""

    def room(self):
        return Room(2.0**34, holds=True)

    def hold(self, columns, known):
        rows = self.gram(columns, known)
        grown = np.empty((len(columns), len(columns)))
        grown[:known, :known] = self.matrix[:known, :known] if known else 0.0
        grown[known:], grown[:, known:] = rows, rows.T
        self.matrix = grown

    def descend(self, where, coef, gradient, curvature, weight, penalty, unit, enough, lent):
        model = Quadratic(self.matrix[np.ix_(where, where)], weight, curvature)
        np.fill_diagonal(model.matrix, curvature)
        coef, passes = coef.copy(), passes_of(self._formulas)
        point = coef, gradient.copy(), penalty, unit, enough
        return coef, passes(model, *point, MOST_PASSES)


@dataclass
class Replay:
    """A session on the device, whose answers were recorded."""

    session: object
    answers: Iterator
    marks: list = field(default_factory=list)  # time and model at every outer iteration

    def serve(self, name, fits, requests):
        self.session.serve(name, fits, requests)
        return next(self.answers)

    def report(self, fit, iteration, residual):
        self.marks.append((time.thread_time(), fit, fit.model))

    def iterations(self):
        """Seconds of the first fit's outer iterations, and whether its model was kept."""
        own = [mark for mark in self.marks if mark[1] is self.marks[0][1]]
        return [
            (end - start, before is after) for (start, _, before), (end, _, after) in pairwise(own)
        ]


def record(problem, formulas, fits):
    """What sessions on the CPU answer to fits, round by round."""
    rows, answers = (problem, None, None, Threads(1), formulas), []
    sessions = [Answers(*rows) for _ in fits]

    def serve(name, indices, requests):
        pairs = zip(indices, requests, strict=True)
        answers.append([getattr(sessions[fit], name)(*own) for fit, own in pairs])
        return deepcopy(answers[-1])

    serve_in_rounds(serve, fits)
    return answers


def measure(n, p, n_fits, runs):
    """Host seconds of outer iterations: with the model kept, and with a new one."""
    problem, penalty = cox_problem(n, p), ElasticNet(1.0)
    batch = Batch(np.full((1, n_fits), PENALTY * np.sqrt(n)), penalty=penalty)
    rows = problem, None, None, n_fits, np.dtype(float), penalty.formulas

    def fits():
        return [solving.fit(batch, b, p, solving.Options(tol=1e-8)) for b in range(n_fits)]

    answers, kept, found = record(problem, penalty.formulas, fits()), solving.Fit.report, []
    with idle_device() as device:
        layout = Layout(device, problem)
        try:
            for _ in range(runs):
                replay = Replay(Session(layout, *rows), iter(deepcopy(answers)))
                solving.Fit.report = lambda fit, *state, to=replay: to.report(fit, *state)
                serve_in_rounds(replay.serve, fits())
                found.append(replay.iterations()[1:])
        finally:
            solving.Fit.report = kept
    least = np.min([[seconds for seconds, _ in run] for run in found], axis=0)
    is_kept = np.array([is_kept for _, is_kept in found[0]])
    return least[is_kept], least[~is_kept]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--fits", type=int, default=1)
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args()
    found = measure(given.rows, given.columns, given.fits, given.runs)
    for name, seconds in zip(("model kept", "new model"), found, strict=True):
        if len(seconds):
            each = 1e3 * np.median(seconds)
            print(f"{name}: {each:.3f} ms of host time, median of {len(seconds)} iterations")


if __name__ == "__main__":
    main()
