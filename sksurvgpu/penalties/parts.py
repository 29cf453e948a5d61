"""The elastic net of parts: of the columns' own coefficients, and of those of their classes.

What moves from the members of a class to the class, all by as much, changes no predictor and no
log-likelihood.  Passes over coefficients are slow along such a direction, in which a penalty
that is small beside the data is all that pulls; but alone it is a minimum of one variable,

    min_t  sum_j p_j(x_j - t) + p_k(m_k + t),  p(x) = l1 |x| + l2 x^2 / 2,

whose slope is linear between the x_j and -m_k.
"""

from dataclasses import dataclass

import numpy as np

from .._compile import device, kernel
from .base import Penalty
from .elastic_net import ElasticNet

# Of moves where classes overlap: each is the best one while the others stay.  With three, fits of
# nested classes took twice the outer iterations (case series, 100,000 rows, 1,000 columns).
ROUNDS = 30
NO_SLOPE = 1e-13  # of the strengths, up to which a class is at its minimum


@device
def _slope(t, side, coef, own, k, l1, l2):
    """Slope on one side of t of the penalties of a class and its members, where t is moved."""
    at = coef[k] + t
    sign = side if at == 0.0 else np.sign(at)
    total = l2[k] * at + l1[k] * sign
    for j in own:
        left = coef[j] - t
        sign = -side if left == 0.0 else np.sign(left)
        total -= l2[j] * left + l1[j] * sign
    return total


@device
def _best_move(coef, own, k, l1, l2):
    """Best amount to take from the members of class k and to give to the class."""
    strength, bend = l1[k] + l2[k] * abs(coef[k]), l2[k]
    for j in own:
        strength += l1[j] + l2[j] * abs(coef[j])
        bend += l2[j]
    error = NO_SLOPE * strength
    left, right = _slope(0.0, -1.0, coef, own, k, l1, l2), _slope(0.0, 1.0, coef, own, k, l1, l2)
    if left <= error and right >= -error:
        return 0.0
    knots = np.empty(len(own) + 1)
    knots[0] = -coef[k]
    for a in range(len(own)):
        knots[a + 1] = coef[own[a]]
    knots.sort()
    low, high = 0, len(own)  # the first knot with an upward slope right of it is among them
    while low < high:
        middle = (low + high) // 2
        if _slope(knots[middle], 1.0, coef, own, k, l1, l2) >= 0.0:
            high = middle
        else:
            low = middle + 1
    left = _slope(knots[low], -1.0, coef, own, k, l1, l2)
    right = _slope(knots[low], 1.0, coef, own, k, l1, l2)
    if left > 0.0 and bend > 0.0:
        return knots[low] - left / bend
    if right < 0.0 and bend > 0.0:  # beyond the last one
        return knots[low] - right / bend
    return knots[low]


@kernel
def _settle(coef, n_own, indptr, indices, l1, l2, fixed, rounds):
    """Moves between classes and their members, one after the other, widest classes first."""
    for _ in range(rounds):
        moved = False
        for k in range(len(indptr) - 2, -1, -1):
            own = indices[indptr[k] : indptr[k + 1]]
            move = 0.0 if fixed[n_own + k] else _best_move(coef, own, n_own + k, l1, l2)
            if move == 0.0:
                continue
            moved = True
            coef[n_own + k] += move
            for j in own:
                coef[j] -= move
        if not moved:
            break


@dataclass(frozen=True)
class Parts(ElasticNet):
    """Elastic net of every strength, of own coefficients and then of those of classes."""

    n_own: int = 0
    indptr: np.ndarray = None  # type: ignore[assignment]  # members of classes
    indices: np.ndarray = None  # type: ignore[assignment]
    rounds: int = 1

    def at(self, lam, factor, fixed):
        return PartsPenalty(self, self.strengths(lam, factor), fixed)


class PartsPenalty(Penalty):
    """Penalties of parts of coefficients, at one strength."""

    def settled(self, coef):
        family, c, settled = self.family, self.columns, coef.copy()
        indptr, indices = family.indptr, family.indices
        _settle(settled, family.n_own, indptr, indices, c.l1, c.l2, self.fixed, family.rounds)
        return settled
