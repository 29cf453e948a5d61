"""The quadratic model of the log-likelihood around a reference point: which form a fit takes.

The model sets the rate of convergence and never the limit: gradient, line search and certificate
are exact, whatever its age.  `models` has the forms that it takes, `costs` what they cost.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..backends.contract import Operations, ask
from . import costs
from .models import HeldMatrix, LentMatrix, OwnMatrix, Sweeps
from .secants import SecantMatrix

NEAR = 0.95  # columns whose slope exceeds this share of what moves them are worked on
NEAR_LATER = 0.5  # ... join the matrix where smaller penalties follow, or where it is lent
NEAR_FAR = 0.8  # ... join it where rows are far
FEWEST = 100  # columns with which a fit by cheap models begins


def near(fit, penalty, share=NEAR):
    """Columns that are not zero or whose slope exceeds a share of what moves them."""
    return np.flatnonzero(penalty.is_near(fit.coef, fit.gradient, share))


class Progress(NamedTuple):
    """What the iterations so far say."""

    done: int
    left: float  # iterations to come, as the last one went; 0 where nothing is known of them
    is_stale: bool  # whether the model is
    gains_little: bool  # whether the last iteration gained less than half


def have_model(fit, penalty, violation, progress):
    """Coroutine: give `fit` a model of the columns to work on; returns these."""
    if fit.far:
        return (yield from _have_secants(fit, penalty, violation, progress))
    if penalty.needs_matrix:
        return (yield from _have_whole_matrix(fit, violation, progress))
    work, model, most = near(fit, penalty), fit.model, _first_choice(fit)
    if most < len(work) and most <= fit.most_columns:
        counts = yield from _count(fit, work)
        # once there is a matrix, it grows with the support: it would not be left for its size
        some = counts.scaled(most / len(work))
        is_cheap = fit.holds or isinstance(model, OwnMatrix) or costs.is_cheap(some, most)
        if is_cheap and len(work) > counts.rows:  # most of them will not stay
            work = penalty.whole(_worst(fit, work, violation, most))
    serves = model is not None and model.is_matrix and not progress.is_stale
    if serves and (yield from model.cover(work, violation, fit.most_columns, penalty)):
        return model.columns
    pays = (yield from _matrix_pays(fit, work, progress)) and len(work) <= fit.most_columns
    if model is not None and not (model.is_matrix or progress.is_stale or pays):
        yield from model.cover(work, violation, fit.most_columns, penalty)
        return work
    # Another model has another slope. One that is taken anew all the time and gains little, having
    # lost its digits, has only secants to help it.
    is_lost = model is not None and model.is_cheap and progress.gains_little
    if (pays and not is_lost) or isinstance(model, LentMatrix):
        fit.extrapolation.clear()
    fit.model = yield from _take(fit, penalty, work, pays)
    yield from fit.model.loosen(violation)
    return fit.model.columns if pays else work


def _have_whole_matrix(fit, violation, progress):
    """Coroutine: the same for a penalty that needs a matrix of all columns."""
    if not isinstance(fit.model, OwnMatrix) or progress.is_stale:
        fit.extrapolation.clear()
        fit.model = yield from _take_matrix(fit, _all_columns(fit))
    yield from fit.model.loosen(violation)
    return fit.model.columns


def _all_columns(fit):
    """All, if a matrix may have them."""
    columns = np.arange(len(fit.coef))
    if len(columns) > fit.most_columns:
        raise ValueError(
            f"`penalty` needs the matrix of all {len(columns):,} columns, and the backend has "
            f'room for {fit.most_columns:,}: use backend="cpu", more memory or fewer columns.'
        )
    return columns


def _have_secants(fit, penalty, violation, progress):
    """Coroutine: the same where rows are far: a matrix, taken anew where it may be better."""
    model, most = fit.model, fit.most_columns
    work = _all_columns(fit) if penalty.needs_matrix else near(fit, penalty, NEAR_FAR)
    if len(work) > most:
        rank = violation[work]
        if np.count_nonzero(fit.coef) < most:
            rank[fit.coef[work] != 0.0] = np.inf
        work = penalty.whole(np.sort(work[np.argsort(-rank, kind="stable")[:most]]))
    too_long, too_slow = fit.secants.trouble(violation.max(initial=0.0))
    if (too_long or too_slow) and (yield from ask(Operations.refine)):
        progress = progress._replace(is_stale=True)
    elif too_long and isinstance(model, SecantMatrix):
        model.stiffen()
    serves = isinstance(model, SecantMatrix) and not progress.is_stale
    if serves and (yield from model.cover(work, violation, most, penalty)):
        return model.columns
    fit.model = yield from SecantMatrix.taken_for(fit, work)
    yield from fit.model.loosen(violation)
    return fit.model.columns


def _first_choice(fit):
    """Columns that are enough to go on with, where models are cheap: the support may double.

    A step that was cut short holds all columns of its target, most of which will leave again.
    """
    if not fit.shortened:
        fit.chosen = max(FEWEST, 2 * np.count_nonzero(fit.coef))
    return fit.chosen


def _count(fit, columns):
    """Coroutine: `Counts` of columns; those of another set in proportion, if of nearly its size."""
    if fit.counts is None or not 0.8 < len(columns) / max(fit.counted, 1) < 1.25:
        fit.counted = len(columns)
        fit.counts = yield from ask(Operations.count, columns)
    return fit.counts.scaled(len(columns) / max(fit.counted, 1))


def _worst(fit, columns, violation, size):
    """The columns that are not zero, and those of the others that violate most."""
    is_zero = fit.coef[columns] == 0.0
    order = np.argsort(-violation[columns[is_zero]], kind="stable")
    chosen = columns[is_zero][order[: size - np.count_nonzero(~is_zero)]]
    return np.sort(np.concatenate([columns[~is_zero], chosen]))


def _matrix_pays(fit, work, progress):
    """Coroutine: whether a matrix is worth its cost from here on."""
    model = fit.model
    if isinstance(model, OwnMatrix):
        return True
    if len(work) > fit.most_columns or not len(work):
        return False
    counts = yield from _count(fit, work)
    if fit.holds:
        return counts.pairs < np.inf
    if costs.is_cheap(counts, len(work)):
        return True
    if not progress.left > 0:
        return False
    passes = model.passes if isinstance(model, Sweeps) else costs.PASSES
    ahead = costs.sweeps_ahead(fit.penalties_left, progress.left, progress.done, passes)
    return costs.of_matrix(counts, len(work), passes=passes) < ahead


def _take(fit, penalty, work, as_matrix):
    """Coroutine: a new model, at the last evaluation."""
    n_columns = len(fit.coef)
    if not as_matrix:
        return (yield from Sweeps.take(n_columns, work))
    is_cheap = fit.holds or costs.is_cheap((yield from _count(fit, work)), len(work))
    if fit.penalties_left and not is_cheap:
        later = near(fit, penalty, NEAR_LATER)
        work = later if len(later) <= fit.most_columns else work
    elif fit.penalties_left and len(work) < _first_choice(fit):
        work = near(fit, penalty, fit.near)
    return (yield from _take_matrix(fit, work))


def _take_matrix(fit, columns):
    """Coroutine: a matrix of this fit's own."""
    if fit.holds:
        return (yield from HeldMatrix.take(len(fit.coef), columns))
    model = yield from OwnMatrix.take(len(fit.coef), columns)
    model.is_cheap = costs.is_cheap((yield from _count(fit, columns)), len(columns))
    return model
