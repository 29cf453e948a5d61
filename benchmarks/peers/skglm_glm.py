"""skglm's logistic, Poisson and quadratic datafits.

Usage: skglm_glm.py PROBLEM_DIR OUT.json TOLERANCE, the share of the largest penalty that its own
KKT criterion may reach
"""

import sys

from peer_problem import Answer, quietly, require, skip, timed_run

skglm = require("skglm")
datafits, penalties = require("skglm.datafits"), require("skglm.penalties")
solvers = require("skglm.solvers")
TOLERANCE = float(sys.argv[3])


def prepare(problem):
    if problem["exposure"] is not None:
        skip("no exposures in this peer")
    y = 2.0 * problem["y"] - 1.0 if problem.model == "logistic" else problem["y"]
    return problem.table_with_short_indices(), y


def fit(problem, prepared):
    table, y = prepared
    penalty = penalties.L1(problem.penalty / problem.shape[0])  # mean scale
    common = {
        "tol": TOLERANCE * problem.penalty_max / problem.shape[0],  # mean scale
        "max_iter": 200,
        "fit_intercept": problem.intercept,
    }
    if problem.model == "linear":
        solver, datafit = solvers.AndersonCD(**common), datafits.Quadratic()
    else:
        datafit = datafits.Logistic() if problem.model == "logistic" else datafits.Poisson()
        solver = solvers.ProxNewton(**common)
    (w, objectives, violation), warned = quietly(lambda: solver.solve(table, y, datafit, penalty))
    coefficients, intercept = (w[:-1], float(w[-1])) if problem.intercept else (w, 0.0)
    reached = violation * problem.shape[0] / problem.penalty_max
    notes = [f"tol={TOLERANCE:g}", f"own KKT {reached:.1e}", *warned]
    return Answer(coefficients, "; ".join(notes), len(objectives), intercept)


timed_run("skglm", skglm.__version__, prepare, fit)
