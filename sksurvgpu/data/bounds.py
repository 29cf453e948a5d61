"""Bounds of coefficients, as users give them."""

from collections.abc import Mapping

import numpy as np

from .by_column import by_column

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
            lower[j], upper[j] = (
                _numbers(value, f"{end} of `bounds[{column!r}]`", 1, none)[0]
                for end, value, none in (("lower", low, -np.inf), ("upper", high, np.inf))
            )
    else:
        low, high = _pair(bounds, "bounds", f"{REMEDY}, or a dictionary {{column: (lower, upper)}}")
        lower[:] = _numbers(low, "lower of `bounds`", n_columns, -np.inf)
        upper[:] = _numbers(high, "upper of `bounds`", n_columns, np.inf)
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
