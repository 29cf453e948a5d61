"""From dates to outcomes: when somebody is at risk, and what happens first.

Days are whole, and both the first and the last day at risk count: an event on the first day has the
time 1, and so has who is at risk on one day only. CohortMethod's study populations are counted so.
"""

import numpy as np

from .._calls import renamed
from ..data import options
from .checks import require_column
from .cohort import Cohort, as_cohort
from .events import Days, persons_of, read_events

COMPETING = 2  # code of a competing event that a column of the cohort has the day of


@renamed(index="index_date", date="day", person="subject")
def time_at_risk(
    cohort,
    outcomes,
    *,
    index_date="index_date",
    start="observation_start",
    end="observation_end",
    day="date",
    event=None,
    competing=None,
    risk_start=0,
    risk_start_from=None,
    risk_end=None,
    risk_end_from=None,
    censor=None,
    washout=np.inf,
    minimum=1,
    subject=None,
    until_next=False,
    **names,
) -> Cohort:
    """Find the first outcome of each person while at risk, and the time until then.

    A person is at risk from day `risk_start` after a date to day `risk_end` after a date, both days
    included, but not after the end of observation. Dates are of any type of date, or whole numbers
    of days; times of the day are dropped.

    Parameters
    ----------
    cohort : Cohort or table
        Persons, with the dates below.
    outcomes : DataFrame, Arrow table, relation of DuckDB, or path
        A line for each event, as many as a person has: who it was, as the identifiers of the
        cohort, and `day`. Lines of others are not read.
    index_date : str, default="index_date"
        Column of the cohort with the day on which follow-up begins, such as that of a first
        prescription.
    start : str or None, default="observation_start"
        Column with the first day of observation; None where that does not matter.
    end : str, default="observation_end"
        Column with the last day of observation.
    day : str, default="date"
        Column of `outcomes` with the day of the event.
    event : str, optional
        Column of `outcomes` with codes of kinds of event, 1, 2, ...; all are 1 without it.
    competing : str, optional
        Column of the cohort with the day of an event that competes, such as death, whose code is
        2; missing for those who do not have it.
    risk_start : int, default=0
        First day at risk: so many days after the index date, which is one of them by default, or
        after `risk_start_from`.
    risk_start_from : str, optional
        Column of the cohort with a day in place of the index date, such as the end of exposure.
    risk_end : int, optional
        Last day at risk: so many days after the index date, or after `risk_end_from`. By default
        the last day of observation, with `risk_end_from` the day that it names.
    risk_end_from : str, optional
        Column of the cohort with a day in place of the index date, such as the end of exposure.
    censor : str or list of str, optional
        Columns of the cohort with days that are the last at risk, too, missing where there is none.
    washout : int, float or None, default=inf
        Leave out persons with an outcome of any kind before the first day at risk and fewer than
        so many days before the index date; by default at any time before. None keeps them, and
        later outcomes count.
    minimum : int, default=1
        Leave out persons with fewer days at risk, whether or not they have the outcome.
    subject : str, optional
        Column of the cohort that names the persons of `outcomes`, where persons have several
        lines; by default the identifiers.
    until_next : bool, default=False
        Where persons have several lines, let time at risk end on the day before the next one's
        begins.
    **names : str
        Of a table, its columns ``id=`` and ``treatment=``, if they have other names.

    Returns
    -------
    followed : Cohort
        Those who are at risk, with the columns ``event``, booleans, or codes where there are
        several kinds, 0 where follow-up ends without one, and ``time``, in days, at least 1. Of
        events on one day the one with the smallest code counts. All others are in its attrition:
        whose index date is missing or not in observation, who had the outcome before, and who is
        at risk for too short a time.

    See Also
    --------
    observe : Finds the columns of observation where persons have several periods of it.
    incidence_rate : Events per time at risk.
    sksurvgpu.surv : Makes an outcome of both columns.

    Notes
    -----
    The steps, and the days that they count, are those of ``createStudyPopulation`` in
    CohortMethod. There, too, a washout of 0 days leaves out those with an outcome after the index
    date and before the first day at risk.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu.cohort import time_at_risk
    >>> persons = pd.DataFrame({"id": [1, 2, 3, 4], "treatment": [1, 0, 1, 0]})
    >>> dates = {"index_date": [100, 100, 500, 100], "observation_start": 0}
    >>> persons = persons.assign(**dates, observation_end=[300, 150, 400, 300])
    >>> strokes = pd.DataFrame({"id": [1, 1, 2, 4], "date": [109, 120, 200, 70]})
    >>> followed = time_at_risk(persons, strokes, risk_start=1)
    >>> followed.table[["id", "event", "time"]]
       id  event  time
    0   1   True     9
    1   2  False    50
    >>> followed.attrition["left_out"]
    step
    given                        0
    index date in observation    1
    no outcome before            1
    1 day at risk or more        0
    Name: left_out, dtype: int64
    """
    cohort = as_cohort(cohort, names)
    _check_options(risk_start, risk_end, washout, minimum)
    options.flag(until_next, "until_next")
    days = Days(cohort.table)
    first, last, is_observed = _observation(days, index_date, start, end)
    low = first if risk_start_from is None else days.of(risk_start_from, "risk_start_from")
    low, high = low + risk_start, last
    if risk_end is not None or risk_end_from is not None:
        base = first if risk_end_from is None else days.of(risk_end_from, "risk_end_from")
        high = np.fmin(high, base + (risk_end or 0))
    for column in [censor] if isinstance(censor, str) else censor or []:
        high = np.fmin(high, days.of(column, "censor", may_lack=True))
    persons = persons_of(cohort, subject)
    events = read_events(outcomes, persons, days, (subject or cohort.id, day, event))
    steps = {"index date in observation": is_observed}
    if washout is not None:
        steps["no outcome before"] = ~events.any_between(first - washout, low)
    if until_next:
        high = _until_next(persons, low, high, np.logical_and.reduce([*steps.values()]))
    many = "s" if minimum > 1 else ""
    steps[f"{minimum:,} day{many} at risk or more"] = high - low + 1 >= minimum
    if competing is not None:
        events = events.join(days.of(competing, "competing", may_lack=True), COMPETING)
    code, day = events.first(low, high)
    time = np.where(code > 0, day, high) - low + 1
    if event is None and competing is None:
        code = code > 0
    return _keep(cohort, steps, code, time)


def _observation(days, index, start, end):
    """Index date, last day of observation, and whether the one lies in observation."""
    first, last = (days.of(*pair, may_lack=True) for pair in ((index, "index_date"), (end, "end")))
    is_observed = first <= last
    if start is not None:
        require_column(days.table, start, "start", ", or pass start=None if it does not matter.")
        is_observed &= days.of(start, "start", may_lack=True) <= first
    return first, last, is_observed


def _until_next(persons, low, high, is_there):
    """Last days at risk, before the first one of the same person's next line."""
    rows = np.flatnonzero(is_there)
    number = persons.iloc[rows].factorize()[0]
    order = rows[np.lexsort((low[rows], number))]
    number = np.sort(number)
    now, then = order[:-1], order[1:]
    overlaps = (number[:-1] == number[1:]) & (high[now] >= low[then])
    high = high.copy()
    high[now[overlaps]] = low[then[overlaps]] - 1
    return high


def _keep(cohort, steps, code, time):
    """Cohort of those whom all steps keep, with what happens to them and when."""
    left = np.arange(len(time))
    for step, is_kept in steps.items():
        cohort = cohort.keep(is_kept[left], step)
        left = left[is_kept[left]]
    return cohort.with_columns(event=code[left], time=time[left].astype(np.int64))


def _check_options(risk_start, risk_end, washout, minimum):
    for name, value in (("risk_start", risk_start), ("risk_end", risk_end)):
        if value is not None and not options.is_whole(value):
            raise ValueError(f"`{name}` is {value!r}, must be a whole number of days.")
    if washout is not None and not (options.is_number(washout) and washout >= 0):
        options.refuse(washout, "washout", "must be a number of days of at least 0, or None")
    options.whole(minimum, "minimum", 1)
