"""Vectors of numbers, flags and labels that a user passes, one entry per row."""

from numbers import Real
from typing import Any

import narwhals as nw
import numpy as np
from pandas import Interval, factorize, isna

LARGEST_WHOLE = 2.0**53  # beyond, float64 skips whole numbers
CUDA_DEVICES = (2, 13)  # of DLPack: a device's memory, and managed memory


def to_host(values: Any) -> Any:
    """Copy of a device's array or table in NumPy, SciPy or pandas; others as they are."""
    library = type(values).__module__.partition(".")[0]
    if library in ("cupy", "cupyx") and hasattr(values, "get"):
        return values.get()  # sparse matrices, too
    if library == "cudf" and hasattr(values, "to_pandas"):
        return values.to_pandas()
    if library == "torch" and hasattr(values, "numpy"):
        return values.numpy(force=True)
    if hasattr(values, "copy_to_host"):  # Numba's
        return values.copy_to_host()
    is_on_device = getattr(values, "__dlpack_device__", lambda: (1, 0))
    if is_on_device()[0] in CUDA_DEVICES and not hasattr(values, "__cuda_array_interface__"):
        return np.from_dlpack(values, device="cpu")
    return values


def as_vector(values, name, *, keep_objects=False):
    """Return `values` as a one-dimensional ndarray; missing entries stay visible.

    With `keep_objects` a plain list becomes an object array, because NumPy would turn a
    missing label among strings into the string "nan".
    """
    vector = as_array(values, name, keep_objects=keep_objects)
    if vector.ndim != 1:
        found = f"has shape {vector.shape}" if vector.ndim else f"is {values!r:.40}"
        raise ValueError(f"`{name}` {found}, must be one-dimensional; pass a flat array or column.")
    return vector


def as_array(values, name, *, keep_objects=False):
    """Return `values` as an ndarray of any shape; see `as_vector`."""
    if type(values) is np.ndarray:  # as weights of a thousand replicates are
        return values
    values = to_host(values)
    check_unmasked(values, name)
    series = nw.from_native(values, allow_series=True, pass_through=True)
    if isinstance(series, nw.Series):
        _check_none_missing(series.null_count(), name)
        return series.to_numpy()
    is_array = hasattr(values, "__array__")
    try:
        return np.asarray(values, dtype=object if keep_objects and not is_array else None)
    except ValueError as error:
        raise ValueError(f"`{name}` must be one-dimensional; its entries are ragged.") from error


def in_native_order(values):
    """Values of an array or column in the machine's byte order; FITS files have another one."""
    dtype = values.dtype
    is_swapped = isinstance(dtype, np.dtype) and not dtype.isnative
    return values.astype(dtype.newbyteorder("=")) if is_swapped else values


def check_order(**given) -> None:
    """Refuse pandas objects with the same labels in another order: rows would be mixed up."""
    indices = {name: getattr(value, "index", None) for name, value in given.items()}
    indices = {name: index for name, index in indices.items() if hasattr(index, "equals")}
    for name, index in list(indices.items())[1:]:
        first, other = next(iter(indices.items()))
        is_other = 0 < len(index) == len(other) and not index.equals(other)
        if is_other and _has_labels_of(index, other):
            raise ValueError(
                f"the index of `{name}` has the labels of that of `{first}` in another order, and "
                f"rows are taken as they stand; pass {name}.loc[{first}.index], or, where rows do "
                f"belong together as they stand, {name}.to_numpy()."
            )


def _has_labels_of(index, other):
    try:
        # a look-up, which an index remembers how to do, where sorting takes long every time
        return other[0] in index and index.sort_values().equals(other.sort_values())
    except TypeError:  # labels of several kinds
        return False


def check_unmasked(values, name):
    """Check that no entry of an array is masked; NumPy would read what is below the mask."""
    if np.ma.isMaskedArray(values):
        mask = np.ascontiguousarray(np.ma.getmaskarray(values)).view(np.bool_)  # also of records
        if mask.any():
            raise ValueError(
                f"`{name}` is a masked array with {np.count_nonzero(mask):,} masked (NaN) entries; "
                "impute them or drop those rows."
            )


def check_length(vector, name, n_rows, other="X"):
    """Check that there is an entry for each one of `other`."""
    if n_rows is not None and vector.size != n_rows:
        raise ValueError(
            f"`{name}` has {vector.size:,} entries, `{other}` has {n_rows:,} "
            f"{'rows' if other == 'X' else 'entries'}; pass one per row."
        )


def check_row_values(values, name, n_rows=None, *, minimum=None, other="X") -> np.ndarray:
    """Return one finite number per row as float64, each at least `minimum`."""
    vector = as_vector(values, name)
    check_length(vector, name, n_rows, other)
    return _finite(vector, name, minimum, "row", "drop or fill those rows")


def check_numbers(values, name, minimum=None) -> np.ndarray:
    """Return finite numbers that do not belong to rows as float64, each at least `minimum`."""
    return _finite(as_vector(values, name), name, minimum, "position", "give finite numbers")


def _finite(vector, name, minimum, place, remedy):
    if vector.dtype.kind == "O":
        _check_none_missing(np.count_nonzero(isna(vector)), name)
    if vector.dtype.kind not in "iuf":
        how = ", such as (end - start).dt.days" if vector.dtype.kind in "mM" else ""
        raise TypeError(f"`{name}` has dtype {vector.dtype}; pass numbers{how}.")
    vector = vector.astype(np.float64)
    is_finite = np.isfinite(vector)
    if not is_finite.all():
        first = int(np.argmin(is_finite))
        raise ValueError(
            f"`{name}` has {vector.size - np.count_nonzero(is_finite):,} NaN or infinite "
            f"value(s), the first in {place} {first:,}; {remedy}."
        )
    if minimum is not None and vector.size and vector.min() < minimum:
        first = int(np.argmax(vector < minimum))
        raise ValueError(
            f"`{name}` is {vector[first]:g} in {place} {first:,}, must be at least {minimum:g}."
        )
    return vector


def _check_none_missing(n_missing, name):
    if n_missing:
        raise ValueError(
            f"`{name}` has {n_missing:,} missing value(s); drop or fill those rows first."
        )


def check_flags(values, name, question="") -> np.ndarray:
    """Return booleans, given as such or as 0/1; `question` ends the message of other numbers."""
    vector = numbers_or_flags(values, name)
    if vector.dtype.kind == "b":
        return np.ascontiguousarray(vector)
    if vector.dtype.kind not in "iuf":
        raise TypeError(
            f"`{name}` has dtype {vector.dtype}; pass booleans or 0/1, of labels such as "
            "labels == 'yes'."
        )
    is_flag = (vector == 0) | (vector == 1)
    if not is_flag.all():
        row = int(np.argmin(is_flag))
        end = "; drop or fill such rows." if np.isnan(vector[row]) else question or "."
        raise ValueError(f"`{name}` is {vector[row]} in row {row:,}, must be bool or 0/1{end}")
    return vector.astype(np.bool_)


def check_whole(values, name, meaning) -> np.ndarray:
    """Return whole numbers of at least 0 as int64; `meaning` says what they stand for."""
    vector = numbers_or_flags(values, name)
    if vector.dtype.kind not in "biuf":
        raise TypeError(f"`{name}` has dtype {vector.dtype}; pass {meaning}.")
    is_whole = (vector >= 0) & (vector <= LARGEST_WHOLE)
    if vector.dtype.kind == "f":
        is_whole &= vector == np.floor(vector)
    if not is_whole.all():
        row = int(np.argmin(is_whole))
        raise ValueError(f"`{name}` is {vector[row]} in row {row:,}; pass {meaning}.")
    return vector.astype(np.int64)


def numbers_or_flags(values, name):
    """Return a vector of numbers or booleans, given as such or as objects."""
    vector = as_vector(values, name)
    return from_objects(vector, name) if vector.dtype.kind == "O" else vector


def check_labels(values, name, n_rows=None, *, other="X") -> np.ndarray:
    """Return one group label per row: integers, booleans or unicode strings, none missing."""
    if isinstance(values, str):
        raise ValueError(
            f"`{name}` is the text {values!r}, must be a label for each row; pass the column "
            f"itself, such as table[{values!r}]."
        )
    if getattr(values, "ndim", 1) == 2 and values.shape[1] > 1:
        raise ValueError(
            f"`{name}` has {values.shape[1]} columns, must be one label for each row; join them, "
            "such as table.groupby([...]).ngroup() of pandas."
        )
    vector = as_vector(values, name, keep_objects=True)
    check_length(vector, name, n_rows, other)
    if vector.dtype.kind == "T":  # has no direct cast to fixed-width strings
        vector = vector.astype(object)
    if vector.dtype.kind == "f":
        _check_none_missing(np.count_nonzero(isna(vector)), name)
    if vector.dtype.kind == "O":
        vector = from_objects(vector, name, "labels", "pass all integers or all strings")
    if vector.dtype.kind == "S":
        return vector.astype(np.str_)
    # Integers that passed through a float column, while those are exact.
    if vector.dtype.kind == "f" and (vector == np.round(vector.clip(-(2**53), 2**53))).all():
        return vector.astype(np.int64)
    if vector.dtype.kind not in "biuU":
        raise TypeError(f"`{name}` has labels of dtype {vector.dtype}; pass integers or strings.")
    return np.ascontiguousarray(vector, vector.dtype.newbyteorder("="))


def encode(labels):
    """Return each row's position among the sorted distinct labels, and those labels."""
    codes, distinct = factorize(labels, sort=True)  # hashing: 10 times np.unique
    return codes.astype(np.int64), np.asarray(distinct).astype(labels.dtype)


def from_objects(vector, name, noun="values", remedy="pass numbers") -> np.ndarray:
    """Return a vector of objects, none missing, as numbers, or as strings if text or intervals."""
    if check_comparable(vector, name, noun, remedy) is str:
        return vector.astype(np.str_)
    return np.array(vector.tolist())


def check_comparable(vector, name, noun, remedy):
    """Check that all are text or intervals, or all numbers, none missing; `str` or `Real`."""
    _check_none_missing(np.count_nonzero(isna(vector)), name)
    kinds = {type(value) for value in vector}
    for kind, accepted in ((str, (str, Interval)), (Real, (Real, np.bool_))):
        if all(issubclass(found, accepted) for found in kinds):
            return kind
    found = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(f"`{name}` has {noun} of type {found}; {remedy}.")


def inverse_of(total):
    """1 / total, and 0 where nothing was summed."""
    return np.divide(1.0, total, out=np.zeros(len(total)), where=total > 0)
