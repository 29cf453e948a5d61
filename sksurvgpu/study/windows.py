"""Windows of risk of a case series as a document has them, and the rows that they make.

A window is one of the exposure at hand, or of others that it names with `eras`. Of the former, one
that ends before the exposure starts tells whether events lead to it, and the others are of
interest.
"""

from __future__ import annotations

from inspect import signature

import numpy as np
from pandas import DataFrame, concat

from ..cohort import RiskWindow, eras_to_intervals
from ..data import options

__all__ = ["END_OF_OBSERVATION", "LAST_DAYS", "OF_ROWS", "OF_WINDOWS", "make_rows", "rehearse"]
__all__ += ["sort_windows"]

END_OF_OBSERVATION, LAST_DAYS = "end of observation", 99  # a column and its number in tables
OF_WINDOWS = tuple(signature(RiskWindow).parameters)
# Arguments of `eras_to_intervals` that a document may give.
OF_ROWS = ("age", "age_groups", "season", "calendar", "ended_early", "naive", "first_outcome_only")
OF_ROWS += ("end_of_observation",)
N_SUBJECTS, N_DAYS = 60, 30_000  # of those who do not exist


def sort_windows(series) -> tuple:
    """Names of windows of the exposure at hand: those of interest, and those before it starts."""
    found: tuple = ([], [])
    for name, window in series["windows"].items():
        end = window.get("end", 0)
        is_before = window.get("end_anchor") == "start" and options.is_whole(end) and end < 0
        if window.get("eras") is None:
            found[is_before].append(name)
    return found


def make_rows(series, exposure, tables):
    """Rows of an outcome: the tables that `omop.Database.eras` gives become `CaseSeriesData`."""
    there = {*tables["eras"]["era"]}
    if exposure not in there:
        raise ValueError(f"no case was exposed to {exposure!r}.")
    others, windows = there - {exposure}, {}
    for name, given in {**series["windows"], None: series["control"]}.items():
        if given is None:
            continue
        eras = given.get("eras")
        eras = [exposure] if eras is None else [e for e in np.atleast_1d(eras) if e in others]
        if not eras:  # of others, whom no case may have taken
            continue
        try:
            windows[name] = RiskWindow(**given | {"eras": eras})
        except (TypeError, ValueError) as error:
            raise type(error)(f"window {name or 'control'!r}: {error}") from error
    control = windows.pop(None, None)
    given = {key: series[key] for key in OF_ROWS if key in series}
    if given.pop("ended_early", False):
        given["ended_early"] = "ended_early"
    return eras_to_intervals(**tables, windows=windows, control=control, **given)


def rehearse(series, exposures):
    """Make rows of subjects who do not exist, so that values that functions refuse are refused."""
    flags = ("ended_early", "first_outcome_only")
    ends_early, is_first = (options.flag(series.get(key, False), key) for key in flags)
    if ends_early:
        if not is_first:
            raise ValueError("`ended_early` needs first_outcome_only: true.")
        series = series | {"ended_early": False}  # whose models take a while
    number, day = np.arange(N_SUBJECTS), np.timedelta64(1, "D")
    first = np.datetime64("1950-01-01") + 17 * number * day
    last, birth = first + N_DAYS * day, first - 200 * number * day
    periods = DataFrame({"id": number, "start": first, "end": last, "birth": birth})
    begin = first + (N_DAYS // 2 + 97 * number) * day
    eras = DataFrame({"id": number, "start": begin, "end": begin + 100 * day})
    eras = [eras.assign(era=exposure) for exposure in exposures]
    outcomes = DataFrame({"id": number, "day": first + 401 * number * day})
    tables = {"periods": periods, "eras": concat(eras), "outcomes": outcomes, "birth": "birth"}
    for exposure in series["exposures"]:
        make_rows(series, exposure, tables)
