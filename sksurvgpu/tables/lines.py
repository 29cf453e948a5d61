"""Lines of a long table as numbers: row, column and value, with what was left out counted.

Every covariate has a column in each window: covariate c in window w of W is column c * W + w. A
line of day d, of a row with index date t, is in a window [from, to] where from <= d - t <= to, in
whole days; it may be in none, and in several. Within a day the moment orders lines, and no more.
"""

from contextlib import closing
from typing import NamedTuple

import numpy as np

from .grouping import POLICIES, Placed
from .ids import id_at, take
from .numbering import ABSENT, Ids
from .reading import DEFAULT_VALUE, LineCounts, LineReader, Persons, require
from .times import check_alike, day_of, read_days
from .windows import WITHOUT_VALUES, Windows

NUMBERS = {3: "three", 4: "four"}


class Found(NamedTuple):
    """Columns in their order: identifier, window, what becomes of several lines, number."""

    ids: np.ndarray
    window: np.ndarray
    policies: np.ndarray
    order: np.ndarray


def choose_columns(columns, row_id, covariate_id, value, day=None):
    """Names of the columns to be read, by what they are; no values where there are none."""
    named = {"row_id": row_id, "covariate_id": covariate_id, "value": value, "day": day}
    if day is None:
        del named["day"]
    for argument, label in named.items():
        if argument != "value":
            require(columns, label, "covariates", argument)
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
                f"({', '.join(map(repr, columns))}) by value=, or pass value=None if every line "
                "stands for a 1."
            )
    if value not in columns:
        del named["value"]
    return named


def _in_words(labels):
    *first, last = labels
    return f"{', '.join(first)} and {last}"


class LongLines:
    """Lines of all frames of a long table, which share the numbers of its covariates.

    The `reader` has columns as `choose_columns` gives them, `rows` are the outcomes, and `index`
    dates are those of the rows, where windows are of time. `like` has numbers of the covariates
    asked for, and covariate and window of every column there is to be; None takes all that occur.
    """

    def __init__(self, reader: LineReader, rows: Persons, windows: Windows, index=None, like=None):
        self.reader, self._rows, self._windows, self._index = reader, rows, windows, index
        self._covariates, self._like, self._column_of = Ids(), None, None
        self._is_growing = like is None
        if like is not None:
            self._covariates, covariate, window = like
            self._like = covariate, window
            self._column_of = np.full((covariate.max() + 1) * len(windows), ABSENT, np.int32)
            self._column_of[covariate * len(windows) + window] = np.arange(covariate.size)
        names = np.array(windows.duplicates)
        self._ignores_values = np.isin(names, WITHOUT_VALUES)
        self.is_ordered = index is not None and bool(np.isin(names, ["first", "last"]).any())

    @property
    def n_rows(self):
        """Rows, those of the outcomes."""
        return len(self._rows.known)

    @property
    def has_text(self):
        """Whether identifiers are strings."""
        return self._rows.known.has_text or self._covariates.has_text

    @property
    def n_columns(self):
        """Columns that there are by now."""
        if self._like is not None:
            return self._like[0].size
        return len(self._windows) * len(self._covariates)

    def found(self) -> Found:
        """All columns; from now on, covariates that have not occurred are left out."""
        self._is_growing = False
        ids = self._covariates.distinct()
        covariate, window = self._like or divmod(np.arange(self.n_columns), len(self._windows))
        policies = np.array([POLICIES[name] for name in self._windows.duplicates])
        order = np.argsort(ids[covariate], kind="stable")
        window = window[order]
        return Found(ids[covariate[order]], window, policies[window], order)

    def read(self, frames, counts: LineCounts):
        """Yield those lines of every frame that are in a window, as `Placed`."""
        with closing(frames):
            for frame in self.reader.lines(frames, counts):
                yield self._number(frame, counts)

    def _number(self, frame, counts):
        reader = self.reader
        row_ids, ids = reader.ids(frame, "row_id"), reader.ids(frame, "covariate_id")
        values = self._values(frame, row_ids, ids) if "value" in reader.columns else None
        moments, calendar = None, ""
        if self._index is not None:
            moments, calendar = read_days(reader.series(frame, "day"), reader.label("day"))
        rows, is_known = self._rows.find(row_ids, reader.label("row_id"), "rows", counts)
        rows, ids, values, moments = _chosen(is_known, rows, ids, values, moments)
        if self._index is not None:
            theirs = self._index.calendar
            check_alike(reader.label("day"), calendar, "index dates are", theirs)
            is_dated = self._index.is_dated[rows]
            counts.undated += _count_out(is_dated)
            rows, ids, values, moments = _chosen(is_dated, rows, ids, values, moments)
        codes = self._codes(ids)
        counts.unused += _count_out(codes != ABSENT)
        rows, codes, values, moments = _chosen(codes != ABSENT, rows, codes, values, moments)
        if self._index is None:
            return Placed(rows, codes, None if self._ignores_values[0] else values, None)
        return self._spread(rows, codes, values, moments, counts)

    def _codes(self, ids):
        number = self._covariates.add if self._is_growing else self._covariates.find
        return number(ids, self.reader.label("covariate_id"), "other covariates")

    def _values(self, frame, row_ids, ids):
        values = self.reader.numbers(frame, "value")
        is_finite = np.isfinite(values)
        if not is_finite.all():
            line = int(np.argmin(is_finite))
            raise ValueError(
                f"{self.reader.label('value')} is {values[line]} for covariate "
                f"{id_at(ids, line)} of row {id_at(row_ids, line)}, must be finite; correct or "
                "drop such lines."
            )
        return None if (values == 1.0).all() else values

    def _spread(self, rows, codes, values, moments, counts):
        """Lines of covariates as lines of columns, one window after the other."""
        n_windows = len(self._windows)
        since = day_of(moments, self._index.calendar) - self._index.day[rows]
        is_outside, is_unused = np.ones((2, rows.size), dtype=np.bool_)
        parts = []
        for w in range(n_windows):
            is_chosen = (since >= self._windows.low[w]) & (since <= self._windows.high[w])
            is_outside[is_chosen] = False
            columns = codes * n_windows + w
            if self._column_of is not None:
                columns = self._column_of[columns]
                is_chosen &= columns != ABSENT
            is_unused[is_chosen] = False
            seen = None if self._ignores_values[w] else values
            parts.append(Placed(*_chosen(is_chosen, rows, columns, seen, moments)))
        counts.outside += int(np.count_nonzero(is_outside))
        counts.unused += int(np.count_nonzero(is_unused & ~is_outside))
        values = None
        if any(part.values is not None for part in parts):
            values = np.concatenate(
                [np.ones(part.rows.size) if part.values is None else part.values for part in parts]
            )
        return Placed(
            np.concatenate([part.rows for part in parts]),
            np.concatenate([part.columns for part in parts]).astype(np.int32),
            values,
            np.concatenate([part.moments for part in parts]) if self.is_ordered else None,
        )


def _count_out(is_chosen):
    return is_chosen.size - int(np.count_nonzero(is_chosen))


def _chosen(is_chosen, *parts):
    """Some of the lines, given as arrays, identifiers or None."""
    if is_chosen.all():
        return parts
    return [None if part is None else take(part, is_chosen) for part in parts]
