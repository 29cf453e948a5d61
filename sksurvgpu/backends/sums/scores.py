"""Sums over clusters of rows of the products of their scores: the meat of a sandwich.

The score of a row is ``x u`` and something that belongs to its groups: less ``mean u`` for the mean
of x over a group whose mean is free; in risk sets, with the sum H of a step's slope times its mean
of x up to a cell, and the mean of x over the risk set of a cell,

    x u + w (H(exit) - H(entry)) - c delta mean(exit),

and under Efron's ties less ``w delta`` times what tied deaths are spared of H.
"""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np

from ...data.vectors import encode

__all__ = ["meat_of"]

MOST_NUMBERS = 2**25  # in a dense block of columns: 256 MiB


def meat_of(pattern, columns):
    """Sum over clusters of the products of their scores; ``pattern.scores`` has those of rows."""
    arranged, plan, p = pattern.arranged, pattern.plan, len(columns)
    collect = _collector(arranged.rows.cluster, plan)
    width = int(np.clip(MOST_NUMBERS // max(plan.n_rows, 1), 1, max(p, 1)))
    blocks = [np.arange(low, min(low + width, p)) for low in range(0, p, width)]

    def sums(block):
        x = np.ascontiguousarray(arranged.products.dense(columns[block]).T)
        return collect(pattern.scores(x, block))

    total = np.zeros((p, p))
    for first, second in combinations_with_replacement(range(len(blocks)), 2):
        J, K = blocks[first], blocks[second]
        left = sums(J)
        part = left.T @ (left if first == second else sums(K))
        total[np.ix_(J, K)], total[np.ix_(K, J)] = part, part.T
    return total


def _collector(cluster, plan):
    """Function that sums numbers by cluster; None: copies of a row are one."""
    if cluster is None and plan.n_rows == plan.n_base:
        return lambda numbers: numbers
    from scipy.sparse import csr_array

    code = np.arange(plan.n_base) if cluster is None else encode(cluster)[0][plan.order]
    of_copy, n = plan.per_copy(code), plan.n_rows
    shape = int(code.max(initial=-1)) + 1, n
    collect = csr_array((np.ones(n), (of_copy, np.arange(n))), shape=shape)
    return lambda numbers: collect @ numbers
