r"""Blocks of coefficients that move together: what kernels read, and the minimum over one.

With H the block of the quadratic model's matrix, b the coefficients and g their gradient, a block
moves to the minimum over x of ``x'Hx / 2 - z'x + radial(norm(x)) + sum_j within_j abs(x_j)``, where
z = H b + g.  Without `within`, and if the radial penalty is ``level * norm(x)``,

    x = 0 if norm(z) <= level,  else  (H + level / r)^-1 z  with r = norm(x),

and with H = Q d Q', q = Q'z, the norm is the root of ``sum_i (q_i / (d_i r + level))^2 = 1``, whose
left side to the power -1/2 is concave: Newton's steps from r = 0 do not overshoot (Qin, Scheinberg
and Goldfarb, 2013, Mathematical Programming Computation 5).  Else H is majorized by its largest
eigenvalue L: a step takes ``t = L x + z - H x``, thresholds its entries by `within` and shrinks the
norm of what is left to the radial penalty's minimum for one variable (Simon, Friedman, Hastie and
Tibshirani, 2013, JCGS 22).
"""

from collections import namedtuple
from functools import cache
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from .._compile import bind
from .elastic_net import soft_threshold

LONE, UNKNOWN = -1, -2  # in place of where a block's matrix begins: no group; too large for one
LARGEST_BLOCK = 1_000  # columns: beyond, a block is majorized by its trace
MOST_STEPS, SETTLED = 10, 1e-3  # of majorized steps: passes go on; the last move over the first
MOST_ROOTS, CLOSE = 60, 1e-15


class Grouped(NamedTuple):
    """Strengths of columns and the blocks they are in, each array with an entry a column.

    Blocks lie one after the other: that of position i has the columns ``member[i : i + size[i]]``,
    and `size` is 0 where none begins.
    """

    l1: np.ndarray  # of the norm of the column's block, or of a column alone
    l2: np.ndarray
    within: np.ndarray  # l1 of single coefficients in a block
    member: np.ndarray  # int64
    size: np.ndarray  # int64
    at: np.ndarray  # int64: where the block's matrix begins; LONE, UNKNOWN
    eigenvalues: np.ndarray  # of a block, ascending; the largest is a bound where it is UNKNOWN
    matrix: np.ndarray  # of all blocks, row by row
    vectors: np.ndarray  # their eigenvectors, which are columns


# Strengths of columns and their blocks, with the knots and bounds of `folded.Folded`.
GroupedFolded = namedtuple("GroupedFolded", [*Grouped._fields, "flat", "knot", "lower", "upper"])


@njit(error_model="numpy")
def _add_rows(matrix, at, x, out, size):
    """Add x'M to `out`, of a block's matrix: by rows, which the processor adds many at a time."""
    for q in range(size):
        row, scale = matrix[at + q * size : at + (q + 1) * size], x[q]
        if scale != 0.0:
            for s in range(size):
                out[s] += row[s] * scale


@njit(error_model="numpy")
def thresholded_norm(z, c, i):
    """Norm of z when its entries were thresholded by what acts on single coefficients."""
    total = 0.0
    for s in range(c.size[i]):
        total += soft_threshold(z[s], c.within[c.member[i + s]]) ** 2
    return sqrt(total)


@njit(error_model="numpy")
def has_within(c, i):
    """Whether anything acts on single coefficients of a block."""
    largest = 0.0
    for s in range(c.size[i]):
        largest = max(largest, c.within[c.member[i + s]])
    return largest > 0.0


@njit(error_model="numpy")
def norm_of_minimum(q, c, i, level):
    """Root r of ``sum (q / (d r + level))^2 = 1``, where the norm of q exceeds the level."""
    r = 0.0
    for _ in range(MOST_ROOTS):
        total, slope = 0.0, 0.0
        for s in range(c.size[i]):
            d = c.eigenvalues[i + s]
            part = q[s] / (d * r + level)
            total += part * part
            slope += part * part * d / (d * r + level)
        if not slope > 0.0:
            return r
        step = (total * sqrt(total) - total) / slope
        r += step
        if step <= CLOSE * r:
            break
    return r


@njit(error_model="numpy")
def to_minimum(z, x, c, i, work):
    """Move x to the minimum over a block of which only the norm is penalized."""
    size, at, level = c.size[i], c.at[i], c.l1[c.member[i]]
    work[:size] = 0.0
    _add_rows(c.vectors, at, z, work, size)
    r = norm_of_minimum(work, c, i, level)
    for s in range(size):
        work[s] *= r / (c.eigenvalues[i + s] * r + level)
    for s in range(size):
        row, total = c.vectors[at + s * size : at + (s + 1) * size], 0.0
        for q in range(size):
            total += row[q] * work[q]
        x[s] = total


def _shrink(x, c, i, bound, work):
    """Move x to the minimum of the majorized block at t = `work`; the largest change."""
    norm = thresholded_norm(work, c, i)
    r = radial(norm, bound, c, c.member[i])  # noqa: F821 (bound)
    share, largest = r / norm if norm > 0.0 else 0.0, 0.0
    for s in range(c.size[i]):
        new = share * soft_threshold(work[s], c.within[c.member[i + s]])
        largest = max(largest, abs(new - x[s]))
        x[s] = new
    return largest


def _by_steps(z, x, c, i, work):
    """Move x towards the minimum over a block by majorized steps."""
    size, at, first = c.size[i], c.at[i], 0.0
    bound = c.eigenvalues[i + size - 1]
    for count in range(MOST_STEPS):
        work[:size] = 0.0
        _add_rows(c.matrix, at, x, work, size)
        for s in range(size):
            work[s] = bound * x[s] + z[s] - work[s]
        change = shrink(x, c, i, bound, work)  # noqa: F821 (bound)
        first = change if count == 0 else first
        if change <= SETTLED * first:
            break


def _block_minimum(gradient, x, c, i, work):
    """Move x, the block at position i, and overwrite its gradient; what has majorized it, or 0."""
    size, at = c.size[i], c.at[i]
    bound = c.eigenvalues[i + size - 1]
    if at < 0:
        for s in range(size):
            work[s] = bound * x[s] + gradient[s]
        shrink(x, c, i, bound, work)  # noqa: F821 (bound)
        return bound
    _add_rows(c.matrix, at, x, gradient, size)
    if rests(gradient, c, i):  # noqa: F821
        for s in range(size):
            x[s] = 0.0
    elif solves(c, i):  # noqa: F821
        to_minimum(gradient, x, c, i, work)
    else:
        by_steps(gradient, x, c, i, work)  # noqa: F821
        return bound
    return 0.0


@njit(error_model="numpy")
def _rests_by_norm(z, c, i):
    return thresholded_norm(z, c, i) <= c.l1[c.member[i]]


@njit(error_model="numpy")
def _has_root(c, i):
    return not has_within(c, i)


@njit(error_model="numpy")
def _never_rests(z, c, i):
    return False


@njit(error_model="numpy")
def _never_solves(c, i):
    return False


def block_minimum_of(radial, is_norm):
    """The minimum over blocks under a radial penalty's `minimum`; it may be the norm itself."""

    def compiled(template, **formulas):
        bound = bind(template, **formulas)
        # of the radial penalty alone: names of files have an end
        bound.__name__ = bound.__qualname__ = f"{template.__name__}_{radial.__name__}"
        return njit(error_model="numpy")(bound)

    shrink = compiled(_shrink, radial=radial)
    by_steps = compiled(_by_steps, shrink=shrink)
    rests, solves = (_rests_by_norm, _has_root) if is_norm else (_never_rests, _never_solves)
    formulas = {"shrink": shrink, "by_steps": by_steps, "rests": rests, "solves": solves}
    return compiled(_block_minimum, **formulas)


def _move_block(gradient, x, curvature, c, i, work):
    """`_block_minimum` of the block at position i, or of the column that is alone there."""
    if c.at[i] != LONE:
        bound = block(gradient, x, c, i, work)  # noqa: F821 (bound)
        for s in range(c.size[i]):
            x[s] *= curvature[c.member[i + s]] > 0.0  # else eigenvectors leave their rounding
        return bound
    if c.size[i] > 0 and curvature[c.member[i]] > 0.0:
        a = c.member[i]
        z = x[0] * curvature[a] + gradient[0]
        x[0] = minimum(z, curvature[a], c, a)  # noqa: F821
    return 0.0


@cache
def move_block_of(formulas):
    """Step of a block, or of a column alone, which kernels bind."""
    bound = bind(_move_block, block=formulas.block, minimum=formulas.minimum)
    bound.__name__ = bound.__qualname__ = f"_move_block_{formulas.minimum.__name__}"
    return njit(error_model="numpy")(bound)


def arrange(labels):
    """`member`, `size` and `at` of columns with such labels, -1 for columns alone.

    Blocks come where their first columns are.
    """
    n, position = len(labels), np.arange(len(labels))
    first = np.full(int(labels.max(initial=-1)) + 1, n)
    grouped = labels >= 0
    np.minimum.at(first, labels[grouped], position[grouped])
    key = position.copy()
    key[grouped] = first[labels[grouped]]
    member = np.argsort(key, kind="stable")
    start = np.flatnonzero(np.diff(key[member], prepend=-1))
    size, at = np.zeros(n, np.int64), np.full(n, LONE)
    size[start] = np.diff(start, append=n)
    blocks = start[grouped[member[start]]]
    known = blocks[size[blocks] <= LARGEST_BLOCK]
    at[blocks] = UNKNOWN
    at[known] = np.cumsum(size[known] ** 2) - size[known] ** 2
    return member, size, at


def labels_of(c):
    """Number of every column's block, and by block whether it is a group."""
    start = np.flatnonzero(c.size)
    label = np.empty(len(c.member), np.int64)
    label[c.member] = np.repeat(np.arange(len(start)), c.size[start])
    return label, c.at[start] != LONE


def blocks_of_size(c):
    """Sizes of the blocks whose matrices are known; positions of these, and their columns."""
    known = np.flatnonzero((c.size > 0) & (c.at >= 0))
    for size in np.unique(c.size[known]):
        start = known[c.size[known] == size]
        yield size, start, c.member[start[:, None] + np.arange(size)]


def with_matrices(c: Any, blocks, bound):
    """Give columns the matrices of their blocks: `blocks` are (n, size, size), a size each.

    ``bound(columns)`` bounds the eigenvalues of a block that is not known.
    """
    total = int(np.sum(c.size[c.at >= 0] ** 2))
    matrix, vectors, values = np.empty(total), np.empty(total), np.zeros(len(c.member))
    for (size, start, _), block in zip(blocks_of_size(c), blocks, strict=True):
        d, Q = np.linalg.eigh(block)
        inside = c.at[start][:, None] + np.arange(size**2)
        matrix[inside], vectors[inside] = block.reshape(len(d), -1), Q.reshape(len(d), -1)
        values[start[:, None] + np.arange(size)] = np.maximum(d, 0.0)
    for i in np.flatnonzero(c.at == UNKNOWN):
        if c.size[i]:
            last = i + c.size[i]
            values[last - 1] = bound(c.member[i:last])
    return c._replace(matrix=matrix, vectors=vectors, eigenvalues=values)
