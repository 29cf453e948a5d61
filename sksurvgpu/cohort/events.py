"""Days of a cohort and of the events of its persons, as they are read from tables."""

from __future__ import annotations

from dataclasses import dataclass

import narwhals as nw
import numpy as np
from pandas import Index
from pandas.api.types import infer_dtype, is_numeric_dtype

from ..data.outcomes.fields import CODES
from ..data.sources import open_source
from ..data.vectors import check_whole
from ..tables.reading import require, warn_of_strangers
from ..tables.times import TimeReader
from .checks import check_exact, require_column


@dataclass(frozen=True, eq=False)
class CohortEvents:
    """Row of the cohort, day and code of each event."""

    n_rows: int
    row: np.ndarray
    day: np.ndarray
    code: np.ndarray

    def any_between(self, after, before):
        """Whether rows have an event after one day and before another."""
        is_between = (self.day > after[self.row]) & (self.day < before[self.row])
        return np.bincount(self.row[is_between], minlength=self.n_rows) > 0

    def join(self, day, code) -> CohortEvents:
        """Add another event of those rows that have a day of it."""
        row = np.flatnonzero(np.isfinite(day))
        return CohortEvents(
            self.n_rows,
            np.append(self.row, row),
            np.append(self.day, day[row]),
            np.append(self.code, np.full(len(row), code)),
        )

    def first(self, low, high):
        """Code and day of the first event from one day to another; code 0 where there is none."""
        inside = np.flatnonzero((self.day >= low[self.row]) & (self.day <= high[self.row]))
        row, day, code = self.row[inside], self.day[inside], self.code[inside]
        first = np.full(self.n_rows, np.inf)
        np.minimum.at(first, row, day)
        is_first = day == first[row]
        smallest = np.full(self.n_rows, np.iinfo(np.int64).max)
        np.minimum.at(smallest, row[is_first], code[is_first])
        return np.where(np.isfinite(first), smallest, 0), first


class Days:
    """Reader of columns of days, which are all of them dates, or all of them numbers."""

    def __init__(self, table):
        self.table, self._times = table, TimeReader("columns before it have", by_day=True)

    def of(self, column, argument, may_lack=False) -> np.ndarray:
        """Days of a column of the cohort as float64, NaN where one is missing and may be."""
        require_column(self.table, column, argument)
        days = self.read(self.table[column], f"{column!r}")
        n_missing = np.count_nonzero(np.isnan(days))
        if n_missing and not may_lack:
            raise ValueError(
                f"`{argument}` names column {column!r}, which is missing in {n_missing:,} row(s); "
                "fill it, such as with the end of observation, or leave them out by Cohort.keep."
            )
        return days

    def read_all(self, series, label) -> np.ndarray:
        """Days of a column of another table, none of them missing."""
        days = self.read(series, label)
        n_missing = np.count_nonzero(np.isnan(days))
        if n_missing:
            raise ValueError(
                f"{label} is missing in {n_missing:,} line(s) of persons of the cohort; fill or "
                "drop them."
            )
        return days

    def read(self, series, label) -> np.ndarray:
        """Days of any column."""
        return self._times.read(nw.from_native(series, series_only=True), label)


def read_events(outcomes, persons, days, columns) -> CohortEvents:
    """Events of the rows of a cohort; those of a person are those of all its rows.

    `persons` has that of each row, `columns` name those of the person, the day and the code, or
    None.
    """
    source = open_source(outcomes, "outcomes")
    wanted = [column for column in columns if column is not None]
    for column, argument in zip(wanted, ("subject", "day", "event"), strict=False):
        require(source.columns, column, "outcomes", argument)
    lines = source.whole(wanted)
    who, date, event = columns
    is_own, line, row = lines_of(persons, lines[who], "outcomes")
    lines = lines[is_own]
    day = days.read_all(lines[date], f"`outcomes`[{date!r}]")
    code = np.ones(len(lines), np.int64) if event is None else _codes(lines[event], event)
    return CohortEvents(len(persons), row, day[line], code[line])


def persons_of(cohort, subject):
    """Person of each row."""
    if subject is None:
        return cohort.table[cohort.id]
    require_column(cohort.table, subject, "subject")
    persons = cohort.table[subject]
    if persons.isna().any():
        raise ValueError(
            f"`subject` names column {subject!r}, which is missing in {persons.isna().sum():,} "
            "row(s); fill it, or leave them out by Cohort.keep."
        )
    return persons


def lines_of(persons, others, name):
    """Which lines are of the cohort, and pairs of one of these and a row of its person."""
    number, distinct = persons.factorize()
    _check_same_kind(persons, others, f"`{name}`[{others.name!r}]")
    found = Index(distinct).get_indexer(others)
    if len(others) and len(persons) and found.max() < 0:
        example, known = others.tolist()[0], persons.tolist()[0]
        warn_of_strangers(name, example, "the cohort", known)
    is_own = found >= 0
    return is_own, *_rows_of(found[is_own], number, len(distinct))


def _codes(values, column):
    codes = check_whole(values, column, CODES)
    if (codes == 0).any():
        raise ValueError(
            f"`outcomes`[{column!r}] is 0 in {np.count_nonzero(codes == 0):,} line(s); kinds of "
            "event are 1, 2, ..., drop lines without an event."
        )
    return codes


def _rows_of(found, number, n_persons):
    """Pairs of an event and a row of the cohort: each event with all rows of its person."""
    n_of = np.bincount(number, minlength=n_persons)
    times = n_of[found]
    line = np.repeat(np.arange(len(found)), times)
    within = np.arange(len(line)) - np.repeat(np.cumsum(times) - times, times)
    rows = np.argsort(number, kind="stable")
    return line, rows[(np.cumsum(n_of) - n_of)[found][line] + within]


def _check_same_kind(persons, others, label):
    """Refuse numbers where the cohort has text, or the other way round: nobody would be found."""
    check_exact(others, label)
    is_number, other_is = map(_are_numbers, (persons, others))
    if len(others) and len(persons) and is_number != other_is:
        raise TypeError(
            f"{label} has {'text' if is_number else 'numbers'}, the cohort has "
            f"{'numbers' if is_number else 'text'} for its persons; convert one of them."
        )


def _are_numbers(ids):
    """Whether identifiers are numbers, also where they are categories, or objects one by one."""
    ids = getattr(ids.dtype, "categories", ids)
    kinds = ("integer", "floating", "mixed-integer-float", "decimal")
    return is_numeric_dtype(ids) or infer_dtype(ids) in kinds
