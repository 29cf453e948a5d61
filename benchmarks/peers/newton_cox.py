"""Cox models without penalty by Newton's method: coxstream, survivalGPU on the CPU.

Usage: newton_cox.py PROBLEM_DIR OUT.json PACKAGE TOLERANCE: of the change of the coefficients
(coxstream, by default 1e-8), or relative of the log-likelihood (survivalgpu, by default 1e-5)

survivalGPU wants integer times: ranks, which leave the likelihood as it is. coxstream has Efron's
ties alone, which is the same where no events are tied.
"""

import sys
from importlib.metadata import version

import numpy as np
from peer_problem import Answer, quietly, require, skip, timed_run

PACKAGE, TOLERANCE = sys.argv[3], float(sys.argv[4])
package = require(PACKAGE)
LARGEST_DENSE_BYTES = 4e9


def prepare(problem):
    if problem.penalty > 0:
        skip("no lasso")
    if 8.0 * np.prod(problem.shape) > LARGEST_DENSE_BYTES:
        skip("the dense X that this peer needs is too large")
    time, event = problem["time"], problem["event"].astype(np.int64)
    times = time[event > 0]
    if PACKAGE == "coxstream" and len(np.unique(times)) < len(times):
        skip("events are tied, and it has Efron's likelihood alone")
    if PACKAGE == "survivalgpu":
        time = 1 + np.unique(time, return_inverse=True)[1].astype(np.int64)
    return np.ascontiguousarray(problem.matrix.toarray()), time, event


def fit(problem, prepared):
    X, time, event = prepared
    if PACKAGE == "coxstream":
        model = package.CoxStream(tol=TOLERANCE)
        _, warned = quietly(lambda: model.fit(time, event, X))
        n_iter = model.n_iter_
    else:
        model = package.CoxPHSurvivalAnalysis(ties="breslow", eps=TOLERANCE, device="cpu")
        _, warned = quietly(lambda: model.fit(X, time, event=event))
        n_iter = int(np.max(model.iter_))
    note = "; ".join([f"tolerance {TOLERANCE:g}", *warned])
    return Answer(np.ravel(model.coef_), note, n_iter)


timed_run(PACKAGE, version(PACKAGE), prepare, fit)
