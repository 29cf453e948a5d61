"""adelie's group elastic net with groups of one column.

Usage: adelie_cox.py PROBLEM_DIR OUT.json
"""

import numpy as np
from peer_problem import Answer, require, skip, timed_run

adelie = require("adelie")

# Squared change in a coordinate pass and in an outer iteration; at 1e-10 the KKT violation was
# still 0.3 % of the penalty (the default is 1e-7).
TOLERANCE = 1e-12


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
        lmda_path=np.array([problem.penalty / len(problem["time"])]),  # mean scale
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
    coefficients = np.asarray(state.betas[-1].todense()).ravel()
    return Answer(coefficients, f"tol=irls_tol={TOLERANCE:g}")


timed_run("adelie", adelie.__version__, prepare, fit)
