"""Checks of everything but X that a user passes: one entry per row, or per column.

Scalar parameters are declared by the estimators as scikit-learn constraints; here is
what those cannot express.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from numbers import Integral, Real

import narwhals as nw
import numpy as np

__all__ = [
    "check_by_column",
    "check_exposure",
    "check_horizons",
    "check_labels",
    "check_offset",
    "check_penalty_factor",
    "check_row_values",
    "check_sample_weight",
    "check_time_varying",
    "check_weight_by_group",
]


def as_vector(values, name, *, keep_objects=False):
    """Return `values` as a one-dimensional ndarray; missing entries stay visible.

    With `keep_objects` a plain list becomes an object array, because NumPy would turn a
    missing label among strings into the string "nan".
    """
    vector = as_array(values, name, keep_objects=keep_objects)
    if vector.ndim != 1:
        raise ValueError(
            f"`{name}` has shape {vector.shape}, must be one-dimensional; pass a flat array."
        )
    return vector


def as_array(values, name, *, keep_objects=False):
    """Return `values` as an ndarray of any shape; see `as_vector`."""
    check_unmasked(values, name)
    series = nw.from_native(values, allow_series=True, pass_through=True)
    if isinstance(series, nw.Series):
        n_missing = series.null_count()
        if n_missing:
            raise ValueError(
                f"`{name}` has {n_missing:,} missing value(s); drop or fill those rows first."
            )
        return series.to_numpy()
    is_array = hasattr(values, "__array__")
    try:
        return np.asarray(values, dtype=object if keep_objects and not is_array else None)
    except ValueError as error:
        raise ValueError(f"`{name}` must be one-dimensional; its entries are ragged.") from error


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
    if n_rows is not None and vector.size != n_rows:
        raise ValueError(
            f"`{name}` has {vector.size:,} entries, `{other}` has {n_rows:,} "
            f"{'rows' if other == 'X' else 'entries'}; pass one per row."
        )


def check_row_values(values, name, n_rows=None, *, minimum=None) -> np.ndarray:
    """Return one finite number per row as float64, each at least `minimum`."""
    vector = as_vector(values, name)
    check_length(vector, name, n_rows)
    return _finite_numbers(vector, name, minimum, "row", "drop or fill those rows")


def _finite_numbers(vector, name, minimum, place, remedy):
    if vector.dtype.kind == "O":
        _check_none_missing(vector, name)
    if vector.dtype.kind not in "iuf":
        raise TypeError(f"`{name}` has dtype {vector.dtype}; pass numbers.")
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


def _numbers_by_position(values, name, minimum=None):
    vector = as_vector(values, name)
    return _finite_numbers(vector, name, minimum, "position", "give finite numbers")


def _missing(vector):
    from pandas import isna

    return isna(vector)


def _check_none_missing(vector, name):
    n_missing = int(np.count_nonzero(_missing(vector)))
    if n_missing:
        raise ValueError(
            f"`{name}` has {n_missing:,} missing value(s); drop or fill those rows first."
        )


def check_labels(values, name, n_rows=None) -> np.ndarray:
    """Return one group label per row: integers, booleans or unicode strings, none missing."""
    vector = as_vector(values, name, keep_objects=True)
    check_length(vector, name, n_rows)
    if vector.dtype.kind == "T":  # has no direct cast to fixed-width strings
        vector = vector.astype(object)
    if vector.dtype.kind == "f":
        _check_none_missing(vector, name)
    if vector.dtype.kind == "O":
        vector = _from_objects(vector, name, "labels", "pass all integers or all strings")
    if vector.dtype.kind == "S":
        return vector.astype(np.str_)
    # Integers that passed through a float column, while those are exact.
    if vector.dtype.kind == "f" and (vector == np.round(vector.clip(-(2**53), 2**53))).all():
        return vector.astype(np.int64)
    if vector.dtype.kind not in "biuU":
        raise TypeError(f"`{name}` has labels of dtype {vector.dtype}; pass integers or strings.")
    return vector.astype(vector.dtype.newbyteorder("="), copy=False)


def from_objects(vector, name) -> np.ndarray:
    """Return a vector of Python objects, none missing, as numbers, or as strings if it is text."""
    return _from_objects(vector, name, "values", "pass numbers")


def _from_objects(vector, name, noun, remedy):
    if check_comparable(vector, name, noun, remedy) is str:
        return vector.astype(np.str_)
    return np.array(vector.tolist())


def check_comparable(vector, name, noun, remedy):
    """Check that no object is missing and all are text, or all numbers; return `str` or `Real`."""
    _check_none_missing(vector, name)
    kinds = {type(value) for value in vector}
    for kind, accepted in ((str, str), (Real, (Real, np.bool_))):
        if all(issubclass(found, accepted) for found in kinds):
            return kind
    found = ", ".join(sorted(kind.__name__ for kind in kinds))
    raise TypeError(f"`{name}` has {noun} of type {found}; {remedy}.")


def check_sample_weight(sample_weight, n_rows, event=None) -> np.ndarray | None:
    """Return the row weights as float64, or None where every row counts once.

    Parameters
    ----------
    sample_weight : array-like of shape (n_rows,) or None
    n_rows : int
    event : ndarray of shape (n_rows,), bool, optional
        Rows with an event; at least one of them must have a positive weight.
    """
    if sample_weight is None:
        return None
    weight = check_row_values(sample_weight, "sample_weight", n_rows, minimum=0)
    if not weight.any():
        raise ValueError("`sample_weight` is zero in every row; at least one must be positive.")
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not np.isfinite(total):
        raise ValueError("`sample_weight` has an infinite sum; rescale it, e.g. to mean 1.")
    if event is not None and not weight[event].any():
        raise ValueError(
            f"`sample_weight` is zero in all {np.count_nonzero(event):,} rows with an event; at "
            "least one must be positive."
        )
    return None if (weight == 1.0).all() else weight


def check_weight_by_group(weight, group, labels, name) -> None:
    """Check that the rows of a group have one weight.

    Parameters
    ----------
    weight : ndarray of shape (n_rows,) or None
        Sample weights; None weighs all rows alike.
    group : ndarray of shape (n_rows,), int64, or None
        Position of the row's label in `labels`; None where there are no groups.
    labels : ndarray of shape (n_groups,)
    name : str
        What a group is called: "subject", "stratum".
    """
    if weight is None or group is None:
        return
    of_group = np.empty(len(labels))
    of_group[group] = weight
    differs = weight != of_group[group]
    if differs.any():
        row = int(np.argmax(differs))
        label, value = labels[group[row]], of_group[group[row]]
        raise ValueError(
            f"`sample_weight` differs within {name} {label.item()!r}: {weight[row]:g} in row "
            f"{row:,}, {value:g} in another; give all rows of a {name} the same weight."
        )


def check_column_names(labels, name, only_text=False):
    """Check that columns have different names, and strings for names where others are unusable."""
    seen = set()
    for label in labels:
        if label in seen:
            raise ValueError(
                f"`{name}` has several columns named {label!r}; rename or drop all but one."
            )
        seen.add(label)
        if only_text and not isinstance(label, str):
            raise TypeError(
                f"`{name}` has a column named {label!r} of type {type(label).__name__}; names of "
                f"columns are strings: {name}.rename(columns=str)."
            )


def check_horizons(times) -> np.ndarray:
    """Return horizons, one number or several, as increasing times of at least 0."""
    horizons = _numbers_by_position([times] if np.ndim(times) == 0 else times, "times", minimum=0)
    if not horizons.size:
        raise ValueError("`times` is empty; pass one or more horizons.")
    if (np.diff(horizons) <= 0).any():
        place = int(np.argmax(np.diff(horizons) <= 0))
        raise ValueError(
            f"`times` has {horizons[place + 1]:g} after {horizons[place]:g}; pass each horizon "
            "once, in increasing order."
        )
    return horizons


def check_exposure(exposure, n_rows=None, name="exposure") -> np.ndarray | None:
    """Return the exposure of every row as float64, all positive; None stays None."""
    if exposure is None:
        return None
    exposure = check_row_values(exposure, name, n_rows)
    is_positive = exposure > 0
    if not is_positive.all():
        row = int(np.argmin(is_positive))
        raise ValueError(
            f"`{name}` is {exposure[row]:g} in row {row:,}, must be positive; drop rows that were "
            "never observed."
        )
    return exposure


def check_offset(offset, n_rows) -> np.ndarray | None:
    """Return the offset of the linear predictor as float64; None stays None."""
    return None if offset is None else check_row_values(offset, "offset", n_rows)


def check_penalty_factor(factor, n_columns, names=None) -> np.ndarray:
    """Return the factor of the penalty of every column, shape (n_columns,), float64.

    Parameters
    ----------
    factor : array-like of shape (n_columns,), mapping or None
        A mapping gives the factor of some columns by name or position; the others, and
        all of them with None, get 1. A factor of 0 leaves a column unpenalized.
    n_columns : int
    names : ndarray of str or None
    """
    if factor is None:
        return np.ones(n_columns)
    return check_by_column(factor, "penalty_factor", n_columns, names, default=1.0, minimum=0)


def check_by_column(values, name, n_columns, names=None, *, default, minimum=None) -> np.ndarray:
    """Return a finite number for every column, shape (n_columns,), float64.

    Parameters
    ----------
    values : array-like of shape (n_columns,) or mapping
        A mapping gives the numbers of some columns by name or position.
    name : str
        Name of the argument; its last word is what a number is called.
    n_columns : int
    names : ndarray of str or None
    default : float
        Number of the columns that a mapping does not name.
    minimum : float, optional
    """
    if not isinstance(values, Mapping):
        numbers = _numbers_by_position(values, name, minimum)
        if numbers.size != n_columns:
            raise ValueError(
                f"`{name}` has {numbers.size:,} entries, `X` has {n_columns:,} columns; pass one "
                f"per column, or a dictionary {{column: {name.rpartition('_')[2]}}}."
            )
        return numbers
    numbers = np.full(n_columns, default)
    bound = "" if minimum is None else f" of at least {minimum:g}"
    for j, (column, value) in _by_column(values, name, n_columns, names).items():
        number = np.asarray(value)
        if (
            number.ndim
            or number.dtype.kind not in "iuf"
            or not np.isfinite(number)
            or (minimum is not None and number < minimum)
        ):
            raise ValueError(
                f"`{name}` of column {column!r} is {value!r}, must be a finite number{bound}."
            )
        numbers[j] = number
    return numbers


def check_time_varying(spec, n_columns, names=None) -> dict[int, np.ndarray]:
    """Return {column position: cut points}; a column's effect changes after each cut.

    Parameters
    ----------
    spec : mapping {column name or position: increasing positive times} or None
    n_columns : int
    names : ndarray of str or None
    """
    if spec is None:
        return {}
    if not isinstance(spec, Mapping):
        raise TypeError(
            f"`time_varying` is of type {type(spec).__name__}; pass a dictionary "
            "{column: cut points}."
        )
    found = _by_column(spec, "time_varying", n_columns, names)
    return {j: _cut_points(column, cuts) for j, (column, cuts) in found.items()}


def _cut_points(column, cuts):
    name = f"time_varying[{column!r}]"
    cuts = _numbers_by_position([cuts] if np.isscalar(cuts) else cuts, name)
    if cuts.size == 0:
        raise ValueError(f"`{name}` is empty; give at least one cut point or leave the column out.")
    if cuts[0] <= 0 or (np.diff(cuts) <= 0).any():
        raise ValueError(
            f"`{name}` is {cuts.tolist()}; cut points must be positive and strictly increasing."
        )
    return cuts


def _by_column(mapping, argument, n_columns, names):
    """Return {position: (column as the user named it, value)}; every column known, once."""
    found = {}
    for column, value in mapping.items():
        j = _position(column, argument, n_columns, names)
        if j in found:
            raise ValueError(
                f"`{argument}` names column {j:,} of `X` twice, as {found[j][0]!r} and {column!r}."
            )
        found[j] = (column, value)
    return found


def _position(column, argument, n_columns, names):
    if isinstance(column, Integral) and not isinstance(column, bool):
        if 0 <= column < n_columns:
            return int(column)
        raise ValueError(
            f"`{argument}` names column {column}, `X` has columns 0 to {n_columns - 1:,}."
        )
    if not isinstance(column, str):
        raise TypeError(
            f"`{argument}` names a column {column!r} of type {type(column).__name__}; use its "
            "name or position."
        )
    if names is None:
        raise ValueError(
            f"`{argument}` names column {column!r}, but `X` has no column names; use positions "
            "or pass a DataFrame."
        )
    matches = np.flatnonzero(np.asarray(names, dtype=object) == column)
    if matches.size == 1:
        return int(matches[0])
    if matches.size:
        raise ValueError(
            f"`{argument}` names column {column!r}, which `X` has {matches.size} times; use "
            "positions."
        )
    close = get_close_matches(column, list(names), n=3)
    hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else "."
    raise ValueError(f"`{argument}` names column {column!r}, which `X` does not have{hint}")
