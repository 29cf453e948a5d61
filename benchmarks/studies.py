"""Studies of simulated databases: time, memory, the same bits after kills, and coverage."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise, product, repeat
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from .report import Option, columns, lines, read, save

GIGABYTE = 2**20 if hasattr(resource, "RUSAGE_THREAD") else 2**30  # Linux counts kilobytes
POLL = 0.1  # seconds
STEPS = columns("step | s=seconds:.1f | CPU s=cpu_seconds:.1f | peak GB=peak:.2f | parts:d | note")
SMALL = {"persons": 4_000, "records": 100_000, "codes": 60, "comparisons": 1}
SMALL |= {"outcomes": 3, "controls": 30}
# Mean and standard deviation of errors of log hazard ratios, which no record tells of.
ERRORS = {"hidden": (0.15, 0.1), "none": (0.0, 0.0)}
EVALUATED = ("stroke", "bleeding")  # the third is the only one with which death competes
SHARES = ("covered", "calibrated_covered", "below", "calibrated_below")
HELD = columns(
    "error | outcomes | databases:d | n:d | covered | after=calibrated_covered | p < 0.05=below | "
    "after=calibrated_below | width:.2f | after=calibrated_width:.2f",
    **{key: lambda found, key=key: _with_error(found, key) for key in SHARES},
)


def _with_error(found, key):
    return f"{found[key]:.1%} +- {found['standard_errors'][key]:.1%}"


def main_study(arguments=None):
    """A study of a simulated database: comparisons x outcomes x controls, killed and resumed.

    Persons begin one of two drugs; comparisons are of those who began in the same part of the time.
    Outcomes of interest and controls are events that the drugs do not affect, but for three. Every
    run is a process of its own: one until its end, and, with ``--kills``, another one that is ended
    by SIGKILL as often and resumed, whose parts must have the same bits.

    With ``--coverage``, so many small databases have one comparison each, with hidden errors of all
    effects, and as many without: how many intervals hold the truth, before and after calibration.
    Controls are calibrated by the others.
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
        threads=Option(2, "of a comparison, or databases at once"),
        folder=Option({"type": Path}, "for tables and results; by default a temporary one"),
        coverage=Option(0, "databases, to see how many intervals hold the truth"),
    )
    if options.coverage:
        return _cover(options)
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
    begin, cpu = time.perf_counter(), time.process_time()
    _draw(options, folder, (0.1, 0.05), 0)
    spent = {"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - cpu}
    return {"step": "simulate", **spent, "peak": _peak(resource.RUSAGE_SELF)}


def _draw(options, folder, error, seed):
    """A database in files, and the document of its study."""
    from sksurvgpu.datasets import simulate_omop
    from sksurvgpu.omop import Database

    simulated = simulate_omop(
        options.persons,
        options.records,
        folder / "tables",
        n_codes=options.codes,
        n_controls=options.outcomes + options.controls - 3,
        systematic_error=error,
        random_state=seed,
    )
    drawn = Database(folder / "tables").cohort({"drug": simulated.drugs}, washout=0).table
    shares = np.linspace(0, 1, options.comparisons + 1)
    days = drawn["index_date"].quantile(shares, interpolation="lower").dt.normalize()
    events = {str(name): int(concept) for name, concept in simulated.outcomes["concept_id"].items()}
    document = _write_document(options, simulated.drugs, events, days.tolist())
    (folder / "study.json").write_text(json.dumps(document))
    return simulated


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


def _cover(options):
    """Intervals of many small databases, by their error."""
    vars(options).update(SMALL)
    options.output = options.output.with_stem(f"{options.output.stem}-coverage")
    judged, draws = {}, [*product(ERRORS, range(options.coverage))]
    with ProcessPoolExecutor(options.threads, get_context("spawn")) as pool:
        found = pool.map(_hold, repeat(options), *zip(*draws, strict=True))
        for (error, seed), held_of in zip(draws, found, strict=True):
            print(f"{error}: {seed + 1} of {options.coverage}", file=sys.stderr, flush=True)
            for kind, held in held_of.items():
                judged.setdefault((error, kind), []).append(held)
            results = [_share(*key, shares) for key, shares in judged.items()]
            save(options, **SMALL, errors=ERRORS, results=results)
    print(lines(HELD, results))


def _hold(options, error, seed):
    """Whether intervals of one database hold the truth, of interest and of controls."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        truth, table = _estimate(options, Path(folder), ERRORS[error], seed)
        return _judge(truth, table)


def _estimate(options, folder, error, seed):
    """True effects, and the table of a study of one database that hides nothing."""
    from sksurvgpu.study import Study

    truth = _draw(options, folder, error, seed).outcomes["log_hazard_ratio"]
    document = json.loads((folder / "study.json").read_text())
    thresholds = Study.read(document).document["diagnostics"]
    study = Study.read(document | {"diagnostics": dict.fromkeys(thresholds)})  # which hides nothing
    table = study.run(folder / "tables", folder / "run", n_jobs=1).table.set_index("outcome")
    table = table[table["coef"].notna()]
    return truth[table.index], table


def _judge(truth, table):
    """Whether intervals hold the truth, of interest and of controls, calibrated by the others."""
    import pandas as pd

    from sksurvgpu import calibrate

    table[["lower", "upper"]] = np.log(table[["ratio_lower", "ratio_upper"]])
    controls = table[table["kind"] == "negative"]
    by_others = [calibrate(controls.loc[[k]], controls.drop(k)).table for k in controls.index]
    table.update(pd.concat(by_others).filter(like="calibrated_"))
    held = pd.DataFrame(index=table.index)
    for after in ("", "calibrated_"):
        lower, upper = table[f"{after}lower"], table[f"{after}upper"]
        held[f"{after}covered"] = (lower <= truth) & (truth <= upper)
        held[f"{after}below"] = table[f"{after}p_value"] < 0.05
        held[f"{after}width"] = upper - lower
    return {"of interest": held[held.index.isin(EVALUATED)], "controls": held.loc[controls.index]}


def _share(error, kind, found):
    """Shares of the outcomes, with standard errors of databases that are independent."""
    each = np.array([held.to_numpy(float).mean(axis=0) for held in found])
    mean = dict(zip(found[0].columns, each.mean(axis=0).tolist(), strict=True))
    spread = each.std(axis=0, ddof=1) if len(each) > 1 else np.full(each.shape[1], np.nan)
    errors = dict(zip(found[0].columns, (spread / np.sqrt(len(each))).tolist(), strict=True))
    told = {"error": error, "outcomes": kind, "databases": len(each), "n": sum(map(len, found))}
    return {**told, **mean, "standard_errors": {key: errors[key] for key in SHARES}}


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
