"""Gram matrices X'diag(w)X of a tall X with few columns, for the weights of all chains at once.

Rows are cut into ranges.  A block adds up one tile of one chain's Gram matrix over one range: it
brings a chunk of rows into shared memory, each thread holds a small square of the tile in
registers, and the next kernel adds the ranges in their order.  Ranges depend on the number of rows
alone, so that a chain's sums are the same beside any others.
"""

import numpy as np
from numba import float64

from ._cuda import cuda, device, kernel

MOST_COLUMNS = 128  # beyond, products of libraries are as fast
SIDE = 16  # threads along a tile, each of which has a square of
SQUARE = 4
CHUNK = 16  # rows in shared memory
LEAST_ROWS, MOST_RANGES = 1_024, 256  # of a range; two ranges for each of today's multiprocessors
CHAINS_AT_ONCE = 16  # bounds the memory of parts: 128 MiB for 64 columns
THREADS = 256


@device
def _tile_of(pair):
    """Numbers of the lower tile's rows and columns, counted along rows of tiles."""
    below = 0
    while (below + 1) * (below + 2) // 2 <= pair:
        below += 1
    return below, pair - below * (below + 1) // 2


@device
def _load(X, scale, start, end, first, tile, out):
    """Columns of a tile in a chunk of rows, times `scale` if there is one; 0 beyond the ends."""
    q = cuda.threadIdx.x
    while q < CHUNK * tile:
        row, column = start + q // tile, first + q % tile
        value = 0.0
        if row < end and column < X.shape[1]:
            value = X[row, column] * (scale[row] if scale.shape[0] > 0 else 1.0)
        out[q // tile, q % tile] = value
        q += cuda.blockDim.x


@device
def _add_chunk(left, right, i, j, side, sums):
    for k in range(CHUNK):
        for a in range(SQUARE):
            for b in range(SQUARE):
                sums[a, b] += left[k, i + a * side] * right[k, j + b * side]


@kernel
def add_products(X, weight, side, n_rows, parts):
    """``parts`` (n_ranges, n_chains, p, p): lower tiles of every range's Gram matrices.

    A block's threads are a square of `side` x `side`; thread (i, j) has the entries (i, j),
    (i, j + side), ... of the tile.
    """
    left = cuda.shared.array((16, 64), float64)  # CHUNK, SIDE * SQUARE
    right = cuda.shared.array((16, 64), float64)
    n_columns, n_chains, tile = X.shape[1], weight.shape[0], side * SQUARE
    across = (n_columns + tile - 1) // tile
    n_pairs = across * (across + 1) // 2
    chain = cuda.blockIdx.x // n_pairs % n_chains
    part = cuda.blockIdx.x // n_pairs // n_chains
    below, beside = _tile_of(cuda.blockIdx.x % n_pairs)
    i, j = cuda.threadIdx.x // side, cuda.threadIdx.x % side
    sums = cuda.local.array((4, 4), float64)  # SQUARE
    for a in range(SQUARE):
        for b in range(SQUARE):
            sums[a, b] = 0.0
    start, end = part * n_rows, min((part + 1) * n_rows, X.shape[0])
    while start < end:
        _load(X, weight[chain], start, end, below * tile, tile, left)
        _load(X, weight[chain, :0], start, end, beside * tile, tile, right)
        cuda.syncthreads()
        _add_chunk(left, right, i, j, side, sums)
        cuda.syncthreads()
        start += CHUNK
    for a in range(SQUARE):
        for b in range(SQUARE):
            row, column = below * tile + i + a * side, beside * tile + j + b * side
            if max(row, column) < n_columns:
                parts[part, chain, row, column] = sums[a, b]


@kernel
def add_parts(parts, out):
    """Both triangles of the Gram matrices, from the lower triangles of all ranges."""
    p = out.shape[1]
    t = cuda.grid(1)
    while t < out.size:
        chain, i, j = t // (p * p), t // p % p, t % p
        if j <= i:
            total = 0.0
            for part in range(parts.shape[0]):
                total += parts[part, chain, i, j]
            out[chain, i, j] = out[chain, j, i] = total
        t += cuda.gridsize(1)


def _cut(n):
    """Rows of a range, and how many ranges there are."""
    n_rows = max(LEAST_ROWS, -(-n // MOST_RANGES))
    return n_rows, -(-n // n_rows)


def scratch(n, p):
    """Numbers that hold the sums of ranges."""
    return _cut(n)[1] * CHAINS_AT_ONCE * p * p


def weighted_gram(device, X, weight, empty):
    """X'diag(w)X of a dense X (n, p) for weights (B, n): (B, p, p); `empty` makes arrays."""
    (n, p), n_chains = X.shape, weight.shape[0]
    n_rows, n_ranges = _cut(n)
    across = -(-p // (SIDE * SQUARE))
    out = empty((n_chains, p, p))
    for start in range(0, n_chains, CHAINS_AT_ONCE):
        some = slice(start, start + CHAINS_AT_ONCE)
        weights, grams = weight[some], out[some]
        parts = empty((n_ranges, len(weights), p, p))
        blocks = n_ranges * len(weights) * (across * (across + 1) // 2)
        given = [device.share(array) for array in (X, weights, parts, grams)]
        arguments = *given[:2], np.int32(SIDE), n_rows, given[2]
        device.launch(add_products, blocks, SIDE * SIDE, arguments)
        device.launch(add_parts, -(-grams.size // THREADS), THREADS, given[2:])
    return out
