"""Some of the rows of columns, in any order."""

import numpy as np

from .kernels import DesignArrays, chain_rows, count_taken, take_columns
from .tables import packed_offsets, value_sizes


def take_rows(columns: DesignArrays, n_rows, chosen):
    """Numbers of the rows that are chosen, and the arrays of their columns."""
    rows = np.arange(n_rows, dtype=np.int32)[chosen]
    if rows.ndim != 1:
        raise TypeError("rows of a Design are chosen by a list, mask or slice: X[[3]], not X[3].")
    if rows.size >= 2**31:
        raise ValueError(f"{rows.size:,} rows are chosen; choose fewer than 2^31.")
    first, following = np.empty(n_rows, dtype=np.int32), np.empty_like(rows)
    chain_rows(rows, first, following)
    counts = np.empty(len(columns.kind), dtype=np.int64)
    copies = np.bincount(rows, minlength=n_rows).astype(np.int32)
    count_taken(copies, columns, counts)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    sizes = value_sizes(columns.kind, indptr, rows.size)
    indices, values = np.empty(indptr[-1], dtype=np.int32), np.empty(sizes.sum())
    taken = DesignArrays(columns.kind, indptr, indices, values, packed_offsets(sizes))
    take_columns(rows, first, following, columns, taken)
    return rows, taken
