"""What becomes of long tables: columns, outcomes and a report."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._tables import Report, Result

__all__ = ["LongData", "LongReport"]


@dataclass(frozen=True, repr=False)
class LongReport(Report):
    """What `from_long` read, and what it left out.

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
