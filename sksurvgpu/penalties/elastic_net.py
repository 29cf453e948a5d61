"""The elastic net with penalty factors, on the sum scale.

``sum_j lam f_j (rho |b_j| + (1 - rho) b_j^2 / 2)``; f_j = 0 leaves a column unpenalized.
Public alpha (mean scale) = lam / sum of weights; prior variance 2/lam^2 (Laplace), 1/lam (normal).
"""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit

from .base import Family, Formulas, Kernels, kernels_of

RIDGE_PATH_RATIO = 1e-3  # alpha_max of a pure ridge is infinite; glmnet's convention instead


class Strengths(NamedTuple):
    """Strengths of columns."""

    l1: np.ndarray
    l2: np.ndarray


@njit(error_model="numpy")
def soft_threshold(z, level):
    """Minimizer of ``(x - z)**2 / 2 + level * abs(x)``."""
    if z > level:
        return z - level
    if z < -level:
        return z + level
    return 0.0


@njit(error_model="numpy")
def elastic_net_value(x, c, a):
    return c.l1[a] * abs(x) + 0.5 * c.l2[a] * x * x


@njit(error_model="numpy")
def elastic_net_minimum(z, curvature, c, a):
    return soft_threshold(z, c.l1[a]) / (curvature + c.l2[a])


@njit(error_model="numpy")
def elastic_net_piece(x, side, c, a):
    l1, l2 = c.l1[a], c.l2[a]
    if l1 == 0.0:
        return l2 * x, l2, -np.inf, np.inf
    if x > 0.0 or (x == 0.0 and side > 0):
        return l2 * x + l1, l2, 0.0, np.inf
    return l2 * x - l1, l2, -np.inf, 0.0


FORMULAS = Formulas(elastic_net_value, elastic_net_minimum, elastic_net_piece)


@dataclass(frozen=True)
class ElasticNet(Family):
    """Penalties of every strength, with `l1_ratio` = rho."""

    l1_ratio: float | np.ndarray = 1.0  # or one a column

    formulas: ClassVar[Formulas] = FORMULAS
    kernels: ClassVar[Kernels] = kernels_of(FORMULAS)

    def strengths(self, lam, factor):
        return Strengths(lam * self.l1_ratio * factor, lam * (1.0 - self.l1_ratio) * factor)

    def is_always_there(self, factor):
        ratio = np.broadcast_to(self.l1_ratio, factor.shape)
        is_ridge = (ratio == 0) & (factor > 0)
        return is_ridge & np.any(ratio[factor > 0] > 0)

    def lam_max(self, gradient, factor, curvature):
        ratio = np.broadcast_to(self.l1_ratio, factor.shape)
        if np.any(ratio[factor > 0] > 0):  # else there is no lasso
            factor = np.where(ratio > 0, factor, 0.0)
        least = super().lam_max
        return least(gradient / np.maximum(ratio, RIDGE_PATH_RATIO), factor, curvature)

    def dual(self, columns, gradient):
        l1, l2, size = columns.l1, columns.l2, np.abs(gradient)
        if np.any(l1 + l2 == 0):  # a column without a penalty
            return np.nan, np.nan
        is_lasso = l2 == 0
        # the dual point must be scaled into the box of these
        scale = 1.0 / max(1.0, float((size[is_lasso] / l1[is_lasso]).max(initial=0.0)))
        if is_lasso.all():
            return scale, 0.0
        excess = np.maximum(scale * size - l1, 0.0)[~is_lasso]
        return scale, float(np.sum(excess**2 / (2.0 * l2[~is_lasso])))
