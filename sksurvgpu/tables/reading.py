"""Tables of persons and of what happened to them from when to when, as numbers.

Times are numbers, or dates, of which days are counted by the clocks of their time zone, so that a
day is one day when clocks change, too. Lines are read once, in batches, and kept as 32 bytes each.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np

from ..data.sources import open_source, read_whole
from .cutting import Lines
from .ids import as_ids, id_at, listed, new_ids, read_ids
from .lines import DEFAULT_VALUE, check_kind, is_missing
from .windows import FROM_TEXT, MICROSECONDS, read_moments, unlike

__all__ = [
    "LineCounts",
    "LineNames",
    "Persons",
    "Told",
    "read_lines",
    "read_persons",
    "read_times",
    "require",
    "show_time",
    "warn_of_strangers",
    "whole_days",
]

BATCH_SIZE = 1 << 20
# The arguments that name the columns of lines, and what else could be done without a column.
ARGUMENTS = {
    "covariate": ("covariate_id", "; or pass {name: table} for a table of one covariate"),
    "stop": ("stop", "; pass stop=None if a line holds until the next one"),
}


class Persons(NamedTuple):
    """A table in pandas, the identifiers of its lines, their numbers by person, and all numbers."""

    table: Any
    ids: np.ndarray
    number: np.ndarray
    known: Any
    name: str

    def times(self, label, argument):
        """Times of one of its columns, none missing, and their calendar (see `read_times`)."""
        series = self.series(label, argument)
        if is_missing(series).any():
            raise ValueError(f"`{self.name}`[{label!r}] has missing entries; fill or drop them.")
        return read_times(series, f"`{self.name}`[{label!r}]")

    def series(self, label, argument):
        """One of its columns."""
        require(self.table.columns, label, self.name, argument)
        return nw.from_native(self.table[label], series_only=True)


@dataclass
class LineCounts:
    """Lines read, and those that were left out, by reason."""

    lines: int = 0
    missing: int = 0
    unknown: int = 0
    example: Any = None  # of an identifier that is not known


class LineNames(NamedTuple):
    """Names of the columns of lines; None where there is no such column."""

    id: str
    covariate: str | None
    start: str
    stop: str | None
    value: str | Mapping | None  # a mapping is by covariate, of tables by covariate


@dataclass
class Told:
    """Lines as they were told, in this order, and what is known of them.

    Units are persons; a stop is NaN where none is given.
    """

    lines: Lines
    covariate_ids: np.ndarray
    calendar: str | None  # of the times of lines, "" without any
    counts: LineCounts = field(default_factory=LineCounts)

    def ranked(self, *, sorts=True):
        """Identifiers of covariates, ascending or as they came, and where each number is there."""
        order = np.arange(self.covariate_ids.size)
        if sorts:
            order = np.argsort(self.covariate_ids)
        return self.covariate_ids[order], np.argsort(order).astype(np.int32)


def read_persons(table, name, id) -> Persons:
    """Read a table that is held as a whole."""
    whole = read_whole(table, name)
    require(whole.columns, id, name, "id")
    series = nw.from_native(whole[id], series_only=True)
    if not len(whole):
        raise ValueError(f"`{name}` has no rows; pass one line for each person.")
    if is_missing(series).any():
        raise ValueError(f"`{name}` has rows without {id!r}; drop or number them.")
    ids = read_ids(series, f"`{name}`[{id!r}]")
    known = new_ids(ids)
    return Persons(whole, listed(ids), known.add(ids), known, name)


def read_lines(tables, name, columns, persons, drops_missing, arguments=None, by_day=False) -> Told:
    """Read what happened to persons.

    Parameters
    ----------
    tables : table, or mapping from covariate to table
    name : str
        The argument in messages.
    columns : LineNames
    persons : Persons
    drops_missing : bool
        Whether lines without identifier, start or value are left out; else they are an error.
    arguments : mapping from field of LineNames to (str, str), optional
        Name of the argument that names the column, and what else messages advise.
    by_day : bool, default=False
        Whether times are days; the time of day of dates is cut off.
    """
    _check_values(columns.value, tables, name)
    reader = _Reader(columns, persons, drops_missing, arguments or ARGUMENTS, by_day)
    if isinstance(tables, Mapping):
        for covariate, table in tables.items():
            reader.read(table, f"{name}[{covariate!r}]", covariate)
    else:
        reader.read(tables, name, None if columns.covariate else 0)
    return reader.told()


def _check_values(value, tables, name):
    if not isinstance(value, Mapping):
        return
    absent = set(value) - set(tables if isinstance(tables, Mapping) else ())
    if absent:
        raise ValueError(
            f"`value` names {next(iter(absent))!r}, which is no table of `{name}`; a mapping "
            "`value` goes with a mapping of tables, and has some of its names."
        )


class _Reader:
    def __init__(self, columns, persons, drops_missing, arguments, by_day):
        self._columns, self._persons, self._drops_missing = columns, persons, drops_missing
        self._by_day = by_day
        self._arguments = arguments
        self._covariates: Any = None
        self._calendar: str | None = ""
        self._counts = LineCounts()
        self._parts = [Lines(*(np.empty(0, dtype) for dtype in ("i4", "i4", "f8", "f8", "f8")))]

    def read(self, table, name, covariate):
        source = open_source(table, name)
        wanted = self._choose(source.columns, name, covariate)
        labels = list(dict.fromkeys(label for label in wanted if label is not None))
        for frame in source.open(labels, BATCH_SIZE):
            frame = self._without_missing(frame, wanted, name)
            if len(frame):
                self._parts.append(self._numbers(frame, wanted, name, covariate))

    def told(self):
        parts = self._parts
        if len(parts) == 2:
            lines = parts[1]
        else:
            lines = Lines(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))
        ids = np.empty(0) if self._covariates is None else self._covariates.distinct()
        return Told(lines, ids, self._calendar, self._counts)

    def _choose(self, columns, name, covariate):
        id, of_covariate, start, stop, value = self._columns
        if covariate is not None:
            of_covariate = None
        if isinstance(value, Mapping):
            value = value.get(covariate, DEFAULT_VALUE)
        if value == DEFAULT_VALUE and value not in columns:
            others = sorted(set(columns) - {id, of_covariate, start, stop})
            if others:
                raise ValueError(
                    f"`{name}` has no column {value!r} of values, but "
                    f"{', '.join(map(repr, others))}; name one by value=, which may be a mapping "
                    "by table, or pass value=None if every line stands for a 1."
                )
            value = None
        wanted = LineNames(id, of_covariate, start, stop, value)
        for argument, label in zip(LineNames._fields, wanted, strict=True):
            if label is not None:
                named, more = self._arguments.get(argument, (argument, ""))
                require(columns, label, name, named, more)
        return wanted

    def _without_missing(self, frame, wanted, name):
        first = self._counts.lines
        self._counts.lines += len(frame)
        is_absent = np.zeros(len(frame), dtype=np.bool_)
        for argument, label in zip(LineNames._fields, wanted, strict=True):
            if label is None or argument == "stop":
                continue
            is_absent_here = is_missing(frame.get_column(label))
            if is_absent_here.any() and not self._drops_missing:
                line = first + int(np.argmax(is_absent_here))
                raise ValueError(
                    f"`{name}` has no {label!r} in line {line:,}; pass missing='drop' to leave out "
                    "lines with a missing entry."
                )
            is_absent |= is_absent_here
        n_absent = int(np.count_nonzero(is_absent))
        self._counts.missing += n_absent
        return frame.filter((~is_absent).tolist()) if n_absent else frame

    def _numbers(self, frame, wanted, name, covariate) -> Lines:
        ids = read_ids(frame.get_column(wanted.id), f"`{name}`[{wanted.id!r}]")
        known = self._persons.known
        check_kind(known, ids, f"`{name}`[{wanted.id!r}]", f"`{self._persons.name}`")
        unit = known.find(ids)
        start = self._times(frame, wanted.start, name)
        stop = np.full(len(frame), np.nan)
        if wanted.stop is not None:
            stop = self._times(frame, wanted.stop, name)
        value = self._values(frame, wanted.value, name)
        self._check_order(start, stop, ids, name)
        is_known = unit >= 0
        lines = Lines(unit, self._covariate(frame, wanted, name, covariate), start, stop, value)
        if is_known.all():
            return lines
        if self._counts.example is None:
            self._counts.example = id_at(ids, np.argmin(is_known))
        self._counts.unknown += int(np.count_nonzero(~is_known))
        return lines.take(is_known)

    def _check_order(self, start, stop, ids, name):
        is_wrong = stop < start
        if is_wrong.any():
            line = int(np.argmax(is_wrong))
            shown = (show_time(times[line], self._calendar) for times in (start, stop))
            raise ValueError(
                f"`{name}` has a line of {id_at(ids, line)!s} that ends before it starts: "
                f"{' to '.join(shown)} ({np.count_nonzero(is_wrong):,} such line(s)); correct or "
                "drop it."
            )
        if not np.isfinite(start).all():
            raise ValueError(f"`{name}` has an infinite start; correct or drop such lines.")

    def _times(self, frame, label, name):
        series = frame.get_column(label)
        if is_missing(series).all():  # of whatever type: a batch, or a column, without any
            return np.full(len(frame), np.nan)
        times, calendar = read_times(series, f"`{name}`[{label!r}]")
        if self._calendar not in ("", calendar):
            raise unlike(f"`{name}`[{label!r}]", calendar, "times before it are", self._calendar)
        self._calendar = calendar
        return whole_days(times, calendar, f"`{name}`[{label!r}]") if self._by_day else times

    def _values(self, frame, label, name):
        if label is None:
            return np.ones(len(frame))
        series = frame.get_column(label)
        if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
            raise TypeError(f"`{name}`[{label!r}] has dtype {series.dtype}; pass numbers.")
        values = series.to_numpy().astype(np.float64)
        if not np.isfinite(values).all():
            raise ValueError(f"`{name}`[{label!r}] has an infinite value; correct or drop it.")
        return values

    def _covariate(self, frame, wanted, name, covariate):
        if wanted.covariate is not None:
            ids = read_ids(frame.get_column(wanted.covariate), f"`{name}`[{wanted.covariate!r}]")
        else:
            kind = np.int64 if isinstance(covariate, int) else object
            ids = as_ids(np.array([covariate], dtype=kind))
        if self._covariates is None:
            self._covariates = new_ids(ids)
        check_kind(self._covariates, ids, f"`{name}`", "other covariates")
        codes = self._covariates.add(ids)
        return codes if wanted.covariate is not None else np.repeat(codes, len(frame))


def warn_of_strangers(name, example, others, known, stacklevel):
    """Warn of a table whose identifiers are all unknown; `known` is one of those of `others`."""
    warnings.warn(
        f"no line of `{name}` is of anybody in {others}: it has identifiers like {example!r}, where"
        f" these are like {known!r}; compare both columns.",
        stacklevel=stacklevel,
    )


def require(columns, label, name, argument, more=""):
    """Check that a table has a column."""
    if label not in columns:
        raise ValueError(
            f"`{name}` has no column {label!r}; name one of its columns "
            f"({', '.join(map(repr, columns))}) by {argument}={more}."
        )


def read_times(series, label):
    """Times as float64, NaN where there is none, and their calendar.

    That is None of numbers; dates, of which the times are days, may have a time zone.
    """
    calendar, moments = read_moments(series)
    if calendar is not None:
        days = moments.astype(np.int64) / MICROSECONDS
        days[np.isnat(moments)] = np.nan
        return days, calendar
    if not series.dtype.is_numeric():
        raise TypeError(
            f"{label} has dtype {series.dtype}; times are numbers or dates: {FROM_TEXT}, spans of "
            "time to numbers."
        )
    values = series.to_numpy()
    if values.dtype.kind not in "iuf":
        values = series.cast(nw.Float64).to_numpy()
    return values.astype(np.float64, copy=False), None


def whole_days(times, calendar, label):
    """Days as whole numbers, NaN where there is none; the time of day of dates is cut off."""
    days = np.floor(times)
    if calendar is None and (days < times).any():
        shown = times[np.argmax(days < times)]
        raise ValueError(f"{label} has {shown:g}; days are whole numbers, or dates.")
    return days


def show_time(time, calendar):
    """A time as its table has it."""
    if calendar is None:
        return f"{time:g}"
    moment = np.datetime64(round(time * MICROSECONDS), "us")
    return str(moment.astype("datetime64[D]") if time == np.floor(time) else moment)
