"""Penalties that are sums over columns, each a list of quadratic pieces: what all share.

A penalty is declared by three scalar formulas over a named tuple `c` of arrays, one number a column
in each, compiled for every backend:

    value(x, c, a)             penalty of coefficient x of column a
    minimum(z, curvature, c, a)    argmin_x  curvature x^2 / 2 - z x + value(x)
    piece(x, side, c, a)       slope, curvature, low, high of the piece left (side -1) or right
                               (side 1) of x; at a bound the slope is -inf or inf

Knots (where pieces meet) are in units of the coefficient, strengths in units of the gradient.  From
these follow, for all penalties: the violation of stationarity max(p'(x-) - g, g - p'(x+), 0), the
columns that are worked on, and Newton steps on a support (every coefficient keeps to its piece).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.sparse import csr_array

from .._compile import kernel, specialize


class Formulas(NamedTuple):
    """A penalty's scalar formulas, compiled functions."""

    value: Callable[..., float]
    minimum: Callable[..., float]
    piece: Callable[..., tuple[float, float, float, float]]
    block: Callable[..., None] | None = None  # where columns move together: see `blocks`


class Pieces(NamedTuple):
    """Around each coefficient: the slopes on both sides, and the piece right of it."""

    left: np.ndarray
    right: np.ndarray
    curvature: np.ndarray
    low: np.ndarray
    high: np.ndarray


def _sum_values(coef, c):
    total = 0.0
    for a in range(len(coef)):
        total += value(coef[a], c, a)  # noqa: F821 (bound)
    return total


def _find_pieces(coef, c, out):
    for a in range(len(coef)):
        left, _, _, _ = piece(coef[a], -1, c, a)  # noqa: F821 (bound)
        right, curvature, low, high = piece(coef[a], 1, c, a)  # noqa: F821
        out[0, a], out[1, a], out[2, a], out[3, a], out[4, a] = left, right, curvature, low, high


@kernel
def _distances(left, right, gradient, fixed):
    """How far slopes are outside of intervals; what is not a number stays so."""
    out = np.zeros(len(gradient))
    for a in range(len(gradient)):
        below, above = left[a] - gradient[a], gradient[a] - right[a]
        if np.isnan(below) or np.isnan(above):
            below = above = np.nan
        if not (fixed[a] or (below <= 0.0 and above <= 0.0)):
            out[a] = below if below > above else above
    return out


@kernel
def _are_near(left, right, coef, gradient, share, fixed):
    """Which coefficients are not zero, or have a slope near an end of its interval."""
    out = np.zeros(len(coef), np.bool_)
    for a in range(len(coef)):
        close = gradient[a] >= share * right[a] or gradient[a] <= share * left[a]
        out[a] = (coef[a] != 0.0 or close) and not fixed[a]
    return out


# Powers of the unit of coefficients in numbers of columns, of penalties that exact steps go with.
POWERS = {"l1": 1, "l2": 2, "flat": -1, "knot": -1, "lower": -1, "upper": -1}
LEAST_TOTAL = 1e-120  # sum of weights, of whose square small parts are left


def in_plain_units(columns, scale):
    """Numbers of columns for coefficients that are `scale` times less than those they are for."""
    named = columns._asdict()
    if unknown := named.keys() - POWERS:
        raise ValueError(
            f"the units of {min(unknown)!r} of `penalty` are not known, which standardize=True "
            'with algorithm="exact" needs; use algorithm="majorized".'
        )
    return columns._replace(**{name: named[name] * scale ** POWERS[name] for name in named})


def bounds_of(columns):
    """Bounds of columns, infinite where a penalty has none."""
    return getattr(columns, "lower", -np.inf), getattr(columns, "upper", np.inf)


def rescaled(coef, factor, bounds, others):
    """Coefficients times a factor; those at one of the bounds get its counterpart, to the bit."""
    lower, upper = bounds
    within = np.clip(coef * factor, *others)
    return np.where(coef <= lower, others[0], np.where(coef >= upper, others[1], within))


class Kernels(NamedTuple):
    """Loops over columns around a penalty's formulas."""

    sum_values: Callable[..., float]
    find_pieces: Callable[..., None]


def kernels_of(formulas: Formulas) -> Kernels:
    """Compile the loops of a penalty."""
    return Kernels(
        specialize(_sum_values, value=formulas.value),
        specialize(_find_pieces, piece=formulas.piece),
    )


@dataclass(frozen=True)
class Penalty:
    """A penalty at one strength; `fixed` columns do not move and need not be stationary."""

    family: Family
    columns: Any  # the named tuple of arrays
    fixed: np.ndarray  # bool

    # Whether models are minimized as matrices of all columns, by `minimize_on_matrix`.
    needs_matrix: ClassVar[bool] = False

    @property
    def formulas(self) -> Formulas:
        """Formulas that kernels bind."""
        return self.family.formulas

    def of_columns(self, which):
        """The named tuple for some of the columns."""
        return type(self.columns)(*(np.ascontiguousarray(part[which]) for part in self.columns))

    def value(self, coef) -> float:
        return self.family.kernels.sum_values(coef, self.columns)

    def pieces(self, coef, columns=None) -> Pieces:
        """Pieces around coefficients, of all columns or of those in a named tuple."""
        columns = self.columns if columns is None else columns
        out = np.empty((5, len(coef)))
        self.family.kernels.find_pieces(coef, columns, out)
        return Pieces(*out)

    def least_curvature(self, coef):
        """Curvature around coefficients, the lesser one of both sides."""
        piece, columns = self.formulas.piece, self.columns
        sides = [[piece(x, side, columns, a)[1] for side in (-1, 1)] for a, x in enumerate(coef)]
        return np.min(sides, axis=1, initial=np.inf) if sides else np.empty(0)

    def violation(self, coef, gradient):
        """Distance of every column from stationarity, in units of the gradient."""
        pieces = self.pieces(coef)
        return _distances(pieces.left, pieces.right, gradient, self.fixed)

    def slack(self, coef, gradient):
        """How far slopes are from the nearest one that would move a coefficient between pieces."""
        pieces = self.pieces(coef)
        return np.minimum(pieces.right - gradient, gradient - pieces.left)

    @cached_property
    def at_rest(self) -> Pieces:
        """Pieces around zero, where coefficients rest."""
        return self.pieces(np.zeros(len(self.fixed)))

    @cached_property
    def threshold(self):
        """Slope that a column needs to leave zero, the lesser of both sides."""
        return np.maximum(np.minimum(self.at_rest.right, -self.at_rest.left), 0.0)

    def whole(self, columns):
        """Columns, and those that they are worked on together with."""
        return columns

    def add_curvature(self, block, support, pieces, coef, columns):
        """Add second derivatives on a support to a matrix over it."""
        diagonal, rows, sign = self.bends(support, pieces, coef, columns)
        block[np.diag_indices_from(block)] += diagonal
        if len(sign):
            rows = csr_array(rows)  # a group or none each
            terms = ((rows * sign) @ rows.T).tocoo()
            block[terms.row, terms.col] += terms.data

    def bends(self, support, pieces, coef, columns):
        """Second derivatives on a support: a diagonal, and ``rows diag(sign) rows'``."""
        return pieces.curvature[support], np.empty((len(support), 0)), np.empty(0)

    def reach(self, coef, columns):
        """How far the second derivatives at coefficients may serve, within their pieces."""
        return np.full(len(coef), np.inf)

    def rise(self, support, step, pieces, coef, columns):
        """Growth of the penalty along a step beyond its slope."""
        return 0.5 * pieces.curvature[support] @ step**2

    @property
    def is_penalized(self):
        """Columns on which a force acts that pulls them to rest."""
        return (self.threshold > 0) | (self.at_rest.curvature > 0)

    def has_let_go(self, coef):
        """Coefficients other than zero that no force pulls."""
        pieces = self.pieces(coef)
        return (coef != 0) & (pieces.left == 0) & (pieces.right == 0) & (pieces.curvature == 0)

    def tangent(self, coef) -> Penalty:
        """A convex penalty that touches this one at coefficients, and is nowhere less."""
        return replace(self, columns=self.family.tangent(self.columns, coef))

    def is_near(self, coef, gradient, share):
        """Columns that are not zero, or whose slope is at least a share of what moves them."""
        left, right = self.at_rest[:2]
        return _are_near(left, right, coef, gradient, share, self.fixed)

    def rests(self, gradient, error):
        """Columns that stay at zero with such slopes, whose errors may be as large as `error`."""
        return (gradient <= self.at_rest.right + error) & (gradient >= self.at_rest.left - error)

    def settled(self, coef):
        """Coefficients with the same predictor of any data, and perhaps less penalty."""
        return coef

    def gap(self, coef, gradient, loglik, loglik_bound) -> float:
        """Upper bound of objective - optimum from the scaled dual point, or nan.

        Needs every column to be penalized (or fixed at zero), and residuals that sum to zero.
        """
        free = ~self.fixed
        columns, g, b = self.of_columns(free), gradient[free], coef[free]
        if not len(b) or np.any(coef[self.fixed] != 0):
            return np.nan
        scale, conjugate = self.family.dual(columns, g)
        slack = (1.0 - scale) * (loglik_bound - loglik) if scale < 1.0 else 0.0
        return float(max(slack + self.value(coef) - scale * float(b @ g) + conjugate, 0.0))


def check_total(total):
    """Refuse weights whose squares, with which a penalty computes, are lost."""
    if 0.0 < total < LEAST_TOTAL:
        raise ValueError(
            f"`sample_weight` adds up to {total:.3g}, and this `penalty` computes with squares of "
            "it; multiply all weights by the same number, which changes no coefficient."
        )


class Family:
    """Penalties of every strength; what a penalty need not say is here.

    A subclass has `formulas`, `kernels` and `strengths`.
    """

    formulas: ClassVar[Formulas]
    kernels: ClassVar[Kernels]
    is_convex: ClassVar[bool] = True
    needs_null: bool = False  # whether `at_null` has to come before a fit
    haste: float = 1.0  # how much faster than the strength a slope may be expected to change

    def of_total(self, total):
        """Family of the same penalty of the mean, for fits whose weights have another sum."""
        return self

    def at_null(self, curvature):
        """Family that knows the curvature of every column in the null model.

        `of_total` must have come before.
        """
        return self

    def strengths(self, lam, factor) -> NamedTuple:
        """Arrays of all columns, which have factors, at strength `lam`."""
        raise NotImplementedError

    def at(self, lam, factor, fixed) -> Penalty:
        """Penalty of strength `lam`; columns have factors, and are fixed or not."""
        return Penalty(self, self.strengths(lam, factor), fixed)

    def clip(self, coef):
        """Coefficients nearest to the given ones that the penalty allows."""
        return coef

    def in_units(self, scale):
        """Family of coefficients that are `scale` times those of this one."""
        return self

    def from_units(self, coef, scale):
        """Coefficients of this family from those of ``in_units(scale)``."""
        return coef / scale

    def is_bounded(self, n_columns):
        """Columns whose coefficients cannot go to infinity whatever the data are."""
        return np.zeros(n_columns, bool)

    def reduced(self, gradient):
        """The part of slopes at zero that could move a coefficient, its size."""
        return np.abs(gradient)

    def lam_max(self, gradient, factor, curvature):
        """Least strength that leaves all columns of a factor at zero, in the null model.

        `gradient` is `reduced`, and `curvature` the null model's, of all columns.
        """
        is_penalized = factor > 0
        return float((gradient[is_penalized] / factor[is_penalized]).max(initial=0.0))

    def is_always_there(self, factor):
        """Penalized columns that no strength keeps at zero, beside others that are kept there."""
        return np.zeros(len(factor), bool)

    def least_strength(self, signed, size, factor, curvature):
        """Least strength at rest where signs of slopes matter; `size` has `signed` ones reduced."""
        return self.lam_max(size, factor, curvature)

    def tangent(self, columns, coef):
        """Arrays of `Penalty.tangent`; without one, steps over hills of a penalty may not gain."""
        return columns

    def concavity(self, columns):
        """The least curvature that it has anywhere, of columns; -inf where a slope jumps down."""
        return np.zeros(len(columns[0]))

    def dual(self, columns, gradient):
        """Scale that makes the gradient a dual point, and the penalty's conjugate there.

        NaN where none is known.
        """
        return np.nan, np.nan
