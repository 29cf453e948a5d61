"""Linear algebra of samplers on a device, by CuPy: the only place that imports it.

Its arrays and Numba's share their memory without a copy.  Both libraries queue work on a stream of
their own choice, and order is kept because it is the same one: `open_cupy` checks that.
"""

from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from types import ModuleType

import numpy as np
from scipy.sparse import issparse

from ...exceptions import BackendUnavailableError
from ._cuda import uses_stream_of_threads

_STREAM_OF_THREADS = 2  # CUDA's handle of a thread's own default stream
# Matrices of this order and below are taken all at once however few they are; CuPy's own rule for
# the choice between one batched and many single factorizations.
_BATCHED_ORDER = 256
# Of a dense X: numbers of its rows that are scaled at once, 256 MiB, for so many chains; rows of
# products that are made beside each other, or a multiple of the columns.
_SCALED_NUMBERS, _CHAINS, _ROWS, _MULTIPLE = 1 << 25, 16, 1_024, 8
# Numbers of CUDA's types and of cuBLAS's ways: sums in single precision, by units for matrices.
_HALF, _SINGLE, _SUMS, _UNITS = 2, 0, 68, 99
_SINGULAR = "a matrix of order {:,} is not positive definite"


def has_cupy():
    return find_spec("cupy") is not None


def require_cupy():
    """Say what to install where CuPy is missing."""
    if not has_cupy():
        raise BackendUnavailableError.missing_package("cuda", "cupy", "bayes-cuda12")


@cache
def _import_cupy() -> ModuleType:
    require_cupy()
    import cupy
    import cupyx.scipy.linalg
    import cupyx.scipy.sparse  # noqa: F401

    return cupy


def open_cupy(ordinal: int) -> ModuleType:
    """CuPy, its arrays of the calling thread on the given device."""
    cupy = _import_cupy()
    cupy.cuda.Device(ordinal).use()
    stream = int(cupy.cuda.get_current_stream().ptr)
    wanted = _STREAM_OF_THREADS if uses_stream_of_threads() else 0
    if stream != wanted:
        raise BackendUnavailableError(
            f"CuPy's current stream has the handle {stream} and Numba's {wanted}, so that neither "
            "would wait for the other; sample outside of `with stream`, and set both "
            "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM and NUMBA_CUDA_PER_THREAD_DEFAULT_STREAM or "
            "neither"
        )
    return cupy


@contextmanager
def cupy_on(device):
    """Have CuPy work on a device and on Numba's stream, whatever its current ones are."""
    cuda = _import_cupy().cuda
    stream = cuda.Stream.ptds if uses_stream_of_threads() else cuda.Stream.null
    with cuda.Device(device.ordinal), stream:
        yield


def multiply_halves(sides, n, out, is_first):
    """``left[:, :n] @ right[:, :n].T`` of two sides into `out`, or added to it, within `cupy_on`.

    Arrays are the device's: sides are in half precision, the result and sums in single precision.
    To cuBLAS rows are columns.
    """
    from cupy.cuda.device import get_cublas_handle
    from cupy_backends.cuda.libs import cublas

    left, right = sides
    one, kept = np.ones(1, np.float32), np.full(1, not is_first, np.float32)
    cublas.gemmEx(
        *(get_cublas_handle(), True, False, len(right), len(left), n, one.ctypes.data),
        *(right.address, _HALF, right.shape[1], left.address, _HALF, left.shape[1]),
        *(kept.ctypes.data, out.address, _SINGLE, out.shape[1], _SUMS, _UNITS),
    )


class Linalg:
    """Linear algebra of `backends.cpu.linalg`, for arrays of a device."""

    def __init__(self, device, cupy):
        self._device, self._cupy = device, cupy

    def cholesky(self, stack):
        """Lower factors of symmetric matrices (B, m, m), of which the lower triangle is read."""
        from cupyx import errstate

        n_matrices, order = stack.shape[:2]
        try:
            # By default CuPy does not look at what cuSOLVER reports.
            with errstate(linalg="raise"):
                if _at_once(n_matrices, order):
                    factors = self._cupy.linalg.cholesky(stack)
                else:
                    factors = self._cupy.stack([self._cupy.linalg.cholesky(m) for m in stack])
        except np.linalg.LinAlgError as error:
            raise np.linalg.LinAlgError(_SINGULAR.format(order)) from error
        # That cuSOLVER reports a NaN is nowhere promised.
        if not bool(self._cupy.isfinite(self._diagonals(factors)).all()):
            raise np.linalg.LinAlgError(_SINGULAR.format(order))
        return factors

    def solve_lower(self, factor, right):
        """L^-1 b for factors (B, m, m) and right-hand sides (B, m)."""
        return self._solve(factor, right, "N")

    def solve_upper(self, factor, right):
        """L^-T b for factors (B, m, m) and right-hand sides (B, m)."""
        return self._solve(factor, right, "T")

    def _solve(self, factor, right, trans):
        from cupyx.scipy.linalg import solve_triangular

        right = self._cupy.broadcast_to(right, factor.shape[:2])
        if _at_once(*factor.shape[:2]):
            return solve_triangular(factor, right, trans=trans, lower=True)
        # Rows of a factor are columns to cuBLAS: its transpose is taken without a copy.
        other = "T" if trans == "N" else "N"
        solutions = [
            solve_triangular(one.T, b, trans=other, lower=False)
            for one, b in zip(factor, right, strict=True)
        ]
        return self._cupy.stack(solutions)

    def weighted_gram(self, X, weight):
        """X' diag(w) X of a matrix (n, p), dense or sparse, for weights (B, n) >= 0: (B, p, p)."""
        if hasattr(X, "toarray"):
            return self._cupy.stack([_sparse_gram(X, self._cupy.sqrt(w)) for w in weight])
        (n_rows, n_columns), (rows, chains) = X.shape, _gram_shape(X)
        out = self._cupy.zeros((len(weight), n_columns, n_columns))
        for first in range(0, len(weight), chains):
            some = slice(first, first + chains)
            for low in range(0, n_rows, rows):
                out[some] += _dense_gram(X[low : low + rows], weight[some, low : low + rows])
        return out

    def gram_scratch(self, X):
        """Numbers that `weighted_gram` holds besides its result, for any number of chains."""
        if hasattr(X, "toarray"):
            return 3 * X.nnz  # two copies, of 12 bytes an entry
        rows, chains = _gram_shape(X)
        # scaled rows, and products of some of them; X as the library may copy it
        return (2 * chains + 1) * rows * X.shape[1]

    def log_determinant(self, factor):
        """log|L L'| of lower factors (B, m, m): (B,)."""
        return 2.0 * self._cupy.log(self._diagonals(factor)).sum(axis=1)

    def _diagonals(self, stack):
        return self._cupy.diagonal(stack, axis1=1, axis2=2)

    def product(self, X, vectors):
        """X b of a matrix (n, p), dense or sparse, for vectors (B, p): (B, n)."""
        return (X @ vectors.T).T if hasattr(X, "toarray") else vectors @ X.T


def _sparse_gram(X, root):
    """X' diag(root^2) X; what it needs is free again before that of the next chain."""
    scaled = X.multiply(root[:, None]).tocsr()
    return (scaled.T @ scaled).toarray()


def _gram_shape(X):
    """Rows and chains of which products are made at once."""
    n_rows, n_columns = X.shape
    rows = min(n_rows, max(1, _SCALED_NUMBERS // n_columns))
    return rows, min(_CHAINS, max(1, _SCALED_NUMBERS // (rows * n_columns)))


def _dense_gram(X, weight):
    """X' diag(w) X: products of as many rows each, which fill a device, and of the others."""
    n_rows, n_columns = X.shape
    size = max(_ROWS, _MULTIPLE * n_columns)
    n_parts = n_rows // size
    if n_parts <= 1:
        return X.T @ (weight[:, :, None] * X)
    edge = n_parts * size
    parts = X[:edge].reshape(n_parts, size, n_columns)
    scaled = weight[:, :edge].reshape(len(weight), n_parts, size, 1) * parts
    found = (parts.transpose(0, 2, 1) @ scaled).sum(axis=1)
    return found + _dense_gram(X[edge:], weight[:, edge:]) if edge < n_rows else found


def _at_once(n_matrices, order):
    """Whether a stack is worked on by one call: many small matrices, or one call each of few."""
    return n_matrices * _BATCHED_ORDER**2 >= order**2


def put(cupy, array):
    """Array on the device; sparse matrices by rows."""
    if issparse(array):
        from cupyx.scipy.sparse import csr_matrix

        return csr_matrix(array.tocsr())
    return cupy.ascontiguousarray(cupy.asarray(array))
