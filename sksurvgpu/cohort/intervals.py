"""From cases and windows of risk to rows in which no covariate changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from pandas import DataFrame

from ..data.design.columns import Design
from ..data.vectors import check_whole
from ..exceptions import NothingToCompareError
from ..tables.cutting import CUT_ONLY, Spans, arrange, cut_rows, fill_columns
from ..tables.grouping import MAX
from ..tables.merging import group_equal_rows
from .endings import YEAR, fit_endings, weigh_days
from .risk_windows import LaidWindows, RiskWindow, lay
from .splines import (
    age_knots,
    calendar_knots,
    month_starts,
    season_basis,
    season_knots,
    spline_basis,
)

END_OF_OBSERVATION = "end of observation"


class Plan(NamedTuple):
    """Windows with the codes of their exposures and their first columns, and names of columns.

    The column of the control window is the last one.
    """

    windows: list
    names: list
    has_control: bool


class Cut(NamedTuple):
    """Rows of cases: columns, number of the case, days, events and length, the weight of days."""

    X: Design
    unit: np.ndarray
    days: np.ndarray
    events: np.ndarray
    length: np.ndarray

    def take(self, rows) -> Cut:
        """Some of the rows, a mask or row numbers."""
        return Cut(*(field[rows] for field in self))

    def joined(self) -> Cut:
        """Rows of a case with the same covariates as one."""
        group, first = group_equal_rows(self.X, self.unit)
        days, events, length = (np.bincount(group, field) for field in self[2:])
        return Cut(self.X[first], self.unit[first], days, events.astype(np.int64), length)

    def note(self, account, step):
        """Note who is left."""
        account.note(step, np.unique(self.unit).size, self.events.sum(), self.days.sum())


def plan_windows(windows, control, ids, labels) -> Plan:
    """Give every window its columns; `labels` are names of exposures, `ids` identifiers by code."""
    if isinstance(windows, RiskWindow):
        windows = {"" if windows.by_era else "exposed": windows}
    if not isinstance(windows, Mapping) or not windows:
        raise TypeError("`windows` must be a RiskWindow, or a mapping from names to such.")
    given = {**windows} if control is None else {**windows, None: control}
    codes = {id: code for code, id in enumerate(ids.tolist())}
    planned, names = [], []
    for name, window in given.items():
        argument = "control" if name is None else f"windows[{name!r}]"
        if not isinstance(window, RiskWindow):
            raise TypeError(f"`{argument}` is {window!r}; pass a RiskWindow.")
        if name is None:
            window = RiskWindow(**{**vars(window), "by_era": False})
        chosen = _codes(window, codes, argument)
        planned.append((window, chosen, len(names)))
        if window.by_era:
            names += [f"{name}: {labels[code]}" if name else labels[code] for code in chosen]
        else:
            names.append("control" if name is None else name)
    return Plan(planned, names, control is not None)


def _codes(window, codes, argument):
    """Codes of the exposures of a window, ascending."""
    if window.eras is None:
        return np.arange(len(codes))
    is_one = isinstance(window.eras, str) or np.ndim(window.eras) == 0
    wanted = [window.eras] if is_one else [*window.eras]
    if not wanted:
        raise ValueError(f"`{argument}` has no `eras`; name some, or pass None for all.")
    absent = [id for id in wanted if id not in codes]
    if absent:
        raise ValueError(f"`{argument}` names {absent[0]!r}, which is no exposure of `eras`.")
    return np.unique([codes[id] for id in wanted])


def lay_windows(cases, eras, plan) -> tuple[Spans, dict]:
    """Windows around the eras of cases as lines within observation, and what became of them."""
    laid = [lay(eras, *window) for window in plan.windows]
    unit, column, start, end = (
        np.concatenate(field) for field in list(zip(*laid, strict=True))[:4]
    )
    low, high = cases.start[unit], cases.end[unit]
    is_inside = (start <= high) & (end >= low)
    is_cut = is_inside & ((start < low) | (end > high))
    lines = _lines(cases, unit, column, start, end)
    names = LaidWindows._fields[4:]
    counts = {name: sum(getattr(window, name) for window in laid) for name in names}
    counts["n_windows_outside"] = int(np.count_nonzero(~is_inside))
    return lines, counts | {"n_clipped": int(np.count_nonzero(is_cut))}


def _lines(cases, unit, column, start, end):
    """Lines of days inclusive become times [start, stop) within observation."""
    start = np.maximum(start, cases.start[unit]).astype(np.float64)
    stop = np.minimum(end, cases.end[unit]) + 1.0
    ones = np.ones(unit.size)
    lines = Spans(unit.astype(np.int32), column.astype(np.int32), start, stop, ones)
    return lines.take(start < stop)


def cut_intervals(cases, lines, plan, account, end_of_observation, *, age_groups, **splines):
    """Rows of cases, by case and in the order of their first days, knots, and models of ends."""
    names, parts = [*plan.names], [lines]
    if end_of_observation:
        parts.append(_last_days(cases, len(names), end_of_observation))
        names.append(END_OF_OBSERVATION)
    if age_groups is not None:
        lines, labels = _groups_of_age(cases, len(names), age_groups)
        parts.append(lines)
        names += labels
    months = None
    if any(given is not None for given in splines.values()):
        months = month_starts(cases.start.min(), cases.end.max(), cases.observed.is_date)
        parts.append(_cuts(cases, months[0]))
    lines = Spans(*(np.concatenate(field) for field in zip(*parts, strict=True)))
    lines = arrange(lines, cases.start.size)
    rows = cut_rows(cases.start.astype(np.float64), cases.end + 1.0, lines, np.empty(0))
    X = fill_columns(lines, rows, np.full(len(names), MAX)).X.with_names(np.array(names, object))
    knots = {}
    if months is not None:
        X, knots = _with_splines(X, rows, cases, months, **splines)
    _check_names(X.names)
    days, endings = rows.stop - rows.start, None
    length = days
    if cases.ended_early is not None:
        endings, length = _weigh(rows, cases)
    cut = Cut(X, rows.unit, days, _events(rows, cases), length)
    if plan.has_control:
        cut = _in_windows(cut, len(plan.names))
        cut.note(account, "in risk or control windows")
    cut = cut.joined()
    varies = np.bincount(cut.unit, minlength=cases.start.size) > 1
    if not varies.any():
        raise NothingToCompareError(
            f"no covariate varies within any of {cases.start.size:,} subjects with an outcome; "
            "compare the days and subjects of `eras` with those of `periods`."
        )
    cut = cut.take(varies[cut.unit])
    cut.note(account, "covariates vary")
    return cut, knots, endings


def _weigh(rows, cases):
    """Models of why observation ends, and the weights of rows under the best one."""
    _need_birth(cases, "ended_early")
    if cases.outcomes.unit.size > cases.start.size:
        raise ValueError(
            "`ended_early` is about one outcome of a subject, and some have several; pass "
            "first_outcome_only=True."
        )
    early = cases.ended_early
    if not early.any():
        raise ValueError("no case of `ended_early` ended early; leave it out.")
    age = np.maximum(cases.start - cases.birth, 1.0)  # as its logarithm is taken
    end = cases.end + 1.0 - cases.birth
    # A day counts at its end, as in R's SelfControlledCaseSeries.
    event = cases.outcomes.day + 1.0 - cases.birth
    if (event <= 0).any():
        raise ValueError("`ended_early` needs outcomes after birth; see the days of `birth`.")
    endings = fit_endings(age, event, end, ~early)
    unit, born = rows.unit, cases.birth[rows.unit]
    stop = rows.stop - born
    start = np.minimum(np.maximum(rows.start - born, 1.0), stop - 0.5)
    ages = (start, end[unit] - stop, stop - start, age[unit])
    model = (*endings.index[0], endings.iloc[0, 1:].to_numpy())
    return endings, weigh_days(model, *(days / YEAR for days in ages), ~early[unit])


def _check_names(names):
    label, count = np.unique(names.astype(str), return_counts=True)
    if count.max(initial=0) > 1:
        raise ValueError(
            f"two columns are named {str(label[count > 1][0])!r}; rename a window of `windows`."
        )


def _events(rows, cases):
    """Number of events of rows."""
    first_day = cases.start.min()
    span = cases.end.max() - first_day + 1
    # Days, those of one case after those of the one before: ascending over all rows.
    key = rows.unit * span + rows.start.astype(np.int64) - first_day
    day = cases.outcomes.unit * span + cases.outcomes.day - first_day
    return np.bincount(np.searchsorted(key, day, "right") - 1, minlength=key.size)


def _last_days(cases, column, n_days):
    """Lines of the last days of observation."""
    unit = np.arange(cases.start.size)
    first = cases.end - n_days + 1
    return _lines(cases, unit, np.full(unit.size, column), first, cases.end)


def _groups_of_age(cases, column, first_days):
    """Lines of age groups but the first, and their names."""
    _need_birth(cases, "age_groups")
    first_days = np.unique(check_whole(first_days, "age_groups", "days of age"))
    if not first_days.size:
        raise ValueError("`age_groups` is empty; pass the first days of groups, or None.")
    last_days = np.append(first_days[1:] - 1, np.iinfo(np.int32).max)
    n = first_days.size
    unit = np.repeat(np.arange(cases.start.size), n)
    group = np.tile(np.arange(n), cases.start.size)
    born = cases.birth[unit]
    lines = _lines(cases, unit, column + group, born + first_days[group], born + last_days[group])
    labels = [f"age {a}-{b}" for a, b in zip(first_days[:-1], last_days[:-1], strict=True)]
    return lines, [*labels, f"age {first_days[-1]}+"]


def _need_birth(cases, argument):
    if cases.birth is None:
        raise ValueError(
            f"`{argument}` needs days of birth, as days are dates; name their column of `periods` "
            "by birth=."
        )


def _cuts(cases, days):
    """Lines that cut cases on days, and do nothing else."""
    low = np.searchsorted(days, cases.start, "right")
    count = np.searchsorted(days, cases.end, "right") - low
    unit = np.repeat(np.arange(count.size, dtype=np.int32), count)
    position = np.arange(unit.size) - np.repeat(np.cumsum(count) - count, count)
    day = days[low[unit] + position].astype(np.float64)
    return Spans(unit, np.full(unit.size, CUT_ONLY, np.int32), day, day, np.ones(unit.size))


def _in_windows(cut, n_columns):
    """Rows within any of the first columns, of which the last one, the control, is left out."""
    X = cut.X
    is_inside = np.zeros(X.n_rows, dtype=np.bool_)
    is_inside[X.indices[: X.indptr[n_columns]]] = True
    kept = np.flatnonzero(np.arange(X.n_columns) != n_columns - 1)
    return cut._replace(X=X.select(kept)).take(is_inside)


def _with_splines(X, rows, cases, months, age, season, calendar):
    """Add the values of splines in the month of each row, on its first day of observation."""
    starts, numbers = months
    unit = rows.unit
    at = np.searchsorted(starts, rows.start, "right") - 1
    knots, columns = {}, {}
    if age is not None:
        _need_birth(cases, "age")
        happened = cases.outcomes
        knots["age"] = age_knots(age, happened.day - cases.birth[happened.unit])
        day = np.maximum(starts[at], cases.start[unit])
        basis = spline_basis(knots["age"], day - cases.birth[unit])
        columns |= {f"age spline {j + 1}": values for j, values in enumerate(basis.T)}
    if season is not None:
        if not cases.observed.is_date:
            raise ValueError("`season` needs days that are dates; those of `periods` are numbers.")
        knots["season"] = season_knots(season)
        basis = season_basis(knots["season"], numbers % 12 + 1.0)[at]
        columns |= {f"season spline {j + 1}": values for j, values in enumerate(basis.T)}
    if calendar is not None:
        knots["calendar"] = calendar_knots(calendar, cases)
        basis = spline_basis(knots["calendar"], numbers)[at]
        columns |= {f"calendar spline {j + 1}": values for j, values in enumerate(basis.T)}
    return X.with_columns(DataFrame(columns)), knots
