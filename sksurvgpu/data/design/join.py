"""Rows of several designs below each other, as one design.

Every column gets the form that a table of all these rows would have: sparse where it was given so
or has few entries, without values where all are ones.
"""

from collections.abc import Sequence

import numpy as np

from ..._compile import kernel
from .columns import Design
from .kernels import DENSE, INDICATOR, SPARSE, DesignArrays
from .tables import MAX_INDICATOR_DENSITY, MAX_SPARSE_DENSITY, packed_offsets, value_sizes


def join_rows(parts: Sequence[tuple[Design, int, int]]) -> Design:
    """Rows from `low` to before `high` of designs with the same columns."""
    first = parts[0][0]
    n_rows = sum(high - low for _, low, high in parts)
    nonzero, other = np.zeros((2, first.n_columns), dtype=np.int64)
    given_dense = np.zeros(first.n_columns, dtype=np.bool_)
    for design, low, high in parts:
        _count(design.arrays(), low, high, nonzero, other)
        given_dense |= design.kind == DENSE
    limit = np.where(other > 0, MAX_SPARSE_DENSITY, MAX_INDICATOR_DENSITY) * n_rows
    kind = np.where(other > 0, SPARSE, INDICATOR).astype(np.uint8)
    kind[given_dense & (nonzero > limit)] = DENSE
    indptr = np.concatenate([[0], np.cumsum(np.where(kind == DENSE, 0, nonzero))])
    sizes = value_sizes(kind, indptr, n_rows)
    indices, values = np.empty(indptr[-1], dtype=np.int32), np.zeros(sizes.sum())
    joined = DesignArrays(kind, indptr, indices, values, packed_offsets(sizes))
    following, offset = indptr[:-1].copy(), 0
    for design, low, high in parts:
        _append(design.arrays(), (low, high, offset), following, joined)
        offset += high - low
    return Design(n_rows, *joined, first.names)


@kernel
def _count(columns, low, high, nonzero, other):
    """Add the entries of every column in rows [low, high), and those that are not 1."""
    for j in range(nonzero.size):
        source = columns.value_ptr[j]
        if columns.kind[j] == DENSE:
            for i in range(source + low, source + high):
                nonzero[j] += columns.values[i] != 0.0
                other[j] += columns.values[i] != 0.0 and columns.values[i] != 1.0
            continue
        rows = columns.indices[columns.indptr[j] : columns.indptr[j + 1]]
        first, end = np.searchsorted(rows, low), np.searchsorted(rows, high)
        nonzero[j] += end - first
        if columns.kind[j] == SPARSE:
            for q in range(source + first, source + end):
                other[j] += columns.values[q] != 1.0


@kernel
def _append(columns, where, following, joined):
    """Write the rows [low, high) of `columns` to rows of `joined` from `offset` on.

    Entries of a sparse column go to ``following[j]``, which moves on.
    """
    low, high, offset = where
    for j in range(following.size):
        source, target = columns.value_ptr[j], joined.value_ptr[j] - joined.indptr[j]
        rows = columns.indices[columns.indptr[j] : columns.indptr[j + 1]]
        is_dense = columns.kind[j] == DENSE
        first = low if is_dense else np.searchsorted(rows, low)
        end = high if is_dense else np.searchsorted(rows, high)
        for q in range(first, end):
            row = (q if is_dense else np.int64(rows[q])) - low + offset
            value = 1.0 if columns.kind[j] == INDICATOR else columns.values[source + q]
            if joined.kind[j] == DENSE:
                joined.values[joined.value_ptr[j] + row] = value
            elif value != 0.0:
                k = following[j]
                joined.indices[k] = row
                if joined.kind[j] == SPARSE:
                    joined.values[target + k] = value
                following[j] = k + 1
