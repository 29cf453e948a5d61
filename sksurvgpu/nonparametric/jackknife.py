r"""Variances by the infinitesimal jackknife, at all times of a curve at once.

A curve is a sum over times of what happens to rows, so that its derivative by the weight of a row,
its influence, is a running sum too. With q(s) = 1 / (n(s) - d(s)), 0 where everybody at risk has an
event, and A(t) the sum of q h until t, that of log S(t) is -U_i(t),

.. math::
    U_i(t) = 1\{time_i \le t\}\, event_i\, q(time_i) - [A(t \wedge time_i) - A(start_i)]
           = B_i(t) - W_i(t) A(t),

where B_i and W_i change only where row i comes in and goes out. The same holds for the sum of
several rows, such as those of a person, each times its weight, and for other jumps and hazards than
q and q h. The variance of the curve is the sum of squares over persons. As a polynomial in A(t) it
has coefficients, sums of B^2, B W and W^2, that are running sums over rows as they come and go: all
times cost as much as one, O(n log n).
"""

from itertools import combinations_with_replacement

import numpy as np
from pandas import DataFrame

ROUNDING = 1e-13  # a variance of 0, in units of the terms that it is the sum of


def row_influence(counts, jumps, hazard, weight=None) -> np.ndarray:
    """Influence of each row by the end: its jump less the hazards while it was at risk.

    Jumps (n_rows,) are what the ends of rows add, 0 without an event; hazards are (n_lines,).
    """
    total = counts.sum_up(hazard)
    influence = jumps - total[counts.exit] + counts.before(total, 0.0)[counts.entry]
    return influence if weight is None else weight * influence


def running_products(counts, parts, weight, cluster) -> dict:
    """Sums over clusters of products of their states, at every line, (n_lines,).

    Each of the `parts` has what the end of each row adds, (n_rows,), and a running sum of hazards,
    (n_lines,). Without clusters every row is one. Keys are pairs, the smaller number first, of W,
    number 0, and the B of each part, numbers 1, 2, ...
    """
    n_rows = len(counts.exit)
    weight = np.ones(n_rows) if weight is None else weight
    if cluster is None:
        cluster = np.arange(n_rows)
    else:  # a person in two groups counts in both
        cluster = cluster * counts.n_groups + counts.group[counts.exit]
    coming, going = [weight], [-weight]
    for jumps, total in parts:
        coming.append(weight * counts.before(total, 0.0)[counts.entry])
        going.append(weight * (jumps - total[counts.exit]))
    line = np.concatenate([counts.entry, counts.exit])
    order = np.argsort(line, kind="stable")
    changes = np.concatenate([coming, going], axis=1).T[order]
    state = DataFrame(changes).groupby(np.tile(cluster, 2)[order]).cumsum().to_numpy()
    earlier = state - changes
    return {
        (j, k): counts.sum_up(
            np.bincount(
                line[order],
                state[:, j] * state[:, k] - earlier[:, j] * earlier[:, k],
                len(counts.time),
            )
        )
        for j, k in combinations_with_replacement(range(len(coming)), 2)
    }


def without_noise(terms) -> np.ndarray:
    """Variance that is a sum of terms, 0 where there is nothing left but their rounding."""
    variance, size = sum(terms), sum(map(np.abs, terms))
    return np.where(variance > ROUNDING * size, variance, 0.0)
