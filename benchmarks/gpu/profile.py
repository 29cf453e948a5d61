"""Counters of the kernels of one fit, by Nsight Compute: what a kernel waits for.

``python -m benchmarks.gpu.profile "cox 1e5 x 1000" full`` is the fit that runs under it.
"""

from __future__ import annotations

import csv
import io
import shutil
import statistics
import sys
from collections import defaultdict

import numpy as np

from ..processes import TookTooLongError, environment, run
from . import problems
from .day import SIZES, name_of

ITEM_LIMIT = 170.0
MOST_LAUNCHES = 60
# counter -> (key of the result, factor)
COUNTERS = {
    "gpu__time_duration.sum": ("us", 1e-3),  # ns
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": ("memory", 1.0),
    "lts__throughput.avg.pct_of_peak_sustained_elapsed": ("l2", 1.0),
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("sm", 1.0),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("warps", 1.0),
    "l1tex__data_bank_conflicts_pipe_lsu.sum": ("conflicts", 1.0),
    "launch__registers_per_thread": ("registers", 1.0),
}
COLUMNS = (
    ("launches", "launches", "d"),
    ("us", "us", ".1f"),
    ("memory %", "memory", ".0f"),
    ("L2 %", "l2", ".0f"),
    ("SM %", "sm", ".0f"),
    ("warps %", "warps", ".0f"),
    ("bank conflicts", "conflicts", ".2g"),
    ("registers", "registers", ".0f"),
)
# item -> (problem, kernels by name)
ITEMS = {
    "iteration, 1e6": ("cox 1e6 x 1000", "."),
    "exact, 1e5": ("exact, 1e5 x 1000", "exact|cycle"),
}


def jobs(sizes):
    return [(item,) for item in ITEMS]


def measure(item, sizes, run=run, find=shutil.which):
    """Medians over the first launches of each kernel."""
    executable = find("ncu")
    if executable is None:
        return {"not_run": "ncu not found"}
    problem, names = ITEMS[item]
    command = [executable, "--csv", "--page", "raw", "--print-units", "base"]
    command += ["--clock-control", "none", "--target-processes", "all"]
    command += ["--kernel-name", f"regex:{names}", "--launch-count", str(MOST_LAUNCHES)]
    command += ["--metrics", ",".join(COUNTERS), sys.executable, "-m", __name__, problem]
    command.append(name_of(sizes))
    try:
        status, printed = run(command, ITEM_LIMIT - 10.0, environment())
    except TookTooLongError:
        return {"not_run": f"no time: more than {ITEM_LIMIT - 10.0:.0f} s"}
    found = read_counters(printed)
    return {"kernels": found} if found else {"error": f"exit status {status}; {printed[-2_000:]}"}


def read_counters(printed):
    """Kernel -> medians, from the table that begins with its header's "ID"."""
    text = printed[max(printed.find('"ID"'), 0) :]
    values = defaultdict(lambda: defaultdict(list))
    for line in csv.DictReader(io.StringIO(text)):
        for counter, (key, factor) in COUNTERS.items():
            try:
                number = float((line.get(counter) or "").replace(",", ""))
            except ValueError:  # the line of units
                continue
            values[line["Kernel Name"]][key].append(factor * number)
    return {
        name: {"launches": len(of["us"]), **{k: statistics.median(v) for k, v in of.items()}}
        for name, of in values.items()
        if of["us"]
    }


def lines(item, result):
    yield {"item": item}
    for name, counters in result["kernels"].items():
        yield {"item": f"  {name[:40]}", **counters}


def fit(problem, sizes):
    """What the profiler looks at: few iterations of a fit."""
    from sksurvgpu.backends import choose
    from sksurvgpu.solver.fits import Fits, Options
    from sksurvgpu.solver.problem import Batch

    what = problems.read_name(problem, sizes)[0]
    algorithm, most = ("exact", 1) if what == "exact" else ("majorized", min(3, sizes.max_iter))
    options = Options(algorithm=algorithm, max_iter=most, baseline=False)
    batch = Batch(np.full((1, 1), sizes.penalty))
    return Fits(problems.problem_of(problem, sizes), batch, choose("cuda"), options).solve()


if __name__ == "__main__":
    fit(sys.argv[1], SIZES[sys.argv[2]])
