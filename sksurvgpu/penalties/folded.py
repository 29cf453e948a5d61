r"""Penalties whose slope falls to zero: the lasso near zero, nothing far from it.

.. math:: p'(x) = l \text{ up to } s,\quad l - \varphi (x - s) \text{ up to } k,
          \quad 0 \text{ beyond};\qquad \varphi = l / (k - s), \quad x > 0,

to which a ridge may be added, and bounds. MCP (Zhang 2010) has s = 0, SCAD (Fan and Li 2001) a
flat piece. With D the curvature along a column, ridge included, ``D x^2 / 2 - z x + p(x)`` is
convex where D > phi. Else its minimum is the better one of two: of what lies before the slope
falls, and of what lies beyond. Zero is stationary for slopes of the log-likelihood up to l in both
cases, so that the least strength without any coefficient is the lasso's.

Of two columns in different units, `s` and `k` must differ as their coefficients do: they are in
units of ``l / C``, with C the curvature along the column in the null model (which makes the minimum
along it convex there), or in those of a column whose curvature is the sum of the weights.  They
belong to the objective, and stay for all strengths, folds and replicates what all rows say.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit

from ..data import options
from ..data.by_column import check_by_column
from .base import Formulas, Kernels, check_total, kernels_of
from .bounded import BoundedElasticNet

SCALES = ("column", "unit")


class Folded(NamedTuple):
    """Strengths, knots and bounds of columns."""

    l1: np.ndarray
    l2: np.ndarray
    flat: np.ndarray  # s: where the slope begins to fall
    knot: np.ndarray  # k: where it has fallen to 0; inf where it does not fall
    lower: np.ndarray
    upper: np.ndarray


@njit(error_model="numpy")
def folded_value(x, c, a):
    size, l1, flat, knot = abs(x), c.l1[a], c.flat[a], c.knot[a]
    ridge = 0.5 * c.l2[a] * x * x
    if size > knot:
        return 0.5 * l1 * (flat + knot) + ridge
    if size > flat:
        return l1 * size - 0.5 * l1 / (knot - flat) * (size - flat) ** 2 + ridge
    return l1 * size + ridge


@njit(error_model="numpy")
def folded_minimum(z, curvature, c, a):
    l1, flat, knot = c.l1[a], c.flat[a], c.knot[a]
    size, steep, fall = abs(z), curvature + c.l2[a], l1 / (knot - flat)
    end = c.upper[a] if z > 0.0 else -c.lower[a]
    if steep > fall:
        if size <= l1:
            best = 0.0
        elif size <= l1 + steep * flat:
            best = (size - l1) / steep
        elif size <= steep * knot:
            best = (size - l1 - fall * flat) / (steep - fall)
        else:
            best = size / steep
        best = min(best, end)
    else:
        best = min(max(size - l1, 0.0) / steep, flat, end)
        far = min(max(size / steep, knot), end)
        gain = folded_value(best, c, a) - folded_value(far, c, a)
        gain += 0.5 * curvature * (best * best - far * far) + size * (far - best)
        if gain > 0.0:
            best = far
    return best if z > 0.0 else 0.0 - best  # no zero is negative


@njit(error_model="numpy")
def folded_piece(x, side, c, a):
    l1, l2, flat, knot = c.l1[a], c.l2[a], c.flat[a], c.knot[a]
    lower, upper = c.lower[a], c.upper[a]
    if side > 0 and x >= upper:
        return np.inf, 0.0, upper, upper
    if side < 0 and x <= lower:
        return -np.inf, 0.0, lower, lower
    if l1 == 0.0:
        return l2 * x, l2, lower, upper
    sign = 1.0 if x > 0.0 or (x == 0.0 and side > 0) else -1.0
    size, outwards = abs(x), sign * side > 0.0
    if size < flat or (size == flat and not outwards):
        slope, curvature, low, high = l1, 0.0, 0.0, flat
    elif size < knot or (size == knot and not outwards):
        fall = l1 / (knot - flat)
        slope, curvature, low, high = l1 - fall * (size - flat), -fall, flat, knot
    else:
        slope, curvature, low, high = 0.0, 0.0, knot, np.inf
    if sign < 0.0:
        low, high = -high, -low
    return sign * slope + l2 * x, curvature + l2, max(low, lower), min(high, upper)


FORMULAS = Formulas(folded_value, folded_minimum, folded_piece)


@dataclass(frozen=True)
class FoldedPenalty(BoundedElasticNet):
    """Penalties of every strength; `flat` and `knot` in units of l1 over a curvature."""

    flat: np.ndarray = None  # type: ignore[assignment]  # (n_columns,)
    knot: np.ndarray = None  # type: ignore[assignment]
    by_column: bool = True  # whether the curvature is that of the null model, or the sum of weights
    total: float | None = None  # the sum of weights
    null: np.ndarray | None = None  # (n_columns,) curvature in the null model

    formulas: ClassVar[Formulas] = FORMULAS
    kernels: ClassVar[Kernels] = kernels_of(FORMULAS)
    is_convex: ClassVar[bool] = False

    @property
    def needs_null(self):  # type: ignore[override]
        return self.by_column

    def of_total(self, total):
        check_total(total)
        known = self.null is not None and self.total is not None
        null = self.null * (total / self.total) if known else self.null
        return replace(self, total=float(total), null=null)

    def at_null(self, curvature):
        return replace(self, null=curvature)

    @cached_property
    def haste(self):  # type: ignore[override]
        """The slope of a minimum where the penalty falls, over that of the lasso."""
        width = float((self.knot - self.flat).min(initial=np.inf))
        return width / (width - 1.0) if 1.0 < width < np.inf else 1.0

    def strengths(self, lam, factor):
        l1, l2 = super(BoundedElasticNet, self).strengths(lam, factor)
        flat, knot = np.zeros(len(l1)), np.full(len(l1), np.inf)
        curvature = self.null if self.by_column else self.total
        if curvature is not None:  # else this is for the null model, which has zeros alone
            falls = l1 > 0
            unit = (l1 / curvature)[falls]
            flat[falls], knot[falls] = self.flat[falls] * unit, self.knot[falls] * unit
        return Folded(l1, l2, flat, knot, self.lower, self.upper)

    def tangent(self, columns, coef):
        beyond = np.maximum(np.abs(coef) - columns.flat, 0.0) / (columns.knot - columns.flat)
        slope = columns.l1 * np.maximum(1.0 - beyond, 0.0)
        infinite = np.full(len(coef), np.inf)
        return columns._replace(l1=slope, flat=np.zeros(len(coef)), knot=infinite)

    def concavity(self, columns):
        return np.minimum(columns.l2 - columns.l1 / (columns.knot - columns.flat), 0.0)

    def dual(self, columns, gradient):
        return np.nan, np.nan


def make_folded(given, scale, flat, knot) -> FoldedPenalty:
    """Penalties for what an estimator was given, with knots for every column of X."""
    options.choice(scale, "scale", SCALES)
    ratio, everywhere = given.l1_ratio, np.full(len(given.factor), np.inf)
    lower, upper = (-everywhere, everywhere) if given.bounds is None else given.bounds
    return FoldedPenalty(
        ratio if isinstance(ratio, float) else ratio[given.source],
        lower[given.source],
        upper[given.source],
        np.broadcast_to(flat, everywhere.shape)[given.source],
        np.broadcast_to(knot, everywhere.shape)[given.source],
        by_column=scale == "column",
    )


def read_shape(values, name, least, default, given) -> np.ndarray:
    """Check a parameter, a number or one for each column, which is above `least`."""
    n_columns = len(given.factor)
    if isinstance(values, Mapping) or np.ndim(values):
        numbers = check_by_column(values, name, n_columns, given.names, default=default)
    else:
        if not options.is_number(values):
            rule = f"must be a number above {least:g}, or one for each column"
            options.refuse(values, name, rule, TypeError)
        numbers = np.full(n_columns, float(values))
    if not (numbers > least).all():
        j = int(np.argmin(numbers > least))
        of = "" if np.ndim(values) == 0 and not isinstance(values, Mapping) else f" of column {j:,}"
        raise ValueError(f"`{name}`{of} is {numbers[j]:g}, must be above {least:g}.")
    return numbers
