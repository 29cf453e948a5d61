"""Descent by coordinate sweeps on the centred quadratic model (the default algorithm).

Outer iteration: minimize the model over a working set, line search on the true objective,
extrapolate.  The model is taken at a *reference* point and kept while it serves, since its age
changes the rate and not the limit.  It has two equal forms, and counts of nonzeros and passes
decide which: sweeps over the columns of X, or, where columns are correlated or many fits follow,
its Gram matrix.
"""

from __future__ import annotations

import numpy as np

from .line_search import accepts, rounding, search

NEAR_ACTIVE = 0.95  # |g_j| above this share of the threshold joins the working set
NEAR_LATER = 0.5  # ... joins the matrix where smaller penalties follow, or where it is lent
# The model is retaken where the residual fell by less.
STALE_SWEEP, STALE_GRAM, STALE_LOAN = 0.2, 0.5, 0.9
# The Gram matrix is worth its cost where passes are many, a sign of correlated columns, or where
# further penalties will use it; counted in outer iterations by sweeps that it saves.
MANY_PASSES, SWEEPS_IF_CORRELATED, SWEEPS_PER_PENALTY = 5, 8.0, 1.5
SWEEPS_OF_BORROWER = 8.0  # what a fit near its optimum costs without a loan
# Passes go on until their moves have shrunk this much; the first models are poor and get fewer.
SHRINK, SHRINK_EARLY, EARLY = 0.3, 0.6, 2
LOOSE = np.inf  # stands for the curvature of a column that lost it
PATIENCE = 20  # iterations without a gain, some with a fresh model, before a fit ends
GRAM_BYTES = 2**29  # budget of the Gram matrix and its working copy


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
        slow = stalled == PATIENCE // 2 or _is_stale(fit, violation, previous)
        left = _iterations_left(residual, previous, tolerance) if iteration >= 2 else 0.0
        work = yield from _refer(fit, penalty, violation, left, slow)
        target = fit.coef.copy()
        accuracy = tolerance, residual, SHRINK_EARLY if iteration < EARLY else SHRINK
        target[work] = yield from _minimize_model(fit, penalty, work, *accuracy)
        target[_without_effect(fit, penalty)] = 0.0
        proposal = fit.extrapolation.propose(fit.coef, target, fit.root)
        before = fit.objective
        moved = proposal is not None and (yield from accepts(fit, penalty, proposal, target))
        if not moved and (yield from search(fit, penalty, target)) < 1.0:
            fit.extrapolation.restart()
        gained = before - fit.objective > rounding(fit)
        stalled = 0 if gained or residual < 0.9 * least else stalled + 1
        least = min(least, residual)
        # By matrix, the other columns matter only to stop, unless they have just joined.
        settled = iteration > 0 or not fit.borrowed  # a loan may lack some
        fit.partial = fit.in_gram and settled and not np.delete(violation, fit.reference).any()
        known = fit.reference if fit.partial else np.arange(len(violation))
        fit.gradient = fit.gradient.copy()
        fit.gradient[known] = yield ("gradient", known)
        objectives.append(fit.objective)
    return objectives


def _violation(fit, penalty, decisive):
    """Violations of stationarity.

    Where they decide, being below `decisive`, they are those of all columns at a predictor that
    was computed from the coefficients alone.
    """
    violation = fit.violation(penalty)
    if fit.partial:
        violation[np.setdiff1d(np.arange(len(violation)), fit.reference)] = 0.0
    if violation.max(initial=0.0) <= decisive and (fit.partial or fit.shortened):
        if fit.shortened:
            fit.loglik = yield ("start", fit.coef)
            fit.objective = penalty.value(fit.coef) - fit.loglik
        fit.gradient = yield ("gradient", np.arange(len(violation)))
        fit.partial = fit.shortened = False
        violation = fit.violation(penalty)
    return violation


def _is_stale(fit, violation, previous):
    """Whether the model's own columns have gained too little; columns new to it do not count."""
    if fit.reference is None:
        return True
    share = STALE_GRAM if fit.in_gram else STALE_SWEEP
    share = STALE_LOAN if fit.borrowed else share
    return violation[fit.reference].max(initial=0.0) > share * previous


def _iterations_left(residual, previous, tolerance):
    """Iterations until the tolerance is met if the residual goes on falling as it did last."""
    if not residual < previous or tolerance <= 0.0:
        return np.inf
    return np.log(residual / tolerance) / np.log(previous / residual)


def near(fit, penalty, share=NEAR_ACTIVE):
    """Columns that are not zero or whose gradient exceeds a share of its threshold."""
    close = np.abs(fit.gradient) >= share * penalty.l1
    return np.flatnonzero(((fit.coef != 0) | close) & ~penalty.fixed)


def _refer(fit, penalty, violation, left, slow):
    """Have a model that covers the columns to work on; returns these.

    `left` is the number of iterations to come, 0 where nothing is known of it.
    """
    work = near(fit, penalty)
    if fit.borrowed:
        if not slow and (yield from _stretch(fit, work, violation)):
            return fit.reference
        slow, fit.in_gram, fit.borrowed = True, False, False
        fit.extrapolation.clear()
    if not fit.in_gram and left > 0 and _gram_fits(len(work)):
        slow |= yield from _enter_gram(fit, work, left)
    wanted = work
    if fit.in_gram and fit.penalties_left:
        wanted = near(fit, penalty, NEAR_LATER)
    if slow or (fit.in_gram and not _gram_fits(len(np.union1d(fit.reference, wanted)))):
        fit.in_gram &= _gram_fits(len(wanted))
        if fit.in_gram:
            fit.extrapolation.clear()  # a model much fresher than the last has another slope
        fit.curvature = yield ("refer", wanted, fit.in_gram)
        fit.reference = wanted
    else:
        missing = np.setdiff1d(wanted, fit.reference)
        if len(missing) and (violation[missing].any() or not fit.in_gram):
            added = yield ("extend", missing)
            fit.reference = np.concatenate([fit.reference, missing])
            fit.curvature = np.concatenate([fit.curvature, added])
    lost = (fit.curvature <= 0) & (violation[fit.reference] > 0)
    if lost.any():  # to rounding; without bins it is larger, and never lost
        yield ("loosen", fit.reference[lost])
        fit.curvature[lost] = LOOSE
    return fit.reference if fit.in_gram else work


def _stretch(fit, work, violation):
    """Coroutine: whether the borrowed model serves, once columns that it lacks have joined.

    These are few, near zero, and move as if they were alone; the line search watches over that.
    """
    missing = np.setdiff1d(work, fit.reference)
    missing = missing[violation[missing] > 0]
    if not _gram_fits(len(fit.reference) + len(missing)):
        return False
    if len(missing):
        added = yield ("append", missing)
        fit.reference = np.concatenate([fit.reference, missing])
        fit.curvature = np.concatenate([fit.curvature, added])
    return not np.any((fit.curvature <= 0) & (violation[fit.reference] > 0))


def lend(fit, penalty, n_borrowers):
    """Coroutine: columns and matrix of the model at the optimum; None where it is not worth it."""
    columns = near(fit, penalty, NEAR_LATER)
    if not len(columns) or not _gram_fits(len(columns)):
        return columns, None
    cost = yield ("gram_cost", columns, n_borrowers)
    if not cost < SWEEPS_OF_BORROWER:
        return columns, None
    curvature = yield ("refer", columns, True)
    matrix, kept = (yield ("lend",)), curvature > 0
    return columns[kept], matrix[np.ix_(kept, kept)]


def borrow(fit, loan, share, fixed):
    """Coroutine: take another fit's model, without the columns that are fixed here."""
    kept = np.flatnonzero(~fixed[loan.columns])
    matrix = loan.matrix
    if len(kept) < len(loan.columns):
        matrix = matrix[np.ix_(kept, kept)]
    yield ("borrow", matrix, share)
    fit.reference, fit.curvature = loan.columns[kept], share * np.diagonal(matrix)
    fit.in_gram = fit.borrowed = True


def _enter_gram(fit, work, left):
    """Whether the matrix pays from here on."""
    ahead = SWEEPS_PER_PENALTY * fit.penalties_left
    if fit.passes >= MANY_PASSES:
        ahead += min(left, SWEEPS_IF_CORRELATED)
    if ahead > 0:
        cost = yield ("gram_cost", work)
        fit.in_gram = cost < ahead
    return fit.in_gram


def _gram_fits(size):
    return 24 * size**2 <= GRAM_BYTES  # pairs, matrix and the copy that an extension makes


def _without_effect(fit, penalty):
    """Penalized columns that the likelihood does not see at this point, such as constant ones."""
    columns = fit.reference[fit.curvature == LOOSE]
    l1, l2 = penalty.l1[columns], penalty.l2[columns]
    unseen = np.abs(fit.gradient[columns]) <= l1 + fit.noise[columns]
    return columns[unseen & (l1 + l2 > 0)]


def _minimize_model(fit, penalty, work, tolerance, residual, shrink):
    """Coefficients of the working set that minimize the model, about as well as it deserves."""
    request = (fit.coef[work], penalty.l1[work], penalty.l2[work], fit.unit[work])
    if fit.in_gram:
        inner = max(0.2 * tolerance, 0.02 * residual)
        return (yield ("minimize_on_gram", fit.gradient[work], *request, inner))
    target, fit.passes = yield ("sweep", work, *request, shrink)
    return target
