"""Run a CUDA kernel's Python source: blocks, warps, barriers, atomics, late stores; no GPU.

Every run is determined by its seed.  It raises `SimulationError` for what would hang, be undefined
or read foreign memory on a device: deadlock, livelock, divergent barriers, an index out of bounds.
A missing barrier or fence shows as a wrong result for some seeds.  What it cannot tell is whether
the kernel compiles: see compiler.py.
"""

from __future__ import annotations

import functools

from . import memory
from .intrinsics import Cuda
from .memory import SimulationError
from .rebinding import Rebinding
from .scheduler import Scheduler, Site, describe

__all__ = ["Machine", "SimulationError", "Site", "simulate"]

DEFAULT_RESIDENT = 8
DEFAULT_SKEW = 0.9  # share of passes in which only the favoured warp runs
MAX_PASSES = 100_000  # without a barrier or a thread's end


class Machine:
    """Runs kernels; keeps their copies and the synchronizing places met."""

    def __init__(self, skew=DEFAULT_SKEW, weak=True, without=(), max_passes=MAX_PASSES):
        self.skew, self.weak, self.max_passes = skew, weak, max_passes
        self._cuda = Cuda(without)
        self._rebinding = Rebinding(self._cuda)

    @property
    def sites(self):
        """Barriers and fences that ran, or would have: a set of `Site`."""
        return self._cuda.sites

    def run(self, kernel, blocks, threads, arguments, seed=0, shared_bytes=0, resident=None):
        """Run one launch; returns the number of times that threads changed."""
        function = self._rebinding.kernel(kernel)
        resident = resident or DEFAULT_RESIDENT
        scheduler = Scheduler(
            blocks, threads, seed, resident, self.skew, self.weak, self.max_passes
        )
        self._cuda.scheduler, self._cuda.shared_bytes = scheduler, shared_bytes
        kind = memory.SharedViewArray if self.weak else memory.Array
        seen = [memory.wrap(argument, scheduler, kind) for argument in arguments]
        try:
            scheduler.run(functools.partial(function, *seen))
        except Exception as error:
            where = self._place_of(error)
            kind = "" if isinstance(error, SimulationError) else f"{type(error).__name__}: "
            raise SimulationError(f"{kind}{error}{where}") from error
        return scheduler.switches

    def _place_of(self, error):
        """Where in the kernel an exception was raised: the innermost frame of its own code."""
        trail, step = (), error.__traceback__
        while step is not None:
            if step.tb_frame.f_code in self._rebinding.codes:
                trail = (step.tb_frame.f_code, step.tb_lasti, *trail)
            step = step.tb_next
        return f" ({describe(trail)})" if trail else ""


def simulate(
    kernel,
    blocks,
    threads,
    arguments,
    *,
    seed=0,
    shared_bytes=0,
    resident=None,
    skew=DEFAULT_SKEW,
    weak=True,
    without=(),
    max_passes=MAX_PASSES,
):
    """Run a kernel, given as dispatcher or function, on NumPy arrays, which it changes.

    `blocks` and `threads` are sizes or tuples of sizes; `arguments` arrays, scalars and named
    tuples of them.  `resident` blocks run at a time.  `without` are the `Site` to leave out, `weak`
    chooses the memory model, in which only a fence makes stores visible to other blocks.  Returns
    the set of `Site` that the run has met.
    """
    machine = Machine(skew, weak, without, max_passes)
    machine.run(kernel, blocks, threads, arguments, seed, shared_bytes, resident)
    return machine.sites
