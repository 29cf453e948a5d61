"""Cyclic coordinate descent with an exact Newton step per coordinate: the published method.

Same optimum as `majorized`, reached with a scan over the risk sets for every coordinate.  It is
the reference that results are checked against, and the baseline of the benchmarks.
"""

from __future__ import annotations

import numpy as np

from ..backends.contract import Operations, ask
from .line_search import rounding

SHORTEST = 1e-14  # of the first reach: steps no longer count


def descend_exactly(fit, penalty, tolerance, max_iter):
    """Coroutine: move `fit` to the optimum under `penalty`; objectives from first to last."""
    columns = np.flatnonzero(~penalty.fixed)
    first = reach = fit.reach[columns]
    objectives, overshot = [fit.objective], False
    for iteration in range(max_iter + 1):
        residual = float(fit.violation(penalty).max(initial=0.0))
        fit.report(iteration, residual)
        if residual <= tolerance or iteration == max_iter or np.all(reach < SHORTEST * first):
            break
        coef = fit.coef.copy()
        # short steps to a minimum beyond a hill of the penalty would climb it
        under = penalty.tangent(coef) if overshot else penalty
        request = columns, coef[columns], under.of_columns(columns), reach
        coef[columns], wider = yield from ask(Operations.cycle, *request)
        # The predictor is rebuilt from the coefficients: a cycle only adds to it.
        loglik = yield from ask(Operations.start, coef)
        objective = penalty.value(coef) - loglik
        if objective <= fit.objective + rounding(fit):
            fit.coef, fit.loglik, fit.objective, reach = coef, loglik, objective, wider
            fit.gradient = yield from ask(Operations.gradient, np.arange(len(coef)))
        else:  # Newton steps overshot: go back and keep them shorter
            reach, overshot = np.minimum(reach, wider) / 8, True
            yield from ask(Operations.start, fit.coef)
        objectives.append(fit.objective)
    return objectives
