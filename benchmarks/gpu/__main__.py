"""The GPU day: ``python -m benchmarks.gpu call0``, call1, call2, papers, call3, or all.

Parts of a call run one after the other; each has a share of its minutes, and what an earlier one
left of its own.  What finds no time is listed, and a failure stays with its item.  JSON is written
after every part; the tables come last.  Exit status 1: something was wrong; 2: no device.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ..report import RESULTS, machine, number, table, write
from .day import CALLS, SIZES, fails, schedule
from .jobs import Job, module_of, run_job

NOTE_WIDTH = 100


def main(arguments=None, run=run_job):
    """Run the calls, print tables, write JSON; the exit status."""
    options = _read(arguments)
    names = list(CALLS) if options.call == "all" else [options.call]
    calls = [CALLS[name] for name in names]
    minutes = options.minutes or sum(call.minutes for call in calls)
    path = options.json or RESULTS / f"gpu-{options.call}.json"
    parts = [part for call in calls for part in call.parts]
    if options.only:
        parts = [part for part in parts if part.module in options.only]
    content = {"machine": machine(), "sizes": options.sizes, "parts": {}}
    begin = time.monotonic()
    for part, deadline in schedule(parts, begin, 60.0 * minutes):
        content["parts"][part.module] = run_part(part, deadline, options, run)
        content["seconds"] = time.monotonic() - begin
        write(path, content)
        print(show(part.module, content["parts"][part.module]) + "\n", flush=True)
        if part.module == "chip" and "error" in content["parts"]["chip"].get("device", {}):
            return 2
    print(f"{content['seconds']:.0f} s; written: {os.path.relpath(path)}")
    return int(any(fails(result) for part in content["parts"].values() for result in part.values()))


def run_part(part, deadline, options, run):
    """Results of a part's items, whose processes run side by side where it says so."""
    groups = module_of(part.module).jobs(SIZES[options.sizes])
    at_once, n_threads = (options.jobs, 1) if part.side_by_side else (1, None)
    print(f"{part.module}: {len(groups)} process(es), {at_once} at a time", flush=True)
    jobs = [Job(part.module, tuple(items), options.sizes, n_threads) for items in groups]
    with ThreadPoolExecutor(at_once) as pool:
        done = pool.map(lambda job: run(job, deadline), jobs)
        return {item: result for results in done for item, result in results.items()}


def show(name, results):
    """Table of a part; an item that has no result says why."""
    module, rows = module_of(name), []
    lines_of = getattr(module, "lines", lambda item, result: [{"item": item, **result}])
    for item, result in results.items():
        reason = _reason(result)
        if reason is None:
            rows += [_cells(module.COLUMNS, line) for line in lines_of(item, result)]
        else:
            rows.append([item, *["-"] * len(module.COLUMNS), _short(reason)])
    rows += [_cells(module.COLUMNS, line) for line in getattr(module, "PUBLISHED_LINES", ())]
    text = table([name, *(header for header, _, _ in module.COLUMNS), "note"], rows)
    footer = module.footer(results) if hasattr(module, "footer") else ""
    return f"{text}\n{footer}".rstrip()


def _cells(columns, line):
    values = [line.get(key) for _, key, _ in columns]
    shown = [
        value if isinstance(value, str) else number(value, form)
        for value, (_, _, form) in zip(values, columns, strict=True)
    ]
    failed = "FAILED " if line.get("passed") is False else ""
    return [line["item"], *shown, _short(failed + str(line.get("note", "")))]


def _reason(result):
    if "not_run" in result:
        return f"not run: {result['not_run']}"
    if "error" in result:
        return f"ERROR: {(result['error'].strip().splitlines() or ['?'])[-1]}"
    return None


def _short(text):
    return text if len(text) <= NOTE_WIDTH else text[: NOTE_WIDTH - 3] + "..."


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("call", choices=[*CALLS, "all"])
    parser.add_argument("--only", type=_parts, default=[], help="parts of it, by commas")
    parser.add_argument("--json", type=Path, help="by default results/gpu-<call>.json")
    parser.add_argument("--sizes", choices=SIZES, default="full")
    parser.add_argument("--small", dest="sizes", action="store_const", const="small")
    parser.add_argument("--minutes", type=float, help="at most, in all; each call has its own")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    parser.add_argument("--jobs", type=int, default=cores, help="processes side by side")
    options = parser.parse_args(arguments)
    there = {
        p.module for name, c in CALLS.items() if options.call in (name, "all") for p in c.parts
    }
    unknown = sorted(set(options.only) - there)
    if unknown:
        names = ", ".join(sorted(there))
        parser.error(f"{', '.join(unknown)}: not a part of {options.call}; these are {names}")
    return options


def _parts(text):
    return [part.strip() for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
