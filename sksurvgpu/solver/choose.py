"""Which base the model of an iteration has, and over which columns; `costs` says what they cost."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..backends.contract import Operations, ask
from . import costs
from .held import Held, HeldLoan, HeldMatrix
from .models import (
    AGING,
    ROWS_A_COLUMN,
    Diagonal,
    LentModel,
    OwnMatrix,
    SampledMatrix,
)

NEAR = 0.95  # columns whose slope exceeds this share of what moves them are worked on
NEAR_LATER = 0.5  # ... join the model where smaller penalties follow, or where it is lent
NEAR_CHEAP = 0.8  # ... join it where it is a diagonal
# Once the residual has fallen to this share, the columns of a matrix are those of the optimum.
SETTLED = 0.2
LARGEST_SAMPLE = 0.5  # of the rows; a larger one would be all of them
FEWEST = 100  # columns with which a fit by cheap models begins


class Progress(NamedTuple):
    """What the iterations so far say."""

    residuals: list
    tolerance: float
    stalls: bool

    @property
    def done(self):
        return len(self.residuals) - 1

    @property
    def previous(self):
        return self.residuals[-2] if self.done else np.inf

    @property
    def gains_little(self):
        return self.residuals[-1] > 0.5 * self.previous

    @property
    def left(self):
        """Iterations to come, as the last ones went; 0 where nothing is known of them."""
        span = min(3, self.done)
        if span < 2 or not self.tolerance > 0:
            return 0.0
        now, before = self.residuals[-1], self.residuals[-1 - span]
        if not now < before:
            return np.inf
        return span * np.log(now / self.tolerance) / np.log(before / now)


def near(fit, penalty, share=NEAR):
    """Columns that are not zero or whose known slope exceeds a share of what moves them."""
    is_near = penalty.is_near(fit.coef, fit.gradient, share)
    return np.flatnonzero(is_near & fit.model.has if fit.partial else is_near)


def have_model(fit, penalty, violation, progress):
    """Coroutine: give `fit` a model of the columns to work on; returns it."""
    if penalty.needs_matrix:
        work, kind = _all_columns(fit), _kind_of_all(fit, progress)
    else:
        work = yield from _columns(fit, penalty, violation)
        kind = yield from _kind(fit, work, progress)
    model = fit.model
    stale = progress.stalls or model is None or model.is_stale(violation, progress.previous)
    serves = not stale and _serves(fit, kind)
    if serves and (yield from model.cover(work, violation, fit.most_columns, penalty)):
        return model
    known = np.arange(len(fit.coef)) if fit.room.whole_gradients else work
    fit.model = yield from kind.take(len(fit.coef), fit.secants, work, known)
    if kind is Diagonal and isinstance(model, Diagonal):
        fit.model.oldest = AGING * model.oldest  # the pairs are worth more than another one
    if kind is OwnMatrix and fit.room.counts:
        fit.model.is_cheap = costs.is_cheap((yield from count(fit, work)), len(work))
        if fit.model.is_cheap and not progress.gains_little:
            fit.secants.forget()  # it is the Hessian, unless that has lost its digits
    yield from fit.model.loosen(violation)
    return fit.model


def _serves(fit, kind):
    """Whether the model has the base of a new one, or one that need not be taken."""
    model = fit.model
    is_lent = isinstance(model, LentModel) and (fit.room.holds or not fit.room.counts)
    return is_lent or isinstance(model, kind) or (model.is_matrix and kind is Diagonal)


def _kind_of_all(fit, progress):
    """The base of a penalty that is minimized on one matrix; where all are far, as of any other."""
    if fit.room.holds:
        return HeldMatrix
    return OwnMatrix if fit.room.counts else _better(fit, progress)


def _kind(fit, work, progress):
    """Coroutine: the base that a new model would have."""
    room = fit.room
    if not 0 < len(work) <= fit.most_columns or room.best == "diagonal":
        return Diagonal
    if not room.counts:
        return _better(fit, progress)
    if isinstance(fit.model, OwnMatrix):
        return type(fit.model)
    counts = yield from count(fit, work)
    if room.holds:
        is_wanted = isinstance(fit.model, Held) or fit.secants.is_coupled
        return HeldMatrix if is_wanted and counts.pairs < np.inf else Diagonal
    if costs.is_cheap(counts, len(work)):
        return OwnMatrix
    is_sampled = isinstance(fit.model, SampledMatrix)
    ahead = costs.iterations_ahead(fit.penalties_left, progress.left, progress.done)
    if is_sampled and progress.residuals[-1] < SETTLED * progress.residuals[0]:
        ahead = max(ahead, costs.ITERATIONS_IF_COUPLED)
    if costs.of_matrix(counts, len(work)) < ahead:
        return OwnMatrix
    if is_sampled or fit.secants.is_coupled:
        is_small = ROWS_A_COLUMN * len(work) < LARGEST_SAMPLE * counts.rows
        return SampledMatrix if is_small else OwnMatrix
    return Diagonal


BASES = {"diagonal": Diagonal, "sample": SampledMatrix, "matrix": OwnMatrix}


def _better(fit, progress):
    """The base where nothing is counted: the first one, and better ones where it is poor."""
    steps = list(BASES)[list(BASES).index(fit.room.first) : list(BASES).index(fit.room.best) + 1]
    too_long, too_slow = fit.secants.trouble(progress.residuals[-1])
    if (too_long or too_slow or fit.secants.is_coupled) and fit.level < len(steps) - 1:
        fit.level += 1
        fit.secants.coupling, fit.model = 1.0, None
    elif too_long and fit.model is not None:
        fit.model.stiffen()
    return BASES[steps[fit.level]]


def _columns(fit, penalty, violation):
    """Coroutine: columns to work on: at first some, where a matrix of them is cheap."""
    # where no column costs more than others, none should join late
    is_cheap = isinstance(fit.model, Diagonal) or fit.room.whole_gradients
    work, most = near(fit, penalty, NEAR_CHEAP if is_cheap else fit.near), _first_choice(fit)
    if most < len(work) and most <= fit.most_columns and fit.room.counts:
        counts = yield from count(fit, work)
        # once there is a matrix, it grows with the support: it would not be left for its size
        some = counts.scaled(most / len(work))
        is_cheap = fit.room.holds or isinstance(fit.model, OwnMatrix) or costs.is_cheap(some, most)
        if is_cheap and len(work) > counts.rows:  # most of them will not stay
            return penalty.whole(_worst(fit, work, violation, most))
    return work


def _all_columns(fit):
    """All, if a matrix may have them."""
    columns = np.arange(len(fit.coef))
    if len(columns) > fit.most_columns:
        raise ValueError(
            f"`penalty` needs the matrix of all {len(columns):,} columns, and the backend has "
            f'room for {fit.most_columns:,}: use backend="cpu", more memory or fewer columns.'
        )
    return columns


def _first_choice(fit):
    """Columns that are enough to go on with, where models are cheap: the support may double.

    A step that was cut short holds all columns of its target, most of which will leave again.
    """
    if not fit.shortened:
        fit.chosen = max(FEWEST, 2 * np.count_nonzero(fit.coef))
    return fit.chosen


def count(fit, columns):
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


def lend(fit, penalty, n_borrowers):
    """Coroutine: the model at the optimum as a `Loan`; None where it is not worth it."""
    columns = near(fit, penalty, NEAR_LATER)
    if penalty.needs_matrix or not len(columns):  # its own matrix, always
        return None
    kind = yield from _kind_lent(fit, columns, n_borrowers)
    if kind is None and fit.model is None:
        kind = Diagonal
    if kind is not None and not isinstance(fit.model, kind):
        fit.model = yield from kind.take(len(fit.coef), fit.secants, columns, columns)
    if len(missing := fit.model.lacks(columns)):
        yield from fit.model.extend(missing)
    yield from fit.model.have_matrix()
    return replace(fit.model.lent(), level=fit.level)


def _kind_lent(fit, columns, n_borrowers):
    """Coroutine: the base that is worth being taken for a loan; None: as it is."""
    if not (fit.room.counts and len(columns) <= fit.most_columns):
        return None
    counts = yield from count(fit, columns)
    if fit.room.holds:
        return HeldMatrix if counts.pairs < np.inf else None
    is_coupled = isinstance(fit.model, SampledMatrix | OwnMatrix) or fit.secants.is_coupled
    cost = costs.of_matrix(counts, len(columns), n_borrowers)
    return OwnMatrix if is_coupled and cost < costs.ITERATIONS_OF_BORROWER else None


def borrow(fit, loan, share, fixed):
    """Take a share of another fit's model, without the columns that are fixed here."""
    form = HeldLoan if fit.room.holds and len(loan.matrix) else LentModel
    fit.model, fit.level = form(len(fit.coef), fit.secants, loan, share, fixed), loan.level
