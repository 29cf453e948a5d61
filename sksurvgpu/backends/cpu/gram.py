"""The Gram matrix of the quadratic model, and coordinate descent on it.

Built by rows: a row with r nonzeros adds h_i to r(r+1)/2 entries, so a sparse X costs its
co-occurring pairs and not m^2 dot products.  Rows are taken in chunks whose row lists stay in
cache, X being transposed chunk by chunk and never as a whole.  Threads own rows of the target, so
that sums keep the order of the rows.  (Tiles of the target, and one target row at a time, were
both slower: their inner loops are short.)
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..._compile import device, kernel
from ...data.design.columns import DENSE, SPARSE
from ..formulas import coordinate_minimum
from .columns import column_operation, dot, entry_count, entry_row, entry_value
from .optional import write

_CHUNK = 4096
PASSES, QUICK = 5, 0.1  # passes a round; a round is quick if its moves shrink that much


@device
def _list_rows(X, columns, row, cursor, start, member, value):
    """Row lists of the columns for the chunk of rows that begins at `row`.

    Entries of chunk row i are ``start[i]:start[i + 1]`` of `member` (position in `columns`,
    ascending) and `value`.  `cursor` remembers how far each column has been read.
    """
    end = row + _CHUNK
    start[:] = 0
    for a in range(len(columns)):
        c = X.source[columns[a]]
        for q in range(cursor[a], X.indptr[c + 1]):
            if X.indices[q] >= end:
                break
            start[X.indices[q] - row + 2] += 1
    for i in range(2, len(start)):
        start[i] += start[i - 1]
    for a in range(len(columns)):
        c = X.source[columns[a]]
        q = cursor[a]
        while q < X.indptr[c + 1] and X.indices[q] < end:
            i = X.indices[q] - row + 1
            member[start[i]] = a
            if X.kind[c] == SPARSE:
                write(value, start[i], X.values[X.value_ptr[c] + q - X.indptr[c]])
            else:
                write(value, start[i], 1.0)
            start[i] += 1
            q += 1
        cursor[a] = q


@kernel
def most_entries(X, columns):
    """Largest number of entries that a chunk of rows can hold."""
    most = 0
    for a in range(len(columns)):
        c = X.source[columns[a]]
        most += min(_CHUNK, X.indptr[c + 1] - X.indptr[c])
    return most


@kernel
def add_pairs(X, columns, rh, low, member, value, gram):
    """Add sum_i h_i x_ia x_ib to gram[a, b] for a >= low and b <= a; dense columns add nothing."""
    start, cursor = np.empty(_CHUNK + 2, np.int64), np.empty(len(columns), np.int64)
    for a in range(len(columns)):
        cursor[a] = X.indptr[X.source[columns[a]]]
    for row in range(0, X.n_base, _CHUNK):
        _list_rows(X, columns, row, cursor, start, member, value)
        for i in range(min(_CHUNK, X.n_base - row)):
            h = rh[row + i, 1]
            for s in range(start[i + 1] - 1, start[i] - 1, -1):
                if member[s] < low:
                    break
                target = gram[member[s]]
                scale = h * entry_value(value, s)
                for t in range(start[i], s + 1):
                    target[member[t]] += scale * entry_value(value, t)


@column_operation
def multiply_into(rows, values, shift, state):
    """out_i = h_i x_i."""
    rh, out = state
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        out[i] = rh[i, 1] * entry_value(values, q)
    return 0.0


@kernel
def add_dense_column(X, columns, rh, a, old, scratch, gram):
    """Entries of a dense column a with all columns (of an old a: with the new ones)."""
    multiply_into(X, columns[a], 0, X.n_base, (rh, scratch))
    for b in range(0 if a >= old else old, len(columns)):
        gram[max(a, b), min(a, b)] = dot(X, columns[b], 0, X.n_base, scratch)


@kernel
def mirror(gram, old):
    """Copy the lower triangle's new rows to the upper one."""
    for a in range(old, gram.shape[0]):
        for b in range(a):
            gram[b, a] = gram[a, b]


@kernel
def gram_passes(gram, coef, gradient, l1, l2, unit, passes):
    """Cyclic passes; keeps ``gradient`` of the model at `coef`.  Largest move of the last pass."""
    largest = 0.0
    for _ in range(passes):
        largest = 0.0
        for a in range(len(coef)):
            curvature = gram[a, a]
            if curvature <= 0.0:
                continue
            new = coordinate_minimum(coef[a], gradient[a], curvature, l1[a], l2[a])
            step = new - coef[a]
            if step != 0.0:
                coef[a] = new
                row = gram[a]
                for b in range(len(gradient)):
                    gradient[b] -= row[b] * step
                largest = max(largest, curvature * abs(step) / unit[a])
    return largest


def form_gram(X, columns, rh, threads, scratch, old):
    """X' diag(h) X over the given columns, `old` (square) being that of the first of them."""
    m, n_old = len(columns), len(old)
    gram = np.zeros((m, m))
    gram[:n_old, :n_old] = old
    kinds = X.kind[X.source[columns]]
    all_ones = not np.any(kinds == SPARSE)

    def rows(low, high):
        part = columns[:high]
        room = most_entries(X, part)
        value = None if all_ones else np.empty(room)
        add_pairs(X, part, rh, low, np.empty(room, np.uint32), value, gram)

    threads.over_triangle(rows, n_old, m)
    for a in np.flatnonzero(kinds == DENSE):
        add_dense_column(X, columns, rh, a, n_old, scratch, gram)
    mirror(gram, n_old)
    return gram


def minimize_on_gram(gram, coef, gradient, penalties, tolerance, max_rounds=100):
    """Minimize the quadratic model: passes while they are quick, else Newton on the support.

    `penalties` holds l1, l2 and the unit of the gradient for every column.
    """
    coef, gradient, largest = coef.copy(), gradient.copy(), np.inf
    for _ in range(max_rounds):
        previous, largest = largest, gram_passes(gram, coef, gradient, *penalties, PASSES)
        if largest <= tolerance:
            break
        if largest > QUICK * previous:
            _support_step(gram, coef, gradient, *penalties[:2])
    return coef


def _support_step(gram, coef, gradient, l1, l2):
    """Solve the model on the support, signs held; coefficients that would change sign stop at 0."""
    support = np.flatnonzero((coef != 0) & (np.diagonal(gram) > 0))
    old = coef[support]
    block = gram[np.ix_(support, support)]
    block[np.diag_indices_from(block)] += l2[support]
    slope = gradient[support] - l1[support] * np.sign(old) - l2[support] * old
    try:
        factor = cho_factor(block, overwrite_a=True, check_finite=False)
        step = cho_solve(factor, slope, check_finite=False)
    except LinAlgError:  # duplicate columns: the passes alone converge
        return
    if not np.isfinite(step).all():  # a factor may be next to singular, and its step overflow
        return
    new = old + step
    new[(new * old < 0) & (l1[support] > 0)] = 0.0
    step = new - old
    change = gram[:, support] @ step
    decrease = (
        step @ gradient[support]
        - 0.5 * step @ change[support]
        - l1[support] @ (np.abs(new) - np.abs(old))
        - 0.5 * l2[support] @ (new**2 - old**2)
    )
    if decrease > 0:
        coef[support] = new
        gradient -= change
