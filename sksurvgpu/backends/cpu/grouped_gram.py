"""Products of columns whose values follow from a label of the row, such as steps of one variable.

Numbers of rows are added up by label, or by two, and multiplied by the values of labels: a pass
over rows for two variables, and not for two columns.  Where labels are the same whichever columns
of a variable are asked for, sums are kept, and columns that join later cost no pass.
"""

from typing import NamedTuple

import numpy as np

from ..._compile import kernel
from ...data.design.kernels import COMPUTED, VALUE
from .row_labels import Labels

FEWEST_GROUPED = 3  # columns of a variable, in the mean, whose products by BLAS take as long
TABLE_BYTES = 2**28  # of sums by two labels that a model keeps
SAMPLED = 0.5  # share of rows with weight, of fewer labels are copied without the others


class LabelledColumns(NamedTuple):
    """Columns of one variable."""

    where: np.ndarray  # positions of the columns
    key: tuple | None  # of the labels, where they are those of all columns of the variable
    label: np.ndarray  # of every row
    values: np.ndarray  # (n_labels, n_columns)


class PairTables:
    """Sums of numbers of rows, always the same, by the labels of two variables."""

    def __init__(self):
        self._kept, self._free = {}, TABLE_BYTES

    def sums(self, first, second, numbers):
        """Sums (labels of the first, of the second), which may be kept from before."""
        key = first.key, second.key
        if key in self._kept:
            return self._kept[key]
        table = np.zeros((len(first.values), len(second.values)))
        _add_by_both(first.label, second.label, numbers, table)
        if None not in key and table.nbytes <= self._free:
            self._kept[key], self._free = table, self._free - table.nbytes
        return table


def groups_of(products, columns, positions):
    """Positions of columns that are better multiplied so, by variable, and what labels them."""
    if products.is_plain:
        return []
    positions = positions[products.kind[columns[positions]] == COMPUTED]
    found = list(products.computed.groups(columns[positions]))
    if sum(len(some) for some, *_ in found) < FEWEST_GROUPED * len(found):
        return []
    return [(positions[some], *labelled) for some, *labelled in found]


def add_grouped(products, columns, split, h, known, rows, tables):
    """Write rows ``known:`` of X' diag(h) X where a column is grouped."""
    computed, others = products.computed, np.sort(np.concatenate([split.paired, split.dense]))
    grouped = [LabelledColumns(where, key, *labelled()) for where, key, labelled in split.grouped]
    weighted, by_row = grouped, computed.by_row(h)
    some = np.flatnonzero(by_row)
    if len(some) < SAMPLED * len(h):  # a sample
        weighted, by_row = [own._replace(label=own.label[some]) for own in grouped], by_row[some]
    products.threads.map(
        lambda k: _add_pairs(weighted[: k + 1], by_row, known, rows, tables), range(len(grouped))
    )
    for own in grouped:
        some = others if own.where.max() >= known else others[others >= known]
        if len(some):
            labels = Labels.of(products.tiles, computed.by_place(own.label), len(own.values))
            found = products.sums(columns[some], h, VALUE, labels) @ own.values
            _write(rows, known, some, own.where, found)


def _add_pairs(grouped, numbers, known, rows, tables):
    """Products of the last variable's columns with their own and those before."""
    own = grouped[-1]
    if own.where.max() < known:
        grouped = [one for one in grouped if one.where.max() >= known]
    if grouped:
        found = [one.values.T @ (tables.sums(one, own, numbers) @ own.values) for one in grouped]
        where = np.concatenate([one.where for one in grouped])
        _write(rows, known, where, own.where, np.concatenate(found))


def _write(rows, known, first, second, found):
    """Write products of columns into the rows of those that are new."""
    is_new, others_new = first >= known, second >= known
    rows[(first[is_new] - known)[:, None], second] = found[is_new]
    rows[(second[others_new] - known)[:, None], first] = found[:, others_new].T


@kernel
def _add_by_both(first, second, numbers, out):
    """Add numbers of rows by two labels."""
    for i in range(len(numbers)):
        out[first[i], second[i]] += numbers[i]
