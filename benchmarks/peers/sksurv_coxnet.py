"""scikit-survival's CoxnetSurvivalAnalysis.  Usage: sksurv_coxnet.py PROBLEM_DIR OUT.json"""

import warnings

from peer_problem import Answer, require, skip, timed_run

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
        alphas=[problem.penalty / len(problem["time"])],  # mean scale
        l1_ratio=1.0,  # the pure lasso
        normalize=False,  # penalize the columns as they are
        copy_X=False,  # no copy inside the timed call
        tol=1e-10,  # its default 1e-7 left KKT violations of 2 % of the penalty
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(dense, outcome)
    notes = ["dense X", f"tol={model.tol:g}", *(str(warning.message) for warning in caught)]
    return Answer(model.coef_[:, 0], "; ".join(notes))


timed_run("scikit-survival", sksurv.__version__, prepare, fit)
