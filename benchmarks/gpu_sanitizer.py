"""compute-sanitizer over tiny fits of everything: the check of memory accesses and of hazards.

memcheck sees accesses out of bounds, racecheck hazards in shared memory, synccheck barriers that
not all threads reach.  Order between blocks through global memory is seen by none of them; the
parity of large fits is what there is for that.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

from . import gpu_cases as cases
from .processes import ROOT, TookTooLongError, environment, run

ITEM_LIMIT = 280.0
HEADERS = ["sanitizer", "seconds", "note"]
SELECTED = ("cox", "fine-gray", "matched", "logistic")  # for the slower tools
TOOLS = {
    # A failing call of the driver is an answer that Numba asks for, and handles.
    "memcheck": (cases.MODELS, ["--report-api-errors", "no"]),
    "racecheck": (SELECTED, ["--racecheck-report", "all"]),
    "synccheck": (SELECTED, []),
}
FOUND = 86  # exit status where something was found
SUMMARY = re.compile(r"=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) .*")


def jobs(scale):
    """A process for each tool and model, all of which may run at the same time."""
    items = [(tool, model) for tool, (models, _) in TOOLS.items() for model in models]
    return {f"{tool} {model}": (f"{tool}: {model}",) for tool, model in items}


def find_tool():
    """Path of compute-sanitizer, or None."""
    homes = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    folders = [str(Path(home, part)) for home in homes if home for part in ("bin", "extras/bin")]
    folders += [str(Path(home, "compute-sanitizer")) for home in homes if home]
    return shutil.which("compute-sanitizer") or shutil.which(
        "compute-sanitizer", path=os.pathsep.join(folders)
    )


def measure(item, scale, run=run, find=find_tool):
    """Outcome of one tool on one model."""
    executable = find()
    if executable is None:
        return {"not_run": "compute-sanitizer not found"}
    tool, model = item.split(": ")
    options = ["--tool", tool, "--error-exitcode", str(FOUND), "--print-limit", "20"]
    command = [executable, *options, *TOOLS[tool][1]]
    command += [sys.executable, "-m", "benchmarks.gpu", "--kernels", model]
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


def row(item, result):
    return [item, f"{result['seconds']:.0f}", result["summary"]]


def failed(result):
    return not result.get("passed", "not_run" in result)


# -- what runs under the tools ----------------------------------------------------------------


def run_kernels(model, device_precisions=("float64", "float32"), rows=40, columns=4, max_iter=3):
    """Tiny fits that launch every kernel of a model; nothing is compared."""
    from sksurvgpu.backends import choose
    from sksurvgpu.solver.solve import Options, solve

    from .gpu_parity import largest_penalty, layout_of

    n_fits = 0
    for case in cases.SMALL:
        if case.model != model:
            continue
        rng = np.random.default_rng(len(case.name))
        drawn = case.draw(rng, max(rows, case.least), columns)
        problem, batch = cases.problem_of(drawn)
        lambdas = np.full((1, 2), 0.1 * largest_penalty(problem, batch))
        batch = replace(batch, lambdas=lambdas, weight=drawn.weights(rng, 2))
        routes = [("majorized", precision) for precision in device_precisions]
        for algorithm, precision in [*routes, ("exact", "float64")]:
            options = Options(1e-3, max_iter, algorithm)
            with layout_of(64, 16):
                solve(problem, batch, choose("cuda", precision), options)
            n_fits += 2
    return n_fits


def version(executable):
    """First line that names the tool's version."""
    done = subprocess.run(
        [executable, "--version"], capture_output=True, text=True, check=False, cwd=ROOT
    )
    return next((line for line in done.stdout.splitlines() if "ersion" in line), None)
