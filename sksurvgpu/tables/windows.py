"""Windows of time against an index date: pairs of days, both included, that may be open."""

from dataclasses import dataclass
from typing import NamedTuple

import narwhals as nw
import numpy as np

from ..data import options
from .grouping import POLICIES
from .ids import is_missing
from .reading import require
from .times import day_of, read_days

DEFAULT_DAY, DEFAULT_INDEX_DATE = "day", "index_date"
EVER = -(2**63), 2**63 - 1
# What becomes of several lines, where the values of these lines are not looked at.
WITHOUT_VALUES = ("count", "present")


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
        if not read:
            raise ValueError("`windows` has no window.")
        if len(set(names)) < len(names):
            raise ValueError(
                f"`windows` has two windows {max(names, key=names.count)!r}; give each a name of "
                "its own by a dictionary."
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
    are_days = all(day is None or options.is_whole(day) for day in parts[:2])
    label = f"{window!r}" if name is None else f"{name!r}: {window!r}"
    if len(parts) not in (2, 3) or not are_days or not (name is None or isinstance(name, str)):
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
        options.choice(duplicates := parts[2], f"windows: {label}", POLICIES)
    bounds = (
        side if day is None else str(int(day))
        for day, side in zip(parts[:2], ("-inf", "inf"), strict=True)
    )
    return name or f"[{', '.join(bounds)}]", low, high, duplicates


class IndexDates(NamedTuple):
    """Day of the index date of every row, 0 where it has none, and their calendar."""

    day: np.ndarray
    is_dated: np.ndarray
    calendar: str

    @classmethod
    def of(cls, table, index_date, drops_missing):
        """Read them from the column of a table in pandas."""
        frame = nw.from_native(table, eager_only=True)
        require(frame.columns, index_date, "outcomes", "index_date")
        series = frame.get_column(index_date)
        is_dated = ~is_missing(series)
        if not (drops_missing or is_dated.all()):
            raise ValueError(
                f"`outcomes` has {np.count_nonzero(~is_dated):,} row(s) without {index_date!r}, "
                f"the first of them row {np.argmin(is_dated):,}; pass missing='drop' to leave out "
                "their lines, or drop the rows."
            )
        dates = series.filter(is_dated.tolist())
        moments, calendar = read_days(dates, f"`outcomes`[{index_date!r}]")
        day = np.zeros(is_dated.size, dtype=np.int64)
        day[is_dated] = day_of(moments, calendar)
        return cls(day, is_dated, calendar)
