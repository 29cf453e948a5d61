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
from .grouping import ERROR, LAST, MAX, SUM, Grouping, Tally
from .ids import as_ids, listed, new_ids, read_ids
from .lines import DEFAULT_VALUE, Counts, Lines, check_kind, choose_columns, is_missing
from .names import name_covariates
from .parts import InParts
from .sources import open_source, to_pandas

__all__ = ["BATCH_SIZE", "LongData", "LongReport", "read_long"]

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
    """

    X: Any
    outcomes: Any
    row_ids: np.ndarray
    covariate_ids: np.ndarray
    report: LongReport

    def __repr__(self) -> str:
        return f"<LongData: {self.report!r}>"


def read_long(
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
    store=None,
) -> LongData:
    """What `from_long` does; a `store` writes the columns in parts in place of keeping them."""
    _check_choice("unknown", unknown, ("warn", "error", "ignore"))
    _check_choice("duplicates", duplicates, POLICIES)
    _check_choice("missing", missing, ("error", "drop"))
    min_count, batch_size = _whole("min_count", min_count), _whole("batch_size", batch_size)
    _check_like(like, names, min_count)
    table, row_ids, rows = _read_outcomes(outcomes, row_id, batch_size)
    table, row_ids, rows, edges = _arranged(table, row_ids, rows, store)
    source = open_source(covariates, "covariates")
    columns = choose_columns(source.columns, row_id, covariate_id, value)
    known = None if like is None else _number(like.covariate_ids)
    lines = Lines(columns, rows, known, missing == "drop")
    policy, fewest = POLICIES[duplicates], min_count if like is None else 0
    settled: Any
    if store is None:
        grouping, ids, counts = _group(source, lines, len(row_ids), batch_size, policy == SUM)
        settled = grouping.settle(policy, fewest)
    else:
        counts = Counts()
        parts = lines.read(source.batches(lines.columns, batch_size), counts)
        settled = InParts(store.folder, edges, parts, lines, policy, fewest)
        ids = settled.ids
    if counts.unknown:
        _report_unknown(counts.unknown, lines.example_of_unknown, unknown)
    _check_settled(settled, ids, row_ids, counts)
    kept = ids[settled.is_kept]
    if like is None:
        labels, n_unnamed = name_covariates(kept, names, covariate_id, name)
    else:
        labels, n_unnamed = like.X.names[: len(kept)], like.report.n_unnamed
    X = store.write(settled.designs(labels)) if store else settled.design(len(row_ids), labels)
    return LongData(X, table, row_ids, kept, _summarize(X, counts, settled, n_unnamed))


def _arranged(table, row_ids, rows, store):
    """Outcomes in the order of a store, and where its parts begin and end."""
    if store is None:
        return table, row_ids, rows, None
    order, edges = store.arrange(table)
    table, row_ids = table.iloc[order].reset_index(drop=True), row_ids[order]
    return table, row_ids, _number(row_ids), edges


def _group(source, lines, n_rows, batch_size, sums_duplicates):
    """Read all lines and place them; return them with the identifiers and what was left out."""
    counts, tally, kept, is_kept = Counts(), Tally(), deque(), source.is_single
    for line in lines.read(source.batches(lines.columns, batch_size), counts):
        tally.grow(len(lines.covariates))
        tally.add(*line[1:])
        # Numbers take less than the strings that are held, and less time than finding them again.
        is_kept = source.is_single or (source.is_held and lines.has_text)
        if is_kept:
            kept.append(line)
    lines.freeze()
    ids = np.empty(0) if lines.covariates is None else lines.covariates.distinct()
    tally.grow(len(ids))
    order = np.argsort(ids)
    grouping = Grouping(tally, order, n_rows, sums_duplicates=sums_duplicates)
    again = Counts()
    if is_kept:
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
            own = read_ids(series, f"`outcomes`[{row_id!r}]")
            parts.append(to_pandas(frame, "outcomes"))
            rows = new_ids(own) if rows is None else rows
            check_kind(rows, own, f"`outcomes`[{row_id!r}]", "other rows")
            ids.append(listed(own))
            _add_rows(rows, own, ids[-1], row_id)
    if rows is None:
        raise ValueError("`outcomes` has no rows; pass one line for each row of the design.")
    table = parts[0] if len(parts) == 1 else concat(parts, ignore_index=True)
    return table, np.concatenate(ids), rows


def _add_rows(rows, own, ids, row_id):
    first = len(rows)
    numbers = rows.add(own)
    if len(rows) >= 2**31:
        raise ValueError("`outcomes` has 2^31 rows or more; row numbers are int32.")
    is_repeated = numbers != np.arange(first, first + ids.size)
    if is_repeated.any():
        raise ValueError(
            f"`outcomes` has {row_id!r} {ids[np.argmax(is_repeated)]!s} more than once; every row "
            "has one line there."
        )


def _number(values):
    ids = as_ids(values)
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
            f"{message}; they are left out. unknown='ignore' silences this.", stacklevel=4
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
    column = settled.infinite()
    if column is not None:
        raise ValueError(
            f"`covariates` has lines of covariate {ids[column]!s} of one row that add up to more "
            "than the largest float; rescale its values."
        )


def _summarize(X, counts, settled, n_unnamed):
    n_rows_of = settled.n_rows_of[settled.is_kept]
    return LongReport(
        n_rows=X.shape[0],
        n_covariates=n_rows_of.size,
        n_entries=int(n_rows_of.sum()),
        n_lines=counts.lines,
        n_missing=counts.missing,
        n_unknown=counts.unknown,
        n_unused=counts.unused,
        n_duplicates=settled.n_duplicates,
        n_zeros=settled.n_zeros,
        n_rare=int(np.count_nonzero(~settled.is_kept)),
        n_unnamed=n_unnamed,
        n_rows_without=settled.count_rows_without(X.shape[0]),
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
