"""Line search on the true objective: local curvature is no global bound."""

from __future__ import annotations

import numpy as np

from ..backends.contract import Operations, ask

SUFFICIENT = 1e-4
LEAST_FACTOR, MOST_FACTOR = 0.1, 0.5  # of the share of a step that failed
STIFFER = 0.25  # share of a share that is tried next
LONGEST_MOVE = 10.0  # range of the predictor's move within one step
SHORTEST = 1e-10
ROUNDING = 1e-13  # relative: below it an increase of the objective cannot be told from rounding


def rounding(fit):
    """Difference of objectives that means nothing."""
    return ROUNDING * max(abs(fit.objective), fit.magnitude)


def _promise(fit, penalty, target):
    """Decrease of the objective along the step to `target`, to first order."""
    slope = float(fit.gradient @ (target - fit.coef))
    return slope - (penalty.value(target) - penalty.value(fit.coef))


def _take(fit, penalty, coef, loglik, enough, share=1.0):
    """Coroutine: accept the trial, that of `coef`, on a decrease that is enough; whether it did."""
    objective = penalty.value(coef) - loglik
    if not objective <= fit.objective + rounding(fit) - max(enough, 0.0):
        return False
    yield from ask(Operations.accept)
    fit.coef, fit.loglik, fit.objective = coef, loglik, objective
    fit.shortened = share < 1.0
    return True


def search(fit, penalty, target, columns):
    """Coroutine: move `fit` towards the coefficients `target`; the accepted share of the step.

    A trial that fails says how the objective bends along the step: the next one is where a parabola
    through both ends has its minimum.
    """
    change = target - fit.coef
    reach, loglik = yield from ask(Operations.attempt, target, columns, LONGEST_MOVE)
    share, factor = 1.0, min(1.0, LONGEST_MOVE / reach) if reach > 0 else 1.0
    while share >= SHORTEST:
        if factor < 1.0:
            share *= factor
            yield from ask(Operations.shorten, factor)
            loglik = yield from ask(Operations.evaluate_trial)
        coef = target if share == 1.0 else fit.coef + share * change
        promised = _promise(fit, penalty, coef)
        if (yield from _take(fit, penalty, coef, loglik, SUFFICIENT * promised, share)):
            return share
        bend = penalty.value(coef) - loglik - fit.objective + promised
        factor = (
            float(np.clip(0.5 * promised / bend, LEAST_FACTOR, MOST_FACTOR))
            if bend > 0
            else MOST_FACTOR
        )
    yield from ask(Operations.evaluate)
    return 0.0


def approach(fit, penalty, target, columns, nearer):
    """Coroutine: the same under a penalty that is not convex; the share that was accepted.

    Such a penalty may be larger between two points than at both, so that nothing is interpolated:
    the coroutine ``nearer(share)`` minimizes the model anew with the curvature of its columns
    divided by `share`.  Of a small share that is an upper bound, which has the penalty as it is:
    nothing can rise.
    """
    share = 1.0
    while share >= SHORTEST:
        _, loglik = yield from ask(Operations.attempt, target, columns, np.inf)
        enough = SUFFICIENT * _promise(fit, penalty, target)
        if (yield from _take(fit, penalty, target, loglik, enough)):
            return share
        share *= STIFFER
        target = yield from nearer(share)
    yield from ask(Operations.evaluate)
    return 0.0


def require_finite(loglik):
    """Refuse a point where nothing can be computed."""
    if not np.isfinite(loglik).all():
        raise ValueError(
            "the log-likelihood is not finite: the linear predictor (offset and coefficients) "
            "spans too many orders of magnitude, or `y` does; rescale `offset`, `y` or the columns "
            "of X, refit with `warm_start=False`, or use `algorithm='majorized'`"
        )
