"""scikit-learn's LogisticRegression.

Usage: sklearn_logistic.py PROBLEM_DIR OUT.json SOLVER TOLERANCE, solver "liblinear" or "saga"
"""

import sys

import numpy as np
from peer_problem import Answer, quietly, require, timed_run

sklearn = require("sklearn")
linear_model = require("sklearn.linear_model")
SOLVER, TOLERANCE = sys.argv[3], float(sys.argv[4])
# liblinear penalizes its intercept, by the penalty over this.
INTERCEPT_SCALING = 1e4


def prepare(problem):
    table = problem.table()
    return (table if problem.is_dense else table.tocsr()), problem["y"].astype(int)


def fit(problem, prepared):
    model = linear_model.LogisticRegression(
        C=1.0 / problem.penalty,  # sum scale
        l1_ratio=1.0,
        solver=SOLVER,
        tol=TOLERANCE,
        fit_intercept=problem.intercept,
        intercept_scaling=INTERCEPT_SCALING,
        max_iter=10_000,
        random_state=0,
    )
    _, warned = quietly(lambda: model.fit(*prepared))
    coefficients, intercept = model.coef_[0], float(np.ravel(model.intercept_)[0])
    notes = [f"tol={TOLERANCE:g}", *warned]
    return Answer(coefficients, "; ".join(notes), int(np.max(model.n_iter_)), intercept)


timed_run(f"scikit-learn {SOLVER}", sklearn.__version__, prepare, fit)
