"""How work is laid out on a device: ranges of rows, sizes of teams, numbers of blocks.

The rows of X are cut into a power of two of ranges, one a multiprocessor; teams have that many
members or a smaller power of two, so that a smaller team's members own whole ranges.  Where bins
are many, cuts lie between groups, whose centres then belong to one member.
"""

import math
from types import SimpleNamespace

import numpy as np

from ...data.design.columns import INDICATOR
from . import team
from .columns import Columns, find_cuts
from .row_lists import lanes_of, list_rows

THREADS = 256
ROWS_PER_RANGE = 2_048  # below, a member's arithmetic is less than its part of a barrier
BLOCKS_PER_MULTIPROCESSOR = 8  # of launches whose blocks do not wait for each other
# Shared memory that a block has besides its rows: the exchanges' and what the system reserves.
RESERVED_SHARED = 4 * 1024
MOST_SERVED = 64  # sets of fits whose numbers stay on the device


class Layout:
    """Launches over teams, tasks and rows on one device, for one problem."""

    def __init__(self, device, problem, threads=THREADS, rows_per_range=ROWS_PER_RANGE):
        plan = problem.plan
        self.device, self.threads = device, threads
        wanted = min(device.n_multiprocessors, max(1, plan.n_rows // rows_per_range))
        self.cut = _cut_rows(problem, 2 ** int(np.log2(wanted)))
        self.is_whole = plan.n_pieces == 1
        # sums that a column's rows may have: of w, w x, and w x^2 unless all columns are of ones
        self.width = 2 if (problem.design.kind == INDICATOR).all() else 3
        self._exchanges, self._resident, self._served = {}, {}, {}
        self.X = device.pack(self._upload_columns(problem))
        self.X_rows = device.pack(list_rows(self, problem.design))
        self.lanes_of_row = lanes_of(self.X_rows)
        self._shape_of_table = plan.n_pieces, problem.design.n_columns
        self._cells = _cells_of(problem)
        size = plan.n_pieces * problem.design.n_columns
        self._are_columns = all(np.array_equal(own, np.arange(size)) for own in self._cells)
        arrays = problem.likelihood.pattern.arrays(plan)
        self.plan = SimpleNamespace(**{name: device.upload(a) for name, a in arrays.items()})

    def _upload_columns(self, problem):
        """The columns of X: once, for all fits; buffers on the device are used as they are."""
        design, upload = problem.design, self.device.upload
        pieces = problem.pieces()
        self.first = pieces["first"]
        X = Columns(
            *(upload(a) for a in (design.kind, design.indptr, design.indices, design.values)),
            *(upload(a) for a in (design.value_ptr, pieces["source"], pieces["piece_ptr"])),
            *(upload(a) for a in (pieces["first"], pieces["shift"], self.cut)),
            self.device.empty((design.n_columns, len(self.cut)), np.int32),
        )
        self.launch_wide(find_cuts, design.n_columns * len(self.cut), X)
        return X

    @property
    def n_ranges(self):
        return len(self.cut) - 1

    # -- numbers of several fits, one after the other ----------------------------------------------
    def join(self, parts, dtype=np.float64):
        return self.device.upload(np.concatenate(parts).astype(dtype, copy=False))

    def join_tuples(self, tuples):
        """Named tuples of arrays as one, field by field."""
        fields = zip(*tuples, strict=True)
        return type(tuples[0])(*(self.join(parts, parts[0].dtype) for parts in fields))

    def tabulate(self, coefs):
        """Coefficients of every column of X in every piece of time, (fits, pieces, columns)."""
        if not self._are_columns:
            (column, cell), size = self._cells, math.prod(self._shape_of_table)
            coefs = [np.bincount(cell, coef[column], size) for coef in coefs]
        return np.reshape(coefs, (-1, *self._shape_of_table))

    # -- launches -----------------------------------------------------------------------------
    def launch_teams(self, kernel, fits, *arguments, shape=None, shared_bytes=0):
        """Launch a kernel that serves fits by teams; `shape` as from `shape_of_teams`."""
        if shape is None:
            shape = self.shape_of_teams(kernel, len(fits), arguments, shared_bytes)
        teams, size = shape
        exchange = self._exchange(fits, teams, size)
        full = exchange, *arguments
        self.device.launch(kernel, teams * size, self.threads, full, shared_bytes)

    def shape_of_teams(self, kernel, n_fits, arguments, shared_bytes=0, size=None):
        """How many teams of how many members: a team for every fit, if all can be resident."""
        blocks = self._resident_blocks(kernel, arguments, shared_bytes)
        if size is None:
            size = self.n_ranges
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

    def launch_wide(self, kernel, n, *arguments):
        """Launch a kernel whose threads take numbers of ``range(n)`` in turn."""
        most = self.device.n_multiprocessors * BLOCKS_PER_MULTIPROCESSOR
        blocks = max(1, min(-(-n // self.threads), most))
        self.device.launch(kernel, blocks, self.threads, arguments)


def _cells_of(problem):
    """Columns and the cells, piece by column of X, to which their coefficients apply."""
    first, end = problem.piece_ptr.T
    column = np.repeat(np.arange(problem.n_columns), end - first)
    piece = np.arange(len(column)) - np.repeat(np.cumsum(end - first) - end, end - first)
    return column, piece * problem.design.n_columns + problem.source[column]


def _cut_rows(problem, n_ranges):
    """First row of every range, and the end; between groups where these are many."""
    plan = problem.plan
    even = np.arange(n_ranges + 1, dtype=np.int64) * plan.n_base // n_ranges
    if plan.few:
        looks_at_ties = getattr(problem.likelihood, "uses_ties", False) and plan.n_pieces == 1
        return _pass_ties(plan, even) if looks_at_ties else even
    if plan.n_pieces > 1:  # copies of a group's rows are no neighbours
        return even[[0, -1]]
    group = np.asarray(plan.stratum_of_row())
    edges = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1], [True]]))
    return edges[np.searchsorted(edges, even)]


def _pass_ties(plan, cut):
    """Cuts moved to where the deaths of a cell end that has its first row before the cut."""
    death = np.flatnonzero(plan.event)
    end = np.zeros(plan.n_cells, np.int64)
    end[plan.exit_idx[death]] = death + 1
    k = plan.exit_idx[cut[1:-1]]
    is_inside = plan.exit_idx[cut[1:-1] - 1] == k
    return np.r_[0, np.where(is_inside, np.maximum(cut[1:-1], end[k]), cut[1:-1]), cut[-1]]
