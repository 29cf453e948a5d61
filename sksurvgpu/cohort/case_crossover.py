"""Case-crossover studies: exposure right before an event against that of the same person earlier.

Every event is a matched set of windows of one length, one of them the case. Whoever is as likely to
be exposed in all of them, but for the effect, is compared with himself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pandas import DataFrame, Index

from .._tables import Result
from ..data.design.columns import Design
from ..data.options import is_whole
from ..data.outcomes.counts import matched
from ..exceptions import NothingToCompareError
from ..tables.cutting import RowsAtRisk, Spans, arrange, fill_columns
from ..tables.grouping import MAX
from ..tables.names import name_covariates
from ..tables.periods import Periods, clip
from .case_series_data import CaseSeriesReport
from .observation import check_settings, choose_cases, read_eras, read_observed, read_outcomes


@dataclass(frozen=True, eq=False, repr=False)
class CaseCrossoverData(Result):
    """Windows before events, as matched sets; made by `case_crossover_windows`.

    Attributes
    ----------
    X : Design
        A column for each exposure, 1 where any of its eras touches the window.
    y : structured ndarray of shape (n_rows,)
        Case or control and the number of the event, as `matched` makes it.
    rows : pandas.DataFrame
        Subject, day of the event, and first and last day of the window relative to it.
    attrition : pandas.DataFrame
        By step: how many events and windows it left.
    report : CaseSeriesReport
        What was read, and what was left out.
    """

    X: Design
    y: np.ndarray
    rows: Any
    attrition: Any
    report: CaseSeriesReport

    def _title(self) -> str:
        n_events, n_windows = self.attrition.iloc[-1]
        return (
            f"CaseCrossoverData of {n_events:,} events with {n_windows:,} windows and "
            f"{self.X.n_columns:,} exposures"
        )


def case_crossover_windows(
    periods,
    eras,
    outcomes,
    *,
    case=(-29, 0),
    controls=((-119, -90), (-89, -60)),
    id="id",
    start="start",
    end="end",
    era="era",
    day="day",
    naive=0,
    first_outcome_only=False,
    names=None,
    missing="error",
) -> CaseCrossoverData:
    """Make matched sets of windows before events.

    Parameters
    ----------
    periods, eras, outcomes : table
        As `eras_to_intervals` takes them.
    case : (int, int), default=(-29, 0)
        First and last day of the window of the case, counted from the day of the event.
    controls : sequence of (int, int), default=((-119, -90), (-89, -60))
        The same of control windows, of which no two share a day. Those that are not wholly
        observed are left out.
    id, start, end, era, day : str
        Names of columns, as for `eras_to_intervals`.
    naive : int, default=0
        Leave out so many days at the start of observation.
    first_outcome_only : bool, default=False
        Take the first outcome of a subject only.
    names : mapping, pandas.Series or table, optional
        Names of exposures.
    missing : {"error", "drop"}, default="error"
        What to do about lines of `eras` and `outcomes` with a missing entry.

    Returns
    -------
    data : CaseCrossoverData
        X and y, windows by event, and an account of those that were left out.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu.cohort import case_crossover_windows
    >>> periods = pd.DataFrame({"id": [1, 2], "start": [0, 0], "end": [300, 300]})
    >>> eras = pd.DataFrame({"id": [1, 2], "era": "drug", "start": [190, 100], "end": [195, 120]})
    >>> events = pd.DataFrame({"id": [1, 2], "day": [200, 100]})
    >>> data = case_crossover_windows(periods, eras, events)
    >>> data.rows.assign(case=data.y["case"], drug=data.X.to_scipy().toarray())
       id  day  first  last   case  drug
    0   1  200    -29     0   True   1.0
    1   1  200   -119   -90  False   0.0
    2   1  200    -89   -60  False   0.0
    3   2  100    -29     0   True   1.0
    4   2  100    -89   -60  False   0.0
    """
    check_settings(missing, naive, 0)
    windows = _checked(case, controls)
    drops = missing == "drop"
    observed = read_observed(periods, id, start, end, None)
    happened, n_outside, of_outcomes = read_outcomes(outcomes, id, day, observed, drops)
    cases, account = choose_cases(observed, happened, naive, first_outcome_only)
    exposures, ids, of_eras = read_eras(eras, (id, era, start, end), cases, drops)
    event, window, attrition = _choose(cases, windows, account.table()["events"])
    unit, of_event = cases.outcomes.unit[event], cases.outcomes.day[event]
    first, last = windows[window].T
    labels, _ = name_covariates(ids, names, "era", "name")
    X = _exposed(exposures, unit, of_event + first, of_event + last, labels, cases.start.size)
    days = of_event.astype("datetime64[D]") if observed.is_date else of_event
    rows = DataFrame({id: cases.label[unit], day: days, "first": first, "last": last})
    y = matched(window == 0, event)
    report = CaseSeriesReport.of(cases, exposures, of_eras, of_outcomes, n_outside)
    return CaseCrossoverData(X, y, rows, attrition, report)


def _window(argument, days):
    """First and last day of a window."""
    days = tuple(days) if np.iterable(days) else (days,)
    if len(days) != 2 or not all(map(is_whole, days)) or days[0] > days[1]:
        raise ValueError(f"`{argument}` has a window {days!r}; pass its first and last day.")
    return days


def _checked(case, controls):
    """Windows as an array, that of the case first; all of one length."""
    windows = np.array([_window("case", case), *(_window("controls", w) for w in controls)])
    if len(windows) == 1:
        raise ValueError("`controls` is empty; pass at least one window.")
    lengths = np.diff(windows, axis=1)[:, 0] + 1
    if (lengths != lengths[0]).any():
        raise ValueError(
            f"the windows of `case` and `controls` have {', '.join(map(str, lengths))} days; in a "
            "longer one exposure is likelier, so make them equal."
        )
    first = np.sort(windows[:, 0])
    if (np.diff(first) < lengths[0]).any():
        raise ValueError(
            f"windows of `case` and `controls` share days: they have {lengths[0]} days each and "
            f"start on days {', '.join(map(str, first))}; move them apart."
        )
    return windows


def _choose(cases, windows, events):
    """Events and windows of the rows, and an account of those that were left out."""
    unit, day = cases.outcomes
    is_seen = (day[:, None] + windows[:, 0] >= cases.start[unit, None]) & (
        day[:, None] + windows[:, 1] <= cases.end[unit, None]
    )
    names = {"periods": "outcomes", "outcome in observation": "in observation"}
    steps = {names.get(step, step): (n, n * len(windows)) for step, n in events.items()}
    n_seen = is_seen[:, 0].sum()
    steps["case window observed"] = n_seen, n_seen * len(windows)
    is_seen &= is_seen[:, :1]
    is_seen &= is_seen[:, 1:].any(axis=1)[:, None]
    steps["control window observed"] = is_seen[:, 0].sum(), is_seen.sum()
    if not is_seen.any():
        raise NothingToCompareError(
            f"none of {events.iloc[0]:,} outcomes has its case window and a control window in "
            "observation; compare their days with those of `periods`."
        )
    index = Index(steps, name="step")
    table = DataFrame([*steps.values()], index, ["events", "windows"]).astype(np.int64)
    return *np.nonzero(is_seen), table


def _exposed(eras, unit, first, last, labels, n_subjects):
    """Columns of exposures, 1 in windows that an era touches."""
    windows = Periods(unit, first.astype(np.float64), last + 1.0, np.zeros(n_subjects), None)
    lines = Spans(
        eras.unit.astype(np.int32),
        eras.code.astype(np.int32),
        eras.start.astype(np.float64),
        eras.end + 1.0,
        np.ones(eras.unit.size),
    )
    lines = clip(lines, windows).lines
    # A window is one row, whichever of its days an era touches.
    lines = lines._replace(start=windows.start[lines.unit], stop=windows.stop[lines.unit])
    rows = RowsAtRisk(np.arange(unit.size + 1), windows.start, windows.stop)
    lines = arrange(lines, unit.size)
    return fill_columns(lines, rows, np.full(len(labels), MAX)).X.with_names(labels)
