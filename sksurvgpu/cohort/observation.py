"""Who is observed from when to when, what happened to them, and who of them is a case.

Of several periods of observation of a person `observe` finds the one that a study begins in.
"""

from typing import NamedTuple

import numpy as np

from ..data import options
from ..data.sources import read_whole
from ..data.vectors import check_flags
from ..exceptions import NothingToCompareError
from ..tables.reading import Persons, read_persons, require, warn_of_strangers
from ..tables.spans import SpanColumns, read_spans
from ..tables.times import check_alike, show_time, whole_days
from .case_series_data import Account
from .cohort import Cohort, add_column, as_cohort
from .events import Days, lines_of, persons_of
from .risk_windows import Eras

# Arguments that name the columns of eras and of outcomes, as messages call them.
OF_ERAS = {"covariate": ("era", ""), "stop": ("end", "")}
OF_OUTCOMES = {"start": ("day", "")}
FARTHEST = 2**31 - 1  # day, so that sums over subjects fit into 64 bits


class Observation(NamedTuple):
    """Subjects from their first to their last day; `birth` is None where it is not known."""

    subjects: Persons
    start: np.ndarray
    end: np.ndarray
    birth: np.ndarray | None
    calendar: str | None  # of the days, None of numbers
    ended_early: np.ndarray | None = None

    @property
    def is_date(self):
        """Whether days are those of a calendar."""
        return self.calendar is not None

    def note(self, account, step, outcomes, is_left):
        """Note who is left, with all their outcomes."""
        n_days = np.maximum(self.end - self.start + 1, 0)[is_left].sum()
        account.note(step, is_left.sum(), is_left[outcomes.unit].sum(), n_days)

    def contains(self, outcomes):
        """Which outcomes happened in observation."""
        start, end = self.start[outcomes.unit], self.end[outcomes.unit]
        return (outcomes.day >= start) & (outcomes.day <= end)


class Outcomes(NamedTuple):
    """Day of every outcome of subjects `unit`, by subject and day."""

    unit: np.ndarray
    day: np.ndarray

    def take(self, rows):
        """Some of the outcomes."""
        return Outcomes(self.unit[rows], self.day[rows])


class Cases(NamedTuple):
    """Subjects with outcomes, numbered anew; `number` is that of every one of `observed`, or -1."""

    observed: Observation
    number: np.ndarray
    label: np.ndarray
    start: np.ndarray
    end: np.ndarray
    birth: np.ndarray | None
    outcomes: Outcomes
    ended_early: np.ndarray | None

    def count_outside(self, eras):
        """Eras of cases that lie before or after observation."""
        is_outside = (eras.end < self.start[eras.unit]) | (eras.start > self.end[eras.unit])
        return int(np.count_nonzero(is_outside))


def check_settings(missing, naive, end_of_observation):
    """Check arguments that are no tables; return the numbers of days."""
    options.choice(missing, "missing", ("error", "drop"))
    for argument, value in (("naive", naive), ("end_of_observation", end_of_observation)):
        options.whole(value, argument, 0, "must be a whole number of days of at least 0")
    return int(naive), int(end_of_observation)


def read_observed(periods, id, start, end, birth, ended_early=None) -> Observation:
    """Read first and last days of subjects, of which each has one line."""
    subjects = read_persons(periods, "periods", id)
    if len(subjects.known) < subjects.ids.size:
        twice = subjects.ids[np.argmax(np.bincount(subjects.number)[subjects.number] > 1)]
        raise ValueError(
            f"`periods` has {id!r} {twice!s} more than once; a subject has one period: join "
            "those that touch, number the others, merge both other tables with the numbers by "
            f"{id!r}, and name their column by id=."
        )
    labels = {"start": start, "end": end, **({} if birth is None else {"birth": birth})}
    days, kinds = {}, set()
    for argument, label in labels.items():
        times, calendar = subjects.times(label, argument)
        days[argument] = _whole(times, calendar, "periods", label)
        kinds.add(calendar)
    for kind in kinds:
        check_alike("a column of `periods`", kind, f"days in {label!r} are", calendar)
    is_wrong = days["end"] < days["start"]
    if is_wrong.any():
        line = int(np.argmax(is_wrong))
        shown = (show_time(days[part][line], calendar) for part in ("start", "end"))
        raise ValueError(
            f"`periods` has {' to '.join(shown)} for {subjects.ids[line]!s}, where {end!r} must "
            f"not be before {start!r} ({np.count_nonzero(is_wrong):,} such line(s)); correct or "
            "drop it."
        )
    born = days.get("birth")
    if born is None and calendar is None:
        born = np.zeros(subjects.ids.size, dtype=np.int64)
    early = None
    if ended_early is not None:
        given = subjects.series(ended_early, "ended_early").to_native()
        early = check_flags(given, f"periods[{ended_early!r}]")
    return Observation(subjects, days["start"], days["end"], born, calendar, early)


def read_outcomes(outcomes, id, day, observed, drops_missing):
    """Read days of events; return them, how many lie outside of observation, and counts."""
    names = SpanColumns(id, None, day, None, None)
    told = _read(outcomes, "outcomes", names, observed, drops_missing, OF_OUTCOMES)
    found = Outcomes(told.spans.unit, _whole(told.spans.start, observed.calendar, "outcomes", day))
    found = found.take(np.lexsort((found.day, found.unit)))
    return found, int(np.count_nonzero(~observed.contains(found))), told.counts


def read_eras(eras, labels, cases, drops_missing):
    """Read eras; return those of cases, the identifiers of exposures, and counts."""
    observed = cases.observed
    names = SpanColumns(*labels, None)
    told = _read(eras, "eras", names, observed, drops_missing, OF_ERAS)
    ids, rank = told.ranked()
    lines, is_open = told.spans, np.isnan(told.spans.stop)
    if is_open.any():
        if not drops_missing:
            raise ValueError(
                f"`eras` has {np.count_nonzero(is_open):,} line(s) without {labels[-1]!r}; fill in "
                "the last day, or pass missing='drop' to leave them out."
            )
        told.counts.missing += int(np.count_nonzero(is_open))
        lines = lines.take(~is_open)
    is_own = cases.number[lines.unit] >= 0
    lines = lines.take(is_own)
    start = _whole(lines.start, observed.calendar, "eras", labels[2])
    end = _whole(lines.stop, observed.calendar, "eras", labels[3])
    unit, code = cases.number[lines.unit], rank[lines.column].astype(np.int64)
    return Eras(unit, code, start, end), ids, told.counts


def _read(table, name, names, observed, drops_missing, arguments):
    subjects = observed.subjects
    told = read_spans(table, name, names, subjects, drops_missing, arguments=arguments, by_day=True)
    check_alike(f"`{name}`", told.calendar, "days of `periods` are", observed.calendar)
    if told.counts.unknown and not told.spans.unit.size:
        known = observed.subjects.ids[:1].tolist()[0]
        warn_of_strangers(name, told.counts.example, "`periods`", known)
    return told


def _whole(times, calendar, name, label):
    """Days as int64; the time of day of dates is cut off."""
    days = whole_days(times, calendar, f"`{name}`[{label!r}]")
    is_far = ~(np.abs(days) <= FARTHEST)
    if is_far.any():
        raise ValueError(
            f"`{name}`[{label!r}] has day {days[np.argmax(is_far)]:g}, beyond {FARTHEST:,}; "
            "correct it, or write the last day of observation for what does not end."
        )
    return days.astype(np.int64)


def choose_cases(observed, outcomes, naive, first_only):
    """Subjects with an outcome in observation, after a naive period, and an account of others."""
    account, n = Account(), observed.start.size
    is_left = np.ones(n, dtype=np.bool_)
    observed.note(account, "periods", outcomes, is_left)
    if first_only:
        is_first = np.diff(outcomes.unit, prepend=-1) != 0
        outcomes = outcomes.take(is_first)
        observed.note(account, "first outcome only", outcomes, is_left)
    if naive:
        observed = observed._replace(start=observed.start + naive)
        outcomes = outcomes.take(outcomes.day >= observed.start[outcomes.unit])
        is_left = observed.start <= observed.end
        observed.note(account, f"after {naive} naive days", outcomes, is_left)
    outcomes = outcomes.take(observed.contains(outcomes))
    is_left = np.bincount(outcomes.unit, minlength=n) > 0
    observed.note(account, "outcome in observation", outcomes, is_left)
    if not is_left.any():
        raise NothingToCompareError(
            f"none of {n:,} subjects has an outcome in observation; compare the days of `outcomes` "
            "with those of `periods`."
        )
    number = np.where(is_left, np.cumsum(is_left) - 1, -1)
    fields = (observed.subjects.ids, observed.start, observed.end)
    birth, early = (
        None if field is None else field[is_left]
        for field in (observed.birth, observed.ended_early)
    )
    outcomes = outcomes._replace(unit=number[outcomes.unit])
    cases = Cases(observed, number, *(field[is_left] for field in fields), birth, outcomes, early)
    return cases, account


def observe(
    cohort,
    periods,
    *,
    index="index_date",
    start="observation_start",
    end="observation_end",
    subject=None,
    **names,
) -> Cohort:
    """Find the period of observation in which the index date of each person lies.

    Parameters
    ----------
    cohort : Cohort or table
        Persons with their index dates.
    periods : DataFrame, Arrow table, relation of DuckDB, or path
        A line for each period of observation, as many as a person has: who it was, as the
        identifiers of the cohort, and its first and last day. Lines of others are not read.
    index : str, default="index_date"
        Column of the cohort with the day on which follow-up begins.
    start, end : str, default="observation_start" and "observation_end"
        Columns of `periods` with the first and the last day.
    subject : str, optional
        Column of the cohort that names the persons of `periods`, where persons have several
        lines; by default the identifiers.
    **names : str
        Of a table, its columns ``id=`` and ``treatment=``, if they have other names.

    Returns
    -------
    observed : Cohort
        Those whose index date lies in a period, with the columns `start` and `end` of that one,
        which `time_at_risk` reads; the others are in its attrition.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu.cohort import observe
    >>> persons = pd.DataFrame({"id": [1, 2], "treatment": [1, 0], "index_date": [120, 90]})
    >>> periods = pd.DataFrame({"id": [1, 1, 2], "observation_start": [0, 100, 95]})
    >>> periods["observation_end"] = [60, 300, 400]
    >>> observe(persons, periods).table
       id  treatment  index_date  observation_start  observation_end
    0   1          1         120                100              300
    """
    cohort = as_cohort(cohort, names)
    days = Days(cohort.table)
    first = days.of(index, "index", may_lack=True)
    table, who = read_whole(periods, "periods"), subject or cohort.id
    for column, argument in ((who, "subject"), (start, "start"), (end, "end")):
        require(table.columns, column, "periods", argument)
    persons = persons_of(cohort, subject)
    is_own, line, row = lines_of(persons, table[who], "periods")
    table = table.loc[is_own, list({start: None, end: None})]
    low, high = (days.read_all(table[column], f"`periods`[{column!r}]") for column in (start, end))
    is_inside = (low[line] <= first[row]) & (first[row] <= high[line])
    line, row = line[is_inside], row[is_inside]
    n_periods = np.bincount(row, minlength=len(persons))
    if (n_periods > 1).any():
        raise ValueError(
            f"`periods` has {n_periods.max():,} periods of {persons.iloc[np.argmax(n_periods)]!s} "
            "with the index date; a person is observed once at a time: join those that overlap."
        )
    cohort = cohort.keep(n_periods > 0, "index date in a period")
    found = table.iloc[line[np.argsort(row)]].set_axis(cohort.table.index)
    for column in found:
        cohort = add_column(cohort, column, found[column])
    return cohort
