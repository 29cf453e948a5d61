"""Cyclic coordinate descent with an exact Newton step per coordinate: the published method.

Same optimum as `majorized`, reached with a scan over the risk sets for every coordinate.  It is
the reference that results are checked against, and the baseline of the benchmarks.
"""

import numpy as np

from ..backends.contract import Operations, ask

SHORTEST = 1e-14  # of the first reach: steps no longer count


def descend_exactly(point, goal, way, max_iter):
    """Coroutine: move `point` to the goal; objectives from first to last."""
    penalty = goal.penalty
    columns = np.flatnonzero(~penalty.fixed)
    first = reach = way.reach[columns]
    objectives, overshot = [point.objective], False
    for iteration in range(max_iter + 1):
        residual = float(goal.violation(point).max(initial=0.0))
        way.report(point, iteration, residual)
        if residual <= goal.tolerance or iteration == max_iter or np.all(reach < SHORTEST * first):
            break
        coef = point.coef.copy()
        # short steps to a minimum beyond a hill of the penalty would climb it
        under = penalty.tangent(coef) if overshot else penalty
        coef[columns], wider = yield from ask(
            Operations.cycle, columns, coef[columns], under.of_columns(columns), reach
        )
        # The predictor is rebuilt from the coefficients: a cycle only adds to it.
        loglik = yield from ask(Operations.start, coef)
        objective = penalty.value(coef) - loglik
        if objective <= point.objective + goal.rounding(point):
            point.coef, point.loglik, point.objective, reach = coef, loglik, objective, wider
            yield from point.take_gradient()
        else:  # Newton steps overshot: go back and keep them shorter
            reach, overshot = np.minimum(reach, wider) / 8, True
            yield from ask(Operations.start, point.coef)
        objectives.append(point.objective)
    return objectives
