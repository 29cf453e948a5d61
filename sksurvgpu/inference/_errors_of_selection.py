r"""Bounds of the expected number of false selections by stability selection.

A procedure selects q of p columns in half of the data, on average.  A column is a *noise* here if
its chance of that is at most :math:`\theta = q/p`, as if columns were drawn.  Stability selection
keeps those with a share of at least :math:`\tau` of 2B halves.  Whatever the procedure, it keeps at
most

.. math:: \frac{q^2}{(2\tau - 1) p}

noises (Shah and Samworth 2013, theorem 1; Meinshausen and Buhlmann 2010 have the same for columns
without an effect, which must be exchangeable).  Let the halves be complementary pairs.  If the
share of the pairs of which a noise is selected in both halves has a unimodal distribution, the
factor of :math:`q^2 / p` becomes that of theorem 2.  If it has an r-concave one with r = -1/2, and
the share of the halves one with r = -1/4, the bound is

.. math:: p \min\{D(\theta^2; 2\tau - 1, B, -1/2), D(\theta; \tau, 2B, -1/4)\},

where D(m; t, B, r) is the largest probability of at least t that an r-concave distribution on 0,
1/B, ..., 1 of mean m has.  It is that of masses :math:`(a + i)^{1/r}` for i up to some k, and what
is left at k + 1 (appendix A.4).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

__all__ = ["ASSUMPTIONS", "expected_errors", "largest_tail"]

ASSUMPTIONS = ("none", "unimodal", "r-concave")
ROUNDING = 1e-9  # of a share that is a multiple of one over the number of halves
LOWEST, HIGHEST = 1e-8, 1e8  # of the parameter a
HALVINGS, SECTIONS = 80, 60
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


def expected_errors(n_selected, n_columns, threshold, n_halves, assumption) -> float:
    """Bound for q of p columns, a threshold of the share, and so many halves."""
    theta = n_selected / n_columns
    share = np.ceil(threshold * n_halves - ROUNDING) / n_halves  # the least that is enough
    worst = n_selected * theta / (2.0 * share - 1.0)
    bound = n_columns * theta
    if assumption == "unimodal":
        bound = n_selected * theta * _unimodal_factor(theta, share, n_halves // 2)
    elif assumption == "r-concave":
        n_kept, n_pairs = round(share * n_halves), n_halves // 2
        both = largest_tail(theta**2, n_kept - n_pairs, n_pairs, -0.5)
        bound = n_columns * min(both, largest_tail(theta, n_kept, n_halves, -0.25))
    return float(min(bound, worst, n_selected))


def _unimodal_factor(theta, share, n_pairs):
    """Factor of q^2 / p; infinite where the theorem says nothing."""
    least = 0.5 + min(theta**2, 0.5 / n_pairs + 0.75 * theta**2)
    if theta > 1.0 / np.sqrt(3.0) or share <= least:
        return np.inf
    if share <= 0.75:
        return 0.5 / (2.0 * share - 1.0 - 0.5 / n_pairs)
    return 4.0 * (1.0 - share + 0.5 / n_pairs) / (1.0 + 1.0 / n_pairs)


@lru_cache(maxsize=4096)
def largest_tail(mean, at_least, n, r) -> float:
    """Largest probability of `at_least` or more of n under an r-concave law with mean n * mean."""
    total, power = mean * n, 1.0 / r
    first = int(np.ceil(2.0 * total)) + 1  # the uniform law up to it has a larger mean
    if at_least < first or first > n - 1:
        return 1.0
    if total == 0.0:
        return 0.0
    ends = np.arange(max(first, at_least - 1), n + 1)
    place = np.arange(n + 1)
    inside = place <= ends[:, None]

    def masses(a):
        return np.where(inside, (a[:, None] + place) ** power, 0.0)

    low, high = np.full(len(ends), LOWEST), np.full(len(ends), HIGHEST)
    for _ in range(HALVINGS):  # of a at which nothing is left at k + 1, by its logarithm
        middle = np.sqrt(low * high)
        mass = masses(middle)
        is_low = mass @ place < total * mass.sum(axis=1)
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    limit = np.sqrt(low * high)
    inside, last = inside[:-1], ends[:-1]

    def tail(a):
        mass = masses(a)
        rest = (np.maximum(last[:, None] + 1 - place, 0) * mass).sum(axis=1)
        return 1.0 - (last + 1 - total) * mass[:, :at_least].sum(axis=1) / rest

    return float(np.clip(_largest(tail, limit[1:], limit[:-1]), 0.0, 1.0))


def _largest(function, low, high):
    """Largest value of functions with one peak, each between its own limits."""
    best = np.maximum(function(low), function(high))
    for _ in range(SECTIONS):
        width = GOLDEN * (high - low)
        left, right = high - width, low + width
        at_left, at_right = function(left), function(right)
        best = np.maximum(best, np.maximum(at_left, at_right))
        low, high = (
            np.where(at_left < at_right, left, low),
            np.where(at_left < at_right, high, right),
        )
    return best.max()
