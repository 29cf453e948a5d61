"""Slice sampling of numbers, one at a time and all alike (Neal 2003): nothing has to be tuned."""

from __future__ import annotations

import numpy as np

from .mixtures import STRIDE

__all__ = ["draw_from_slices"]

WIDTH = 1.0
MOST_STEPS = 100  # that an interval grows, or shrinks: by then it is long or short beyond doubt


def draw_from_slices(log_density, position, random, sites):
    """Move each of many independent numbers by a step that leaves its density as it is.

    ``log_density`` of positions (B, d) has the same shape, up to constants. Of the three `sites` of
    random numbers the last and every `STRIDE`-th after it are used.
    """
    size = position.shape[1]
    level = log_density(position) + np.log(random.uniform(sites[0], size))
    low = position - WIDTH * random.uniform(sites[1], size)
    high = low + WIDTH
    for edge, direction in ((low, -WIDTH), (high, WIDTH)):
        for _ in range(MOST_STEPS):
            inside = log_density(edge) > level
            if not inside.any():
                break
            edge += direction * inside
    found, is_open = position.copy(), np.ones(position.shape, bool)
    for attempt in range(MOST_STEPS):
        trial = low + (high - low) * random.uniform(sites[2] + attempt * STRIDE, size)
        hits = is_open & (log_density(trial) > level)
        found[hits] = trial[hits]
        is_open &= ~hits
        if not is_open.any():
            break
        low, high = (
            np.where(trial < position, trial, low),
            np.where(trial < position, high, trial),
        )
    return found
