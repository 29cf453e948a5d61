"""Predictions from draws: a block of rows at a time, so that memory does not grow with rows."""

import numpy as np
from scipy.special import ndtr, ndtri

from ..data.options import refuse, whole

BLOCK = 2**22  # predictions, of rows, draws and classes, that are held at a time
DRAWS_AT_ONCE = 256  # of coefficients, which may lie on disk
NEWTON_STEPS = 60
HALVINGS = 200  # bounds may be wider than the narrowest part by as many powers of two
ROUNDING = 1e-12


def row_blocks(n_rows, n_predictions):
    """Slices of rows whose predictions, so many of each, fit a block."""
    size = max(1, BLOCK // n_predictions)
    return [slice(start, start + size) for start in range(0, n_rows, size)]


def choose_draws(n_draws, n_kept, random):
    """Some of the draws that were kept, in their order; all where `n_draws` is None."""
    n_draws = n_kept if n_draws is None else n_draws
    rule = f"must be a whole number from 1 to the {n_kept:,} draws of the posterior"
    if whole(n_draws, "n_draws", 1, rule) > n_kept:
        refuse(n_draws, "n_draws", rule)
    return np.sort(random.choice(n_kept, n_draws, replace=False))


def predict_draws(X, coef, intercept, chosen):
    """Linear predictors (n_rows, n_chosen, ...) of rows at some of the draws (n_draws, ..., p)."""
    out = np.empty((X.shape[0], len(chosen), *coef.shape[1:-1]))
    for start in range(0, len(chosen), DRAWS_AT_ONCE):
        draws = slice(start, start + DRAWS_AT_ONCE)
        drawn = np.asarray(coef[chosen[draws]], np.float64)
        out[:, draws] = (X @ drawn.reshape(-1, drawn.shape[-1]).T).reshape(-1, *drawn.shape[:-1])
    return out if intercept is None else out + intercept[chosen]


def mixture_quantile(mean, sd, level):
    """Quantiles of normal mixtures, one a row of `mean` (n_rows, n_draws), sds (n_draws,).

    Newton steps on the distribution function, within bounds that hold the root: those of the
    components' quantiles, which are halved where Newton steps do not get there.
    """
    parts = mean + ndtri(level) * sd
    low, high = parts.min(axis=1), parts.max(axis=1)
    smallest = np.finfo(float).eps * np.ptp(mean, axis=1)
    value = np.clip(parts.mean(axis=1), low, high)
    for step in range(NEWTON_STEPS + HALVINGS):
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            scaled = (value[:, None] - mean) / sd
            excess = ndtr(scaled).mean(axis=1) - level
            density = (np.exp(-0.5 * scaled**2) / sd).mean(axis=1) / np.sqrt(2.0 * np.pi)
            moved = value - excess / density
        low, high = np.where(excess < 0, value, low), np.where(excess > 0, value, high)
        inside = (moved >= low) & (moved <= high) & (step < NEWTON_STEPS)
        moved = np.where(inside, moved, 0.5 * (low + high))
        done = np.abs(moved - value) <= ROUNDING * np.abs(moved) + smallest
        value = moved
        if done.all():
            return value
    raise FloatingPointError(
        "quantiles of predictions were not found: draws of the noise's variance, or predictions, "
        "are not finite; rescale columns or outcome."
    )
