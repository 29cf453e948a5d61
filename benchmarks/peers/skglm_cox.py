"""skglm's Cox datafit with its proximal Newton solver.

Usage: skglm_cox.py PROBLEM_DIR OUT.json
"""

import warnings

import numpy as np
from peer_problem import Answer, require, timed_run

skglm = require("skglm")
datafits, penalties = require("skglm.datafits"), require("skglm.penalties")
solvers = require("skglm.solvers")


def prepare(problem):
    outcome = np.column_stack([problem["time"], problem["event"].astype(float)])
    return problem.table_with_short_indices(), outcome


def fit(problem, prepared):
    matrix, outcome = prepared
    rows = len(problem["time"])
    # The solver compiles these two; the warm-up has filled its cache.
    datafit = datafits.Cox(use_efron=False)  # Breslow ties
    penalty = penalties.L1(problem.penalty / rows)  # mean scale
    solver = solvers.ProxNewton(
        # Largest KKT violation, on the mean scale.
        tol=problem.tolerance * problem.penalty_max / rows,
        max_iter=50,  # outer iterations; the default of 20 can be too few
        fit_intercept=False,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        coefficients, objectives, violation = solver.solve(matrix, outcome, datafit, penalty)
    notes = [
        f"KKT violation {violation * rows:.2g} on the sum scale",
        *(str(warning.message) for warning in caught),
    ]
    return Answer(coefficients, "; ".join(notes), len(objectives))


timed_run("skglm", skglm.__version__, prepare, fit)
