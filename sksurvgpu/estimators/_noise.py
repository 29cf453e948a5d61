"""The noise of a Gaussian model: what its prior needs for the posterior to be proper."""

from __future__ import annotations

import numpy as np

ROUNDING = 1e-12
SMALLEST = np.finfo(float).tiny
OF_MEAN = 16 * np.finfo(float).eps  # what rounding leaves of a mean that is subtracted


def check_squares(rows):
    """Refuse reduced rows that are too few, or whose squares overflow or underflow."""
    if rows.degrees < 1:
        raise ValueError(
            f"`X` has n_samples = {_count(rows)} row(s) of positive weight; at least 2 are needed "
            "with an intercept, and 1 without."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        squares = {"X": (rows.column_square, rows.matrix), "y": (rows.square, rows.target)}
    for name, (square, values) in squares.items():
        if not np.isfinite(square).all():
            raise ValueError(f"the squares of `{name}` are infinite; rescale it.")
        if square.max() < SMALLEST and abs(values).max() > 0:
            raise ValueError(f"the squares of `{name}` are too small for float64; rescale it.")


def resolve_noise(rows, shape, rate) -> float:
    """Rate of the variance's prior; refuse what has no proper posterior."""
    [square], [residual] = rows.square, rows.residual
    if square <= (ROUNDING * rows.outcome_mean[0]) ** 2 * rows.precision:
        square = residual = 0.0
    rate = float(shape * 0.5 * square / rows.degrees if rate == "auto" else rate)
    if rate > 0:
        return rate
    n_columns = rows.matrix.shape[1]
    if square == 0:
        raise ValueError(
            "`y` is constant, so that nothing but the prior of the noise keeps its variance from "
            "0; pass a positive number as `noise_rate`."
        )
    rounding = ROUNDING**2 * square + (OF_MEAN * rows.outcome_mean[0]) ** 2 * rows.precision
    if n_columns >= rows.degrees or residual <= rounding:
        raise ValueError(
            f"the posterior is improper: the rate of the noise's prior is 0, and {n_columns:,} "
            f"column(s) can fit {_count(rows):,} rows without an error; pass a positive "
            '`noise_rate`, or noise_rate="auto" with a positive `noise_shape`.'
        )
    return rate


def _count(rows):
    """Rows of positive weight."""
    return rows.degrees + int(rows.precision > 0)
