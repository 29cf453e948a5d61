"""Long tables, one line a row and covariate, to a Design with names.

Lines are read in batches, twice where the table can be read again: the first pass numbers the
covariates and counts their lines, the second writes every line to its place (`grouping.py`).
Beyond the result that takes one batch, and the identifiers. What can be read once is kept in
between as (int32 row, int32 covariate) and, where some value is not 1, its float64.
"""

import warnings
from collections import deque
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np

from ..._versioned import Versioned
from ..design.columns import SPARSE, Design
from .grouping import ERROR, LAST, MAX, SUM, Grouping, Settled, Tally
from .ids import new_ids, read_ids
from .lines import DEFAULT_VALUE, Counts, Lines, check_kind, choose_columns, is_missing
from .names import name_covariates
from .sources import open_source, to_pandas

__all__ = ["LongData", "LongReport", "from_long"]

POLICIES = {"error": ERROR, "sum": SUM, "max": MAX, "last": LAST}
BATCH_SIZE = 1 << 20


@dataclass(frozen=True)
class LongReport:
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
        Covariates left out because they have entries in fewer than `min_count` rows.
    n_unnamed : int
        Columns without a name in `names`, which have their identifier for a name.
    n_rows_without : int
        Rows without any entry.
    smallest_count, largest_count : int
        Fewest and most rows in which a column is not zero.
    """

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

    def __repr__(self) -> str:
        lines = [
            f"{self.n_rows:,} rows, {self.n_covariates:,} covariates, {self.n_entries:,} entries "
            f"from {self.n_lines:,} lines",
            f"covariates occur in {self.smallest_count:,} to {self.largest_count:,} rows",
            f"{self.n_rows_without:,} rows have no covariate",
        ]
        for count, what in (
            (self.n_unknown, "lines left out: their row is not among the outcomes"),
            (self.n_missing, "lines left out: identifier or value missing"),
            (self.n_unused, "lines left out: their covariate is not one of `like`"),
            (self.n_duplicates, "lines joined with another of the same row and covariate"),
            (self.n_zeros, "entries left out: zero"),
            (self.n_rare, "covariates left out: in too few rows"),
            (self.n_unnamed, "covariates named by their identifier"),
        ):
            if count:
                lines.append(f"{count:,} {what}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class LongData(Versioned):
    """Covariates and outcomes of the same rows; made by `from_long`.

    Attributes
    ----------
    X : Design
        Covariates, a column each, with names; what ``fit`` takes.
    outcomes : pandas.DataFrame
        The table of outcomes, of which row i belongs to row i of `X`.
    row_ids : ndarray of shape (n_rows,)
        Identifiers of the rows, integers or strings.
    covariate_ids : ndarray of shape (n_covariates,)
        Identifiers of the columns of `X`, ascending.
    report : LongReport
        What was read, and what was left out.
    """

    X: Design
    outcomes: Any
    row_ids: np.ndarray
    covariate_ids: np.ndarray
    report: LongReport

    def __repr__(self) -> str:
        return f"<LongData: {self.report!r}>"


def from_long(
    outcomes,
    covariates,
    *,
    row_id="row_id",
    covariate_id="covariate_id",
    value=DEFAULT_VALUE,
    names=None,
    name="name",
    like=None,
    min_count=1,
    unknown="warn",
    duplicates="error",
    missing="error",
    batch_size=BATCH_SIZE,
) -> LongData:
    """Read covariates from a long table, one line for a row and a covariate.

    Observational health databases export such tables: covariates that a row does not have are not
    in them.

    Parameters
    ----------
    outcomes : table
        One line a row (a person, say): its identifier and any other columns, such as event and
        time. Its order is the order of rows.
    covariates : table
        One line for each covariate of a row, in any order: identifiers of row and covariate and,
        unless all are 1, a value. Both tables may be a pandas or polars frame, also a lazy one, an
        Arrow table, reader or dataset, a path of Parquet or Feather files (``~`` is the user's
        home), a folder or a list of such (read by pyarrow or polars), or an iterable of frames.
        `outcomes` is held as a whole. Of `covariates` a batch is, and every source that can be read
        again is read twice; iterators and Arrow readers are kept as 8 bytes a line, 16 where values
        are not all 1.
    row_id : str, default="row_id"
        Name of the column of row identifiers, in both tables. Identifiers are 64-bit integers or
        strings.
    covariate_id : str, default="covariate_id"
        Name of the column of covariate identifiers.
    value : str or None, default="value"
        Name of the column of values; None takes every line for a 1. A table with identifiers only
        needs none.
    names : mapping, pandas.Series or table, optional
        Names by covariate identifier; a table has the columns `covariate_id` and `name`. Columns
        without a name get their identifier, and those that share a name get it with the identifier
        in parentheses.
    name : str, default="name"
        Name of the column of names in a table `names`.
    like : LongData, optional
        Take its columns, with their names, and no others, as data to predict for need them.
    min_count : int, default=1
        Leave out covariates that are not zero in fewer rows.
    unknown : {"warn", "error", "ignore"}, default="warn"
        What to do about lines whose row is not among the outcomes; they are left out.
    duplicates : {"error", "sum", "max", "last"}, default="error"
        What to do about several lines of a row and covariate. "sum" of a table without values
        counts them.
    missing : {"error", "drop"}, default="error"
        What to do about lines in which an identifier or the value is null or NaN.
    batch_size : int, default=1_048_576
        Lines read at once.

    Returns
    -------
    data : LongData
        Design, outcomes, identifiers and a report.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import CoxLassoCCD, from_long, surv
    >>> persons = pd.DataFrame(
    ...     {"row_id": [7, 3, 9, 4], "event": [1, 0, 1, 1], "time": [5.0, 9.0, 2.0, 7.0]}
    ... )
    >>> codes = pd.DataFrame({"row_id": [9, 3, 7, 9], "covariate_id": [21, 40, 21, 40]})
    >>> data = from_long(persons, codes, names={21: "aspirin", 40: "gout"})
    >>> data.report
    4 rows, 2 covariates, 4 entries from 4 lines
    covariates occur in 2 to 2 rows
    1 rows have no covariate
    >>> y = surv(data.outcomes["event"], data.outcomes["time"])
    >>> CoxLassoCCD(alpha=0.1).fit(data.X, y).summary().index.tolist()
    ['aspirin', 'gout']
    """
    _check_choice("unknown", unknown, ("warn", "error", "ignore"))
    _check_choice("duplicates", duplicates, POLICIES)
    _check_choice("missing", missing, ("error", "drop"))
    min_count, batch_size = _whole("min_count", min_count), _whole("batch_size", batch_size)
    _check_like(like, names, min_count)
    table, row_ids, rows = _read_outcomes(outcomes, row_id, batch_size)
    source = open_source(covariates, "covariates")
    columns = choose_columns(source.columns, row_id, covariate_id, value)
    known = None if like is None else _number(like.covariate_ids)
    lines = Lines(columns, rows, known, missing == "drop")
    grouping, ids, counts = _group(source, lines, len(row_ids), batch_size, duplicates == "sum")
    if counts.unknown:
        _report_unknown(counts.unknown, lines.example_of_unknown, unknown)
    settled: Settled = grouping.settle(POLICIES[duplicates], min_count if like is None else 0)
    _check_settled(settled, ids, row_ids, counts)
    ids = ids[settled.is_kept]
    if like is None:
        labels, n_unnamed = name_covariates(ids, names, covariate_id, name)
    else:
        labels, n_unnamed = like.X.names, like.report.n_unnamed
    X = Design(len(row_ids), *settled.columns, labels)
    return LongData(X, table, row_ids, ids, _summarize(X, counts, settled, n_unnamed))


def _group(source, lines, n_rows, batch_size, sums_duplicates):
    """Read all lines and place them; return them with the identifiers and what was left out."""
    counts, tally, kept = Counts(), Tally(), deque()
    for line in lines.read(source.batches(lines.columns, batch_size), counts):
        tally.grow(len(lines.covariates))
        tally.add(*line[1:])
        if source.is_single:
            kept.append(line)
    lines.freeze()
    ids = np.empty(0) if lines.covariates is None else lines.covariates.distinct()
    tally.grow(len(ids))
    order = np.argsort(ids)
    grouping = Grouping(tally, order, n_rows, sums_duplicates=sums_duplicates)
    again = Counts()
    if source.is_single:
        again = counts
        parts = (kept.popleft() for _ in range(len(kept)))
    else:
        parts = lines.read(source.batches(lines.columns, batch_size), again)
    has_room = all(grouping.place(*part) for part in parts)
    if not (has_room and counts == again):  # as many lines as were counted, none too many anywhere
        raise ValueError(
            "`covariates` changed between two readings of it, or can be read only once; pass a "
            "table that stays as it is, or iter(...) of it, which is read once."
        )
    return grouping, ids[order], counts


def _read_outcomes(outcomes, row_id, batch_size):
    """Table in pandas, identifiers of its rows, and their numbers."""
    from pandas import concat

    source = open_source(outcomes, "outcomes")
    if row_id not in source.columns:
        raise ValueError(
            f"`outcomes` has no column {row_id!r}; name one of its columns "
            f"({', '.join(map(repr, source.columns))}) by row_id=."
        )
    parts, ids, rows = [], [], None
    for frame in source.open(source.columns, batch_size):
        series = frame.get_column(row_id)
        if is_missing(series).any():
            raise ValueError(f"`outcomes` has rows without {row_id!r}; drop or number them.")
        if len(frame):
            ids.append(read_ids(series, f"`outcomes`[{row_id!r}]"))
            parts.append(to_pandas(frame, "outcomes"))
            rows = new_ids(ids[-1]) if rows is None else rows
            check_kind(rows, ids[-1], f"`outcomes`[{row_id!r}]", "other rows")
            _add_rows(rows, ids[-1], row_id)
    if rows is None:
        raise ValueError("`outcomes` has no rows; pass one line for each row of the design.")
    table = parts[0] if len(parts) == 1 else concat(parts, ignore_index=True)
    return table, np.concatenate(ids), rows


def _add_rows(rows, ids, row_id):
    first = len(rows)
    numbers = rows.add(ids)
    if len(rows) >= 2**31:
        raise ValueError("`outcomes` has 2^31 rows or more; row numbers are int32.")
    is_repeated = numbers != np.arange(first, first + ids.size)
    if is_repeated.any():
        raise ValueError(
            f"`outcomes` has {row_id!r} {ids[np.argmax(is_repeated)]!s} more than once; every row "
            "has one line there."
        )


def _number(ids):
    known = new_ids(ids)
    known.add(ids)
    return known


def _report_unknown(n_unknown, example, unknown):
    message = (
        f"`covariates` has {n_unknown:,} line(s) whose row is not in `outcomes`, e.g. {example!s}"
    )
    if unknown == "error":
        raise ValueError(f"{message}; pass unknown='ignore' to leave them out.")
    if unknown == "warn":
        warnings.warn(
            f"{message}; they are left out. unknown='ignore' silences this.", stacklevel=3
        )


def _check_settled(settled, ids, row_ids, counts):
    if settled.repeated is not None:
        column, row = settled.repeated
        raise ValueError(
            f"`covariates` has covariate {ids[column]!s} of row {row_ids[row]!s} more than once; "
            "pass duplicates='sum', 'max' or 'last'."
        )
    if not settled.is_kept.any():
        left = f"{counts.unknown:,} of rows that are not in `outcomes`, {counts.missing:,} missing"
        raise ValueError(
            f"`covariates` leaves no column: of its {counts.lines:,} lines {left}, and "
            f"{ids.size:,} covariates are zero or in fewer rows than `min_count`."
        )
    is_finite = np.isfinite(settled.columns.values)
    if not is_finite.all():
        valued = np.flatnonzero(settled.columns.kind == SPARSE)
        starts = settled.columns.value_ptr[valued]
        column = valued[np.searchsorted(starts, np.argmin(is_finite), side="right") - 1]
        raise ValueError(
            f"`covariates` has lines of covariate {ids[settled.is_kept][column]!s} of one row that "
            "add up to more than the largest float; rescale its values."
        )


def _summarize(X, counts, settled, n_unnamed):
    has_entry = np.zeros(X.n_rows, dtype=np.bool_)
    has_entry[X.indices] = True
    n_rows_of = np.diff(X.indptr)
    return LongReport(
        n_rows=X.n_rows,
        n_covariates=X.n_columns,
        n_entries=int(X.indptr[-1]),
        n_lines=counts.lines,
        n_missing=counts.missing,
        n_unknown=counts.unknown,
        n_unused=counts.unused,
        n_duplicates=settled.n_duplicates,
        n_zeros=settled.n_zeros,
        n_rare=int(np.count_nonzero(~settled.is_kept)),
        n_unnamed=n_unnamed,
        n_rows_without=int(np.count_nonzero(~has_entry)),
        smallest_count=int(n_rows_of.min()),
        largest_count=int(n_rows_of.max()),
    )


def _check_choice(argument, value, choices):
    if not isinstance(value, str) or value not in choices:
        raise ValueError(
            f"`{argument}` is {value!r}, must be one of {', '.join(map(repr, choices))}."
        )


def _whole(argument, value):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"`{argument}` is {value!r}, must be a whole number of at least 1.")
    return int(value)


def _check_like(like, names, min_count):
    if like is None:
        return
    if not isinstance(like, LongData):
        raise TypeError(f"`like` is of type {type(like).__name__}; pass what from_long returned.")
    if names is not None or min_count != 1:
        raise ValueError(
            "`names` or `min_count` was passed with `like`, whose columns and names are taken; "
            "leave them out."
        )
