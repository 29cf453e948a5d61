"""Identifiers of rows and covariates, read from columns: int64, or strings as texts."""

import narwhals as nw
import numpy as np
from pandas.api.types import infer_dtype

from .texts import Texts


def is_missing(series: nw.Series) -> np.ndarray:
    """Whether an entry is null or NaN."""
    mask = series.is_null().to_numpy().astype(np.bool_)
    if series.dtype.is_float():
        mask = mask | np.isnan(series.cast(nw.Float64).to_numpy())
    return mask


def read_ids(series: nw.Series, label: str) -> np.ndarray | Texts:
    """Return the identifiers of a column without missing entries, as int64 or as texts.

    Messages call argument and column by `label`.
    """
    dtype = series.dtype
    if dtype in (nw.Int128, nw.UInt128):
        raise TypeError(
            f"{label} has dtype {dtype}; identifiers are integers of at most 64 bits or strings: "
            "cast it to one of them."
        )
    if dtype.is_integer() or dtype.is_float():
        return whole_numbers(series.to_numpy(), label)
    if isinstance(dtype, nw.Categorical | nw.Enum):
        return _of_categories(series, label)
    if dtype == nw.Object and infer_dtype(series.to_numpy()) == "integer":
        return whole_numbers(np.array(series.to_list()), label)
    if series.dtype not in (nw.String, nw.Object):
        raise TypeError(f"{label} has dtype {dtype}; identifiers are integers or strings.")
    return Texts.of(series, label)


def _of_categories(series, label):
    """Identifiers of a categorical column: those that its categories are."""
    native = series.to_native()
    if series.implementation.is_pandas_like():
        used = native.cat.remove_unused_categories().cat
        categories = nw.from_native(used.categories.to_series(), series_only=True)
        return take(read_ids(categories, label), used.codes.to_numpy())
    if series.implementation.is_pyarrow():
        native = native.cast(native.type.value_type)
        return read_ids(nw.from_native(native, series_only=True), label)
    return Texts.of(series.cast(nw.String), label)


def whole_numbers(values, label, what="identifiers"):
    """Return whole numbers of any type as int64."""
    is_float = values.dtype.kind == "f"
    bits = np.finfo(values.dtype).nmant + 1 if is_float else 63
    limit = 2**bits - 1  # beyond, neighbouring floats are one number
    if is_float:
        values, limit = values.astype(np.float64), float(limit)
    is_bad = (values > limit) | (values < -limit)
    if is_float:
        is_bad |= values != np.floor(values)
    if is_bad.any():
        raise ValueError(
            f"{label} has {values[np.argmax(is_bad)]}; {what} are integers that fit into 64 "
            f"bits (as floating point, into {bits if is_float else 53})"
            f"{', or strings' if what == 'identifiers' else ', or dates'}."
        )
    return values.astype(np.int64)


def as_ids(values: np.ndarray) -> np.ndarray | Texts:
    """Identifiers of an array of integers or of strings."""
    return Texts.of(values, "`like`") if values.dtype == object else values


def take(ids, which):
    """Some identifiers (or days), by mask or number."""
    return ids[which] if isinstance(ids, np.ndarray) else ids.take(which)


def id_at(ids, i):
    """One identifier as Python holds it."""
    return ids.text(i) if isinstance(ids, Texts) else int(ids[i])


def listed(ids) -> np.ndarray:
    """Identifiers as an array, of integers or of strings."""
    return ids.listed() if isinstance(ids, Texts) else ids
