"""Curves with intervals: their step functions, and what is shaded around them."""

import numpy as np
from pandas import RangeIndex
from sksurv.functions import StepFunction

__all__ = ["functions_of", "shade"]

INTERVAL, BAND = 0.22, 0.12  # opacity


def functions_of(result, known):
    """Step functions of the rows of a `CurveIntervals` of certain curves, and their names."""
    what = getattr(result, "what", None)
    if what not in known:
        found = f"of type {type(result).__name__}" if what is None else f"of the {what}"
        raise ValueError(
            f"`intervals` is {found}; pass a result of curve_intervals(..., "
            f"what={' or '.join(map(repr, known))})."
        )
    functions = []
    for curve in result.estimate:
        is_known = ~np.isnan(curve)
        functions.append(StepFunction(result.times[is_known], curve[is_known]))
    counted = result.index.equals(RangeIndex(len(result.index)))
    return functions, None if counted else [str(label) for label in result.index]


def shade(ax, lines, result):
    """Shade intervals, and bands more faintly, around lines in their order; what was drawn."""
    drawn = []
    if result is None:
        return drawn
    pairs = [(result.lower, result.upper, INTERVAL)]
    if result.band_lower is not None:
        pairs.append((result.band_lower, result.band_upper, BAND))
    for lower, upper, opacity in pairs:
        for line, low, high in zip(lines, lower, upper, strict=True):
            drawn.append(
                ax.fill_between(
                    result.times,
                    low,
                    high,
                    step="post",
                    color=line.get_color(),
                    alpha=opacity,
                    linewidth=0.0,
                )
            )
    return drawn
