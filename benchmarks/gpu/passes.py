"""Passes over tiles, as a device would make them: what an engine on it has to be built from.

Rows lie in tiles with 16-bit numbers (`data.design.tiles`), uploaded as they are.  Ways beside each
other: a tile's numbers gathered from shared memory or from the L2 cache; predictors by columns,
which meet at a barrier each, or by rows, from a second copy of X.  The package's own matrix stands
beside them.  Results are compared with NumPy's, and with the CPU's.
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numba import float64

from sksurvgpu.backends import choose
from sksurvgpu.backends.cpu.session import Session as CpuSession
from sksurvgpu.backends.cpu.threads import Threads
from sksurvgpu.backends.cuda._cuda import cuda, device, kernel
from sksurvgpu.backends.cuda.kept import layout_of
from sksurvgpu.backends.cuda.layout import Layout
from sksurvgpu.backends.cuda.linalg import has_cupy
from sksurvgpu.backends.cuda.session import Session
from sksurvgpu.backends.cuda.team import WARP, warp_size, warp_sum
from sksurvgpu.data.design.tiles import tiles_of

from . import problems
from .ceilings import median_seconds
from .day import Part

PROBLEM = "cox 1e6 x 1000"
THREADS = 1_024
FEWER = 4  # times fewer rows, where NumPy has to sort them
SPARE = 0.2  # of the columns, those whose coefficients move


class Passes(Part):
    """Parts of an engine over tiles, one by one."""

    table = "us:.1f | ns a one=ns:.4f | error=off:.1e"

    def jobs(self, sizes):
        """One process: the design is drawn once."""
        sources = ("shared memory", "shared memory in pairs", "L2")
        rows = ("8192 rows", "16384 rows")
        gradients = [f"gradient, {where}, {n}" for n in rows for where in sources]
        predictors = [f"predictor, columns, {n}" for n in rows]
        return [(*gradients, *predictors, "predictor, rows", "matrix")]

    def measure(self, item, sizes):
        device = choose("cuda").device
        _, n, p = problems.read_name(PROBLEM, sizes)
        design = problems.draw_design(n, p)[0]
        what, _, rest = item.partition(", ")
        if what == "matrix":
            return time_matrix(device, problems.problem_of(PROBLEM, sizes), sizes)
        if rest == "rows":
            fewer = problems.draw_design(max(n // FEWER, 60), p)[0]
            return predict_by_rows(device, fewer, sizes)
        where, _, rows = rest.removesuffix(" rows").rpartition(", ")
        tiles = Tiles(device, design, int(rows), sizes)
        return tiles.predictor() if what == "predictor" else tiles.gradient(where)


# -- kernels ----------------------------------------------------------------------------------


@device
def load(u, low, shared, n):
    """The block's part of a vector to its shared memory."""
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        shared[i] = u[low + i]
    cuda.syncthreads()


@device
def ones_of(tiles, t, j):
    """Where the rows of a column's ones in a tile begin and end."""
    first_index, indptr = tiles[1], tiles[2]
    return first_index[t] + indptr[t, j], first_index[t] + indptr[t, j + 1]


@device
def place_of(parts):
    """A block's tile, and a warp's first column and step; blocks share the columns of a tile."""
    warps = cuda.blockDim.x // WARP
    t, part = cuda.blockIdx.x // parts, cuda.blockIdx.x % parts
    return t, part * warps + cuda.threadIdx.x // WARP, parts * warps


@device
def sum_ones(u, indices, begin, end):
    """Sum of u over a column's ones, by a warp."""
    q, total = begin + cuda.threadIdx.x % WARP, 0.0
    while q < end:
        total += u[indices[q]]
        q += warp_size()
    return warp_sum(total)


@device
def sum_pairs(u, indices, pairs, begin, end):
    """Sum of u over a column's ones, two a load; `pairs` are the 16-bit indices, two in each."""
    lane, one, two = cuda.threadIdx.x % WARP, 0.0, 0.0
    if lane == 0 and begin & 1 and begin < end:
        one = u[indices[begin]]
    if lane == 1 and end & 1 and (end - 1 > begin or not begin & 1) and begin < end:
        one = u[indices[end - 1]]
    q = (begin + 1) // 2 + lane
    while q < end // 2:
        one += u[pairs[q] & 0xFFFF]
        two += u[pairs[q] >> 16]
        q += warp_size()
    return warp_sum(one + two)


@kernel
def dot_from_shared(u, tiles, parts, out):
    """Sums of u over the ones of a column and tile, by warps; a block has a tile's u, and some
    columns."""
    shared = cuda.shared.array(0, float64)
    t, j, step = place_of(parts)
    load(u, tiles[0][t], shared, tiles[0][t + 1] - tiles[0][t])
    while j < out.shape[1]:
        begin, end = ones_of(tiles, t, j)
        total = sum_ones(shared, tiles[3], begin, end)
        if cuda.threadIdx.x % WARP == 0:
            out[t, j] = total
        j += step


@kernel
def dot_pairs_from_shared(u, tiles, pairs, parts, out):
    """Sums of u over the ones of a column and tile, by warps that load two numbers at once."""
    shared = cuda.shared.array(0, float64)
    t, j, step = place_of(parts)
    load(u, tiles[0][t], shared, tiles[0][t + 1] - tiles[0][t])
    while j < out.shape[1]:
        begin, end = ones_of(tiles, t, j)
        total = sum_pairs(shared, tiles[3], pairs, begin, end)
        if cuda.threadIdx.x % WARP == 0:
            out[t, j] = total
        j += step


@kernel
def dot_from_cache(u, tiles, parts, out):
    """Sums of u over the ones of a column and tile, by warps; u stays in global memory."""
    t, j, step = place_of(parts)
    while j < out.shape[1]:
        begin, end = ones_of(tiles, t, j)
        total = sum_ones(u[tiles[0][t] :], tiles[3], begin, end)
        if cuda.threadIdx.x % WARP == 0:
            out[t, j] = total
        j += step


@kernel
def add_tiles(sums, out):
    """Sums of tiles, in their order."""
    j, total = cuda.grid(1), 0.0
    if j < out.shape[0]:
        for t in range(sums.shape[0]):
            total += sums[t, j]
        out[j] = total


@kernel
def predict_by_columns(delta, moved, tiles, out):
    """X delta of a tile, a block; its rows in shared memory, columns one after the other."""
    starts, indices, t = tiles[0], tiles[3], cuda.blockIdx.x
    shared = cuda.shared.array(0, float64)
    low, n = starts[t], starts[t + 1] - starts[t]
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        shared[i] = 0.0
    cuda.syncthreads()
    for k in range(moved.shape[0]):
        begin, end = ones_of(tiles, t, moved[k])
        q = begin + cuda.threadIdx.x
        while q < end:
            shared[indices[q]] += delta[moved[k]]
            q += cuda.blockDim.x
        cuda.syncthreads()
    for i in range(cuda.threadIdx.x, n, cuda.blockDim.x):
        out[low + i] = shared[i]


@kernel
def predict_slices(delta, begins, columns, out):
    """X delta by rows: a warp has 32 of them, whose k-th columns lie side by side."""
    shared = cuda.shared.array(0, float64)
    load(delta, 0, shared, delta.shape[0])
    lane, warps = cuda.threadIdx.x % WARP, cuda.blockDim.x // WARP
    s = cuda.blockIdx.x * warps + cuda.threadIdx.x // WARP
    while s < begins.shape[0] - 1:
        q, total = begins[s] + lane, 0.0
        while q < begins[s + 1]:
            total += shared[columns[q]]
            q += warp_size()
        if s * WARP + lane < out.shape[0]:
            out[s * WARP + lane] = total
        s += warps * cuda.gridDim.x


# -- what they take ---------------------------------------------------------------------------


class Tiles:
    """A design's tiles on a device, and the same product by NumPy."""

    def __init__(self, device, design, rows, sizes):
        self.device, self.design, self.sizes = device, design, sizes
        rows = min(rows, max(design.n_rows // 2, 1)) if design.n_rows < rows else rows
        cut = tiles_of(design, np.arange(design.n_rows), size=rows, n_threads=problems.n_cores())
        self.cut, self.shared_bytes = cut, 8 * rows
        self.tiles = upload_tiles(device, cut)
        even = np.zeros(2 * (len(cut.indices) // 2 + 1), np.uint16)
        even[: len(cut.indices)] = cut.indices
        self.pairs = device.upload(even.view(np.uint32))
        self.threads = max(sizes.threads, WARP) if sizes.threads < 64 else THREADS

    def gradient(self, where):
        device, n_tiles = self.device, self.cut.n_tiles
        u = np.random.default_rng(1).normal(size=self.design.n_rows)
        sums = device.zeros((n_tiles, self.design.n_columns), np.float64)
        out = device.zeros(self.design.n_columns, np.float64)
        per_block = 1 if self.shared_bytes > 2**16 else 3
        parts = max(-(-per_block * device.n_multiprocessors // n_tiles), 1)
        pairs = (self.pairs,) if where.endswith("pairs") else ()
        arguments = (device.upload(u), self.tiles, *pairs, parts, sums)
        function, shared = {
            "shared memory": (dot_from_shared, self.shared_bytes),
            "shared memory in pairs": (dot_pairs_from_shared, self.shared_bytes),
            "L2": (dot_from_cache, 0),
        }[where]

        def run():
            device.launch(function, n_tiles * parts, self.threads, arguments, shared)
            device.launch(add_tiles, -(-out.shape[0] // 256), 256, (sums, out))

        expected = np.add.reduceat(u[self.design.indices], self.design.indptr[:-1])
        return timed(device, run, out, expected, len(self.cut.indices), self.sizes)

    def predictor(self):
        device, p = self.device, self.design.n_columns
        rng = np.random.default_rng(2)
        moved = np.sort(rng.permutation(p)[: max(int(SPARE * p), 1)]).astype(np.int32)
        delta = np.zeros(p)
        delta[moved] = rng.normal(size=len(moved))
        out = device.zeros(self.design.n_rows, np.float64)
        given = device.upload(delta), device.upload(moved), self.tiles, out

        def run():
            device.launch(
                predict_by_columns, self.cut.n_tiles, self.threads, given, self.shared_bytes
            )

        n = int(np.diff(self.design.indptr)[moved].sum())
        return timed(device, run, out, self.design.dot(delta), n, self.sizes)


def upload_tiles(device, cut):
    arrays = cut.starts, cut.first_index, cut.indptr, cut.indices
    return tuple(map(device.upload, arrays))


def timed(device, run, out, expected, n, sizes):
    """Time on the device of one run among many, and the largest relative error."""
    times = 20 if sizes.repeats > 1 else 1

    def several():
        for _ in range(times):
            run()

    seconds = median_seconds(several, lambda: device.download(out), sizes.repeats) / times
    error = float(np.abs(device.download(out) - expected).max() / np.abs(expected).max())
    return {"us": 1e6 * seconds, "ns": 1e9 * seconds / n, "off": error, "passed": error < 1e-9}


def predict_by_rows(device, design, sizes):
    """All columns of every row, sorted in slices of 32 rows; delta in shared memory."""
    from scipy.sparse import csc_array

    n, p = design.n_rows, design.n_columns
    ones = np.ones(len(design.indices), np.int8)
    X = csc_array((ones, design.indices, design.indptr), shape=(n, p)).tocsr()
    counts = np.zeros(-(-n // WARP) * WARP, np.int64)
    counts[:n] = np.diff(X.indptr)
    widths = counts.reshape(-1, WARP).max(axis=1)
    begins = np.concatenate([[0], np.cumsum(widths * WARP)])
    row = np.repeat(np.arange(n), counts[:n])
    within = np.arange(X.nnz) - np.repeat(X.indptr[:-1], counts[:n])
    columns = np.full(begins[-1], p, np.uint16)  # where delta is 0
    columns[begins[row // WARP] + within * WARP + row % WARP] = X.indices
    delta = np.append(np.random.default_rng(2).normal(size=p), 0.0)
    out = device.zeros(n, np.float64)
    given = device.upload(delta), device.upload(begins), device.upload(columns), out
    blocks = 8 * device.n_multiprocessors

    def run():
        device.launch(predict_slices, blocks, sizes.threads, given, 8 * len(delta))

    return timed(device, run, out, X @ delta[:-1], X.nnz, sizes)


def time_matrix(device, problem, sizes, few=50):
    """The model's matrix over all columns, from rows on the device to numbers on the host."""
    if not has_cupy():
        return {"not_run": "cupy not found"}
    p, fits = problem.n_columns, np.zeros(1, np.int32)
    layout, one = layout_of(Layout, device, problem), CpuSession(problem, None, None, Threads(1))
    session = Session(layout, problem, None, None, 1, np.dtype(float))
    session.start(fits, [np.zeros(p)])
    one.start(np.zeros(p))
    seconds = median_seconds(
        partial(session.matrix, fits, [np.arange(p)], [0]), lambda: None, sizes.repeats
    )
    some = np.arange(min(p, few))
    [found], expected = session.matrix(fits, [some], [0]), one.matrix(some, 0)
    root = np.sqrt(np.diagonal(expected))
    error = float(np.abs((found - expected) / np.outer(root, root)).max())
    return {"us": 1e6 * seconds, "off": error, "passed": error < 1e-3}
