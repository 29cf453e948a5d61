"""statsmodels' ConditionalLogit, exact and without penalty.

Usage: statsmodels_clogit.py PROBLEM_DIR OUT.json TOLERANCE, the largest derivative of the mean
log-likelihood
"""

import sys

from peer_problem import Answer, quietly, require, skip, timed_run

statsmodels = require("statsmodels")
conditional, base = (
    require(f"statsmodels.{name}") for name in ("discrete.conditional_models", "base.model")
)
TOLERANCE = float(sys.argv[3])


def prepare(problem):
    if problem.penalty > 0:
        skip("no penalty but by general optimizers")
    if problem.ties != "exact":
        skip("exact likelihood only")
    return conditional.ConditionalLogit(
        problem["y"], problem.matrix.toarray(), groups=problem["group"], missing="none"
    )


def fit(problem, model):
    # Its own `fit` passes no tolerance on, and goes on to a numerical Hessian.
    def optimize():
        return base.LikelihoodModel.fit(
            model, method="bfgs", gtol=TOLERANCE, maxiter=1_000, disp=False, skip_hessian=True
        )

    result, warned = quietly(optimize)
    notes = [f"BFGS, gtol={TOLERANCE:g}; gradients as iterations", *warned]
    return Answer(result.params, "; ".join(notes), result.mle_retvals["gcalls"])


timed_run("statsmodels", statsmodels.__version__, prepare, fit)
