"""How often intervals hold the truth: bootstrap percentiles and profile likelihood.

Data sets are simulated; the coefficient of a treatment, never penalized, is 0.5. In "small" designs
nothing is penalized; in "lasso" designs the nuisance columns are, at a fixed penalty. Treatment
depends on the first nuisance columns, which have a modest effect, but for "randomized".
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.special import expit

from .cases import SEED
from .report import default_output, machine, number, table, write

EFFECT, NUISANCE, N_ACTIVE, LEVEL = 0.5, 0.25, 4, 0.95
# name -> (model, rows, nuisance columns, alpha, whether treatment depends on the nuisance)
DESIGNS = {
    "cox-small": ("cox", 300, 4, 0.0, True),
    "cox-lasso": ("cox", 300, 30, 0.05, True),
    "cox-lasso-randomized": ("cox", 300, 30, 0.05, False),
    "logistic-small": ("logistic", 300, 4, 0.0, True),
    "logistic-lasso": ("logistic", 300, 30, 0.03, True),
    "logistic-lasso-randomized": ("logistic", 300, 30, 0.03, False),
}
HEADERS = ["design", "interval", "covered", "of", "coverage", "error", "below", "above", "width"]


def main(arguments=None):
    """Simulate, print a table, write JSON."""
    options = _read(arguments)
    results = []
    for name in options.designs:
        print(name, file=sys.stderr, flush=True)
        results += measure(name, options.data_sets, options.replicates)
        write(options.output, {"machine": machine(), "results": results})
    print(table(HEADERS, [_row(result) for result in results], n_left=2))
    print(f"written: {os.path.relpath(options.output)}")


def measure(name, n_data_sets, n_replicates):
    """Coverage of both intervals, over data sets of their own seeds."""
    from sksurvgpu import CoxLassoCCD, LogisticCCD, bootstrap, profile_likelihood

    model, _, _, alpha, _ = DESIGNS[name]
    cls = {"cox": CoxLassoCCD, "logistic": LogisticCCD}[model]
    estimator = cls(alpha=alpha, penalty_factor={0: 0.0}, n_jobs=1, backend="cpu")
    found = {"bootstrap": [], "profile": []}
    seconds = dict.fromkeys(found, 0.0)
    for number_of_set in range(n_data_sets):
        X, y = draw(name, np.random.default_rng([SEED, number_of_set]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            start = time.perf_counter()
            result = bootstrap(
                estimator, X, y, n_replicates=n_replicates, level=LEVEL, random_state=number_of_set
            )
            found["bootstrap"].append(result.intervals.iloc[0, 1:].tolist())
            middle = time.perf_counter()
            result = profile_likelihood(estimator, X, y, 0, level=LEVEL)
            found["profile"].append(result.intervals.iloc[0, 1:].tolist())
        seconds["bootstrap"] += middle - start
        seconds["profile"] += time.perf_counter() - middle
    return [
        {"design": name, "interval": kind, "replicates": n_replicates, "seconds": seconds[kind]}
        | _judge(np.array(intervals))
        for kind, intervals in found.items()
    ]


def draw(name, rng):
    """One data set: the treatment and the nuisance columns, and the outcome."""
    from sksurvgpu import surv

    model, n_rows, n_nuisance, _, confounded = DESIGNS[name]
    nuisance = rng.normal(size=(n_rows, n_nuisance))
    score = NUISANCE * nuisance[:, :N_ACTIVE].sum(axis=1)
    treated = rng.random(n_rows) < (expit(score) if confounded else 0.5)
    eta = EFFECT * treated + score
    X = np.column_stack([treated, nuisance])
    if model == "logistic":
        return X, rng.random(n_rows) < expit(eta - 0.5)
    time_of_event = rng.exponential(size=n_rows) * np.exp(-eta)
    censored = rng.uniform(0.0, 2.0, n_rows)
    return X, surv(time_of_event <= censored, np.minimum(time_of_event, censored))


def _judge(intervals):
    lower, upper = intervals.T
    n, above, below = len(intervals), int((lower > EFFECT).sum()), int((upper < EFFECT).sum())
    coverage = 1.0 - (above + below) / n
    return {
        "covered": n - above - below,
        "of": n,
        "coverage": coverage,
        "error": float(np.sqrt(coverage * (1.0 - coverage) / n)),
        "below": below,
        "above": above,
        "width": float(np.median(upper - lower)),
    }


def _row(result):
    percent = [f"{100 * result[name]:.1f} %" for name in ("coverage", "error")]
    counts = [str(result[name]) for name in ("covered", "of")]
    misses = [str(result[name]) for name in ("below", "above")]
    width = number(result["width"])
    return [result["design"], result["interval"], *counts, *percent, *misses, width]


def _read(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.coverage", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--data-sets", type=int, help="data sets a design (200)")
    parser.add_argument("--replicates", type=int, help="bootstrap replicates of each (100)")
    parser.add_argument("--quick", action="store_true", help="20 data sets, 40 replicates")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    options.data_sets = options.data_sets or (20 if options.quick else 200)
    options.replicates = options.replicates or (40 if options.quick else 100)
    options.output = options.output or default_output("coverage", options.quick)
    return options


if __name__ == "__main__":
    main()
