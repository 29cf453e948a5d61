"""Columns that are computed: blocks of them know how to sum over rows, and store no column.

A fit asks a block for sums of its columns times numbers of rows, for columns times coefficients,
and for values of some rows.  Rows stay where the block has them: numbers come in the order of a
plan, and are brought into that of the block once for all of its columns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property

import numpy as np


class ComputedBlock(ABC):
    """Some columns of a design, side by side.

    Columns are named by their numbers in the block, ascending; one may be there twice.  `form` says
    what of an entry x counts: x, its size, its square, or one where it is not zero.

    A block is a dataclass, of whose fields digests are made.

    Attributes
    ----------
    n_rows, n_columns : int
    nbytes : int
        Of what it keeps in memory.
    """

    n_rows: int
    n_columns: int
    nbytes: int

    @abstractmethod
    def sums(self, columns, numbers, form, label=None, n_labels=1) -> np.ndarray:
        """Sums of entries times numbers of rows, by labels of rows: (len(columns), n_labels)."""

    @abstractmethod
    def add(self, columns, coef, form, out) -> None:
        """Add entries times coefficients to numbers of rows."""

    @abstractmethod
    def values(self, columns, rows) -> np.ndarray:
        """Entries of some rows (any, in any order), (len(columns), len(rows))."""

    def groups(self, columns):
        """Yield some of the columns, the key of labels (None: these depend on the columns), and a
        function of a label of every row and of the values by label.

        Blocks whose rows no few labels tell apart yield nothing.
        """
        del columns
        return iter(())

    def take(self, rows) -> ComputedBlock:
        """The block of some rows, which may come more than once."""
        return TakenRows(self, np.asarray(rows))


@dataclass(frozen=True, eq=False)
class TakenRows(ComputedBlock):
    """Rows of another block, by their numbers."""

    block: ComputedBlock
    rows: np.ndarray

    @property
    def n_rows(self):
        return len(self.rows)

    @property
    def n_columns(self):
        return self.block.n_columns

    @cached_property
    def _rounds(self):
        """Positions in lists of rows, of which each has no row twice."""
        order = np.argsort(self.rows, kind="stable")
        is_new = np.diff(self.rows[order], prepend=-1) != 0
        first = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))
        number = np.arange(len(order)) - first  # how often the row came before
        return [order[number == k] for k in range(int(number.max(initial=-1)) + 1)]

    @property
    def nbytes(self):
        return self.block.nbytes + self.rows.nbytes

    def sums(self, columns, numbers, form, label=None, n_labels=1):
        out = np.zeros((len(columns), n_labels))
        for some in self._rounds:
            own = np.zeros(self.block.n_rows)
            own[self.rows[some]] = numbers[some]
            of_rows = None
            if label is not None:
                of_rows = np.zeros(self.block.n_rows, label.dtype)
                of_rows[self.rows[some]] = label[some]
            out += self.block.sums(columns, own, form, of_rows, n_labels)
        return out

    def add(self, columns, coef, form, out):
        own = np.zeros(self.block.n_rows)
        self.block.add(columns, coef, form, own)
        out += own[self.rows]

    def values(self, columns, rows):
        return self.block.values(columns, self.rows[rows])

    def take(self, rows):
        return TakenRows(self.block, self.rows[rows])


class ComputedColumns:
    """The blocks of a design whose rows are in the order of a plan, by numbers of its columns.

    Parameters
    ----------
    design : Design
    order : ndarray of shape (n_rows,), optional
        Row of the design at each place of the plan.
    """

    def __init__(self, design, order=None):
        self.blocks, self._number = design.blocks, design.value_ptr
        self._ptr = np.cumsum([0] + [block.n_columns for block in self.blocks])
        is_moved = order is not None and not np.array_equal(order, np.arange(len(order)))
        self._order = np.asarray(order) if is_moved else None

    def by_row(self, numbers):
        """Numbers by place, by row."""
        if self._order is None:
            return numbers
        found = np.empty_like(numbers)
        found[self._order] = numbers
        return found

    def by_place(self, numbers):
        """Numbers by row, by place."""
        return numbers if self._order is None else numbers[self._order]

    def _by_block(self, columns):
        """Blocks, which of the columns are theirs in their order, and the numbers of these."""
        number, some = self._number[columns], np.arange(len(columns))
        if np.any(number[1:] < number[:-1]):
            some = np.argsort(number, kind="stable")
            number = number[some]
        edges = np.searchsorted(number, self._ptr)
        for k in np.flatnonzero(np.diff(edges)):
            own = slice(edges[k], edges[k + 1])
            yield self.blocks[k], some[own], number[own] - self._ptr[k]

    def sums(self, columns, numbers, form, label, n_labels, over_columns):
        """Sums of computed columns, as `ComputedBlock.sums` has them."""
        numbers = self.by_row(numbers)
        label = None if label is None else self.by_row(label)
        out = np.empty((len(columns), n_labels))
        for block, some, own in self._by_block(columns):

            def part(low, high, block=block, some=some, own=own):
                out[some[low:high]] = block.sums(own[low:high], numbers, form, label, n_labels)

            over_columns(part, columns[some])
        return out

    def add(self, columns, coef, form, out):
        """Add computed columns times coefficients to numbers by place."""
        found = np.zeros(len(out))
        for block, some, own in self._by_block(columns):
            block.add(own, coef[some], form, found)
        out += self.by_place(found)

    def groups(self, columns):
        """Yield which of the columns have a label in common, and of these what blocks yield."""
        for block, some, own in self._by_block(columns):
            for which, key, labelled in block.groups(own):
                yield some[which], None if key is None else (id(block), key), labelled

    def values(self, columns, places):
        """Values of computed columns at some places, dense."""
        rows = places if self._order is None else self._order[places]
        out = np.empty((len(columns), len(rows)))
        for block, some, own in self._by_block(columns):
            out[some] = block.values(own, rows)
        return out
