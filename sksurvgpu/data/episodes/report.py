"""What `episodes` returns: rows at risk, and what became of the lines."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from ..._tables import Report, Result
from ..design.columns import Design
from ..outcomes.survival import surv

__all__ = ["Episodes", "EpisodesReport", "with_dense"]


@dataclass(frozen=True, repr=False)
class EpisodesReport(Report):
    """What `episodes` read, and what it left out.

    Attributes
    ----------
    n_rows : int
        Rows at risk.
    n_subjects : int
        Persons.
    n_events : int
        Rows that end with an event, as many as there were events.
    n_covariates : int
        Columns made of lines.
    n_lines : int
        Lines read.
    n_missing : int
        Lines left out because identifier, covariate, start or value is missing.
    n_unknown : int
        Lines left out because their person is not among those of the outcomes.
    n_open : int
        Lines without a stop, which hold until the next one or for ever.
    n_empty : int
        Lines left out because they stop where they start.
    n_outside : int
        Lines left out because they lie before or after all follow-up of their person.
    n_clipped : int
        Lines that are cut off where follow-up starts or ends.
    n_overlaps : int
        Lines that overlap an earlier one of their covariate, and were joined with it.
    n_zeros : int
        Entries that are not stored because their value is zero.
    n_unnamed : int
        Columns without a name in `names`, which have their identifier for a name.
    n_rows_without : int
        Rows in which no covariate has a value other than zero.
    """

    COUNTED: ClassVar = {
        "n_rows_without": "rows have no covariate",
        "n_unknown": "lines left out: their person is not among the outcomes",
        "n_missing": "lines left out: identifier, start or value missing",
        "n_empty": "lines left out: they stop where they start",
        "n_outside": "lines left out: outside of follow-up",
        "n_clipped": "lines cut off where follow-up starts or ends",
        "n_open": "lines without a stop",
        "n_overlaps": "lines joined with an earlier one that they overlap",
        "n_zeros": "entries not stored: zero",
        "n_unnamed": "covariates named by their identifier",
    }

    n_rows: int
    n_subjects: int
    n_events: int
    n_covariates: int
    n_lines: int
    n_missing: int
    n_unknown: int
    n_open: int
    n_empty: int
    n_outside: int
    n_clipped: int
    n_overlaps: int
    n_zeros: int
    n_unnamed: int
    n_rows_without: int

    def _begin(self):
        return [
            f"{self.n_rows:,} rows of {self.n_subjects:,} subjects with {self.n_events:,} events",
            f"{self.n_covariates:,} covariates from {self.n_lines:,} lines",
        ]


@dataclass(frozen=True, eq=False, repr=False)
class Episodes(Result):
    """Rows at risk with covariates that are constant in each; made by `episodes`.

    Attributes
    ----------
    X : Design or None
        Covariates, a column each, with names; None where there are none.
    y : structured ndarray of shape (n_rows,)
        Outcome with ``start`` and ``subject``, as `surv` makes it.
    start, time : ndarray of shape (n_rows,), float64
        A row is at risk in (start, time].
    event : ndarray of shape (n_rows,), bool
        Whether the event happened at `time`.
    line : ndarray of shape (n_rows,), int32
        Line of the outcomes that each row is a part of, so that ``outcomes.iloc[line]`` belongs to
        the rows.
    ids : ndarray of shape (n_lines,)
        Identifiers of the lines of the outcomes.
    covariate_ids : ndarray of shape (n_covariates,)
        Identifiers of the columns of `X`; those that were put on its right have none.
    report : EpisodesReport
        What was read, and what was left out.
    """

    X: Design | None
    start: np.ndarray
    time: np.ndarray
    event: np.ndarray
    line: np.ndarray
    ids: np.ndarray
    covariate_ids: np.ndarray
    report: EpisodesReport

    def _title(self) -> str:
        return f"Episodes: {self.report!r}"

    @cached_property
    def y(self) -> np.ndarray:
        """Outcome of the rows."""
        labels = self.ids.astype(np.str_) if self.ids.dtype == object else self.ids
        return surv(self.event, self.time, start=self.start, subject=labels[self.line])

    @property
    def table(self):
        """Identifier, start, time and event of the rows, in pandas."""
        from pandas import DataFrame

        columns = {"start": self.start, "time": self.time, "event": self.event}
        return DataFrame({"id": self.ids[self.line], **columns})

    def to_frame(self):
        """Return the table of the rows with their covariates, dense, on the right."""
        return self.table if self.X is None else with_dense(self.table, self.X)


def with_dense(table, X):
    """Join a table of rows with the columns of a design."""
    from pandas import DataFrame

    twice = [name for name in X.names if name in table.columns]
    if twice:
        raise ValueError(
            f"a covariate is named {twice[0]!r}, as a column of the table of rows is; rename it, "
            "or take `X`."
        )
    return table.join(DataFrame(X.to_scipy().toarray(), columns=X.names))
