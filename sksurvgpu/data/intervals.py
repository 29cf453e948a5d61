"""What all results with intervals share."""

from __future__ import annotations

from numbers import Real

import numpy as np

__all__ = ["check_level", "with_ratios"]


def check_level(level) -> float:
    """Check the coverage that intervals are meant to have."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ValueError(f"`level` is {level!r}, must lie between 0 and 1, such as 0.95.")
    return float(level)


def with_ratios(table, effect):
    """Table with coef, lower and upper, and the same on the scale of a ratio, if it is one."""
    if effect is None:
        return table
    with np.errstate(over="ignore"):
        ratios = np.exp(table[["coef", "lower", "upper"]])
    ratios.columns = [effect, f"{effect}_lower", f"{effect}_upper"]
    return table.join(ratios)
