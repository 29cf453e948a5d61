"""Levels of a categorical column, which are known by their text."""

from numbers import Real

import narwhals as nw
import numpy as np
from pandas import factorize

from . import options
from .by_column import check_column_names
from .vectors import in_native_order


def read_levels(column: nw.Series, label: str, is_complete: bool) -> tuple[np.ndarray, list[str]]:
    """Code of each row's level, -1 where it is missing, and the texts of levels in their order."""
    has_order = not (column.implementation.is_polars() and column.dtype == nw.Categorical)
    native = column.to_native()  # which, of Arrow, keeps categories
    column = native.to_pandas() if hasattr(native, "to_pandas") else column.to_pandas()
    if hasattr(column, "cat"):
        codes, levels = column.cat.codes.to_numpy(), column.cat.categories.tolist()
    else:
        has_order = False
        try:
            codes, levels = factorize(in_native_order(column))
        except TypeError as error:
            raise TypeError(f"`X` column {label!r} has no levels ({error}); drop it.") from error
        levels = levels.tolist()
        _check_kinds(codes, levels, label)
    if is_complete and codes.min() < 0:
        raise ValueError(
            f"`X` column {label!r} has {np.count_nonzero(codes < 0):,} missing value(s), the first "
            f"in row {int(np.argmin(codes)):,}; fill them, or set `missing`."
        )
    texts = [level_text(level) for level in levels]
    check_column_names([f"{label}={text}" for text in texts], "X")
    if has_order:
        return codes, texts
    order = sorted(range(len(levels)), key=levels.__getitem__)
    return np.append(np.argsort(order), -1)[codes], [texts[k] for k in order]


def _check_kinds(codes, levels, label):
    """Check that levels are of one kind that may be known by its text."""
    kinds = [_kind(level) for level in levels]
    wrong = next((k for k, kind in enumerate(kinds) if kind is None or kind != kinds[0]), None)
    if wrong is not None:
        raise TypeError(
            f"`X` column {label!r} has {levels[wrong]!r} in row {int(np.argmax(codes == wrong)):,}"
            f"{f' beside {levels[0]!r}' * (wrong > 0)}; levels are all text, all whole numbers or "
            "all flags: cast the column, or cut numbers into classes (pandas.cut)."
        )


def _kind(level):
    if isinstance(level, str):
        return str
    if options.is_flag(level):
        return bool
    return int if isinstance(level, Real) and float(level).is_integer() else None


def level_text(level):
    """Text that a level is known by; columns with missing entries have made floats of integers."""
    return str(int(level)) if isinstance(level, float) and level.is_integer() else str(level)
