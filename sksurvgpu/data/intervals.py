"""Tables of estimates with intervals and tests, for all results that have some."""

from __future__ import annotations

import numpy as np

from .options import number

__all__ = ["add_tests", "check_level", "interval_table", "with_ratios"]


def check_level(level) -> float:
    """Check the coverage that intervals are meant to have."""
    return number(level, "level", "must lie between 0 and 1, such as 0.95", above=0, below=1)


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
    from pandas import DataFrame, Index

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
