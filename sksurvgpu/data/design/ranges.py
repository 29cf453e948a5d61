"""Columns shared out to threads."""

from itertools import pairwise

import numpy as np

from ..._threads import Pool

__all__ = ["over_columns"]


def over_columns(function, cost, n_threads):
    """Call ``function(first, last)`` on ranges of columns of about the same total cost."""
    total = np.cumsum(cost)
    cuts = np.searchsorted(total, total[-1] * np.arange(1, n_threads) / n_threads)
    bounds = np.unique(np.concatenate([[0], cuts, [len(cost)]])).tolist()
    if len(bounds) == 2:
        function(*bounds)
        return
    with Pool(len(bounds) - 1) as pool:
        list(pool.map(lambda part: function(*part), pairwise(bounds)))
