"""Items of a part in processes of their own, with limits of time.

An error on a device leaves its process without it, and a kernel that waits for ever ends only with
its process.  So a part's items run in a process that reports each one's begin and result; where it
fails or falls silent, the item at hand gets the blame and a new process takes the rest.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module

from ..processes import ROOT, environment
from .day import SIZES

MARK = "@@"
NO_TIME = {"not_run": "no time"}
LEAST_SECONDS = 5.0  # less is not worth a process
KEPT_LINES = 40
QUIET = {"NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS": "0", "PYTHONUNBUFFERED": "1"}


@dataclass
class Job:
    """Items of one module that share a process; `n_threads` limits the CPU's."""

    module: str
    items: tuple
    sizes: str  # name in SIZES
    n_threads: int | None = None
    results: dict = field(default_factory=dict)

    @property
    def left(self):
        return [item for item in self.items if item not in self.results]


def module_of(name):
    return import_module(f"{__package__}.{name}")


# -- in the parent ----------------------------------------------------------------------------


def run_job(job, deadline):
    """Results of all items, within the time there is."""
    limit = module_of(job.module).ITEM_LIMIT
    while job.left and deadline - time.monotonic() > LEAST_SECONDS:
        before = len(job.results)
        log = _run_process(job, deadline, limit)
        in_time = time.monotonic() < deadline
        if in_time and len(job.results) == before:  # the next process would do no better
            job.results |= {item: {"error": "".join(log)[-2_000:]} for item in job.left}
    job.results |= dict.fromkeys(job.left, NO_TIME)
    return job.results


def _run_process(job, deadline, limit):
    """Results of one process; returns what else it printed."""
    order = {"module": job.module, "items": job.left, "sizes": job.sizes}
    order["seconds"] = deadline - time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.jobs", json.dumps(order)],
        env=environment(job.n_threads, **QUIET),
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    lines = queue.Queue()
    reader = threading.Thread(target=_read, args=(process.stdout, lines), daemon=True)
    reader.start()
    try:
        return _follow(job, lines, deadline, limit)
    finally:
        _end(process)
        reader.join()
        process.stdout.close()


def _read(stream, lines):
    for line in stream:
        lines.put(line)
    lines.put(None)


def _end(process):
    """End a process and its children, if they are still there."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _follow(job, lines, deadline, limit):
    """Take results as they come, until the process ends or falls silent for too long."""
    log, item = [], None
    while True:
        wait = min(limit, deadline - time.monotonic())
        try:
            line = lines.get(timeout=max(wait, 0.0))
        except queue.Empty:
            if item is not None:
                is_late = time.monotonic() >= deadline
                silent = {"error": f"no result after {limit:.0f} s; " + "".join(log)[-1_000:]}
                job.results[item] = {"not_run": "no time left to end"} if is_late else silent
            return log
        if line is None:
            if item is not None:
                job.results[item] = {"error": "the process ended; " + "".join(log)[-2_000:]}
            return log
        if not line.startswith(MARK):
            log = [*log, line][-KEPT_LINES:]
            continue
        said = json.loads(line[len(MARK) :])
        item = said.get("begin")
        if item is None:
            job.results[said["item"]] = said["result"]


# -- in the child -----------------------------------------------------------------------------


def run_items(module, items, sizes, seconds, say=print):
    """Measure items in turn, as long as there is time; False where one failed."""
    measure, begin = module_of(module).measure, time.monotonic()
    for item in items:
        passed = time.monotonic() - begin
        if passed > seconds - LEAST_SECONDS:
            say(MARK + json.dumps({"item": item, "result": NO_TIME}), flush=True)
            continue
        say(MARK + json.dumps({"begin": item}), flush=True)
        try:
            result, is_right = measure(item, SIZES[sizes]), True
        except Exception:
            result, is_right = {"error": traceback.format_exc()[-2_000:]}, False
        result = {"seconds": time.monotonic() - begin - passed, **result}
        say(MARK + json.dumps({"item": item, "result": result}), flush=True)
        if not is_right:  # the device may be lost to this process
            return False
    return True


if __name__ == "__main__":
    order = json.loads(sys.argv[1])
    sys.exit(0 if run_items(**order) else 1)
