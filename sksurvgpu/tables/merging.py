"""Rows of a unit with the same covariates become one.

A row is known by the sum, modulo 2^64, of a hash of each of its entries; two of a unit that differ
are taken for one another with a probability of 2^-64.
"""

import numpy as np

from .._compile import device, kernel
from ..data.design.columns import Design
from ..data.design.kernels import DENSE, INDICATOR
from .numbering import MULTIPLIERS, SHIFTS

# Of SplitMix64 (Steele, Lea and Flood 2014), as the finalizer in `numbering.py`.
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
ONE = np.float64(1.0).view(np.uint64)


def group_equal_rows(X: Design, unit) -> tuple[np.ndarray, np.ndarray]:
    """Number the different rows of units in the order in which they first occur.

    Units ascend. The number of every row, and the first row of every number, ascending.
    """
    code = np.zeros(X.n_rows, dtype=np.uint64)
    columns = X.arrays()._replace(values=X.values.view(np.uint64))
    _hash_rows(columns, X.values, code)
    order = np.lexsort((code, unit))  # stable
    is_new = np.ones(order.size, dtype=np.bool_)
    is_new[1:] = np.diff(unit[order]) != 0
    is_new[1:] |= code[order][1:] != code[order][:-1]
    first = order[is_new]
    rank = np.empty(first.size, dtype=np.int64)
    rank[np.argsort(first)] = np.arange(first.size)
    group = np.empty(order.size, dtype=np.int64)
    group[order] = rank[np.cumsum(is_new) - 1]
    return group, np.sort(first)


@device
def _mixed(column, bits):
    mixed = bits ^ (np.uint64(column + 1) * GOLDEN)
    mixed = (mixed ^ (mixed >> SHIFTS[0])) * MULTIPLIERS[0]
    mixed = (mixed ^ (mixed >> SHIFTS[1])) * MULTIPLIERS[1]
    return mixed ^ (mixed >> SHIFTS[2])


@kernel
def _hash_rows(columns, values, code):
    """Add the hashes of all entries to `code`; `columns.values` are the bits of `values`."""
    for j in range(columns.kind.size):
        start, stop = columns.indptr[j], columns.indptr[j + 1]
        source = columns.value_ptr[j]
        if columns.kind[j] == DENSE:
            for i in range(code.size):
                if values[source + i] != 0.0:
                    code[i] += _mixed(j, columns.values[source + i])
        else:
            is_one = columns.kind[j] == INDICATOR
            for k in range(start, stop):
                bits = ONE if is_one else columns.values[source + k - start]
                code[columns.indices[k]] += _mixed(j, bits)
