"""Information of the exact conditional logistic likelihood.

Given its m cases, the rows of a set are drawn like independent Z_i with P(Z_i = 1) = p_i whose sum
S is m (`cpu`). The information is the variance of sum Z_i x_i under this law. With
f_k = P(S = k) and the moments of X_J = sum Z_i x_iJ on the event S = k,

    f_k  <- q f_k + p f_{k-1}
    F_k  <- q F_k + p (F_{k-1} + x f_{k-1})                                   E[X_J; S = k]
    FF_k <- q FF_k + p (FF_{k-1} + x F'_{k-1} + F_{k-1} x' + x x' f_{k-1})    E[X_J X_K'; S = k]

one row after the other. Columns are centred at their mean under the inclusion probabilities: then
F_m is zero, and the set adds FF_m / f_m, from which nothing need be subtracted. Only k from which m
can still be reached matters, within nine standard deviations of the running mean.

The slope of tr(A I) along the coefficients, A = LL' held, comes from third moments. Of the columns
z = L'x these are numbers a column, T_k = E[|Z_J|^2 Z_J; S = k]:

    T_k <- q T_k + p (T_{k-1} + x tr FF_{k-1} + 2 FF_{k-1} x + |x|^2 F_{k-1} + 2 x x'F_{k-1}
                      + |x|^2 x f_{k-1})
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from ..._compile import device, kernel
from ...information.views import View
from .cpu import DEVIATIONS, MARGIN, split


class SubsetMoments:
    """Second moments of dense columns over the subsets of all matched sets."""

    def __init__(self, rows):
        state = rows.session.pattern.sets
        self._sets = _Sets(
            state.ptr, state.cases, state.tau, state.share, rows.session.eta, rows.weight
        )

    def cross(self, x, z) -> tuple[np.ndarray, np.ndarray]:
        """Information of two blocks of columns, and the diagonal of x' diag(pi) z."""
        total, size = np.zeros((x.shape[1], z.shape[1])), np.zeros(x.shape[1])
        _cross(self._sets, x, z, total, size)
        return total, size

    def third(self, x) -> np.ndarray:
        """Sum over dense columns r of the third cumulants of r, r and every column."""
        total = np.zeros(x.shape[1])
        _third(self._sets, x, total)
        return total


class _Sets(NamedTuple):
    """Matched sets at the coefficients of a fit."""

    ptr: np.ndarray
    cases: np.ndarray  # per set; 0 where the set contributes nothing
    tau: np.ndarray  # per set: shift of the predictor at which p sums to about m
    share: np.ndarray  # per row: probability of being a case, given m
    eta: np.ndarray
    weight: np.ndarray


class _Moments(NamedTuple):
    """Moments of a set on S = k, for every k."""

    law: np.ndarray  # f
    first: np.ndarray  # F of one block of columns
    second: np.ndarray  # ... and of the other
    both: np.ndarray  # FF


@device
def _centre(share, cases, x, out):
    """Columns of a set less their means under the inclusion probabilities."""
    for j in range(x.shape[1]):
        mean = 0.0
        for i in range(len(x)):
            mean += share[i] * x[i, j]
        mean /= cases
        for i in range(len(x)):
            out[i, j] = x[i, j] - mean


@device
def _add_row(p, q, x, z, k, moments):
    """Moments on S = k after a row, from those before it."""
    law, first, second, both = moments
    before = law[k - 1]
    for a in range(len(x)):
        for b in range(len(z)):
            cross = x[a] * second[k - 1, b] + first[k - 1, a] * z[b] + x[a] * z[b] * before
            both[k, a, b] = q * both[k, a, b] + p * (both[k - 1, a, b] + cross)
    for a in range(len(x)):
        first[k, a] = q * first[k, a] + p * (first[k - 1, a] + x[a] * before)
    for b in range(len(z)):
        second[k, b] = q * second[k, b] + p * (second[k - 1, b] + z[b] * before)
    law[k] = q * law[k] + p * before


@device
def _scan_set(eta, tau, cases, x, z, moments):
    """Moments on S = cases of one set."""
    law, first, second, both = moments
    law[: cases + 1], first[: cases + 1] = 0.0, 0.0
    second[: cases + 1], both[: cases + 1] = 0.0, 0.0
    law[0] = 1.0
    mean, variance, n = 0.0, 0.0, len(eta)
    for i in range(n):
        p, q = split(eta[i] - tau)
        mean += p
        variance += p * q
        width = DEVIATIONS * np.sqrt(variance) + MARGIN
        low = max(cases - (n - 1 - i), int(np.floor(mean - width)), 0)
        high = min(cases, i + 1, int(np.ceil(mean + width)))
        for k in range(high, max(low, 1) - 1, -1):
            _add_row(p, q, x[i], z[i], k, moments)
        if low == 0:
            law[0] *= q


@kernel
def _cross(sets, x, z, total, size):
    width, other, most, longest = x.shape[1], z.shape[1], 0, 0
    for s in range(len(sets.cases)):
        most = max(most, sets.cases[s])
        longest = max(longest, sets.ptr[s + 1] - sets.ptr[s])
    law, both = np.empty(most + 1), np.empty((most + 1, width, other))
    first, second = np.empty((most + 1, width)), np.empty((most + 1, other))
    moments = _Moments(law, first, second, both)
    x_set, z_set = np.empty((longest, width)), np.empty((longest, other))
    for s in range(len(sets.cases)):
        m, begin, end = sets.cases[s], sets.ptr[s], sets.ptr[s + 1]
        if m == 0:
            continue
        share, n = sets.share[begin:end], end - begin
        _centre(share, m, x[begin:end], x_set)
        _centre(share, m, z[begin:end], z_set)
        _scan_set(sets.eta[begin:end], sets.tau[s], m, x_set[:n], z_set[:n], moments)
        c, inverse = sets.weight[begin], 1.0 / law[m]
        for a in range(width):
            for b in range(other):
                total[a, b] += c * inverse * both[m, a, b]
            for i in range(n):
                size[a] += c * share[i] * x[begin + i, a] ** 2


@device
def _add_third_row(p, q, x, k, moments, third):
    """Moments on S = k after a row, those of the third order too."""
    law, first, _, both = moments
    before, along, square, trace = law[k - 1], 0.0, 0.0, 0.0
    for a in range(len(x)):
        along += x[a] * first[k - 1, a]
        square += x[a] * x[a]
        trace += both[k - 1, a, a]
    for a in range(len(x)):
        cross = 0.0
        for b in range(len(x)):
            cross += x[b] * both[k - 1, a, b]
        gain = x[a] * (trace + 2.0 * along + square * before)
        gain += 2.0 * cross + square * first[k - 1, a]
        third[k, a] = q * third[k, a] + p * (third[k - 1, a] + gain)


@device
def _scan_third(eta, tau, cases, x, moments, third):
    """Moments of one set on S = cases, the columns being the same in both blocks."""
    law, first, second, both = moments
    law[: cases + 1], first[: cases + 1], second[: cases + 1] = 0.0, 0.0, 0.0
    both[: cases + 1], third[: cases + 1] = 0.0, 0.0
    law[0] = 1.0
    for i in range(len(eta)):
        p, q = split(eta[i] - tau)
        for k in range(min(cases, i + 1), max(cases - (len(eta) - 1 - i), 1) - 1, -1):
            _add_third_row(p, q, x[i], k, moments, third)
            _add_row(p, q, x[i], x[i], k, moments)
        law[0] *= q


@kernel
def _third(sets, x, total):
    width, most, longest = x.shape[1], 0, 0
    for s in range(len(sets.cases)):
        most = max(most, sets.cases[s])
        longest = max(longest, sets.ptr[s + 1] - sets.ptr[s])
    first, second = np.empty((most + 1, width)), np.empty((most + 1, width))
    moments = _Moments(np.empty(most + 1), first, second, np.empty((most + 1, width, width)))
    third, x_set = np.empty((most + 1, width)), np.empty((longest, width))
    for s in range(len(sets.cases)):
        m, begin, end = sets.cases[s], sets.ptr[s], sets.ptr[s + 1]
        if m == 0:
            continue
        _centre(sets.share[begin:end], m, x[begin:end], x_set)
        eta = sets.eta[begin:end]
        _scan_third(eta, sets.tau[s], m, x_set[: end - begin], moments, third)
        for a in range(width):
            total[a] += sets.weight[begin] * third[m, a] / moments.law[m]


class SubsetView(View):
    """Exact conditional logistic regression."""

    widest = 32  # moments take a number for each pair of columns and number of cases

    def __init__(self, rows):
        super().__init__(rows)
        self._moments = SubsetMoments(rows)

    def cross(self, x, z):
        return self._moments.cross(x, z)

    def traces(self, inverse):
        root = cholesky(inverse, lower=True)
        z = self.centred(np.arange(self.rows.n_coef)) @ root
        return solve_triangular(root, self._moments.third(z), lower=True, trans="T")

    def scores(self, x):
        return x * self.rows.session.u[:, None]  # which sums to 0 within a set
