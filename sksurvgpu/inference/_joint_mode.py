r"""Random intercepts of clusters, and the coefficients beside them, at a variance v.

With the log-likelihood :math:`\ell`, the indicators Z of clusters and the penalty P of the columns,

.. math:: f_v(\beta, b) = -\ell(X\beta + Zb) + P(\beta) + \tfrac{1}{2v} b'b .

The minimum over beta at intercepts b is a fit with the offset Zb; what is left is a smooth function
of b, whose gradient is :math:`b/v - Z'u`, u being the score residuals of that fit. Its second
derivative is at most :math:`H + I/v`, :math:`H = Z'(-\ell'')Z`, and secants learn the rest, what
clusters and columns have in common. Of H there is its diagonal d, sums of h by cluster, less
:math:`dd'/\sum d` where the mean of all rows is free: exactly H with an intercept, and of risk sets
what is left of H as clusters become many and small.
"""

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backends.cpu.session import Session
from ..backends.cpu.threads import Threads, one_blas_thread

MOST_STEPS, MOST_HALVINGS, N_SECANTS = 100, 30, 8
# Units of log-likelihood, for every cluster, that another step would gain: the variance is then off
# by less than a hundred-thousandth.
CLOSE = 1e-11
LONGEST = 2.0  # of a step: rates are exponential in it, and what is expected far off is wild
SCORES = 1e-3  # that coefficients may be off where it is more, over the root of all these units


@dataclass(frozen=True, eq=False)
class JointMode:
    """Where coefficients and intercepts are at one variance."""

    variance: float
    intercepts: np.ndarray  # (n_clusters,)
    curvature: np.ndarray  # d
    pull: np.ndarray  # Z'u + d b
    solution: Any  # of the coefficients, with the intercepts in the offset
    settled: bool

    def expected_at(self, variance) -> np.ndarray:
        """Intercepts at another variance, nearly: their likelihood taken as normal."""
        return self.pull / (self.curvature + 1.0 / variance)


class Intercepts:
    """A fit with an intercept for every cluster, of any variance."""

    def __init__(self, estimator, prepared, codes, n_clusters):
        self.estimator, self.prepared, self.codes, self.n = estimator, prepared, codes, n_clusters
        problem, (self.weight, offset) = prepared.problem, prepared.batch.rows(0)
        self.offset = np.zeros(len(codes)) if offset is None else offset
        self.session = Session(problem, self.weight, None, Threads(1))
        pattern, plan = self.session.pattern, problem.plan
        self.code = plan.per_copy(codes[plan.order])
        self.own_offset = plan.per_copy(self.offset[plan.order])
        self.has_time = problem.likelihood.pattern.has_cells
        self.is_pooled = pattern.ignores_shifts and len(pattern.group_ptr) == 2
        self.alpha = float(estimator.alpha)
        self.secants = deque(maxlen=N_SECANTS)  # steps, and what they changed of Z'u
        self.plain, self._loan = prepared.solve_and_lend(self.alpha, 1)

    def offset_at(self, intercepts) -> np.ndarray:
        """Offset of the rows, of which the intercepts are part."""
        return self.offset + intercepts[self.codes]

    def sum_rows(self, of_row) -> np.ndarray:
        """Sums over clusters."""
        return np.bincount(self.code, of_row, minlength=self.n)

    def without(self) -> JointMode:
        """The fit without intercepts, whose variance is 0."""
        nothing = np.zeros(self.n)
        self.evaluate(self.predict(self.plain.coef), nothing)
        scores = self.sum_rows(self.session.u)
        return JointMode(0.0, nothing, self.curvature(), scores, self.plain, True)

    def mode(self, variance, before, close=CLOSE) -> JointMode:
        """Mode at a variance, from another one."""
        tol = float(self.estimator.tol)
        if close > CLOSE:
            tol = max(tol, SCORES * np.sqrt(close * self.n))
        descent = _Descent(self, variance, before.solution, self.prepared.with_options(tol=tol))
        with one_blas_thread():
            move = before.expected_at(variance) - before.intercepts
            first = before.intercepts + np.clip(move, -LONGEST, LONGEST)
            intercepts, settled = descent.run(first, close * self.n)
        d, pull = descent.curvature, descent.scores + descent.curvature * intercepts
        return JointMode(variance, intercepts, d, pull, descent.solution, settled)

    def refit(self, prepared, solution, intercepts):
        """Solution at the intercepts, from another one."""
        start = {"coef": solution.coef[:, None], "null": (self.plain.null,)}
        if self._loan is not None:
            start |= {"loan": self._loan, "share": np.ones(1)}
        offset = self.offset_at(intercepts)[:, None]
        return prepared.solve([self.alpha], offset=offset, **start)[0][0]

    def predict(self, coef) -> np.ndarray:
        """Predictor without intercepts."""
        out = np.empty(len(self.code))
        self.session.products.predict(coef, self.own_offset, out)
        return out

    def evaluate(self, predictor, intercepts) -> float:
        """Log-likelihood; scores and curvatures of the rows are the session's."""
        session = self.session
        np.add(predictor, intercepts[self.code], out=session.eta)
        return session.evaluate()

    def curvature(self) -> np.ndarray:
        """Sums of h by cluster, where the session is."""
        session, h = self.session, np.empty(len(self.code))
        session.pattern.observe(session.eta, session.u, h)
        return self.sum_rows(h)


class _Descent:
    """Steps in the intercepts by secants, over coefficients that follow them."""

    def __init__(self, fits, variance, solution, prepared):
        self._fits, self._variance, self.solution = fits, variance, solution
        self._prepared = prepared

    def run(self, b, enough):
        """Intercepts at the minimum, and whether it was reached."""
        gradient = self._slope(b)
        for _ in range(MOST_STEPS):
            step = -self._times_inverse(gradient)
            gain = -float(gradient @ step)
            if gain <= enough:
                return b, True
            part = min(1.0, LONGEST / np.abs(step).max())
            step, gain = part * step, part * gain
            found = self._search(b, step, gain)
            if found is None:
                return b, False
            step, after = found
            change = after - gradient - step / self._variance
            if step @ change >= 0.0:
                self._fits.secants.append((step, change))
            b, gradient = b + step, after
        return b, False

    def _slope(self, b):
        """Gradient at intercepts; None where there is none."""
        fits = self._fits
        self.solution = fits.refit(self._prepared, self.solution, b)
        if not np.isfinite(fits.evaluate(fits.predict(self.solution.coef), b)):
            return None
        self.curvature, self.scores = fits.curvature(), fits.sum_rows(fits.session.u)
        return b / self._variance - self.scores

    def _search(self, b, step, gain):
        """A step, or a part of it, and the gradient after it.

        The function is convex, so that slopes, which have more digits than values, say enough.
        """
        for _ in range(MOST_HALVINGS):
            gradient = self._slope(b + step)
            if gradient is not None and gradient @ step <= 0.5 * gain:
                return step, gradient
            step, gain = 0.5 * step, 0.5 * gain
        return None

    def _times_inverse(self, gradient):
        """Product with the inverse of the second derivative, as the last steps have corrected it.

        Nocedal (1980), Mathematics of Computation 35.
        """
        pairs = [(step, change + step / self._variance) for step, change in self._fits.secants]
        shares, result = [], gradient.copy()
        for step, change in reversed(pairs):
            shares.append(step @ result / (step @ change))
            result -= shares[-1] * change
        inverse = DiagonalInverse(self.curvature, self._variance, self._fits.is_pooled)
        result = inverse.times(result)
        for (step, change), share in zip(pairs, reversed(shares), strict=True):
            result += (share - change @ result / (step @ change)) * step
        return result


class DiagonalInverse:
    """Inverse of diag(d) - dd'/sum(d) + I/v, or without its second term."""

    def __init__(self, d, variance, is_pooled):
        self._d, self._v, self._scale = d, variance, 1.0 / (d + 1.0 / variance)
        self._left = d @ self._scale / variance if is_pooled else 0.0

    def times(self, x) -> np.ndarray:
        """Product with a vector, or with columns."""
        result = (self._scale * x.T).T
        if self._left > 0.0:
            weight = self._d * self._scale
            result += np.multiply.outer(weight, weight @ x) / self._left
        return result

    @property
    def trace(self) -> float:
        total = float(self._scale.sum())
        if self._left > 0.0:
            total += float(np.sum((self._d * self._scale) ** 2)) / self._left
        return total

    @property
    def log_det(self) -> float:
        """Of the matrix itself, times v."""
        total = float(np.log1p(self._v * self._d).sum())
        return total + np.log(self._left / self._d.sum()) if self._left > 0.0 else total
