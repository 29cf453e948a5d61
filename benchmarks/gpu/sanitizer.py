"""compute-sanitizer over tiny fits of everything: the check of memory accesses and of hazards.

memcheck sees accesses out of bounds, racecheck hazards in shared memory, synccheck barriers that
not all threads reach.  Order between blocks through global memory is seen by none of them; the
parity of large fits is what there is for that.  ``python -m benchmarks.gpu.sanitizer cox`` is what
runs under the tools.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from ..processes import TookTooLongError, environment, run
from . import cases

ITEM_LIMIT = 280.0
COLUMNS = (("seconds", "seconds", ".0f"), ("summary", "summary", "s"))
SAMPLERS = "samplers"
EVERYTHING = (*cases.MODELS, SAMPLERS)
TOOLS = {
    # A failing call of the driver is an answer that Numba asks for, and handles.
    "memcheck": ["--report-api-errors", "no"],
    "racecheck": ["--racecheck-report", "all"],
    "synccheck": [],
}
FOUND = 86  # exit status where something was found
SUMMARY = re.compile(r"=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) .*")


def jobs(sizes):
    """A process for each tool and model, all of which may run at the same time."""
    return [(f"{tool}: {model}",) for tool in TOOLS for model in EVERYTHING]


def find_tool():
    """Path of compute-sanitizer, or None."""
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    folders = [str(Path(home, part)) for home in homes if home for part in ("bin", "extras/bin")]
    folders += [str(Path(home, "compute-sanitizer")) for home in homes if home]
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=os.pathsep.join(folders)
    )


def measure(item, sizes, run=run, find=find_tool):
    """Outcome of one tool on one model."""
    executable = find()
    if executable is None:
        return {"not_run": "compute-sanitizer not found"}
    tool, model = item.split(": ")
    options = ["--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "20"]
    command = [executable, *options, *TOOLS[tool], sys.executable, "-m", __name__, model]
    try:
        status, printed = run(command, ITEM_LIMIT - 10.0, environment(1))
    except TookTooLongError:
        return {"not_run": f"no time: more than {ITEM_LIMIT - 10.0:.0f} s"}
    return judge(status, printed)


def judge(status, printed):
    """What a report says."""
    counts = [int(match.group(1)) for match in SUMMARY.finditer(printed)]
    lines = [line for line in printed.splitlines() if line.startswith("=========")]
    if not counts:
        return {"error": "no summary; " + printed[-2_000:]}
    if status not in (0, FOUND):
        return {"error": f"exit status {status}; " + printed[-2_000:]}
    return {
        "passed": status == 0 and not any(counts),
        "summary": SUMMARY.search(printed).group(0).strip("= "),
        "report": [] if status == 0 else lines[:60],
    }


# -- what runs under the tools ----------------------------------------------------------------


def run_kernels(model, rows=40, columns=4, max_iter=3):
    """Launch every kernel of a model on tiny data; nothing is compared.  How many runs."""
    from .parity import fit_everything
    from .samplers import draw_everything

    if model == SAMPLERS:
        return draw_everything()
    return fit_everything(model, rows, columns, max_iter)


if __name__ == "__main__":
    print(f"{run_kernels(sys.argv[1])} runs")
