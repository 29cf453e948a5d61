"""This package's models.

Usage: sksurvgpu_ccd.py PROBLEM_DIR OUT.json ALGORITHM THREADS SHARE

SHARE times the KKT residual asked for is `tol`, whose unit is another (standard errors).

The timed call is the estimator's ``fit``: checks, design, plan and all.
"""

import sys

from numba.core import event
from peer_problem import Answer, quietly, require, timed_run, tiny_problem

sksurvgpu = require("sksurvgpu")
ours = require("benchmarks.cases")
ALGORITHM, THREADS, SHARE = sys.argv[3], int(sys.argv[4]), float(sys.argv[5])
MAX_ITER = {"majorized": 1_000, "exact": 10_000}  # the default, and what Cyclops is given
MANY_GROUPS = {"rows": 6_000, "n_groups": 100}  # other kernels than for a few


def estimator(problem):
    return ours.estimator(
        problem,
        problem.penalty,
        algorithm=ALGORITHM,
        tol=SHARE * problem.tolerance,
        max_iter=MAX_ITER[ALGORITHM],
        n_jobs=THREADS,
    )


def load_kernels(problem):
    """Load what larger problems need too: the Gram matrix, many groups."""
    tiny = tiny_problem(problem)
    X, (y, more) = tiny.table(), ours.outcome_of(tiny)
    quietly(lambda: estimator(tiny).fit(X, y, **more))
    alphas = [2.0 / len(y), 1.0 / len(y)]
    for algorithm in {ALGORITHM, "majorized"}:
        model = estimator(tiny).set_params(algorithm=algorithm)
        quietly(lambda model=model: sksurvgpu.fit_path(model, X, y, alphas=alphas, **more))
    if problem["stratum"] is not None or problem["group"] is not None:
        large = tiny_problem(problem, **MANY_GROUPS)
        y, more = ours.outcome_of(large)
        quietly(lambda: estimator(large).fit(large.table(), y, **more))


def prepare(problem):
    load_kernels(problem)
    return problem.table(), *ours.outcome_of(problem)


def fit(problem, prepared):
    X, y, more = prepared
    with event.install_recorder("numba:compile") as compiled:
        if problem.path:
            alphas = problem.penalties / problem.shape[0]
            given = {"alphas": alphas, **more}
            path, warned = quietly(lambda: sksurvgpu.fit_path(estimator(problem), X, y, **given))
        else:
            model, warned = quietly(lambda: estimator(problem).fit(X, y, **more))
    notes = [f"{ALGORITHM}, {THREADS} thread(s)", f"tol={SHARE * problem.tolerance:g}"]
    if compiled.buffer:
        notes.append("COMPILED during the timed call: repeat with a warm cache")
    if problem.path:
        # The judge takes the best intercepts of a path.
        return Answer(path.coefs.T, "; ".join([*notes, *warned]), path.n_iter.sum())
    intercept = float(model.intercept_) if problem.intercept else 0.0
    return Answer(model.coef_, "; ".join([*notes, *warned]), model.n_iter_, intercept)


timed_run("sksurvgpu", sksurvgpu.__version__, prepare, fit, with_strata=True, with_paths=True)
