"""Checks of what a user passes beside X and y, one entry per row, and of horizons.

Scalar parameters are declared by the estimators as scikit-learn constraints; here is
what those cannot express.
"""

import numpy as np

from .vectors import check_numbers, check_row_values

__all__ = [
    "check_exposure",
    "check_horizons",
    "check_offset",
    "check_positive",
    "check_sample_weight",
    "check_weight_by_group",
]


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


def check_horizons(times) -> np.ndarray:
    """Return horizons, one number or several, as increasing times of at least 0."""
    horizons = check_numbers([times] if np.ndim(times) == 0 else times, "times", minimum=0)
    if not horizons.size:
        raise ValueError("`times` is empty; pass one or more horizons.")
    if (np.diff(horizons) <= 0).any():
        place = int(np.argmax(np.diff(horizons) <= 0))
        raise ValueError(
            f"`times` has {horizons[place + 1]:g} after {horizons[place]:g}; pass each horizon "
            "once, in increasing order."
        )
    return horizons


def check_exposure(exposure, n_rows) -> np.ndarray | None:
    """Return the exposure of every row as float64, all positive; None stays None."""
    return None if exposure is None else check_positive(exposure, "exposure", n_rows)


def check_positive(values, name, n_rows, other="X") -> np.ndarray:
    """Return one positive number per row as float64."""
    vector = check_row_values(values, name, n_rows, other=other)
    is_positive = vector > 0
    if not is_positive.all():
        row = int(np.argmin(is_positive))
        raise ValueError(
            f"`{name}` is {vector[row]:g} in row {row:,}, must be positive; drop rows that were "
            "never observed."
        )
    return vector


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
        j = position_of(column, argument, n_columns, names)
        if j in found:
            raise ValueError(
                f"`{argument}` names column {j:,} of `X` twice, as {found[j][0]!r} and {column!r}."
            )
        found[j] = (column, value)
    return found


def position_of(column, argument, n_columns, names):
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
