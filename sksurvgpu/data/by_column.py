"""Names of columns, and arguments that have an entry for each column or name some of them."""

from collections.abc import Mapping
from difflib import get_close_matches

import numpy as np

from .options import is_whole
from .vectors import check_numbers


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


def check_names(names, n_columns) -> np.ndarray:
    """Check that there is a name for each column, as text, and no name twice."""
    names = np.array([str(name) for name in names], dtype=object)
    if len(names) != n_columns:
        raise ValueError(f"`names` has {len(names):,} entries, `X` has {n_columns:,} columns.")
    check_column_names(names, "names")
    return names


def check_penalty_factor(factor, n_columns, names=None) -> np.ndarray:
    """Return the factor of the penalty of every column, shape (n_columns,), float64.

    A mapping gives the factor of some columns by name or position; the others, and all of them with
    None, get 1. A factor of 0 leaves a column unpenalized.
    """
    if factor is None:
        return np.ones(n_columns)
    return check_by_column(factor, "penalty_factor", n_columns, names, default=1.0, minimum=0)


def check_l1_ratio(ratio, n_columns, names=None) -> float | np.ndarray:
    """Return the share of the lasso: a number as it is, else one for every column.

    A mapping gives the ratio of some columns; the others get 1.
    """
    if np.ndim(ratio) == 0 and not isinstance(ratio, Mapping):
        return float(ratio)
    numbers = check_by_column(ratio, "l1_ratio", n_columns, names, default=1.0, minimum=0)
    if (numbers > 1).any():
        j = int(np.argmax(numbers > 1))
        column = f"column {j:,}" if names is None else f"column {names[j]!r}"
        raise ValueError(f"`l1_ratio` of {column} is {numbers[j]:g}, must be at most 1.")
    return numbers


def check_prior_mean(mean, n_columns, names=None) -> np.ndarray | None:
    """Return what the coefficient of every column is pulled to, or None where that is 0.

    A mapping gives the means of some columns; the others get 0.
    """
    if mean is None:
        return None
    numbers = check_by_column(mean, "prior_mean", n_columns, names, default=0.0)
    return numbers if numbers.any() else None


def check_by_column(values, name, n_columns, names=None, *, default, minimum=None) -> np.ndarray:
    """Return a finite number for every column, shape (n_columns,), float64.

    A mapping gives the numbers of some columns by name or position, the others get the default. The
    last word of the argument's `name` is what a number is called.
    """
    values = by_name(values, name, names)
    if not isinstance(values, Mapping):
        numbers = check_numbers(values, name, minimum)
        if numbers.size != n_columns:
            raise ValueError(
                f"`{name}` has {numbers.size:,} entries, `X` has {n_columns:,} columns; pass one "
                f"per column, or a dictionary {{column: {name.rpartition('_')[2]}}}."
            )
        return numbers
    numbers = np.full(n_columns, default)
    bound = "" if minimum is None else f" of at least {minimum:g}"
    for j, (column, value) in by_column(values, name, n_columns, names).items():
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


def by_name(values, argument, names):
    """A dictionary of a Series, or of the lines of a table, by column; others as they are."""
    index = getattr(values, "index", None)
    if names is None or not hasattr(index, "equals") or not set(index) & set(names):
        return values
    if not index.is_unique:
        twice = index[index.duplicated()][0]
        raise ValueError(f"`{argument}` has several entries of column {twice!r}; keep one of them.")
    return dict(zip(index, values.to_numpy().tolist(), strict=True))


def check_time_varying(spec, n_columns, names=None) -> dict[int, np.ndarray]:
    """Return {column position: cut points}; a column's effect changes after each cut.

    `spec` is a mapping {column name or position: increasing positive times} or None.
    """
    if spec is None:
        return {}
    if not isinstance(spec, Mapping):
        raise TypeError(
            f"`time_varying` is of type {type(spec).__name__}; pass a dictionary "
            "{column: cut points}."
        )
    found = by_column(spec, "time_varying", n_columns, names)
    return {j: _cut_points(column, cuts) for j, (column, cuts) in found.items()}


def _cut_points(column, cuts):
    name = f"time_varying[{column!r}]"
    if callable(cuts):
        raise ValueError(
            f"`{name}` is a function; pass the times at which the coefficient changes, as [365.0]. "
            "Columns that change with time are rows of their own, see episodes."
        )
    cuts = check_numbers([cuts] if np.isscalar(cuts) else cuts, name)
    if cuts.size == 0:
        raise ValueError(f"`{name}` is empty; give at least one cut point or leave the column out.")
    if cuts[0] <= 0 or (np.diff(cuts) <= 0).any():
        raise ValueError(
            f"`{name}` is {cuts.tolist()}; cut points must be positive and strictly increasing."
        )
    return cuts


def by_column(mapping, argument, n_columns, names):
    """Return {position: (column as the user named it, value)}; every column known, once."""
    found = {}
    positions = find_columns(mapping, argument, n_columns, names)
    for j, (column, value) in zip(positions, mapping.items(), strict=True):
        if j in found:
            raise ValueError(
                f"`{argument}` names column {j:,} of `X` twice, as {found[j][0]!r} and {column!r}."
            )
        found[j] = (column, value)
    return found


def find_column(column, argument, n_columns, names):
    """Return the position of a column given by name or position; `argument` is what names it."""
    return next(find_columns([column], argument, n_columns, names))


def find_columns(columns, argument, n_columns, names):
    """Yield the position of each column given by name or position; names are read once."""
    places = {}
    for j, name in enumerate(() if names is None else names):
        places[name] = None if name in places else j
    for column in columns:
        if is_whole(column):
            if not 0 <= column < n_columns:
                raise ValueError(
                    f"`{argument}` names column {column}, `X` has columns 0 to {n_columns - 1:,}."
                )
            yield int(column)
            continue
        if not isinstance(column, str):
            raise TypeError(
                f"`{argument}` names a column {column!r} of type {type(column).__name__}; use its "
                "name or position."
            )
        if names is None:
            raise ValueError(
                f"`{argument}` names column {column!r}, but `X` has no column names; use positions "
                "or pass a DataFrame. In a pipeline call set_output(transform='pandas'), so that "
                "its transformers keep names, or wrap those whose output is sparse in NamedColumns."
            )
        if column not in places:
            hint = similar(column, names)
            raise ValueError(f"`{argument}` names column {column!r}, which `X` does not have{hint}")
        if places[column] is None:
            raise ValueError(
                f"`{argument}` names column {column!r}, which `X` has several times; use positions."
            )
        yield places[column]


def similar(name, names) -> str:
    """End of an error that a name is unknown: those that are like it, if any."""
    close = get_close_matches(str(name), dict.fromkeys(map(str, names)), n=3)
    return f"; did you mean {' or '.join(map(repr, close))}?" if close else "."


REMEDY = "(lower, upper), numbers or one a column, with None, -inf or inf for none"


def check_bounds(bounds, n_columns, names=None, mean=None):
    """Return lower and upper bounds of every column, two float64 (n_columns,), or None.

    They are what coefficients may differ by from their means, where there are any. `bounds` are a
    pair of numbers or of arrays with one for each column, or a mapping {column: pair}.
    """
    if bounds is None:
        return None
    lower, upper = np.full(n_columns, -np.inf), np.full(n_columns, np.inf)
    if isinstance(bounds, Mapping):
        for j, (column, pair) in by_column(bounds, "bounds", n_columns, names).items():
            low, high = _pair(pair, f"bounds[{column!r}]", "(lower, upper), two numbers")
            lower[j] = _numbers(low, f"lower of `bounds[{column!r}]`", 1, lower[j])[0]
            upper[j] = _numbers(high, f"upper of `bounds[{column!r}]`", 1, upper[j])[0]
    else:
        low, high = _pair(bounds, "bounds", f"{REMEDY}, or a dictionary {{column: (lower, upper)}}")
        for found, values, end in ((lower, low, "lower"), (upper, high, "upper")):
            given, none = by_name(values, "bounds", names), found[0]
            if isinstance(given, dict):
                given = by_column(given, "bounds", n_columns, names)
                given = [given[j][1] if j in given else none for j in range(n_columns)]
            found[:] = _numbers(given, f"{end} of `bounds`", n_columns, none)
    mean = np.zeros(n_columns) if mean is None else mean
    _check_order(lower, upper, mean, names)
    return lower - mean, upper - mean


def _pair(value, name, remedy):
    if isinstance(value, str) or not hasattr(value, "__len__") or len(value) != 2:
        raise ValueError(f"`{name}` is {value!r}; pass {remedy}.")
    return value


def _numbers(values, name, n_columns, none):
    """Numbers or infinities, one or as many as there are columns; None is no bound, `none`."""
    if values is None:
        return np.full(n_columns, none)
    if isinstance(values, list | tuple):
        values = [none if value is None else value for value in values]
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"the {name} is {values!r}; pass numbers.") from None
    if numbers.ndim and numbers.shape != (n_columns,):
        raise ValueError(
            f"the {name} has shape {numbers.shape}, `X` has {n_columns:,} columns; pass a number "
            "or one per column."
        )
    if np.isnan(numbers).any():
        raise ValueError(f"the {name} has NaN; pass -inf or inf where there is no bound.")
    return np.broadcast_to(numbers, (n_columns,))


def _check_order(lower, upper, mean, names):
    wrong = np.flatnonzero((lower > mean) | (upper < mean))
    if not len(wrong):
        return
    j = int(wrong[0])
    column = f"column {j:,}" if names is None else f"column {names[j]!r}"
    crossed = " and cross" if lower[j] > upper[j] else ""
    raise ValueError(
        f"`bounds` of {column} are ({lower[j]:g}, {upper[j]:g}){crossed}; they must hold "
        f"{mean[j]:g}, where the coefficient rests: pass lower <= {mean[j]:g} <= upper."
    )
