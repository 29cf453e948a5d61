"""A whole study on a simulated database: time, memory, and the same bits after kills."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from .report import Option, columns, lines, read, save

GIGABYTE = 2**20 if hasattr(resource, "RUSAGE_THREAD") else 2**30  # Linux counts kilobytes
POLL = 0.1  # seconds
STEPS = columns("step | s=seconds:.1f | CPU s=cpu_seconds:.1f | peak GB=peak:.2f | parts:d | note")


def main_study(arguments=None):
    """A study of a simulated database: comparisons x outcomes x controls, killed and resumed.

    Persons begin one of two drugs; comparisons are of those who began in the same part of the time.
    Outcomes of interest and controls are events that the drugs do not affect, but for three. Every
    run is a process of its own: one until its end, and, with ``--kills``, another one that is ended
    by SIGKILL as often and resumed, whose parts must have the same bits.
    """
    options = read(
        "study",
        main_study.__doc__,
        arguments,
        "few persons",
        persons=Option(1_000_000, quick=2_000),
        records=Option(50_000_000, quick=60_000),
        codes=Option(5_000, quick=60),
        comparisons=Option(10, quick=2),
        outcomes=Option(100, quick=4),
        controls=Option(50, quick=6),
        kills=Option(2, "of another run, which is resumed"),
        threads=Option(2, "of a comparison"),
        folder=Option({"type": Path}, "for tables and results; by default a temporary one"),
    )
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        steps = [_simulate(options, folder)]
        steps.append(_run(folder, "estimate", options.threads))
        whole = _run(folder, "whole", options.threads)
        steps.append(whole)
        n_parts = whole["parts"]
        for k in range(options.kills):
            at = (k + 1) * n_parts // (options.kills + 1)
            steps.append(_run(folder, "resumed", options.threads, kill_at=at))
        if options.kills:
            steps.append(_run(folder, "resumed", options.threads))
            steps.append({"step": "same bits", "note": str(_are_same(folder))})
    print(lines(STEPS, steps))
    sizes = ("persons", "records", "codes", "comparisons", "outcomes", "controls", "threads")
    save(options, **{name: getattr(options, name) for name in sizes}, steps=steps)


def _simulate(options, folder):
    from sksurvgpu.datasets import simulate_omop
    from sksurvgpu.omop import Database

    begin, cpu = time.perf_counter(), time.process_time()
    n_events = options.outcomes + options.controls
    simulated = simulate_omop(
        options.persons,
        options.records,
        folder / "tables",
        n_codes=options.codes,
        n_controls=n_events - 3,
        systematic_error=(0.1, 0.05),
        random_state=0,
    )
    spent = {"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu}
    drawn = Database(folder / "tables").cohort({"drug": simulated.drugs}, washout=0).table
    shares = np.linspace(0, 1, options.comparisons + 1)
    days = drawn["index_date"].quantile(shares, interpolation="lower").dt.normalize()
    events = {str(name): int(concept) for name, concept in simulated.outcomes["concept_id"].items()}
    document = _write_document(options, simulated.drugs, events, days.tolist())
    (folder / "study.json").write_text(json.dumps(document))
    return {"step": "simulate", **spent, "peak": _peak(resource.RUSAGE_SELF)}


def _write_document(options, drugs, events, days):
    """Arms by parts of the time, compared within each of them."""
    import pandas as pd

    arms = {"targets": {}, "comparators": {}}
    for k, (first, last) in enumerate(pairwise(days)):
        last = last - pd.Timedelta(days=int(k + 2 < len(days)))
        for kind, drug in zip(arms, drugs, strict=True):
            period = [str(first.date()), str(last.date())]
            arms[kind][f"{kind[:-1]} {k}"] = {"drug": [drug], "period": period}
    pairs = [list(pair) for pair in zip(*arms.values(), strict=True)]
    names = list(events)
    defined = {name: {"condition": [events[name]]} for name in names}
    of_interest = names[: options.outcomes]
    return {
        "name": "benchmark",
        **arms,
        "comparisons": pairs,
        "outcomes": {name: defined[name] for name in of_interest},
        "negative_controls": {n: defined[n] for n in names if n not in of_interest},
        "covariates": {"min_count": max(10, options.persons // options.comparisons // 1_000)},
        "propensity": {"cv": 5, "n_alphas": 20},
        "analyses": {
            "matched": {
                "time_at_risk": {"risk_start": 1},
                "adjustment": {"match": {"ratio": 1}},
            }
        },
        "diagnostics": {"difference_alpha": 0.05},
    }


def _run(folder, step, n_threads, kill_at=None):
    """A process that runs the study, until it is done or so many parts are there."""
    into, begin = folder / step, time.perf_counter()
    command = [sys.executable, "-m", f"{__package__}.studies", str(folder), step, str(n_threads)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        if kill_at is not None:
            while process.poll() is None and len([*into.glob("*.npz")]) < kill_at:
                time.sleep(POLL)
            process.send_signal(signal.SIGKILL)
        note = process.stdout.read().strip()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode and kill_at is None:
        raise RuntimeError(f"the run has ended with {process.returncode}")
    return {
        "step": step if kill_at is None else "killed",
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": used.ru_utime + used.ru_stime,
        "peak": used.ru_maxrss / GIGABYTE,
        "parts": len([*into.glob("*.npz")]),
        "note": note,
    }


def _peak(who):
    return resource.getrusage(who).ru_maxrss / GIGABYTE


def _are_same(folder):
    """Whether all parts of both runs have the same arrays."""
    paths = sorted((folder / "whole").glob("*.npz"))
    for path in paths:
        one, other = np.load(path), np.load(folder / "resumed" / path.name)
        if {*one} != {*other} or any(one[k].tobytes() != other[k].tobytes() for k in one):
            return False
    return len(paths) == len([*(folder / "resumed").glob("*.npz")])


def _work(folder, step, n_threads):
    """Run or estimate the study in this process."""
    from sksurvgpu.study import Study

    folder = Path(folder)
    study = Study.read(folder / "study.json")
    if step == "estimate":
        table = study.estimate(folder / "tables", n_jobs=int(n_threads))
        print(f"{table['seconds'].sum():.0f} s: {table['basis'].iloc[0]}")
        return
    result = study.run(folder / "tables", folder / step, n_jobs=int(n_threads))
    begin = time.perf_counter()
    result.export(folder / f"{step} tables", "simulated")
    result.report(folder / f"{step}.html")
    of_interest = result.table[result.table["kind"] == "interest"]
    print(
        f"{len(result.table):,} estimates, {int(of_interest['unblind'].sum()):,} of "
        f"{len(of_interest):,} unblinded, {len(result.failures)} failures; tables and page "
        f"{time.perf_counter() - begin:.1f} s"
    )


if __name__ == "__main__":
    _work(*sys.argv[1:])
