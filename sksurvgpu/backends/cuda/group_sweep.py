"""Passes of coordinate descent over blocks of columns, and the blocks of the model's matrix.

A team takes the gradients of a block's columns one after the other, each with a barrier, as passes
over columns do (`sweep`).  The first thread of every block of threads then finds the minimum, which
has the same bits in all of them, and they move their rows, column by column.
"""

from __future__ import annotations

import numpy as np
from numba import int64

from ...data.design.columns import DENSE
from ..cpu.sweep import SETTLED
from ._cuda import cuda, device, kernel
from .columns import all_entries, entry, my_ranges, my_span
from .team import block_sum, new_scratch, team_sum

NUMBERS = 3  # of every column of a block: gradient, coefficient and one to work with


@device
def _is_zero(work, coef, start, i):
    is_zero = True
    for s in range(work.penalty.size[i]):
        is_zero &= coef[work.penalty.member[i + s] - start] == 0.0
    return is_zero


def find_slopes(exchange, X, work, private, rows, start, i, turn):
    """Gradients and coefficients of a block, for thread 0; the turns taken by then."""
    ranges, scratch, block = my_ranges(X, exchange), new_scratch(), cuda.blockIdx.x
    n, width = private.moved.shape[1], (private.coef.shape[1] - private.moved.shape[1]) // NUMBERS
    for s in range(work.penalty.size[i]):
        at, total = work.penalty.member[i + s], 0.0
        if work.curvature[at] > 0.0:
            span = my_span(X, work.column[at], ranges)
            part = slope(X, span, ranges, rows)  # noqa: F821 (bound)
            total = work.gradient[at] + team_sum(exchange, part, turn, scratch)
            turn += 1
        if cuda.threadIdx.x == 0:
            private.coef[block, n + s] = total
            private.coef[block, n + width + s] = private.coef[block, at - start]
    return turn


def take_steps(exchange, X, work, private, rows, start, i):
    """Move a member's rows to the new coefficients of a block, and these; the largest move.

    Threads meet before each of these is written, and the caller has them meet after the last.
    """
    ranges, block = my_ranges(X, exchange), cuda.blockIdx.x
    n, width = private.moved.shape[1], (private.coef.shape[1] - private.moved.shape[1]) // NUMBERS
    largest = 0.0
    for s in range(work.penalty.size[i]):
        at = work.penalty.member[i + s]
        new, old = private.coef[block, n + width + s], private.coef[block, at - start]
        cuda.syncthreads()
        if new != old:
            largest = max(largest, work.curvature[at] * abs(new - old) / work.unit[at])
            if cuda.threadIdx.x == 0:
                private.coef[block, at - start] = new
            span = my_span(X, work.column[at], ranges)
            move(X, span, rows, new - old)  # noqa: F821 (bound)
    return largest


def descend_blocks(exchange, X, work, private, rows, limits):
    """Cyclic passes over the blocks of one fit; how often a column was due, and turns taken.

    Beyond the coefficients of the fit, `private.coef` holds what a block of columns needs.
    """
    start, end, max_passes, shrink, turn = limits
    block, n = cuda.blockIdx.x, private.moved.shape[1]
    coef, width = private.coef[block], (private.coef.shape[1] - n) // NUMBERS
    first, due = 0.0, 0
    for passed in range(max_passes):
        largest = 0.0
        for i in range(start, end):
            size = work.penalty.size[i]
            if size == 0 or (passed > 0 and _is_zero(work, coef, start, i)):
                continue
            due += size
            if passed > 0 and private.moved[block, i - start] <= SETTLED * shrink * first:
                continue
            turn = slopes(exchange, X, work, private, rows, start, i, turn)  # noqa: F821 (bound)
            if cuda.threadIdx.x == 0:
                move_block(  # noqa: F821 (bound)
                    coef[n : n + width],
                    coef[n + width : n + 2 * width],
                    work.curvature,
                    work.penalty,
                    i,
                    coef[n + 2 * width :],
                )
            cuda.syncthreads()
            moved = steps(exchange, X, work, private, rows, start, i)  # noqa: F821 (bound)
            largest = max(largest, moved)
            if cuda.threadIdx.x == 0:
                private.moved[block, i - start] = moved
            cuda.syncthreads()
        if passed == 0:
            first = largest
        if largest <= shrink * first:
            break
    return due, turn


def in_batch(penalties, ptr):
    """Blocks of fits whose columns lie one after the other, from `ptr` on."""
    found, before = [], 0
    for c, start in zip(penalties, ptr[:-1], strict=True):
        at = np.where(c.at >= 0, c.at + before, c.at)
        found.append(c._replace(member=c.member + start, at=at))
        before += len(c.matrix)
    return found


# -- blocks of the model's matrix ----------------------------------------------------------------


@device
def _value_at(X, j, row):
    """Value of column j in a row of X: a binary search in a sparse column."""
    low, high, kind, base = all_entries(X, j)
    if kind == DENSE:
        return X.values[base + row]
    end = high
    while low < high:
        middle = (low + high) >> 1
        if X.indices[middle] < row:
            low = middle + 1
        else:
            high = middle
    if low == end or X.indices[low] != row:
        return 0.0
    return entry(X, low, kind, base)[1]


@device
def _product(X, j, k, fit, rh):
    """The thread's part of x_j' diag(h) x_k."""
    low, high, kind, base = all_entries(X, j)
    total = 0.0
    first = max(X.piece_ptr[j, 0], X.piece_ptr[k, 0])
    last = min(X.piece_ptr[j, 1], X.piece_ptr[k, 1])
    q = low + cuda.threadIdx.x
    while q < high:
        row, x = entry(X, q, kind, base)
        x *= _value_at(X, k, row)
        if x != 0.0:
            for b in range(first, last):
                if row >= X.first[b]:
                    total += x * rh[fit, 2 * (row + X.shift[b]) + 1]
        q += cuda.blockDim.x
    return total


@kernel
def multiply_pairs(X, fits, pairs, inverse, loads, is_few, rh, out):
    """Entries of the model's matrix for pairs of columns, a task each.

    Where every group is a bin, those of diag(h), which is the larger matrix.
    """
    scratch = new_scratch()
    t = cuda.blockIdx.x
    while t < fits.shape[0]:
        fit, j, k = fits[t], int64(pairs[t, 0]), int64(pairs[t, 1])
        total = _product(X, j, k, fit, rh)
        b = cuda.threadIdx.x
        while is_few and b < loads.shape[2]:
            total -= loads[fit, j, b] * loads[fit, k, b] * inverse[fit, b]
            b += cuda.blockDim.x
        total = block_sum(total, scratch)
        if cuda.threadIdx.x == 0:
            out[t] = total
        t += cuda.gridDim.x


def pairs_of(columns, sizes):
    """Pairs of columns of each block, row by row of its lower triangle; where in it they are."""
    pairs, places, begin, at = [], [], 0, 0
    for size in sizes:
        row, col = np.tril_indices(size)
        where = columns[begin : begin + size]
        pairs.append(np.column_stack([where[row], where[col]]))
        places.append(np.column_stack([at + row * size + col, at + col * size + row]))
        begin, at = begin + size, at + size * size
    return np.concatenate(pairs), np.concatenate(places)
