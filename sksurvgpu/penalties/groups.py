r"""Penalties of groups of columns: a radial one of every group's norm, and a lasso within.

    P = sum_g radial_g(norm(b_g)) + sum_j within_j abs(b_j)

A radial penalty is one of a single variable, at lam * weight_g.  Where it is the norm itself this
is the group lasso (Yuan and Lin, 2006, JRSS B 68), with a lasso within the sparse group lasso
(Simon, Friedman, Hastie and Tibshirani, 2013).  Columns without a group have the radial penalty to
themselves, and so has a group of one column: with weight 1 it is the lasso.

With r = norm(b_g) and S the soft threshold by `within`, a group at zero is stationary if
``norm(S(gradient)) <= radial'(0)``, another if ``gradient = radial'(r) b_g / r + within sign(b)``.
"""

from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from .base import Family, Formulas, Kernels, Penalty, Pieces, check_total
from .blocks import (
    Grouped,
    GroupedFolded,
    arrange,
    block_minimum_of,
    labels_of,
)
from .elastic_net import FORMULAS as OF_NORM
from .elastic_net import ElasticNet

MOST_ROOTS = 100
LASSO = ElasticNet()

LEAST_PENALTY = 1e-150
REACH = 0.5  # of a group's norm


@cache
def _formulas_of(radial: Formulas):
    return radial._replace(block=block_minimum_of(radial.minimum, is_norm=radial is OF_NORM))


def _threshold(values, level):
    return np.maximum(np.abs(values) - level, 0.0)


def _norms(values, label, n_groups):
    return np.sqrt(np.bincount(label, weights=values**2, minlength=n_groups))


def _without_matrices(group):
    """Blocks of columns with these numbers of groups, whose matrices are not known yet."""
    member, size, at = arrange(group)
    names = ("member", "size", "at", "eigenvalues", "matrix", "vectors")
    return dict(zip(names, (member, size, at, *3 * [np.empty(0)]), strict=True))


def shares_at_rest(size, within, level, label, n_groups):
    """By group, the share t of slopes of such a size that leaves it at rest, and no larger one.

    Root of ``norm(S(t size)) = level``, a convex function of t: Newton's steps from above.
    """
    total = _norms(size, label, n_groups)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (level + _norms(within, label, n_groups)) / total
        for _ in range(MOST_ROOTS):
            left = _threshold(t[label] * size, within)
            norm = _norms(left, label, n_groups)
            slope = np.bincount(label, weights=left * size, minlength=n_groups) / norm
            new = np.where(slope > 0, t - (norm - level) / slope, t)
            if not np.any(new < t):
                break
            t = np.minimum(new, t)
    return t


@dataclass(frozen=True)
class GroupPenalty(Penalty):
    """A penalty of groups at one strength; fixed columns are zero, or belong to no group."""

    group: np.ndarray  # int64 (n_columns,), -1 for columns alone

    @cached_property
    def is_grouped(self):
        return self.group >= 0

    @cached_property
    def _members(self):
        """Columns that are in groups, and their groups."""
        columns = np.flatnonzero(self.is_grouped)
        return columns, self.group[columns]

    @property
    def _n_groups(self):
        return int(self.group.max(initial=-1)) + 1

    def of_columns(self, which):
        """The named tuple for some of the columns, the others of their groups being zero."""
        blocks = _without_matrices(self.group[which])
        blocks["eigenvalues"] = np.zeros(len(blocks["member"]))
        named = self.columns._asdict().items()
        strengths = {name: values[which] for name, values in named if name not in blocks}
        return self.columns._replace(**strengths, **blocks)

    def value(self, coef):
        """Of every group's norm, and of coefficients."""
        return self._value(coef, self.columns)

    def _value(self, coef, c):
        label, is_group = labels_of(c)
        grouped = is_group[label]
        x, first = np.where(grouped, 0.0, coef), c.member[np.flatnonzero(c.size)]
        x[first] = np.where(is_group, _norms(coef, label, len(first)), x[first])
        return self.family.kernels.sum_values(x, c) + float(c.within @ np.abs(coef))

    def pieces(self, coef, columns=None) -> Pieces:
        """Around coefficients: where a group is not zero, its members keep their signs at most."""
        c = self.columns if columns is None else columns
        label, is_group = labels_of(c)
        grouped, norm = is_group[label], _norms(coef, label, len(is_group))[label]
        pieces = super().pieces(np.where(grouped, norm, coef), c)
        moves, signed = grouped & (norm > 0), np.sign(coef)
        unit = np.divide(coef, norm, out=np.zeros_like(coef), where=moves)
        slope = np.where(moves, pieces.right * unit, 0.0)
        beside = np.where(grouped & ~moves, pieces.right, 0.0) + c.within
        left = slope + np.where(moves & (coef != 0), c.within * signed, -beside)
        right = slope + np.where(moves & (coef != 0), c.within * signed, beside)
        stays = grouped & (~moves | ((coef == 0) & (c.within > 0)))
        low = np.where(stays | ((c.within > 0) & (coef > 0)), 0.0, -np.inf)
        high = np.where(stays | ((c.within > 0) & (coef < 0)), 0.0, np.inf)
        bend = np.zeros_like(coef)
        along = np.divide(pieces.right, norm, out=np.zeros_like(coef), where=moves)
        bend[moves] = (along + (pieces.curvature - along) * unit**2)[moves]
        of_groups = left, right, bend, low, high
        return Pieces(*(np.where(grouped, *both) for both in zip(of_groups, pieces, strict=True)))

    def bends(self, support, pieces, coef, columns):
        """Of a norm, the same across all its members, less a term along these."""
        label, is_group = labels_of(columns)
        norm = _norms(coef, label, len(is_group))[label]
        of_norm = super().pieces(np.where(is_group[label], norm, coef), columns)
        own, is_member = norm[support], is_group[label[support]]
        inverse = np.divide(1.0, own, out=np.zeros_like(own), where=is_member & (own > 0))
        unit, along = coef[support] * inverse, of_norm.right[support] * inverse
        along -= np.where(is_member, of_norm.curvature[support], 0.0)
        members = np.flatnonzero(along)
        groups, at = np.unique(label[support][members], return_inverse=True)
        rows, sign = np.zeros((len(support), len(groups))), np.empty(len(groups))
        rows[members, at] = (unit * np.sqrt(np.abs(along)))[members]
        sign[at] = -np.sign(along[members])
        return pieces.curvature[support] + along * unit**2, rows, sign

    def reach(self, coef, columns):
        """Not to the zero of their group, where a norm has a kink."""
        label, is_group = labels_of(columns)
        norm = _norms(coef, label, len(is_group))[label]
        return np.where(is_group[label], REACH * norm, np.inf)

    def rise(self, support, step, pieces, coef, columns):
        """Growth of the penalty along a step beyond its slope."""
        new = coef.copy()
        new[support] += step
        gain = self._value(new, columns) - self._value(coef, columns)
        return gain - float(pieces.right[support] @ step)

    def violation(self, coef, gradient):
        """Distance of every column from stationarity; of a group at zero, its part of the norm."""
        pieces = self.pieces(coef)
        beyond = np.maximum(np.maximum(pieces.left - gradient, gradient - pieces.right), 0.0)
        columns, label = self._members
        left = _threshold(gradient[columns], self.columns.within[columns])
        at_zero = (_norms(coef[columns], label, self._n_groups) == 0.0)[label]
        norm = _norms(left, label, self._n_groups)[label]
        excess = np.maximum(norm - self._level, 0.0)
        of_zero = np.divide(left * excess, norm, out=np.zeros_like(left), where=norm > 0)
        beyond[columns] = np.where(at_zero, of_zero, beyond[columns])
        return np.where(self.fixed, 0.0, beyond)

    def slack(self, coef, gradient):
        """Of a group at zero, that of its norm."""
        slack = super().slack(coef, gradient)
        columns, label = self._members
        left = _threshold(gradient[columns], self.columns.within[columns])
        at_zero = (_norms(coef[columns], label, self._n_groups) == 0.0)[label]
        of_norm = self._level - _norms(left, label, self._n_groups)[label]
        slack[columns] = np.where(at_zero, of_norm, slack[columns])
        return slack

    @cached_property
    def _level(self):
        """Slope of the norm's penalty where it rests, of the columns in groups."""
        return super().pieces(np.zeros(len(self.fixed)), self.columns).right[self._members[0]]

    def whole(self, columns):
        """Of a group at zero, some columns may stay where all would move."""
        is_taken, chosen = np.zeros(len(self.group), bool), self.group[columns]
        is_taken[columns] = True
        return np.flatnonzero(is_taken | (np.isin(self.group, chosen) & self.is_grouped))

    @cached_property
    def threshold(self):
        """Slope that all columns of a group need to leave zero together."""
        columns, label = self._members
        threshold = np.array(super().threshold)
        size = np.bincount(label)[label]
        threshold[columns] = self.columns.within[columns] + self._level / np.sqrt(size)
        return threshold

    def is_near(self, coef, gradient, share):
        """Whole groups: the strong rule of the norm, as that of a column alone."""
        near = super().is_near(coef, gradient, share)
        columns, label = self._members
        left = _threshold(gradient[columns], share * self.columns.within[columns])
        close = _norms(left, label, self._n_groups)[label] >= share * self._level
        is_zero = (np.bincount(label, coef[columns] != 0, self._n_groups) == 0)[label]
        near[columns] = close | ~is_zero
        return near

    def rests(self, gradient, error):
        """Columns alone as ever; one of a group, even where the group is not zero."""
        alone = super().rests(gradient, error)
        return np.where(self.is_grouped, np.abs(gradient) <= self.columns.within + error, alone)


@dataclass(frozen=True)
class GroupFamily(Family):
    """Penalties of every strength, `share` of which is the groups' and the rest within them."""

    group: np.ndarray  # int64 (n_columns,), -1 for columns alone
    weight: np.ndarray  # (n_groups,)
    share: float = 1.0
    radial: Family = LASSO

    @property
    def is_convex(self) -> bool:  # type: ignore[override]
        return self.radial.is_convex

    @property
    def needs_null(self) -> bool:  # type: ignore[override]
        return self.radial.needs_null

    @property
    def haste(self) -> float:  # type: ignore[override]
        return self.radial.haste

    def of_total(self, total):
        check_total(total)
        return replace(self, radial=self.radial.of_total(total))

    def at_null(self, curvature):
        """The curvature of a group is the mean of its columns', whatever directions they have."""
        is_member, common = self.group >= 0, np.array(curvature)
        group = self.group[is_member]
        mean = np.bincount(group, curvature[is_member]) / np.bincount(group)
        common[is_member] = mean[group]
        return replace(self, radial=self.radial.at_null(common))

    def tangent(self, columns, coef):
        label, is_group = labels_of(columns)
        return self.radial.tangent(columns, _norms(coef, label, len(is_group))[label])

    def concavity(self, columns):
        return self.radial.concavity(columns)

    @property
    def formulas(self) -> Formulas:  # type: ignore[override]
        return _formulas_of(self.radial.formulas)

    @property
    def kernels(self) -> Kernels:  # type: ignore[override]
        return self.radial.kernels

    @cached_property
    def _group(self):
        """Groups; those of one column are it alone, where both mean the same."""
        if self.share < 1.0 and self.radial.formulas is not OF_NORM:
            return self.group
        is_single = np.bincount(self.group[self.group >= 0], minlength=len(self.weight)) == 1
        return np.where(is_single[self.group] & (self.group >= 0), -1, self.group)

    def _alone(self, factor):
        """Factors of columns alone; 0 for those in groups."""
        was_grouped = (self.group >= 0) & (factor > 0)
        of_groups = self.share * self.weight[self.group] + (1.0 - self.share) * factor
        return np.where(self._group >= 0, 0.0, np.where(was_grouped, of_groups, factor))

    def at(self, lam, factor, fixed):
        """Columns that are fixed, and all where there is no penalty, belong to no group."""
        lam = lam if lam > LEAST_PENALTY else 0.0  # its square is computed with
        group = np.where(fixed | (factor == 0) | (lam == 0), -1, self._group)
        return GroupPenalty(self, self._columns(lam, factor, group), fixed, group)

    def _columns(self, lam, factor, group):
        of_norm, within = self._alone(factor), np.zeros(len(factor))
        is_member = group >= 0
        of_norm[is_member] = self.share * self.weight[group[is_member]]
        within[is_member] = (1.0 - self.share) * lam * factor[is_member]
        strengths = self.radial.strengths(lam, of_norm)._asdict()
        grouped: Any = GroupedFolded if "knot" in strengths else Grouped
        return grouped(within=within, **strengths, **_without_matrices(group))

    def lam_max(self, gradient, factor, curvature):
        columns = np.flatnonzero((self._group >= 0) & (factor > 0))
        least = self.radial.lam_max(gradient, self._alone(factor), curvature)
        if not len(columns):
            return least
        within, level = (1.0 - self.share) * factor[columns], self.share * self.weight
        # in units of 1 / lam
        largest = shares_at_rest(
            gradient[columns], within, level, self.group[columns], len(self.weight)
        )
        return max(least, float((1.0 / largest[np.isfinite(largest)]).max(initial=0.0)))

    def dual(self, columns, gradient):
        if not self.is_convex:
            return np.nan, np.nan
        label, is_group = labels_of(columns)
        alone = ~is_group[label]
        of_alone = self.radial.strengths(1.0, columns.l1[alone])
        scale = 1.0
        if alone.any():
            scale, _ = self.radial.dual(of_alone, gradient[alone])
        level = columns.l1[columns.member[np.flatnonzero(columns.size)]]
        at_rest = shares_at_rest(np.abs(gradient), columns.within, level, label, len(level))
        at_rest = at_rest[is_group]
        return min(scale, float(np.min(at_rest[~np.isnan(at_rest)], initial=1.0))), 0.0
