"""Tables are read by what their columns are: identifiers, numbers, times.

A `LineReader` takes frames of any source, a batch at a time, leaves out lines with a missing entry
or says where the first one is, and turns columns into arrays. `Persons` is a table that is held as
a whole, with a number for each identifier, which lines of other tables are looked up by.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import narwhals as nw
import numpy as np
from pandas import concat

from .._warnings import warn
from ..data.sources import open_source, to_pandas
from .ids import id_at, is_missing, listed, read_ids
from .numbering import ABSENT, Ids
from .times import read_times

BATCH_SIZE = 1 << 20  # lines
DEFAULT_VALUE = "value"


def require(columns, label, name, argument, more=""):
    """Check that a table has a column."""
    if label not in columns:
        raise ValueError(
            f"`{name}` has no column {label!r}; name one of its columns "
            f"({', '.join(map(repr, columns))}) by {argument}={more}."
        )


def require_beside(labels, columns):
    """Check that `outcomes` has the columns that are to be put on the right of X."""
    absent = [label for label in labels if label not in columns]
    if absent:
        raise ValueError(f"`with_columns` names {absent[0]!r}, which `outcomes` does not have.")


@dataclass
class LineCounts:
    """Lines read, and those that were left out, by reason."""

    lines: int = 0
    missing: int = 0
    undated: int = 0  # they have no day, or their row has no index date
    unknown: int = 0  # they are of nobody among the outcomes
    unused: int = 0  # their column is not among those asked for
    outside: int = 0  # of all windows
    example: Any = field(default=None, compare=False)  # of an identifier that is not known

    def note_unknown(self, ids, is_known):
        """Count lines of identifiers that are not known."""
        n_unknown = is_known.size - int(np.count_nonzero(is_known))
        if n_unknown and self.example is None:
            self.example = id_at(ids, np.argmin(is_known))
        self.unknown += n_unknown

    def report_unknown(self, unknown, who):
        """Say that there are such lines, as the option `unknown` wants; `who` should be known."""
        if not self.unknown or unknown == "ignore":
            return
        message = (
            f"`covariates` has {self.unknown:,} line(s) whose {who} is not in `outcomes`, "
            f"e.g. {self.example!s}"
        )
        if unknown == "error":
            raise ValueError(f"{message}; pass unknown='ignore' to leave them out.")
        warn(f"{message}; they are left out. unknown='ignore' silences this.")


@dataclass(frozen=True)
class LineReader:
    """Columns of a table of lines, by what they are."""

    name: str  # of the argument in messages
    columns: Mapping[str, str]  # name of the column that has each part of a line
    drops_missing: bool  # lines with a missing entry; else they are an error
    may_lack: tuple[str, ...] = ()  # parts of which entries may be missing

    @property
    def labels(self):
        """Names of the columns to be read, each once."""
        return [*dict.fromkeys(self.columns.values())]

    def label(self, part):
        """How messages call a column."""
        return f"`{self.name}`[{self.columns[part]!r}]"

    def lines(self, frames, counts: LineCounts):
        """Frames without the lines that miss an entry, and no empty ones."""
        for frame in frames:
            is_absent = self._find_missing(frame, counts)
            counts.lines += len(frame)
            if is_absent.any():
                frame = frame.filter((~is_absent).tolist())
            if len(frame):
                yield frame

    def _find_missing(self, frame, counts):
        is_absent = np.zeros(len(frame), dtype=np.bool_)
        for part, column in self.columns.items():
            if part in self.may_lack:
                continue
            is_absent_here = is_missing(frame.get_column(column))
            if is_absent_here.any() and not self.drops_missing:
                line = counts.lines + int(np.argmax(is_absent_here))
                raise ValueError(
                    f"`{self.name}` has no {column!r} in line {line:,}; pass missing='drop' to "
                    "leave out lines with a missing entry."
                )
            n_more = int(np.count_nonzero(is_absent_here & ~is_absent))
            if part == "day":
                counts.undated += n_more
            else:
                counts.missing += n_more
            is_absent |= is_absent_here
        return is_absent

    def series(self, frame, part):
        """A column as it is."""
        return frame.get_column(self.columns[part])

    def ids(self, frame, part):
        """Identifiers, int64 or texts."""
        return read_ids(self.series(frame, part), self.label(part))

    def numbers(self, frame, part):
        """Numbers or flags as float64, some of which may not be finite."""
        series = self.series(frame, part)
        if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
            raise TypeError(f"{self.label(part)} has dtype {series.dtype}; pass numbers.")
        return series.to_numpy().astype(np.float64)


class Persons(NamedTuple):
    """A table in pandas, the identifiers of its lines, their numbers by person, and all numbers."""

    table: Any
    ids: np.ndarray
    number: np.ndarray
    known: Ids
    name: str

    def times(self, label, argument):
        """Times of one of its columns, none missing, and their calendar."""
        series = self.series(label, argument)
        if is_missing(series).any():
            raise ValueError(f"`{self.name}`[{label!r}] has missing entries; fill or drop them.")
        return read_times(series, f"`{self.name}`[{label!r}]")

    def series(self, label, argument):
        """One of its columns."""
        require(self.table.columns, label, self.name, argument)
        return nw.from_native(self.table[label], series_only=True)

    def find(self, ids, label, others, counts: LineCounts):
        """Number of the person of every line, ABSENT of somebody unknown, and who is known."""
        number = self.known.find(ids, label, others)
        is_known = number != ABSENT
        counts.note_unknown(ids, is_known)
        return number, is_known


def read_persons(table, name, id, *, argument="id", each="person", size=BATCH_SIZE) -> Persons:
    """Read a table that is held as a whole, with one line for `each` or several."""
    source = open_source(table, name)
    require(source.columns, id, name, argument)
    label = f"`{name}`[{id!r}]"
    parts, ids, numbers, known = [], [], [], Ids()
    for frame in source.open(source.columns, size):
        series = frame.get_column(id)
        if is_missing(series).any():
            raise ValueError(f"`{name}` has rows without {id!r}; drop or number them.")
        if not len(frame):
            continue
        found = read_ids(series, label)
        parts.append(to_pandas(frame, name))
        ids.append(listed(found))
        numbers.append(known.add(found, label, "other rows"))
    if not parts:
        raise ValueError(f"`{name}` has no rows; pass one line for each {each}.")
    table = parts[0] if len(parts) == 1 else concat(parts, ignore_index=True)
    return Persons(table, np.concatenate(ids), np.concatenate(numbers), known, name)


def warn_of_strangers(name, example, others, known):
    """Warn of a table whose identifiers are all unknown; `known` is one of those of `others`."""
    warn(
        f"no line of `{name}` is of anybody in {others}: it has identifiers like {example!r}, where"
        f" these are like {known!r}; compare both columns.",
    )
