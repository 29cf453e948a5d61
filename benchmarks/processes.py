"""Measurements in processes of their own, one at a time."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
POOLS = ("NUMBA", "OMP", "OPENBLAS", "MKL")  # whose threads a child is limited to
CHILD = """import importlib, json, sys
tree, module, function, arguments = sys.argv[1:]
if tree:
    sys.path.insert(0, tree)
    import sksurvgpu
    assert sksurvgpu.__file__.startswith(tree), sksurvgpu.__file__
    sys.path.remove(tree)  # its benchmarks are of another version
result = getattr(importlib.import_module(module), function)(**json.loads(arguments))
print(json.dumps(result))"""


class TookTooLongError(Exception):
    """The process was ended at its time limit."""


def environment(n_threads=None, **more):
    """Environment of a child: the source tree first on the path, and limited thread pools."""
    inherited = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([str(ROOT), *([inherited] if inherited else [])])
    limits = {} if n_threads is None else {f"{p}_NUM_THREADS": str(n_threads) for p in POOLS}
    return {**os.environ, "PYTHONPATH": path, **limits, **more}


def run(command, timeout, env):
    """Exit code and what was printed; a run past its time limit is ended with its children."""
    process = subprocess.Popen(
        list(map(str, command)),
        env=env,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # its children are of its group
    )
    try:
        printed, _ = process.communicate(timeout=timeout)
    except BaseException as error:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise TookTooLongError(f"more than {timeout:g} s") from error
        raise
    return process.returncode, printed


def call(
    module,
    function,
    arguments,
    *,
    n_threads=None,
    timeout=None,
    python=None,
    tree=None,
    **variables,
):
    """``module.function(**arguments)`` in a fresh interpreter; arguments and result are JSON.

    `tree` is a checkout whose package is imported in place of this one's.
    """
    python = python or sys.executable
    command = [python, "-c", CHILD, tree or "", module, function, json.dumps(arguments)]
    status, printed = run(command, timeout, environment(n_threads, **variables))
    if status:
        raise RuntimeError(f"{module}.{function}({arguments}) failed ({status}):\n{printed}")
    return json.loads(printed.splitlines()[-1])


def in_turn(module, jobs, save=lambda results: None):
    """Results of ``module.function(**arguments)``, each in a process; all are saved after each.

    A job is the function's name and its arguments, whose "n_threads" limits the process.
    """
    results = []
    for function, arguments in jobs:
        shown = ", ".join(f"{name} {value}" for name, value in arguments.items())
        print(f"{function}: {shown}", file=sys.stderr, flush=True)
        limit = arguments.get("n_threads")
        results.append(call(module, function, arguments, n_threads=limit))
        save(results)
    return results


def memory_mb(kind="VmHWM"):
    """Memory of this process: VmHWM its peak, VmRSS what it holds now."""
    # Not ru_maxrss: a child starts with its parent's high-water mark there.
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(kind + ":"):
            return int(line.split()[1]) / 1024
    return float("nan")


def forget_peak():
    """Give freed memory back and begin a new high-water mark, where the system can do that."""
    try:
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        pass


def timed(function):
    """Result of a call, and its seconds by the clock and of the processor."""
    begin, cpu = time.perf_counter(), time.process_time()
    result = function()
    seconds = {"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu}
    return result, seconds


def least(function, rounds, unit="seconds"):
    """The least seconds of some calls, after one that compiles."""
    function()
    return min(timed(function)[1][unit] for _ in range(rounds))
