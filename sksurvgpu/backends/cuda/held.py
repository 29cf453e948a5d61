"""The matrices that a session makes for its fits, and what more of their rows need."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ...data.design.columns import DENSE
from . import matrix
from .layout import RESERVED_SHARED
from .memory import BYTES_HELD

# How sparse columns are added up: in "tiles" in shared memory or "in place" in the matrix, or like
# all others as "columns".
WAY = "tiles"
SIDE = 1_024  # of tiles in place: entries of a row that lists hold
TASKS = 2  # for each multiprocessor
# Below this share of its curvature without the second term, rounding of a column's integers shows.
NEARLY_CONSTANT = 0.1
CAPACITY = 32  # matrices grow by multiples


class HeldMatrices:
    """Matrices of all fits of a session, as correlations, and what they are made of.

    That is `model`, where they were taken; None where bins are many, and there are none.
    """

    def __init__(self, layout, curvatures, model, n_fits):
        self._layout, self._device = layout, layout.device
        self._curvatures, self.model = curvatures, model
        self._columns = [np.empty(0, np.int64)] * n_fits
        self._curvature = [np.empty((0, 2))] * n_fits  # of these columns
        self._held, self._scales, self._loads = self._take(0)
        self._parts = self._device.empty((0, 0), np.float64)  # of `multiply`

    def _take(self, capacity):
        """Memory of matrices with so many columns, of what these are scaled by, of their loads."""
        shape, empty = (len(self._columns), capacity), self._device.empty
        n_bins = self.model.last.shape[0] if self.model is not None else 0
        scales, loads = (empty(own, np.float64) for own in (shape, (*shape, n_bins)))
        return empty((*shape, capacity), np.float32), scales, loads

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
            self._layout.launch_wide(
                matrix.move,
                sizes.max() ** 2,
                sizes_there,
                self._held,
                self._scales,
                self._loads,
                *taken,
            )
        self._held, self._scales, self._loads = taken

    def hold(self, fits, columns, knowns, room):
        """Take rows of the matrices over columns, in the model."""
        for fit, known in zip(fits, knowns, strict=True):
            self._columns[fit] = self._columns[fit][:known]
        self._reserve(max(map(len, columns)), room)
        self._load(fits, columns, knowns)
        paired = []
        for fit, own in zip(fits, columns, strict=True):
            centred, plain = self._curvature[fit].T
            is_clear = (centred == 0.0) | (centred > NEARLY_CONSTANT * plain)
            paired.append(self._is_paired(own) & is_clear & (WAY != "columns"))
        sizes, has_pairs = list(map(len, columns)), any(map(np.any, paired))
        side, *tile = self._shape_of_tiles(max(sizes))
        tiles = self._tiles(sizes, knowns, side) if has_pairs else np.empty((0, 5), np.int64)
        singles = _list_others(columns, knowns, paired)
        described = self._describe(fits, columns, knowns, paired)
        *sets, tiles, tasks, others = self._device.send(*described, tiles, *singles)
        sets = matrix.WorkingSets(*sets)
        if has_pairs:
            self._add_pairs(sets, max(sizes), tiles, side, *tile)
        if len(tasks):
            self._multiply_others(sets, tasks, others, int(np.diff(singles[0][:, 2:]).max()))

    def _load(self, fits, columns, knowns):
        """Loads and curvature of the columns that join."""
        joining = [own[known:] for own, known in zip(columns, knowns, strict=True)]
        places = [np.arange(*ends) for ends in zip(knowns, map(len, columns), strict=True)]
        found = self._curvatures.load(self.model, fits, joining, places, self._loads)
        for fit, own, known, new in zip(fits, columns, knowns, found, strict=True):
            self._columns[fit] = own
            self._curvature[fit] = np.concatenate([self._curvature[fit][:known], new])

    def _root(self, fit):
        """Divisors of rows and columns of a matrix that make it correlations."""
        return np.sqrt(self._curvature[fit][:, 0])

    def rows(self, fit, known):
        """Rows ``known:`` of a matrix that is held."""
        root, size = self._root(fit), len(self._curvature[fit])
        rows = self._device.download(self._held[int(fit)][int(known) : size])[:, :size]
        rows = rows.astype(np.float64) * (root[known:, None] * root)
        rows[np.arange(size - known), np.arange(known, size)] = self._curvature[fit][known:, 0]
        return rows

    # -- taking ---------------------------------------------------------------------------------
    @cached_property
    def _kinds(self):
        """Kind of every column of X; of every column, which of these it is, and its pieces."""
        X = self._layout.X
        return [self._device.download(given) for given in (X.kind, X.source, X.piece_ptr)]

    def _is_paired(self, columns):
        """Which columns are added up by rows: sparse ones that do not change over time."""
        kind, source, piece_ptr = self._kinds
        everywhere = piece_ptr[columns, 1] - piece_ptr[columns, 0] == len(self._layout.X.first)
        is_first = np.zeros(len(columns), bool)
        is_first[np.unique(source[columns], return_index=True)[1]] = True
        return (kind[source[columns]] != DENSE) & everywhere & is_first

    def _describe(self, fits, columns, knowns, paired):
        """Numbers of the fits for `matrix.WorkingSets`."""
        kind, source, _ = self._kinds
        place, scale = np.full((len(fits), len(kind)), -1, np.int32), []
        for t, (fit, own, pairs) in enumerate(zip(fits, columns, paired, strict=True)):
            place[t, source[own[pairs]]] = np.flatnonzero(pairs)
            plain = np.sqrt(self._curvature[fit][:, 1])
            is_in = pairs & (plain > 0)
            scale.append(np.divide(matrix.LARGEST, plain, out=np.zeros(len(own)), where=is_in))
        return (
            np.asarray(fits, np.int32),
            np.concatenate([[0], np.cumsum(list(map(len, columns)))]),
            np.array(knowns, np.int64),
            np.concatenate(columns).astype(np.int64, copy=False),
            np.concatenate(scale),
            np.concatenate(list(map(self._root, fits))),
            place,
        )

    def _add_pairs(self, sets, size, tiles, side, place, shared):
        """Products of sparse columns with each other."""
        layout, launch = self._layout, self._device.launch
        n_machines, threads = self._device.n_multiprocessors, layout.many_threads
        counts = self._device.view(self._held, np.int32)
        layout.launch_wide(matrix.clear, size**2, sets, counts)
        blocks = min(len(tiles), TASKS * n_machines)
        arguments = layout.X, layout.X_rows, sets, tiles, self.model.h, side, place, counts
        launch(matrix.add_pairs, blocks, threads, arguments, shared)
        layout.launch_wide(matrix.find_scales, size, sets, counts, self._scales)
        blocks = min((size // matrix.LOADS + 1) ** 2, 8 * n_machines)
        arguments = sets, self.model.inverse, self._loads, counts, self._scales, self._held
        launch(matrix.finish, blocks, matrix.LOADS**2, arguments)

    def _shape_of_tiles(self, size):
        """Columns along a tile, where it begins in shared memory (or -1), and bytes of this."""
        lists = self._layout.many_threads // 16  # two for each warp
        room = (self._device.shared_bytes - RESERVED_SHARED) // 4
        most = SIDE if WAY == "in place" else int(np.sqrt(room + lists**2 / 4) - lists / 2)
        side = max(1, min(most, room // lists, matrix.LABELS, -(-size // 32) * 32))
        if WAY == "in place":
            return side, -1, 4 * side * lists
        return side, lists * side, 4 * side * (lists + side)

    def _tiles(self, sizes, knowns, side):
        """Tiles of the lower triangles' new rows, and ranges of rows: tasks of `add_pairs`."""
        tiles = [
            (t, top, left)
            for t, (size, known) in enumerate(zip(sizes, knowns, strict=True))
            for top in range(known, size, side)
            for left in range(0, min(top + side, size), side)
        ]
        n_ranges = max(1, TASKS * self._device.n_multiprocessors // max(1, len(tiles)))
        edges = np.arange(n_ranges + 1) * int(self._layout.cut[-1]) // n_ranges
        tasks = np.empty((len(tiles), n_ranges, 5), np.int64)
        tasks[:, :, :3] = np.reshape(tiles, (-1, 1, 3))
        tasks[:, :, 3], tasks[:, :, 4] = edges[:-1], edges[1:]
        return tasks.reshape(-1, 5)

    def _multiply_others(self, sets, tasks, others, most):
        """Products of other columns with all, at most so many each."""
        layout, device = self._layout, self._device
        n_values, shared = int(np.diff(layout.cut).max()), 0
        if 8 * n_values + RESERVED_SHARED <= device.shared_bytes:
            n_values, shared = 0, 8 * n_values
        blocks = min(len(tasks), TASKS * device.n_multiprocessors)
        width = n_values + most
        if blocks > self._parts.shape[0] or width > self._parts.shape[1]:
            shape = np.maximum(self._parts.shape, (blocks, width))
            self._parts = device.empty(shape, np.float64)
        given = layout.X, sets, tasks, others, self.model, self._loads
        arguments = *given, self._parts, n_values, self._held
        device.launch(matrix.multiply, blocks, layout.threads, arguments, shared)


def _list_others(columns, knowns, paired):
    """Tasks of `matrix.multiply`, for columns that are no pairs, and the lists that they name."""
    tasks, others, end = [], [], 0
    for t, (own, known, pairs) in enumerate(zip(columns, knowns, paired, strict=True)):
        every = np.arange(len(own))
        for a in np.flatnonzero(~pairs):  # pairs of them once, by the later one
            is_new = every >= known if a < known else every >= 0
            wanted = np.flatnonzero(is_new & (pairs | ((every < a) & (a >= known))))
            if len(wanted):
                others.append(wanted)
                tasks.append((t, a, end, end := end + len(wanted)))
    lists = np.concatenate([np.empty(0, np.int64), *others])
    return np.reshape(np.array(tasks, np.int64), (-1, 4)), lists
