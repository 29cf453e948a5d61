"""Where rows of X are cut: into ranges that members of teams own, and these into tiles.

Ranges are a power of two, so that a smaller team's members own whole ranges.  Row numbers within a
tile take 16 bits, and a block holds a number for each row of one in shared memory.
"""

from typing import NamedTuple

import numpy as np

from ...data.design.tiles import LARGEST

ROWS_PER_RANGE = 2_048  # below, a member's arithmetic is less than its part of a barrier
# Shared memory that a block has besides its rows: the exchanges' and what the system reserves.
RESERVED_SHARED = 4 * 1024
TILES_AT_ONCE = 2  # that a multiprocessor holds: registers for as many blocks of 512 threads
ENTRIES = 32  # of a column and tile, on average, without which a warp has too little to do


class Cuts(NamedTuple):
    """Rows where tiles begin, tiles where ranges begin, and both ends."""

    rows: np.ndarray  # int64 (tiles + 1,)
    ranges: np.ndarray  # int64 (ranges + 1,)
    n_members: int  # of the largest team, no fewer than ranges
    keeps_groups: bool  # whether no group lies in two tiles, where bins are many


def cut_rows(problem, device, rows_per_range=None):
    """Cuts for a device; ranges have so many rows, by default as many as suit the columns."""
    plan, given = problem.plan, problem.given
    wanted = plan.n_rows // (rows_per_range or ROWS_PER_RANGE)
    n_members = n_ranges = 2 ** int(np.log2(min(device.n_multiprocessors, max(1, wanted))))
    while (
        rows_per_range is None
        and n_ranges > 1
        and _share(given) * plan.n_base < (ENTRIES * n_ranges)
    ):
        n_ranges //= 2
    ends = _cut_ranges(problem, n_ranges)
    n_tiles = np.maximum(1, -(-np.diff(ends) // rows_of_tile(device, given)))
    parts = zip(ends[:-1], ends[1:], n_tiles, strict=True)
    rows = np.concatenate([*(a + np.arange(n) * (b - a) // n for a, b, n in parts), ends[-1:]])
    keeps_groups = plan.n_pieces == 1
    if keeps_groups and not plan.few:
        between = _between_groups(plan, rows)
        keeps_groups = bool(np.diff(between).max() <= LARGEST)
        rows = between if keeps_groups else rows
    return Cuts(rows, np.concatenate([[0], np.cumsum(n_tiles)]), n_members, keeps_groups)


def rows_of_tile(device, given):
    """Rows of a tile at most: those that shared memory holds, if columns have entries enough."""
    near = (device.shared_bytes // TILES_AT_ONCE - RESERVED_SHARED) // 8
    return min(near, LARGEST) if _share(given) * near >= ENTRIES else LARGEST


def most_tiles(problem, device):
    """Tiles that there are at most."""
    return device.n_multiprocessors + problem.plan.n_base // rows_of_tile(device, problem.given)


def _share(given):
    """Of the rows of a column, those that have an entry."""
    return given.n_entries / max(given.n_rows * given.n_columns, 1)


def _cut_ranges(problem, n_ranges):
    """First row of every range, and the end; between groups where these are many."""
    plan = problem.plan
    even = np.arange(n_ranges + 1, dtype=np.int64) * plan.n_base // n_ranges
    if plan.n_pieces > 1:
        return even
    if not plan.few:
        return _between_groups(plan, even)
    return _pass_ties(plan, even) if getattr(problem.likelihood, "uses_ties", False) else even


def _between_groups(plan, cut):
    """Cuts moved to where a group begins."""
    group = np.asarray(plan.stratum_of_row())
    edges = np.flatnonzero(np.concatenate([[True], group[1:] != group[:-1], [True]]))
    return edges[np.searchsorted(edges, cut)]


def _pass_ties(plan, cut):
    """Cuts moved to where the deaths of a cell end that has its first row before the cut."""
    death = np.flatnonzero(plan.event)
    end = np.zeros(plan.n_cells, np.int64)
    end[plan.exit_idx[death]] = death + 1
    k = plan.exit_idx[cut[1:-1]]
    is_inside = plan.exit_idx[cut[1:-1] - 1] == k
    return np.r_[0, np.where(is_inside, np.maximum(cut[1:-1], end[k]), cut[1:-1]), cut[-1]]
