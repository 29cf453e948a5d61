"""Sums over clusters of rows of the products of their scores: the meat of a sandwich.

The score of a row is ``x u`` and something that belongs to its groups: less ``mean u`` for the mean
of x over a group whose mean is free; in risk sets, with the sum H of a step's slope times its mean
of x up to a cell, and the mean of x over the risk set of a cell,

    x u + w (H(exit) - H(entry)) - c delta mean(exit),

and under Efron's ties less ``w delta`` times what tied deaths are spared of H.
"""

from __future__ import annotations

import numpy as np

from ...data.vectors import encode
from ..meat import collector_of, meat_of

__all__ = ["meat_of_part"]

MOST_NUMBERS = 2**25  # in a dense block of columns: 256 MiB


def meat_of_part(pattern, columns):
    """Sum over clusters of the products of their scores; ``pattern.scores`` has those of rows."""
    arranged, p = pattern.arranged, len(columns)
    collect = _collector(arranged.rows.cluster, pattern.plan)
    width = int(np.clip(MOST_NUMBERS // max(pattern.plan.n_rows, 1), 1, max(p, 1)))
    blocks = [np.arange(low, min(low + width, p)) for low in range(0, p, width)]

    def scores_of(block):
        x = np.ascontiguousarray(arranged.products.dense(columns[block]).T)
        return collect(pattern.scores(x, block))

    return meat_of(blocks, scores_of)


def _collector(cluster, plan):
    """Function that sums numbers by cluster; None: copies of a row are one."""
    if cluster is None and plan.n_rows == plan.n_base:
        return lambda numbers: numbers
    return collector_of(np.arange(plan.n_base) if cluster is None else encode(cluster)[0], plan)
