"""Regularization paths, beside a cold fit at the path's last penalty.

Health records: 40 penalties from the largest useful one to 0.01 of it. Papers' design: 100 from
the largest to gamma = sqrt(2). Every measurement has a process of its own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from .cases import PAPERS_PENALTY, SEED
from .certificate import Certificate
from .problems import Data
from .processes import call, memory_mb
from .report import default_output, machine, number, table, write

# name -> (simulator, rows, columns, penalties, last penalty over the largest; None is sqrt(2))
DESIGNS = {
    "ehr": ("simulate_ehr", 100_000, 2_000, 40, 0.01),
    "papers": ("simulate_cox", 100_000, 1_000, 100, None),
}
QUICK_ROWS, QUICK_COLUMNS = 4_000, 200
HEADERS = [
    "path",
    "threads",
    "penalties",
    "seconds",
    "last alone",
    "ratio",
    "iter",
    "KKT",
    "unsolved",
    "nonzero",
    "peak MB",
]


def main(arguments=None):
    """Measure the chosen paths, print a table, write JSON."""
    options = _read(arguments)
    results = []
    for name in options.designs:
        for n_threads in options.threads:
            sizes = {"rows": options.rows, "columns": options.columns, "repeats": options.repeats}
            job = {"name": name, "n_threads": n_threads, **sizes}
            print(f"{name}: {n_threads} thread(s)", file=sys.stderr, flush=True)
            results.append(call("benchmarks.paths", "measure", job, n_threads=n_threads))
            write(options.output, {"machine": machine(), "results": results})
    print(table(HEADERS, [_row(result) for result in results]))
    print(f"written: {os.path.relpath(options.output)}")


def measure(name, n_threads, rows, columns, repeats):
    """Time one path and the fit at its last penalty; check every answer."""
    from sksurvgpu import CoxLassoCCD, datasets, fit_path

    simulator, n, p, n_penalties, last = DESIGNS[name]
    n, p = rows or n, columns or p
    simulated = getattr(datasets, simulator)(n, p, random_state=SEED)
    X, y = simulated.X, simulated.y
    judge = Certificate(Data.of(simulated))
    end = PAPERS_PENALTY if last is None else last * judge.penalty_max
    penalties = np.geomspace(judge.penalty_max, end, n_penalties)

    model = CoxLassoCCD(n_jobs=n_threads, backend="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_path(model, X[:500], y[:500], alphas=[0.05, 0.02])  # loads the kernels
        seconds, path = timed(lambda: fit_path(model, X, y, alphas=penalties / n), repeats)
        model.set_params(alpha=path.alphas[-1])
        alone, _ = timed(lambda: model.fit(X, y), repeats)
    peak = memory_mb()
    judged = [judge.judge(*pair) for pair in zip(path.coefs.T, path.alphas * n, strict=True)]
    return {
        "path": name,
        "threads": n_threads,
        "n": n,
        "p": p,
        "nnz": int(X.nnz),
        "penalties": n_penalties,
        "penalty_max": judge.penalty_max,
        "last_penalty": float(path.alphas[-1] * n),
        "seconds": seconds,
        "last_alone": alone,
        "iterations": int(path.n_iter.sum()),
        "kkt": max(fit["kkt"] for fit in judged),
        "unsolved": int(np.count_nonzero(~path.converged)),
        "nonzeros": int(path.df[-1]),
        "peak_mb": peak,
    }


def timed(function, repeats):
    """Median seconds, and the last result."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), result


def _row(result):
    return [
        f"{result['path']} {result['n']:,} x {result['p']:,}",
        number(result["threads"], "d"),
        number(result["penalties"], "d"),
        number(result["seconds"], ".3f"),
        number(result["last_alone"], ".3f"),
        number(result["seconds"] / result["last_alone"], ".2f"),
        number(result["iterations"], "d"),
        number(result["kkt"], ".1e"),
        number(result["unsolved"], "d"),
        number(result["nonzeros"], "d"),
        number(result["peak_mb"], ".0f"),
    ]


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paths", description=__doc__)
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--rows", type=int, help="in place of the design's")
    parser.add_argument("--columns", type=int, help="in place of the design's")
    parser.add_argument("--quick", action="store_true", help="4,000 x 200")
    parser.add_argument("--repeats", type=int, default=1, help="times each is timed; medians")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("paths", options.quick)
    if options.quick:
        options.rows, options.columns = QUICK_ROWS, QUICK_COLUMNS
    return options


if __name__ == "__main__":
    main()
