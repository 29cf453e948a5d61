"""FastSurvival's Cox lasso by coordinate steps of its cubic surrogate; plain NumPy.

Usage: fastsurvival_cox.py PROBLEM_DIR OUT.json ITERATIONS, passes over all columns: it has no other
criterion
"""

import contextlib
import os
from importlib.metadata import version

from peer_problem import Answer, require, skip, timed_run, tolerance

baselines = require("fastsurvival.baselines_efficiency")
ITERATIONS = int(tolerance(100))
LARGEST_BYTES = 4e9  # a matrix of rows by rows, X twice and its extremes


def prepare(problem):
    n, p = problem.shape
    if n * n + 32.0 * n * p > LARGEST_BYTES:
        skip("its matrix of rows by rows is too large")
    return problem.matrix.toarray(order="F")


def fit(problem, X):
    model = baselines.coxModelElasticNet_newton_cubic_surrogate(
        X, problem["time"], problem["event"].astype(float), lambda1=problem.penalty, lambda2=0.0
    )
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        model.fit(max_iter=ITERATIONS)
    return Answer(model.w, f"dense X; {ITERATIONS} passes", ITERATIONS)


timed_run("FastSurvival", version("fastsurvival"), prepare, fit)
