"""Descent by coordinate sweeps on the centred quadratic model (the default algorithm).

Outer iteration: minimize the model over a working set, line search on the true objective,
extrapolate.  The model is taken at a *reference* point and kept while it serves, since its age
changes the rate and not the limit.  It has two equal forms, and counts of nonzeros decide which:
sweeps over the columns of X, or, where columns are correlated or many fits follow, its Gram matrix.
"""

from __future__ import annotations

import numpy as np

from .extrapolate import Anderson
from .line_search import search

NEAR_ACTIVE = 0.95  # |g_j| above this share of the threshold joins the working set
STALE_SWEEP, STALE_GRAM = 0.2, 0.5  # the model is retaken where the KKT residual fell by less
# The Gram matrix is worth its cost where passes are many, a sign of correlated columns, or where
# further penalties will use it; counted in outer iterations by sweeps that it saves.
MANY_PASSES, SWEEPS_IF_CORRELATED, SWEEPS_PER_PENALTY = 5, 8.0, 1.5
GRAM_BYTES = 2**29  # budget of the Gram matrix and its working copy


def descend(fit, penalty, tolerance, max_iter):
    """Coroutine: move `fit` to the optimum under `penalty`; iterations and their objectives."""
    extrapolation, objectives = Anderson(), [fit.objective]
    residual = np.inf
    for iteration in range(max_iter + 1):
        violation = penalty.violation(fit.coef, fit.gradient)
        previous, residual = residual, float(violation.max(initial=0.0))
        if residual <= tolerance:
            residual = yield from _certify(fit, penalty)
            if residual <= tolerance:
                break
        if iteration == max_iter:
            break
        slow = residual > (STALE_GRAM if fit.in_gram else STALE_SWEEP) * previous
        work = yield from _refer(fit, penalty, violation, iteration, slow)
        before = fit.coef
        target = yield from _minimize_model(fit, penalty, work, max(0.2 * tolerance, 0.02 * residual))
        moved = yield from search(fit, penalty, work, target)
        if moved < 1.0:
            extrapolation.clear()
        else:
            yield from _extrapolate(fit, penalty, extrapolation, before)
        fit.gradient = yield ("gradient",)
        objectives.append(fit.objective)
    return iteration, objectives


def _working_set(fit, penalty):
    """Columns that are not zero or whose gradient is near its threshold."""
    close = np.abs(fit.gradient) >= NEAR_ACTIVE * penalty.l1
    return np.flatnonzero(((fit.coef != 0) | close) & ~penalty.fixed)


def _refer(fit, penalty, violation, iteration, slow):
    """Have a model that covers the columns to work on; returns these."""
    work = _working_set(fit, penalty)
    if not fit.in_gram and iteration >= 2 and 24 * len(work) ** 2 <= GRAM_BYTES:
        ahead = SWEEPS_PER_PENALTY * fit.penalties_left
        if fit.passes >= MANY_PASSES:
            ahead += SWEEPS_IF_CORRELATED
        if ahead > 0:
            cost = yield ("gram_cost", work)
            fit.in_gram = cost < ahead
            slow |= fit.in_gram
    if fit.reference is None or slow:
        yield ("refer", work, fit.in_gram)
        fit.reference = work
        return work
    needed = np.flatnonzero(violation > 0) if fit.in_gram else work
    missing = needed[~np.isin(needed, fit.reference)]
    if len(missing):
        yield ("extend", missing)
        fit.reference = np.concatenate([fit.reference, missing])
    return fit.reference if fit.in_gram else work


def _minimize_model(fit, penalty, work, tolerance):
    """Coefficients of the working set that minimize the model (about)."""
    request = (fit.coef[work], penalty.l1[work], penalty.l2[work])
    if fit.in_gram:
        return (yield ("minimize_on_gram", fit.gradient[work], *request, tolerance))
    target, fit.passes = yield ("sweep", work, *request)
    return target


def _extrapolate(fit, penalty, extrapolation, before):
    """Try the extrapolated point; keep it where the objective is lower."""
    proposal = extrapolation.propose(before, fit.coef)
    if proposal is None:
        return
    columns = np.flatnonzero(proposal != fit.coef)
    yield ("step", columns, (proposal - fit.coef)[columns])
    loglik = yield ("evaluate_trial",)
    objective = penalty.value(proposal) - loglik
    if objective < fit.objective:
        yield ("accept",)
        fit.coef, fit.loglik, fit.objective = proposal, loglik, objective
    else:
        yield ("evaluate",)


def _certify(fit, penalty):
    """Recompute predictor, log-likelihood and gradient from the coefficients alone; KKT residual."""
    fit.loglik = yield ("start", fit.coef)
    fit.gradient = yield ("gradient",)
    fit.objective = penalty.value(fit.coef) - fit.loglik
    return float(penalty.violation(fit.coef, fit.gradient).max(initial=0.0))
