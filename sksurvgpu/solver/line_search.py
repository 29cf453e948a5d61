"""Line search on the true objective: local curvature is no global bound."""

import numpy as np

from ..backends.contract import Operations, ask

SUFFICIENT = 1e-4
LEAST_FACTOR, MOST_FACTOR = 0.1, 0.5  # of the share of a step that failed
LONGEST_MOVE = 100.0  # range of the predictor's move within one step; 10 cut good ones short
SHORTEST = 1e-10


def promise(point, step, rise):
    """Decrease of the objective along a step, to first order, the penalty's rise being known."""
    return float(point.gradient @ step) - rise


def _take(point, goal, coef, loglik, objective, enough, share=1.0):
    """Coroutine: accept the trial, that of `coef`, on a decrease that is enough; whether it did."""
    if not objective <= point.objective + goal.rounding(point) - max(enough, 0.0):
        return False
    yield from ask(Operations.accept)
    point.coef, point.loglik, point.objective = coef, loglik, objective
    point.shortened = share < 1.0
    return True


def search(point, goal, target, columns):
    """Coroutine: move `point` towards the coefficients `target`; the accepted share of the step.

    A trial that fails says how the objective bends along the step: the next one is where a parabola
    through both ends has its minimum.
    """
    coef, change = target, target - point.coef
    before, value = goal.penalty.value(point.coef), goal.penalty.value(target)
    reach, loglik = yield from ask(Operations.attempt, target, columns, LONGEST_MOVE)
    share, factor = 1.0, min(1.0, LONGEST_MOVE / reach) if reach > 0 else 1.0
    shortest = SHORTEST * factor  # of what is left of a step that led far beyond
    while share >= shortest:
        if factor < 1.0:
            share *= factor
            yield from ask(Operations.shorten, factor)
            loglik = yield from ask(Operations.evaluate_trial)
            coef = point.coef + share * change
            value = goal.penalty.value(coef)
        promised = promise(point, coef - point.coef, value - before)
        objective = value - loglik
        if (yield from _take(point, goal, coef, loglik, objective, SUFFICIENT * promised, share)):
            return share
        bend = objective - point.objective + promised
        factor = (
            float(np.clip(0.5 * promised / bend, LEAST_FACTOR, MOST_FACTOR))
            if bend > 0
            else MOST_FACTOR
        )
    yield from ask(Operations.evaluate)
    return 0.0


def approach(point, goal, target, columns, nearer):
    """Coroutine: the same under a penalty that is not convex; the share that was accepted.

    Such a penalty may be larger between two points than at both.  Where the way to `target` leads
    over such a hill for nothing, ``nearer()`` is the minimum under the penalty's tangent, which is
    convex and nowhere less: a part of that way gains.
    """
    before, value = goal.penalty.value(point.coef), goal.penalty.value(target)
    _, loglik = yield from ask(Operations.attempt, target, columns, np.inf)
    enough = SUFFICIENT * promise(point, target - point.coef, value - before)
    if (yield from _take(point, goal, target, loglik, value - loglik, enough)):
        return 1.0
    return (yield from search(point, goal, nearer(), columns))
