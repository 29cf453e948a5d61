r"""Smooth effects of age, season and time in case series: quadratic splines, constant in months.

With knots :math:`t_1 < \dots < t_K`, the effect of age is a quadratic spline with these knots,
constant before the first and after the last; its B-splines but the first are the columns, since a
constant cancels within a person. That of calendar time is the same of the number of the month, and
the effect of season a periodic one over the months 1 to 12. What a row has is the value at its age
on the first day of the month, or of observation, and those of the calendar month.
"""

import numpy as np
from pandas import to_datetime
from scipy.interpolate import BSpline

from ..data import options
from ..data.vectors import check_numbers

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
    _check_number(age, "age", ages_of_outcomes.size)
    return _checked(np.quantile(ages_of_outcomes, np.linspace(0.01, 0.99, age)), "age")


def _check_number(n_knots, name, n_outcomes):
    options.whole(n_knots, name, FEWEST_KNOTS, RULE)
    if n_knots > n_outcomes:
        raise ValueError(
            f"`{name}` asks for {n_knots} knots, but there are {n_outcomes:,} outcomes; pass "
            "fewer, or the knots themselves."
        )


def calendar_knots(calendar, cases):
    """Numbers of months as given, by their days, or so many quantiles of observed months."""
    is_date = cases.observed.is_date
    if np.ndim(calendar):
        if is_date:
            days = to_datetime(calendar).to_numpy().astype("datetime64[D]").astype(np.int64)
        else:
            days = check_numbers(calendar, "calendar").astype(np.int64)
        return _checked(months_of(days, is_date), "calendar")
    _check_number(calendar, "calendar", cases.outcomes.day.size)
    first, last = (months_of(days, is_date) for days in (cases.start, cases.end))
    observed = np.cumsum(
        np.bincount(first - first.min(), minlength=int(last.max() - first.min()) + 2)
        - np.bincount(last + 1 - first.min())
    )
    total = np.cumsum(observed)
    at = np.searchsorted(total, total[-1] * np.linspace(0.005, 0.995, calendar))
    return _checked(first.min() + at, "calendar")


def spline_basis(knots, ages):
    """Columns of the spline, shape (n_ages, n_knots); ages are in days, or numbers of months."""
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


def months_of(days, is_date):
    """Numbers of the months of days, since 1970 where they are dates."""
    if not is_date:
        return np.asarray(days) // DAYS
    return np.asarray(days).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)


def month_starts(first, last, is_date):
    """First days of all months from that of day `first` to that of day `last`, and the months."""
    months = np.arange(months_of(first, is_date), months_of(last, is_date) + 1)
    if not is_date:
        return months * DAYS, months
    return months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64), months
