"""The meat of a sandwich: sums over clusters of the products of their rows' scores.

The score of a row is ``x u`` and something that belongs to its groups: less ``mean u`` for the mean
of x over a group whose mean is free; in risk sets, with the sum H of a step's slope times its mean
of x up to a cell, and the mean of x over the risk set of a cell,

    x u + w (H(exit) - H(entry)) - c delta mean(exit),

and under Efron's ties less ``w delta`` times what tied deaths are spared of H.
"""

import numpy as np
from scipy.sparse import csr_array

from .._memory import available

KEPT = 0.25  # share of the free memory that scores of blocks may take, to be found again


def meat_of(blocks, scores_of):
    """Sum over clusters of the products of their scores.

    ``scores_of(columns)`` has those along the columns of a block, (clusters, columns), of which two
    are in memory at a time, or more while there is much.
    """
    p, known, most = sum(map(len, blocks)), {}, KEPT * available()
    total = np.zeros((p, p))

    def scores(k):
        if k in known:
            return known[k]
        found = scores_of(blocks[k])
        if sum(own.nbytes for own in known.values()) + found.nbytes <= most:
            known[k] = found
        return found

    for first, J in enumerate(blocks):
        left = scores(first)
        for second in range(first, len(blocks)):
            K, part = blocks[second], left.T @ scores(second)
            total[np.ix_(J, K)], total[np.ix_(K, J)] = part, part.T
    return total


def clusters_in(cluster, plan):
    """Sparse matrix that adds up numbers of a plan's rows, copies included, over clusters.

    These are numbers from 0 in the order of the caller.
    """
    of_row = plan.per_copy(cluster[plan.order])
    shape = int(cluster.max(initial=-1)) + 1, len(of_row)
    return csr_array((np.ones(len(of_row)), (of_row, np.arange(len(of_row)))), shape=shape)


def collector_of(cluster, plan):
    """Function that sums numbers of a plan's rows over clusters."""
    collect = clusters_in(cluster, plan)
    return lambda numbers: collect @ numbers
