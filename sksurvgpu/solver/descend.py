"""Descent by a quadratic model (the default algorithm): look, model, step, learn.

An iteration looks at the violations of stationarity, has a model of the columns that matter
(`choose`, `models`), steps towards its minimum under the penalty by a line search on the true
objective, and learns from the gradient there (`secants`).
"""

from __future__ import annotations

import numpy as np

from ..backends.contract import Operations, ask
from .choose import Progress, have_model
from .line_search import approach, rounding, search

LOOK_AGAIN = 0.1  # share of the residual of all columns below which all are looked at again
PATIENCE = 20  # iterations without a gain, some with a fresh model, before a fit ends


def descend(fit, penalty, tolerance, max_iter):
    """Coroutine: move `fit` to the optimum under `penalty`; objectives from first to last.

    It ends early where nothing moves: at the accuracy of floating point.
    """
    objectives, residuals, stalled = [fit.objective], [], 0
    for iteration in range(max_iter + 1):
        last = iteration == max_iter or stalled >= PATIENCE
        violation = yield from _look(fit, penalty, np.inf if last else tolerance)
        residuals.append(float(violation.max(initial=0.0)))
        fit.report(iteration, residuals[-1])
        if residuals[-1] <= tolerance or last:
            break
        progress = Progress(residuals, tolerance, stalled == PATIENCE // 2)
        model = yield from have_model(fit, penalty, violation, progress)
        before, least = fit.objective, min(residuals[:-1], default=np.inf)
        accuracy = tolerance, residuals[-1]
        target = yield from _target(fit, penalty, model, accuracy)
        if not fit.partial:
            seen = residuals[-1]
        columns = _watched(fit, model, violation)
        if residuals[-1] <= LOOK_AGAIN * seen:
            columns = None
        yield from _step(fit, penalty, target, columns, accuracy, iteration == 0)
        gained = before - fit.objective > rounding(fit) or residuals[-1] < 0.9 * least
        stalled = 0 if gained else stalled + 1
        objectives.append(fit.objective)
    return objectives


def _target(fit, penalty, model, accuracy):
    """Coroutine: coefficients near the minimum of the model."""
    target = fit.coef.copy()
    target[model.columns] = yield from model.minimize(fit, penalty, accuracy)
    target[model.without_effect(fit, penalty)] = 0.0
    return penalty.settled(target)


def _step(fit, penalty, target, columns, accuracy, is_first):
    """Coroutine: move towards the target, and learn from the gradient there."""
    before, was_partial = (fit.coef, fit.gradient), fit.partial
    share = yield from _move(fit, penalty, target, columns, accuracy)
    if share > 0:
        yield from _take_gradient(fit, columns)
    step, change = fit.coef - before[0], before[1] - fit.gradient
    if was_partial or fit.partial:
        change = np.where(fit.model.has, change, np.nan)
    if is_first and not fit.model.is_matrix:
        fit.secants.see_coupling(fit.model, step, change)
        may_return = fit.most_columns > 0 and not (fit.room.whole_gradients or fit.secants.pairs)
        if may_return and fit.secants.is_coupled:  # a matrix begins better where no step was made
            yield from _return(fit, penalty, *before)
            return
    fit.secants.learn(step, change, share)


def _return(fit, penalty, coef, gradient):
    """Coroutine: go back to where the fit was."""
    fit.loglik = yield from ask(Operations.start, coef)
    fit.coef, fit.gradient = coef, gradient
    fit.objective, fit.shortened, fit.partial = penalty.value(coef) - fit.loglik, False, False


def _watched(fit, model, violation):
    """Columns whose gradient the next iteration needs; None: all.

    By matrix, the others matter only to stop, unless they have just joined.
    """
    if not model.is_matrix or fit.room.whole_gradients or model.outside(violation).any():
        return None
    return model.columns


def _move(fit, penalty, target, columns, accuracy):
    """Coroutine: move towards the minimizer of the model; the share of the step that was taken."""
    columns = np.arange(len(fit.coef)) if columns is None else columns
    if penalty.family.is_convex:
        return (yield from search(fit, penalty, target, columns))

    def nearer(share):
        columns, near = fit.model.columns, fit.coef.copy()
        near[columns] = yield from fit.model.minimize_nearer(fit, penalty, accuracy, share)
        near[fit.model.without_effect(fit, penalty)] = 0.0
        return near

    return (yield from approach(fit, penalty, target, columns, nearer))


def _take_gradient(fit, columns):
    """Coroutine: the gradient where `fit` is, of some columns or (None) of all."""
    fit.partial = columns is not None
    if columns is None:
        fit.gradient = yield from ask(Operations.gradient, np.arange(len(fit.coef)))
        return
    gradient = fit.gradient.copy()
    gradient[columns] = yield from ask(Operations.gradient, columns)
    fit.gradient = gradient


def _look(fit, penalty, decisive):
    """Coroutine: violations of stationarity.

    Where they decide, being below `decisive`, they are those of all columns at a predictor that
    was computed from the coefficients alone.
    """
    violation = fit.violation(penalty)
    if fit.partial:
        violation -= fit.model.outside(violation)
    if violation.max(initial=0.0) <= decisive and (fit.partial or fit.shortened):
        if fit.shortened:
            fit.loglik = yield from ask(Operations.start, fit.coef)
            fit.objective = penalty.value(fit.coef) - fit.loglik
            fit.shortened = False
        yield from _take_gradient(fit, None)
        violation = fit.violation(penalty)
    return violation
