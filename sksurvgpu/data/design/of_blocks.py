"""Designs whose columns are all computed."""

import numpy as np

from .columns import COMPUTED, Design


def design_of(*blocks, names=None) -> Design:
    """Make a design of the columns of blocks, one after the other."""
    p, nothing = sum(block.n_columns for block in blocks), np.zeros(0)
    kind, number = np.full(p, COMPUTED, np.uint8), np.arange(p)
    indptr, indices = np.zeros(p + 1, np.int64), nothing.astype(np.int32)
    n_rows = blocks[0].n_rows
    return Design(n_rows, kind, indptr, indices, nothing, number, names, blocks=blocks)
