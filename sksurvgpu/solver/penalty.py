"""The elastic net with penalty factors, on the sum scale.

``sum_j lam f_j (rho |b_j| + (1 - rho) b_j^2 / 2)``; f_j = 0 leaves a column unpenalized.
Public alpha (mean scale) = lam / sum of weights; prior variance 2/lam^2 (Laplace), 1/lam (normal).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Penalty:
    """Penalty weights per column; `fixed` columns do not move and have no stationarity condition."""

    l1: np.ndarray
    l2: np.ndarray
    fixed: np.ndarray  # bool

    @classmethod
    def of(cls, lam, l1_ratio, factor, fixed):
        return cls(lam * l1_ratio * factor, lam * (1.0 - l1_ratio) * factor, fixed)

    def value(self, coef):
        return float(self.l1 @ np.abs(coef) + 0.5 * self.l2 @ coef**2)

    def violation(self, coef, gradient):
        """Distance of every column from stationarity, in units of the gradient."""
        slope = gradient - self.l2 * coef
        free = np.abs(slope - self.l1 * np.sign(coef))
        violation = np.where(coef != 0, free, np.maximum(np.abs(slope) - self.l1, 0.0))
        return np.where(self.fixed, 0.0, violation)

    def gap(self, coef, gradient, loglik, loglik_bound):
        """Upper bound of objective - optimum from the scaled dual point, or nan.

        Needs every column to be penalized (or fixed at zero), and residuals that sum to zero.
        """
        free = ~self.fixed
        l1, l2, g, b = self.l1[free], self.l2[free], gradient[free], coef[free]
        if np.any(l1 + l2 == 0) or np.any(coef[self.fixed] != 0) or not len(l1):
            return np.nan
        excess, hard = np.maximum(np.abs(g) - l1, 0.0), l2 == 0
        with np.errstate(divide="ignore"):
            scale = float(np.min(l1[hard] / np.abs(g[hard]), initial=1.0))
        if scale < 1.0 and not hard.all():
            excess = np.maximum(scale * np.abs(g) - l1, 0.0)
        conjugate = float(np.sum(excess[~hard] ** 2 / (2.0 * l2[~hard])))
        return max(
            (1.0 - scale) * (loglik_bound - loglik)
            + self.value(coef)
            - scale * float(b @ g)
            + conjugate,
            0.0,
        )
