"""The elastic net with bounds: coefficients stay in [lower, upper], which holds zero.

A convex function of one variable has its minimum over an interval where its minimum over the line
is clipped to; at a bound only the slope inwards counts.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit

from .base import Formulas, Kernels, kernels_of, rescaled
from .elastic_net import ElasticNet, Strengths, elastic_net_piece, elastic_net_value, soft_threshold


class Bounded(NamedTuple):
    """Strengths and bounds of columns."""

    l1: np.ndarray
    l2: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


@njit(error_model="numpy")
def bounded_minimum(z, curvature, c, a):
    free = soft_threshold(z, c.l1[a]) / (curvature + c.l2[a])
    return min(max(free, c.lower[a]), c.upper[a])


@njit(error_model="numpy")
def bounded_piece(x, side, c, a):
    slope, curvature, low, high = elastic_net_piece(x, side, c, a)
    lower, upper = c.lower[a], c.upper[a]
    if side > 0 and x >= upper:
        return np.inf, 0.0, upper, upper
    if side < 0 and x <= lower:
        return -np.inf, 0.0, lower, lower
    return slope, curvature, max(low, lower), min(high, upper)


FORMULAS = Formulas(elastic_net_value, bounded_minimum, bounded_piece)


@dataclass(frozen=True)
class BoundedElasticNet(ElasticNet):
    """Elastic net of every strength, with bounds (n_columns,)."""

    lower: np.ndarray = None  # type: ignore[assignment]
    upper: np.ndarray = None  # type: ignore[assignment]

    formulas: ClassVar[Formulas] = FORMULAS
    kernels: ClassVar[Kernels] = kernels_of(FORMULAS)

    def strengths(self, lam, factor):
        return Bounded(*super().strengths(lam, factor), self.lower, self.upper)

    def clip(self, coef):
        return np.clip(coef, self.lower, self.upper)

    def in_units(self, scale):
        return replace(self, lower=self.lower * scale, upper=self.upper * scale)

    def from_units(self, coef, scale):
        bounds = self.lower, self.upper
        return rescaled(coef, 1.0 / scale, [bound * scale for bound in bounds], bounds)

    def is_bounded(self, n_columns):
        return np.isfinite(self.lower) | np.isfinite(self.upper)

    def reduced(self, gradient):
        pushes = np.where(gradient > 0, self.upper > 0, self.lower < 0)
        return np.where(pushes, np.abs(gradient), 0.0)

    def dual(self, columns, gradient):
        lower, upper = columns.lower, columns.upper
        open_ended = np.isinf(np.where(gradient > 0, upper, lower))
        of_lasso = Strengths(columns.l1[open_ended], columns.l2[open_ended])
        scale = 1.0
        if open_ended.any():
            scale, _ = super().dual(of_lasso, gradient[open_ended])
        push = scale * gradient
        in_box = open_ended & (columns.l2 == 0)  # by the scale
        excess = np.where(in_box, 0.0, np.maximum(np.abs(push) - columns.l1, 0.0))
        bound = np.where(push > 0, upper, -lower)
        with np.errstate(divide="ignore", invalid="ignore"):
            farthest = np.where(columns.l2 > 0, excess / columns.l2, np.inf)
        at = np.where(excess > 0, np.minimum(farthest, bound), 0.0)
        return scale, float(np.sum(excess * at - 0.5 * columns.l2 * at**2))
