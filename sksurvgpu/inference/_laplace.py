r"""Laplace's approximation of a likelihood without its intercepts, over coefficients, too.

A sum over rows has a diagonal H. With w the curvatures of the rows, w' their slopes along the
predictor, s = H + 1/v, and the intercepts b that are best at the coefficients, the gradient of L of
`_intercept_variance` is, for coefficients and for the logarithm of v,

.. math:: X'(u - \tfrac12 r), \quad r_i = (w'_i - w_i T_g) / s_g, \quad
          T_g = \sum_{i \in g} w'_i / s_g; \qquad
          \frac{b'b}{2v} - \sum_g \frac{vH_g + T_g b_g}{2vs_g},

as b moves by minus the means :math:`\sum_{i \in g} w_i x_i / s_g` along the coefficients.
"""

import copy
from dataclasses import replace

import numpy as np
from scipy.optimize import minimize

from ..backends.cpu.session import Session
from ..backends.cpu.threads import Threads, one_blas_thread
from ._intercept_variance import FLAT
from ._joint_mode import JointMode

SETTLED, ENOUGH = 1e-3, 1e-5  # gradient along a standard error
MOST_STEPS, LONGEST, SMALL = 100, 1.0, 1e-9  # of intercepts
SIDE = 0.01  # of the logarithm of the variance, for the second derivative


class IntegratedLikelihood:
    """L of an intercept, coefficients and the logarithm of the variance, about a joint mode."""

    def __init__(self, fits, mode):
        problem = fits.prepared.problem
        fits.evaluate(fits.predict(mode.solution.coef), mode.intercepts)
        held = replace(problem, likelihood=replace(problem.likelihood, intercept=False))
        self.fits, self._mode, self._b = copy.copy(fits), mode, mode.intercepts
        self.fits.session = Session(problem, fits.weight, None, Threads(1))
        self._pattern = problem.likelihood.pattern.on_cpu(held, fits.weight, Threads(1))
        self.fits.session.pattern = self._pattern
        coef, variance = mode.solution.coef, mode.variance
        self.start = np.array([fits.session.baseline(), *coef, np.log(variance)])

    def evaluate(self, at) -> tuple[float, np.ndarray]:
        """L, and its gradient."""
        fits, session, variance = self.fits, self.fits.session, np.exp(at[-1])
        loglik, h = self._find_intercepts(at, variance)
        b, H = self._b, fits.sum_rows(h)
        scale = 1.0 / (H + 1.0 / variance)
        likelihood = fits.prepared.problem.likelihood
        slope = likelihood.curvature_slope(session.eta) * self._pattern.weighted.weights()
        T = fits.sum_rows(slope) * scale
        score = session.u - 0.5 * (slope - h * T[fits.code]) * scale[fits.code]
        value = loglik - 0.5 * b @ b / variance - 0.5 * np.log1p(variance * H).sum()
        own = 0.5 * b @ b / variance - 0.5 * np.sum((H + T * b / variance) * scale)
        first = score.sum() if fits.is_pooled else 0.0
        return value, np.array([first, *self._of_columns(score), own])

    def _of_columns(self, of_row):
        return self.fits.session.products.of_columns(np.arange(len(self.start) - 2), of_row)

    def _find_intercepts(self, at, variance):
        """Move b to where it is best; log-likelihood and curvatures of the rows there."""
        fits, session = self.fits, self.fits.session
        predictor, h = fits.predict(at[1:-1]) + at[0], np.empty(len(fits.code))
        for _ in range(MOST_STEPS):
            loglik = fits.evaluate(predictor, self._b)
            self._pattern.observe(session.eta, session.u, h)
            step = fits.sum_rows(session.u) - self._b / variance
            step /= fits.sum_rows(h) + 1.0 / variance
            if not np.abs(step).max() > SMALL:
                break
            self._b = self._b + np.clip(step, -LONGEST, LONGEST)
        return loglik, h

    def _directions(self, inverse, log_sd):
        """Directions, a standard error long, along which L has hardly a mixed derivative."""
        fits, variance, p = self.fits, self._mode.variance, len(inverse)
        values, vectors = np.linalg.eigh(inverse)
        directions = np.zeros((p + 2, p + 2))
        directions[1:-1, 1:-1] = vectors * np.sqrt(np.maximum(values, 0.0))
        directions[-1, -1] = log_sd
        if fits.is_pooled:
            _, h = self._find_intercepts(self.start, variance)
            H = fits.sum_rows(h)
            share = 1.0 / (1.0 + variance * H)
            directions[0] = -self._of_columns(h * share[fits.code]) @ directions[1:-1] / (H @ share)
            directions[0, 0] = 1.0 / np.sqrt(H @ share)
        return directions

    def climb(self, inverse, log_sd) -> tuple[JointMode, float]:
        """Where L is largest, and the standard error of its variance.

        From the inverse information of the columns and the error of log v at the joint mode.
        """
        directions = self._directions(inverse, log_sd)

        def descend(z):
            value, gradient = self.evaluate(self.start + directions @ z)
            return -value, -gradient @ directions

        with one_blas_thread():
            nothing, side = np.zeros(len(directions)), np.zeros(len(directions))
            found = minimize(descend, nothing, jac=True, method="BFGS", options={"gtol": ENOUGH})
            side[-1] = SIDE / log_sd
            low, high = (descend(found.x + move)[1] for move in (-side, side))
            mode = self._mode_at(self.start + directions @ found.x, np.abs(found.jac).max())
        bend = (high - low) / (2.0 * side[-1])
        bend = max(bend[-1] - bend[:-1] @ bend[:-1], FLAT)  # where coefficients follow
        return mode, mode.variance * log_sd / np.sqrt(bend)

    def _mode_at(self, at, slope):
        fits, before, variance = self.fits, self._mode, float(np.exp(at[-1]))
        loglik, h = self._find_intercepts(at, variance)
        fits.own_offset = fits.own_offset + at[0]
        H, coef = fits.sum_rows(h), at[1:-1]
        pull = fits.sum_rows(fits.session.u) + H * self._b
        baseline = fits.prepared.problem.baseline_of(float(at[0]), coef)
        known = {"coef": coef, "baseline": baseline, "loglik": loglik, "objective": -loglik}
        solution = replace(before.solution, **known)
        settled = before.settled and bool(slope <= SETTLED)
        return JointMode(variance, self._b, H, pull, solution, settled)
