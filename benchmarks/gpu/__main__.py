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

from ..report import RESULTS, lines, machine, write
from .day import CALLS, SIDE_BY_SIDE, SIZES, Job, fails, part_of, run_job, schedule

NOTE_WIDTH = 100


def main_gpu(arguments=None, run=run_job):
    """Run the calls, print tables, write JSON; the exit status."""
    options = _read(arguments)
    path = options.json or RESULTS / f"gpu-{options.call}.json"
    shares = {part: options.shares[part] for part in options.only or options.shares}
    content, begin = {"machine": machine(), "sizes": options.sizes, "parts": {}}, time.monotonic()
    for part, deadline in schedule(shares, begin, 60.0 * options.minutes):
        content["parts"][part] = results = run_part(part, deadline, options, run)
        content["seconds"] = time.monotonic() - begin
        write(path, content)
        print(show(part, results) + "\n", flush=True)
        if part == "chip" and "error" in results.get("device", {}):
            return 2
    print(f"{content['seconds']:.0f} s; written: {os.path.relpath(path)}")
    return int(any(fails(result) for part in content["parts"].values() for result in part.values()))


def run_part(part, deadline, options, run):
    """Results of a part's items, whose processes run side by side where they may."""
    groups = part_of(part).jobs(SIZES[options.sizes])
    at_once, n_threads = (options.jobs, 1) if part in SIDE_BY_SIDE else (1, None)
    print(f"{part}: {len(groups)} process(es), {at_once} at a time", flush=True)
    jobs = [Job(part, tuple(items), options.sizes, n_threads) for items in groups]
    with ThreadPoolExecutor(at_once) as pool:
        done = pool.map(lambda job: run(job, deadline), jobs)
        return {item: result for results in done for item, result in results.items()}


def show(name, results):
    """Table of a part; an item that has no result says why."""
    part, rows = part_of(name), []
    for item, result in results.items():
        reason = _reason(result)
        rows += part.lines(item, result) if reason is None else [{"item": item, "note": reason}]
    columns = ((name, "item", ""), *part.columns, ("note", _note, ""))
    return f"{lines(columns, [*rows, *part.published])}\n{part.footer(results)}".rstrip()


def _note(line):
    text = ("FAILED " if line.get("passed") is False else "") + str(line.get("note", ""))
    return text if len(text) <= NOTE_WIDTH else text[: NOTE_WIDTH - 3] + "..."


def _reason(result):
    if "not_run" in result:
        return f"not run: {result['not_run']}"
    if "error" in result:
        return f"ERROR: {(result['error'].strip().splitlines() or ['?'])[-1]}"
    return None


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
    names = list(CALLS) if options.call == "all" else [options.call]
    options.shares = {part: share for name in names for part, share in CALLS[name].shares.items()}
    options.minutes = options.minutes or sum(CALLS[name].minutes for name in names)
    unknown = sorted(set(options.only) - set(options.shares))
    if unknown:
        there = ", ".join(sorted(options.shares))
        parser.error(f"{', '.join(unknown)}: not a part of {options.call}; these are {there}")
    return options


def _parts(text):
    return [part.strip() for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main_gpu())
