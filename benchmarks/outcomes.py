"""Many outcomes of one X: `fit_outcomes` against the solver's part of as many single fits.

Seconds of one thread are of the processor, which other processes do not add to.
"""

from __future__ import annotations

import argparse
import time
import warnings
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from sksurvgpu import CoxLassoCCD, fit_outcomes, profile_likelihood, surv
from sksurvgpu.datasets import simulate_ehr
from sksurvgpu.estimators._prepared import Prepared

from .report import default_output, machine, number, table, write

HEADERS = ["intervals", "solver, singly", "all, singly", "at once", "ratio", "wall", "2 threads"]
SHARE_AT_RISK, FOLLOW_UP = 0.95, 730.0


def main(arguments=None):
    """Fit, print a table, write JSON."""
    options = _read(arguments)
    X, outcomes, at_risk = _simulate(options)
    model = CoxLassoCCD(alpha=options.alpha, penalty_factor={0: 0.0}, n_jobs=1)
    runs = []
    for intervals in (None, "profile"):
        few = dict(list(outcomes.items())[:1])
        fit_outcomes(model, X, few, columns=0, intervals=intervals)  # compiled
        run = {"intervals": str(intervals)} | _fit_singly(model, X, outcomes, at_risk, intervals)
        for n_jobs in (1, 2):
            begin, cpu = time.perf_counter(), time.process_time()
            given = {"at_risk": at_risk, "intervals": intervals, "n_jobs": n_jobs}
            result = fit_outcomes(model, X, outcomes, columns=0, **given)
            run[f"wall_{n_jobs}"] = time.perf_counter() - begin
            run[f"cpu_{n_jobs}"] = time.process_time() - cpu
        run |= {"ratio": run["cpu_1"] / run["solver"], "failed": len(result.failures)}
        runs.append(run)
        write(options.output, {"machine": machine(), "runs": runs} | vars(options))
    shown = ["solver", "single", "cpu_1", "ratio", "wall_1", "wall_2"]
    rows = [[run["intervals"], *(number(run[key], ".2f") for key in shown)] for run in runs]
    print(table(HEADERS, rows))


def _simulate(options):
    """X, outcomes of a twentieth of the rows, and who is at risk of each."""
    X = simulate_ehr(options.rows, options.columns, random_state=0).X
    rng, outcomes, at_risk = np.random.default_rng(1), {}, {}
    end = rng.uniform(30.0, FOLLOW_UP, options.rows)
    for k in range(options.outcomes):
        coef = rng.normal(0.0, 0.4, options.columns) * (rng.random(options.columns) < 0.05)
        eta = X @ coef
        time_ = rng.exponential(FOLLOW_UP / 0.08 * np.exp(eta.mean() - eta))
        outcomes[f"outcome {k}"] = surv(time_ <= end, np.ceil(np.minimum(time_, end)))
        at_risk[f"outcome {k}"] = rng.random(options.rows) < SHARE_AT_RISK
    return X, outcomes, at_risk


def _fit_singly(model, X, outcomes, at_risk, intervals):
    """Seconds of the solver, and of all, in fits one after the other."""
    with _counting_solver() as spent:
        begin = time.process_time()
        for name, y in outcomes.items():
            weight = at_risk[name].astype(float)
            if intervals is None:
                model.fit(X, y, sample_weight=weight)
            else:
                profile_likelihood(model, X, y, 0, sample_weight=weight)
        return {"solver": sum(spent), "single": time.process_time() - begin}


@contextmanager
def _counting_solver():
    spent, solve = [], Prepared.solve

    def timed(self, *args, **kwargs):
        begin = time.process_time()
        try:
            return solve(self, *args, **kwargs)
        finally:
            spent.append(time.process_time() - begin)

    Prepared.solve = timed
    try:
        yield spent
    finally:
        Prepared.solve = solve


def _read(arguments):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outcomes", description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=1_000)
    parser.add_argument("--outcomes", type=int, default=50)
    parser.add_argument("--alpha", type=float, default=5e-4)
    parser.add_argument("--quick", action="store_true", help="5,000 x 100, 5 outcomes")
    parser.add_argument("--output", type=Path, help="JSON file; by default in results/")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rows, options.columns, options.outcomes = 5_000, 100, 5
    options.output = str(options.output or default_output("outcomes", options.quick))
    return options


if __name__ == "__main__":
    warnings.simplefilter("error")
    main()
