"""The quadratic model of the log-likelihood around a reference point, in the forms it can take.

The model sets the rate of convergence and never the limit: gradient, line search and certificate
are exact, whatever its age.  A form knows which columns it has, when it is stale, what it costs
(`costs`), and how to minimize itself under a penalty:

    Sweeps     passes of coordinate descent over columns of X
    OwnMatrix  its Gram matrix, taken for this fit
    LentMatrix the matrix of another fit's model, a `problem.Loan`

`have_model` decides which of them a fit goes on with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..backends.contract import Operations, ask
from . import costs
from .blocks import Blocks
from .minimize import Quadratic, minimize_on_matrix

NEAR = 0.95  # columns whose slope exceeds this share of what moves them are worked on
NEAR_LATER = 0.5  # ... join the matrix where smaller penalties follow, or where it is lent
STALE_IF_CHEAP = 0.05  # share of the residual that is left where taking a model costs little
FEWEST = 100  # columns with which a fit by cheap models begins
LOOSE = np.inf  # stands for the curvature of a column that lost it
# A matrix is minimized until violations are these shares of the tolerance, or of the residual.
SHARE_OF_TOLERANCE, SHARE_OF_RESIDUAL = 0.2, 0.02


class Model:
    """A form of the model; coroutines ask for what they need."""

    is_matrix: bool
    is_cheap = False  # whether taking it anew costs less than the rest of an iteration
    weight = 1.0  # share of the matrix that is the model's
    # The model is retaken where the residual of its columns fell to more than this share.
    stale: float

    def __init__(self, n_columns):
        self.columns = np.empty(0, np.int64)
        self.curvature = np.empty((0, 2))  # with the model's second term, or LOOSE, and without
        self._has = np.zeros(n_columns, bool)
        self.matrix = np.empty((0, 0))  # over the columns, in memory of the host

    @classmethod
    def take(cls, n_columns, columns):
        """Coroutine: the model at the last evaluation, with some columns."""
        model = cls(n_columns)
        yield from ask(Operations.refer)
        yield from model.extend(columns)
        return model

    def extend(self, columns):
        """Coroutine: take more columns in, at the reference point."""
        curvature = yield from ask(Operations.load, columns)
        self._append(columns, curvature)

    def _append(self, columns, curvature):
        self.columns = np.concatenate([self.columns, columns])
        self.curvature = np.concatenate([self.curvature, curvature])
        self._has[columns] = True

    def lacks(self, columns):
        """Which of the columns it does not have."""
        return columns[~self._has[columns]]

    def outside(self, violation):
        """Violations of the columns that it does not have; those of its own are zero."""
        return np.where(self._has, 0.0, violation)

    def is_stale(self, violation, previous):
        """Whether its columns have gained too little; columns new to it do not count."""
        return violation[self.columns].max(initial=0.0) > self.stale * previous

    def cover(self, work, violation, n_fitting, penalty):
        """Coroutine: have the columns to work on; whether that was possible."""
        raise NotImplementedError

    def loosen(self, violation):
        """Coroutine: go without the second term for columns whose curvature it has taken away.

        They are constant within bins up to rounding, but not in the likelihood.
        """
        lost = (self.curvature[:, 0] <= 0) & (violation[self.columns] > 0)
        if lost.any():
            yield from ask(Operations.loosen, self.columns[lost])
            self.curvature[lost, 0] = LOOSE
            self._forget_products(lost)

    def _forget_products(self, lost):
        """Take out what the second term has left between lost columns and others."""

    def without_effect(self, fit, penalty):
        """Penalized columns that the likelihood does not see at this point, as constant ones."""
        columns = self.columns[self.curvature[:, 0] == LOOSE]
        return columns[(penalty.rests(fit.gradient, fit.noise) & penalty.is_penalized)[columns]]

    def minimize(self, fit, penalty, work, tolerance, residual, shrink):
        """Coroutine: coefficients of the working set that bring the model near its minimum."""
        raise NotImplementedError

    def minimize_nearer(self, fit, penalty, accuracy, share):
        """Coefficients of its columns under the model with their curvature divided by `share`.

        What the columns have in common stays, so that no direction is without curvature, as those
        are that only rows of nearly no curvature see.  A model without a matrix takes every column
        by itself.
        """
        tolerance, residual, _ = accuracy
        inner = max(SHARE_OF_TOLERANCE * tolerance, SHARE_OF_RESIDUAL * residual)
        return minimize_on_matrix(
            Quadratic(self._steeper(share), self.weight, _finite(self.curvature) / share),
            penalty,
            self.columns,
            fit.coef[self.columns],
            fit.gradient[self.columns],
            fit.unit[self.columns],
            inner,
        )

    def _steeper(self, share):
        """The matrix with its diagonal divided by `share`."""
        if share == 1.0:
            return self.matrix
        matrix = self.matrix.copy()
        np.fill_diagonal(matrix, np.diagonal(matrix) / share)
        return matrix


class Sweeps(Model):
    """Passes over columns of X, by the backend, which keeps what they need."""

    is_matrix = False
    stale = 0.2
    passes = 10.0  # of the last sweep, over all its columns

    def __init__(self, n_columns):
        super().__init__(n_columns)
        self.blocks = Blocks(n_columns)

    def _forget_products(self, lost):
        self.blocks.clear()

    def cover(self, work, violation, n_fitting, penalty):
        if len(missing := self.lacks(work)):
            yield from self.extend(missing)
        yield from self.loosen(violation)
        return True

    def minimize(self, fit, penalty, work, tolerance, residual, shrink):
        own = penalty.of_columns(work)
        if penalty.formulas.block is not None:
            own = yield from self.blocks.complete(own, work, self)
        request = work, fit.coef[work], own, fit.unit[work], shrink
        target, self.passes = yield from ask(Operations.sweep, *request)
        return target


class Matrix(Model):
    """A matrix over the model's columns."""

    is_matrix = True

    def minimize(self, fit, penalty, work, tolerance, residual, shrink):
        yield from ()
        if penalty.needs_matrix:
            enough = max(SHARE_OF_TOLERANCE * tolerance, SHARE_OF_RESIDUAL * residual) * fit.unit
            return penalty.minimize_on_matrix(self.matrix, fit.gradient, fit.coef, enough)
        return self.minimize_nearer(fit, penalty, (tolerance, residual, shrink), 1.0)


class OwnMatrix(Matrix):
    """The matrix of this fit's model."""

    stale = 0.5

    def is_stale(self, violation, previous):
        stale = STALE_IF_CHEAP if self.is_cheap else self.stale
        return violation[self.columns].max(initial=0.0) > stale * previous

    def extend(self, columns):
        known = len(self.columns)
        yield from super().extend(columns)
        rows = yield from ask(Operations.gram, self.columns, known)
        self.matrix = rows if known == 0 else _grown(self.matrix, rows)
        self._forget_products(self.curvature[:, 0] == LOOSE)

    def _forget_products(self, lost):
        # entries without a second term beside entries with one would not be of a convex model
        self.matrix[lost] = 0.0
        self.matrix[:, lost] = 0.0
        np.fill_diagonal(self.matrix, _finite(self.curvature))

    def cover(self, work, violation, n_fitting, penalty):
        missing = self.lacks(work)
        if len(self.columns) + len(missing) > n_fitting:
            return False
        if len(missing) and violation[missing].any():
            yield from self.extend(missing)
        yield from self.loosen(violation)
        return True


class LentMatrix(Matrix):
    """A share of another fit's matrix.  Columns that it lacks move as if they were alone.

    These are few, near zero, and the line search watches over them.
    """

    stale = 0.9

    def __init__(self, n_columns, loan, weight, fixed):
        super().__init__(n_columns)
        kept, self.weight = np.flatnonzero(~fixed[loan.columns]), weight
        self.matrix = loan.matrix
        if len(kept) < len(loan.columns):
            self.matrix = self.matrix[np.ix_(kept, kept)]
        curvature = weight * np.diagonal(self.matrix)
        self._append(loan.columns[kept], np.column_stack([curvature, curvature]))

    def extend(self, columns):
        yield from ask(Operations.refer)
        yield from super().extend(columns)

    def cover(self, work, violation, n_fitting, penalty):
        missing = self.lacks(work)
        missing = self.lacks(penalty.whole(missing[violation[missing] > 0]))
        if len(self.columns) + len(missing) > n_fitting:
            return False
        if len(missing):
            yield from self.extend(missing)
        return not np.any((self.curvature[:, 0] <= 0) & (violation[self.columns] > 0))


def _finite(curvature):
    """Curvature that models compute with."""
    return np.where(curvature[:, 0] == LOOSE, curvature[:, 1], curvature[:, 0])


def _grown(matrix, rows):
    """A symmetric matrix with more rows, which begin with those of its columns."""
    known, size = rows.shape[1] - len(rows), rows.shape[1]
    grown = np.empty((size, size))
    grown[:known, :known] = matrix
    grown[known:] = rows
    grown[:known, known:] = rows[:, :known].T
    return grown


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
    if penalty.needs_matrix:
        return (yield from _have_whole_matrix(fit, violation, progress))
    work, model, most = near(fit, penalty), fit.model, _first_choice(fit)
    if most < len(work) and most <= fit.most_columns:
        counts = yield from _count(fit, work)
        # once there is a matrix, it grows with the support: it would not be left for its size
        is_cheap = isinstance(model, OwnMatrix) or costs.is_cheap(
            counts.scaled(most / len(work)), most
        )
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
        columns = np.arange(len(fit.coef))
        if len(columns) > fit.most_columns:
            raise ValueError(
                f"`penalty` needs the matrix of all {len(columns):,} columns, and the backend has "
                f'room for {fit.most_columns:,}: use backend="cpu", more memory or fewer columns.'
            )
        fit.model = yield from OwnMatrix.take(len(columns), columns)
        fit.model.is_cheap = costs.is_cheap((yield from _count(fit, columns)), len(columns))
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
    is_cheap = costs.is_cheap((yield from _count(fit, work)), len(work))
    if fit.penalties_left and not is_cheap:
        later = near(fit, penalty, NEAR_LATER)
        work = later if len(later) <= fit.most_columns else work
    elif fit.penalties_left and len(work) < _first_choice(fit):
        work = near(fit, penalty, fit.near)
    model = yield from OwnMatrix.take(n_columns, work)
    model.is_cheap = is_cheap
    return model
