"""X by rows: the entries of every row in the order of their columns, made on the device.

Entries are counted by row, listed in any order, and sorted: integers alone decide where they come
to lie, so that lists are the same each time.
"""

from typing import NamedTuple

import numpy as np
from numba import int64

from ...data.design.columns import DENSE, SPARSE
from ...data.design.tiles import LARGEST
from ._cuda import cuda, device, kernel
from .team import WARP

BLOCKS = 8  # of a multiprocessor, that count
ENTRIES = 4  # of a row for each of its lanes


class RowLists(NamedTuple):
    """Entries of row i of X are those from ``ptr[i]`` to before ``ptr[i + 1]``."""

    ptr: np.ndarray  # int64 (rows of X + 1,)
    column: np.ndarray  # uint16, or int32 where columns are too many: of X
    value: np.ndarray  # float64; empty where every entry is a one
    dense: np.ndarray  # int64: columns of X that are in no list


@kernel
def count_entries(X, lists):
    """Entries of row i into ``ptr[i + 1]``, which is zero."""
    n_tiles, last = X.cut.shape[0] - 1, X.ptr.shape[1] - 1
    tile, step = cuda.blockIdx.x % n_tiles, cuda.gridDim.x // n_tiles * cuda.blockDim.x
    q = X.ptr[tile, 0] + cuda.blockIdx.x // n_tiles * cuda.blockDim.x + cuda.threadIdx.x
    while q < X.ptr[tile, last]:
        cuda.atomic.add(lists.ptr, X.cut[tile] + int64(X.indices[q]) + 1, 1)
        q += step


@kernel
def list_entries(X, lists):
    """Append every entry to the list of its row; ``ptr[i + 1]``, where row i begins, moves on."""
    task, n_tiles, has_values = cuda.grid(1) // WARP, X.cut.shape[0] - 1, lists.value.shape[0] > 0
    while task < n_tiles * X.kind.shape[0]:
        tile, c = task % n_tiles, task // n_tiles
        q = X.ptr[tile, c] + cuda.threadIdx.x % WARP
        shift = X.value_ptr[tile, c] - X.ptr[tile, c] if has_values else int64(0)
        while q < X.ptr[tile, c + 1]:
            at = cuda.atomic.add(lists.ptr, X.cut[tile] + int64(X.indices[q]) + 1, 1)
            lists.column[at] = c
            if has_values:
                lists.value[at] = X.values[q + shift] if X.kind[c] == SPARSE else 1.0
            q += cuda.warpsize
        task += cuda.gridsize(1) // WARP


@device
def _put_in_order(lists, i, j):
    if lists.column[i] > lists.column[j]:
        lists.column[i], lists.column[j] = lists.column[j], lists.column[i]
        if lists.value.shape[0] > 0:
            lists.value[i], lists.value[j] = lists.value[j], lists.value[i]


@kernel
def sort_rows(lists):
    """Sort every row by Batcher's merge exchange (Knuth, volume 3, 5.2.2 M), a warp a row."""
    row = cuda.grid(1) // WARP
    while row < lists.ptr.shape[0] - 1:
        start, top = lists.ptr[row], 1
        size = lists.ptr[row + 1] - start
        while 2 * top < size:
            top *= 2
        p = top if size > 1 else 0
        while p > 0:
            q, r, d = top, 0, p
            while d > 0:
                k = cuda.threadIdx.x % WARP
                i = 2 * k - (k & (p - 1)) + r  # the k-th number whose bit p is that of r
                while i + d < size:
                    _put_in_order(lists, start + i, start + i + d)
                    k += cuda.warpsize
                    i = 2 * k - (k & (p - 1)) + r
                cuda.syncwarp()  # the next exchanges take what these have left
                d, q, r = q - p, q >> 1, p
            p >>= 1
        row += cuda.gridsize(1) // WARP


def lanes_of(lists):
    """Lanes that add up a row, a power of two: a few entries for each, as is good on average."""
    n_rows, n_entries = max(lists.ptr.shape[0] - 1, 1), lists.column.shape[0]
    # more than eight would read less than a memory sector, four rows, of a dense column
    wanted = n_entries / n_rows / ENTRIES + min(lists.dense.shape[0] / ENTRIES, 8)
    return 2 ** int(np.log2(np.clip(wanted, 1, WARP)))


def list_rows(layout, design):
    """Lists of the rows of X, whose columns are on the device."""
    device, n_entries, n_tiles = layout.device, int(design.indptr[-1]), len(layout.cut) - 1
    number = np.uint16 if design.n_columns <= LARGEST else np.int32
    has_values = (design.kind == SPARSE).any()
    lists = RowLists(
        device.zeros(design.n_rows + 1, np.int64),
        device.empty(n_entries, number),
        device.empty(n_entries if has_values else 0, np.float64),
        device.upload(np.flatnonzero(design.kind == DENSE)),
    )
    blocks = n_tiles * -(-BLOCKS * device.n_multiprocessors // n_tiles)
    device.launch(count_entries, blocks, layout.threads, (layout.X, lists))
    ends = np.cumsum(device.download(lists.ptr))
    device.write(lists.ptr[1:], ends[:-1])
    layout.launch_wide(list_entries, WARP * n_tiles * design.n_columns, layout.X, lists)
    layout.launch_wide(sort_rows, WARP * design.n_rows, lists)
    return lists
