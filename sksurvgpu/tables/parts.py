"""Lines of a long table whose columns do not fit into memory: settled for a part of the rows each.

A single pass over the lines writes each to a temporary file of the part that its row is in; the
files are then read one by one, once to learn which columns are kept and once to make them.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..data.design.columns import Design
from .grouping import Grouping, Tally

__all__ = ["InParts"]


class InParts:
    """What became of all lines, as `grouping.Settled` has it, and the columns part by part.

    `found` are the columns, and `n_rows_without` is there once `designs` are made.

    Parameters
    ----------
    folder : path
        For temporary files, empty.
    edges : ndarray of shape (n_parts + 1,)
        Where parts begin and end among the rows.
    parts : iterable
        Lines as `Lines.read` gives them.
    lines : Lines
    min_count : int
        See `Grouping.settle`.
    """

    def __init__(self, folder, edges, parts, lines, min_count):
        self._edges, self._folder = np.asarray(edges), Path(folder)
        for part in parts:
            self._spill(*part)
        self.found = lines.found()
        self.repeated = self._infinite = None
        self.n_rows_of = np.zeros(self.found.ids.size, dtype=np.int64)
        self.has_lines = np.zeros(self.found.ids.size, dtype=np.bool_)
        self.n_duplicates = self.n_zeros = self.n_rows_without = 0
        for k, settled in enumerate(map(self._settle, range(len(self._edges) - 1))):
            if settled.repeated is not None:
                column, row = settled.repeated
                self.repeated = column, row + int(self._edges[k])
                break
            if self._infinite is None:
                self._infinite = settled.infinite()
            self.n_rows_of += settled.n_rows_of
            self.n_duplicates += settled.n_duplicates
            self.n_zeros += settled.n_zeros
        self.is_kept = self.n_rows_of >= min_count

    def infinite(self):
        """A column that has an infinite value, or None."""
        return self._infinite

    def designs(self, names) -> Iterator[Design]:
        """Columns of one part after the other."""
        chosen = np.flatnonzero(self.is_kept)
        for k, (low, high) in enumerate(pairwise(self._edges)):
            design = self._settle(k).design(int(high - low)).select(chosen)
            has_entry = np.zeros(design.n_rows, dtype=np.bool_)
            has_entry[design.indices] = True
            self.n_rows_without += int(np.count_nonzero(~has_entry))
            yield design.with_names(names)

    def _spill(self, rows, codes, values, moments):
        part = np.searchsorted(self._edges, rows, side="right") - 1
        order = np.argsort(part, kind="stable")
        part, values, moments = (
            np.empty(0, dtype=np.int64) if given is None else given[order]
            for given in (part, values, moments)
        )
        ends = np.searchsorted(part, np.arange(len(self._edges)))
        for k in np.flatnonzero(np.diff(ends)):
            own = slice(ends[k], ends[k + 1])
            with self._path(k).open("ab") as file:
                np.save(file, (rows[order[own]] - self._edges[k]).astype(np.int32))
                np.save(file, codes[order[own]].astype(np.int32))
                np.save(file, values[own])
                np.save(file, moments[own])

    def _path(self, part):
        return self._folder / str(part)

    def _lines(self, part):
        if not self._path(part).exists():
            return
        size = self._path(part).stat().st_size
        with self._path(part).open("rb") as file:
            while file.tell() < size:
                rows, codes, *others = (np.load(file) for _ in range(4))
                yield rows, codes, *(given if given.size else None for given in others)

    def _settle(self, part):
        tally, found = Tally(), self.found
        tally.grow(found.ids.size)
        has_moments = False
        for _, codes, values, moments in self._lines(part):
            tally.add(codes, values)
            has_moments |= moments is not None
        self.has_lines |= tally.counts[found.order] > 0
        n_rows = int(self._edges[part + 1] - self._edges[part])
        given = tally, found.order, n_rows, found.policies
        grouping = Grouping(*given, has_moments=has_moments)
        for line in self._lines(part):
            grouping.place(*line)
        return grouping.settle(0)
