"""The forms that the quadratic model can take.

A form knows which columns it has, when it is stale, and how to minimize itself under a penalty:

    Sweeps     passes of coordinate descent over columns of X
    OwnMatrix  its Gram matrix, taken for this fit
    LentMatrix the matrix of another fit's model, a `problem.Loan`
    HeldMatrix, HeldLoan    the same where the backend keeps matrices
"""

from __future__ import annotations

import numpy as np

from ..backends.contract import Operations, ask
from .blocks import Blocks
from .minimize import Quadratic, minimize_on_matrix

STALE_IF_CHEAP = 0.05  # share of the residual that is left where taking a model costs little
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
        if not len(columns):
            return columns
        return columns[(penalty.rests(fit.gradient, fit.noise) & penalty.is_penalized)[columns]]

    def minimize(self, fit, penalty, work, tolerance, residual, shrink):
        """Coroutine: coefficients of the working set that bring the model near its minimum."""
        raise NotImplementedError

    def minimize_nearer(self, fit, penalty, accuracy, share):
        """Coroutine: its columns under the model with their curvature divided by `share`.

        What the columns have in common stays, so that no direction is without curvature, as those
        are that only rows of nearly no curvature see.  A model without a matrix takes every column
        by itself.
        """
        yield from ()
        return self._minimize_here(fit, penalty, _enough(accuracy), share)

    def _minimize_here(self, fit, penalty, enough, share, start=None):
        """Coefficients that minimize it in the memory of the host, by way of those at `start`."""
        columns, model = self.columns, self.quadratic(share)
        coef, gradient = fit.coef[columns], fit.gradient[columns]
        if start is not None:
            gradient -= model.times(start - coef)
            coef = start.copy()
        return minimize_on_matrix(
            model, penalty, columns, coef, gradient, fit.unit[columns], enough
        )

    def quadratic(self, share):
        """What is minimized, with its curvature divided by `share`."""
        return Quadratic(self._steeper(share), self.weight, finite(self.curvature) / share)

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

    def have_matrix(self):
        """Coroutine: have it in the memory of the host."""
        yield from ()

    def minimize(self, fit, penalty, work, *accuracy):
        if penalty.needs_matrix:
            yield from self.have_matrix()
            enough = _enough(accuracy) * fit.unit
            matrix = self.quadratic(1.0).matrix
            return penalty.minimize_on_matrix(matrix, fit.gradient, fit.coef, enough)
        return (yield from self.minimize_nearer(fit, penalty, accuracy, 1.0))


class OwnMatrix(Matrix):
    """The matrix of this fit's model."""

    stale = 0.5

    def is_stale(self, violation, previous):
        stale = STALE_IF_CHEAP if self.is_cheap else self.stale
        return violation[self.columns].max(initial=0.0) > stale * previous

    def extend(self, columns):
        known = len(self.columns)
        yield from super().extend(columns)
        yield from self._take_products(known)
        self._forget_products(self.curvature[:, 0] == LOOSE)

    def _take_products(self, known):
        rows = yield from ask(Operations.gram, self.columns, known)
        self.matrix = rows if known == 0 else grown(self.matrix, rows)

    def _forget_products(self, lost):
        # entries without a second term beside entries with one would not be of a convex model
        self.matrix[lost] = 0.0
        self.matrix[:, lost] = 0.0
        np.fill_diagonal(self.matrix, finite(self.curvature))

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
        curvature = weight * self._take_loan(loan, kept)
        self._append(loan.columns[kept], np.column_stack([curvature, curvature]))

    def _take_loan(self, loan, kept):
        """Take the columns of a loan that are kept; the diagonal of their matrix."""
        self.matrix = loan.matrix
        if len(kept) < len(loan.columns):
            self.matrix = self.matrix[np.ix_(kept, kept)]
        return np.diagonal(self.matrix)

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


class Held:
    """A matrix that the backend keeps and descends on, as long as that is quick."""

    lent: bool

    def where(self):
        """Positions of its columns in the backend's matrix; -1 for those that stand alone."""
        raise NotImplementedError

    def minimize_nearer(self, fit, penalty, accuracy, share):
        start, enough, columns = None, _enough(accuracy), self.columns
        if penalty.formulas.block is None:
            point = self.where(), fit.coef[columns], fit.gradient[columns]
            model = finite(self.curvature) / share, self.weight
            rest = penalty.of_columns(columns), fit.unit[columns], enough, self.lent
            start, largest = yield from ask(Operations.descend, *point, *model, *rest)
            if largest <= enough:
                return start
        yield from self.have_matrix()
        return self._minimize_here(fit, penalty, enough, share, start)


class HeldMatrix(Held, OwnMatrix):
    """The matrix of this fit's model, held by the backend: taken anew where others are kept."""

    is_cheap, lent = True, False

    def _take_products(self, known):
        yield from ask(Operations.hold, self.columns, known)
        self.matrix = np.empty((0, 0))

    def _forget_products(self, lost):
        if len(self.matrix):
            super()._forget_products(lost)

    def where(self):
        return np.where(self.curvature[:, 0] == LOOSE, -1, np.arange(len(self.columns)))

    def have_matrix(self):
        if len(self.matrix) < len(self.columns):
            self.matrix = yield from ask(Operations.gram, self.columns, 0)
            self._forget_products(self.curvature[:, 0] == LOOSE)


class HeldLoan(Held, LentMatrix):
    """A share of a matrix that the backend has for all fits of a batch."""

    lent = True

    def _take_loan(self, loan, kept):
        self._loan, self._kept = loan, kept
        return np.diagonal(loan.matrix)[kept]

    def where(self):
        where = np.full(len(self.columns), -1)
        where[: len(self._kept)] = self._kept
        return where

    def have_matrix(self):
        if len(self.matrix) < len(self._kept):
            super()._take_loan(self._loan, self._kept)
        yield from ()


def _enough(accuracy):
    """Violations until which a matrix is minimized."""
    tolerance, residual, _ = accuracy
    return max(SHARE_OF_TOLERANCE * tolerance, SHARE_OF_RESIDUAL * residual)


def finite(curvature):
    """Curvature that models compute with."""
    return np.where(curvature[:, 0] == LOOSE, curvature[:, 1], curvature[:, 0])


def grown(matrix, rows):
    """A symmetric matrix with more rows, which begin with those of its columns."""
    known, size = rows.shape[1] - len(rows), rows.shape[1]
    larger = np.empty((size, size))
    larger[:known, :known] = matrix
    larger[known:] = rows
    larger[:known, known:] = rows[:, :known].T
    return larger
