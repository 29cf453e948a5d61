"""Lines that hold from one time to another, read as numbers: person, covariate, times, value.

They are read once, in batches, and kept as 32 bytes each.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ..data.sources import open_source
from .cutting import Spans
from .ids import as_ids, id_at, is_missing
from .numbering import Ids
from .reading import BATCH_SIZE, DEFAULT_VALUE, LineCounts, LineReader, Persons, require
from .times import TimeReader, show_time

# The arguments that name the columns of lines, and what else could be done without a column.
ARGUMENTS = {
    "covariate": ("covariate_id", "; or pass {name: table} for a table of one covariate"),
    "stop": ("stop", "; pass stop=None if a line holds until the next one"),
}


class SpanColumns(NamedTuple):
    """Names of the columns of lines; None where there is no such column."""

    id: str
    covariate: str | None
    start: str
    stop: str | None
    value: str | Mapping | None  # a mapping is by covariate, of tables by covariate


class SpanTable:
    """Lines of persons as they were read, from one table or several, with `counts` of them."""

    def __init__(self, persons, drops_missing, arguments, by_day):
        self.counts = LineCounts()
        self._persons, self._arguments = persons, arguments
        self._drops_missing = drops_missing
        self._times = TimeReader("times before it are", by_day)
        self._covariates = Ids()
        self._parts: list[Spans] = []

    @property
    def calendar(self) -> str | None:
        """Calendar of the times of lines, "" without any."""
        return self._times.calendar

    @property
    def spans(self) -> Spans:
        """All lines, of which units are persons; a stop is NaN where none is given."""
        nothing = Spans(*(np.empty(0, dtype) for dtype in ("i4", "i4", "f8", "f8", "f8")))
        if len(self._parts) != 1:
            self._parts = [Spans.join([nothing, *self._parts])]
        return self._parts[0]

    def ranked(self, *, sorts=True):
        """Identifiers of covariates, ascending or as they came, and where each number is there."""
        ids = self._covariates.distinct()
        order = np.argsort(ids) if sorts else np.arange(ids.size)
        return ids[order], np.argsort(order).astype(np.int32)

    def add(self, table, name, columns: SpanColumns, covariate=0):
        """Read a table, which is of one covariate where it has no column of them."""
        source = open_source(table, name)
        chosen = _choose(source.columns, name, columns, self._arguments)
        reader = LineReader(name, chosen, self._drops_missing, ("stop",))
        for frame in reader.lines(source.open(reader.labels, BATCH_SIZE), self.counts):
            self._parts.append(self._number(frame, reader, covariate))

    def _number(self, frame, reader, covariate) -> Spans:
        ids, others = reader.ids(frame, "id"), f"`{self._persons.name}`"
        unit, is_known = self._persons.find(ids, reader.label("id"), others, self.counts)
        start, stop = (self._read_times(frame, reader, part) for part in ("start", "stop"))
        value = np.ones(len(frame))
        if "value" in reader.columns:
            value = reader.numbers(frame, "value")
            if not np.isfinite(value).all():
                label = reader.label("value")
                raise ValueError(f"{label} has an infinite value; correct or drop it.")
        self._check_order(start, stop, ids, reader.name)
        spans = Spans(unit, self._number_covariates(frame, reader, covariate), start, stop, value)
        return spans if is_known.all() else spans.take(is_known)

    def _check_order(self, start, stop, ids, name):
        is_wrong = stop < start
        if is_wrong.any():
            line = int(np.argmax(is_wrong))
            shown = (show_time(times[line], self.calendar) for times in (start, stop))
            raise ValueError(
                f"`{name}` has a line of {id_at(ids, line)!s} that ends before it starts: "
                f"{' to '.join(shown)} ({np.count_nonzero(is_wrong):,} such line(s)); correct or "
                "drop it."
            )
        if not np.isfinite(start).all():
            raise ValueError(f"`{name}` has an infinite start; correct or drop such lines.")

    def _read_times(self, frame, reader, part):
        """Times of a column, NaN where there is none."""
        if part not in reader.columns or is_missing(reader.series(frame, part)).all():
            return np.full(len(frame), np.nan)  # a column without any time may be of any type
        return self._times.read(reader.series(frame, part), reader.label(part))

    def _number_covariates(self, frame, reader, covariate):
        if "covariate" in reader.columns:
            ids = reader.ids(frame, "covariate")
        else:
            kind = np.int64 if isinstance(covariate, int) else object
            ids = as_ids(np.array([covariate], dtype=kind))
        codes = self._covariates.add(ids, f"`{reader.name}`", "other covariates")
        return codes if "covariate" in reader.columns else np.repeat(codes, len(frame))


def read_spans(
    tables,
    name,
    columns: SpanColumns,
    persons: Persons,
    drops_missing,
    *,
    arguments=None,
    by_day=False,
) -> SpanTable:
    """Read what happened to persons, from a table or a mapping from covariate to table.

    The argument is called `name` in messages. Lines without identifier, start or value are left
    out if it `drops_missing`, else they are an error. `arguments` have, by field of SpanColumns,
    the argument that names the column, and what else messages advise. With `by_day` the time of day
    of dates is cut off.
    """
    value = columns.value
    _check_values(value, tables, name)
    read = SpanTable(persons, drops_missing, arguments or ARGUMENTS, by_day)
    if not isinstance(tables, Mapping):
        read.add(tables, name, columns)
        return read
    for covariate, table in tables.items():
        of_table = value.get(covariate, DEFAULT_VALUE) if isinstance(value, Mapping) else value
        wanted = columns._replace(covariate=None, value=of_table)
        read.add(table, f"{name}[{covariate!r}]", wanted, covariate)
    return read


def _check_values(value, tables, name):
    if not isinstance(value, Mapping):
        return
    absent = set(value) - set(tables if isinstance(tables, Mapping) else ())
    if absent:
        raise ValueError(
            f"`value` names {next(iter(absent))!r}, which is no table of `{name}`; a mapping "
            "`value` goes with a mapping of tables, and has some of its names."
        )


def _choose(columns, name, wanted: SpanColumns, arguments):
    """Names of the columns to be read, by what they are; no values where there are none."""
    if wanted.value == DEFAULT_VALUE and wanted.value not in columns:
        others = sorted(set(columns) - set(wanted[:-1]))
        if others:
            raise ValueError(
                f"`{name}` has no column {wanted.value!r} of values, but "
                f"{', '.join(map(repr, others))}; name one by value=, which may be a mapping "
                "by table, or pass value=None if every line stands for a 1."
            )
        wanted = wanted._replace(value=None)
    chosen = {part: label for part, label in wanted._asdict().items() if label is not None}
    for part, label in chosen.items():
        require(columns, label, name, *arguments.get(part, (part,)))
    return chosen
