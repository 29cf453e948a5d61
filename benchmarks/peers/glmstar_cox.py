"""glmstar's Cox lasso, the compiled code of R's glmnet 5 from Python.

Usage: glmstar_cox.py PROBLEM_DIR OUT.json THRESH

THRESH bounds the squared change in a pass, relative to the null deviance (its default is 1e-7).
"""

import sys
from importlib.metadata import version

from peer_problem import Answer, quietly, require, timed_run, tolerance

# This folder has no module of this name, but an older file could.
glmnet, cox = require("glmnet"), require("glmnet.cox")
fastnet, pandas = require("glmnet.paths.fastnet"), require("pandas")
THRESH = tolerance(1e-12)


def prepare(problem):
    columns = {"event": problem["time"], "status": problem["event"].astype(int)}
    strata = None if problem["stratum"] is None else "stratum"
    if strata:
        columns["stratum"] = problem["stratum"]
    family = cox.CoxFamily(tie_breaking="breslow", strata_id=strata)
    return problem.table(), pandas.DataFrame(columns), family


def fit(problem, prepared):
    X, y, family = prepared
    # Never stop a path because enough deviance is explained.
    control = fastnet.FastNetControl(
        thresh=THRESH, maxit=10**7, fdev=0.0, devmax=1.0, epsnr=min(1e-6, THRESH), mxitnr=500
    )
    model = glmnet.CoxNet(
        lambda_values=problem.penalties / problem.shape[0],  # mean scale
        standardize=False,
        family=family,
        control=control,
    )
    _, warned = quietly(lambda: model.fit(X, y))
    coef = model.coefs_ if problem.path else model.coefs_[-1]
    return Answer(coef, "; ".join([f"thresh={THRESH:g}", *warned]))


sys.setrecursionlimit(10_000)
timed_run("glmstar", version("glmstar"), prepare, fit, with_strata=True, with_paths=True)
