"""Batches of fits over partitions: a cross-validation, and replicates of a bootstrap.

What they cost beside one fit: exchanges, readings of X, and CPU seconds; each in a process of its
own, after a smaller batch that loads its kernels. Draws and folds over partitions follow the same
laws as in memory, with other numbers: "check" is equal up to those.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from ..processes import call, forget_peak, memory_mb
from ..report import default_output, machine, number, table, write
from .routes import _ROUTES, _keep_counts, _of_counts, _run, _used

N_ROWS, N_COLUMNS, SHARE = 100_000, 400, 0.02
N_ALPHAS, N_FOLDS, N_REPLICATES = 20, 10, 200
BATCHES = ("fit", "path", "cross-validation", "bootstrap")
ROUTES = (
    ("in memory", "memory"),
    ("threads over files", "files"),
    ("Dask, 2 processes", "cluster"),
)
HEADERS = [
    "batch",
    "route",
    "fits",
    "exchanges",
    "passes",
    "entries read, of all",
    "MB down",
    "MB up",
    "CPU s",
    "over memory",
    "s",
    "peak MB",
    "check, rel.",
]


def main(arguments=None):
    """Measure, print a table, write JSON."""
    options = _read(arguments)
    scale = 20 if options.quick else 1
    shape, n_replicates = (N_ROWS // scale, N_COLUMNS // min(scale, 4)), N_REPLICATES // scale
    content, shown = {"machine": machine(), "lines": []}, []
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        job = {"folder": folder, "simulator": "simulate_ehr", "shape": shape, "share": SHARE}
        penalty = call("benchmarks.partitions.routes", "prepare", job, n_threads=2)
        for batch in options.batches:
            first = None
            for title, route in ROUTES:
                job = {"folder": folder, "route": route, "batch": batch, "penalty": penalty}
                job["n_replicates"] = n_replicates
                found = call("benchmarks.partitions.batches", "measure", job, n_threads=1)
                first = found if first is None else first
                shown.append(_line(batch, title, found, first))
                content["lines"].append({"batch": batch, "route": title, **found})
                print("  ".join(shown[-1]), flush=True)
                write(options.output, content)
    print("\n" + table(HEADERS, shown, n_left=2))


def _line(batch, title, found, first):
    counts = [found.get(name) for name in ("passes", "read", "down", "up")]
    return [
        batch,
        title,
        str(found["fits"]),
        str(found.get("exchanges", "-")),
        *(number(value, ".3g") for value in counts),
        number(found["cpu"], ".1f"),
        number(found["cpu"] / first["cpu"], ".2f"),
        number(found["seconds"], ".1f"),
        number(found["peak"], ".0f"),
        f"{abs(found['check'] / first['check'] - 1.0):.0e}",
    ]


def measure(folder, route, batch, penalty, n_replicates):
    """One batch: what it took, and a number that says what it found."""
    import sksurvgpu

    counts = _keep_counts("sample", highest="full")
    model = sksurvgpu.CoxLassoCCD(alpha=penalty)
    with _ROUTES[route](Path(folder), model, None) as (fit, workers), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _solve(batch, fit.args, model, 2, {"n_alphas": 2, "cv": 2})
        forget_peak()
        before, begin = _used(workers), time.perf_counter()
        n_fits, check = _solve(batch, fit.args, model, n_replicates, {"n_alphas": N_ALPHAS})
        seconds = time.perf_counter() - begin
        used = np.subtract(_used(workers), before)
        peak = memory_mb() + sum(_run(workers, memory_mb))
    found = {"seconds": seconds, "cpu": float(used.sum()), "peak": peak}
    found |= {"fits": n_fits, "check": check}
    return found | (_of_counts(counts[-1], Path(folder)) if counts else {})


def _solve(batch, rows, model, n_replicates, options):
    """How many fits there were, and what tells whether they are right."""
    import sksurvgpu

    if batch == "fit":
        return 1, float(model.fit(*rows).objective_)
    if batch == "path":
        path = sksurvgpu.fit_path(model, *rows, n_alphas=options["n_alphas"])
        return len(path.alphas), float(np.abs(path.coefs).sum())
    if batch == "cross-validation":
        options = {"cv": N_FOLDS, "early_stopping": False, **options}
        found = sksurvgpu.CoxLassoCV(**options).fit(*rows)
        return options["cv"] * len(found.cv_results_), float(found.best_score_)
    found = sksurvgpu.bootstrap(
        model, *rows, n_replicates=n_replicates, kind="exponential", random_state=0
    )
    return n_replicates, float(np.abs(found.coefs).sum())


def _read(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--batches", nargs="+", choices=BATCHES, default=list(BATCHES))
    parser.add_argument("--quick", action="store_true", help="few rows, columns and replicates")
    parser.add_argument("--folder", default=None, help="where there is room for the rows")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("partition-batches", options.quick)
    return options


if __name__ == "__main__":
    main()
