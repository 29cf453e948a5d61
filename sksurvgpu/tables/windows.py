"""Windows of time against an index date: in which of them a line is, and as which column.

A line of day d, of a row with index date t, is in a window [from, to] where from <= d - t <= to, in
whole days; it may be in none, and in several. Covariate c in window w of W is column c * W + w.
Dates are days of the calendar; the moment within the day orders lines, and no more.
"""

from dataclasses import dataclass
from numbers import Integral
from typing import NamedTuple

import narwhals as nw
import numpy as np

from .grouping import POLICIES
from .ids import ABSENT, is_missing, whole_numbers

__all__ = [
    "DEFAULT_DAY",
    "DEFAULT_INDEX_DATE",
    "FROM_TEXT",
    "Columns",
    "Windows",
    "check_policy",
    "read_days",
    "read_index_dates",
    "read_moments",
    "unlike",
]

DEFAULT_DAY, DEFAULT_INDEX_DATE = "day", "index_date"
EVER = -(2**63), 2**63 - 1
MICROSECONDS = 86_400_000_000
FROM_TEXT = (
    "convert text with pandas.to_datetime, polars.col(name).str.to_date(), or CAST(name AS DATE) "
    "in SQL"
)
# What becomes of several lines, where the values of these lines are not looked at.
WITHOUT_VALUES = ("count", "present")


def check_policy(argument, policy):
    """Check what is to become of several lines."""
    if not isinstance(policy, str) or policy not in POLICIES:
        raise ValueError(
            f"`{argument}` is {policy!r}, must be one of {', '.join(map(repr, POLICIES))}."
        )


@dataclass(frozen=True)
class Windows:
    """Windows by number: names, first and last days, and what becomes of several lines there."""

    names: tuple[str, ...]
    low: tuple[int, ...]
    high: tuple[int, ...]
    duplicates: tuple[str, ...]

    @classmethod
    def of(cls, windows, duplicates):
        """Read the argument `windows`; without, there is one that has every line and no name."""
        if windows is None:
            return cls(("",), (EVER[0],), (EVER[1],), (duplicates,))
        if isinstance(windows, str) or not np.iterable(windows):
            raise TypeError(
                f"`windows` is {windows!r}; pass a list of pairs of days, such as [(-365, -1)], or "
                "a dictionary with such pairs by name."
            )
        pairs = windows.items() if hasattr(windows, "items") else ((None, w) for w in windows)
        read = [_read_window(name, window, duplicates) for name, window in pairs]
        names = [name for name, *_ in read]
        if not read or len(set(names)) < len(names):
            raise ValueError(
                "`windows` has no window."
                if not read
                else f"`windows` has two windows {max(names, key=names.count)!r}; give each a name "
                "of its own by a dictionary."
            )
        return cls(*zip(*read, strict=True))

    def __len__(self):
        return len(self.names)

    @property
    def is_dated(self):
        """Whether they are windows of time at all."""
        return self.names != ("",)

    @property
    def need_no_values(self):
        """Whether no window looks at the values of lines."""
        return all(policy in WITHOUT_VALUES for policy in self.duplicates)

    def as_given(self):
        """Bounds and what becomes of several lines, by name."""
        low = [None if day == EVER[0] else day for day in self.low]
        high = [None if day == EVER[1] else day for day in self.high]
        return dict(zip(self.names, zip(low, high, self.duplicates, strict=True), strict=True))


def _read_window(name, window, duplicates):
    """Name, first and last day, and what becomes of several lines, of one window."""
    parts = tuple(window) if isinstance(window, tuple | list) else ()
    is_day = [day is None or _is_whole(day) for day in parts[:2]]
    label = f"{window!r}" if name is None else f"{name!r}: {window!r}"
    if len(parts) not in (2, 3) or not all(is_day) or not (name is None or isinstance(name, str)):
        raise ValueError(
            f"`windows` has {label}; a window is (from, to) in whole days after the index date, "
            "both included, None where it is open, with what becomes of several lines as a third "
            "entry where that is not `duplicates`: (-365, -1, 'count')."
        )
    low, high = (
        side if day is None else int(day) for day, side in zip(parts[:2], EVER, strict=True)
    )
    if low > high:
        raise ValueError(f"`windows` has {label}, which ends before it begins.")
    if len(parts) == 3:
        check_policy(f"windows: {label}", duplicates := parts[2])
    bounds = (
        side if day is None else str(int(day))
        for day, side in zip(parts[:2], ("-inf", "inf"), strict=True)
    )
    return name or f"[{', '.join(bounds)}]", low, high, duplicates


def _is_whole(day):
    return isinstance(day, Integral) and not isinstance(day, bool)


class Days(NamedTuple):
    """When something was: `day` in whole days, `moment` in the finest steps there are.

    `kind` says of what they are: integers, dates, dates of a time zone.
    """

    kind: str
    day: np.ndarray
    moment: np.ndarray

    def take(self, which):
        """Some of the days, by mask."""
        return Days(self.kind, self.day[which], self.moment[which])

    def check_kind(self, kind, label):
        """Check that days can be compared with those of index dates."""
        if self.kind != kind:
            raise unlike(label, self.kind, "index dates are", kind)


def unlike(label, kind, other, other_kind):
    """Error of times that cannot be compared: integers (None) and dates, or dates of two zones."""
    kinds = [kind or "numbers", other_kind or "numbers"]
    remedy = "write all as dates, or all as whole numbers of days"
    if all(found.startswith("dates") for found in kinds):
        remedy = (
            "leave out the time zone, by series.dt.tz_localize(None) in pandas, by "
            "polars.col(name).dt.replace_time_zone(None) in polars, also of "
            "polars.scan_parquet(path), and by name AT TIME ZONE 'zone' in SQL, as of DuckDB"
        )
    return TypeError(f"{label} has {kinds[0]}, {other} {kinds[1]}; {remedy}.")


def read_days(series: nw.Series, label: str) -> Days:
    """Read a column of days without missing entries: integers, dates or timestamps."""
    dtype = series.dtype
    if dtype.is_integer() or dtype.is_float():
        days = whole_numbers(series.to_numpy(), label, "days")
        return Days("integers", days, days)
    kind, moments = read_moments(series)
    if kind is None:
        raise TypeError(
            f"{label} has dtype {dtype}; days are integers, dates or timestamps: {FROM_TEXT}."
        )
    moments = moments.astype(np.int64)
    return Days(kind, moments // MICROSECONDS, moments)


def read_moments(series):
    """Read dates or timestamps by the clocks of their zone.

    Returns
    -------
    kind : str or None
        Whether they are dates, or dates of a time zone; None if neither.
    moments : ndarray of datetime64[us], or None
    """
    zone, values = _zone_of(series), None
    if zone:
        values = series.dt.replace_time_zone(None).to_numpy()
    elif series.dtype in (nw.Date, nw.Datetime) or _has_dates(series):
        values = series.to_numpy()
    if values is None:
        return None, None
    return f"dates of {zone}" if zone else "dates", values.astype("datetime64[us]")


def _zone_of(series):
    """Time zone of timestamps, also where narwhals cannot read its name (America/New_York)."""
    if isinstance(series.dtype, nw.Datetime):
        return series.dtype.time_zone
    zone = getattr(getattr(series.to_native(), "dtype", None), "tz", None)
    return None if zone is None else str(zone)


def _has_dates(series):
    """Whether objects are Python's dates, as drivers of databases return them."""
    from pandas.api.types import infer_dtype

    if series.dtype != nw.Object:
        return False
    values = series.to_numpy()
    is_date = infer_dtype(values, skipna=True) in ("date", "datetime")
    return is_date and not any(getattr(value, "tzinfo", None) for value in values)


def read_index_dates(table, index_date, drops_missing):
    """Index dates of the rows of a table in pandas, and which rows have one."""
    frame = nw.from_native(table, eager_only=True)
    if index_date not in frame.columns:
        raise ValueError(
            f"`outcomes` has no column {index_date!r}; name one of its columns "
            f"({', '.join(map(repr, frame.columns))}) by index_date=."
        )
    series = frame.get_column(index_date)
    is_dated = ~is_missing(series)
    if not (drops_missing or is_dated.all()):
        raise ValueError(
            f"`outcomes` has {np.count_nonzero(~is_dated):,} row(s) without {index_date!r}, the "
            f"first of them row {np.argmin(is_dated):,}; pass missing='drop' to leave out their "
            "lines, or drop the rows."
        )
    days = read_days(series.filter(is_dated.tolist()), f"`outcomes`[{index_date!r}]")
    day = np.zeros(is_dated.size, dtype=np.int64)
    day[is_dated] = days.day
    return days._replace(day=day), is_dated


class Columns:
    """Lines of covariates as lines of columns, of which every covariate has one in each window.

    Parameters
    ----------
    windows : Windows
    index : tuple of Days and ndarray of bool, optional
        Index dates of the rows, and which rows have one.
    like : tuple of arrays of shape (n_columns,), optional
        Numbers of covariates and windows of the columns there are to be, and no others.
    """

    def __init__(self, windows, index=None, like=None):
        self.windows, self._index, self._like = windows, index, like
        self._column_of = None
        if like is not None:
            covariate, window = like
            self._column_of = np.full((covariate.max() + 1) * len(windows), ABSENT, np.int32)
            self._column_of[covariate * len(windows) + window] = np.arange(covariate.size)
        names = np.array(windows.duplicates)
        self._ignores_values = np.isin(names, WITHOUT_VALUES)
        self._is_ordered = index is not None and bool(np.isin(names, ["first", "last"]).any())

    def count(self, n_covariates):
        """Columns of the first `n_covariates` covariates."""
        return n_covariates * len(self.windows) if self._like is None else self._like[0].size

    def found(self, n_covariates):
        """Covariate and window of every column, and what becomes of several lines in it."""
        covariate, window = self._like or divmod(
            np.arange(self.count(n_covariates)), len(self.windows)
        )
        policies = np.array([POLICIES[name] for name in self.windows.duplicates])
        return covariate, window, policies[window]

    def dated(self, rows, days, label):
        """Which lines are of rows that have an index date."""
        days.check_kind(self._index[0].kind, label)
        return self._index[1][rows]

    def spread(self, rows, codes, values, days, counts):
        """Rows, columns, values and moments of the lines that are in a window.

        Values are None where all are 1, moments where no window needs them.
        """
        if self._index is None:
            return rows, codes, None if self._ignores_values[0] else values, None
        since = days.day - self._index[0].day[rows]
        is_outside, is_unused = np.ones((2, rows.size), dtype=np.bool_)
        parts = []
        for w in range(len(self.windows)):
            chosen = (since >= self.windows.low[w]) & (since <= self.windows.high[w])
            is_outside[chosen] = False
            columns = codes * len(self.windows) + w
            if self._column_of is not None:
                columns = self._column_of[columns]
                chosen &= columns != ABSENT
            is_unused[chosen] = False
            own = None if values is None or self._ignores_values[w] else values[chosen]
            parts.append((rows[chosen], columns[chosen], own, days.moment[chosen]))
        counts.outside += int(np.count_nonzero(is_outside))
        counts.unused += int(np.count_nonzero(is_unused & ~is_outside))
        return self._joined(*zip(*parts, strict=True))

    def _joined(self, rows, columns, values, moments):
        """Lines of all windows, one window after the other."""
        given = [own for own in values if own is not None]
        if given:
            values = [
                np.ones(own.size) if value is None else value
                for own, value in zip(rows, values, strict=True)
            ]
        return (
            np.concatenate(rows),
            np.concatenate(columns).astype(np.int32),
            np.concatenate(values) if given else None,
            np.concatenate(moments) if self._is_ordered else None,
        )
