r"""Confidence limits of probabilities, and what makes a band of them.

With the standard error e of p and v = e / p, that of log p, and z the quantile of the normal
distribution, the limits are symmetric on a scale,

.. math::
    p \pm z e, \quad p e^{\pm z v}, \quad p^{\exp(\pm z v / \log p)}, \quad
    \mathrm{expit}(\mathrm{logit}(p) \pm z v / (1 - p)), \quad
    \sin^2\!\Big(\arcsin\sqrt p \pm \tfrac{z v}{2} \sqrt{\tfrac{p}{1 - p}}\Big),

as in R's ``survfit``. A band of Hall and Wellner (1980) has c (1 + n v^2) / sqrt(n) in place of
z v: the process sqrt(n) log(estimate / S) / (1 + n v^2) is nearly a Brownian bridge at the times
u = n v^2 / (1 + n v^2), which c bounds on [0, a] with the probability `level`. That probability is
Doob's for lines, a series with terms that fall faster than any power.
"""

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, ndtr, ndtri

INTERVALS = ("log", "log-log", "plain", "logit", "arcsin")
N_TERMS = 60
SMALLEST_END = 1e-8  # of the band's time; below, it is as wide as at this time


def check_interval(interval) -> str:
    """Check the name of a scale."""
    if interval not in INTERVALS:
        raise ValueError(
            f"`interval` is {interval!r}; pass one of {', '.join(map(repr, INTERVALS))}."
        )
    return interval


def normal_bound(level) -> float:
    """Quantile of the normal distribution for two-sided limits."""
    return float(-ndtri(0.5 * (1.0 - level)))


def limits(p, spread, interval):
    """Lower and upper limits of probabilities; NaN where the scale has none, as at 0.

    The spread is a half-width on the scale of log p, the interval "log", "log-log", "plain",
    "logit" or "arcsin".
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if interval == "plain":
            return np.clip(p - p * spread, 0.0, 1.0), np.clip(p + p * spread, 0.0, 1.0)
        p = np.where(p > 0.0, p, np.nan)
        if interval == "log":
            return p * np.exp(-spread), np.minimum(p * np.exp(spread), 1.0)
        p = np.where(p < 1.0, p, np.nan)
        if interval == "log-log":
            change = np.exp(spread / -np.log(p))
            return p**change, p ** (1.0 / change)
        if interval == "logit":
            change = spread / (1.0 - p)
            return expit(logit(p) - change), expit(logit(p) + change)
        centre, change = np.arcsin(np.sqrt(p)), 0.5 * spread * np.sqrt(p / (1.0 - p))
        low, high = np.maximum(centre - change, 0.0), np.minimum(centre + change, 0.5 * np.pi)
        return np.sin(low) ** 2, np.sin(high) ** 2


def bridge_bound(end, level) -> float:
    """Bound of a Brownian bridge on [0, end] that holds with a probability."""
    end = min(max(float(end), SMALLEST_END), 1.0)
    least = 0.25 * np.sqrt(end)  # which holds once in 10^8 times
    return float(brentq(lambda c: _stays_within(c, end) - level, least, 10.0, xtol=1e-13))


def _stays_within(bound, end):
    """Probability that a Brownian bridge stays within -bound and bound on [0, end]."""
    k = np.arange(-N_TERMS, N_TERMS + 1)
    # Reflected paths, which end within the bounds.
    signs = np.where(k % 2 == 0, 1.0, -1.0)
    ends = np.ones(len(k))
    if end < 1.0:
        scale, centre = bound / np.sqrt(end * (1.0 - end)), 2.0 * k * (1.0 - end)
        ends = ndtr(scale * (1.0 - centre)) - ndtr(scale * (-1.0 - centre))
    return float(np.sum(signs * np.exp(-2.0 * (k * bound) ** 2) * ends))
