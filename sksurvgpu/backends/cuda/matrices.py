"""Matrices of the fits of a session: which rows of Q are multiplied, and what becomes of it."""

import math
from functools import cached_property

import numpy as np

from . import matrix
from .linalg import cupy_on, multiply_halves
from .memory import dense_bytes
from .model import numbers_of

ALIGNED = 64  # numbers at which columns of rows in half precision begin: for products by tiles


class Matrices:
    """Matrices at the points where `model` was taken; that is None where there are none."""

    def __init__(self, layout, curvatures, model):
        self._layout, self._device = layout, layout.device
        self._curvatures, self.model = curvatures, model
        self._squares = {}  # of fits: squared norms of columns of Q
        self._dense = self._device.empty(0, np.float16)

    @property
    def _n_bins(self):
        return self.model.last.shape[0]

    def rows(self, fits, columns, knowns):
        """Rows ``known:`` of the matrix of each fit over columns."""
        places = [np.arange(len(own)) for own in columns]
        n_fits, size = self.model.h.shape[0], max(map(len, columns))
        loads = self._device.empty((n_fits, size, self._n_bins), np.float64)
        found = self._curvatures.load(self.model, fits, columns, places, loads)
        given = zip(fits, knowns, columns, found, strict=True)
        with cupy_on(self._device):
            return [self._rows(int(fit), int(known), loads, *own) for fit, known, *own in given]

    def _rows(self, fit, known, loads, columns, found):
        """Rows of one matrix: Q'Q, and the true diagonal in place of its own."""
        curvature, sent = found[:, 0], self._device.send(columns, _factor(found[:, 0]))
        rows = self._multiply(fit, known, loads, *sent).astype(np.float64)
        new = np.arange(len(rows))
        squares = np.concatenate([self._squares.get(fit, new)[:known], rows[new, known + new]])
        self._squares[fit] = squares
        scale = np.sqrt(
            np.divide(curvature, squares, out=np.zeros(len(squares)), where=squares > 0)
        )
        rows *= scale[known:, None] * scale
        square = rows[:, known:]
        square += square.T
        square *= 0.5
        rows[new, known + new] = curvature[known:]
        return rows

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

    def _multiply(self, fit, known, loads, columns, factor):
        """Rows ``known:`` of Q'Q."""
        layout, model, size = self._layout, self.model, len(columns)
        n_bins = self._n_bins if numbers_of(model) > 1 else 0  # that have rows in common
        n_columns = size + n_bins
        tables = self._device.empty((n_columns, self._n_bins, 3), np.float64)
        overlap = self._device.empty((n_bins, n_bins), np.float32)
        dense = self._new_dense(n_columns, max(int(layout.cut[-1]), n_bins**2))
        work, most = matrix.ColumnsOfQ(columns, factor, tables, dense), dense.shape[1]
        sides = dense[known:size], dense[:size]
        found, is_first = self._device.empty((size - known, size), np.float32), True
        layout.launch_wide(matrix.tabulate, n_columns, fit, model, loads, work)
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
        return self._device.download(found)


def _factor(curvature):
    """Factors that give columns of Q their norm; 0 of those without a curvature."""
    root = np.sqrt(curvature)
    return np.divide(matrix.NORM, root, out=np.zeros(len(root)), where=root > 0)
