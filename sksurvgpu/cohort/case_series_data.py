"""Result of `eras_to_intervals`: rows of a case series, and who and what was left out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from pandas import DataFrame, Index, concat

from .._tables import Report, Result, counted
from ..data.design.columns import Design
from ..data.effects import read_estimates
from ..data.outcomes.counts import case_series
from ..tables.results import with_dense
from .splines import season_basis, spline_basis

N_VALUES = 101  # at which curves are told


@dataclass(frozen=True, repr=False)
class CaseSeriesReport(Report):
    """Counts of lines that `eras_to_intervals` or `case_crossover_windows` read and left out.

    Attributes
    ----------
    n_eras, n_outcomes : int
        Lines of `eras` and of `outcomes`.
    n_missing : int
        Lines of both left out because an entry is missing.
    n_unknown_eras, n_unknown_outcomes : int
        Lines left out because their subject is not in `periods`.
    n_eras_outside : int
        Eras that lie before or after observation; their windows may reach into it.
    n_outcomes_outside : int
        Outcomes left out because they lie before or after observation, as it was given.
    n_empty : int
        Windows left out because they would end before they start, as the era is too short or the
        next one too early.
    n_shortened : int
        Windows that end because the next era starts, or begin because the one before ends.
    n_windows_outside : int
        Windows left out because they lie before or after observation.
    n_clipped : int
        Windows cut off where observation starts or ends.
    n_reaching : int
        Windows that begin before an earlier era ends; ``after_previous=0`` cuts them off.
    """

    COUNTED: ClassVar = {
        "n_missing": "lines left out: an entry is missing",
        "n_unknown_eras": "eras left out: their subject is not in the periods",
        "n_unknown_outcomes": "outcomes left out: their subject is not in the periods",
        "n_outcomes_outside": "outcomes left out: outside of observation",
        "n_eras_outside": "eras outside of observation",
        "n_empty": "windows left out: they would end before they start",
        "n_shortened": "windows cut off by the era before or after",
        "n_reaching": "windows begin before an earlier era ends; after_previous=0 cuts them off",
        "n_windows_outside": "windows left out: outside of observation",
        "n_clipped": "windows cut off where observation starts or ends",
    }

    n_eras: int
    n_outcomes: int
    n_missing: int
    n_unknown_eras: int
    n_unknown_outcomes: int
    n_eras_outside: int
    n_outcomes_outside: int
    n_empty: int = 0
    n_shortened: int = 0
    n_windows_outside: int = 0
    n_clipped: int = 0
    n_reaching: int = 0

    @classmethod
    def of(cls, cases, eras, of_eras, of_outcomes, n_outcomes_outside, **of_windows):
        """Count what was read of eras and outcomes, and add what became of windows."""
        return cls(
            n_eras=of_eras.lines,
            n_outcomes=of_outcomes.lines,
            n_missing=of_eras.missing + of_outcomes.missing,
            n_unknown_eras=of_eras.unknown,
            n_unknown_outcomes=of_outcomes.unknown,
            n_eras_outside=cases.count_outside(eras),
            n_outcomes_outside=n_outcomes_outside,
            **of_windows,
        )

    def _begin(self):
        return [f"{self.n_eras:,} eras and {self.n_outcomes:,} outcomes read"]


@dataclass(frozen=True, eq=False, repr=False)
class CaseSeriesData(Result):
    """Intervals of subjects in which no covariate changes; made by `eras_to_intervals`.

    Attributes
    ----------
    X : Design
        Covariates, a column each, with names.
    y : structured ndarray of shape (n_rows,)
        Number of events, length in days and subject, as `case_series` makes it.
    columns : pandas.DataFrame
        By name of the column: how many subjects, days and events have a value other than 0.
    attrition : pandas.DataFrame
        By step: how many subjects, events and days it left.
    knots : dict
        Knots of the splines: of age in days, of season in months, of calendar time in numbers of
        months, those since January 1970 where days are dates.
    report : CaseSeriesReport
        What was read, and what was left out.
    endings : pandas.DataFrame or None
        Of `ended_early`, the models of why observation ends: their ``aic`` and parameters, by the
        ``law`` beside the exponential one and whether it is ``of`` age or the interval since the
        outcome. The first one makes the weights.
    days : CaseDays or None
        When cases were observed, and the days of their outcomes.
    """

    X: Design
    y: np.ndarray
    columns: Any
    attrition: Any
    knots: dict
    report: CaseSeriesReport
    endings: Any = None
    days: Any = None

    def _title(self) -> str:
        subjects, events, days = self.attrition.iloc[-1]
        return (
            f"CaseSeriesData of {counted(self.X.n_rows, 'rows')} and "
            f"{counted(self.X.n_columns, 'columns')}: "
            f"{subjects:,} subjects with {events:,} events in {days:,} days"
        )

    def effects(self, coef):
        """The curves of age, season and calendar time that coefficients make.

        Parameters
        ----------
        coef : array-like of shape (n_columns,), or result
            Such as ``coef_`` of a model; or, for intervals, what `wald`, `bootstrap` or `posterior`
            returns.

        Returns
        -------
        table : pandas.DataFrame
            Lines of ``variable``, ``value`` (age in years, season in months, calendar time in
            years) and ``effect``, less its mean; of a result ``lower`` and ``upper``, too. What
            `EffectsDisplay` draws.
        """
        if not self.knots:
            raise ValueError("there is no spline; pass `age`, `season` or `calendar`.")
        names = np.asarray(self.X.names).astype(object)
        estimates, tables = read_estimates(coef, names), []
        for variable, knots in self.knots.items():
            at = np.flatnonzero([name.startswith(f"{variable} spline ") for name in names])
            value = np.linspace(knots[0], knots[-1], N_VALUES)
            basis = season_basis if variable == "season" else spline_basis
            unit = {"age": 365.25, "season": 1.0, "calendar": 12.0}[variable]
            table = basis(knots, value)
            found = (table - table.mean(axis=0)) @ estimates.table(slice(at[0], at[-1] + 1))
            shown = value / unit + (1970.0 if variable == "calendar" and self.days.is_date else 0.0)
            lines = {"variable": variable, "value": shown, "effect": found[:, 0]}
            tables.append(DataFrame(lines | estimates.bounds(found)))
        return concat(tables, ignore_index=True)

    def to_frame(self):
        """Return subject, count, length and all covariates, dense, a line a row."""
        fields = {field: self.y[field] for field in ("subject", "count", "length")}
        return with_dense(DataFrame(fields), self.X)


class Account:
    """Subjects, events and days that are left after every step."""

    def __init__(self):
        self._steps = {}

    def note(self, step, n_subjects, n_events, n_days):
        """Note who is left after a step."""
        self._steps[step] = int(n_subjects), int(n_events), int(n_days)

    def table(self):
        """Return the table, a line a step."""
        index = Index(self._steps, name="step")
        return DataFrame([*self._steps.values()], index, ["subjects", "events", "days"])


class CaseDays(NamedTuple):
    """First and last days of cases, days of their outcomes by number of the case, and subjects."""

    start: np.ndarray
    end: np.ndarray
    unit: np.ndarray
    day: np.ndarray
    is_date: bool
    label: np.ndarray

    @classmethod
    def of(cls, cases):
        """Periods of the cases with an outcome in observation."""
        return cls(cases.start, cases.end, *cases.outcomes, cases.observed.is_date, cases.label)


def describe_columns(cut):
    """Subjects, days and events where a column is not 0, by name."""
    X, table, subject = cut.X, cut.X.to_scipy(), cut.unit
    found = []
    for j in range(X.n_columns):
        rows = table.indices[table.indptr[j] : table.indptr[j + 1]]
        n_subjects = np.count_nonzero(np.diff(np.sort(subject[rows]), prepend=-1))
        found.append((n_subjects, cut.days[rows].sum(), cut.events[rows].sum()))
    columns = ["subjects", "days", "events"]
    return DataFrame(found, Index(X.names, name="feature"), columns).astype(np.int64)


def outcome_of_rows(count, length, subject) -> np.ndarray:
    """Outcome of rows, whose subjects may be strings as objects."""
    labels = subject.astype(np.str_) if subject.dtype == object else subject
    return case_series(count, length, labels)
