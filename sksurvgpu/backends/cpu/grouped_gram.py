"""Products of columns whose values follow from a label of the row, such as steps of one variable.

Numbers of rows are added up by label, or by two, and multiplied by the values of labels: a pass
over rows for two variables, and not for two columns.
"""

from typing import NamedTuple

import numpy as np

from ..._compile import kernel
from ...data.design.kernels import COMPUTED, VALUE
from .row_labels import Labels


class LabelledColumns(NamedTuple):
    """Columns of one variable."""

    where: np.ndarray  # positions of the columns
    label: np.ndarray  # of every row
    values: np.ndarray  # (n_labels, n_columns)


def groups_of(products, columns, positions):
    """Positions of columns that are better multiplied so, by variable, and what labels them."""
    if products.is_plain:
        return []
    positions = positions[products.kind[columns[positions]] == COMPUTED]
    found = products.computed.groups(columns[positions])
    return [(positions[some], labelled) for some, labelled in found]


def add_grouped(products, columns, grouped, others, h, known, rows):
    """Write rows ``known:`` of X' diag(h) X where a column is grouped; `others` are not."""
    grouped = [LabelledColumns(where, *labelled()) for where, labelled in grouped]
    products.threads.map(
        lambda k: _add_pairs(grouped[: k + 1], h, known, rows), range(len(grouped))
    )
    for own in grouped:
        some = others if own.where.max() >= known else others[others >= known]
        labels = Labels.of(products.tiles, own.label, len(own.values))
        found = products.sums(columns[some], h, VALUE, labels) @ own.values
        _write(rows, known, some, own.where, found)


def _add_pairs(grouped, h, known, rows):
    """Products of the last variable with itself and with those before."""
    *before, own = grouped
    by_label = np.bincount(own.label, h, len(own.values))
    _write(rows, known, own.where, own.where, (own.values.T * by_label) @ own.values)
    for other in before:
        if max(own.where.max(), other.where.max()) >= known:
            by_both = np.zeros((len(own.values), len(other.values)))
            _add_by_both(own.label, other.label, h, by_both)
            found = own.values.T @ by_both @ other.values
            _write(rows, known, own.where, other.where, found)


def _write(rows, known, first, second, found):
    """Write products of columns into the rows of those that are new."""
    is_new, others_new = first >= known, second >= known
    rows[np.ix_(first[is_new] - known, second)] = found[is_new]
    rows[np.ix_(second[others_new] - known, first)] = found[:, others_new].T


@kernel
def _add_by_both(first, second, numbers, out):
    """Add numbers of rows by two labels."""
    for i in range(len(numbers)):
        out[first[i], second[i]] += numbers[i]
