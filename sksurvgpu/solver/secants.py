"""Secants: what the iterations of a fit have shown of the curvature that its model lacks.

With s the change of the coefficients over an iteration and y minus that of the gradient, the model
G becomes (Broyden, Fletcher, Goldfarb, Shanno)

    G + y y' / s'y - G s s'G / s'Gs,

whose product with s is y.  So the base of the model, which may be a diagonal, or a matrix of a few
rows or of long ago, need not be good, nor ever be taken again.  Where ``s'y < DAMPING s'Gs``, y is
pulled towards G s until they are equal (Powell, 1978), and G stays positive definite.

The pairs are kept as two vectors each beside the base, and never written out.
"""

from typing import NamedTuple

import numpy as np

from .._compile import kernel

KNOWN = 1e-8  # error of the model's product that is rounding
PAIRS = 50  # that are remembered; with 10, a diagonal took half as many iterations again
DAMPING = 1e-3
SHORT = 1e-3  # share of a step
LEAST_ROOM = 8  # terms
# Curvature of a step over that of its columns, 1 where these are independent: beyond, a matrix is
# worth its cost, and where steps are dear, of rows in partitions.
COUPLED, COUPLED_IF_DEAR = 2.5, 1.25
OUTSIDE = 0.5  # largest share of a pair that may be due to other columns
# A better base is asked for after so many shortened searches in a row, or iterations that have not
# halved the residual.
SHORTENED, SLOW = 3, 10


class Pair(NamedTuple):
    """A step, what it has changed, and whether it was cut short."""

    step: np.ndarray
    change: np.ndarray
    is_short: bool
    seen: float  # s'y, as far as y is known


class Secants:
    """Pairs (s, y) of a fit, whatever its model and its penalty, and how it fares with them.

    Entries of y are nan where the gradient was not asked for.
    """

    def __init__(self, steps_are_dear=False):
        self._limit = COUPLED_IF_DEAR if steps_are_dear else COUPLED
        self._shortened = self._slow = 0
        self._residual = np.inf
        self.coupling = 1.0  # curvature along the last step, over that of its columns by themselves
        self.forget()

    def forget(self):
        """Forget all pairs."""
        self.pairs, self.n_seen = [], 0

    def keep(self, n_pairs):
        """Forget all but the latest pairs."""
        self.pairs = self.pairs[-n_pairs:]

    def learn(self, step, change, share):
        """Take in an iteration, of which a share was taken."""
        self._shortened = 0 if share == 1.0 else self._shortened + 1
        if share > 0 and step.any():
            seen = float(step @ change)
            if np.isnan(seen):
                moved = np.flatnonzero(step)
                seen = float(np.nansum(step[moved] * change[moved]))
            self.pairs = [*self.pairs, Pair(step, change, share < SHORT, seen)][-PAIRS:]
            self.n_seen += 1

    def see_coupling(self, model, step, curvature):
        """Take in how columns that move together curve: by a diagonal model, before it learns."""
        own = model.curvature @ step[model.columns] ** 2
        self.coupling = curvature / own if own > 0.0 else 1.0

    @property
    def is_coupled(self):
        """Whether columns are correlated, as far as is known."""
        return self.coupling > self._limit

    def trouble(self, residual):
        """Whether steps are too long, and whether they gain too little; asked once an iteration."""
        self._slow += 1
        if not 0.5 * self._residual < residual <= 2.0 * self._residual:
            self._slow, self._residual = 0, residual
        long, slow = self._shortened >= SHORTENED, self._slow >= SLOW
        if long or slow:
            self._shortened = self._slow = 0
        return long, slow

    def new_since(self, n_applied):
        """Pairs that are not among the first `n_applied`, those that are left of them."""
        new = min(self.n_seen - n_applied, len(self.pairs))
        return self.pairs[len(self.pairs) - new :]


class SecantTerms:
    """Pairs as terms of a model: ``rows diag(sign) rows'``, two of each pair.

    `rows` has room for more terms than there are signs; those beyond do not count.
    """

    def __init__(self, rows, sign):
        self._room, self.sign = np.ascontiguousarray(rows), sign
        self.diagonal = np.square(rows) @ sign
        self._most, self.n_applied = len(sign) + 3 * PAIRS, 0  # some go at a time

    @property
    def rows(self):
        """(n_columns, at least n_terms)."""
        return self._room

    @property
    def _rows(self):
        return self._room[:, : len(self.sign)]

    def times(self, move):
        """Product with a vector."""
        return self._rows @ (self.sign * (move @ self._rows))

    def is_full(self):
        return len(self.sign) >= self._most

    def extend(self, n_columns):
        """Have columns more, of which no pair knows."""
        self._room = np.vstack([self._room, np.zeros((n_columns, self._room.shape[1]))])
        self.diagonal = np.concatenate([self.diagonal, np.zeros(n_columns)])

    def add(self, pair, columns, product, is_free):
        """Let the model's product with the step of a pair, which is `product`, be its change.

        Entries of columns that are not free are none.
        """
        n_terms = len(self.sign)
        if n_terms + 2 > self._room.shape[1]:
            more = np.zeros((len(self._room), max(LEAST_ROOM, n_terms)))
            self._room = np.hstack([self._room, more])
        step, change, terms = pair.step[columns], pair.change[columns], self._room[:, n_terms:]
        seen, is_short = pair.seen, pair.is_short
        if _write(step, change, product, is_free, seen, is_short, terms, self.diagonal):
            self.sign = np.concatenate([self.sign, (1.0, -1.0)])


@kernel
def _write(step, change, product, is_free, seen, is_short, terms, diagonal):
    """Write the two terms of a pair, and add their squares; whether it has told anything.

    It has not where most of it is due to columns that are not free, where the model says the same,
    nor where a step was cut short and has hardly any curvature, which would make the next one
    longer still.
    """
    own, found, size, new = 0.0, 0.0, 0.0, 0.0
    for a in range(len(step)):
        if not is_free[a]:
            change[a] = product[a] = 0.0
        elif np.isnan(change[a]):
            change[a] = product[a]
        own += step[a] * product[a]
        found += step[a] * change[a]
        size += change[a] ** 2
        new += (change[a] - product[a]) ** 2
    share = 1.0  # of the change, the rest being of the product
    if not (own > 0.0 and abs(seen - found) <= OUTSIDE * abs(seen)) or new <= KNOWN**2 * size:
        return False
    if found < DAMPING * own:
        if is_short:
            return False
        share, found = (1.0 - DAMPING) * own / (own - found), DAMPING * own
    for a in range(len(step)):
        plus = (share * change[a] + (1.0 - share) * product[a]) / np.sqrt(found)
        minus = product[a] / np.sqrt(own)
        terms[a, 0], terms[a, 1] = plus, minus
        diagonal[a] += plus * plus - minus * minus
    return True
