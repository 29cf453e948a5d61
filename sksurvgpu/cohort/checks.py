"""Checks of tables and options that the steps of a study have in common."""

from difflib import get_close_matches

import numpy as np
from pandas.api.types import is_float_dtype

from ..data.vectors import check_flags, check_numbers, check_row_values
from ..tables.ids import whole_numbers


def require_column(table, column, argument, otherwise=", or add it."):
    """Check that a table has a column; `otherwise` ends the message."""
    if column in table.columns:
        return
    close = get_close_matches(str(column), list(map(str, table.columns)), n=3)
    listed = ", ".join(map(repr, close or table.columns))
    raise ValueError(
        f"the table of the cohort has no column {column!r}; name one of its columns ({listed}) by "
        f"{argument}={otherwise}"
    )


def check_bounds(bounds):
    """Return the lower and the upper bound of shares."""
    bounds = check_numbers(bounds, "bounds")
    if bounds.size != 2 or not 0.0 <= bounds[0] < bounds[1] <= 1.0:
        raise ValueError(
            f"`bounds` is {bounds.tolist()}, must be two numbers, the lower and the upper one, "
            "between 0 and 1."
        )
    return bounds.tolist()


def codes_of(table, columns, argument) -> np.ndarray:
    """Number of the combination of entries that each row has in some columns, int64, from 0."""
    columns = [columns] if isinstance(columns, str) else [] if columns is None else list(columns)
    for column in columns:
        require_column(table, column, argument)
        n_missing = int(table[column].isna().sum())
        if n_missing:
            raise ValueError(
                f"`{argument}` names column {column!r}, which is missing in {n_missing:,} row(s); "
                "fill them with a value of their own, or leave them out by Cohort.keep."
            )
    if not columns:
        return np.zeros(len(table), np.int64)
    try:
        groups = table.groupby([table[c] for c in columns], sort=True, observed=True).ngroup()
    except TypeError as error:
        raise TypeError(
            f"`{argument}` names columns whose entries cannot be compared ({error}); name columns "
            "of numbers, text or categories."
        ) from error
    return groups.to_numpy().astype(np.int64)


def check_treatment(treatment, name="treatment") -> np.ndarray:
    """Return who is treated as booleans; both arms must have somebody."""
    is_treated = check_flags(treatment, name, ", 1 for the treated.")
    if is_treated.all() or not is_treated.any():
        who = "no row" if not is_treated.any() else "every row"
        raise ValueError(
            f"`{name}` is 1 in {who} of {is_treated.size:,}, so that there is nobody to compare; "
            "pass persons of both arms."
        )
    return is_treated


def check_scores(score, name="score") -> np.ndarray:
    """Return propensity scores as float64, all finite and between 0 and 1."""
    score = check_row_values(score, name)
    is_wrong = (score < 0.0) | (score > 1.0)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        raise ValueError(
            f"`{name}` is {score[row]:g} in row {row:,}, must lie between 0 and 1; pass "
            "probabilities of treatment, as predict_proba(X)[:, 1] gives them."
        )
    return score


def check_ids(ids, name):
    """Check that identifiers are there, and differ; floating point must not have rounded them."""
    if ids.isna().any():
        raise ValueError(
            f"`{name}` is missing in {int(ids.isna().sum()):,} row(s); number or drop them."
        )
    check_exact(ids, f"`{name}`")
    is_repeated = ids.duplicated()
    if is_repeated.any():
        raise ValueError(
            f"`{name}` has {ids[is_repeated].iloc[0]!s} more than once; pass one line for each "
            "person, or name a column that is different in every line by id=. Of several "
            "periods of observation, sksurvgpu.cohort.observe finds the one that counts."
        )


def check_exact(ids, label):
    """Refuse identifiers that floating point has rounded, as columns with gaps may have them."""
    if is_float_dtype(ids):
        whole_numbers(ids.dropna().to_numpy(), label)
