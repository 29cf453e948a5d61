"""Follow-up of persons, in one or several periods, and the lines that lie in it."""

from typing import NamedTuple

import numpy as np

from .cutting import Spans
from .reading import Persons
from .times import check_alike, show_time, whole_days


class Periods(NamedTuple):
    """Line i of a table: `person` is followed over (start, stop]; times are since `origin`."""

    person: np.ndarray
    start: np.ndarray
    stop: np.ndarray
    origin: np.ndarray  # of every person
    calendar: str | None  # of the times, None of numbers
    by_day: bool = False  # whether the day before `stop` was given, the last one

    @property
    def n_persons(self):
        return self.origin.size

    @property
    def is_one_each(self):
        """Whether every person has one period, under his own number."""
        n = self.n_persons
        return self.person.size == n and (self.person == np.arange(n)).all()

    def show(self, start, stop, person):
        """An interval as the tables have it."""
        times = start, stop - self.by_day
        begin, end = (show_time(t + self.origin[person], self.calendar) for t in times)
        return f"{begin} to {end}" if self.by_day else f"({begin}, {end}]"


class Clipped(NamedTuple):
    """Lines of periods, and how many were left out or cut off."""

    lines: Spans
    n_empty: int
    n_outside: int
    n_clipped: int


def read_periods(persons: Persons, start, time, by_day=False) -> Periods:
    """Check from when to when persons are followed; without a column `start`, from 0.

    With `by_day`, `time` is the last day, and the period ends when that does.
    """
    stop, calendar = persons.times(time, "time")
    if start not in persons.table.columns and calendar is None:
        begin, of_start = np.zeros(stop.size), None
    else:
        begin, of_start = persons.times(start, "start")
    label = f"`{persons.name}`[{start!r}]"
    check_alike(label, of_start, f"those in {time!r} are", calendar)
    if by_day:
        begin = whole_days(begin, calendar, label)
        stop = whole_days(stop, calendar, f"`{persons.name}`[{time!r}]") + 1.0
    is_wrong = ~(begin < stop) | ~np.isfinite(begin) | ~np.isfinite(stop)
    if is_wrong.any():
        line = int(np.argmax(is_wrong))
        shown = (show_time(value[line], calendar) for value in (begin, stop - by_day))
        rule = "not be after" if by_day else "be before"
        remedy = "drop it."
        if not by_day and begin[line] == stop[line]:
            remedy = "drop it, or pass ends='inclusive' if times are days and the last one counts."
        raise ValueError(
            f"`{persons.name}` has {' to '.join(shown)} for {persons.ids[line]!s}, where {start!r} "
            f"must {rule} {time!r} ({np.count_nonzero(is_wrong):,} such line(s)); correct or "
            f"{remedy}"
        )
    origin = np.zeros(len(persons.known))
    if calendar is not None:
        origin[:] = np.inf
        np.minimum.at(origin, persons.number, begin)
    shift = origin[persons.number]
    periods = Periods(persons.number, begin - shift, stop - shift, origin, calendar, by_day)
    if not periods.is_one_each:
        _check_apart(periods, persons)
    return periods


def _check_apart(periods, persons):
    order = np.lexsort((periods.start, periods.person))
    first, second = order[:-1], order[1:]
    is_wrong = (periods.person[first] == periods.person[second]) & (
        periods.start[second] < periods.stop[first]
    )
    if is_wrong.any():
        pair = first[np.argmax(is_wrong)], second[np.argmax(is_wrong)]
        shown = [
            periods.show(periods.start[line], periods.stop[line], periods.person[line])
            for line in pair
        ]
        raise ValueError(
            f"`{persons.name}` has overlapping lines of {persons.ids[pair[0]]!s}, "
            f"{' and '.join(shown)}; a person is at risk once at a time."
        )


def clip(lines: Spans, periods: Periods) -> Clipped:
    """Lines of persons become lines of their periods; those that lie in none are left out."""
    is_empty = lines.start >= lines.stop
    n_empty = int(np.count_nonzero(is_empty))
    if n_empty:
        lines = lines.take(~is_empty)
    if not periods.is_one_each:
        return _spread(lines, periods, n_empty)
    low, high = periods.start[lines.unit], periods.stop[lines.unit]
    is_inside = (lines.start < high) & (lines.stop > low)
    is_cut = (lines.start < low) | ((lines.stop > high) & (lines.stop < np.inf))
    n_clipped = int(np.count_nonzero(is_cut & is_inside))
    n_outside = int(np.count_nonzero(~is_inside))
    return Clipped(lines.take(is_inside) if n_outside else lines, n_empty, n_outside, n_clipped)


def _spread(lines, periods, n_empty):
    """Lines of persons with several periods, once for each of these that they touch."""
    order = np.argsort(periods.person, kind="stable")
    counts = np.bincount(periods.person, minlength=periods.n_persons)
    first = np.cumsum(counts) - counts
    copies = counts[lines.unit]
    source = np.repeat(np.arange(lines.unit.size), copies)
    position = np.arange(source.size) - np.repeat(np.cumsum(copies) - copies, copies)
    unit = order[first[lines.unit[source]] + position]
    low, high = periods.start[unit], periods.stop[unit]
    is_inside = (lines.start[source] < high) & (lines.stop[source] > low)
    source, unit = source[is_inside], unit[is_inside]
    within = np.minimum(lines.stop[source], high[is_inside]) - np.maximum(
        lines.start[source], low[is_inside]
    )
    is_left = np.zeros(lines.unit.size, dtype=np.bool_)
    is_left[source] = True
    covered = np.bincount(source, within, minlength=lines.unit.size)
    is_cut = is_left & (lines.stop < np.inf) & (covered < lines.stop - lines.start)
    spread = lines.take(source)._replace(unit=unit.astype(np.int32))
    n_outside = int(np.count_nonzero(~is_left))
    return Clipped(spread, n_empty, n_outside, int(np.count_nonzero(is_cut)))
