"""Line search on the true objective: local curvature is no global bound."""

from __future__ import annotations

import numpy as np

SUFFICIENT = 1e-4
LONGEST_MOVE = 10.0  # range of the predictor's move within one step
ROUNDING = 1e-13  # relative: below it an increase of the objective cannot be told from rounding


def search(fit, penalty, columns, target):
    """Coroutine: move `fit` towards `target` on `columns`; the accepted share of the step.

    For a likelihood that ignores shifts of the predictor,
    ``-l(eta + s v) <= -l(eta) - s u'v + kappa (exp(s R) - s R - 1) / R^2`` with R the range of v
    and kappa its curvature; the second trial minimizes that bound.
    """
    old = fit.coef[columns]
    change = target - old
    reach = yield ("step", columns, change)
    share = min(1.0, LONGEST_MOVE / reach) if reach > 0 else 1.0
    if share < 1.0:
        yield ("shorten", share)
    slope = float(fit.gradient[columns] @ change)
    coef = fit.coef.copy()
    kappa = None
    while True:
        coef[columns] = old + share * change
        loglik = yield ("evaluate_trial",)
        objective = penalty.value(coef) - loglik
        decrease = share * slope - (penalty.value(coef) - penalty.value(fit.coef))
        floor = fit.objective + ROUNDING * abs(fit.objective)
        if objective <= floor - SUFFICIENT * max(decrease, 0.0):
            yield ("accept",)
            fit.coef, fit.loglik, fit.objective = coef, loglik, objective
            return share
        if share < 1e-10:
            yield ("evaluate",)
            return 0.0
        if kappa is None and reach > 0:
            kappa = yield ("trial_curvature",)
            safe = np.log1p(decrease * reach / (share * kappa)) / reach if kappa > 0 else 0.5
            factor = min(0.5, safe / share) if safe > 0 else 0.5
        else:
            factor = 0.5
        share *= factor
        yield ("shorten", factor)
