r"""Smooth effects of age and season in case series: quadratic splines, constant within months.

With knots :math:`t_1 < \dots < t_K`, the effect of age is a quadratic spline with these knots,
constant before the first and after the last; its B-splines but the first are the columns, since a
constant cancels within a person. The effect of season is a periodic one over the months 1 to 12.
What a row has is the value at its age on the first day of the month, or of observation, and that
of the calendar month.
"""

from __future__ import annotations

import numpy as np
from scipy.interpolate import BSpline

from ..data import options
from ..data.vectors import check_numbers

__all__ = ["age_basis", "age_knots", "month_starts", "season_basis", "season_knots"]

DEGREE = 2
MONTHS = 12.0
DAYS = 30  # of a month, where days are numbers without a calendar
FEWEST_KNOTS = 3
RULE = f"pass a number of knots of at least {FEWEST_KNOTS}, or the knots themselves"


def _checked(knots, name):
    knots = np.unique(check_numbers(knots, name))
    if knots.size < FEWEST_KNOTS:
        raise ValueError(
            f"`{name}` comes to {knots.size} different knots, a quadratic spline needs at least "
            f"{FEWEST_KNOTS}."
        )
    return knots


def age_knots(age, ages_of_outcomes):
    """Knots as given, in days, or as many quantiles of the ages of outcomes, 1 % to 99 %."""
    if np.ndim(age):
        return _checked(age, "age")
    options.whole(age, "age", FEWEST_KNOTS, RULE)
    if age > ages_of_outcomes.size:
        raise ValueError(
            f"`age` asks for {age} knots, but there are {ages_of_outcomes.size:,} outcomes; pass "
            "fewer, or the knots themselves."
        )
    return _checked(np.quantile(ages_of_outcomes, np.linspace(0.01, 0.99, age)), "age")


def age_basis(knots, ages):
    """Columns of the spline, shape (n_ages, n_knots); ages are in days, after birth."""
    # Whole days after the first knot, as ages are counted in days.
    days = np.clip(ages - np.trunc(knots[0]), 0, np.floor(knots[-1] - knots[0]))
    padded = np.concatenate([[knots[0]] * DEGREE, knots, [knots[-1]] * DEGREE])
    return BSpline.design_matrix(knots[0] + days, padded, DEGREE).toarray()[:, 1:]


def season_knots(season):
    """Knots as given, of a period of 12 months, or as many at equal distances from 0.5 on."""
    if not np.ndim(season):
        options.whole(season, "season", FEWEST_KNOTS, RULE)
        season = 0.5 + np.linspace(0.0, MONTHS, season)
    knots = _checked(season, "season")
    if knots[-1] - knots[0] != MONTHS:
        raise ValueError(
            f"`season` has knots from {knots[0]:g} to {knots[-1]:g}; the last one is the first one "
            "a year, 12 months, later."
        )
    return knots


def season_basis(knots, months):
    """Columns of the periodic spline but the first, as they add up to 1; shape (n, n_knots - 2)."""
    n = knots.size - 1
    around = np.concatenate([knots[-3:-1] - MONTHS, knots, knots[1:3] + MONTHS])
    within = knots[0] + (months - knots[0]) % MONTHS
    basis = BSpline.design_matrix(within, around, DEGREE).toarray()
    basis[:, : basis.shape[1] - n] += basis[:, n:]
    return basis[:, 1:n]


def month_starts(first, last, is_date):
    """First days of all months from that of day `first` to that of day `last`, and the months."""
    if not is_date:
        starts = np.arange(first // DAYS, last // DAYS + 1) * DAYS
        return starts, np.zeros(starts.size)
    edges = np.array([first, last]).astype("datetime64[D]").astype("datetime64[M]")
    months = np.arange(edges[0], edges[1] + 1)
    return months.astype("datetime64[D]").astype(np.int64), months.astype(np.int64) % 12 + 1.0
