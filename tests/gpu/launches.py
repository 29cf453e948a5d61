"""Single launches of the CUDA backend, recorded with their arguments and run again with a fault.

Host code runs once, on a device without faults; what it launched is replayed on copies of the
arguments: with another order of threads, without some barrier, or with another function in place
of one of the backend's.
"""

from __future__ import annotations

import ast
import copy
import sys
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sksurvgpu.backends import cuda as backend
from sksurvgpu.backends.cuda import team, workers
from sksurvgpu.patterns.risk_sets.cuda_steps import RiskSteps

from .compiler import name_of
from .device import SimulatedDevice
from .scheduler import line_of
from .simulator import Machine, SimulationError

# What a launch leaves in any state: exchanges, what blocks keep for themselves, and sums that are
# put together anew for every fit.
_SCRATCH = {
    team.Exchange: team.Exchange._fields,
    RiskSteps: ("moments",),
}
_TOLERANCE = 1e-9


_CALLS = {
    "cuda.syncthreads": "syncthreads",
    "cuda.syncwarp": "syncwarp",
    "cuda.threadfence": "fence",
    "cuda.cg.this_grid().sync": "grid",
    "barrier": "barrier",
    "meet": "meet",
}


def _module_of(path):
    """Name of a module; of a pattern's, after the pattern."""
    return ".".join(path.parts[-2:] if path.parent.name != "cuda" else path.parts[-1:])[:-3]


def _find_sites():
    """Name of every place in the backend's source that synchronizes: (module, line, kind) -> name.

    A name is that of the function, what is called, and which such call of the function it is.
    """
    found, folder = {}, Path(backend.__file__).parent
    ours = [*folder.glob("*.py"), *folder.parents[1].glob("patterns/*/cuda*.py")]
    for path in sorted(ours):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for function in (node for node in tree.body if isinstance(node, ast.FunctionDef)):
            calls = [node for node in ast.walk(function) if isinstance(node, ast.Call)]
            for call in sorted(calls, key=lambda node: node.lineno):
                kind = _CALLS.get(ast.unparse(call.func))
                if kind is not None:
                    start = f"{_module_of(path)}.{function.name}, {kind} "
                    number = sum(name.startswith(start) for name in found.values())
                    found[_module_of(path), call.lineno, kind] = f"{start}{number + 1}"
    return found


SITES = _find_sites()


class FaultyMachine(Machine):
    """Simulator without some sites, and with functions in place of some of the backend's.

    Sites are known by the names of `SITES`; calls of the team's barrier and of a worker's are
    sites too, beside what these consist of.
    """

    def __init__(self, without=(), replaced=()):
        super().__init__()
        self.without, self.met, self._names = without, Counter(), {}
        self._cuda.is_active = self._is_active
        optional = (team.barrier, "barrier"), (workers.meet, "meet")
        others = [(function, self._optional(function, kind)) for function, kind in optional]
        others += [(f, self._rebinding.function(other)) for f, other in dict(replaced).items()]
        for function, other in others:
            self._rebinding._replaced[id(function)] = other

    def _optional(self, function, kind):
        function = self._rebinding.function(function.py_func)

        def call(*arguments):
            if self._is_active(sys._getframe(1), kind):
                function(*arguments)

        return call

    def _is_active(self, frame, kind):
        """As of the simulated `cuda`, by the name of the site."""
        code = frame.f_code
        place = id(code), frame.f_lasti
        if place not in self._names:
            module, line = _module_of(Path(code.co_filename)), line_of(code, frame.f_lasti)
            self._names[place] = SITES[module, line, kind]
        self.met[self._names[place]] += 1
        return self._names[place] not in self.without


class Launch(NamedTuple):
    """One launch, before it ran and after."""

    name: str
    kernel: object
    shape: tuple  # blocks, threads
    arguments: tuple
    results: list
    shared_bytes: int
    resident: int
    met: Counter  # how many threads came to its barriers and fences, by name

    @property
    def members(self):
        """Blocks of a team; 0 where blocks do not meet."""
        has_teams = isinstance(self.arguments[0], team.Exchange)
        return self.arguments[0].size if has_teams else 0

    @property
    def barriers(self):
        """How often a block waits for its team."""
        waits = sum(times for name, times in self.met.items() if ", barrier " in name)
        return waits / (self.shape[0] * self.shape[1])

    def calls(self, function):
        """Whether a function of the backend is part of the kernel."""
        rebinding = FaultyMachine()._rebinding
        rebinding.kernel(self.kernel)
        return id(function.py_func) in rebinding._copies

    def run(self, seed, machine, change=None):
        """Run it once more; the arrays of numbers afterwards."""
        arguments = copy.deepcopy(self.arguments)
        if change is not None:
            arguments = tuple(map(change, arguments))
        machine.run(self.kernel, *self.shape, arguments, seed, self.shared_bytes, self.resident)
        return results_of(arguments)

    def is_right(self, seed, machine, change=None):
        """Whether another run ends, and as the recorded one did."""
        try:
            found = self.run(seed, machine, change)
        except SimulationError:
            return False
        pairs = zip(found, self.results, strict=True)
        return all(
            np.allclose(one, other, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)
            for one, other in pairs
        )


def results_of(argument):
    """Arrays of numbers among arguments, without those that nobody reads after a launch."""
    if isinstance(argument, np.ndarray):
        return [argument]
    if not isinstance(argument, tuple):
        return []
    scratch, fields = _SCRATCH.get(type(argument), ()), getattr(argument, "_fields", argument)
    parts = zip(fields, argument, strict=True)
    kept = [part for name, part in parts if not scratch or name not in scratch]
    return [array for part in kept for array in results_of(part)]


class Recorder(SimulatedDevice):
    """Keeps what it launches, in `launches`."""

    def __init__(self, *settings, **named_settings):
        super().__init__(*settings, **named_settings)
        self.launches = []

    def launch(self, kernel, blocks, threads, arguments, shared_bytes=0):
        self._machine = FaultyMachine()
        seen = self.arrays_of(tuple(arguments))
        before = copy.deepcopy(seen)
        super().launch(kernel, blocks, threads, arguments, shared_bytes)
        results = copy.deepcopy(results_of(seen))
        resident = self.resident_blocks(kernel, threads, arguments, shared_bytes)
        name, shape, met = name_of(kernel), (blocks, threads), self._machine.met
        run = kernel, shape, before, results, shared_bytes, resident
        self.launches.append(Launch(name, *run, met))
