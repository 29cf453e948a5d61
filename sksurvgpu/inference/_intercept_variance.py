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

from functools import cached_property

import numpy as np
from scipy.optimize import brentq

from ..information.inverse import invert
from ..information.rows import MOST_NUMBERS, FittedRows
from ..information.views import view_of
from ._joint_mode import CLOSE, DiagonalInverse

MOST_PRODUCTS = 2e9  # that an exact H may take: rows times squared clusters, about a second
# Of the logarithm of the variance: steps, and below which there is none.
WIDE, COARSE, SIDE, SHORT, FINE = 2.0, 0.1, 0.03, 1e-3, 1e-4
LEAST = -18.0
FLAT = 0.01  # slope of the imbalance that steps may rely on
ROUGH = 0.02  # share of a step that a mode may be off on the way
MOST_MODES, MOST_LOOKS = 50, 20
NOTHING = 1e-9  # share of H that is rounding
UNCOMPARED = (
    "nothing tells the intercepts of `cluster` apart: strata have one cluster each, only one has "
    "rows with a weight, or columns of `X` without a penalty are indicators of clusters."
)


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


class ModeInformation:
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

    def _inverse(self, is_pooled, variance):
        if self._matrix is not None:
            return DenseInverse(self._matrix, variance)
        return DiagonalInverse(self._mode.curvature, variance, is_pooled)

    @cached_property
    def _pooled(self):
        """Inverse of H + I/v over the best intercept."""
        return self._inverse(self._fits.is_pooled, self._mode.variance)

    def _held(self, variance):
        """Inverse of H + I/v of the likelihood as it is, where a single intercept is held."""
        return self._inverse(self._fits.is_pooled and self._fits.has_time, variance)

    def log_det(self, variance) -> float:
        """log det(vH + I) of the likelihood as it is."""
        return self._held(variance).log_det if variance else 0.0

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
        mode = self._mode
        square = mode.intercepts @ mode.intercepts / mode.variance if mode.variance else 0.0
        return -mode.solution.objective - 0.5 * square - 0.5 * self.log_det(mode.variance)

    @property
    def log_likelihood(self) -> float:
        """L without the penalty of the coefficients."""
        solution = self._mode.solution
        return self.integrated + solution.objective + solution.loglik

    def imbalance(self, is_restricted) -> float:
        """Right side of the equation of the variance over its left, less 1."""
        b, variance = self._mode.intercepts, self._mode.variance
        inverse = self._pooled if is_restricted else self._held(variance)
        total = b @ b + inverse.trace
        if is_restricted and len(self._columns):
            moved = inverse.times(self._of_columns[2])
            total += float(np.sum((moved @ self.inverse.matrix) * moved))
        return total / (len(b) * variance) - 1.0

    def excess(self, is_restricted) -> float:
        """Twice the slope of L where the variance is zero."""
        fits, d = self._fits, self._mode.curvature
        is_pooled = fits.is_pooled and (is_restricted or fits.has_time)
        expected = d.sum() - (d @ d / d.sum() if is_pooled else 0.0)
        if self._matrix is not None:
            expected = np.trace(self._matrix)
        if is_restricted and len(self._columns):
            information, size, shared = self._of_columns
            expected -= np.sum((shared @ invert(information, size).matrix) * shared)
        if expected <= NOTHING * d.sum():
            raise ValueError(UNCOMPARED)
        return float(self._mode.pull @ self._mode.pull - expected)


class VarianceSearch:
    """The variance by maximum likelihood, or by the restricted one of columns without a penalty.

    A start for `_laplace` is where their equation without columns holds.
    """

    def __init__(self, fits, is_restricted, is_free, is_start):
        self._fits, self._is_restricted, self._is_free = fits, is_restricted, is_free
        self._has_looks = not (is_restricted or is_start)
        self._is_pooled = fits.is_pooled and (is_restricted or fits.has_time)
        self.mode, self.sd = fits.without(), np.nan
        self._slope, self._reach = -FLAT, np.inf  # of the imbalance, and over what step it is known

    def run(self) -> bool:
        """Find the mode at the variance and its standard error; False where that is zero."""
        excess = ModeInformation(self._fits, self.mode, self._is_free).excess(self._is_restricted)
        if not excess > 0.0:
            return False
        position = self._find_root(FINE if self._is_restricted else COARSE)
        if position < LEAST:
            return False
        found, slope = self.mode, self._slope
        if self._is_restricted and not SIDE / 3.0 < self._reach <= SIDE:  # shorter ones are rough
            slope = self._move(position + SIDE, (ROUGH * SIDE) ** 2).imbalance(True) / SIDE
            self.mode = found
        if self._has_looks:
            position, slope = self._climb(position)
        self.sd = self.mode.variance / np.sqrt(-0.5 * self._fits.n * min(slope, -FLAT))
        return position > LEAST

    def _expected(self, position) -> float:
        """Imbalance at a variance where likelihoods of intercepts are normal, as at the mode."""
        variance, mode = float(np.exp(position)), self.mode
        inverse = DiagonalInverse(mode.curvature, variance, self._is_pooled)
        b = mode.expected_at(variance)
        return (b @ b + inverse.trace) / (len(b) * variance) - 1.0

    def _move(self, position, close=CLOSE):
        """Go to the mode at a variance; what varies there."""
        self.mode = self._fits.mode(float(np.exp(position)), self.mode, close)
        return ModeInformation(self._fits, self.mode, self._is_free)

    def _find_root(self, enough):
        """Logarithm of the variance where the imbalance is zero.

        By secants, after a first slope as it is expected, until a step is small enough.
        """
        step, before, slope = -WIDE, None, None
        has_root = self._expected(LEAST) > 0.0 > self._expected(-LEAST)
        position = brentq(self._expected, LEAST, -LEAST, xtol=COARSE) if has_root else 0.0
        for _ in range(MOST_MODES):
            close = max(CLOSE, (ROUGH * step) ** 2)
            value = self._move(position, close).imbalance(self._is_restricted)
            if before is None:
                ends = (self._expected(position + move) for move in (COARSE, -COARSE))
                slope = min(np.subtract(*ends) / (2.0 * COARSE), -FLAT)
                self._reach = np.inf
            elif abs(step) > SHORT:
                slope, self._reach = min((value - before) / step, -FLAT), abs(step)
            before, step = value, float(np.clip(-value / slope, -WIDE, WIDE))
            if abs(step) < enough and close <= CLOSE:
                break
            position += step
            if position < LEAST:
                break
        self._slope = slope
        return position

    def _climb(self, position):
        """Logarithm of the variance where L is largest, by Newton's method; L's curvature there.

        In units of the imbalance: half of that, a cluster, L rises by where H is constant.
        """
        for _ in range(MOST_LOOKS):
            value, slope = self._look_around(position)
            step = float(np.clip(-value / min(slope, -FLAT), -WIDE, WIDE))
            position += step
            if abs(step) < FINE or position < LEAST:
                break
        self._move(position)
        return position, slope

    def _look_around(self, position):
        """Slope of L, of which H has a part as it changes with the mode, and second derivative."""
        middle, variance = self._move(position), np.exp(position)
        value, n = middle.imbalance(False), self._fits.n
        low, high = (self._move(position + side) for side in (-SIDE, SIDE))
        change = high.log_det(variance) - low.log_det(variance)
        second = high.integrated + low.integrated - 2.0 * middle.integrated
        return value - change / (2.0 * SIDE * n), 2.0 * second / (SIDE**2 * n)
