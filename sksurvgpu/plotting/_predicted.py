"""Predicted curves with their intervals, as displays draw them."""

import numpy as np
from pandas import RangeIndex
from sksurv.functions import StepFunction

__all__ = ["parts_of"]


def parts_of(result, known, limits, start):
    """Step functions, names and areas of the rows of a `CurveIntervals` of certain curves."""
    what = getattr(result, "what", None)
    if what not in known:
        found = f"of type {type(result).__name__}" if what is None else f"of the {what}"
        raise ValueError(
            f"`result` is {found}; pass what curve_intervals(..., "
            f"what={' or '.join(map(repr, known))}) returns."
        )
    pairs = {
        "interval": (result.lower, result.upper),
        "band": (result.band_lower, result.band_upper),
    }
    if limits is not None and limits not in pairs:
        raise ValueError(f"`limits` is {limits!r}, must be 'interval', 'band' or None.")
    if limits == "band" and result.band_lower is None:
        raise ValueError("`result` has no bands; pass band=True to curve_intervals.")
    functions, areas = [], None if limits is None else []
    for i, curve in enumerate(result.estimate):
        there = ~np.isnan(curve)
        times = np.append(0.0, result.times[there])
        functions.append(StepFunction(times, np.append(start, curve[there])))
        if areas is not None:
            edge = start if limits == "interval" else np.nan  # a band begins later
            areas.append((times, *(np.append(edge, bound[i, there]) for bound in pairs[limits])))
    counted = result.index.equals(RangeIndex(len(result.index)))
    return functions, None if counted else [str(label) for label in result.index], areas
