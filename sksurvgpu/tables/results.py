"""Results of reading tables of lines: columns, outcomes and a report."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from pandas import DataFrame

from .._tables import Report, Result
from ..data.design.columns import DENSE, Design
from ..data.outcomes.survival import surv


@dataclass(frozen=True, repr=False)
class LongReport(Report):
    """Counts of lines and columns that `from_long` read and left out.

    Attributes
    ----------
    n_rows : int
        Rows, those of the outcomes.
    n_covariates : int
        Columns.
    n_entries : int
        Entries that are not zero.
    n_lines : int
        Lines read.
    n_missing : int
        Lines left out because an identifier or the value is missing.
    n_unknown : int
        Lines left out because their row is not among the outcomes.
    n_unused : int
        Lines left out because their covariate is not one of `like`.
    n_duplicates : int
        Lines joined with an earlier one of the same row and covariate.
    n_zeros : int
        Entries left out because their value is zero.
    n_rare : int
        Columns left out because they have entries in fewer than `min_count` rows.
    n_unnamed : int
        Covariates without a name in `names`, which have their identifier for a name.
    n_rows_without : int
        Rows without any entry.
    smallest_count, largest_count : int
        Fewest and most rows in which a column is not zero.
    n_outside : int
        Lines left out because they are in none of `windows`.
    n_undated : int
        Lines left out because they have no day, or their row has no index date.
    n_rows_undated : int
        Rows without an index date; they stay, without any entry.
    n_unprepared : int
        Columns that `prepare` left out; its ``report_`` names them and says why.
    """

    COUNTED: ClassVar = {
        "n_rows_undated": "rows have no index date",
        "n_unknown": "lines left out: their row is not among the outcomes",
        "n_missing": "lines left out: identifier or value missing",
        "n_undated": "lines left out: no day, or none of the row's index date",
        "n_outside": "lines left out: outside all windows",
        "n_unused": "lines left out: their covariate is not one of `like`",
        "n_duplicates": "lines joined with another of the same row and covariate",
        "n_zeros": "entries left out: zero",
        "n_rare": "covariates left out: in too few rows",
        "n_unprepared": "covariates left out by `prepare`",
        "n_unnamed": "covariates named by their identifier",
    }

    n_rows: int
    n_covariates: int
    n_entries: int
    n_lines: int
    n_missing: int
    n_unknown: int
    n_unused: int
    n_duplicates: int
    n_zeros: int
    n_rare: int
    n_unnamed: int
    n_rows_without: int
    smallest_count: int
    largest_count: int
    n_outside: int = 0
    n_undated: int = 0
    n_rows_undated: int = 0
    n_unprepared: int = 0

    def _begin(self):
        return [
            f"{self.n_rows:,} rows, {self.n_covariates:,} covariates, {self.n_entries:,} entries "
            f"from {self.n_lines:,} lines",
            f"covariates occur in {self.smallest_count:,} to {self.largest_count:,} rows",
            f"{self.n_rows_without:,} rows have no covariate",
        ]


@dataclass(frozen=True, eq=False, repr=False)
class LongData(Result):
    """Covariates and outcomes of the same rows; made by `from_long`.

    Attributes
    ----------
    X : Design or Rows
        Covariates, a column each, with names; what ``fit`` takes. A handle where they were written
        to files.
    outcomes : pandas.DataFrame
        The table of outcomes, of which row i belongs to row i of `X`.
    row_ids : ndarray of shape (n_rows,)
        Identifiers of the rows, integers or strings.
    covariate_ids : ndarray of shape (n_covariates,)
        Identifiers of the columns of `X`, ascending; those that were put on its right have none.
    report : LongReport
        What was read, and what was left out.
    windows : dict or None
        First day, last day and what became of several lines, by name of window.
    window_of : ndarray of shape (n_covariates,) or None
        Names of the windows of the columns.
    prepare : PrepareColumns or None
        What left out columns and divided the others, fitted.
    """

    X: Any
    outcomes: Any
    row_ids: np.ndarray
    covariate_ids: np.ndarray
    report: LongReport
    windows: dict | None = None
    window_of: np.ndarray | None = None
    prepare: Any = None

    def _title(self) -> str:
        return f"LongData: {self.report!r}"


@dataclass(frozen=True, repr=False)
class EpisodesReport(Report):
    """Counts of lines that `episodes` read and left out.

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
        columns = {"start": self.start, "time": self.time, "event": self.event}
        return DataFrame({"id": self.ids[self.line], **columns})

    def to_frame(self):
        """Return the table of the rows with their covariates, dense, on the right."""
        return self.table if self.X is None else with_dense(self.table, self.X)


def with_dense(table, X):
    """Join a table of rows with the columns of a design."""
    twice = [name for name in X.names if name in table.columns]
    if twice:
        raise ValueError(
            f"a covariate is named {twice[0]!r}, as a column of the table of rows is; rename it, "
            "or take `X`."
        )
    return table.join(DataFrame(X.to_scipy().toarray(), columns=X.names))


def count_rows_without(X):
    """Rows of a design in which no column has an entry."""
    if (X.kind == DENSE).any():
        return 0
    has_entry = np.zeros(X.n_rows, dtype=np.bool_)
    has_entry[X.indices] = True
    return int(np.count_nonzero(~has_entry))
