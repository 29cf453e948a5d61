"""The matrices that a session makes for its fits, and what more of their rows need."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from . import matrix
from .linalg import cupy_on, multiply_halves
from .memory import BYTES_HELD, dense_bytes
from .model import numbers_of

CAPACITY = 32  # matrices grow by multiples
ALIGNED = 64  # numbers at which columns of rows in half precision begin: for products by tiles


class HeldMatrices:
    """Matrices of all fits of a session, as correlations, and what they are made of.

    That is `model`, where they were taken; None where there are none.
    """

    def __init__(self, layout, curvatures, model, n_fits):
        self._layout, self._device = layout, layout.device
        self._curvatures, self.model = curvatures, model
        self._columns = [np.empty(0, np.int64)] * n_fits
        self._curvature = [np.empty(0)] * n_fits  # of these columns
        self._held, self._loads = self._take(0)
        self._dense = self._device.empty(0, np.float16)

    @property
    def _n_bins(self):
        return self.model.last.shape[0] if self.model is not None else 0

    def _take(self, capacity):
        """Memory of matrices with so many columns, and of the loads of these."""
        shape, empty = (len(self._columns), capacity), self._device.empty
        return empty((*shape, capacity), np.float32), empty((*shape, self._n_bins), np.float64)

    def _reserve(self, size, room):
        """Have memory for matrices of a size, and for more if there is room."""
        capacity = self._held.shape[1]
        if size <= capacity:
            return
        most = int(np.sqrt(room / BYTES_HELD))
        capacity = max(-(-size // CAPACITY) * CAPACITY, min(2 * capacity, most))
        taken, sizes = self._take(capacity), np.array([len(own) for own in self._columns])
        if sizes.any():
            [sizes_there] = self._device.send(sizes)
            now = self._held, self._loads
            self._layout.launch_wide(matrix.move, sizes.max() ** 2, sizes_there, now, taken)
        self._held, self._loads = taken

    def hold(self, fits, columns, knowns, room):
        """Take rows of the matrices over columns, in the model."""
        for fit, known in zip(fits, knowns, strict=True):
            self._columns[fit] = self._columns[fit][:known]
        self._reserve(max(map(len, columns)), room)
        self._load(fits, columns, knowns)
        sent = self._device.send(*columns, *map(self._factor, fits))
        given = zip(fits, knowns, sent[: len(fits)], sent[len(fits) :], strict=True)
        with cupy_on(self._device):
            for fit, known, *own in given:
                self._multiply(int(fit), int(known), *own)

    def _load(self, fits, columns, knowns):
        """Loads and curvature of the columns that join."""
        joining = [own[known:] for own, known in zip(columns, knowns, strict=True)]
        places = [np.arange(*ends) for ends in zip(knowns, map(len, columns), strict=True)]
        found = self._curvatures.load(self.model, fits, joining, places, self._loads)
        for fit, own, known, new in zip(fits, columns, knowns, found, strict=True):
            self._columns[fit] = own
            self._curvature[fit] = np.concatenate([self._curvature[fit][:known], new[:, 0]])

    def _factor(self, fit):
        """Factors that give columns of Q their norm; 0 of those without a curvature."""
        root = np.sqrt(self._curvature[fit])
        return np.divide(matrix.NORM, root, out=np.zeros(len(root)), where=root > 0)

    def rows(self, fit, known):
        """Rows ``known:`` of a matrix that is held."""
        root, size = np.sqrt(self._curvature[fit]), len(self._curvature[fit])
        rows = self._device.download(self._held[int(fit)][int(known) : size])[:, :size]
        rows = rows.astype(np.float64) * (root[known:, None] * root)
        rows[np.arange(size - known), np.arange(known, size)] = self._curvature[fit][known:]
        return rows

    # -- taking ---------------------------------------------------------------------------------
    def _new_dense(self, n_columns, n_rows):
        """Memory for some rows of Q, column by column: all that are wanted, or as there is room."""
        wanted = -(-n_rows // ALIGNED) * ALIGNED
        most = max(1, self._dense_bytes // (2 * n_columns * ALIGNED)) * ALIGNED
        shape = n_columns, min(wanted, most)
        if self._dense.size < math.prod(shape):
            self._dense = self._device.empty(0, np.float16)
            self._dense = self._device.empty(math.prod(shape), np.float16)
        return self._device.view(self._dense[: math.prod(shape)], np.float16, shape)

    @cached_property
    def _dense_bytes(self):
        return dense_bytes(self._device)

    def _chunks(self, most):
        """Some rows after the others, in every piece of time."""
        cut = self._layout.cut
        for piece, start in enumerate(self._layout.first):
            for low in range(int(start), int(cut[-1]), most):
                end = min(low + most, int(cut[-1]))
                first = int(np.searchsorted(cut, low, "right")) - 1
                yield matrix.RowChunk(piece, low, end, first, int(np.searchsorted(cut, end)))

    def _multiply(self, fit, known, columns, factor):
        """Rows ``known:`` of the correlations of columns."""
        layout, model, size = self._layout, self.model, len(columns)
        n_bins = self._n_bins if numbers_of(model) > 1 else 0  # that have rows in common
        n_columns = size + n_bins
        tables = self._device.empty((n_columns, self._n_bins, 3), np.float64)
        overlap = self._device.empty((n_bins, n_bins), np.float32)
        dense = self._new_dense(n_columns, max(int(layout.cut[-1]), n_bins**2))
        work, most = matrix.ColumnsOfQ(columns, factor, tables, dense), dense.shape[1]
        sides = dense[known:size], dense[:size]
        found, is_first = self._held[fit][known:size], True
        layout.launch_wide(matrix.tabulate, n_columns, fit, model, self._loads, work)
        for rows in self._chunks(most):
            n_rows, n_tiles = rows.end - rows.low, rows.end_tile - rows.first_tile
            n_tasks = n_rows * -(-n_columns // matrix.TOGETHER)
            layout.launch_wide(matrix.fill, n_tasks, layout.X, fit, rows, model, work)
            layout.launch_tasks(matrix.scatter, size * n_tiles, layout.X, fit, rows, model, work)
            multiply_halves(sides, n_rows, found, is_first)
            if n_bins:
                multiply_halves((dense[size:], dense[size:]), n_rows, overlap, is_first)
            is_first = False
        for low in range(0, n_bins**2, most):
            n_rows = min(most, n_bins**2 - low)
            layout.launch_wide(
                matrix.contrast, n_rows * size, fit, low, n_rows, model, overlap, work
            )
            multiply_halves(sides, n_rows, found, False)
        layout.launch_wide(matrix.finish, len(found) * size, fit, known, size, self._held)
