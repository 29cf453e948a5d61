"""The elastic net with penalty factors, on the sum scale.

``sum_j lam f_j (rho |b_j| + (1 - rho) b_j^2 / 2)``; f_j = 0 leaves a column unpenalized.
Public alpha (mean scale) = lam / sum of weights; prior variance 2/lam^2 (Laplace), 1/lam (normal).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Penalty:
    """Penalty weights per column; `fixed` columns do not move and need not be stationary."""

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
        if not len(l1) or np.any(l1 + l2 == 0) or np.any(coef[self.fixed] != 0):
            return np.nan
        size = np.abs(g)
        if np.any(l2 == 0):  # pure lasso: the dual point must be scaled into its box
            with np.errstate(divide="ignore"):
                scale, conjugate = min(1.0, float(np.min(l1 / size))), 0.0
        else:
            scale, conjugate = 1.0, float(np.sum(np.maximum(size - l1, 0.0) ** 2 / (2.0 * l2)))
        slack = (1.0 - scale) * (loglik_bound - loglik)
        return max(slack + self.value(coef) - scale * float(b @ g) + conjugate, 0.0)
