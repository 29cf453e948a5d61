"""The matrices that a session holds for its fits, and the one that is lent to all of them."""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from ...data.design.columns import DENSE
from . import descent, matrix
from .layout import RESERVED_SHARED
from .memory import BYTES_HELD

# How sparse columns are added up: in "tiles" in shared memory or "in place" in the matrix, or like
# all others as "columns".
WAY = "tiles"
SIDE = 1_024  # of tiles in place: entries of a row that lists hold
THREADS = 2  # of a block that adds pairs, times those of other launches
TASKS = 2  # for each multiprocessor
# Below this share of its curvature without the second term, rounding of a column's integers shows.
NEARLY_CONSTANT = 0.1
MOST_SINGLE = 128  # columns that are multiplied one by one; sweeps cost less than more of them
CAPACITY = 32  # matrices grow by multiples


class Held:
    """Matrices of all fits of a session, as correlations, and what they are made of."""

    def __init__(self, layout, rh, loads, inverse, loan):
        self._layout, self._device, self._loan = layout, layout.device, loan
        self._model = matrix.Model(rh, loads, inverse)
        self._columns = [np.empty(0, np.int64)] * len(rh)
        self._root = [np.empty(0)] * len(rh)
        self._held, self._scales = self._take(0)
        self._lent = None

    def _take(self, capacity):
        """Memory of matrices with so many columns, and of what sparse columns are scaled by."""
        n_fits, empty = len(self._columns), self._device.empty
        shape = n_fits, capacity, capacity
        return empty(shape, np.float32), empty(shape[:2], np.float64)

    def _reserve(self, size, room):
        """Have memory for matrices of a size, and for more if there is room."""
        capacity = self._held.shape[1]
        if size <= capacity:
            return
        most = int(np.sqrt(room / BYTES_HELD))
        capacity = max(-(-size // CAPACITY) * CAPACITY, min(2 * capacity, most))
        taken, sizes = self._take(capacity), np.array([len(own) for own in self._columns])
        if sizes.any():
            arguments = self._device.upload(sizes), self._held, self._scales, *taken
            self._layout.launch_wide(matrix.move, sizes.max() ** 2, *arguments)
        self._held, self._scales = taken

    def hold(self, fits, columns, knowns, curvature, room):
        """Take rows of the matrices over columns; `curvature` is that of all columns of fits."""
        for fit, known in zip(fits, knowns, strict=True):
            self._columns[fit] = self._columns[fit][:known]
        self._reserve(max(map(len, columns)), room)
        for fit, own in zip(fits, columns, strict=True):
            self._columns[fit] = own
            self._root[fit] = np.sqrt(curvature[fit, own, 0])
        paired = []
        for fit, own in zip(fits, columns, strict=True):
            centred, plain = curvature[fit, own].T
            is_clear = (centred == 0.0) | (centred > NEARLY_CONSTANT * plain)
            paired.append(self._is_paired(own) & is_clear & (WAY != "columns"))
        sets = self._describe(fits, columns, knowns, paired, curvature)
        if any(map(np.any, paired)):
            self._add_pairs(sets, [len(own) for own in columns], knowns)
        self._multiply_others(sets, columns, knowns, paired)

    def rows(self, fit, known, curvature):
        """Rows ``known:`` of a matrix that is held."""
        root, size = self._root[fit], len(self._root[fit])
        rows = self._device.download(self._held[int(fit)][int(known) : size])[:, :size]
        rows = rows.astype(np.float64) * (root[known:, None] * root)
        rows[np.arange(size - known), np.arange(known, size)] = curvature[known:]
        return rows

    def has(self, fit, columns):
        return np.array_equal(self._columns[fit], columns)

    # -- taking ---------------------------------------------------------------------------------
    @cached_property
    def _kinds(self):
        """Kind of every column of X; of every column, which of these it is, and its pieces."""
        X = self._layout.X
        return [self._device.download(given) for given in (X.kind, X.source, X.piece_ptr)]

    def pays(self, columns):
        """Whether a matrix over columns costs less than sweeps."""
        return np.count_nonzero(~self._is_paired(columns)) <= MOST_SINGLE

    def _is_paired(self, columns):
        """Which columns are added up by rows: sparse ones that do not change over time."""
        kind, source, piece_ptr = self._kinds
        everywhere = piece_ptr[columns, 1] - piece_ptr[columns, 0] == len(self._layout.X.first)
        is_first = np.zeros(len(columns), bool)
        is_first[np.unique(source[columns], return_index=True)[1]] = True
        return (kind[source[columns]] != DENSE) & everywhere & is_first

    def _describe(self, fits, columns, knowns, paired, curvature):
        """`matrix.Sets` of the fits."""
        sizes, join = list(map(len, columns)), self._layout.join
        kind, source, _ = self._kinds
        place, scale = np.full((len(fits), len(kind)), -1, np.int32), []
        for t, (fit, own, pairs) in enumerate(zip(fits, columns, paired, strict=True)):
            place[t, source[own[pairs]]] = np.flatnonzero(pairs)
            plain = np.sqrt(curvature[fit, own, 1])
            is_in = pairs & (plain > 0)
            scale.append(np.divide(matrix.LARGEST, plain, out=np.zeros(len(own)), where=is_in))
        upload = self._device.upload
        return matrix.Sets(
            upload(np.asarray(fits, np.int32)),
            upload(np.concatenate([[0], np.cumsum(sizes)])),
            upload(np.array(knowns, np.int64)),
            join(columns, np.int64),
            join(scale),
            join([self._root[fit] for fit in fits]),
            upload(place),
        )

    def _add_pairs(self, sets, sizes, knowns):
        """Products of sparse columns with each other."""
        layout, launch = self._layout, self._device.launch
        n_machines, threads = self._device.n_multiprocessors, THREADS * layout.threads
        counts = self._device.view(self._held, np.int32)
        layout.launch_wide(matrix.clear, max(sizes) ** 2, sets, counts)
        side, place, shared = self._shape_of_tiles(max(sizes), threads)
        tasks = self._tasks(sizes, knowns, side)
        blocks, tasks = min(len(tasks), TASKS * n_machines), self._device.upload(tasks)
        arguments = layout.X, layout.X_rows, sets, tasks, self._model.rh, side, place, counts
        launch(matrix.add_pairs, blocks, threads, arguments, shared)
        layout.launch_wide(matrix.find_scales, max(sizes), sets, counts, self._scales)
        blocks = min((max(sizes) // matrix.LOADS + 1) ** 2, 8 * n_machines)
        arguments = sets, self._model, counts, self._scales, self._held
        launch(matrix.finish, blocks, matrix.LOADS**2, arguments)

    def _shape_of_tiles(self, size, threads):
        """Columns along a tile, where it begins in shared memory (or -1), and bytes of this."""
        lists = threads // 16  # two for each warp
        room = (self._device.shared_bytes - RESERVED_SHARED) // 4
        most = SIDE if WAY == "in place" else int(np.sqrt(room + lists**2 / 4) - lists / 2)
        side = max(1, min(most, room // lists, matrix.LABELS, -(-size // 32) * 32))
        if WAY == "in place":
            return side, -1, 4 * side * lists
        return side, lists * side, 4 * side * (lists + side)

    def _tasks(self, sizes, knowns, side):
        """Tiles of the lower triangles' new rows, and ranges of rows: tasks of `add_pairs`."""
        tiles = [
            (t, top, left)
            for t, (size, known) in enumerate(zip(sizes, knowns, strict=True))
            for top in range(known, size, side)
            for left in range(0, min(top + side, size), side)
        ]
        n_ranges = max(1, TASKS * self._device.n_multiprocessors // max(1, len(tiles)))
        edges = np.arange(n_ranges + 1) * int(self._layout.cut[-1]) // n_ranges
        return np.array([(*tile, *edge) for tile in tiles for edge in pairwise(edges)], np.int64)

    def _multiply_others(self, sets, columns, knowns, paired):
        """Products of other columns with all."""
        tasks, others = [], []
        for t, (own, known, pairs) in enumerate(zip(columns, knowns, paired, strict=True)):
            every = np.arange(len(own))
            for a in np.flatnonzero(~pairs):  # pairs of them once, by the later one
                wanted = np.where(
                    pairs, (every >= known) | (a >= known), (every < a) & (a >= known)
                )
                start = sum(map(len, others))
                others.append(np.flatnonzero(wanted))
                tasks.append((t, a, start, start + len(others[-1])))
        tasks = [task for task in tasks if task[3] > task[2]]
        if not tasks:
            return
        layout, device = self._layout, self._device
        n_values, shared = int(np.diff(layout.cut).max()), 0
        if 8 * n_values + RESERVED_SHARED <= device.shared_bytes:
            n_values, shared = 0, 8 * n_values
        blocks = min(len(tasks), TASKS * device.n_multiprocessors)
        most = max(task[3] - task[2] for task in tasks)
        parts = device.empty((blocks, n_values + most), np.float64)
        lists = device.upload(np.array(tasks, np.int64)), layout.join(others, np.int64)
        arguments = layout.X, sets, *lists, self._model, parts, n_values, self._held
        device.launch(matrix.multiply, blocks, layout.threads, arguments, shared)

    # -- descending -----------------------------------------------------------------------------
    def descend(self, fits, minimum, asked):
        """Coefficients and largest moves of fits, from the arguments of `descend` of each."""
        results = [None] * len(fits)
        for is_lent in {request[-1] for request in asked}:
            chosen = [t for t, request in enumerate(asked) if request[-1] == is_lent]
            own = [asked[t] for t in chosen]
            found = self._descend([int(fits[t]) for t in chosen], minimum, own, is_lent)
            for t, result in zip(chosen, found, strict=True):
                results[t] = result
        return results

    def _descend(self, fits, minimum, asked, is_lent):
        where, coefs, gradients, curvatures, weights, penalties, units, enoughs, _ = zip(
            *asked, strict=True
        )
        if is_lent and self._lent is None:
            self._lent = self._upload_loan()
        roots = [self._lent[1] if is_lent else self._root[fit] for fit in fits]
        roots = [np.append(root, 0.0)[own] for root, own in zip(roots, where, strict=True)]
        sizes = [len(own) for own in where]
        ptr, join = np.concatenate([[0], np.cumsum(sizes)]), np.concatenate
        work = descent.Work(
            ptr,
            np.array([0] * len(fits) if is_lent else fits, np.int64),
            np.array(weights, np.float64),
            np.array(enoughs, np.float64),
            join(where).astype(np.int64),
            *map(join, (roots, coefs, gradients, curvatures, units)),
            penalties,
        )
        matrices = self._lent[0] if is_lent else self._held
        coef, largest = descent.descend(self._layout, minimum, matrices, work, max(sizes))
        return list(zip(np.split(coef, ptr[1:-1]), map(float, largest), strict=True))

    def _upload_loan(self):
        root = np.sqrt(np.diagonal(self._loan.matrix))
        size = np.outer(root, root)
        given = np.divide(self._loan.matrix, size, out=np.zeros_like(size), where=size > 0)
        return self._device.upload(given[None].astype(np.float32)), root
