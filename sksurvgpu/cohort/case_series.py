r"""`eras_to_intervals`: observation, exposures and outcomes become rows of a case series.

The days of a subject are divided where a window of risk, a month (if there are splines) or an age
group begins or ends; pieces with the same covariates are one row, so that a subject has as many
rows as it has different covariates. Days are whole and all ends inclusive: a window from day 3 to
day 5 is three days long.
"""

from __future__ import annotations

from ..tables.names import name_covariates
from .case_series_data import (
    CaseDays,
    CaseSeriesData,
    CaseSeriesReport,
    describe_columns,
    outcome_of_rows,
)
from .intervals import cut_intervals, lay_windows, plan_windows
from .observation import check_settings, choose_cases, read_eras, read_observed, read_outcomes


def eras_to_intervals(
    periods,
    eras,
    outcomes,
    *,
    windows,
    id="id",
    start="start",
    end="end",
    era="era",
    day="day",
    birth=None,
    age=None,
    age_groups=None,
    season=None,
    calendar=None,
    ended_early=None,
    naive=0,
    first_outcome_only=False,
    end_of_observation=0,
    control=None,
    names=None,
    missing="error",
) -> CaseSeriesData:
    """Make the rows of a self-controlled case series from eras of exposure.

    Parameters
    ----------
    periods : table
        One line a subject: identifier, first and last day of observation, maybe the day of birth.
        Who has no outcome may be among them.
    eras : table
        One line for each time of exposure: subject, exposure, first and last day. Eras before and
        after observation are read, too, since windows may begin later than they do.
    outcomes : table
        One line for each event: subject and day. Tables are what `from_long` takes.
    windows : RiskWindow or mapping from name to RiskWindow
        Columns of X, of which each says how the rate of events may differ around an exposure.
        Windows `by_era` have the name of the exposure behind theirs.
    id, start, end, era, day : str
        Names of columns: `id` in all tables, `start` and `end` in the first two, `era` in `eras`,
        `day` in `outcomes`. Days are whole numbers, or all of them dates, of one time zone if of
        any, whose time of day is not looked at; all ends are inclusive.
    birth : str, optional
        Name of the column of days of birth in `periods`. Without one, days that are numbers are
        ages.
    age : int or array-like, optional
        Model age by a quadratic spline, constant in months, with so many knots at quantiles of the
        ages of outcomes, or with these, in days.
    age_groups : array-like of int, optional
        Model age by groups; the first days, in days of age, of all groups but the first, which has
        no column.
    season : int or array-like, optional
        Model the calendar month by a periodic quadratic spline with so many knots, or with these,
        in months. Days have to be dates.
    calendar : int or array-like of days, optional
        Model calendar time by a quadratic spline, constant in months, with so many knots at
        quantiles of observed months, or with knots in the months of these days.
    ended_early : str, optional
        Name of a column of flags in `periods`: whether observation ended before the study did, as
        by death, which the outcome may have caused. Lengths of rows are then weights. Needs days of
        birth, and one outcome of a subject.
    naive : int, default=0
        Leave out so many days at the start of observation, with their outcomes.
    first_outcome_only : bool, default=False
        Take the first outcome of a subject only, also of those before observation.
    end_of_observation : int, default=0
        Add a column for so many last days of observation: a rate that differs there says that
        outcomes end it.
    control : RiskWindow, optional
        Only days in windows and in this one are compared (self-controlled risk intervals).
    names : mapping, pandas.Series or table, optional
        Names of exposures, as `from_long` takes them, in columns ``era`` and ``name``.
    missing : {"error", "drop"}, default="error"
        What to do about lines of `eras` and `outcomes` with a missing entry.

    Returns
    -------
    data : CaseSeriesData
        X and y, rows by subject, an account of who was left out, and a report.

    Notes
    -----
    Windows and splines are those of the R package SelfControlledCaseSeries, except that a column
    is left out of each spline of season, whose columns add up to 1, and that subjects without any
    exposure, who say something about age and season only, are all kept. Months are those of the
    calendar; where days are numbers, they have 30 days.

    The weights are those of ``eventDependentObservation`` there, and of ``eventdepenobs`` in the
    package SCCS with ``regress=T``, by Farrington and others (2011), but for the search for the
    models, which here begins in several places and often comes further. They are for outcomes after
    which many die, not for death. An effect of age is kept beside them, whatever the model; it has
    the thinning by those who left in it.

    References
    ----------
    Farrington, C. P., Anaya-Izquierdo, K., Whitaker, H. J., Hocine, M. N., Douglas, I. and Smeeth,
    L. (2011). Self-controlled case series analysis with event-dependent observation periods.
    Journal of the American Statistical Association 106, 417-426.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import CaseSeriesCCD
    >>> from sksurvgpu.cohort import RiskWindow, eras_to_intervals
    >>> periods = pd.DataFrame({"id": [1, 2, 3], "start": [0, 10, 0], "end": [99, 109, 49]})
    >>> doses = pd.DataFrame({"id": [1, 2, 2], "era": "vaccine", "start": [30, 20, 80]})
    >>> events = pd.DataFrame({"id": [1, 1, 2, 3], "day": [33, 80, 85, 7]})
    >>> data = eras_to_intervals(
    ...     periods, doses.assign(end=doses["start"]), events, windows={"risk": RiskWindow(1, 14)}
    ... )
    >>> data.to_frame()
       subject  count  length  risk
    0        1      1    86.0   0.0
    1        1      1    14.0   1.0
    2        2      0    72.0   0.0
    3        2      1    28.0   1.0
    >>> data.attrition
                             subjects  events  days
    step
    periods                         3       4   250
    outcome in observation          3       4   250
    covariates vary                 2       3   200
    >>> CaseSeriesCCD(alpha=0).fit(data.X, data.y).summary()["rate_ratio"].round(1)
    feature
    risk    9.5
    Name: rate_ratio, dtype: float64
    """
    naive, end_of_observation = check_settings(missing, naive, end_of_observation)
    drops = missing == "drop"
    observed = read_observed(periods, id, start, end, birth, ended_early)
    happened, n_outside, of_outcomes = read_outcomes(outcomes, id, day, observed, drops)
    cases, account = choose_cases(observed, happened, naive, first_outcome_only)
    exposures, ids, of_eras = read_eras(eras, (id, era, start, end), cases, drops)
    labels, _ = name_covariates(ids, names, "era", "name")
    plan = plan_windows(windows, control, ids, labels)
    lines, counts = lay_windows(cases, exposures, plan)
    of_time = {"age": age, "age_groups": age_groups, "season": season, "calendar": calendar}
    cut, knots, ends = cut_intervals(cases, lines, plan, account, end_of_observation, **of_time)
    y = outcome_of_rows(cut.events, cut.length, cases.label[cut.unit])
    report = CaseSeriesReport.of(cases, exposures, of_eras, of_outcomes, n_outside, **counts)
    columns, days = describe_columns(cut), CaseDays.of(cases)
    return CaseSeriesData(cut.X, y, columns, account.table(), knots, report, ends, days)
