"""Host time of a fit on a device: of the solver and of what prepares launches and copies.

``python -m benchmarks.gpu.iteration`` needs no device.  The driver is replaced: copies and launches
do nothing, allocations give addresses, and what a device would answer comes from a session on the
CPU, whose time is taken out.  All else is what runs beside a device: the solver, the backend's host
code, the types and words of arguments.  Times are CPU times of one thread.
"""

from __future__ import annotations

import argparse
import ctypes
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, pairwise
from types import SimpleNamespace

import numpy as np

from sksurvgpu.backends.contract import serve_in_rounds
from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cuda import _cuda
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.session import Session
from sksurvgpu.penalties import ElasticNet
from sksurvgpu.solver import solve as solving
from sksurvgpu.solver.problem import Batch

from .problems import cox_problem

# A device like an H100: layouts and numbers of blocks follow from it.
LIMITS = {"MULTIPROCESSOR_COUNT": 132, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232_448}
BLOCKS_EACH = 4  # resident on a multiprocessor
PENALTY = 0.25  # over the root of the number of rows


class IdleDriver:
    """Calls of the driver that do nothing but count; what is copied down is zero."""

    def __init__(self):
        self._next = count(2**40, 2**20)

    def allocate(self, n_bytes):
        return SimpleNamespace(device_pointer=next(self._next))

    def __getattr__(self, name):
        clear = name.startswith("cuMemcpyDtoH")

        def call(*arguments):
            if clear:
                ctypes.memset(arguments[0], 0, arguments[2])

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


@dataclass
class Twin:
    """A session on the device, whose answers are those of sessions on the CPU."""

    session: object
    on_cpu: list
    answering: float = 0.0  # seconds that the CPU's sessions took
    marks: list = field(default_factory=list)  # host seconds and model at every outer iteration

    def serve(self, name, fits, requests):
        requests = list(requests)
        self.session.serve(name, fits, requests)
        start = time.thread_time()
        pairs = zip(fits, requests, strict=True)
        answers = [getattr(self.on_cpu[fit], name)(*own) for fit, own in pairs]
        self.answering += time.thread_time() - start
        return answers

    def report(self, fit, iteration, residual):
        self.marks.append((time.thread_time() - self.answering, fit, fit.model))

    def iterations(self):
        """Host seconds of the first fit's outer iterations, and whether its model was kept."""
        own = [mark for mark in self.marks if mark[1] is self.marks[0][1]]
        for (start, _, before), (end, _, after) in pairwise(own):
            yield end - start, before is after


def measure(n, p, n_fits):
    """Host seconds of outer iterations: with the model kept, and with a new one."""
    problem, penalty = cox_problem(n, p), ElasticNet(1.0)
    batch = Batch(np.full((1, n_fits), PENALTY * np.sqrt(n)), penalty=penalty)
    with idle_device() as device:
        layout = Layout(device, problem)
        formulas = penalty.formulas
        session = Session(layout, problem, None, None, n_fits, np.dtype(float), formulas)
        rows = problem, None, None, Threads(1), formulas, 0.0
        twin = Twin(session, [CpuSession(*rows) for _ in range(n_fits)])
        kept = solving.Fit.report
        solving.Fit.report = lambda fit, *state: twin.report(fit, *state)
        try:
            options = solving.Options(tol=1e-8)
            fits = [solving.fit(batch, b, p, options) for b in range(n_fits)]
            serve_in_rounds(twin.serve, fits)
        finally:
            solving.Fit.report = kept
    found = list(twin.iterations())
    return [
        [seconds for seconds, is_kept in found[1:] if is_kept is kind] for kind in (True, False)
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--fits", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5, help="of which each iteration's least")
    given = parser.parse_args()
    runs = [measure(given.rows, given.columns, given.fits) for _ in range(given.runs)]
    for name, *seconds in zip(("model kept", "new model"), *runs, strict=True):
        if least := np.min(seconds, axis=0).tolist():
            each = 1e3 * np.median(least)
            print(f"{name}: {each:.3f} ms of host time, median of {len(least)} iterations")


if __name__ == "__main__":
    main()
