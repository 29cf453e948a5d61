"""Labels of rows, by which sums over rows are taken: bins of event times, groups, cells.

Rows of one label often come in runs, as rows of a plan do that are ordered by time: a sum over a
run stays in a register, and no label is looked up.
"""

from typing import NamedTuple

import numpy as np

SHORT_RUN = 64  # rows: below, looking up where runs end costs more than looking up labels


class Runs(NamedTuple):
    """Runs of rows of one label, tile by tile: the last of a tile ends with it."""

    ptr: np.ndarray  # int64 (n_tiles + 1,): runs of each
    end: np.ndarray  # int64, per run: row behind it, within the tile
    label: np.ndarray  # int64, per run

    @classmethod
    def of(cls, tiles, ptr, label):
        """Runs of ranges of rows, some of them empty."""
        if tiles.n_tiles == 1:
            return cls(np.array([0, len(label)]), ptr[1:], label)
        low = np.searchsorted(ptr, tiles.starts[:-1], side="right") - 1
        high = np.maximum(np.searchsorted(ptr, tiles.starts[1:]), low + 1)
        of_tile = np.repeat(np.arange(tiles.n_tiles), high - low)
        edges = np.concatenate([[0], np.cumsum(high - low)])
        run = np.arange(edges[-1]) + (low - edges[:-1])[of_tile]
        end = np.minimum(ptr[run + 1], tiles.starts[of_tile + 1]) - tiles.starts[of_tile]
        return cls(edges, end, label[run])

    @classmethod
    def of_tiles(cls, tiles):
        """Every tile a run, all of them of one label."""
        ptr = np.arange(tiles.n_tiles + 1)
        return cls(ptr, np.diff(tiles.starts), np.zeros(tiles.n_tiles, np.int64))


class Labels(NamedTuple):
    """Labels of rows, in runs or (`runs` None) row by row."""

    n_labels: int
    runs: Runs | None
    of_row: np.ndarray | None

    @classmethod
    def of(cls, tiles, label, n_labels):
        """Labels as they are; row by row where runs are short."""
        edges = np.flatnonzero(label[1:] != label[:-1]) + 1
        if not len(label) or SHORT_RUN * len(edges) > len(label):
            return cls(n_labels, None, label)
        ptr = np.concatenate([[0], edges, [len(label)]])
        return cls(n_labels, Runs.of(tiles, ptr, label[ptr[:-1]].astype(np.int64)), None)

    def by_row(self, tiles):
        """Label of every row."""
        if self.runs is None:
            return self.of_row
        first = np.repeat(tiles.starts[:-1], np.diff(self.runs.ptr))
        return np.repeat(self.runs.label, np.diff(first + self.runs.end, prepend=0))
