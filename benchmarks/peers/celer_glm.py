"""celer's LogisticRegression and Lasso; paths of its `celer_path`, least squares alone.

Usage: celer_glm.py PROBLEM_DIR OUT.json TOLERANCE, of its duality gap, relative to half the mean
square of y (its default is 1e-4)
"""

import sys

import numpy as np
from peer_problem import Answer, quietly, require, skip, timed_run

celer = require("celer")
TOLERANCE = float(sys.argv[3])


def prepare(problem):
    if problem.model == "logistic" and problem.intercept:
        skip("no intercept in its logistic regression")
    # Its linear predictor of labels is that of -1 and 1.
    y = 2.0 * problem["y"] - 1.0 if problem.model == "logistic" else problem["y"]
    return problem.table_with_short_indices(), y


def fit(problem, prepared):
    if problem.path:
        return fit_path(problem, *prepared)
    common = {"tol": TOLERANCE, "max_iter": 1_000, "fit_intercept": problem.intercept}
    if problem.model == "logistic":
        model = celer.LogisticRegression(C=1.0 / problem.penalty, **common)  # sum scale
    else:
        model = celer.Lasso(alpha=problem.penalty / problem.shape[0], **common)
    _, warned = quietly(lambda: model.fit(*prepared))
    intercept = float(model.intercept_) if problem.intercept else 0.0
    return Answer(model.coef_, "; ".join([f"tol={TOLERANCE:g}", *warned]), intercept=intercept)


def fit_path(problem, table, y):
    if problem.model != "linear" or not problem.is_dense:
        skip("paths of least squares and dense X alone")
    X = np.asfortranarray(table - table.mean(axis=0)) if problem.intercept else table
    y = y - y.mean() if problem.intercept else y
    alphas = problem.penalties / problem.shape[0]
    found, warned = quietly(lambda: celer.celer_path(X, y, "lasso", alphas=alphas, tol=TOLERANCE))
    return Answer(found[1].T, "; ".join([f"tol={TOLERANCE:g}", *warned]))


timed_run("celer", celer.__version__, prepare, fit, with_paths=True)
