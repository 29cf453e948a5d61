r"""The variance of random intercepts, and what varies around their mode.

With f and H of `_joint_mode`, Laplace's approximation of the likelihood of the variance v of q
intercepts (Ripatti and Palmgren, 2000, Biometrics 56), and what its slope is where H is taken as
constant, their equation of the variance, are

.. math:: L(v) = -\min f_v - \tfrac12\log\det(vH + I), \qquad
          q v = b'b + \mathrm{tr}\,(H + I/v)^{-1} .

With the block of the inverse of the whole matrix, over columns without a penalty too, in place of
the inverse of :math:`H + I/v`, the equation is REML's (McGilchrist, 1993, Biometrics 49). The
slope of L at v = 0 is :math:`(|Z'u|^2 - \mathrm{tr} H)/2`: the variance is zero where it is not
positive.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from ..information.inverse import invert
from ..information.rows import MOST_NUMBERS, FittedRows
from ..information.views import view_of
from ._joint_mode import DiagonalInverse

__all__ = ["Spread", "VarianceSearch"]

MOST_PRODUCTS = 2e9  # that an exact H may take: rows times squared clusters, about a second
WIDE, COARSE, FINE = np.log(4.0), 0.05, 1e-4  # steps of the logarithm of the variance
FARTHEST = 18.0  # ... beyond which there is none
MOST_SECANTS = 30


class DenseInverse:
    """Inverse of H + I/v."""

    def __init__(self, H, variance):
        values, self._vectors = np.linalg.eigh(H)
        self._v, self._values = variance, np.maximum(values, 0.0) + 1.0 / variance

    def times(self, x) -> np.ndarray:
        return self._vectors @ ((self._vectors.T @ x).T / self._values).T

    @property
    def trace(self) -> float:
        return float(np.sum(1.0 / self._values))

    @property
    def log_det(self) -> float:
        return float(np.log(self._v * self._values).sum())


class Spread:
    """Information of intercepts, and of coefficients that `is_free` names, at a mode."""

    def __init__(self, fits, mode, is_free):
        self._fits, self._mode, self._columns = fits, mode, np.flatnonzero(is_free)

    @cached_property
    def _view(self):
        fits, problem = self._fits, self._fits.prepared.problem
        fits.evaluate(fits.predict(self._mode.solution.coef), self._mode.intercepts)
        outcome = fits.prepared.outcome
        return view_of(FittedRows(fits.estimator, outcome, problem, fits.session, fits.weight))

    @cached_property
    def _matrix(self):
        """H of risk sets where it is exact; None elsewhere."""
        fits = self._fits
        size = len(fits.code) * fits.n
        if not fits.has_time or size > MOST_NUMBERS or size * fits.n > MOST_PRODUCTS:
            return None
        indicators = np.equal.outer(fits.code, np.arange(fits.n)).astype(np.float64)
        return self._view.cross(indicators, indicators)[0]

    def _inverse(self, is_pooled):
        if self._matrix is not None:
            return DenseInverse(self._matrix, self._mode.variance)
        return DiagonalInverse(self._mode.curvature, self._mode.variance, is_pooled)

    @cached_property
    def _pooled(self):
        """Inverse of H + I/v over the best intercept."""
        return self._inverse(self._fits.is_pooled)

    @cached_property
    def _held(self):
        """The same of the likelihood as it is, where a single intercept is held."""
        return self._inverse(self._fits.is_pooled and self._fits.has_time)

    @cached_property
    def _of_columns(self):
        """Information of columns, its size, and what they have in common with clusters."""
        fits, view, columns = self._fits, self._view, self._columns
        h, shared = view.h, np.empty((fits.n, len(columns)))
        for part in view.rows.blocks(3 * len(fits.code) + view.n_atoms, n_columns=len(columns)):
            x = view.centred(columns[part])
            mean = view.means(x)
            for a, k in enumerate(part):
                shared[:, k] = fits.sum_rows(x[:, a] * h - view.h_of(mean[:, a]))
        return (*view.information(columns), shared)

    @cached_property
    def inverse(self):
        """Inverse of the information of the columns beside intercepts, as `invert` has it."""
        return invert(*self.information)

    @cached_property
    def information(self):
        """Information of the columns beside intercepts, and its size without these."""
        information, size, shared = self._of_columns
        if self._mode.variance == 0.0:
            return information, size
        return information - shared.T @ self._pooled.times(shared), size

    @property
    def integrated(self) -> float:
        """L at the mode."""
        return -self._mode.objective - 0.5 * self._held.log_det

    @property
    def log_likelihood(self) -> float:
        """L without the penalty of the coefficients."""
        loglik, mode = self._mode.solution.loglik, self._mode
        return self.integrated + mode.penalty if mode.variance else loglik

    def imbalance(self, is_restricted) -> float:
        """Right side of the equation of the variance over its left, less 1."""
        inverse, b = self._pooled if is_restricted else self._held, self._mode.intercepts
        total = b @ b + inverse.trace
        if is_restricted and len(self._columns):
            moved = inverse.times(self._of_columns[2])
            total += float(np.sum((moved @ self.inverse.matrix) * moved))
        return total / (len(b) * self._mode.variance) - 1.0

    def excess(self, is_restricted) -> tuple[float, float]:
        """Twice the slope of L where the variance is zero, and the sum of the squares of d."""
        fits, d = self._fits, self._mode.curvature
        is_pooled = fits.is_pooled and (is_restricted or fits.has_time)
        expected = d.sum() - (d @ d / d.sum() if is_pooled else 0.0)
        if self._matrix is not None:
            expected = np.trace(self._matrix)
        if is_restricted and len(self._columns):
            information, size, shared = self._of_columns
            expected -= np.sum((shared @ invert(information, size).matrix) * shared)
        scores = fits.sum_rows(fits.session.u)  # where the mode without intercepts has left it
        return float(scores @ scores - expected), float(d @ d)


class VarianceSearch:
    """The variance by maximum likelihood, or by the restricted one of columns without a penalty."""

    def __init__(self, fits, is_restricted, is_free):
        self._fits, self._is_restricted, self._is_free = fits, is_restricted, is_free
        self.mode, self.sd = None, np.nan

    def run(self) -> bool:
        """Find the mode at the variance and its standard error; False where that is zero."""
        fits = self._fits
        at_zero = Spread(fits, fits.without(), self._is_free)
        excess, square = at_zero.excess(self._is_restricted)
        start = excess > 0.0 and self._with_coefficients_held(np.log(excess / square))
        if not start:
            return False
        return self._find_root(*start) if self._is_restricted else self._find_maximum(*start)

    def _with_coefficients_held(self, position):
        """Logarithm of the variance beside coefficients as they are without intercepts.

        Also the slope of the imbalance there, and the mode. None where the variance vanishes.
        """
        fits, last, known = self._fits, None, {}

        def imbalance(position):
            nonlocal last
            last = fits.mode(float(np.exp(position)), last, refits=False)
            is_pooled = fits.is_pooled and (self._is_restricted or fits.has_time)
            inverse = DiagonalInverse(last.curvature, last.variance, is_pooled)
            total = last.intercepts @ last.intercepts + inverse.trace
            known[position] = total / (fits.n * last.variance) - 1.0
            return known[position]

        step = WIDE * np.sign(imbalance(position))
        while step * imbalance(position + step) > 0.0:
            position += step
            if abs(position) > FARTHEST:
                return None
        found = brentq(imbalance, *sorted((position, position + step)), xtol=COARSE)
        far = found + COARSE
        slope = (imbalance(far) - imbalance(found)) / COARSE
        return found - known[found] / slope, slope, last

    def _move(self, position):
        """Go to the mode at a variance; what varies there."""
        self.mode = self._fits.mode(float(np.exp(position)), self.mode)
        return Spread(self._fits, self.mode, self._is_free)

    def _find_root(self, position, slope, start):
        """Root of the equation of the variance, by secants."""
        self.mode, before, step = start, None, 0.0
        for _ in range(MOST_SECANTS):
            value = self._move(position).imbalance(True)
            if before is not None and (value - before) * step < 0.0:
                slope = (value - before) / step
            before, step = value, float(np.clip(-value / slope, -1.0, 1.0))
            position += step
            if abs(step) < FINE or position < -FARTHEST:
                break
        self._settle(position, 0.5 * self._fits.n * slope)
        return position > -FARTHEST

    def _find_maximum(self, position, slope, start):
        """Maximum of L."""
        self.mode = start
        near = position - 2.0 * COARSE, position + 2.0 * COARSE

        def loss(position):
            return -self._move(position).integrated

        found = minimize_scalar(loss, bracket=near, tol=FINE)
        sides = loss(found.x - 2.0 * COARSE) + loss(found.x + 2.0 * COARSE)
        self._settle(found.x, (2.0 * found.fun - sides) / (2.0 * COARSE) ** 2)
        return found.x > -FARTHEST

    def _settle(self, position, curvature):
        """Go to the mode at the variance, of whose logarithm L has a second derivative."""
        self._move(position)
        self.sd = self.mode.variance / np.sqrt(-curvature) if curvature < 0.0 else np.nan
