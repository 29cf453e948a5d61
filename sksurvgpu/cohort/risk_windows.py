"""Windows of risk around eras of exposure, in days."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..data import options

ANCHORS = ("start", "end")
FAR = 2**62  # days, where there is no other era


@dataclass(frozen=True)
class RiskWindow:
    """Days around an exposure in which the rate of events may differ.

    Parameters
    ----------
    start : int, default=0
        First day of the window, counted from `start_anchor`; negative before it.
    end : int, default=0
        Last day of the window, counted from `end_anchor`.
    start_anchor : {"start", "end"}, default="start"
        Whether `start` counts from the first or from the last day of the era.
    end_anchor : {"start", "end"}, default="end"
        Whether `end` counts from the first or from the last day of the era.
    eras : identifier or list, optional
        Exposures whose eras have this window; by default all.
    by_era : bool, default=False
        Whether each of the exposures has a column of its own; else being exposed to any of them is
        one column.
    first_only : bool, default=False
        Whether only the first era of a subject has the window.
    after_previous : int, optional
        The window begins after this day at the earliest, counted from the last day of the era
        before: 0 where a window before an exposure is to have no day of an earlier exposure, 14
        where the window of that ends 14 days after it. By default such days are in both windows.

    Notes
    -----
    Eras of an exposure (or of all of `eras`, where they share a column) that overlap, or of which
    one starts the day after another, are one. A window ends at the latest on the day before the
    next era.

    Examples
    --------
    >>> from sksurvgpu.cohort import RiskWindow
    >>> after = RiskWindow(15, 35, end_anchor="start")  # days 15 to 35 after the first day
    >>> on_drug = RiskWindow()  # from the first to the last day
    >>> before = RiskWindow(-30, -1, end_anchor="start", eras="mmr", after_previous=0)
    """

    start: int = 0
    end: int = 0
    start_anchor: str = "start"
    end_anchor: str = "end"
    eras: Any = None
    by_era: bool = False
    first_only: bool = False
    after_previous: int | None = None

    def __post_init__(self):
        after = 0 if self.after_previous is None else self.after_previous
        days = {"start": self.start, "end": self.end, "after_previous": after}
        for argument, value in days.items():
            if not options.is_whole(value):
                raise TypeError(f"`{argument}` is {value!r}; pass a whole number of days.")
        for argument in ("start_anchor", "end_anchor"):
            options.choice(getattr(self, argument), argument, ANCHORS)
        for argument in ("by_era", "first_only"):
            options.flag(getattr(self, argument), argument)
        if self.start_anchor == self.end_anchor and self.start > self.end:
            raise ValueError(
                f"the window starts on day {self.start} and ends on day {self.end} from the same "
                "anchor; `end` must not be before `start`."
            )


class Eras(NamedTuple):
    """First and last day of exposures `code` of subjects `unit`, int64."""

    unit: np.ndarray
    code: np.ndarray
    start: np.ndarray
    end: np.ndarray

    def take(self, rows) -> Eras:
        """Some of the eras, or all in another order."""
        return Eras(*(field[rows] for field in self))


class LaidWindows(NamedTuple):
    """First and last day of windows in columns, and counts.

    Of those that another era cuts off, that are empty, and that begin before an earlier era ends.
    """

    unit: np.ndarray
    column: np.ndarray
    start: np.ndarray
    end: np.ndarray
    n_shortened: int
    n_empty: int
    n_reaching: int


def lay(eras: Eras, window: RiskWindow, chosen, first_column) -> LaidWindows:
    """Lay a window around eras of chosen exposures, whose first column, or only one, is given."""
    position = np.full(int(max(eras.code.max(initial=-1), chosen.max(initial=-1))) + 1, -1)
    position[chosen] = np.arange(chosen.size) if window.by_era else 0
    column = position[eras.code]
    eras = eras._replace(code=column).take(column >= 0)
    merged = _merged(eras)
    if window.first_only:
        merged = merged.take(~_follows(merged))
    previous, following = _neighbours(merged)
    anchors = {"start": merged.start, "end": merged.end}
    start = anchors[window.start_anchor] + window.start
    end = anchors[window.end_anchor] + window.end
    is_cut = end >= following
    end = np.minimum(end, following - 1)
    if window.after_previous is not None:
        earliest = previous + window.after_previous + 1
        is_cut |= start < earliest
        start = np.maximum(start, earliest)
    some = start <= end
    is_reaching = some & (start <= previous)
    counts = (int(np.count_nonzero(found)) for found in (is_cut & some, ~some, is_reaching))
    column = merged.code[some] + first_column
    return LaidWindows(merged.unit[some], column, start[some], end[some], *counts)


def _neighbours(eras):
    """Last day of the era before, and first day of the next one, of the same subject and column."""
    follows = _follows(eras)[1:]
    previous, following = np.full(eras.unit.size, -FAR), np.full(eras.unit.size, FAR)
    previous[1:][follows] = eras.end[:-1][follows]
    following[:-1][follows] = eras.start[1:][follows]
    return previous, following


def _follows(eras):
    """Whether an era is of the same subject and column as the one before it."""
    follows = np.zeros(eras.unit.size, dtype=np.bool_)
    follows[1:] = (np.diff(eras.unit) == 0) & (np.diff(eras.code) == 0)
    return follows


def _merged(eras) -> Eras:
    """Eras by subject, column and start; those that touch are one."""
    eras = eras.take(np.lexsort((eras.start, eras.code, eras.unit)))
    if not eras.unit.size:
        return eras
    follows = _follows(eras)
    # Later groups are moved beyond the ends of all earlier ones, so that one pass finds how far the
    # eras of a group have reached.
    span = eras.end.max() - eras.start.min() + 2
    shift = (np.cumsum(~follows) - 1) * span
    reach = np.maximum.accumulate(eras.end + shift) - shift
    is_first = ~follows
    is_first[1:] |= eras.start[1:] > reach[:-1] + 1
    heads = np.flatnonzero(is_first)
    last = np.append(heads[1:], is_first.size) - 1
    return eras.take(heads)._replace(end=reach[last])
