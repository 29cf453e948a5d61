"""Lines of a long table whose columns do not fit into memory: settled for a part of the rows each.

A single pass over the lines writes each to a temporary file of the part that its row is in; the
files are then read one by one, once to learn which columns are kept and once to make them.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from ..data.design.columns import Design
from .grouping import Grouping, Placed, Tally
from .results import count_rows_without

NOTHING = np.empty(0, dtype=np.int64)


class InParts:
    """Columns part by part, and counts of all lines, as `grouping.Settled` has them.

    `found` are the columns, and `n_rows_without` is whole once all `designs` are made. Temporary
    files are in a `folder` that is empty; parts begin and end at `edges` among the rows, and come
    as `Lines.read` gives them. `min_count` is that of `Grouping.settle`.
    """

    def __init__(self, folder, edges, parts, lines, min_count):
        self._edges, self._folder = np.asarray(edges), Path(folder)
        for part in parts:
            self._spill(part)
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
            self.n_rows_without += count_rows_without(design)
            yield design.with_names(names)

    def _spill(self, lines):
        part = np.searchsorted(self._edges, lines.rows, side="right") - 1
        order = np.argsort(part, kind="stable")
        ends = np.searchsorted(part[order], np.arange(len(self._edges)))
        for k in np.flatnonzero(np.diff(ends)):
            chosen = order[ends[k] : ends[k + 1]]
            rows = (lines.rows[chosen] - self._edges[k]).astype(np.int32)
            others = (NOTHING if field is None else field[chosen] for field in lines[2:])
            with self._path(k).open("ab") as file:
                for field in (rows, lines.columns[chosen].astype(np.int32), *others):
                    np.save(file, field)

    def _path(self, part):
        return self._folder / str(part)

    def _lines(self, part):
        if not self._path(part).exists():
            return
        size = self._path(part).stat().st_size
        with self._path(part).open("rb") as file:
            while file.tell() < size:
                rows, columns, *others = (np.load(file) for _ in Placed._fields)
                yield Placed(rows, columns, *(field if field.size else None for field in others))

    def _settle(self, part):
        tally, found = Tally(), self.found
        tally.grow(found.ids.size)
        has_moments = False
        for lines in self._lines(part):
            tally.add(lines)
            has_moments |= lines.moments is not None
        self.has_lines |= tally.counts[found.order] > 0
        n_rows = int(self._edges[part + 1] - self._edges[part])
        grouping = Grouping(tally, found.order, n_rows, found.policies, has_moments=has_moments)
        for lines in self._lines(part):
            grouping.place(lines)
        return grouping.settle(0)
