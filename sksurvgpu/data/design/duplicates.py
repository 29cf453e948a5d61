"""Columns that are nearly the same, without comparing all pairs of them entry by entry.

Rows are shared out to B groups by chance. The sums of a column over the groups, less what its mean
makes of them, are a sketch: the correlation r of two sketches estimates that of the columns, with a
standard error of 1 / sqrt(B - 3) on the scale of artanh r (Fisher). Only pairs whose sketches are
as alike as the threshold less FAR such errors are compared entry by entry. Sums of values of one
sign lose nothing where rows meet in a group, so that sketches of rare columns are no less alike
than the columns.

A column is compared with the first of each lot of duplicates only. A pass over the entries, and a
product of sketches of p^2 B / 2 additions in float32: 0.3 s for 10,000 columns.
"""

from functools import partial

import numpy as np

from ..._compile import device, kernel
from .columns import DENSE, INDICATOR
from .sums import sum_by_group

N_GROUPS = 128
FAR = 6.0  # standard errors
ROUNDING = 1e-4, 1e-12  # of products of sketches in float32, and of a correlation
LEAST_THRESHOLD = 0.8  # below, sketches of columns that are not alike pass for it
CHUNK = 4096  # columns whose sums are held at a time
BLOCK = 1024  # columns that are compared with all before them


def find_duplicates(design, threshold, *, n_threads=1):
    """Columns whose correlation with one before them is at least the threshold in absolute value.

    Returns them, the columns before that correlate most, of those that are no duplicates, and the
    correlations, all (n_duplicates,).
    """

    def add_up(some, group):
        return sum_by_group(design.select(some), group, N_GROUPS, n_threads=n_threads)

    def prepare(start, alike, moments):
        return partial(_correlate_in_memory, design, moments)

    return _search(design, threshold, add_up, prepare)


def find_duplicates_in_parts(columns, threshold):
    """`find_duplicates` of `partitions.columns.ColumnsInPartitions`."""

    def add_up(some, group):
        return columns.sum_by_group(group, N_GROUPS, some=some)

    def prepare(start, alike, moments):
        """Ask for all products of a block at once."""
        first, second = np.nonzero(alike)
        shift, mean, variance = moments
        a, b = start + first, second
        if not len(a):
            return None
        product = sum(columns.apply(_multiply_part, (), a, b, shift)) / columns.n_rows
        with np.errstate(divide="ignore", invalid="ignore"):  # of constants
            found = (product - mean[a] * mean[b]) / np.sqrt(variance[a] * variance[b])
        ptr = np.searchsorted(first, np.arange(len(alike) + 1))

        def correlate(j, others):
            own = slice(ptr[j - start], ptr[j - start + 1])
            return found[own][np.searchsorted(second[own], others)]

        return correlate

    return _search(columns, threshold, add_up, prepare)


def _search(design, threshold, add_up, prepare):
    """Find duplicates; for a block, `prepare` gives what correlates a column with others."""
    sketch, moments = _sketch(design, add_up)
    with np.errstate(divide="ignore"):
        bar = np.tanh(np.arctanh(threshold) - FAR / np.sqrt(N_GROUPS - 3)) - ROUNDING[0]
    varies, is_original = moments[2] > 0, moments[2] > 0
    found = []
    for start in range(0, design.n_columns, BLOCK):
        stop = min(start + BLOCK, design.n_columns)
        alike = np.abs(sketch[start:stop] @ sketch[:stop].T) >= bar
        alike &= np.arange(stop) < np.arange(start, stop)[:, None]
        alike &= varies[start:stop, None] & is_original[:stop]
        correlate = prepare(start, alike, moments)
        for j in start + np.flatnonzero(alike.any(axis=1)):
            others = np.flatnonzero(alike[j - start] & is_original[:stop])
            if not len(others):
                continue
            correlation = correlate(j, others)
            best = int(np.argmax(np.abs(correlation)))
            if abs(correlation[best]) >= threshold - ROUNDING[1]:
                is_original[j] = False
                found.append((j, others[best], correlation[best]))
    column, original, correlation = np.array(found).reshape(-1, 3).T
    return column.astype(np.int64), original.astype(np.int64), correlation


def _correlate_in_memory(design, moments, j, others):
    correlation = np.empty(len(others))
    _correlate(j, others, design.arrays(), design.n_rows, moments, correlation)
    return correlation


def _multiply_part(design, own, a, b, shift):
    products = np.empty(len(a))
    _multiply(a, b, design.arrays(), design.n_rows, shift, products)
    return products


def _sketch(design, add_up):
    """Sketches of length 1; what was taken from each column, its mean less that, its variance."""
    group = np.random.default_rng(0).integers(0, N_GROUPS, design.n_rows)
    sketch = np.empty((design.n_columns, N_GROUPS), np.float32)
    moments = np.empty((3, design.n_columns))
    for start in range(0, design.n_columns, CHUNK):
        part = slice(start, min(start + CHUNK, design.n_columns))
        found = add_up(part, group)
        total, n = found.sums.total, found.n_rows
        mean = total.sum(axis=1) / design.n_rows
        variance = found.sums.square.sum(axis=1) / design.n_rows - mean**2
        is_constant = found.sums.least.min(axis=1) == found.sums.most.max(axis=1)
        moments[:, part] = found.center, mean, np.where(is_constant, 0.0, variance)
        centred = total - mean[:, None] * n
        # values that cancel in each of their groups are compared with all that do
        centred[~centred.any(axis=1)] = 1.0
        sketch[part] = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    return sketch, moments


@device
def _value(columns, j, q):
    return 1.0 if columns.kind[j] == INDICATOR else columns.values[columns.value_ptr[j] + q]


@device
def _product_with_dense(columns, dense, j, shift, n_rows):
    """Sum of products of a column without values for every row, or with, and a dense one."""
    total, start = 0.0, columns.value_ptr[dense]
    if columns.kind[j] == DENSE:
        for i in range(n_rows):
            total += (columns.values[start + i] - shift[dense]) * (_value(columns, j, i) - shift[j])
        return total
    begin = columns.indptr[j]
    for q in range(columns.indptr[j + 1] - begin):
        x = columns.values[start + columns.indices[begin + q]] - shift[dense]
        total += x * (_value(columns, j, q) - shift[j])
    return total


@device
def _product(columns, a, b, shift, n_rows):
    """Sum of products of two columns less their shifts; columns with a shift store all rows."""
    if columns.kind[a] == DENSE:
        return _product_with_dense(columns, a, b, shift, n_rows)
    if columns.kind[b] == DENSE:
        return _product_with_dense(columns, b, a, shift, n_rows)
    total, p, q = 0.0, columns.indptr[a], columns.indptr[b]
    while p < columns.indptr[a + 1] and q < columns.indptr[b + 1]:
        if columns.indices[p] < columns.indices[q]:
            p += 1
        elif columns.indices[p] > columns.indices[q]:
            q += 1
        else:
            x = _value(columns, a, p - columns.indptr[a]) - shift[a]
            total += x * (_value(columns, b, q - columns.indptr[b]) - shift[b])
            p += 1
            q += 1
    return total


@kernel
def _multiply(a, b, columns, n_rows, shift, out):
    """Sums of products of pairs of columns."""
    for i in range(len(a)):
        out[i] = _product(columns, a[i], b[i], shift, n_rows)


@kernel
def _correlate(j, others, columns, n_rows, moments, out):
    """Correlations of column j with others."""
    shift, mean, variance = moments
    for a in range(len(others)):
        k = others[a]
        product = _product(columns, j, k, shift, n_rows) / n_rows - mean[j] * mean[k]
        out[a] = product / np.sqrt(variance[j] * variance[k])
