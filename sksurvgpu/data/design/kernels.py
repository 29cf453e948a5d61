"""Kernels over the columns of a Design: rows chosen and reordered, product, look at values.

Reordering maps each column's row indices through the inverse permutation and must
leave them ascending. Sorting costs O(m log m) for m entries. Instead the mapped rows
are marked in a bitmap of 64-bit words, with a second bitmap that marks the nonzero
words, and read back in order with trailing-zero counts: O(m + n/4096) a column.
Very short columns are sorted by insertion.
"""

from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ..._compile import device, kernel

# Column kinds: ones only and no stored values; valued, by row; one value for every row; those that
# a block computes (`computed`), of which nothing is stored here.
INDICATOR, SPARSE, DENSE, COMPUTED = 0, 1, 2, 3
VALUE, SIZE, SQUARE, ONE = range(4)  # what of an entry x counts: x, |x|, x^2, 1

# Up to this many entries insertion is faster than visiting the n/4096 summary words.
INSERTION_LIMIT = 32

SLACK = 4  # rows that are written for every word, marked or not


class DesignArrays(NamedTuple):
    """The arrays of a Design (documented there) as kernels take them."""

    kind: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    value_ptr: np.ndarray


@intrinsic
def _trailing_zeros(typingctx, word):
    """Number of zero bits below the lowest set bit of a uint64; 64 if it has none."""

    def codegen(context, builder, signature, args):
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), codegen


@kernel
def invert_permutation(order, inverse):
    """Write inverse[order[i]] = i; return 0 if identity, 1 if not, -1 if invalid."""
    n = inverse.size
    inverse[:] = -1
    changed = 0
    for i in range(n):
        row = order[i]
        if row < 0 or row >= n or inverse[row] >= 0:
            return -1
        inverse[row] = i
        if row != i:
            changed = 1
    return changed


def invert_order(order, n_rows):
    """Inverse of an order of the rows, int32, and whether it moves any; refuses what is none."""
    order = np.asarray(order)
    if order.shape != (n_rows,) or order.dtype.kind not in "iu":
        raise ValueError(
            f"`order` has shape {order.shape} and dtype {order.dtype}; pass the "
            f"{n_rows:,} row numbers as integers."
        )
    inverse = np.empty(n_rows, dtype=np.int32)
    changed = invert_permutation(order, inverse)
    if changed < 0:
        raise ValueError(
            "`order` is not a permutation of the rows: a row number is repeated or "
            f"outside 0..{n_rows - 1:,}."
        )
    return inverse, bool(changed)


@intrinsic
def _count_bits(typingctx, word):
    """Number of set bits of a uint64."""

    def codegen(context, builder, signature, args):
        return builder.ctpop(args[0])

    return types.int64(types.uint64), codegen


@device
def _insert_sorted(inverse, rows, rows_out, values, values_out):
    """Short column: map and insert one entry at a time, values carried along.

    `values` is empty for an indicator column.
    """
    for k in range(rows.size):
        row = inverse[rows[k]]
        position = k
        while position > 0 and rows_out[position - 1] > row:
            rows_out[position] = rows_out[position - 1]
            if values.size:
                values_out[position] = values_out[position - 1]
            position -= 1
        rows_out[position] = row
        if values.size:
            values_out[position] = values[k]


@device
def drain_bitmap(words, summary, rows_out):
    """Write the marked rows in ascending order and clear both bitmaps."""
    one = np.uint64(1)
    out = 0
    for s in range(summary.size):
        nonzero_words = summary[s]
        summary[s] = np.uint64(0)
        while nonzero_words:
            word_idx = (s << 6) + _trailing_zeros(nonzero_words)
            nonzero_words &= nonzero_words - one
            base = word_idx << 6
            word = words[word_idx]
            words[word_idx] = np.uint64(0)
            while word:
                rows_out[out] = base + _trailing_zeros(word)
                word &= word - one
                out += 1


@device
def mark(inverse, rows, words, summary):
    one = np.uint64(1)
    for k in range(rows.size):
        row = inverse[rows[k]]
        words[row >> 6] |= one << np.uint64(row & 63)
        summary[row >> 12] |= one << np.uint64((row >> 6) & 63)


@device
def mark_words(inverse, rows, words):
    """`mark` in one bitmap alone."""
    for k in range(rows.size):
        row = np.uint64(inverse[rows[k]])
        words[row >> np.uint64(6)] |= np.uint64(1) << (row & np.uint64(63))


@device
def drain_words(words, rows_out):
    """`drain_bitmap` by visiting every word; `rows_out` is longer by `SLACK` than what it takes.

    A loop over the bits of a word ends unforeseen by the processor: some are always written, and
    those beyond its last written over.
    """
    one, out = np.uint64(1), 0
    for w in range(words.size):
        word, base = words[w], w << 6
        words[w] = np.uint64(0)
        count = _count_bits(word)
        for k in range(SLACK):
            rows_out[out + k] = base + _trailing_zeros(word)
            word &= word - one
        k = SLACK
        while word:
            rows_out[out + k] = base + _trailing_zeros(word)
            word &= word - one
            k += 1
        out += count


@kernel
def reorder_columns(first, last, order, inverse, given, moved):
    """Write columns first..last-1 of `given` into `moved`; a call owns those columns.

    Reads the pointers of both; writes `moved.indices` and `moved.values` only. Bitmaps
    and the scratch for values are private to the call.
    """
    n = inverse.size
    words = np.zeros((n >> 6) + 1, dtype=np.uint64)
    summary = np.zeros((n >> 12) + 1, dtype=np.uint64)
    scratch = np.empty(0, dtype=np.float64)
    for j in range(first, last):
        source, target = given.value_ptr[j], moved.value_ptr[j]
        if given.kind[j] == DENSE:
            for i in range(n):
                moved.values[target + i] = given.values[source + order[i]]
            continue
        start, stop = given.indptr[j], given.indptr[j + 1]
        rows, rows_out = given.indices[start:stop], moved.indices[start:stop]
        count = 0 if given.kind[j] == INDICATOR else rows.size
        values = given.values[source : source + count]
        values_out = moved.values[target : target + count]
        if rows.size <= INSERTION_LIMIT:
            _insert_sorted(inverse, rows, rows_out, values, values_out)
            continue
        mark(inverse, rows, words, summary)
        drain_bitmap(words, summary, rows_out)
        if count and scratch.size == 0:
            scratch = np.empty(n, dtype=np.float64)
        for k in range(count):
            scratch[inverse[rows[k]]] = values[k]
        for k in range(count):
            values_out[k] = scratch[rows_out[k]]


@kernel
def chain_rows(rows, first, following):
    """Write where rows go when row i of a selection is ``rows[i]``.

    Row r goes to ``first[r]``, from there to ``following[first[r]]`` and so on, -1 ends it.
    """
    first[:] = -1
    for i in range(rows.size - 1, -1, -1):
        following[i] = first[rows[i]]
        first[rows[i]] = i


@kernel
def count_taken(copies, columns, counts):
    """Entries that every column has when row r is taken ``copies[r]`` times."""
    for j in range(counts.size):
        count = 0
        for k in range(columns.indptr[j], columns.indptr[j + 1]):
            count += copies[columns.indices[k]]
        counts[j] = count


@kernel
def take_columns(rows, first, following, given, taken):
    """Write the chosen rows of `given` into `taken`, ascending in every column.

    Reads the pointers of both; writes `taken.indices` and `taken.values` only. `first` and
    `following` are those of `chain_rows`: rows in a list each would cost another missed cache line
    before the branch that needs it.
    """
    n = rows.size
    words = np.zeros((n >> 6) + 1, dtype=np.uint64)
    summary = np.zeros((n >> 12) + 1, dtype=np.uint64)
    scratch = np.empty(n if (given.kind == SPARSE).any() else 0, dtype=np.float64)
    one = np.uint64(1)
    for j in range(given.kind.size):
        source, target = given.value_ptr[j], taken.value_ptr[j]
        if given.kind[j] == DENSE:
            for i in range(n):
                taken.values[target + i] = given.values[source + rows[i]]
            continue
        is_valued = given.kind[j] == SPARSE
        for k in range(given.indptr[j], given.indptr[j + 1]):
            row = first[given.indices[k]]
            while row >= 0:
                words[row >> 6] |= one << np.uint64(row & 63)
                summary[row >> 12] |= one << np.uint64((row >> 6) & 63)
                if is_valued:
                    scratch[row] = given.values[source + k - given.indptr[j]]
                row = following[row]
        rows_out = taken.indices[taken.indptr[j] : taken.indptr[j + 1]]
        drain_bitmap(words, summary, rows_out)
        if is_valued:
            for k in range(rows_out.size):
                taken.values[target + k] = scratch[rows_out[k]]


@kernel
def add_products(active, coef, columns, out):
    """Add coef[j] * column j to `out` for every column listed in `active`."""
    for j in active:
        scale = coef[j]
        source = columns.value_ptr[j]
        start, stop = columns.indptr[j], columns.indptr[j + 1]
        if columns.kind[j] == DENSE:
            for i in range(out.size):
                out[i] += scale * columns.values[source + i]
        elif columns.kind[j] == INDICATOR:
            for k in range(start, stop):
                out[columns.indices[k]] += scale
        else:
            for k in range(start, stop):
                out[columns.indices[k]] += scale * columns.values[source + k - start]


@kernel
def scan_values(indptr, data, n_nonfinite, has_only_ones):
    """Inspect stored values by column; return how many stored values are zero.

    Zeros do not count against `has_only_ones`: they are dropped later. `data` is
    numeric, not bool.
    """
    n_zero = 0
    for j in range(indptr.size - 1):
        nonfinite = 0
        only_ones = True
        for k in range(indptr[j], indptr[j + 1]):
            value = float(data[k])
            if not np.isfinite(value):
                nonfinite += 1
            if value == 0.0:
                n_zero += 1
            elif value != 1.0:
                only_ones = False
        n_nonfinite[j] = nonfinite
        has_only_ones[j] = only_ones
    return n_zero


@kernel
def write_columns(indptr, indices, column_ptr, rows):
    """Write the rows of ones that are stored by row into columns; False if one is there twice.

    `column_ptr` is all zeros, and becomes the begins of columns.
    """
    for k in range(indices.size):
        column_ptr[indices[k] + 1] += 1
    for j in range(column_ptr.size - 1):
        column_ptr[j + 1] += column_ptr[j]
    at = column_ptr[:-1].copy()
    for row in range(indptr.size - 1):
        for k in range(indptr[row], indptr[row + 1]):
            j = indices[k]
            if at[j] > column_ptr[j] and rows[at[j] - 1] == row:
                return False
            rows[at[j]] = row
            at[j] += 1
    return True
