"""How work is laid out on a device: sizes of teams, numbers of blocks, and what stays there.

Teams have a power of two of members, one a multiprocessor at most, which own neighbouring ranges of
the rows of X (`cuts`).
"""

import math
from types import SimpleNamespace

import numpy as np

from ...data.design.columns import DENSE, INDICATOR
from . import team
from .columns import Columns
from .cuts import RESERVED_SHARED, cut_rows
from .row_lists import lanes_of, list_rows

THREADS = 256
BLOCKS_PER_MULTIPROCESSOR = 8  # of launches whose blocks do not wait for each other
MOST_SERVED = 64  # sets of fits whose numbers stay on the device


class Layout:
    """Launches over teams, tasks and rows on one device, for one problem."""

    def __init__(self, device, problem, threads=THREADS, rows_per_range=None):
        plan, given = problem.plan, problem.given
        if given.blocks:
            raise ValueError(
                "columns of `X` are computed, which devices do not do: pass X.stored(), or take "
                "device='cpu'."
            )
        self.device, self.threads = device, threads
        # ... of blocks that have much of a multiprocessor's shared memory to themselves
        self.many_threads = min(2 * threads, team.WARPS * team.WARP)
        self.cuts = cut_rows(problem, device, rows_per_range)
        self.cut, self.n_members, self.is_whole = self.cuts.rows, *self.cuts[2:]
        # shared memory of one of the blocks that a multiprocessor has at once; what it has
        self.bytes_of_block = device.shared_bytes // BLOCKS_PER_MULTIPROCESSOR - RESERVED_SHARED
        # shared memory for a number for each row of a tile, if there is as much
        tile_bytes = 8 * int(np.diff(self.cut).max())
        self.tile_bytes = tile_bytes if tile_bytes + RESERVED_SHARED <= device.shared_bytes else 0
        # sums that a column's rows may have: of w, w x, and w x^2 unless all columns are of ones
        self.width = 2 if (given.kind == INDICATOR).all() else 3
        self._exchanges, self._resident, self._served = {}, {}, {}
        tiles = problem.X.cut(self.cut)
        self.entries = np.where(given.kind == DENSE, given.n_rows, np.diff(tiles.indptr).sum(0))
        self.X = device.pack(self._upload_columns(problem, tiles))
        self.X_rows = device.pack(list_rows(self, given))
        self.lanes_of_row = lanes_of(self.X_rows)
        self.shape_of_table = plan.n_pieces, given.n_columns
        self._cells = _cells_of(problem)
        size = plan.n_pieces * given.n_columns
        self._are_columns = all(np.array_equal(own, np.arange(size)) for own in self._cells)
        arrays = problem.likelihood.pattern.arrays(plan)
        self.plan = SimpleNamespace(**{name: device.upload(a) for name, a in arrays.items()})

    def _upload_columns(self, problem, tiles):
        """The columns of X: once, for all fits."""
        upload, half, pieces = self.device.upload, len(tiles.indices) // 2, problem.pieces()
        self.first = pieces["first"]
        indices, value_ptr = upload(tiles.indices), tiles.value_ptr
        if len(tiles.values):
            value_ptr = value_ptr + tiles.first_value[:-1, None]
        return Columns(
            upload(tiles.kind),
            upload(tiles.indptr + tiles.first_index[:-1, None]),
            indices,
            self.device.view(indices[: 2 * half], np.uint32, (half,)),
            *(upload(a) for a in (tiles.values, value_ptr, *pieces.values())),
            *(upload(a) for a in self.cuts[:2]),
        )

    @property
    def n_ranges(self):
        return len(self.cuts.ranges) - 1

    def join(self, parts, dtype=np.float64):
        return self.device.upload(np.concatenate(parts).astype(dtype, copy=False))

    def join_tuples(self, tuples):
        """Named tuples of arrays as one, field by field."""
        fields = zip(*tuples, strict=True)
        return type(tuples[0])(*(self.join(parts, parts[0].dtype) for parts in fields))

    def tabulate(self, coefs):
        """Coefficients of every column of X in every piece of time, (fits, pieces, columns)."""
        if not self._are_columns:
            (column, cell), size = self._cells, math.prod(self.shape_of_table)
            coefs = [np.bincount(cell, coef[column], size) for coef in coefs]
        return np.reshape(coefs, (-1, *self.shape_of_table))

    def launch_teams(self, kernel, fits, *arguments, shape=None, shared_bytes=0):
        """Launch a kernel that serves fits by teams; `shape` as from `shape_of_teams`."""
        if shape is None:
            shape = self.shape_of_teams(kernel, len(fits), arguments, shared_bytes)
        teams, size = shape
        exchange = self._exchange(fits, teams, size)
        full = exchange, *arguments
        self.device.launch(kernel, teams * size, self.threads, full, shared_bytes)

    def shape_of_teams(self, kernel, n_fits, arguments, shared_bytes=0, size=None, most=None):
        """How many teams of how many members: a team for every fit, if all can be resident."""
        blocks = self._resident_blocks(kernel, arguments, shared_bytes)
        if size is None:
            size = most or self.n_members
            while size > 1 and size * n_fits > blocks:
                size //= 2
        return min(n_fits, blocks // size), size

    def _resident_blocks(self, kernel, arguments, shared_bytes):
        key = kernel, shared_bytes
        if key not in self._resident:
            full = self._exchange(np.zeros(1, np.int32), 1, 1), *arguments
            blocks = self.device.resident_blocks(kernel, self.threads, full, shared_bytes)
            if blocks < 1:
                raise RuntimeError(
                    f"{self.device.name} cannot run a block of {self.threads} threads of the "
                    f'kernel {kernel.py_func.__name__}; pass another `device` or backend="cpu".'
                )
            self._resident[key] = blocks
        return self._resident[key]

    def _exchange(self, fits, teams, size):
        if (teams, size) not in self._exchanges:
            self._exchanges[teams, size] = (
                self.device.zeros(teams, np.uint32),
                self.device.empty((teams, 2, team.VALUES, size), np.float64),
            )
        return self._served_by(
            (np.asarray(fits, np.int32).tobytes(), teams, size),
            lambda: self.device.pack(
                team.Exchange(self.served(fits), self.served([size]), *self._exchanges[teams, size])
            ),
        )

    def served(self, fits):
        """Numbers of fits on the device."""
        key = np.asarray(fits, np.int32).tobytes()
        return self._served_by(key, lambda: self.device.upload(np.frombuffer(key, np.int32)))

    def _served_by(self, key, make):
        """Array on the device for rounds that mostly serve the fits that others did."""
        if key not in self._served:
            if len(self._served) >= MOST_SERVED:
                self._served.clear()
            self._served[key] = make()
        return self._served[key]

    def launch_tasks(self, kernel, n_tasks, *arguments, each=0):
        """Launch a kernel whose blocks take tasks in turn.

        They have as many warps as there is shared memory for, `each` bytes a warp.
        """
        most = self.device.n_multiprocessors * BLOCKS_PER_MULTIPROCESSOR
        warps = self.threads // team.WARP
        if each:
            warps = max(1, min(warps, (self.device.shared_bytes - RESERVED_SHARED) // each))
        if n_tasks:
            threads = warps * team.WARP
            self.device.launch(kernel, min(n_tasks, most), threads, arguments, warps * each)

    def launch_wide(self, kernel, n, *arguments, shared_bytes=0):
        """Launch a kernel whose threads take numbers of ``range(n)`` in turn."""
        most = self.device.n_multiprocessors * BLOCKS_PER_MULTIPROCESSOR
        blocks = max(1, min(-(-n // self.threads), most))
        self.device.launch(kernel, blocks, self.threads, arguments, shared_bytes)


def _cells_of(problem):
    """Columns and the cells, piece by column of X, to which their coefficients apply."""
    first, end = problem.piece_ptr.T
    column = np.repeat(np.arange(problem.n_columns), end - first)
    piece = np.arange(len(column)) - np.repeat(np.cumsum(end - first) - end, end - first)
    return column, piece * problem.given.n_columns + problem.source[column]
