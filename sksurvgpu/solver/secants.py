"""The quadratic model of fits whose rows are far: a matrix that is kept current by secants.

Exchanges with the rows are what such a fit costs, and it has whole gradients for nothing.  With s
the change of the coefficients over an iteration and y minus that of the gradient, the model G
becomes (Broyden, Fletcher, Goldfarb, Shanno)

    G + y y' / s'y - G s s'G / s'Gs,

whose product with s is y.  So the matrix that the backend gives, which may be one of few rows or a
diagonal, need not be good, nor ever be taken again.  Where ``s'y < DAMPING s'Gs``, y is pulled
towards G s until they are equal (Powell, 1978), and G stays positive definite.

The matrix is kept as ``base + A'A - T'T``, two rows a pair: fits that share a base have these alone
of their own, and the sum exists only while it is minimized.
"""

from __future__ import annotations

import numpy as np

from ..backends.contract import Operations, ask
from .minimize import Quadratic
from .models import LOOSE, OwnMatrix, finite, grown

PAIRS = 100  # that are remembered; with 10, a diagonal took half as many iterations again
DAMPING = 1e-3
# A model is taken anew after so many iterations where one gains less than half.
OLD = 3
# A matrix that is off by no more than this share is better than pairs from afar.
ACCURATE = 0.2
OUTSIDE = 0.5  # largest share of a pair that may be due to other columns
FAR_OFF = 10.0  # times too large or too small: scaled
# A better matrix is asked for after so many shortened searches in a row, or iterations that have
# not halved the residual.
SHORTENED, SLOW = 3, 10


class Secants:
    """Pairs (s, y) of a fit, whatever its model and its penalty, and how it fares with them."""

    def __init__(self):
        self._shortened = self._slow = 0
        self._residual = np.inf
        self.forget()

    def forget(self):
        """Forget all pairs."""
        self.pairs, self.n_seen = [], 0

    def learn(self, step, change, share):
        """Take in an iteration, of which a share was taken."""
        self._shortened = 0 if share == 1.0 else self._shortened + 1
        if share > 0 and step.any():
            self.pairs = [*self.pairs, (step, change)][-PAIRS:]
            self.n_seen += 1

    def trouble(self, residual):
        """Whether steps are too long, and whether they gain too little; asked once an iteration."""
        self._slow += 1
        if not 0.5 * self._residual < residual <= 2.0 * self._residual:
            self._slow, self._residual = 0, residual
        long, slow = self._shortened >= SHORTENED, self._slow >= SLOW
        if long or slow:
            self._shortened = self._slow = 0
        return long, slow


class SecantMatrix(OwnMatrix):
    """A positive semidefinite matrix, own or lent, and the pairs of its fit."""

    def __init__(self, n_columns, secants, weight=1.0):
        super().__init__(n_columns)
        self._secants, self.weight = secants, weight
        self._age, self._is_lent = 0, False
        self._forget_pairs()

    @classmethod
    def taken_for(cls, fit, columns):
        """Coroutine: the model at the last evaluation, with some columns."""
        own = cls(len(fit.coef), fit.secants)
        yield from ask(Operations.refer)
        yield from own.extend(columns)
        if own._is_accurate():
            fit.secants.forget()
        return own

    @classmethod
    def of_loan(cls, fit, loan, share, fixed):
        """A share of another fit's matrix, without columns that are fixed here."""
        own, kept = cls(len(fit.coef), fit.secants, share), np.flatnonzero(~fixed[loan.columns])
        own._is_lent, own.matrix = True, loan.matrix
        if len(kept) < len(loan.columns):
            own.matrix = loan.matrix[np.ix_(kept, kept)]
        curvature = share * np.diagonal(own.matrix)
        own._append(loan.columns[kept], np.column_stack([curvature, curvature]))
        return own

    def is_stale(self, violation, previous):
        self._age += 1
        return self._age > OLD and super().is_stale(violation, previous)

    def extend(self, columns):
        if self._is_lent:  # where it was taken is nowhere here
            yield from ask(Operations.refer)
        yield from super().extend(columns)
        self._forget_pairs()

    def _take_products(self, known):
        if not self._is_lent:
            yield from super()._take_products(known)
            return
        alone = np.diag(finite(self.curvature[known:]) / self.weight)
        rows = np.hstack([np.zeros((len(alone), known)), alone])
        self.matrix = grown(self.matrix, rows)

    def _forget_products(self, lost):
        self.matrix[lost] = 0.0
        self.matrix[:, lost] = 0.0
        self.matrix[lost, lost] = self.curvature[lost, 1]
        self._forget_pairs()

    def stiffen(self):
        """Be steeper along every column: a matrix may have no curvature along a step."""
        self.matrix = self.matrix + np.diag(np.diagonal(self.matrix))
        self._forget_pairs()

    def quadratic(self, share):
        self._follow()
        matrix = self.whole()
        curvature = np.diagonal(matrix) / share
        np.fill_diagonal(matrix, curvature)
        return Quadratic(matrix, 1.0, curvature)

    def whole(self):
        """The matrix with all that pairs have made of it."""
        matrix = self.weight * self.matrix
        for sign, rows in ((1.0, self._added), (-1.0, self._taken)):
            rows = np.array(rows).reshape(-1, len(matrix))
            matrix += sign * (rows.T @ rows)
        return matrix

    # -- pairs ----------------------------------------------------------------------------------
    def _forget_pairs(self):
        self._added, self._taken, self._n_applied = [], [], 0

    def _follow(self):
        """Apply the pairs that are new, or all that are left once it has too many."""
        secants = self._secants
        if len(self._added) >= 2 * PAIRS:
            self._forget_pairs()
        new = min(secants.n_seen - self._n_applied, len(secants.pairs))
        if not self._n_applied:
            self._rescale()
        has_slope = (np.diagonal(self.matrix) > 0.0) & (self.curvature[:, 0] != LOOSE)
        for step, change in secants.pairs[len(secants.pairs) - new :]:
            own = has_slope * step[self.columns], has_slope * change[self.columns]
            whole = step @ change
            if abs(whole - own[0] @ own[1]) <= OUTSIDE * abs(whole):
                self._apply(*own)
        self._n_applied = secants.n_seen

    def _rescale(self):
        """Have the matrix itself be of the right size along the last step."""
        for step, change in self._secants.pairs[-1:]:
            step = step[self.columns]
            own = self.weight * (step @ self.matrix @ step)
            ratio = step @ change[self.columns] / own if own > 0.0 else 1.0
            if ratio > 0.0 and not 1.0 / FAR_OFF < ratio < FAR_OFF:
                self.weight *= ratio

    def _is_accurate(self):
        """Whether the matrix itself has the last pair, nearly."""
        scale, pairs = np.diagonal(self.matrix), self._secants.pairs[-1:]
        for step, change in pairs:
            inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0.0)
            change = change[self.columns]
            error = change - self.matrix @ step[self.columns]
            return error**2 @ inverse < ACCURATE**2 * (change**2 @ inverse)
        return False

    def _apply(self, step, change):
        product = self.weight * (self.matrix @ step)
        for sign, rows in ((1.0, self._added), (-1.0, self._taken)):
            rows = np.array(rows).reshape(-1, len(step))
            product += sign * (rows.T @ (rows @ step))
        own, seen = step @ product, step @ change
        if not own > 0.0:  # it moved other columns
            return
        if seen < DAMPING * own:
            mix = (1.0 - DAMPING) * own / (own - seen)
            change, seen = mix * change + (1.0 - mix) * product, DAMPING * own
        self._added.append(change / np.sqrt(seen))
        self._taken.append(product / np.sqrt(own))


def lend_secants(fit, columns):
    """Coroutine: columns and matrix of the model at the optimum, with some that it may lack."""
    model = fit.model
    if not isinstance(model, SecantMatrix):
        model = yield from SecantMatrix.taken_for(fit, columns)
    missing = model.lacks(columns)
    if 0 < len(missing) <= fit.most_columns - len(model.columns):
        yield from model.extend(missing)
    matrix = model.quadratic(1.0).matrix
    kept = np.diagonal(matrix) > 0
    return model.columns[kept], matrix if kept.all() else matrix[np.ix_(kept, kept)]
