"""Runs that are ended at a random moment, and then go on: is their result that of an unbroken one?

A child works in a folder and counts its *events*: each time it hands something to the disk (before
and after a file is written, before and after it gets its name, each block of draws). At some event
it is ended: by a signal, from inside or by its parent while it goes on, or by a disk that is full.
Then the youngest file may lose its end, as where a disk has lied. After one to three such ends the
same call is made again, and must give the same bits as without any; before it, nothing that looks
finished may be unfinished, and draws that count as valid must be those of the unbroken run.

    python -m tests.attacks.kill --attempts 100 --seed 0
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import warnings
from contextlib import ExitStack
from errno import ENOSPC
from functools import cache
from pathlib import Path
from unittest.mock import patch
from zipfile import is_zipfile

import numpy as np

import sksurvgpu
from sksurvgpu import _journal
from sksurvgpu.bayes import draws, run
from sksurvgpu.datasets import simulate_cox

ENDS = ("kill", "kill outside", "terminate", "interrupt", "full disk")
SIGNALS = {
    "kill": signal.SIGKILL,
    "kill outside": signal.SIGKILL,
    "terminate": signal.SIGTERM,
    "interrupt": signal.SIGINT,
}
# Where nothing waits for a disk: what a process has written outlives it in either place.
MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else None
PACKAGE = [  # children are born with it
    "sksurvgpu.estimators.bayesian_multinomial",
    "sksurvgpu.estimators.bayesian_regression",
    "sksurvgpu.inference.bootstrap",
    "sksurvgpu.inference.posterior",
    "sksurvgpu.selection.models",
]
CHAINS = {"n_chains": 2, "n_tune": 20, "n_draws": 40, "random_state": 0}


@cache
def data():
    return simulate_cox(120, 6, density=0.3, random_state=0)


def draw_lasso(folder, n_jobs):
    y = data().X @ np.arange(6.0) + data().y["time"]
    model = sksurvgpu.BayesianLasso(folder=folder, n_jobs=n_jobs, **CHAINS).fit(data().X, y)
    return model.posterior_.draws


def draw_classes(sampler, folder, n_jobs):
    model = sksurvgpu.BayesianMultinomialLogistic(
        sampler=sampler, folder=folder, n_jobs=n_jobs, **CHAINS
    )
    return model.fit(data().X, data().y["event"]).posterior_.draws


def draw_cox(folder, n_jobs):
    model = sksurvgpu.CoxLassoCCD(n_jobs=n_jobs)
    return sksurvgpu.posterior(model, data().X, data().y, folder=folder, **CHAINS).draws


def draw_scales(folder, n_jobs):
    model, given = sksurvgpu.CoxLassoCCD(n_jobs=n_jobs), {"prior": "horseshoe", **CHAINS}
    return sksurvgpu.posterior(model, data().X, data().y, folder=folder, **given).draws


def choose_penalty(search, folder, n_jobs):
    model = sksurvgpu.CoxLassoCV(
        cv=5, n_repeats=4, n_alphas=25, search=search, folder=folder, n_jobs=n_jobs
    ).fit(data().X, data().y)
    table = model.cv_results_
    return {"coef": model.coef_, **{name: table[name].to_numpy() for name in table}}


def resample(folder, n_jobs):
    model = sksurvgpu.CoxLassoCCD(alpha=0.01, n_jobs=n_jobs)
    result = sksurvgpu.bootstrap(
        model, data().X, data().y, n_replicates=70, random_state=0, folder=folder
    )
    return {"coef": result.coef, "coefs": result.coefs}


CALLS = {
    "BayesianLasso": draw_lasso,
    "multinomial, Gibbs": lambda *given: draw_classes("gibbs", *given),
    "multinomial, HMC": lambda *given: draw_classes("hmc", *given),
    "posterior": draw_cox,
    "posterior, scales": draw_scales,
    "CoxLassoCV, grid": lambda *given: choose_penalty("grid", *given),
    "CoxLassoCV, search": lambda *given: choose_penalty("auto", *given),
    "bootstrap": resample,
}


def call(name, folder, n_jobs=1):
    """Result of a call, arrays by name; chains are recorded after each of their turns."""
    due = patch.object(run, "SECONDS", 0.0), patch.object(run, "SHARE", np.inf)
    with due[0], due[1], warnings.catch_warnings():
        warnings.simplefilter("ignore")  # chains so short disagree
        return {key: np.array(value) for key, value in CALLS[name](folder, n_jobs).items()}


class Events:
    """Counts what goes to the disk, and calls `happen` with the number before each of it."""

    def __init__(self, happen):
        self.count, self._happen = 0, happen

    def counted(self, function):
        def wrapped(*given):
            self.happen()
            found = function(*given)
            self.happen()
            return found

        return wrapped

    def happen(self):
        self.count += 1
        self._happen(self.count)

    def watch(self):
        """Context within which events are counted."""
        stack = ExitStack()
        for module, name in (
            (_journal, "sync"),
            (_journal, "replace"),
            (draws, "replace"),
            (draws, "_new_file"),
            (draws.Draws, "write"),
            (draws.Draws, "flush"),
        ):
            stack.enter_context(patch.object(module, name, self.counted(getattr(module, name))))
        return stack


def fill_disk(name, folder, n_jobs, moment):
    """Make the call on a disk that is full from an event on; whether it noticed."""

    def happen(count):
        if count >= moment:
            raise OSError(ENOSPC, os.strerror(ENOSPC))

    try:
        with Events(happen).watch():
            call(name, folder, n_jobs)
    except OSError:
        return "refused"
    return "done"


def work_until(name, folder, n_jobs, end, moment, pipe):
    """Body of a child: make the call, and end at an event."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
    sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (until this process ends)

    def happen(count):
        if count == moment and end == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        elif count == moment:
            pipe.send(count)

    with Events(happen).watch():
        call(name, folder, n_jobs)


def end_once(name, folder, n_jobs, end, moment):
    """Let a child work until it is ended, or done; its exit code."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PACKAGE)
    ours, theirs = context.Pipe(duplex=False)
    child = context.Process(target=work_until, args=(name, folder, n_jobs, end, moment, theirs))
    child.start()
    theirs.close()
    try:
        ours.recv()
        os.kill(child.pid, SIGNALS[end])
        codes = 0, 1 if end == "interrupt" else -SIGNALS[end]
    except EOFError:  # it ended before, or by itself
        codes = 0, -SIGNALS["kill"] if end == "kill" else 0
    child.join()
    if child.exitcode not in codes:
        raise AssertionError(f"{name}: the child failed with exit code {child.exitcode}")
    return f"exit {child.exitcode}"


@cache
def unbroken(name):
    """Result of a call that nobody ends, its number of events, and its parts."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        events = Events(lambda count: None)
        with events.watch():
            result = call(name, folder)
        return result, events.count, {path.stem for path in Path(folder).glob("*.npz")}


def require_same(found, expected, where):
    if found.keys() != expected.keys():
        raise AssertionError(f"{where}: {sorted(found)} in place of {sorted(expected)}")
    for key in expected:
        if (
            found[key].shape != expected[key].shape
            or found[key].tobytes() != expected[key].tobytes()
        ):
            raise AssertionError(f"{where}: {key!r} differs")


def check_folder(name, folder, torn):
    """What is there of an ended run must be true, but for files that were torn."""
    expected, _, parts = unbroken(name)
    for path in Path(folder).glob("*.npy"):
        require_same({"": np.load(path)}, {"": expected[path.stem]}, f"finished file {path.name}")
    for path in Path(folder).glob("chain-*.npz"):
        if path.name in torn and not is_zipfile(path):  # nor was it written again
            continue
        chain, n_valid = int(path.stem[6:]), int(np.load(path)["n_kept"])
        for key in expected:
            [file] = [p for p in Path(folder).glob(f"{key}.*") if p.suffix in (".npy", ".part")]
            recorded = np.load(file, mmap_mode="r")[chain, :n_valid]
            require_same({"": np.array(recorded)}, {"": expected[key][chain, :n_valid]}, path.name)
    if not {path.stem for path in Path(folder).glob("*.npz")} <= parts:
        raise AssertionError("parts that an unbroken run does not have")


def tear(folder):
    """Cut the end of the youngest file that a run has written; its name, if there is any."""
    files = [path for path in Path(folder).iterdir() if path.suffix in (".npz", ".new")]
    if not files:
        return "nothing"
    path = max(files, key=lambda path: path.stat().st_mtime_ns)
    os.truncate(path, path.stat().st_size // 2)
    return path.name


def attempt(name, random, folder, ends=ENDS, most=3):
    """End a call a few times, then let it go on; what was done, in words."""
    expected, n_events, parts = unbroken(name)
    told, torn = [name], set()
    n_ends = int(random.integers(1, most + 1))
    for _ in range(n_ends):
        end, n_jobs = ends[random.integers(len(ends))], int(random.integers(1, 3))
        moment = int(random.integers(1, n_events + 1))
        if n_ends > 1:  # leave something for the next
            moment = int(n_events ** random.random())
        if end == "full disk":
            found = fill_disk(name, folder, n_jobs, moment)
        else:
            found = end_once(name, folder, n_jobs, end, moment)
        told.append(f"{end} at event {moment} of {n_events} on {n_jobs} threads ({found})")
        check_folder(name, folder, torn)
        if random.random() < 0.25:
            torn.add(tear(folder))
            told.append(f"{sorted(torn)} torn")
    n_before, written = len(list(Path(folder).glob("*.npz"))), []
    write = _journal.Journal.write

    def count(journal, key, *given, **options):
        written.append(key)
        return write(journal, key, *given, **options)

    with patch.object(_journal.Journal, "write", count):
        require_same(call(name, folder), expected, ", ".join(told))
        n_written = len(set(written))
        call(name, folder)
    if len(set(written)) > n_written:
        raise AssertionError(f"{told}: a finished folder was not read back")
    told.append(f"went on with {n_before} of {len(parts)} parts")
    return ", ".join(told)


def attack(n_attempts, seed, calls=tuple(CALLS), **limits):
    """Make attempts, on one call after the other; raises at the first that fails."""
    for number in range(n_attempts):
        random = np.random.default_rng([seed, number])
        folder = tempfile.mkdtemp(dir=MEMORY)
        told = attempt(calls[number % len(calls)], random, folder, **limits)
        print(f"{number}: {told}", flush=True)
        shutil.rmtree(folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--attempts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    attack(options.attempts, options.seed)
    print(f"{options.attempts:,} attempts, all results the same bits")


if __name__ == "__main__":
    main()
