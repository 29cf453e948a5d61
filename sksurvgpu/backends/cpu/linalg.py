"""Linear algebra for stacks of chains, by LAPACK: a stack of one is a single call without copies.

Small matrices go to kernels of ours, where a call of LAPACK would take longer than its work.
A lower factor fills the lower triangle of its matrix; what is above is not touched and not read.
"""

import math

import numpy as np
from scipy.sparse import issparse

from ..._compile import kernel
from . import lapack

_CACHED = 1 << 15  # numbers of a block of rows, 256 KiB
_FEWEST_ROWS = 256  # of a block: shorter ones make products of matrices slow
SMALL = 16  # order up to which a matrix is small; the choice never depends on the stack


def cholesky(stack):
    """Lower factors of symmetric matrices (B, m, m), in their place where it is C-ordered."""
    if stack.shape[-1] <= SMALL:
        _require_positive(factor_small(stack), stack)
        return stack
    stack = np.ascontiguousarray(stack)
    for matrix in stack:
        _require_positive(lapack.factor(matrix), stack)
    return stack


def _require_positive(minor, stack):
    if minor:
        raise np.linalg.LinAlgError(
            f"a matrix of order {stack.shape[-1]:,} is not positive definite (leading minor "
            f"{minor:,})"
        )


@kernel
def factor_small(stack):
    """Factor in place; the first leading minor that is not positive, or 0."""
    for matrix in stack:
        for j in range(len(matrix)):
            pivot = matrix[j, j]
            for k in range(j):
                pivot -= matrix[j, k] * matrix[j, k]
            if not 0.0 < pivot < np.inf:
                return j + 1
            root = np.sqrt(pivot)
            matrix[j, j] = root
            for i in range(j + 1, len(matrix)):
                value = matrix[i, j]
                for k in range(j):
                    value -= matrix[i, k] * matrix[j, k]
                matrix[i, j] = value / root
    return 0


@kernel
def solve_small(stack, transposed, out):
    """Solve in place of the right-hand sides `out` (B, m)."""
    for b in range(len(stack)):
        matrix, value = stack[b], out[b]
        if transposed:
            for i in range(len(value) - 1, -1, -1):
                value[i] /= matrix[i, i]
                for k in range(i):
                    value[k] -= matrix[i, k] * value[i]
        else:
            for i in range(len(value)):
                for k in range(i):
                    value[i] -= matrix[i, k] * value[k]
                value[i] /= matrix[i, i]


def log_determinant(factor):
    """log|L L'| of lower factors (B, m, m): (B,)."""
    return 2.0 * np.log(np.einsum("bii->bi", factor)).sum(axis=1)


def product(X, vectors):
    """X b of a matrix (n, p), dense or sparse, for vectors (B, p): (B, n)."""
    return (X @ vectors.T).T if issparse(X) else vectors @ X.T


def solve_lower(factor, right):
    """L^-1 b for factors (B, m, m) and right-hand sides (B, m)."""
    return _solve(factor, right, False)


def solve_upper(factor, right):
    """L^-T b for factors (B, m, m) and right-hand sides (B, m)."""
    return _solve(factor, right, True)


def _solve(factor, right, transposed):
    out = np.empty(factor.shape[:2])
    out[:] = right
    if factor.shape[-1] <= SMALL:
        solve_small(factor, transposed, out)
        return out
    for matrix, vector in zip(np.ascontiguousarray(factor), out, strict=True):
        zero = lapack.solve(matrix, vector, transposed)
        if zero:
            raise np.linalg.LinAlgError(f"a triangular factor has a zero in row {zero:,}")
    return out


def weighted_gram(X, weight):
    """X' diag(w) X of a matrix (n, p), dense or by rows, for weights (B, n) >= 0: (B, p, p)."""
    if not issparse(X) and X.size <= SMALL**2:
        return np.matmul(X.T * weight[:, None, :], X)
    out = np.zeros((len(weight), X.shape[1], X.shape[1]))
    for target, w in zip(out, weight, strict=True):
        if issparse(X):
            _add_row_pairs(X.indptr, X.indices, X.data, w, target)
        else:
            _add_scaled_rows(X, w, target)
    return out + np.tril(out, -1).swapaxes(1, 2)


def _add_scaled_rows(X, weight, lower):
    """Add to the lower triangle, by blocks of rows that stay in cache between scaling and use."""
    n_rows = max(_FEWEST_ROWS, _CACHED // X.shape[1])
    block = np.empty((min(n_rows, len(X)), X.shape[1]))
    for first in range(0, len(X), n_rows):
        scaled = block[: len(X) - first]
        _scale_rows(X, weight, first, scaled)
        lapack.add_gram(scaled, lower)


@kernel
def _scale_rows(X, weight, first, out):
    for i in range(out.shape[0]):
        scale = math.sqrt(weight[first + i])
        for j in range(X.shape[1]):
            out[i, j] = scale * X[first + i, j]


@kernel
def _add_row_pairs(indptr, indices, data, weight, lower):
    """A row with r entries costs r (r + 1) / 2 sums."""
    for i in range(len(weight)):
        for s in range(indptr[i], indptr[i + 1]):
            a, value = indices[s], weight[i] * data[s]
            for t in range(indptr[i], s + 1):
                b = indices[t]
                lower[max(a, b), min(a, b)] += value * data[t]
