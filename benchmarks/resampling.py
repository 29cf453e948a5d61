"""Batches of fits that share X: cross-validation, bootstrap and profile likelihood.

Cross-validation is 10 folds dealt 10 times over 10 penalties, from the largest useful one (left
out) to gamma = sqrt(2); beside it Cyclops' own, on one core, with as many folds, deals and steps
as `--peer` says, whose time is then multiplied by the number of fits left out. The others are told
in units of one cold fit at gamma = sqrt(2). Memory is what the process gained over a fit alone.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np

from .cases import PAPERS_PENALTY, SEED
from .certificate import Certificate
from .problems import Data, write_problem
from .processes import ROOT, call, environment, memory_mb, run
from .report import default_output, machine, number, table, write

N_FOLDS, N_REPEATS, N_PENALTIES, N_REPLICATES = 10, 10, 10, 200
HEADERS = ["batch", "threads", "fits", "seconds", "cold fit", "ratio", "MB gained", "note"]
PARTS = ("cross-validation", "bootstrap", "profile", "cyclops")


def main(arguments=None):
    """Measure the chosen batches, print a table, write JSON."""
    options = _read(arguments)
    results = []
    for part in options.parts:
        print(part, file=sys.stderr, flush=True)
        if part == "cyclops":
            result = measure_cyclops(options)
        else:
            job = {"part": part, "n": options.rows, "p": options.columns}
            job["n_threads"] = options.threads
            result = call("benchmarks.resampling", "measure", job, n_threads=options.threads)
        results.append(result)
        write(options.output, {"machine": machine(), "results": results})
    print(table(HEADERS, [_row(result) for result in results]))
    print(f"written: {os.path.relpath(options.output)}")


def measure(part, n, p, n_threads):
    """Seconds of a cold fit and of a batch, in this process."""
    from sksurvgpu import CoxLassoCCD, datasets

    simulated = datasets.simulate_cox(n, p, random_state=SEED)
    X, y = simulated.X, simulated.y
    model = CoxLassoCCD(alpha=PAPERS_PENALTY / n, n_jobs=n_threads, backend="cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        small = CoxLassoCCD(alpha=0.05, n_jobs=n_threads, backend="cpu")
        BATCHES[part](small, X[:2_000], y[:2_000])  # loads the kernels
        model.fit(X, y)
        begin = time.perf_counter()
        model.fit(X, y)
        cold = time.perf_counter() - begin
        before = memory_mb()
        begin = time.perf_counter()
        n_fits, note = BATCHES[part](model, X, y)
        seconds = time.perf_counter() - begin
    return {
        "batch": part,
        "threads": n_threads,
        "n": n,
        "p": p,
        "fits": n_fits,
        "seconds": seconds,
        "cold": cold,
        "mb_gained": memory_mb() - before,
        "note": note,
    }


def cross_validate(model, X, y):
    """All splits and penalties of `N_FOLDS` x `N_REPEATS` x `N_PENALTIES`."""
    from sksurvgpu import CoxLassoCV

    n = len(y)
    alphas = penalties_of(model.fit(X, y).alpha_max_ * n) / n
    cv = CoxLassoCV(alphas=alphas, cv=N_FOLDS, n_repeats=N_REPEATS, n_jobs=model.n_jobs)
    results = cv.fit(X, y).cv_results_
    return (
        N_FOLDS * N_REPEATS * N_PENALTIES,
        f"best variance {results.variance[cv.best_index_]:.3g}",
    )


def replicate(model, X, y):
    """Bootstrap replicates at the model's penalty."""
    from sksurvgpu import bootstrap

    result = bootstrap(model, X, y, n_replicates=N_REPLICATES, random_state=0)
    return N_REPLICATES, f"{np.mean(result.coefs != 0):.0%} of coefficients selected"


def profile(model, X, y):
    """Profile-likelihood interval of the first column."""
    from sksurvgpu import profile_likelihood

    result = profile_likelihood(model, X, y, [0])
    low, high = result.intervals.iloc[0][["lower", "upper"]]
    return len(result.curves), f"({low:.4g}, {high:.4g})"


BATCHES = {"cross-validation": cross_validate, "bootstrap": replicate, "profile": profile}


def penalties_of(largest):
    """Penalties on the sum scale, equally spaced in the logarithm."""
    return np.geomspace(largest, PAPERS_PENALTY, N_PENALTIES + 1)[1:]


def measure_cyclops(options):
    """Seconds of Cyclops' cross-validation; its time for the rest by the number of fits."""
    from sksurvgpu import datasets

    n_folds, n_repeats, n_steps = options.peer
    simulated = datasets.simulate_cox(options.rows, options.columns, random_state=SEED)
    data = Data.of(simulated)
    largest = Certificate(data).penalty_max
    variances = 2.0 / penalties_of(largest) ** 2
    low, high = variances[0], variances[-1]
    with tempfile.TemporaryDirectory() as folder:
        write_problem(folder, data, PAPERS_PENALTY, largest, 1e-6)
        answer = Path(folder) / "answer.json"
        driver = ROOT / "benchmarks" / "peers" / "cyclops.R"
        chosen = [n_folds, n_repeats, f"{low:.17g}", f"{high:.17g}", n_steps]
        command = ["Rscript", driver, folder, answer, "auto", options.tolerance, *chosen]
        status, printed = run(command, options.timeout, environment(1))
        if status:
            raise RuntimeError(f"Cyclops ended with {status}:\n{printed}")
        seconds = json.loads(answer.read_text())["seconds"]
    n_fits = n_folds * n_repeats * n_steps
    all_fits = N_FOLDS * N_REPEATS * N_PENALTIES
    return {
        "batch": "Cyclops' cross-validation",
        "threads": 1,
        "n": options.rows,
        "p": options.columns,
        "fits": n_fits,
        "seconds": seconds,
        "cold": None,
        "mb_gained": None,
        "note": f"{seconds * all_fits / n_fits:,.0f} s for {all_fits:,} fits",
    }


def _row(result):
    cold = result["cold"]
    return [
        result["batch"],
        number(result["threads"], "d"),
        number(result["fits"], ",d"),
        number(result["seconds"], ".2f"),
        number(cold, ".3f"),
        number(None if cold is None else result["seconds"] / cold, ".1f"),
        number(result["mb_gained"], ".0f"),
        result["note"],
    ]


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.resampling", description=__doc__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument(
        "--peer", nargs=3, type=int, default=[10, 1, 4], metavar=("FOLDS", "REPEATS", "STEPS")
    )
    parser.add_argument("--tolerance", type=float, default=1e-6, help="of Cyclops")
    parser.add_argument("--timeout", type=float, default=7_200.0, help="seconds, of Cyclops")
    parser.add_argument("--quick", action="store_true", help="2,000 x 50")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    options.output = options.output or default_output("resampling", options.quick)
    if options.quick:
        options.rows, options.columns = 2_000, 50
    return options


if __name__ == "__main__":
    main()
