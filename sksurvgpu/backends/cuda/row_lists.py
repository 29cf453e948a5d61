"""X by rows: the entries of every row in the order of their columns, made on the device.

Entries are counted by row, listed in any order, and sorted: integers alone decide where they come
to lie, so that lists are the same each time.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64

from ..._compile import bind
from ...data.design.columns import DENSE, SPARSE
from ._cuda import cuda, device, kernel
from .team import FULL, WARP, warp_sum
from .workers import WORKERS

ALONE = 16  # entries of a row that a thread sorts; a warp sorts the longer ones
ENTRIES = 4  # of a row for each of its lanes
PARTS = 1_024  # of the rows, each of which a warp adds up


class RowLists(NamedTuple):
    """Entries of row i of X are those from ``ptr[i]`` to before ``ptr[i + 1]``."""

    ptr: np.ndarray  # int64 (rows of X + 1,)
    column: np.ndarray  # int32, of X
    value: np.ndarray  # float64; empty where every entry is a one
    dense: np.ndarray  # int64: columns of X that are in no list


@kernel
def count_entries(X, lists):
    """Entries of row i into ``ptr[i + 1]``, which is zero."""
    q = cuda.grid(1)
    while q < lists.column.shape[0]:
        cuda.atomic.add(lists.ptr, int64(X.indices[q]) + 1, 1)
        q += cuda.gridsize(1)


@device
def _part(n, worker, workers):
    return int64(n) * worker // workers, int64(n) * (worker + 1) // workers


@kernel
def add_counts(lists, parts):
    """Entries of every part of the rows."""
    part, lane = cuda.grid(1) // WARP, cuda.threadIdx.x % WARP
    while part < parts.shape[0]:
        low, high = _part(lists.ptr.shape[0] - 1, part, parts.shape[0])
        total, i = int64(0), low + lane
        while i < high:
            total += lists.ptr[i + 1]
            i += cuda.warpsize
        total = warp_sum(total)
        if lane == 0:
            parts[part] = total
        part += cuda.gridsize(1) // WARP


@kernel
def start_rows(lists, parts):
    """Where row i begins into ``ptr[i + 1]``, where its number of entries is."""
    part, lane = cuda.grid(1) // WARP, cuda.threadIdx.x % WARP
    while part < parts.shape[0]:
        start, i = int64(0), lane
        while i < part:
            start += parts[i]
            i += cuda.warpsize
        start = warp_sum(start)
        first, high = _part(lists.ptr.shape[0] - 1, part, parts.shape[0])
        while first < high:
            i, step = first + lane, 1
            count = lists.ptr[i + 1] if i < high else int64(0)
            end = count
            while step < WARP:
                before = cuda.shfl_up_sync(FULL, end, step)
                end += before if lane >= step else 0
                step *= 2
            if i < high:
                lists.ptr[i + 1] = start + end - count
            start += cuda.shfl_sync(FULL, end, WARP - 1)
            first += cuda.warpsize
        part += cuda.gridsize(1) // WARP


@device
def _column_of(X, q):
    """The column of X that has the entry at position q."""
    low, high = 0, X.kind.shape[0]
    while high - low > 1:
        middle = (low + high) >> 1
        if X.indptr[middle] <= q:
            low = middle
        else:
            high = middle
    return low


@kernel
def list_entries(X, lists):
    """Append every entry to the list of its row; ``ptr[i + 1]``, where row i begins, moves on."""
    warp, warps = cuda.grid(1) // WARP, cuda.gridsize(1) // WARP
    low, high = _part(lists.column.shape[0], warp, warps)
    q = low + cuda.threadIdx.x % WARP
    c = _column_of(X, q)
    while q < high:
        while X.indptr[c + 1] <= q:
            c += 1
        at = cuda.atomic.add(lists.ptr, int64(X.indices[q]) + 1, 1)
        lists.column[at] = c
        if lists.value.shape[0] > 0:
            is_one = X.kind[c] != SPARSE
            lists.value[at] = 1.0 if is_one else X.values[X.value_ptr[c] + q - X.indptr[c]]
        q += cuda.warpsize


@device
def _put_in_order(lists, i, j):
    if lists.column[i] > lists.column[j]:
        lists.column[i], lists.column[j] = lists.column[j], lists.column[i]
        if lists.value.shape[0] > 0:
            lists.value[i], lists.value[j] = lists.value[j], lists.value[i]


def _sort(lists, start, size):
    """Sort the entries of a row by Batcher's merge exchange (Knuth, volume 3, 5.2.2 M)."""
    top = 1
    while 2 * top < size:
        top *= 2
    p = top
    while p > 0:
        q, r, d = top, 0, p
        while d > 0:
            k = lane()  # noqa: F821 (bound)
            i = 2 * k - (k & (p - 1)) + r  # the k-th number whose bit p is that of r
            while i + d < size:
                _put_in_order(lists, start + i, start + i + d)
                k += lanes()  # noqa: F821 (bound)
                i = 2 * k - (k & (p - 1)) + r
            meet()  # noqa: F821 (bound)
            d, q, r = q - p, q >> 1, p
        p >>= 1


_KINDS = {
    kind: {name: WORKERS[kind][name] for name in ("lane", "lanes", "meet")}
    for kind in ("thread", "warp")
}
_sort_alone, _sort_together = (device(bind(_sort, **names)) for names in _KINDS.values())


@kernel
def sort_rows(lists):
    """Sort every row: its thread a short one, and the warp one long row after the other."""
    lane, n = cuda.threadIdx.x % WARP, lists.ptr.shape[0] - 1
    first = cuda.grid(1) - lane
    while first < n:
        row, start, size = first + lane, int64(0), int64(0)
        if row < n:
            start = lists.ptr[row]
            size = lists.ptr[row + 1] - start
        if size <= ALONE:
            _sort_alone(lists, start, size)
        long = int64(cuda.ballot_sync(FULL, size > ALONE)) & FULL
        while long != 0:
            source = cuda.ffs(long) - 1
            their = cuda.shfl_sync(FULL, start, source), cuda.shfl_sync(FULL, size, source)
            _sort_together(lists, *their)
            long &= long - 1
        first += cuda.gridsize(1)


def lanes_of(lists):
    """Lanes that add up a row, a power of two: a few entries for each, as is good on average."""
    n_rows, n_entries = max(lists.ptr.shape[0] - 1, 1), lists.column.shape[0]
    # more than eight would read less than a memory sector, four rows, of a dense column
    wanted = n_entries / n_rows / ENTRIES + min(lists.dense.shape[0] / ENTRIES, 8)
    return 2 ** int(np.log2(np.clip(wanted, 1, WARP)))


def list_rows(layout, design):
    """Lists of the rows of X, whose columns are on the device."""
    device, n_entries = layout.device, int(design.indptr[-1])
    has_values = (design.kind == SPARSE).any()
    lists = RowLists(
        device.zeros(design.n_rows + 1, np.int64),
        device.empty(n_entries, np.int32),
        device.empty(n_entries if has_values else 0, np.float64),
        device.upload(np.flatnonzero(design.kind == DENSE)),
    )
    parts = device.empty(min(PARTS, -(-design.n_rows // WARP)), np.int64)
    layout.launch_wide(count_entries, n_entries, layout.X, lists)
    for step in add_counts, start_rows:
        layout.launch_wide(step, WARP * len(parts), lists, parts)
    layout.launch_wide(list_entries, n_entries, layout.X, lists)
    layout.launch_wide(sort_rows, design.n_rows, lists)
    return lists
