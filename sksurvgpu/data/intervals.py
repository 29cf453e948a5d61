"""Tables of estimates with intervals and tests, for all results that have some."""

import numpy as np
from pandas import DataFrame, Index, Series

from .options import number, whole


def check_level(level) -> float:
    """Check the coverage that intervals are meant to have."""
    return number(level, "level", "must lie between 0 and 1, such as 0.95", above=0, below=1)


def tails(level):
    """Shares below the bounds of an interval that leaves as much on either side."""
    return 0.5 * (1.0 - level), 0.5 * (1.0 + level)


def with_ratios(table, effect):
    """Table with coef, lower and upper, and the same on the scale of a ratio, if it is one."""
    if effect is None:
        return table
    with np.errstate(over="ignore"):
        ratios = np.exp(table[["coef", "lower", "upper"]])
    ratios.columns = [effect, f"{effect}_lower", f"{effect}_upper"]
    return table.join(ratios)


def interval_table(coef, standard_errors, level, distribution, names):
    """Table of estimates and their intervals, by feature."""
    half_width = distribution.isf((1.0 - level) / 2.0) * standard_errors
    return DataFrame(
        {"coef": coef, "lower": coef - half_width, "upper": coef + half_width},
        index=Index(names, name="feature"),
    )


def add_tests(table, standard_errors, distribution, statistic="z"):
    """Insert, after the estimates, their standard errors and the tests that they are zero."""
    with np.errstate(divide="ignore", invalid="ignore"):  # a linear model without errors
        values = table["coef"] / standard_errors
    table.insert(1, "standard_error", standard_errors)
    table.insert(2, statistic, values)
    table.insert(3, "p_value", 2.0 * distribution.sf(np.abs(values)))


def format_ratios(table, digits=2):
    """Ratios and their intervals as reports write them: "1.46 (1.13 to 1.90)".

    Parameters
    ----------
    table : DataFrame or result with one
        Its columns are a ratio and, by the same name, ``_lower`` and ``_upper``, as
        ``hazard_ratio`` in the `summary` of intervals and in the table of `fit_outcomes`.
    digits : int, default=2
        Behind the point.

    Returns
    -------
    text : pandas.Series
        By the index of the table; empty where there is no estimate, and of a reference level,
        which has no limits, the ratio alone.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, format_ratios, wald
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 3, density=0.3, random_state=0)
    >>> model = CoxLassoCCD(alpha=0).fit(data.X, data.y)
    >>> format_ratios(wald(model, data.X, data.y))
    feature
    x0    1.04 (0.88 to 1.22)
    x1    0.97 (0.82 to 1.14)
    x2    0.03 (0.02 to 0.04)
    Name: hazard_ratio, dtype: object
    """
    whole(digits, "digits", 0)
    if not isinstance(table, DataFrame):
        table = table.summary() if hasattr(table, "summary") else getattr(table, "table", None)
    columns = [] if table is None else list(table.columns)
    ratio = next((name for name in columns if {f"{name}_lower", f"{name}_upper"} <= {*columns}), "")
    if not ratio:
        raise TypeError(
            "`table` has no ratio with limits, such as 'hazard_ratio', 'hazard_ratio_lower' and "
            "'hazard_ratio_upper'; pass what `wald`, `bootstrap` or `fit_outcomes` return."
        )
    values = table[[ratio, f"{ratio}_lower", f"{ratio}_upper"]].to_numpy(float)
    text = []
    for found, *limits in values:
        low, high = (f"{limit:.{digits}f}" for limit in limits)
        interval = "" if np.isnan(limits).all() else f" ({low} to {high})"
        text.append("" if np.isnan(found) else f"{found:.{digits}f}{interval}")
    return Series(text, table.index, dtype=object, name=ratio)
