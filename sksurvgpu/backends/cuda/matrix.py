"""Gram matrices of quadratic models, X' diag(h) X - sum_k l_k l_k' / N_k, that stay on the device.

Kept are correlations, m_ab / sqrt(m_aa m_bb), in single precision: their rounding is free of units.

Sparse columns are added up by rows, from ``q_ia = rint(x_ia sqrt(h_i) t_a)`` with t_a such that
``sum_i q_ia^2`` is 2^30 but for rounding. Q'Q is exact in 32-bit integers: the same in any order
of atomics, and without negative eigenvalues. It is scaled back to the known diagonal of X' diag(h)
X, which takes out what rounding does to a column as a whole. A block adds the pairs of a range of
rows to one tile of the matrix, in shared memory or in place. Dense columns, and those that change
over time, are multiplied with all others one by one, in double precision.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import float64, int32, int64

from ._cuda import cuda, device, kernel
from .columns import entries, entry
from .team import FULL, WARP, warp_sum

LARGEST = 2.0**15  # square root of the largest sum of squares of integers
BITS, LABELS = 12, 4096  # of an entry's place in a tile, in one number with its integer
LOADS = 16  # columns along a tile of the second term, and bins of it at once


class WorkingSets(NamedTuple):
    """Working columns of the fits served, those of one fit after the other."""

    fits: np.ndarray  # int32
    ptr: np.ndarray  # int64 per fit served + 1
    known: np.ndarray  # int64 per fit served: columns whose rows are there
    column: np.ndarray  # int64
    scale: np.ndarray  # float64: t, or 0 of a column that is not added up by rows
    root: np.ndarray  # float64: square root of the curvature
    place: np.ndarray  # int32 (fits served, columns of X): position of what is, or -1


@device
def _store(held, sets, t, a, b, value):
    """An element and its mirror image, as a correlation."""
    low, fit = sets.ptr[t], sets.fits[t]
    size = sets.root[low + a] * sets.root[low + b]
    value = min(max(value / size, -1.0), 1.0) if size > 0.0 else 0.0
    held[fit, a, b] = value
    held[fit, b, a] = value


# -- sparse columns, by rows -------------------------------------------------------------------


@kernel
def clear(sets, counts):
    """Zero the rows that are to be added up, and their mirror image: empty columns get no more."""
    for t in range(sets.fits.shape[0]):
        size = sets.ptr[t + 1] - sets.ptr[t]
        k = cuda.grid(1)
        while k < (size - sets.known[t]) * size:
            a, b = sets.known[t] + k // size, k % size
            counts[sets.fits[t], a, b] = 0
            counts[sets.fits[t], b, a] = 0
            k += cuda.gridsize(1)


@device
def _root_curvature(X, h, fit, row):
    """Square root of the sum of h over the copies of a row."""
    total = 0.0
    for b in range(X.first.shape[0]):
        if row >= X.first[b]:
            total += h[fit, row + X.shift[b]]
    return math.sqrt(max(total, 0.0))


@device
def _append(lists, at, is_member, item):
    """Append the items of members to a warp's list that ends at `at`; its new end."""
    votes = cuda.ballot_sync(FULL, is_member)
    if is_member:
        lists[at + cuda.popc(votes & ((1 << (cuda.threadIdx.x % WARP)) - 1))] = item
    return at + cuda.popc(votes)


@device
def _list_row(lists, rows, row, root, sets, t, task, side):
    """A warp's lists of a row's entries in the rows and columns of a tile; the ends of both."""
    lane, first = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP * 2 * side
    end_of_rows, end_of_columns = first, first + side
    q, end = rows.ptr[row], rows.ptr[row + 1]
    while q < end:
        label, number = int64(-1), int64(0)
        if q + lane < end:
            label = int64(sets.place[t, rows.column[q + lane]])
        if label >= 0:
            x = root * (rows.value[q + lane] if rows.value.shape[0] > 0 else 1.0)
            number = int64(math.floor(x * sets.scale[sets.ptr[t] + label] + 0.5))
        above, beside = label - task[1], label - task[2]
        is_row = number != 0 and above >= 0 and above < side
        is_column = number != 0 and beside >= 0 and beside < side
        end_of_rows = _append(lists, end_of_rows, is_row, number * LABELS + above)
        end_of_columns = _append(lists, end_of_columns, is_column, number * LABELS + beside)
        q += cuda.warpsize
    return end_of_rows, end_of_columns


@device
def _add_row(lists, ends, side, task, fit, tile, counts):
    """Add the products of a row's entries, pairs being spread over the lanes of a warp."""
    lane, first = cuda.threadIdx.x % WARP, cuda.threadIdx.x // WARP * 2 * side
    shift = 0  # so many times the lanes are halved, each part having a row of the tile
    while shift < 5 and (ends[1] - first - side) << (shift + 1) <= WARP:
        shift += 1
    width = WARP >> shift
    a = first + lane // width
    while a < ends[0]:
        i, u = lists[a] & (LABELS - 1), lists[a] >> BITS
        b = first + side + lane % width
        while b < ends[1]:
            j, v = lists[b] & (LABELS - 1), lists[b] >> BITS
            if task[1] + i >= task[2] + j:
                if tile >= 0:
                    cuda.atomic.add(lists, tile + i * side + j, int32(u * v))
                else:
                    cuda.atomic.add(counts, (fit, task[1] + i, task[2] + j), int32(u * v))
            b += width
        a += WARP // width


@kernel
def add_pairs(X, rows, sets, tasks, h, side, tile, counts):
    """Add Q'Q of a task: fit served, first row and column of its tile, range of rows of X.

    The tile begins at ``shared[tile]``, or (-1) is that of `counts`.
    """
    shared = cuda.shared.array(0, int32)
    warp, warps = cuda.threadIdx.x // WARP, cuda.blockDim.x // WARP
    k = cuda.blockIdx.x
    while k < tasks.shape[0]:
        task = tasks[k]
        t, fit = task[0], sets.fits[task[0]]
        e = cuda.threadIdx.x
        while tile >= 0 and e < side * side:
            shared[tile + e] = 0
            e += cuda.blockDim.x
        cuda.syncthreads()
        row = task[3] + warp
        while row < task[4]:
            root = _root_curvature(X, h, fit, row)
            ends = _list_row(shared, rows, row, root, sets, t, task, side)
            cuda.syncwarp()
            _add_row(shared, ends, side, task, fit, tile, counts)
            row += warps  # the votes on the next row's entries come before its lists
        cuda.syncthreads()
        e = cuda.threadIdx.x
        while tile >= 0 and e < side * side:
            if shared[tile + e] != 0:
                at = fit, task[1] + e // side, task[2] + e % side
                cuda.atomic.add(counts, at, shared[tile + e])
            e += cuda.blockDim.x
        k += cuda.gridDim.x


@kernel
def find_scales(sets, counts, scales):
    """Factors that scale the new columns of Q back to those of X; 0 for columns that it lacks."""
    for t in range(sets.fits.shape[0]):
        fit, low = sets.fits[t], sets.ptr[t]
        a = sets.known[t] + cuda.grid(1)
        while a < sets.ptr[t + 1] - low:
            square = counts[fit, a, a] * sets.scale[low + a] * sets.scale[low + a]
            scales[fit, a] = LARGEST / math.sqrt(square) if square > 0.0 else 0.0
            a += cuda.gridsize(1)


@kernel
def finish(sets, inverse, loads, counts, scales, held):
    """Correlations of sparse columns from Q'Q, tile by tile, in `counts` and `held` at once."""
    left, right = cuda.shared.array((16, 17), float64), cuda.shared.array((16, 17), float64)
    x, y, n_bins = cuda.threadIdx.x // LOADS, cuda.threadIdx.x % LOADS, inverse.shape[1]
    for t in range(sets.fits.shape[0]):
        fit, low, known = sets.fits[t], sets.ptr[t], sets.known[t]
        size = sets.ptr[t + 1] - low
        across, k = (size + LOADS - 1) // LOADS, cuda.blockIdx.x
        while k < across * ((size - known + LOADS - 1) // LOADS):
            top, beside = known + k // across * LOADS, k % across * LOADS
            a, b, start, total = top + x, beside + y, 0, 0.0
            row, column = min(a, size - 1), min(beside + x, size - 1)
            while start < n_bins and beside < top + LOADS:
                at = min(start + y, n_bins - 1)
                weight = inverse[fit, at] if start + y < n_bins else 0.0
                left[x, y] = weight * loads[fit, row, at]
                right[x, y] = loads[fit, column, at]
                cuda.syncthreads()
                for m in range(LOADS):
                    total += left[x, m] * right[y, m]
                cuda.syncthreads()
                start += LOADS
            if b < a and a < size and scales[fit, a] * scales[fit, b] > 0.0:
                value = counts[fit, a, b] * scales[fit, a] * scales[fit, b]
                _store(held, sets, t, a, b, value - total)
            k += cuda.gridDim.x


# -- other columns, one by one -----------------------------------------------------------------


@device
def _spread(X, j, piece, r, h, fit, values):
    """x h of the rows of a range, in a piece of time."""
    i = cuda.threadIdx.x
    while i < X.cut[r + 1] - X.cut[r]:
        values[i] = 0.0
        i += cuda.blockDim.x
    cuda.syncthreads()
    low, high, kind, base = entries(X, j, r, r + 1)
    q = low + cuda.threadIdx.x
    while q < high:
        row, x = entry(X, q, kind, base)
        if row >= X.first[piece]:
            values[row - X.cut[r]] = x * h[fit, row + X.shift[piece]]
        q += cuda.blockDim.x
    cuda.syncthreads()


@device
def _dot(X, j, piece, r, values):
    """A lane's part of the product of a column and the values of a range's rows."""
    total = 0.0
    if X.piece_ptr[j, 0] <= piece and piece < X.piece_ptr[j, 1]:
        low, high, kind, base = entries(X, j, r, r + 1)
        q = low + cuda.threadIdx.x % WARP
        while q < high:
            row, x = entry(X, q, kind, base)
            total += x * values[row - X.cut[r]]
            q += cuda.warpsize
    return total


@kernel
def multiply(X, sets, tasks, others, model, loads, parts, n_values, held):
    """Correlations of a task's column: fit served, position, and those of others, a part of a list.

    A block's rows of `parts` have `n_values` numbers of rows, if there is no shared memory for
    them, and a sum for every other column.
    """
    shared, own = cuda.shared.array(0, float64), parts[cuda.blockIdx.x]
    values, sums = own[:n_values], own[n_values:]
    if n_values == 0:
        values = shared[:]
    warp, warps, lane = cuda.threadIdx.x // WARP, cuda.blockDim.x // WARP, cuda.threadIdx.x % WARP
    k = cuda.blockIdx.x
    while k < tasks.shape[0]:
        t, a, first, end = tasks[k, 0], tasks[k, 1], tasks[k, 2], tasks[k, 3]
        fit, column = sets.fits[t], sets.column[sets.ptr[t] :]
        j, is_first = column[a], True
        for piece in range(X.piece_ptr[j, 0], X.piece_ptr[j, 1]):
            for r in range(X.cut.shape[0] - 1):
                _spread(X, j, piece, r, model.h, fit, values)
                o = first + warp
                while o < end:
                    total = warp_sum(_dot(X, column[others[o]], piece, r, values))
                    if lane == 0:
                        sums[o - first] = total + (0.0 if is_first else sums[o - first])
                    o += warps
                cuda.syncthreads()
                is_first = False
        o = first + warp
        while o < end:
            b, total, i = others[o], 0.0, lane
            while i < model.inverse.shape[1]:
                weighted = loads[fit, a, i] * model.inverse[fit, i]
                total += weighted * loads[fit, b, i]
                i += cuda.warpsize
            total = warp_sum(total)
            if lane == 0:
                _store(held, sets, t, a, b, sums[o - first] - total)
            o += warps
        k += cuda.gridDim.x


@kernel
def move(sizes, held, scales, loads, new_held, new_scales, new_loads):
    """Copy matrices into larger memory, and what is kept for their columns."""
    for fit in range(sizes.shape[0]):
        k = cuda.grid(1)
        while k < sizes[fit] * sizes[fit]:
            a, b = k // sizes[fit], k % sizes[fit]
            new_held[fit, a, b] = held[fit, a, b]
            if b == 0:
                new_scales[fit, a] = scales[fit, a]
                for m in range(loads.shape[2]):
                    new_loads[fit, a, m] = loads[fit, a, m]
            k += cuda.gridsize(1)
