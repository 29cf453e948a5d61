"""How often intervals of all coefficients hold the truth: debiased lasso, and Wald beside it.

Data sets are simulated: normal columns whose correlation halves with every step of their distance,
four of which have an effect.  The penalty is the path's with the least AIC, or BIC where there are
more columns than rows.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from scipy.linalg import toeplitz
from scipy.special import expit

from .cases import SEED
from .report import default_output, machine, number, table, write

EFFECTS = (0.5, -0.5, 0.3, 0.8)
# name -> (model, rows, columns, intervals)
DESIGNS = {
    "cox-20": ("cox", 400, 20, ("wald", "inverse", "quadratic")),
    "cox-40": ("cox", 400, 40, ("wald", "inverse", "quadratic")),
    "cox-500": ("cox", 400, 500, ("quadratic",)),
    "logistic-20": ("logistic", 400, 20, ("wald", "inverse", "quadratic")),
    "logistic-40": ("logistic", 400, 40, ("wald", "inverse", "quadratic")),
    "logistic-500": ("logistic", 400, 500, ("quadratic",)),
    "linear-40": ("linear", 400, 40, ("wald", "inverse", "quadratic")),
    "linear-500": ("linear", 400, 500, ("quadratic",)),
}
HEADERS = ["design", "interval", "effects", "others", "bias", "error", "width", "seconds"]


def main(arguments=None):
    """Simulate, print a table, write JSON."""
    options = _read(arguments)
    results = []
    for name in options.designs:
        print(name, file=sys.stderr, flush=True)
        results += measure(name, options.data_sets)
        write(options.output, {"machine": machine(), "results": results})
    print(table(HEADERS, [_row(result) for result in results], n_left=2))
    print(f"written: {os.path.relpath(options.output)}")


def measure(name, n_data_sets):
    """Coverage of all intervals, over data sets of their own seeds."""
    model, n_rows, n_columns, kinds = DESIGNS[name]
    found = {kind: [] for kind in kinds}
    seconds = dict.fromkeys(kinds, 0.0)
    for seed in range(n_data_sets):
        cls, X, y, coef = draw(model, n_rows, n_columns, np.random.default_rng([SEED, seed]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for kind in kinds:
                start = time.process_time()
                intervals = _intervals(cls, X, y, kind)
                seconds[kind] += time.process_time() - start
                found[kind].append(intervals.to_numpy())
    shared = {"design": name, "data_sets": n_data_sets}
    return [
        {**shared, "interval": kind, "seconds": seconds[kind], **_judge(np.array(tables), coef)}
        for kind, tables in found.items()
    ]


def draw(model, n_rows, n_columns, rng):
    """Estimator, columns, outcome and coefficients of one data set."""
    from sksurvgpu import CoxLassoCCD, LinearCCD, LogisticCCD, surv

    factor = np.linalg.cholesky(toeplitz(0.5 ** np.arange(n_columns)))
    X = rng.normal(size=(n_rows, n_columns)) @ factor.T
    coef = np.zeros(n_columns)
    coef[np.arange(len(EFFECTS)) * (n_columns // len(EFFECTS))] = EFFECTS
    eta = X @ coef
    if model == "linear":
        return LinearCCD, X, eta + rng.normal(size=n_rows), coef
    if model == "logistic":
        return LogisticCCD, X, rng.random(n_rows) < expit(eta), coef
    event, censored = rng.exponential(size=n_rows) * np.exp(-eta), 2 * rng.exponential(size=n_rows)
    return CoxLassoCCD, X, surv(event <= censored, np.minimum(event, censored)), coef


def _intervals(cls, X, y, kind):
    from sksurvgpu import debiased, fit_path, wald

    if kind == "wald":
        return wald(cls(alpha=0.0, n_jobs=1).fit(X, y), X, y).intervals
    path = fit_path(cls(n_jobs=1), X, y, n_alphas=20, alpha_min_ratio=0.05)
    chosen = path.best("bic" if X.shape[1] > len(X) else "aic")
    return debiased(chosen, X, y, method=kind).intervals


def _judge(tables, coef):
    estimate, lower, upper = np.moveaxis(tables, 2, 0)
    is_held, has_effect = (lower <= coef) & (coef <= upper), coef != 0
    towards = ((estimate - coef) * np.sign(coef))[:, has_effect]
    effects = is_held[:, has_effect]
    return {
        "effects": float(effects.mean()),
        "error": float(np.sqrt(effects.mean() * (1 - effects.mean()) / effects.size)),
        "others": float(is_held[:, ~has_effect].mean()),
        "bias": float(towards.mean()),  # away from zero
        "width": float(np.median(upper - lower)),
    }


def _row(result):
    percent = [f"{100 * result[name]:.1f} %" for name in ("effects", "others")]
    rest = [number(result[name]) for name in ("bias", "width", "seconds")]
    error = f"{100 * result['error']:.1f} %"
    return [result["design"], result["interval"], *percent, rest[0], error, *rest[1:]]


def _read(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.debiased", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--designs", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    parser.add_argument("--data-sets", type=int, help="data sets a design (100)")
    parser.add_argument("--quick", action="store_true", help="10 data sets")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    options.data_sets = options.data_sets or (10 if options.quick else 100)
    options.output = options.output or default_output("debiased", options.quick)
    return options


if __name__ == "__main__":
    main()
