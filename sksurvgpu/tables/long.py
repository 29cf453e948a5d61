"""Long tables, one line a row and covariate, to a Design with names.

Lines are read in batches, twice where the table can be read again: the first pass numbers the
covariates and counts their lines, the second writes every line to its place (`grouping.py`).
Beyond the result that takes one batch, and the identifiers. What can be read once is kept in
between as (int32 row, int32 covariate) and, where some value is not 1, its float64.
"""

import warnings
from collections import deque
from contextlib import closing
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone

from ..data.design.entries import divided
from ..data.prepare import PrepareColumns
from ..data.sources import open_source, to_pandas
from .grouping import Grouping, Tally
from .ids import as_ids, is_missing, listed, new_ids, read_ids
from .lines import DEFAULT_VALUE, Counts, Lines, check_kind, choose_columns
from .names import name_covariates
from .parts import InParts
from .results import LongData, LongReport
from .windows import (
    DEFAULT_DAY,
    DEFAULT_INDEX_DATE,
    Columns,
    Windows,
    check_policy,
    read_index_dates,
)

__all__ = ["BATCH_SIZE", "read_long"]

BATCH_SIZE = 1 << 20


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
    windows=None,
    day=DEFAULT_DAY,
    index_date=DEFAULT_INDEX_DATE,
    prepare=None,
    verbose=0,
    store=None,
) -> LongData:
    """What `from_long` does; a `store` writes the columns in parts in place of keeping them."""
    _check_choice("unknown", unknown, ("warn", "error", "ignore"))
    _check_choice("missing", missing, ("error", "drop"))
    min_count, batch_size = _whole("min_count", min_count), _whole("batch_size", batch_size)
    _check_like(like, names=names, min_count=min_count, windows=windows, prepare=prepare)
    _check_prepare(prepare, like, store)
    windows = _read_windows(windows, duplicates, like, (day, index_date))
    table, row_ids, rows, edges = _arranged(*_read_outcomes(outcomes, row_id, batch_size), store)
    source = replace(open_source(covariates, "covariates"), verbose=verbose)
    index = read_index_dates(table, index_date, missing == "drop") if windows.is_dated else None
    known, wanted = _columns_of(like, windows)
    value = None if windows.need_no_values else value
    asked = row_id, covariate_id, value, day if windows.is_dated else None
    labels, columns = choose_columns(source.columns, *asked), Columns(windows, index, wanted)
    lines = Lines(labels, columns, rows, known, missing == "drop")
    fewest = min_count if like is None else 0
    settled, found, counts = _settle(source, lines, batch_size, fewest, store, edges)
    _report_unknown(counts.unknown, lines.example_of_unknown, unknown)
    _check_settled(settled, found, row_ids, counts, windows.names)
    ids, window_of = found.kept(settled.is_kept, windows.names)
    if like is None:
        given, n_unnamed = name_covariates(ids, names, covariate_id, name, window_of)
    else:
        given, n_unnamed = like.X.names[: len(ids)], like.report.n_unnamed
    X = store.write(settled.designs(given)) if store else settled.design(len(row_ids), given)
    X, prepare, chosen = _prepared(X, prepare, like)
    summary = _summarize(X, counts, settled, n_unnamed, (index, chosen))
    dated = (windows.as_given(), window_of[chosen]) if windows.is_dated else (None, None)
    return LongData(X, table, row_ids, ids[chosen], summary, *dated, prepare)


def _settle(source, lines, batch_size, fewest, store, edges) -> tuple[Any, Any, Counts]:
    """Read all lines and settle their columns, in memory or in the parts of a store."""
    if store is None:
        grouping, found, counts = _group(source, lines, batch_size)
        return grouping.settle(fewest), found, counts
    counts = Counts()
    with closing(lines.read(source.batches(lines.labels, batch_size), counts)) as parts:
        settled = InParts(store.folder, edges, parts, lines, fewest)
    return settled, settled.found, counts


def _read_windows(windows, duplicates, like, labels):
    """Windows and what becomes of several lines there, those of `like` where it is given."""
    check_policy("duplicates", duplicates)
    if like is not None and like.windows is not None:
        if duplicates != "error":
            raise ValueError(
                "`duplicates` was passed with `like`, whose windows say what becomes of several "
                "lines; leave it out."
            )
        windows = like.windows
    if windows is None and labels != (DEFAULT_DAY, DEFAULT_INDEX_DATE):
        raise ValueError(
            f"`day` and `index_date` name the columns {labels[0]!r} and {labels[1]!r}, which only "
            "windows of time use; pass `windows`, such as [(-365, -1)], or leave them out."
        )
    return Windows.of(windows, duplicates)


def _columns_of(like, windows):
    """Numbers of the covariates of `like`, and covariate and window of each of its columns."""
    if like is None:
        return None, None
    ids = as_ids(like.covariate_ids)
    known = new_ids(ids)
    window = np.zeros(ids.size, dtype=np.int64)
    if like.windows is not None:
        window[:] = [windows.names.index(name) for name in like.window_of]
    return known, (known.add(ids), window)


def _prepared(X, prepare, like):
    """Columns as `prepare` leaves them, what did it, and which of the columns they are."""
    if prepare is not None:
        prepare = clone(prepare).fit(X)
        return prepare.transform(X), prepare, prepare.columns_
    if like is not None and like.prepare is not None:
        return divided(X, like.prepare.scale_), like.prepare, slice(None)
    return X, None, slice(None)


def _arranged(table, row_ids, rows, store):
    """Outcomes in the order of a store, and where its parts begin and end."""
    if store is None:
        return table, row_ids, rows, None
    order, edges = store.arrange(table)
    table, row_ids = table.iloc[order].reset_index(drop=True), row_ids[order]
    return table, row_ids, _number(row_ids), edges


def _group(source, lines, batch_size):
    """Read all lines and place them; return them with their columns and what was left out."""
    counts, tally, kept = Counts(), Tally(), deque()
    is_kept, has_moments = source.is_single, False
    with closing(lines.read(source.batches(lines.labels, batch_size), counts)) as parts:
        for line in parts:
            tally.grow(lines.n_columns)
            tally.add(*line[1:3])
            has_moments = line[3] is not None
            # Numbers take less than strings that are held, and less time than to find them again.
            is_kept = source.is_single or (source.is_held and lines.has_text)
            if is_kept:
                kept.append(line)
    found = lines.found()
    tally.grow(found.ids.size)
    grouping = Grouping(tally, found.order, lines.n_rows, found.policies, has_moments=has_moments)
    again = Counts()
    if is_kept:
        again = counts
        parts = (kept.popleft() for _ in range(len(kept)))
    else:
        parts = lines.read(source.batches(lines.labels, batch_size), again)
    with closing(parts):
        has_room = all(grouping.place(*part) for part in parts)
    if not (has_room and counts == again):  # as many lines as were counted, none too many anywhere
        raise ValueError(
            "`covariates` changed between two readings of it, or can be read only once; pass a "
            "table that stays as it is, or iter(...) of it, which is read once."
        )
    return grouping, found, counts


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
    if not n_unknown:
        return
    message = (
        f"`covariates` has {n_unknown:,} line(s) whose row is not in `outcomes`, e.g. {example!s}"
    )
    if unknown == "error":
        raise ValueError(f"{message}; pass unknown='ignore' to leave them out.")
    if unknown == "warn":
        warnings.warn(
            f"{message}; they are left out. unknown='ignore' silences this.", stacklevel=4
        )


def _check_settled(settled, found, row_ids, counts, windows):
    if settled.repeated is not None:
        column, row = settled.repeated
        window = windows[found.window[column]]
        place = f" in window {window!r}" if window else ""
        raise ValueError(
            f"`covariates` has covariate {found.ids[column]!s} of row {row_ids[row]!s} more than "
            f"once{place}; pass duplicates='last', 'first', 'sum', 'mean', 'max' or 'min' of its "
            "values, or the 'count' of its lines, or 'present', which is 1."
        )
    if not settled.is_kept.any():
        left = f"{counts.unknown:,} of rows that are not in `outcomes`, {counts.missing:,} missing"
        if any(windows):
            left += f", {counts.undated:,} without a date, {counts.outside:,} outside all windows"
        n_others = np.count_nonzero(settled.has_lines)
        raise ValueError(
            f"`covariates` leaves no column: of its {counts.lines:,} lines {left}, and "
            f"{n_others:,} covariates are zero or in fewer rows than `min_count`."
        )
    column = settled.infinite()
    if column is not None:
        raise ValueError(
            f"`covariates` has lines of covariate {found.ids[column]!s} of one row that add up to "
            "more than the largest float; rescale its values."
        )


def _summarize(X, counts, settled, n_unnamed, others):
    index, chosen = others
    n_rows_of = settled.n_rows_of[settled.is_kept]
    n_unprepared = n_rows_of.size - n_rows_of[chosen].size
    n_rows_of = n_rows_of[chosen]
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
        n_rare=int(np.count_nonzero(settled.has_lines & ~settled.is_kept)),
        n_unnamed=n_unnamed,
        n_rows_without=_count_rows_without(X, settled),
        smallest_count=int(n_rows_of.min()),
        largest_count=int(n_rows_of.max()),
        n_outside=counts.outside,
        n_undated=counts.undated,
        n_rows_undated=0 if index is None else int(np.count_nonzero(~index[1])),
        n_unprepared=n_unprepared,
    )


def _count_rows_without(X, settled):
    """Rows without any entry."""
    if isinstance(settled, InParts):
        return settled.n_rows_without
    has_entry = np.zeros(X.n_rows, dtype=np.bool_)
    has_entry[X.indices] = True
    return int(np.count_nonzero(~has_entry))


def _check_choice(argument, value, choices):
    if not isinstance(value, str) or value not in choices:
        raise ValueError(
            f"`{argument}` is {value!r}, must be one of {', '.join(map(repr, choices))}."
        )


def _whole(argument, value):
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"`{argument}` is {value!r}, must be a whole number of at least 1.")
    return int(value)


def _check_like(like, **others):
    if like is None:
        return
    if not isinstance(like, LongData):
        raise TypeError(f"`like` is of type {type(like).__name__}; pass what from_long returned.")
    given = [name for name, value in others.items() if value is not None and name != "min_count"]
    if others["min_count"] != 1:
        given.append("min_count")
    if given:
        raise ValueError(
            f"`{given[0]}` was passed with `like`, whose columns, names, windows and scales are "
            "taken; leave it out."
        )


def _check_prepare(prepare, like, store):
    prepare = like.prepare if like is not None else prepare
    if prepare is None:
        return
    if not isinstance(prepare, PrepareColumns):
        raise TypeError(f"`prepare` is of type {type(prepare).__name__}; pass a PrepareColumns.")
    if store is not None:
        raise ValueError(
            "`prepare` takes all rows in memory, and `to` writes them to files; leave out one. "
            "min_count= leaves out rare covariates of files."
        )
