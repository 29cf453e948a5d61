"""The matrix of a model over all columns, beside the CPU's."""

from __future__ import annotations

from functools import partial

import numpy as np

from sksurvgpu.backends import choose
from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cuda.kept import layout_of
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.linalg import has_cupy
from sksurvgpu.backends.cuda.session import Session

from . import problems
from .ceilings import median_seconds
from .day import Part

PROBLEM = "cox 1e6 x 1000"


class Passes(Part):
    """What is no launch by itself."""

    table = "us:.1f | error=off:.1e"

    def jobs(self, sizes):
        return [("matrix",)]

    def measure(self, item, sizes):
        return time_matrix(choose("cuda").device, problems.problem_of(PROBLEM, sizes), sizes)


def time_matrix(device, problem, sizes, few=50):
    """The model's matrix over all columns, from rows on the device to numbers on the host."""
    if not has_cupy():
        return {"not_run": "cupy not found"}
    p, fits = problem.n_columns, np.zeros(1, np.int32)
    layout, one = layout_of(Layout, device, problem), CpuSession(problem, None, None, Threads(1))
    session = Session(layout, problem, None, None, 1, np.dtype(float))
    session.start(fits, [np.zeros(p)])
    one.start(np.zeros(p))
    seconds = median_seconds(
        partial(session.matrix, fits, [np.arange(p)], [0]), lambda: None, sizes.repeats
    )
    some = np.arange(min(p, few))
    [found], expected = session.matrix(fits, [some], [0]), one.matrix(some, 0)
    root = np.sqrt(np.diagonal(expected))
    error = float(np.abs((found - expected) / np.outer(root, root)).max())
    return {"us": 1e6 * seconds, "off": error, "passed": error < 1e-3}
