"""Descriptions of the rows of a partition before any fit: counts, columns, times."""

from __future__ import annotations

import numpy as np

from ..._compile import kernel
from ...data.design.columns import DENSE, INDICATOR
from ...data.outcomes.checksum import checksum
from .messages import Description


def describe(rows) -> Description:
    """Describe the rows of a partition."""
    design = rows.design
    return Description(
        rows=rows.n_rows,
        names=None if design.names is None else tuple(map(str, design.names)),
        columns=_describe_columns(design),
        tables=rows.likelihood.pattern.in_part.describe(rows) | rows.told,
        checksum=checksum(rows.outcome, rows.weight, rows.offset),
    )


def _describe_columns(design):
    """Entries, their sum and squares about their mean, and extremes of every column."""
    is_dense, is_one = design.kind == DENSE, design.kind == INDICATOR
    stored = np.where(is_dense, design.n_rows, np.diff(design.indptr))
    found = np.zeros((design.n_columns, 5))
    size = np.where(is_one, 0, stored)
    _summarize(design.values, design.value_ptr, size, found)
    found[:, 0] = stored
    found[is_one, 1] = found[is_one, 4] = stored[is_one]
    found[is_one, 3:5] = (stored[is_one] > 0)[:, None]
    has_zeros = stored < design.n_rows
    found[has_zeros, 3] = np.minimum(found[has_zeros, 3], 0.0)
    found[has_zeros, 4] = np.maximum(found[has_zeros, 4], 0.0)
    if not design.n_rows:
        found[:, 3:5] = np.nan
    return found


@kernel
def _summarize(values, ptr, size, found):
    """Sum, squares about the mean, least and largest of the values of every column."""
    for j in range(len(ptr)):
        if size[j] == 0:
            continue
        low = high = values[ptr[j]]
        total = square = 0.0
        for q in range(ptr[j], ptr[j] + size[j]):
            total += values[q]
            low, high = min(low, values[q]), max(high, values[q])
        mean = total / size[j]
        for q in range(ptr[j], ptr[j] + size[j]):
            square += (values[q] - mean) ** 2
        found[j, 1], found[j, 2], found[j, 3], found[j, 4] = total, square, low, high
