"""Matrices of quadratic models, M = X' diag(h) X - sum_k l_k l_k' / N_k, as products Q'Q.

With h_ik, the part of h_i that belongs to bin k (`backends.cpu.bins`), and centres c_k = l_k / N_k,

    M = sum_ik h_ik (x_i - c_k)(x_i - c_k)'                               as sum_i h_ik = N_k
      = sum_i h_i (x_i - m_i)(x_i - m_i)' + sum_(k<l) g_kl (c_k - c_l)(c_k - c_l)'

where m_i = sum_k h_ik c_k / h_i is a row's own centre, and g_kl = sum_i h_ik h_il / h_i is 0 where
no row is in both bins, as without time.  These are the rows of Q.  Nothing is subtracted from what
it is nearly equal to, and however Q is rounded, Q'Q has no negative eigenvalues: columns that are
nearly constant within bins lose no more than others, to which a second term would leave no digit.
Rows are computed in double precision and rounded once, to 11 bits, in units in which a column of Q
has the norm `NORM`: half precision then holds the largest entry, and whatever matters beside it.

Products of some rows at a time, by cuBLAS (`linalg.multiply_halves`), are added up in single
precision.  A
matrix becomes correlations by its own diagonal on the host, which knows the true one.  Of every
column there are `tables` of its bins: c_k; what rows that exit in bin k have of the bins before it,
by their w; and of those after it, by their c.  They are in the units of `factor`.
Behind them stand those of h_ik / sqrt(h_i), one a bin, whose products are g.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import int64

from ._cuda import cuda, device, kernel
from .columns import entries, entry

NORM = 2.0**14  # a quarter of what half precision holds: curvatures have rounding errors
TOGETHER = 32  # columns whose entries of a row are written by one thread


class RowChunk(NamedTuple):
    """Rows of X that are multiplied at once, in a piece of time, and tiles that have them."""

    piece: int
    low: int
    end: int
    first_tile: int
    end_tile: int


class ColumnsOfQ(NamedTuple):
    """Columns of Q, and numbers that they are written by."""

    column: np.ndarray  # int64
    factor: np.ndarray  # float64: unit of a column
    tables: np.ndarray  # float64 (columns and bins, bins, 3)
    dense: np.ndarray  # float16 (columns and bins, rows)


@kernel
def tabulate(fit, model, loads, work):
    """Tables of every column, and then of bins, a thread each."""
    a, last, factor, tables = cuda.grid(1), model.last, work.factor, work.tables
    while a < tables.shape[0]:
        own, before, after = a - factor.shape[0], 0.0, 0.0
        for k in range(last.shape[0]):
            if own < 0:
                centre = factor[a] * loads[fit, a, k] * model.inverse[fit, k]
            else:
                centre = NORM * math.sqrt(model.inverse[fit, k]) if own == k else 0.0
            if k > 0 and last[k - 1] != last[k]:
                before = 0.0
            tables[a, k, 0], tables[a, k, 1] = centre, before
            if model.w.shape[1] > 0:
                before = model.decay[fit, k] * before + model.jump[fit, k] * centre
        for k in range(last.shape[0] - 1, -1, -1):
            if last[k] == k:  # the last of its stratum
                after = 0.0
            tables[a, k, 2] = after
            if model.carried.shape[1] > 0:
                after = model.fade[fit, k] * after + model.fall[fit, k] * tables[a, k, 0]
        a += cuda.gridsize(1)


@device
def _read_row(model, fit, i):
    """Bins of exit and entry (or -1) of a row; what it has in tables, by the root of its h; this.

    It has its own part there, all that it has before and after it, and at its entry.
    """
    h, k, enter = float(model.h[fit, i]), int64(model.own[i]), int64(-1)
    own, w, carried, part = h, 0.0, 0.0, 0.0
    if model.w.shape[1] > 0:
        w = model.w[fit, i]
        own -= w * model.base[fit, k]
    if model.carried.shape[1] > 0:
        carried = model.carried[fit, i]
        own -= carried * model.after[fit, k]
    if model.hazard.shape[1] > 0:  # without the time before its entry
        enter = int64(model.enter[i])
        at_entry = model.hazard[fit, model.enter_idx[i]]
        own += w * at_entry
        part = w * (at_entry - model.base[fit, enter])
    root = math.sqrt(max(h, 0.0))
    by = 1.0 / root if root > 0.0 else 0.0
    return k, enter, own * by, w * by, carried * by, part * by, root


@device
def _centre(tables, a, row):
    """The row's root of h times its centre, in a column's units."""
    k, enter, own, w, carried, part, _ = row
    load = own * tables[a, k, 0] + w * tables[a, k, 1] + carried * tables[a, k, 2]
    if enter >= 0:
        load -= part * tables[a, enter, 0] + w * tables[a, enter, 1]
    return load


@device
def _hold(value):
    """As half precision holds it: a curvature that is rounding itself may have been too small."""
    return min(max(value, -2.0 * NORM), 2.0 * NORM)


@kernel
def fill(X, fit, rows, model, work):
    """Write some rows of Q as if all columns were zero there."""
    n_rows, n_columns = rows.end - rows.low, work.tables.shape[0]
    task, parts = cuda.grid(1), (n_columns + TOGETHER - 1) // TOGETHER
    while task < n_rows * parts:
        i, first = task % n_rows, task // n_rows * TOGETHER
        row = _read_row(model, fit, rows.low + i + X.shift[rows.piece])
        for a in range(first, min(first + TOGETHER, n_columns)):
            work.dense[a, i] = _hold(-_centre(work.tables, a, row))
        task += cuda.gridsize(1)


@kernel
def scatter(X, fit, rows, model, work):
    """Write entries of columns over that, a block for each column and tile."""
    task, n_tiles = cuda.blockIdx.x, rows.end_tile - rows.first_tile
    while task < work.column.shape[0] * n_tiles:
        a, tile = task // n_tiles, rows.first_tile + task % n_tiles
        j = work.column[a]
        if X.piece_ptr[j, 0] <= rows.piece and rows.piece < X.piece_ptr[j, 1]:
            span = entries(X, j, tile)
            q = span.low + cuda.threadIdx.x
            while q < span.high:
                i, x = entry(X, q, span)
                if i >= rows.low and i < rows.end:
                    row = _read_row(model, fit, i + X.shift[rows.piece])
                    value = row[6] * x * work.factor[a] - _centre(work.tables, a, row)
                    work.dense[a, i - rows.low] = _hold(value)
                q += cuda.blockDim.x
        task += cuda.gridDim.x


@kernel
def contrast(fit, first, n_pairs, model, overlap, work):
    """Write rows of Q for pairs of bins, from the first on; those of other orders are zero.

    ``overlap`` (bins, bins): g, times `NORM`^2 over the roots of N.
    """
    task, n_bins, tables = cuda.grid(1), model.last.shape[0], work.tables
    while task < n_pairs * work.factor.shape[0]:
        a, i = task // n_pairs, task % n_pairs
        k, other = (first + i) // n_bins, (first + i) % n_bins
        scale, value = model.inverse[fit, k] * model.inverse[fit, other], 0.0
        if k < other and scale > 0.0:
            weight = math.sqrt(max(float(overlap[k, other]), 0.0) / math.sqrt(scale)) / NORM
            value = weight * (tables[a, k, 0] - tables[a, other, 0])
        work.dense[a, i] = _hold(value)
        task += cuda.gridsize(1)
