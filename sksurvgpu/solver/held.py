"""Models whose matrix the backend keeps, and minimizes as long as that is quick."""

from __future__ import annotations

import numpy as np

from ..backends.contract import Operations, ask
from .models import LentModel, OwnMatrix


class Held:
    """A matrix that the backend keeps and descends on, as long as that is quick."""

    is_lent: bool

    def where(self):
        """Positions of its columns in the backend's matrix; -1 for those that stand alone."""
        raise NotImplementedError

    def _minimize(self, point, goal, least, share):
        start, columns = None, self.columns
        if goal.penalty.formulas.block is None:
            at = self.where(), point.coef[columns], point.gradient[columns]
            model = self.curvature / share, self.weight
            rest = goal.penalty.of_columns(columns), goal.unit[columns], least, self.is_lent
            start, largest = yield from ask(Operations.descend, *at, *model, *rest)
            if largest <= least:
                return start
        yield from self.have_matrix()
        return self._minimize_here(point, goal, least, share, start)


class HeldMatrix(Held, OwnMatrix):
    """The matrix of this fit's model, held by the backend: taken anew where others are kept."""

    is_cheap, is_lent = True, False

    def extend(self, columns):
        known, every = len(self.columns), np.concatenate([self.columns, columns])
        curvature, _ = yield from ask(Operations.curvature, columns)
        yield from ask(Operations.hold, every, known)
        self._append(columns, curvature[:, 0])
        self.matrix = np.empty((0, 0))

    def _forget_products(self, lost):
        if len(self.matrix):
            super()._forget_products(lost)

    def where(self):
        return np.where(self.loose, -1, np.arange(len(self.columns)))

    def have_matrix(self):
        if len(self.matrix) < len(self.columns):
            self.matrix = yield from ask(Operations.held)
            self._forget_products(self.loose)


class HeldLoan(Held, LentModel):
    """A share of a matrix that the backend has for all fits of a batch."""

    is_lent = True

    def _take_matrix(self, loan, kept):
        self._loan, self._kept = loan, kept

    def where(self):
        where = np.full(len(self.columns), -1)
        where[: len(self._kept)] = np.where(self._kept < len(self._loan.matrix), self._kept, -1)
        return where

    def have_matrix(self):
        if len(self.matrix) < len(self._kept):
            super()._take_matrix(self._loan, self._kept)
        yield from ()
