"""Lines of a long table as numbers: row, column and value, with what was left out counted."""

from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import narwhals as nw
import numpy as np

from .ids import ABSENT, id_at, is_missing, new_ids, read_ids, take
from .windows import read_days

__all__ = ["Counts", "Found", "Lines", "check_kind", "choose_columns"]

DEFAULT_VALUE = "value"
NUMBERS = {3: "three", 4: "four"}


@dataclass
class Counts:
    """Lines read, and those that were left out, by reason."""

    lines: int = 0
    missing: int = 0
    undated: int = 0  # they have no day, or their row has no index date
    unknown: int = 0  # their row is not among those of the outcomes
    unused: int = 0  # their column is not among those asked for
    outside: int = 0  # of all windows


class Found(NamedTuple):
    """Columns in their order: identifier, window, what becomes of several lines, number."""

    ids: np.ndarray
    window: np.ndarray
    policies: np.ndarray
    order: np.ndarray

    def kept(self, is_kept, names):
        """Identifiers of some of the columns, and the names of their windows."""
        return self.ids[is_kept], np.array(names, dtype=object)[self.window[is_kept]]


def choose_columns(columns, row_id, covariate_id, value, day=None):
    """Names of the columns to be read, by what they are; no values where there are none."""
    named = {"row_id": row_id, "covariate_id": covariate_id, "value": value, "day": day}
    if day is None:
        del named["day"]
    listed = ", ".join(map(repr, columns))
    for argument in ("row_id", "covariate_id", "day"):
        if named.get(argument, row_id) not in columns:
            raise ValueError(
                f"`covariates` has no column {named[argument]!r}; name one of its columns "
                f"({listed}) by {argument}=."
            )
    if len(set(named.values())) < len(named):
        raise ValueError(
            f"{_in_words([f'`{argument}`' for argument in named])} are "
            f"{_in_words(map(repr, named.values()))}; name {NUMBERS[len(named)]} different columns."
        )
    if value is not None and value not in columns:
        others = [label for label in columns if label not in named.values()]
        if others or value != DEFAULT_VALUE:
            raise ValueError(
                f"`covariates` has no column {value!r} of values; name one of its columns "
                f"({listed}) by value=, or pass value=None if every line stands for a 1."
            )
    if value not in columns:
        del named["value"]
    return named


def _in_words(labels):
    *first, last = labels
    return f"{', '.join(first)} and {last}"


class Lines:
    """Readers of a long table's frames, which share the numbers of its covariates.

    Parameters
    ----------
    labels : dict
        Names of the columns of the table, as `choose_columns` gives them.
    columns : Columns
        What there are columns of.
    rows : IntegerIds or TextIds
        Numbers of the rows.
    covariates : IntegerIds, TextIds or None
        Numbers of the covariates asked for; None takes all that occur.
    drops_missing : bool
        Whether lines with a missing entry are left out; else they are an error.
    """

    def __init__(self, labels, columns, rows, covariates, drops_missing):
        self.covariates = covariates
        self._labels = labels
        self._columns = columns
        self._rows = rows
        self._drops_missing = drops_missing
        self._is_growing = covariates is None
        self.example_of_unknown = None

    @property
    def labels(self):
        """Names of the columns to be read."""
        return [*self._labels.values()]

    @property
    def n_rows(self):
        """Rows, those of the outcomes."""
        return len(self._rows)

    @property
    def has_text(self):
        """Whether identifiers are strings."""
        return "strings" in {self._rows.kind, getattr(self.covariates, "kind", "")}

    @property
    def n_columns(self):
        """Columns that there are by now."""
        return self._columns.count(0 if self.covariates is None else len(self.covariates))

    def found(self) -> Found:
        """All columns; from now on, covariates that have not occurred are left out."""
        self._is_growing = False
        ids = np.empty(0) if self.covariates is None else self.covariates.distinct()
        covariate, window, policies = self._columns.found(ids.size)
        ids = ids[covariate]
        order = np.argsort(ids, kind="stable")
        return Found(ids[order], window[order], policies[order], order)

    def read(self, frames, counts: Counts):
        """Yield (rows, columns, values, moments) of every frame, as `Columns.spread` has them."""
        with closing(frames):
            for frame in frames:
                first_line = counts.lines
                counts.lines += len(frame)
                frame = self._without_missing(frame, first_line, counts)
                if len(frame):
                    yield self._number(frame, counts)

    def _without_missing(self, frame, first_line, counts):
        is_absent = np.zeros(len(frame), dtype=np.bool_)
        for argument, label in self._labels.items():
            is_absent_here = is_missing(frame.get_column(label))
            if is_absent_here.any() and not self._drops_missing:
                line = first_line + int(np.argmax(is_absent_here))
                raise ValueError(
                    f"`covariates` has no {label!r} in line {line:,}; pass missing='drop' to leave "
                    "out lines with a missing entry."
                )
            n_more = int(np.count_nonzero(is_absent_here & ~is_absent))
            if argument == "day":
                counts.undated += n_more
            else:
                counts.missing += n_more
            is_absent |= is_absent_here
        return frame.filter((~is_absent).tolist()) if is_absent.any() else frame

    def _number(self, frame, counts):
        row_ids, ids = (self._ids(frame, argument) for argument in ("row_id", "covariate_id"))
        values, days = self._values(frame, row_ids, ids), self._days(frame)
        rows = _find(self._rows, row_ids, self._name_of("row_id"), "rows")
        is_known = rows != ABSENT
        if not is_known.all() and self.example_of_unknown is None:
            self.example_of_unknown = id_at(row_ids, np.argmin(is_known))
        lines, n_unknown = _kept(is_known, rows, ids, values, days)
        counts.unknown += n_unknown
        if days is not None:
            is_dated = self._columns.dated(lines[0], days, self._name_of("day"))
            lines, n_undated = _kept(is_dated, *lines)
            counts.undated += n_undated
        rows, ids, values, days = lines
        codes = self._codes(ids)
        lines, n_unused = _kept(codes != ABSENT, rows, codes, values, days)
        counts.unused += n_unused
        return self._columns.spread(*lines, counts)

    def _name_of(self, argument):
        return f"`covariates`[{self._labels[argument]!r}]"

    def _ids(self, frame, argument):
        return read_ids(frame.get_column(self._labels[argument]), self._name_of(argument))

    def _days(self, frame):
        if "day" not in self._labels:
            return None
        return read_days(frame.get_column(self._labels["day"]), self._name_of("day"))

    def _codes(self, ids):
        if self.covariates is None:
            self.covariates = new_ids(ids)
        check_kind(self.covariates, ids, self._name_of("covariate_id"), "other covariates")
        find = self.covariates.add if self._is_growing else self.covariates.find
        return find(ids)

    def _values(self, frame, row_ids, ids):
        if "value" not in self._labels:
            return None
        series = frame.get_column(self._labels["value"])
        if not (series.dtype.is_numeric() or series.dtype == nw.Boolean):
            raise TypeError(f"{self._name_of('value')} has dtype {series.dtype}; pass numbers.")
        values = series.to_numpy().astype(np.float64)
        is_finite = np.isfinite(values)
        if not is_finite.all():
            line = int(np.argmin(is_finite))
            raise ValueError(
                f"{self._name_of('value')} is {values[line]} for covariate "
                f"{id_at(ids, line)} of row {id_at(row_ids, line)}, must be finite; correct or "
                "drop such lines."
            )
        return None if (values == 1.0).all() else values


def _kept(mask, *parts):
    """Some of the lines, given as arrays, identifiers, days or None, and how many were left out."""
    n_out = mask.size - int(np.count_nonzero(mask))
    if not n_out:
        return parts, 0
    return [None if part is None else take(part, mask) for part in parts], n_out


def _find(numbering, ids, label, others):
    check_kind(numbering, ids, label, others)
    return numbering.find(ids)


def check_kind(numbering, ids, label, others):
    """Check that identifiers are of the kind of those before them, integers or strings."""
    kind = new_ids(ids).kind
    if kind != numbering.kind:
        raise TypeError(
            f"{label} has {kind}, but identifiers of {others} are {numbering.kind}; convert one, "
            "e.g. with .astype(str)."
        )
