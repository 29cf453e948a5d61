"""BLAS and LAPACK without the interpreter's lock: SciPy's own wrappers hold it, and chains wait.

The routines are those that SciPy exports to Cython, called by ctypes, which lets go of the lock.
Arrays are float64 in C order and worked on in place; rows to us are columns to them, so that their
upper triangle is our lower one.
"""

from ctypes import CFUNCTYPE, byref, c_char, c_double, c_int, c_void_p

from numba.extending import get_cython_function_address


def _routine(module, name, n_arguments):
    address = get_cython_function_address(f"scipy.linalg.{module}", name)
    return CFUNCTYPE(None, *[c_void_p] * n_arguments)(address)


_dsyrk = _routine("cython_blas", "dsyrk", 10)
_dpotrf = _routine("cython_lapack", "dpotrf", 5)
_dtrtrs = _routine("cython_lapack", "dtrtrs", 10)
_UPPER, _NO, _YES = c_char(b"U"), c_char(b"N"), c_char(b"T")
_ONE, _SINGLE = c_double(1.0), c_int(1)


def add_gram(rows, lower):
    """Add X'X of rows (n, p) to a lower triangle (p, p)."""
    n, p = map(c_int, rows.shape)
    _dsyrk(
        byref(_UPPER),
        byref(_NO),
        byref(p),
        byref(n),
        byref(_ONE),
        rows.ctypes.data,
        byref(p),
        byref(_ONE),
        lower.ctypes.data,
        byref(p),
    )


def factor(matrix):
    """Lower Cholesky factor in the place of a matrix; the first bad leading minor, or 0."""
    order, minor = c_int(len(matrix)), c_int()
    _dpotrf(byref(_UPPER), byref(order), matrix.ctypes.data, byref(order), byref(minor))
    return minor.value


def solve(lower, right, transposed):
    """L^-1 b or L^-T b in the place of b; the first zero on the diagonal, counted from 1, or 0."""
    order, zero = c_int(len(lower)), c_int()
    trans = byref(_NO if transposed else _YES)
    _dtrtrs(
        byref(_UPPER),
        trans,
        byref(_NO),
        byref(order),
        byref(_SINGLE),
        lower.ctypes.data,
        byref(order),
        right.ctypes.data,
        byref(order),
        byref(zero),
    )
    return zero.value
