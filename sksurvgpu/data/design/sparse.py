"""Sparse input as it is given: every index is checked before compiled code follows it.

SciPy and pandas check a sparse object when they make it, not when its arrays are written to later,
and their conversions, like our kernels, believe every index. What passes here stands on the
caller's arrays, but without the flags (sorted, canonical) that the caller's object has cached.
"""

from itertools import chain, pairwise
from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp

NUMBERS = "biuf"


class _MalformedError(ValueError):
    """Fault of an array of a sparse table; who catches it says whose array it is."""


def trusted_matrix(X, name):
    """Return X as a CSC, CSR, BSR, COO or DIA array of our own, after a check of all it holds.

    Arrays are shared where they are native and contiguous. LIL and DOK, which hold Python objects,
    become CSR and COO.
    """
    try:
        if not all(isinstance(count, Integral) and count >= 0 for count in X.shape):
            raise _MalformedError(f"its shape is {X.shape}, must be two positive integers")
        make, values, *index = _READERS[X.format](X)
    except _MalformedError as error:
        raise ValueError(
            f"`{name}` is a malformed {X.format.upper()} matrix: {error}; build it anew from its "
            "values, rows and columns with scipy.sparse.coo_array."
        ) from None
    if values.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: `{name}` has dtype {values.dtype}; pass real numbers."
        )
    if values.dtype.kind not in NUMBERS:
        raise TypeError(f"`{name}` has dtype {values.dtype}; pass numbers: {name}.astype(float).")
    if values.dtype == np.float16:  # which SciPy's conversions do not know
        values = values.astype(np.float32)
    return make((values, *index), shape=X.shape)


def trusted_column(array, n_rows, label, name):
    """Return row numbers, ascending, and float64 values of a sparse column of pandas."""
    try:
        return _pandas_entries(array, n_rows)
    except _MalformedError as error:
        raise ValueError(
            f"`{name}` has a malformed sparse column {label}: {error}; build it anew with "
            "pandas.arrays.SparseArray."
        ) from None


def _read_csc(X):
    n_rows, n_columns = X.shape
    return sp.csc_array, *_compressed(X, n_columns, n_rows)


def _read_csr(X):
    return sp.csr_array, *_compressed(X, *X.shape)


def _read_bsr(X):
    values = _array(X.data, "data", ndim=3)
    block = values.shape[1:]
    if 0 in block or any(count % size for count, size in zip(X.shape, block, strict=True)):
        raise _MalformedError(
            f"`data` has blocks of shape {block}, which do not fill the matrix of shape {X.shape}"
        )
    counts = [count // size for count, size in zip(X.shape, block, strict=True)]
    return sp.bsr_array, *_compressed(X, *counts, ndim=3)


def _compressed(X, n_major, n_minor, ndim=1):
    values = _array(X.data, "data", ndim)
    indices = _integers(X.indices, "indices")
    indptr = _integers(X.indptr, "indptr")
    _check_lengths(indices=indices, data=values)
    if indptr.size != n_major + 1:
        raise _MalformedError(
            f"`indptr` has {indptr.size:,} entries, must have {n_major + 1:,} for shape {X.shape}"
        )
    if indptr[0] != 0:
        raise _MalformedError(f"`indptr[0]` is {indptr[0]}, must be 0")
    is_fall = indptr[1:] < indptr[:-1]  # a difference might overflow
    if is_fall.any():
        k = int(np.argmax(is_fall))
        raise _MalformedError(
            f"`indptr` falls from {indptr[k]} at position {k:,} to {indptr[k + 1]}, must not fall"
        )
    n_stored = int(indptr[-1])
    if n_stored > indices.size:
        raise _MalformedError(
            f"`indptr` ends at {n_stored}, but there are {indices.size:,} entries in `indices`"
        )
    _check_range(indices[:n_stored], n_minor, lambda k: f"`indices[{k}]`")
    return values[:n_stored], indices[:n_stored], indptr


def _read_coo(X):
    if len(X.coords) != 2:
        raise _MalformedError(f"`coords` has {len(X.coords)} arrays, must have 2")
    values = _array(X.data, "data")
    coords = tuple(_integers(X.coords[axis], f"coords[{axis}]") for axis in (0, 1))
    _check_lengths(**{"coords[0]": coords[0], "coords[1]": coords[1], "data": values})
    for axis in (0, 1):
        _check_range(coords[axis], X.shape[axis], lambda k, axis=axis: f"`coords[{axis}][{k}]`")
    return sp.coo_array, values, coords


def _read_dia(X):
    values = _array(X.data, "data", ndim=2)
    offsets = _integers(X.offsets, "offsets")
    _check_lengths(offsets=offsets, data=values)
    n_rows, n_columns = X.shape
    is_outside = (offsets <= -n_rows) | (offsets >= n_columns)
    if is_outside.any():
        k = int(np.argmax(is_outside))
        raise _MalformedError(
            f"`offsets[{k}]` is {offsets[k]}, must be from {1 - n_rows} to {n_columns - 1}"
        )
    if np.unique(offsets).size < offsets.size:
        raise _MalformedError("`offsets` names a diagonal twice")
    return sp.dia_array, values, offsets


def _read_lil(X):
    for label, lists in (("rows", X.rows), ("data", X.data)):
        if _array(lists, label).size != X.shape[0]:
            raise _MalformedError(
                f"`{label}` has {lists.size:,} lists, must have one for each of {X.shape[0]:,} rows"
            )
        for i, entries in enumerate(lists):
            if not isinstance(entries, list):
                raise _MalformedError(
                    f"`{label}[{i}]` is of type {type(entries).__name__}, must be a list"
                )
    sizes = np.fromiter(map(len, X.rows), np.int64, X.shape[0])
    differs = sizes != np.fromiter(map(len, X.data), np.int64, X.shape[0])
    if differs.any():
        i = int(np.argmax(differs))
        raise _MalformedError(
            f"`rows[{i}]` has {sizes[i]:,} entries, `data[{i}]` has {len(X.data[i]):,}"
        )
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    indices = _flat(chain.from_iterable(X.rows), "rows", "iu", Integral)
    values = _flat(chain.from_iterable(X.data), "data", NUMBERS + "c", Real)

    def where(k):
        i = int(np.searchsorted(indptr, k, side="right")) - 1
        return f"`rows[{i}][{k - indptr[i]}]`"

    _check_range(indices, X.shape[1], where)
    return sp.csr_array, values, indices, indptr


def _read_dok(X):
    keys = list(X.keys())
    for key in keys:
        if not (isinstance(key, tuple) and len(key) == 2):
            raise _MalformedError(f"a key is {key!r}, must be a row and a column")
    coords = tuple(_flat((key[axis] for key in keys), "keys", "iu", Integral) for axis in (0, 1))
    for axis in (0, 1):
        _check_range(coords[axis], X.shape[axis], lambda k, axis=axis: f"key {keys[k]}[{axis}]")
    return sp.coo_array, _flat(X.values(), "values", NUMBERS + "c", Real), coords


_READERS = {
    "bsr": _read_bsr,
    "coo": _read_coo,
    "csc": _read_csc,
    "csr": _read_csr,
    "dia": _read_dia,
    "dok": _read_dok,
    "lil": _read_lil,
}


def _pandas_entries(array, n_rows):
    index, values = array.sp_index, _array(array.sp_values, "sp_values")
    if values.dtype.kind not in NUMBERS:
        raise _MalformedError(f"`sp_values` has dtype {values.dtype}, must be numbers")
    if index.length != n_rows:
        raise _MalformedError(f"`sp_index` is for {index.length:,} rows, there are {n_rows:,}")
    if hasattr(index, "blocs"):
        rows = _expand_blocks(index, values.size)
    else:
        rows = _integers(index.indices, "sp_index.indices")
    _check_lengths(**{"sp_index": rows, "sp_values": values})
    _check_range(rows, n_rows, lambda k: f"`sp_index.indices[{k}]`")
    is_step = rows[1:] > rows[:-1]
    if not is_step.all():
        k = int(np.argmin(is_step))
        raise _MalformedError(
            f"`sp_index.indices` has {rows[k + 1]} after {rows[k]}, must be increasing"
        )
    return rows, values.astype(np.float64, copy=False)


def _expand_blocks(index, n_values):
    """Row numbers of a BlockIndex; its own conversion would follow any length."""
    starts, sizes = (
        _integers(getattr(index, part), f"sp_index.{part}").astype(np.int64)
        for part in ("blocs", "blengths")
    )
    if (sizes < 0).any() or sizes.sum() != n_values:
        raise _MalformedError(
            f"`sp_index.blengths` is {sizes.tolist()}, must have the sum {n_values:,} for the "
            "entries of `sp_values`"
        )
    return np.repeat(starts - (np.cumsum(sizes) - sizes), sizes) + np.arange(n_values)


def _array(array, label, ndim=1):
    """Return an array as compiled code reads it, native and contiguous; a copy if it was not."""
    if not isinstance(array, np.ndarray) or np.ma.isMaskedArray(array):
        raise _MalformedError(
            f"`{label}` is of type {type(array).__name__}, must be a NumPy array without a mask"
        )
    if array.ndim != ndim:
        raise _MalformedError(f"`{label}` has shape {array.shape}, must have {ndim} dimension(s)")
    return np.require(np.asarray(array), array.dtype.newbyteorder("="), "CA")


def _integers(array, label):
    array = _array(array, label)
    if array.dtype.kind not in "iu":
        raise _MalformedError(f"`{label}` has dtype {array.dtype}, must be integers")
    return array


def _flat(entries, label, kinds, number):
    """Return Python objects as an array of their common type, which must be one of `kinds`."""
    entries = list(entries)
    if not entries:
        return np.empty(0, dtype=np.int64)
    try:
        array = np.array(entries)
    except (TypeError, ValueError, OverflowError):
        array = np.array(entries, dtype=object)
    if array.ndim != 1 or array.dtype.kind not in kinds:
        wrong = [entry for entry in entries if not isinstance(entry, number)]
        wrong = wrong[0] if wrong else max(entries, key=abs)
        what = "integers of 64 bits" if number is Integral else "real numbers"
        raise _MalformedError(
            f"`{label}` holds {wrong!r} of type {type(wrong).__name__}, must be {what}"
        )
    return array


def _check_lengths(**arrays):
    for (first, one), (second, other) in pairwise(arrays.items()):
        if len(one) != len(other):
            raise _MalformedError(
                f"`{first}` has {len(one):,} entries, `{second}` has {len(other):,}"
            )


def _check_range(indices, stop, where):
    """Check that indices are from 0 to stop - 1; `where` names the entry of a position."""
    # Read as unsigned, what is negative is large: one pass over memory for both bounds.
    unsigned = indices.view(f"u{indices.dtype.itemsize}")
    stop_unsigned = min(stop, np.iinfo(indices.dtype).max + 1)
    if indices.size and unsigned.max() >= stop_unsigned:
        k = int(np.argmax(unsigned >= stop_unsigned))
        raise _MalformedError(f"{where(k)} is {indices[k]}, must be from 0 to {stop - 1}")
