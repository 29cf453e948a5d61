"""scikit-survival's CoxnetSurvivalAnalysis.

Usage: sksurv_coxnet.py PROBLEM_DIR OUT.json TOLERANCE

TOLERANCE bounds the squared change in a pass (its default is 1e-7).
"""

from peer_problem import Answer, quietly, require, skip, timed_run, tolerance

sksurv = require("sksurv")
linear_model, util = require("sksurv.linear_model"), require("sksurv.util")

LARGEST_DENSE_BYTES = 4e9  # it takes dense X only, in float64


def prepare(problem):
    if 8.0 * problem.matrix.shape[0] * problem.matrix.shape[1] > LARGEST_DENSE_BYTES:
        skip("the dense X that this peer needs is too large")
    # Fortran order is what it converts to inside; so that conversion is not timed.
    outcome = util.Surv.from_arrays(problem["event"] > 0, problem["time"])
    return problem.matrix.toarray(order="F"), outcome


def fit(problem, prepared):
    dense, outcome = prepared
    model = linear_model.CoxnetSurvivalAnalysis(
        alphas=problem.penalties / len(problem["time"]),  # mean scale
        l1_ratio=1.0,  # the pure lasso
        normalize=False,  # penalize the columns as they are
        copy_X=False,  # no copy inside the timed call
        tol=tolerance(1e-10),
    )
    _, warned = quietly(lambda: model.fit(dense, outcome))
    notes = ["dense X", f"tol={model.tol:g}", *warned]
    return Answer(model.coef_.T if problem.path else model.coef_[:, 0], "; ".join(notes))


timed_run("scikit-survival", sksurv.__version__, prepare, fit, with_paths=True)
