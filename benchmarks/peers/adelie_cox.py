"""adelie's group elastic net with groups of one column.

Usage: adelie_cox.py PROBLEM_DIR OUT.json TOLERANCE

TOLERANCE bounds the squared change in a coordinate pass and in an outer iteration (its default is
1e-7).
"""

import numpy as np
from peer_problem import Answer, require, skip, timed_run, tolerance

adelie = require("adelie")

TOLERANCE = tolerance(1e-12)


def prepare(problem):
    rows = len(problem["time"])
    family = adelie.glm.cox(
        start=np.full(rows, -1.0),  # every row is at risk from before the first time
        stop=problem["time"],
        status=problem["event"].astype(float),
        tie_method="breslow",
    )
    form = adelie.matrix.dense if problem.is_dense else adelie.matrix.sparse
    return form(problem.table(), method="naive", n_threads=1), family


def fit(problem, prepared):
    matrix, family = prepared
    state = adelie.grpnet(
        matrix,
        family,
        lmda_path=problem.penalties / len(problem["time"]),  # mean scale
        tol=TOLERANCE,
        irls_tol=TOLERANCE,
        max_iters=10**8,  # coordinate steps; the default of 1e5 can be too few
        irls_max_iters=10**6,
        adev_tol=1.0,  # never stop because enough deviance is explained
        early_exit=False,
        intercept=False,
        n_threads=1,
        progress_bar=False,
    )
    if not state.betas.shape[0]:
        skip(f"no solution: {state.error}")
    coefs = np.asarray(state.betas.todense())
    if len(coefs) < len(problem.penalties):
        skip(f"{len(coefs)} of {len(problem.penalties)} penalties: {state.error}")
    return Answer(coefs if problem.path else coefs[-1], f"tol=irls_tol={TOLERANCE:g}")


timed_run("adelie", adelie.__version__, prepare, fit, with_paths=True)
