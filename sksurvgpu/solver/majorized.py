"""Descent by a quadratic model (the default algorithm).

Outer iteration: minimize the model (`quadratic`) over a working set, line search on the true
objective, extrapolate.  The model is taken at a *reference* point and kept while it serves, since
its age changes the rate and not the limit.
"""

from __future__ import annotations

import numpy as np

from ..backends.contract import Operations, ask
from . import costs
from .line_search import accepts, approach, rounding, search
from .models import HeldLoan, HeldMatrix, LentMatrix, OwnMatrix
from .quadratic import NEAR_LATER, Progress, have_model, near
from .secants import SecantMatrix, lend_secants

# Passes go on until their moves have shrunk this much; the first models are poor and get fewer.
SHRINK, SHRINK_EARLY, EARLY = 0.3, 0.6, 2
PATIENCE = 20  # iterations without a gain, some with a fresh model, before a fit ends


def descend(fit, penalty, tolerance, max_iter):
    """Coroutine: move `fit` to the optimum under `penalty`; objectives from first to last.

    It ends early where nothing moves: at the accuracy of floating point.
    """
    objectives, residual, least, stalled = [fit.objective], np.inf, np.inf, 0
    fit.extrapolation.restart()
    for iteration in range(max_iter + 1):
        last = iteration == max_iter or stalled >= PATIENCE
        violation = yield from _violation(fit, penalty, np.inf if last else tolerance)
        previous, residual = residual, float(violation.max(initial=0.0))
        fit.report(iteration, residual)
        if residual <= tolerance or last:
            break
        is_stale = fit.model is None or fit.model.is_stale(violation, previous)
        is_stale |= stalled == PATIENCE // 2
        left = _iterations_left(residual, previous, tolerance) if iteration >= 2 else 0.0
        was_lent = isinstance(fit.model, LentMatrix)
        progress = Progress(iteration, left, is_stale, residual > 0.5 * previous)
        work = yield from have_model(fit, penalty, violation, progress)
        target = fit.coef.copy()
        accuracy = tolerance, residual, SHRINK_EARLY if iteration < EARLY else SHRINK
        target[work] = yield from fit.model.minimize(fit, penalty, work, *accuracy)
        target[fit.model.without_effect(fit, penalty)] = 0.0
        target = penalty.settled(target)
        before = fit.objective
        columns = _watched(fit, violation, settled=iteration > 0 or not was_lent)
        towards = fit, penalty, target, _all(fit) if columns is None else columns
        step = _step_by_secants if fit.far else _step
        yield from step(*towards, accuracy)
        gained = before - fit.objective > rounding(fit)
        stalled = 0 if gained or residual < 0.9 * least else stalled + 1
        least = min(least, residual)
        if not fit.far:
            yield from _take_gradient(fit, columns)
        objectives.append(fit.objective)
    return objectives


def _step(fit, penalty, target, columns, accuracy):
    """Coroutine: extrapolate if that is good, else move towards the minimizer of the model."""
    proposal = fit.extrapolation.propose(fit.coef, target, penalty.pieces, fit.root)
    towards = fit, penalty, target, columns
    if proposal is not None:
        proposal = penalty.like(proposal, target)
    moved = proposal is not None and (yield from accepts(*towards, proposal))
    if not moved and (yield from _move(*towards, accuracy)) < 1.0:
        fit.extrapolation.restart()


def _step_by_secants(fit, penalty, target, columns, accuracy):
    """Coroutine: move towards the minimizer of the model, and learn from the gradient there."""
    coef, gradient = fit.coef, fit.gradient
    share = yield from _move(fit, penalty, target, columns, accuracy)
    if share > 0:
        yield from _take_gradient(fit, None)
    fit.secants.learn(fit.coef - coef, gradient - fit.gradient, share)


def _watched(fit, violation, settled):
    """Columns whose gradient the next iteration needs; None: all.

    By matrix, the others matter only to stop, unless they have just joined; a loan may lack some.
    A device looks at them each time: that costs it less than the iterations that end too early.
    So do rows that are far.
    """
    if fit.far:
        return None
    alone = fit.model.is_matrix and not (fit.holds or fit.model.outside(violation).any())
    return fit.model.columns if alone and settled else None


def _all(fit):
    return np.arange(len(fit.coef))


def _move(fit, penalty, target, columns, accuracy):
    """Coroutine: move towards the minimizer of the model; the share of the step that was taken."""
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
        fit.gradient = yield from ask(Operations.gradient, _all(fit))
        return
    gradient = fit.gradient.copy()
    gradient[columns] = yield from ask(Operations.gradient, columns)
    fit.gradient = gradient


def _violation(fit, penalty, decisive):
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


def _iterations_left(residual, previous, tolerance):
    """Iterations until the tolerance is met if the residual goes on falling as it did last."""
    if not residual < previous or tolerance <= 0.0:
        return np.inf
    return np.log(residual / tolerance) / np.log(previous / residual)


def lend(fit, penalty, n_borrowers):
    """Coroutine: columns and matrix of the model at the optimum; None where it is not worth it."""
    columns = near(fit, penalty, NEAR_LATER)
    if penalty.needs_matrix:  # its own matrix, always
        return columns, None
    if fit.far:
        return (yield from lend_secants(fit, columns))
    if not 0 < len(columns) <= fit.most_columns:
        return columns, None
    counts = yield from ask(Operations.count, columns)
    cost = 0.0 if fit.holds else costs.of_matrix(counts, len(columns), n_borrowers)
    if not cost < costs.SWEEPS_OF_BORROWER or counts.pairs == np.inf:
        return columns, None
    model = yield from (HeldMatrix if fit.holds else OwnMatrix).take(len(fit.coef), columns)
    yield from model.have_matrix()
    kept = model.curvature[:, 0] > 0
    return columns[kept], model.matrix if kept.all() else model.matrix[np.ix_(kept, kept)]


def borrow(fit, loan, share, fixed):
    """Take a share of another fit's model, without the columns that are fixed here."""
    if fit.far:
        fit.model = SecantMatrix.of_loan(fit, loan, share, fixed)
        return
    form = HeldLoan if fit.holds and fit.most_columns > 0 else LentMatrix
    fit.model = form(len(fit.coef), loan, share, fixed)
