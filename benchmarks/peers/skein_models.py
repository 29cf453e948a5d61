"""skein-glm's lasso models; Cox by groups of one column, where it has no other lasso.

Usage: skein_models.py PROBLEM_DIR OUT.json TOLERANCE, of its inner and outer iterations (their
default is 1e-6)
"""

import numpy as np
from peer_problem import Answer, quietly, require, skip, timed_run, tolerance

skein = require("skein_glm")
TOLERANCE = tolerance(1e-6)


def prepare(problem):
    if problem["exposure"] is not None:
        skip("no exposures in this driver")
    X = problem.table()
    y = problem["y"]
    if problem.model == "cox":
        y = problem["time"], problem["event"].astype(float)
    return X, y


def fit(problem, prepared):
    X, y = prepared
    alphas = np.ascontiguousarray(problem.penalties / problem.shape[0])  # mean scale
    options = {"lambdas": alphas, "tol": TOLERANCE, "max_iter": 100_000}
    if problem.model == "linear":
        model = skein.LassoPathRegressor(fit_intercept=problem.intercept, **options)
    else:
        options |= {"outer_tol": TOLERANCE, "max_outer": 1_000}
    if problem.model == "cox":
        groups = np.arange(problem.shape[1], dtype=np.int64)
        model = skein.CoxGroupLassoPathRegressor(groups, ties="breslow", **options)
        _, warned = quietly(lambda: model.fit(X, *y))
    else:
        if problem.model != "linear":
            name = f"{problem.model.capitalize()}LassoPathRegressor"
            model = getattr(skein, name)(fit_intercept=problem.intercept, **options)
        _, warned = quietly(lambda: model.fit(X, y))
    coefs = np.asarray(model.coefs_ if hasattr(model, "coefs_") else model.coef_path_)
    coefs = coefs if len(coefs) == len(alphas) else coefs.T
    intercepts = np.ravel(getattr(model, "intercepts_", 0.0))
    note = "; ".join([f"tol={TOLERANCE:g}", *warned])
    coef = coefs if problem.path else coefs[-1]
    return Answer(coef, note, intercept=float(intercepts[-1]) if problem.intercept else 0.0)


timed_run("skein-glm", skein.__version__, prepare, fit, with_paths=True)
