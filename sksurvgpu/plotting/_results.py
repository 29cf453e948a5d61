"""Tables of coefficients, read from results with intervals."""

from collections.abc import Mapping
from numbers import Integral

import numpy as np

from ..data.options import is_whole

WANTED = ("coef", "lower", "upper")


def require_columns(table, wanted, name):
    """Refuse a table without the columns that are drawn."""
    missing = [column for column in wanted if column not in getattr(table, "columns", ())]
    if missing:
        raise ValueError(
            f"`{name}` has a table without the column {missing[0]!r}; it needs {', '.join(wanted)}."
        )


def read_several(result):
    """Results by name, of a dictionary of some or of a single one."""
    results = dict(result) if isinstance(result, Mapping) else {"": result}
    if not results:
        raise ValueError("`result` is an empty dictionary; pass one result or more.")
    return results


def read_intervals(result, name="result"):
    """Table of coefficients and bounds of a result, with names as strings."""
    table = getattr(result, "intervals", None)
    if table is None or not all(column in table for column in WANTED):
        raise TypeError(
            f"`{name}` is of type {type(result).__name__}, which has no table `intervals` with "
            "columns coef, lower and upper; pass what bootstrap or profile_likelihood returns."
        )
    table = table[list(WANTED)].astype(np.float64)
    table.index = [str(feature) for feature in table.index]
    return table


def read_beside(results, beside):
    """Table that is written beside the only result: its columns of these names, or one given."""
    if len(results) > 1:
        raise ValueError("`beside` is for one result; of several the numbers would not be told.")
    [result] = results.values()
    if not hasattr(beside, "columns"):
        table = result.summary()
        beside = [beside] if isinstance(beside, str) else list(beside)
        unknown = [name for name in beside if name not in table]
        if unknown:
            raise ValueError(
                f"`beside` has {unknown[0]!r}; the columns of the result's summary are "
                f"{', '.join(map(str, table.columns))}."
            )
        beside = table[beside]
    return beside.set_axis([str(name) for name in beside.index])


def read_coefficients(estimator):
    """Table of a fit's coefficients, what exp(coef) is called, and the level of the bounds.

    Bounds are those of its posterior; NaN, and no level, where it has none.
    """
    summary = estimator.summary()  # refuses what is not fitted
    posterior = getattr(estimator, "posterior_", None)
    if posterior is not None:
        return read_intervals(posterior), effect_of(posterior), posterior.level
    ratios = [name.replace("_", " ") for name in summary.columns if name != "coef"]
    table = summary[["coef"]].assign(lower=np.nan, upper=np.nan)
    return table, ratios[0] if ratios else None, None


def effect_of(result) -> str | None:
    """Name of exp(coef) where it is a ratio: the column of the summary with bounds."""
    columns = set(map(str, result.summary().columns))
    found = [column for column in columns if f"{column}_lower" in columns]
    return found[0].replace("_", " ") if found else None


def choose_rows(names, columns):
    """Positions of coefficients that were asked for by name or by position."""
    if isinstance(columns, str | Integral):
        columns = [columns]
    names, chosen = list(names), []
    for column in columns:
        if is_whole(column):
            if not -len(names) <= column < len(names):
                raise ValueError(
                    f"`columns` has the position {column}, there are {len(names):,} coefficients."
                )
            chosen.append(int(column) % len(names))
        elif str(column) in names:
            chosen.append(names.index(str(column)))
        else:
            raise ValueError(_unknown(str(column), names))
    if not chosen:
        raise ValueError("`columns` is empty; name one column or more, or leave it out.")
    return chosen


def _unknown(column, names):
    from difflib import get_close_matches

    close = get_close_matches(column, names, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f", such as {names[0]!r}."
    return f"`columns` has {column!r}, which is no coefficient of the result{hint}"
