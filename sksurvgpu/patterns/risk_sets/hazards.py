r"""Cumulative hazards of a fit, and how they vary.

In a group (piece of the time axis, stratum) with atoms a (`risk_sets`), until t,

.. math:: A = \sum g_a, \quad m = \sum g_a \bar x_a / A, \quad B = \sum (g_a / den_a) / A^2 .

All three are relative to the scale of the group's predictors, and so is what follows. A row with
columns :math:`x_b` and hazard :math:`\Lambda_b = A_b e^{x_b\beta}` in piece b has
:math:`\Lambda = \sum \Lambda_b`, with shares :math:`\pi_b = \Lambda_b / \Lambda` and the derivative
:math:`\Lambda D` in the coefficients, :math:`D = \sum \pi_b (x_b - m_b)`. Relative to
:math:`\Lambda^2` its variance is (Tsiatis 1981; with Efron's ties likewise)

.. math:: \sum \pi_b^2 B_b + D' V D

Robust, with the score :math:`s_i` of row i and the change :math:`\chi_i` of :math:`\log A` with its
weight at given coefficients, it is the sum of :math:`(\chi_i + D' I^{-1} s_i)^2` over rows, or of
squares of sums over clusters. :math:`\chi_i`, the integral of :math:`dM_i / den` until t over A, is
the score of a column of zeros whose mean in the risk sets until t is :math:`-1 / (A\,den)`: those
of Fine and Gray's model so know that the censoring was estimated.
"""

from typing import NamedTuple

import numpy as np

from .information import RiskSetView


class Spread(NamedTuple):
    """Numbers that variances of curves in one stratum are made of, at some times."""

    mean: np.ndarray  # (n_pieces, n_times, n_coef): m
    covariance: np.ndarray  # (n_pieces, n_times) B, or (n_pieces, n_times, n_times) of all times
    cross: np.ndarray | None  # (n_times, n_coef): with the coefficients, of robust ones


class AtomsOfStratum(NamedTuple):
    """Atoms of a stratum, in the order of pieces and times."""

    time: np.ndarray
    piece: np.ndarray
    step: np.ndarray  # g
    inverse: np.ndarray  # 1 / den
    mean: np.ndarray  # (n_atoms, n_coef)


class HazardSpread:
    """Variances of the cumulative hazards of a view.

    With the `influence` of clusters on the coefficients, and the function that sums rows over
    clusters, the robust ones. Only the hazard after `start` counts.
    """

    def __init__(self, view: RiskSetView, start=-np.inf, influence=None, collect=None):
        self._view, self._influence, self._collect = view, influence, collect
        rows, atoms = view.rows, view.atoms
        self._means = np.empty((len(atoms.cell), rows.n_coef))
        for columns in rows.blocks(3 * rows.plan.n_rows):
            self._means[:, columns] = view.means(rows.block(columns))
        self._time = rows.plan.cell_time[atoms.cell]
        counts = self._time > start
        self._slope = np.where(counts, view.slope, 0.0)
        self._inverse = np.where(counts, 1.0 / view.den, 0.0)

    def atoms(self, stratum) -> AtomsOfStratum:
        """Atoms of a stratum after the start."""
        cell, plan = self._view.atoms.cell, self._view.rows.plan
        piece, own = np.divmod(
            np.searchsorted(plan.cell_ptr, cell, side="right") - 1, plan.n_strata
        )
        own = (own == stratum) & (self._slope > 0.0)
        parts = (self._time, piece, self._slope, self._inverse, self._means)
        return AtomsOfStratum(*(part[own] for part in parts))

    def at(self, stratum, times, joint=False) -> Spread:
        """Spread of a stratum; `joint` between all times."""
        plan, found = self._view.rows.plan, []
        for group in range(stratum, len(plan.cell_ptr) - 1, plan.n_strata):
            part = slice(*np.searchsorted(self._view.atoms.cell, plan.cell_ptr[[group, group + 1]]))
            last = np.searchsorted(self._time[part], times, side="right")
            hazard = _until(self._slope[part], last)
            scale = np.where(hazard > 0, 1.0 / np.where(hazard > 0, hazard, 1.0), 0.0)
            mean = _until(self._slope[part, None] * self._means[part], last) * scale[:, None]
            vary = self._of_model if self._influence is None else self._robust
            found.append((mean, *vary(part, last, scale, joint)))
        mean, covariance, cross = zip(*found, strict=True)
        return Spread(np.array(mean), np.array(covariance), cross[0])

    def _of_model(self, part, last, scale, joint):
        """B, or with all times."""
        variance = _until(self._slope[part] * self._inverse[part], last)
        if not joint:
            return variance * scale**2, None
        return np.minimum.outer(variance, variance) * np.outer(scale, scale), None

    def _robust(self, part, last, scale, joint):
        """Variance by the influence of rows, and its products with that on the coefficients."""
        n_times, rows = len(last), self._view.rows
        blocks = rows.blocks(4 * rows.plan.n_rows, n_columns=n_times)
        cross = np.empty((n_times, self._influence.shape[1]))
        covariance = np.empty((n_times, n_times) if joint else n_times)
        for k, J in enumerate(blocks):
            chi = self._chi(part, last[J], scale[J])
            cross[J] = chi.T @ self._influence
            if not joint:
                covariance[J] = np.einsum("ij,ij->j", chi, chi)
                continue
            for K in blocks[: k + 1]:
                other = chi if K is J else self._chi(part, last[K], scale[K])
                product = chi.T @ other
                covariance[np.ix_(J, K)], covariance[np.ix_(K, J)] = product, product.T
        return covariance, cross

    def _chi(self, part, last, scale):
        """Change of log A with every cluster's weight."""
        mean = np.zeros((len(self._slope), len(last)))
        is_past = np.arange(part.stop - part.start)[:, None] < last
        mean[part] = np.where(is_past, -self._inverse[part, None] * scale, 0.0)
        return self._collect(
            self._view.scores_of(np.zeros((self._view.rows.plan.n_rows, len(last))), mean)
        )


def _until(values, last):
    """Sums of the first `last` entries along the first axis."""
    total = np.zeros((len(values) + 1, *values.shape[1:]))
    np.cumsum(values, axis=0, out=total[1:])
    return total[last]
