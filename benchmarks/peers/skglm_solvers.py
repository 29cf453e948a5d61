"""skglm's datafits: Cox (Breslow), logistic, Poisson, quadratic; by its proximal Newton solver.

Usage: skglm_solvers.py PROBLEM_DIR OUT.json TOLERANCE, the share of the largest penalty that its
own KKT criterion may reach
"""

import numpy as np
from peer_problem import Answer, quietly, require, skip, timed_run, tolerance

skglm = require("skglm")
datafits, penalties = require("skglm.datafits"), require("skglm.penalties")
solvers = require("skglm.solvers")
TOLERANCE = tolerance(1e-6)
DATAFITS = {
    "cox": lambda: datafits.Cox(use_efron=False),
    "logistic": datafits.Logistic,
    "poisson": datafits.Poisson,
    "linear": datafits.Quadratic,
}


def prepare(problem):
    if problem["exposure"] is not None:
        skip("no exposures in this peer")
    if problem.model == "cox":
        y = np.asfortranarray(np.column_stack([problem["time"], problem["event"].astype(float)]))
    else:
        y = 2.0 * problem["y"] - 1.0 if problem.model == "logistic" else problem["y"]
    return problem.table_with_short_indices(), y


def fit(problem, prepared):
    table, y = prepared
    n = problem.shape[0]
    kind = solvers.AndersonCD if problem.model == "linear" else solvers.ProxNewton
    solver = kind(
        tol=TOLERANCE * problem.penalty_max / n,  # mean scale
        max_iter=200,
        fit_intercept=problem.intercept,
    )
    datafit = DATAFITS[problem.model]()
    w, Xw, coefs, notes, count = None, None, [], [f"tol={TOLERANCE:g}"], 0
    for penalty in problem.penalties:  # each starts from the one before
        if w is not None:
            Xw = table @ w[: problem.shape[1]] + (w[-1] if problem.intercept else 0.0)
        given = table, y, datafit, penalties.L1(penalty / n)
        found, warned = quietly(lambda given=given, w=w, Xw=Xw: solver.solve(*given, w, Xw))
        w, objectives, violation = found
        coefs.append(w[: problem.shape[1]].copy())
        count += len(objectives)
        notes += warned
    notes.append(f"own KKT {violation * n / problem.penalty_max:.1e}")
    intercept = float(w[-1]) if problem.intercept else 0.0
    coef = np.array(coefs) if problem.path else coefs[0]
    return Answer(coef, "; ".join(dict.fromkeys(notes)), count, intercept)


timed_run("skglm", skglm.__version__, prepare, fit, with_paths=True)
