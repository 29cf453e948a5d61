"""Arrays that a problem may do without (None): reads give a substitute, writes do nothing.

The type decides at compile time, so a missing array costs neither memory nor a test.  A kernel is
compiled anew for every combination, and alternatives lost: with empty arrays and tests, evaluations
over risk sets took 14 times as long, as Numba then counts references to all arrays of a row's call;
with one weight that is read for all rows, 1.25 times.
"""

from numba import types
from numba.extending import overload

from ..._compile import PART


def read(array, k, missing):
    """``array[k]``; `missing` where there is none."""


def write(array, k, x):
    """``array[k] = x``."""


def add(array, k, x):
    """``array[k] += x``."""


def fill(array, x):
    """``array[:] = x``."""


def row_weight(weight, i):
    """Case weight of row i; 1 where there are none."""


def _is_missing(array):
    return isinstance(array, types.NoneType)


@overload(read, jit_options=PART)
def _read(array, k, missing):
    if _is_missing(array):
        return lambda array, k, missing: missing
    return lambda array, k, missing: array[k]


@overload(write, jit_options=PART)
def _write(array, k, x):
    if _is_missing(array):
        return lambda array, k, x: None

    def assign(array, k, x):
        array[k] = x

    return assign


@overload(add, jit_options=PART)
def _add(array, k, x):
    if _is_missing(array):
        return lambda array, k, x: None

    def increase(array, k, x):
        array[k] += x

    return increase


@overload(fill, jit_options=PART)
def _fill(array, x):
    if _is_missing(array):
        return lambda array, x: None

    def assign(array, x):
        array[:] = x

    return assign


@overload(row_weight, jit_options=PART)
def _row_weight(weight, i):
    if _is_missing(weight):
        return lambda weight, i: 1.0
    return lambda weight, i: weight[i]
