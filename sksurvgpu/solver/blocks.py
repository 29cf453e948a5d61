"""Diagonal blocks of the quadratic model's matrix, kept for sweeps over groups of columns."""

from __future__ import annotations

import numpy as np

from ..backends.contract import Operations, ask
from ..penalties.blocks import blocks_of_size, with_matrices


class Blocks:
    """Blocks of groups that were swept over, while their model is."""

    def __init__(self, n_columns):
        self._n_columns = n_columns
        self.clear()

    def clear(self):
        """Forget all: the model's curvature has changed."""
        # by a group's first column: where its block begins, and of what size it is
        self._begin = np.zeros(self._n_columns, np.int64)
        self._size = np.zeros(self._n_columns, np.int64)
        self._known = np.empty(0)

    def complete(self, own, columns, model):
        """Coroutine: give a penalty's columns their blocks, asking for those that are missing."""
        groups = [(size, columns[where]) for size, _, where in blocks_of_size(own)]
        wanted = [np.reshape(where[self._size[where[:, 0]] != size], -1) for size, where in groups]
        sizes = [
            np.full(len(part) // size, size) for part, (size, _) in zip(wanted, groups, strict=True)
        ]
        if sum(map(len, sizes)):
            yield from self._ask(np.concatenate(wanted), np.concatenate(sizes))
        curvature = np.zeros((self._n_columns, 2))
        curvature[model.columns] = model.curvature
        found = (self._read(size, where, curvature) for size, where in groups)
        is_loose = np.isinf(curvature[columns, 0])
        trace = curvature[columns, is_loose.astype(int)]
        return with_matrices(own, found, lambda where: trace[where].sum())

    def _ask(self, columns, sizes):
        found = yield from ask(Operations.blocks, columns, sizes)
        first = columns[np.cumsum(sizes) - sizes]
        self._begin[first] = len(self._known) + np.cumsum(sizes**2) - sizes**2
        self._size[first] = sizes
        self._known = np.concatenate([self._known, found])

    def _read(self, size, where, curvature):
        """Blocks of one size; a column that went without the second term stands alone."""
        begin = self._begin[where[:, 0]][:, None]
        block = self._known[begin + np.arange(size**2)].reshape(-1, size, size)
        centred, plain = np.moveaxis(curvature[where], -1, 0)
        is_alone = np.isinf(centred) | (centred <= 0.0)
        block[is_alone[:, :, None] | is_alone[:, None, :]] = 0.0
        s = np.arange(size)
        diagonal = np.where(np.isinf(centred), plain, 0.0)
        block[:, s, s] = np.where(is_alone, diagonal, block[:, s, s])
        return block
