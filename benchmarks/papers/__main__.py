"""Tables and figures of the papers, run again: ``python -m benchmarks.papers [item ...]``.

By default sizes take minutes on two cores; ``--full`` takes the published ones. Every item prints
ours, our exact algorithm (``algorithm="exact"``, the published cyclic descent), the R package where
R finds it, and the published figures with their hardware, and leaves a JSON file and figures.
Ratios to our exact algorithm on the same machine compare like with like; published times do not.
"""

from __future__ import annotations

import argparse
import os
import signal
import traceback
import warnings
from collections import Counter
from pathlib import Path

from ..report import RESULTS, lines, table
from . import bayes, grouped, ours, records, survival, varying
from .figures import drawing
from .page import write_page
from .rig import ITEMS, Run

# Their items are on the list once they are imported.
MODULES = (survival, records, varying, grouped, bayes, ours)
FOLDERS = {"tiny": "papers-tiny", "default": "papers", "full": "papers-full"}
TIMEOUTS = {"tiny": 60.0, "default": 90.0, "full": 7_200.0}


def main_papers(arguments=None):
    """Run the chosen items, print their tables; the exit code counts items that failed."""
    options = _read(arguments)
    if options.page:
        write_page()
        return 0
    options.load = os.getloadavg()[0]
    if options.list:
        rows = [[one.name, one.paper, one.title] for one in in_order()]
        print(table(["item", "paper", "note"], rows, n_left=2))
        return 0
    options.output.mkdir(parents=True, exist_ok=True)
    failed = [name for name in options.items if not run_item(ITEMS[name], options)]
    if failed:
        print(f"failed: {', '.join(failed)}")
    return len(failed)


def in_order():
    """Items in the order of the papers, ours last."""
    return sorted(ITEMS.values(), key=lambda one: one.paper)


def run_item(item, options):
    """Whether an item came to its end; what it had until then is kept."""
    run, is_whole = Run(item, options), True
    with warnings.catch_warnings(record=True) as caught, drawing():
        warnings.simplefilter("always")
        try:
            item.measure(run)
        except Exception as error:
            is_whole = False
            traceback.print_exc()
            run.note(f"failed: {type(error).__name__}: {error}")
    for kind, count in Counter(warning.category.__name__ for warning in caught).items():
        run.note(f"{count} x {kind}")
    run.whole = is_whole
    run.write()
    if is_whole:
        print(f"\n{describe(run.record())}\n", flush=True)
    return is_whole


def describe(record):
    """Title, table, published figures and notes as text."""
    where = record["machine"]
    head = [
        f"{record['item']} ({record['paper']}): {record['title']}",
        f"{record['scale']} size, {where['cpu']}, {record['threads']} thread(s), backend "
        f"{record['backend']}, {where['date'][:10]}"
        + ("" if record["idle"] else f"; NOT IDLE: load {record['load_before']:.1f}"),
    ]
    parts = ["\n".join(head), *map(_shown, record["tables"])]
    if record["published"]:
        rows = [[p["what"], p["value"], p["hardware"]] for p in record["published"]]
        parts.append(table(["published", "figure", "hardware"], rows, n_left=3))
    parts += [f"- {note}" for note in record["notes"]]
    spent = f"{record['seconds']:.1f} s, {record['cpu_seconds']:.1f} s of processors"
    parts.append(f"{spent}; {', '.join(record['figures']) or 'no figure'}")
    return "\n\n".join(parts)


def _shown(found):
    drawn = lines(found["columns"], found["rows"])
    return f"{found['title']}\n{drawn}" if found["title"] else drawn


def _read(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("items", nargs="*", metavar="item", help="by default all of --list")
    scale = {"dest": "scale", "action": "store_const"}
    add("--full", const="full", help="published sizes; some take hours", **scale)
    add("--tiny", const="tiny", help=argparse.SUPPRESS, **scale)
    add("--backend", choices=("cpu", "cuda"), default="cpu")
    add("--list", action="store_true", help="print the items, and stop")
    add("--page", action="store_true", help="write docs/guide/published.rst, and stop")
    add("--output", type=Path, help="folder; by default results/papers or papers-full")
    add("--rscript", default="Rscript", help="R, which finds its packages as usual (R_LIBS)")
    add("--timeout", type=float, help="seconds an R process may take")
    add("--threads", type=int, default=_n_threads(), help="of ours")
    options = parser.parse_args(arguments)
    options.scale = options.scale or "default"
    options.output = options.output or RESULTS / FOLDERS[options.scale]
    options.timeout = options.timeout or TIMEOUTS[options.scale]
    unknown = [name for name in options.items if name not in ITEMS]
    if unknown:
        parser.error(f"no item {unknown[0]!r}; --list says what there is")
    options.items = options.items or [one.name for one in in_order()]
    return options


def _n_threads():
    """Cores, or what the environment allows Numba."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return int(os.environ.get("NUMBA_NUM_THREADS", cores or 1))


def _stop(number, frame):
    raise InterruptedError(f"ended by signal {number}")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stop)  # what there is gets its notes
    raise SystemExit(main_papers())
