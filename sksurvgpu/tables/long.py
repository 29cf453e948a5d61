"""Long tables, one line a row and covariate, to a Design with names.

Lines are read in batches, twice where the table can be read again: the first pass numbers the
covariates and counts their lines, the second writes every line to its place (`grouping.py`).
Beyond the result that takes one batch, and the identifiers. What can be read once is kept in
between as (int32 row, int32 covariate) and, where some value is not 1, its float64.
"""

from collections import deque
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone

from ..data import options
from ..data.design.entries import divided
from ..data.prepare import PrepareColumns
from ..data.sources import open_source
from .grouping import POLICIES, Grouping, Tally
from .ids import as_ids
from .lines import LongLines, choose_columns
from .names import name_covariates
from .numbering import Ids
from .parts import InParts
from .reading import LineCounts, LineReader, read_persons
from .results import LongData, LongReport, count_rows_without
from .windows import DEFAULT_DAY, DEFAULT_INDEX_DATE, IndexDates, Windows


@dataclass(frozen=True)
class LongOptions:
    """Arguments of `from_long` beside both tables."""

    row_id: str
    covariate_id: str
    value: str | None
    names: Any
    name: str
    like: LongData | None
    min_count: int
    unknown: str
    duplicates: str
    missing: str
    batch_size: int
    windows: Any
    day: str
    index_date: str
    prepare: PrepareColumns | None
    verbose: int

    @property
    def drops_missing(self):
        """Whether lines with a missing entry are left out."""
        return self.missing == "drop"

    def checked(self, store):
        """Return the options with whole numbers as int; `store` is None without files."""
        options.choice(self.unknown, "unknown", ("warn", "error", "ignore"))
        options.choice(self.missing, "missing", ("error", "drop"))
        min_count = options.whole(self.min_count, "min_count", 1)
        batch_size = options.whole(self.batch_size, "batch_size", 1)
        self._check_like(min_count)
        self._check_prepare(store)
        return replace(self, min_count=min_count, batch_size=batch_size)

    def _check_like(self, min_count):
        if self.like is None:
            return
        if not isinstance(self.like, LongData):
            raise TypeError(
                f"`like` is of type {type(self.like).__name__}; pass what from_long returned."
            )
        passed = {"names": self.names, "windows": self.windows, "prepare": self.prepare}
        passed["min_count"] = None if min_count == 1 else min_count
        for argument, value in passed.items():
            if value is not None:
                raise ValueError(
                    f"`{argument}` was passed with `like`, whose columns, names, windows and "
                    "scales are taken; leave it out."
                )

    def _check_prepare(self, store):
        prepare = self.prepare if self.like is None else self.like.prepare
        if prepare is None:
            return
        if not isinstance(prepare, PrepareColumns):
            raise TypeError(
                f"`prepare` is of type {type(prepare).__name__}; pass a PrepareColumns."
            )
        if store is not None:
            raise ValueError(
                "`prepare` takes all rows in memory, and `to` writes them to files; leave out one. "
                "min_count= leaves out rare covariates of files."
            )

    def read_windows(self):
        """Windows and what becomes of several lines there, those of `like` where it is given."""
        options.choice(self.duplicates, "duplicates", POLICIES)
        windows = self.windows
        if self.like is not None and self.like.windows is not None:
            if self.duplicates != "error":
                raise ValueError(
                    "`duplicates` was passed with `like`, whose windows say what becomes of several"
                    " lines; leave it out."
                )
            windows = self.like.windows
        if windows is None and (self.day, self.index_date) != (DEFAULT_DAY, DEFAULT_INDEX_DATE):
            raise ValueError(
                f"`day` and `index_date` name the columns {self.day!r} and {self.index_date!r}, "
                "which only windows of time use; pass `windows`, such as [(-365, -1)], or leave "
                "them out."
            )
        return Windows.of(windows, self.duplicates)


def read_long(outcomes, covariates, options: LongOptions, store=None) -> LongData:
    """Do what `from_long` says; a `store` writes the columns in parts in place of keeping them."""
    options = options.checked(store)
    like, windows = options.like, options.read_windows()
    rows = _read_rows(outcomes, options, store)
    source = replace(open_source(covariates, "covariates"), verbose=options.verbose)
    index = None
    if windows.is_dated:
        index = IndexDates.of(rows.table, options.index_date, options.drops_missing)
    columns = choose_columns(
        source.columns,
        options.row_id,
        options.covariate_id,
        None if windows.need_no_values else options.value,
        options.day if windows.is_dated else None,
    )
    reader = LineReader("covariates", columns, options.drops_missing)
    lines = LongLines(reader, rows, windows, index, _columns_of(like, windows))
    settled, found, counts = _settle(source, lines, options, store)
    counts.report_unknown(options.unknown, "row")
    _check_settled(settled, found, rows.ids, counts, windows.names)
    ids = found.ids[settled.is_kept]
    window_of = np.array(windows.names, dtype=object)[found.window[settled.is_kept]]
    if like is None:
        named = name_covariates(ids, options.names, options.covariate_id, options.name, window_of)
        names, n_unnamed = named
    else:
        names, n_unnamed = like.X.names[: len(ids)], like.report.n_unnamed
    X = store.write(settled.designs(names)) if store else settled.design(len(rows.ids), names)
    X, prepare, chosen = _prepared(X, options)
    report = _summarize(X, counts, settled, n_unnamed, index, chosen)
    data = LongData(X, rows.table, rows.ids, ids[chosen], report, prepare=prepare)
    if not windows.is_dated:
        return data
    return replace(data, windows=windows.as_given(), window_of=window_of[chosen])


def _read_rows(outcomes, options, store):
    """Outcomes as persons, in the order of a store."""
    rows = read_persons(
        outcomes,
        "outcomes",
        options.row_id,
        argument="row_id",
        each="row of the design",
        size=options.batch_size,
    )
    if len(rows.known) >= 2**31:
        raise ValueError("`outcomes` has 2^31 rows or more; row numbers are int32.")
    is_repeated = rows.number != np.arange(rows.number.size)
    if is_repeated.any():
        raise ValueError(
            f"`outcomes` has {options.row_id!r} {rows.ids[np.argmax(is_repeated)]!s} more than "
            "once; every row has one line there."
        )
    if store is None:
        return rows
    order = store.arrange(rows.table)
    table, ids = rows.table.iloc[order].reset_index(drop=True), rows.ids[order]
    known = Ids()
    return rows._replace(table=table, ids=ids, number=known.add(as_ids(ids)), known=known)


def _columns_of(like, windows):
    """Numbers of the covariates of `like`, and covariate and window of each of its columns."""
    if like is None:
        return None
    known = Ids()
    covariate = known.add(as_ids(like.covariate_ids))
    window = np.zeros(covariate.size, dtype=np.int64)
    if like.windows is not None:
        window[:] = [windows.names.index(name) for name in like.window_of]
    return known, covariate, window


def _prepared(X, options):
    """Columns as `prepare` leaves them, what did it, and which of the columns they are."""
    if options.prepare is not None:
        prepare = clone(options.prepare).fit(X)
        return prepare.transform(X), prepare, prepare.columns_
    prepare = None if options.like is None else options.like.prepare
    if prepare is not None:
        X = divided(X, prepare.scale_)
    return X, prepare, slice(None)


def _settle(source, lines, options, store):
    """Read all lines and settle their columns, in memory or in the parts of a store.

    Returns what they have become, the columns found, and the lines that were left out.
    """
    fewest = options.min_count if options.like is None else 0

    def read(counts):
        return lines.read(source.batches(lines.reader.labels, options.batch_size), counts)

    counts = LineCounts()
    if store is None:
        grouping, found = _group(source, lines, read, counts)
        return grouping.settle(fewest), found, counts
    with closing(read(counts)) as parts:
        settled = InParts(store.folder, store.edges, parts, lines, fewest)
    return settled, settled.found, counts


def _group(source, lines, read, counts):
    """Place all lines that `read` reads, and count those left out; return columns found, too."""
    tally, held = Tally(), deque()
    # Numbers take less than strings that are in memory, and less time than to find them again.
    is_held, has_moments = source.is_single, False
    with closing(read(counts)) as parts:
        for part in parts:
            tally.grow(lines.n_columns)
            tally.add(part)
            has_moments = part.moments is not None
            is_held = source.is_single or (source.is_held and lines.has_text)
            if is_held:
                held.append(part)
    found = lines.found()
    tally.grow(found.ids.size)
    grouping = Grouping(tally, found.order, lines.n_rows, found.policies, has_moments=has_moments)
    if is_held:
        again, parts = counts, (held.popleft() for _ in range(len(held)))
    else:
        again = LineCounts()
        parts = read(again)
    with closing(parts):
        has_room = all(grouping.place(part) for part in parts)
    if not (has_room and counts == again):  # as many lines as were counted, none too many anywhere
        raise ValueError(
            "`covariates` changed between two readings of it, or can be read only once; pass a "
            "table that stays as it is, or iter(...) of it, which is read once."
        )
    return grouping, found


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


def _summarize(X, counts, settled, n_unnamed, index, chosen):
    n_rows_of = settled.n_rows_of[settled.is_kept]
    n_unprepared = n_rows_of.size - n_rows_of[chosen].size
    n_rows_of = n_rows_of[chosen]
    is_in_parts = isinstance(settled, InParts)
    n_rows_without = settled.n_rows_without if is_in_parts else count_rows_without(X)
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
        n_rows_without=n_rows_without,
        smallest_count=int(n_rows_of.min()),
        largest_count=int(n_rows_of.max()),
        n_outside=counts.outside,
        n_undated=counts.undated,
        n_rows_undated=0 if index is None else int(np.count_nonzero(~index.is_dated)),
        n_unprepared=n_unprepared,
    )
