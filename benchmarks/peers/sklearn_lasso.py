"""scikit-learn's Lasso and `lasso_path`.

Usage: sklearn_lasso.py PROBLEM_DIR OUT.json TOLERANCE, of its duality gap, relative to the sum of
squares of y (its default is 1e-4)
"""

import numpy as np
from peer_problem import Answer, quietly, require, skip, timed_run, tolerance

sklearn, linear_model = require("sklearn"), require("sklearn.linear_model")
TOLERANCE = tolerance(1e-4)


def prepare(problem):
    if problem.path and not problem.is_dense:
        skip("paths of dense X alone")
    return problem.table()


def fit(problem, table):
    alphas, y = problem.penalties / problem.shape[0], problem["y"]
    if not problem.path:
        model = linear_model.Lasso(
            alpha=alphas[0], tol=TOLERANCE, max_iter=100_000, fit_intercept=problem.intercept
        )
        _, warned = quietly(lambda: model.fit(table, y))
        note = "; ".join([f"tol={TOLERANCE:g}", *warned])
        return Answer(model.coef_, note, model.n_iter_, float(model.intercept_))
    X = np.asfortranarray(table - table.mean(axis=0)) if problem.intercept else table
    given = {"alphas": alphas, "tol": TOLERANCE, "max_iter": 100_000}
    centred = y - y.mean() if problem.intercept else y
    found, warned = quietly(lambda: linear_model.lasso_path(X, centred, **given))
    return Answer(found[1].T, "; ".join([f"tol={TOLERANCE:g}", *warned]))


timed_run("scikit-learn Lasso", sklearn.__version__, prepare, fit, with_paths=True)
