"""Rows at risk from lines of covariates that change, and intervals of case series.

Ten lines a person on average, of 20 covariates, with integer or text identifiers, sorted by person
or not. Every case runs twice, since the first time may compile.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas as pd

from sksurvgpu import episodes
from sksurvgpu.cohort import RiskWindow, eras_to_intervals

from .report import default_output, machine, number, table, write

N_COVARIATES = 20


def main(arguments=None):
    options = _read(arguments)
    persons, lines = draw(options.lines)
    text = [frame.assign(id="person " + frame["id"].astype(str)) for frame in (persons, lines)]
    shuffled = lines.sample(frac=1.0, random_state=0, ignore_index=True)
    cases = {
        "sorted": lambda: episodes(persons, lines, overlaps="max").X,
        "shuffled": lambda: episodes(persons, shuffled, overlaps="max").X,
        "shuffled, with y": lambda: _with_outcome(episodes(persons, shuffled, overlaps="max")),
        "until the next line": lambda: episodes(persons, shuffled, stop=None, overlaps="last").X,
        "text identifiers": lambda: episodes(*text, overlaps="max").X,
        "case series": lambda: _intervals(persons, lines),
    }
    results = []
    for name, call in cases.items():
        call()
        begin, cpu = time.perf_counter(), time.process_time()
        X = call()
        seconds, cpu = time.perf_counter() - begin, time.process_time() - cpu
        size = {"lines": len(lines), "rows": X.n_rows, "entries": X.n_entries}
        results.append({"case": name, **size, "seconds": seconds, "cpu_seconds": cpu})
        del X
    cells = [
        [
            result["case"],
            *(number(result[key], ",d") for key in ("lines", "rows", "entries")),
            *(number(result[key], ".2f") for key in ("seconds", "cpu_seconds")),
        ]
        for result in results
    ]
    print(table(["case", "lines", "rows", "entries", "s", "CPU s"], cells))
    write(options.output, {"machine": machine(), "results": results})


def draw(n_lines):
    """Persons followed for 200 to 2,000 days, and lines of up to 90 days within follow-up."""
    rng = np.random.default_rng(0)
    n_persons = n_lines // 10
    ids = rng.permutation(n_persons) * 1_000_003
    last = rng.integers(200, 2_000, n_persons)
    persons = pd.DataFrame({"id": ids, "time": last, "event": rng.random(n_persons) < 0.1})
    who = np.sort(rng.integers(0, n_persons, n_lines))
    start = (rng.random(n_lines) * last[who]).astype(np.int64)
    lines = {
        "id": ids[who],
        "covariate_id": rng.integers(0, N_COVARIATES, n_lines) * 1_000 + 210,
        "start": start,
        "stop": start + rng.integers(1, 90, n_lines),
        "value": rng.normal(size=n_lines),
    }
    return persons, pd.DataFrame(lines)


def _with_outcome(data):
    data.y  # noqa: B018
    return data.X


def _intervals(persons, lines):
    """Case series of all persons with an event, with a column for every covariate."""
    periods = persons.assign(start=0).rename(columns={"time": "end"})
    events = persons[persons["event"]]
    outcomes = events.assign(day=events["time"] * 2 // 3)[["id", "day"]]
    eras = lines.rename(columns={"covariate_id": "era", "stop": "end"})
    window = RiskWindow(by_era=True)
    return eras_to_intervals(periods, eras, outcomes, windows=window, age=5).X


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.episodes", description=__doc__)
    parser.add_argument("--lines", type=int, default=10_000_000)
    parser.add_argument("--quick", action="store_true", help="100,000 lines")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("episodes", options.quick)
    if options.quick:
        options.lines = 100_000
    return options


if __name__ == "__main__":
    main()
