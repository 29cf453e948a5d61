"""Cyclic coordinate descent with an exact Newton step per coordinate: the published method.

Same optimum as `majorized`, reached with a scan over the risk sets for every coordinate.  It is
the reference that results are checked against, and the baseline of the benchmarks.
"""

from __future__ import annotations

import numpy as np

from .line_search import require_finite

FIRST_REACH = 2.0


def descend_exactly(fit, penalty, tolerance, max_iter):
    """Coroutine: move `fit` to the optimum under `penalty`; objectives from first to last."""
    columns = np.flatnonzero(~penalty.fixed)
    reach = np.full(len(columns), FIRST_REACH)
    objectives = [fit.objective]
    for iteration in range(max_iter + 1):
        residual = float(penalty.violation(fit.coef, fit.gradient).max(initial=0.0))
        fit.report(iteration, residual)
        if residual <= tolerance or iteration == max_iter:
            break
        coef = fit.coef.copy()
        coef[columns], reach = yield (
            "cycle",
            columns,
            coef[columns],
            penalty.l1[columns],
            penalty.l2[columns],
            reach,
        )
        # The predictor is rebuilt from the coefficients: a cycle only adds to it.
        fit.coef, fit.loglik = coef, (yield ("start", coef))
        require_finite(fit.loglik)
        fit.gradient = yield ("gradient", np.arange(len(coef)))
        fit.objective = penalty.value(coef) - fit.loglik
        objectives.append(fit.objective)
    return objectives
