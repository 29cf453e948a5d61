"""This package's Cox lasso.

Usage: sksurvgpu_cox.py PROBLEM_DIR OUT.json ALGORITHM THREADS

The timed call is the estimator's ``fit``: checks, design, plan and all.
"""

import sys
import warnings

from numba.core import event
from peer_problem import Answer, require, timed_run, tiny_problem

sksurvgpu = require("sksurvgpu")
ALGORITHM, THREADS = sys.argv[3], int(sys.argv[4])
MAX_ITER = {"majorized": 1_000, "exact": 10_000}  # the default, and what Cyclops is given


def estimator(problem):
    return sksurvgpu.CoxLassoCCD(
        alpha=problem.penalty / len(problem.times),  # mean scale
        algorithm=ALGORITHM,
        tol=problem.tolerance,
        max_iter=MAX_ITER[ALGORITHM],
        n_jobs=THREADS,
        backend="cpu",
    )


def arguments(problem):
    outcome = sksurvgpu.surv(problem.events, problem.times)
    return problem.table(), outcome, problem.strata


def load_kernels(problem):
    """Load what larger problems need too: the Gram matrix, many strata."""
    tiny = tiny_problem(problem)
    X, y, strata = arguments(tiny)
    alphas = [tiny.penalty / len(y), tiny.penalty / 2 / len(y)]
    for algorithm in {ALGORITHM, "majorized"}:
        model = estimator(tiny).set_params(algorithm=algorithm)
        sksurvgpu.fit_path(model, X, y, strata=strata, alphas=alphas)
    if strata is not None:
        tiny = tiny_problem(problem, rows=6_000, n_strata=100)
        X, y, strata = arguments(tiny)
        estimator(tiny).fit(X, y, strata=strata)


def prepare(problem):
    load_kernels(problem)
    return arguments(problem)


def fit(problem, prepared):
    X, y, strata = prepared
    with (
        event.install_recorder("numba:compile") as compiled,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        model = estimator(problem).fit(X, y, strata=strata)
    notes = [f"{ALGORITHM}, {THREADS} thread(s)", f"tol={problem.tolerance:g}"]
    if compiled.buffer:
        notes.append("COMPILED during the timed call: repeat with a warm cache")
    notes += [str(warning.message) for warning in caught]
    return Answer(model.coef_, "; ".join(notes), model.n_iter_)


timed_run("sksurvgpu", sksurvgpu.__version__, prepare, fit, with_strata=True)
