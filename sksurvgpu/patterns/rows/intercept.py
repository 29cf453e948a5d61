"""The intercept of rows in partitions, from sums of scores and their slopes at a few nodes.

Scores are a smooth function of the intercept, so that the polynomial with their values and slopes
at Chebyshev nodes (Hermite's) knows them on the whole interval between: one exchange in place of
one for every step of Newton's method.  Their integral is the log-likelihood, less that of a node.
The error is about the last coefficients times T^2, T being the polynomial that is zero at the
nodes.  A link whose scores have poles near the real axis (complementary log-log: at a distance of
pi / 2) leaves 1e-9 of that; nodes are then asked for once more, with one of them at the root that
was found.  So are first nodes always: near the end of a fit nothing is left of it.

Beyond the nodes scores go on as ``a - b exp(k t)``, whose root is known.  Poisson's are that, and
so are the tails of other links.
"""

import numpy as np
from numpy.polynomial import chebyshev
from scipy.optimize import brentq

from ...backends.sums.messages import MIDDLE, NODES, around, nodes

ENOUGH = 2e-12  # by the last coefficients, twenty times the error and more
NOISE = 1e-9  # relative: what is less is lost to rounding in tails of the scores
MOST_ASKS, MOST_REFINEMENTS = 64, 2
LONGEST, LONGER = 16.0, 4.0  # first move to where no root is known to be before, and its growth
DEGREE = 2 * NODES - 1


def _find_terms():
    """Matrix that makes Chebyshev coefficients of values and slopes at the nodes."""
    where, every = nodes(0.0), np.eye(DEGREE + 1)
    values = [chebyshev.chebval(where, term) for term in every]
    slopes = [chebyshev.chebval(where, chebyshev.chebder(term)) for term in every]
    return np.linalg.inv(np.hstack([values, slopes]).T)


_TERMS = _find_terms()


def first_intercept(likelihood, mean):
    """Where to look for the intercept of outcomes with a mean, before anything else is known."""
    if likelihood.link_formula is None:
        return 0.0
    with np.errstate(all="ignore"):
        start = float(likelihood.link_formula(mean)[0])
    return start if np.isfinite(start) else 0.0


class InterceptSearch:
    """Looks for the intercept at which the scores of all rows sum to zero.

    Until `found`, the sums at ``nodes(center)`` are asked for and `read`.  Where no intercept is
    found, `loglik` is nan.
    """

    def __init__(self, start):
        self.center, self.intercept, self.loglik = around(start), start, np.nan
        self.found = False
        self._low, self._high, self._longest = -np.inf, np.inf, LONGEST
        self._asks, self._refinements = 0, 0

    def read(self, loglik, scores, curvatures):
        """Take the sums at the nodes of `center`; log-likelihood at the middle one."""
        self._asks += 1
        if np.isfinite(loglik) and np.isfinite(scores).all() and np.isfinite(curvatures).all():
            score = _TERMS @ np.concatenate([scores, -curvatures])
            left, right = chebyshev.chebval([-1.0, 1.0], score)
            if left >= 0.0 >= right:
                self._find(score, loglik)
                return
            end = 1.0 if right > 0.0 else -1.0
            self._narrow(np.array([self.center + end]), np.array([right if end > 0.0 else left]))
            self._move(_distance(score, end))
        else:
            self._narrow(nodes(self.center), scores)
            self._move(np.nan)
        self.found = self._asks == MOST_ASKS

    def _find(self, score, loglik):
        """Take the root within the nodes, if it is known well enough."""
        root = 0.0
        if score.any():
            root = brentq(lambda t: chebyshev.chebval(t, score), -1.0, 1.0, xtol=1e-15)
        self.intercept = self.center + root
        slope = abs(chebyshev.chebval(root, chebyshev.chebder(score)))
        total = chebyshev.chebint(score, lbnd=nodes(0.0)[MIDDLE])
        loglik = float(loglik + chebyshev.chebval(root, total))
        left_over = 2.0 * np.cos(NODES * np.arccos(root)) ** 2 * np.abs(score[-2:]).max()
        is_known = left_over <= ENOUGH * min(slope, abs(loglik))
        if is_known or self._refinements == MOST_REFINEMENTS:
            self.loglik, self.found = loglik, True
        else:
            self._refinements += 1
            self.center = around(self.intercept)

    def _narrow(self, where, scores):
        """Scores fall with the intercept: the root lies right of positive ones."""
        if np.isnan(scores).all():  # nor does it lie beyond where nothing can be computed
            if self.center < self._high < np.inf:
                self._low = max(self._low, self.center)
            elif self.center > self._low > -np.inf:
                self._high = min(self._high, self.center)
        self._low = max(self._low, where[scores > 0.0].max(initial=-np.inf))
        self._high = min(self._high, where[scores < 0.0].min(initial=np.inf))

    def _move(self, distance):
        """Look elsewhere: so far beyond the nodes, or halfway where that cannot be or is slow."""
        low, high = self._low, self._high
        if np.isfinite(low) and np.isfinite(high):
            moved = (low if self.center < low else high) + distance
            if not low < moved < high or self._asks % 4 == 0:
                moved = 0.5 * (low + high)
        else:
            step = abs(distance)
            if not step < self._longest:
                step, self._longest = self._longest, LONGER * self._longest
            # where even the sign is not known, overflow is: to the left there is less of it
            moved = low + step if np.isfinite(low) else min(high, self.center) - step
        self.center = around(moved)


class QuadraticSearch:
    """Looks for the intercept where scores are a line: one node says all, whatever their scale.

    What cancels in the log-likelihood, where the root is far, is asked for once more.
    """

    def __init__(self, start):
        self.center, self.intercept, self.loglik = around(start), start, np.nan
        self.found = self._is_again = False

    def read(self, loglik, scores, curvatures):
        """Take the sums at the nodes of `center`; log-likelihood at the middle one."""
        move = scores[MIDDLE] / curvatures[MIDDLE]
        gain = 0.5 * scores[MIDDLE] * move
        self.intercept = nodes(self.center)[MIDDLE] + move
        self.center, self.loglik = around(self.intercept), float(loglik + gain)
        self.found = self._is_again or not gain > abs(self.loglik)
        self._is_again = True


def _distance(score, end):
    """From an end of the nodes to where ``a - b exp(k t)``, which continues scores, is zero.

    Not finite where there is no such place ahead.
    """
    value = chebyshev.chebval(end, score)
    slope, bend = (chebyshev.chebval(end, chebyshev.chebder(score, m)) for m in (1, 2))
    with np.errstate(all="ignore"):
        newton = -value / slope
        rate = bend / slope
        # log1p(rate * newton) / rate, which is Newton's step where nothing bends
        distance = newton if abs(rate * newton) < 1e-8 else np.log1p(rate * newton) / rate
    is_known = abs(slope) > NOISE * abs(value) and rate * newton > NOISE - 1.0
    is_ahead = distance * end > 0.0 and is_known
    return distance if is_ahead else np.nan
