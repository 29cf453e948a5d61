"""Covariates by windows: each table is read once, and its lines become those of `from_long`.

A column of concept c (or age group, year, month) and kind k has the identifier 1,000 c + k. Kinds
1, 3, 4, 5, 6, 7 are sex, age group, race, ethnicity, year and month; those of a domain of number d
are d + 1, d + 2, ... in its windows, with c = 0 for the number of records; the score is 1,901.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pandas import DataFrame

from .._warnings import warn
from ..cohort.checks import check_ids
from ..data import options
from ..data.sources import read_whole
from ..tables.from_long import from_long
from ..tables.reading import require
from ..tables.windows import Windows
from .tables import DATES, DOMAINS
from .vocabulary import find_concepts, list_names

__all__ = ["extract", "read_windows"]

WINDOWS = {"the last 30 days": (-30, 0), "the last year": (-365, 0)}
KINDS = 1_000
MOST_WINDOWS = 90
SCORE = 1_901
BATCH_SIZE = 1 << 20  # lines
NEVER = 2**31 - 1  # days, of a record without a date
MANY = 2**30  # days, of a window that is open
OF_DOMAINS = [name for name, domain in DOMAINS.items() if domain.number is not None]
# Kind of a demographic column -> its expression in SQL, and what it is called.
DEMOGRAPHICS = {
    1: ("p.gender_concept_id", "sex"),
    3: ("CAST(floor((year(r.day) - p.year_of_birth) / 5) AS INTEGER)", "age"),
    4: ("p.race_concept_id", "race"),
    5: ("p.ethnicity_concept_id", "ethnicity"),
    6: ("year(r.day)", "index year"),
    7: ("month(r.day)", "index month"),
}
OF_CONCEPTS = 1, 4, 5


def read_windows(windows) -> Windows:
    """Read windows of days, by default those of `WINDOWS`."""
    windows = Windows.of(windows or WINDOWS, "present")
    if {*windows.duplicates} != {"present"} or len(windows) > MOST_WINDOWS:
        raise ValueError(
            f"`windows` must be pairs of days, and {MOST_WINDOWS} at most; numbers of records have "
            "columns of their own."
        )
    return windows


def extract(tables, persons, reading, *, windows, exclude, domains, score):
    """Do what `Database.covariates` says; `reading` has arguments of `from_long`."""
    table = read_whole(getattr(persons, "table", persons), "persons")
    for column in ("id", "index_date"):
        require(table.columns, column, "persons", column)
    check_ids(table["id"], "id")
    windows = read_windows(windows)
    reader = _Lines(tables, table, windows)
    chosen = _choose_domains(tables, domains)
    points = _read_score(tables, score)
    lines = reader.read(chosen, find_concepts(tables, exclude), points)
    data = from_long(
        table,
        lines,
        row_id="id",
        names=reader.names,
        duplicates="max",  # records on several days are one entry, whose value is 1
        **reading,
    )
    counts = {
        "n_undated": reader.n_undated,
        "n_missing": data.report.n_missing + reader.n_without_concept,
        "n_lines": data.report.n_lines + reader.n_undated + reader.n_without_concept,
    }
    return replace(data, report=replace(data.report, **counts))


def _choose_domains(tables, domains):
    if domains is not None:
        for name in domains:
            options.choice(name, "domains", OF_DOMAINS)
        return list(dict.fromkeys(domains))
    absent = [DOMAINS[name].table for name in OF_DOMAINS if not tables.has(DOMAINS[name].table)]
    if absent:
        warn(
            f"the database has no table {', '.join(map(repr, absent))}, of which there are no "
            "covariates; name the others by domains= to silence this."
        )
    return [name for name in OF_DOMAINS if tables.has(DOMAINS[name].table)]


def _read_score(tables, score):
    """Points of each comorbidity and its concepts."""
    if score is None:
        return []
    read = []
    for name, pair in score.items():
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise ValueError(f"`score` has {name!r}: {pair!r}; pass its points and its concepts.")
        points = options.number(pair[0], "score", "must have numbers of points")
        read.append((points, find_concepts(tables, pair[1])))
    return read


class _Lines:
    """Lines of all covariates, and what is to be known once they have been read."""

    def __init__(self, tables, table, windows):
        self._tables, self._windows, self._ids = tables, windows, table["id"].to_numpy()
        self.names: dict[int, str] = {}  # of columns; filled while lines are read
        self.n_undated = self.n_without_concept = 0
        index = table["index_date"]
        if getattr(index.dtype, "tz", None) is not None:
            raise TypeError("`persons` has an index_date of a time zone; make it a date.")
        rows = np.arange(len(table), dtype=np.int32)
        tables.register(
            "sksurvgpu_given", DataFrame({"row": rows, "id": table["id"], "day": index})
        )
        kind = tables.frame("SELECT typeof(any_value(day)) AS kind FROM sksurvgpu_given")
        if kind.loc[0, "kind"] not in DATES:
            raise TypeError(f"`persons` has an index_date of {index.dtype}; pass dates.")
        tables.run(
            "CREATE OR REPLACE TEMP TABLE sksurvgpu_rows AS SELECT row, CAST(id AS BIGINT) AS id, "
            "CAST(day AS DATE) AS day FROM sksurvgpu_given"
        )
        found = tables.frame(
            "SELECT count(*) FILTER (r.day IS NULL) AS undated, "
            "count(*) FILTER (p.person_id IS NULL) AS unknown FROM sksurvgpu_rows r "
            f"LEFT JOIN {tables.path('person')} p ON p.person_id = r.id"
        ).loc[0]
        if found.any():
            raise ValueError(
                f"`persons` has {found['unknown']:,} line(s) of persons that the database does not "
                f"have, and {found['undated']:,} without an index_date; leave them out."
            )

    def read(self, domains, excluded, points):
        """Yield frames of lines, and name their columns."""
        self._tables.register("sksurvgpu_excluded", DataFrame({"concept": excluded}))
        yield from self._demographics()
        flags = np.zeros((len(points), len(self._ids)), dtype=np.bool_)
        if points and "condition" not in domains:
            raise ValueError("`score` is made of conditions; name them among domains=.")
        for name in domains:
            of_score = points if name == "condition" else []
            yield from self._records(name, of_score, flags)
        if points:
            values = sum(value * flag for (value, _), flag in zip(points, flags, strict=True))
            self.names[SCORE], rows = "comorbidity score", np.flatnonzero(values)
            yield self._frame(rows, np.full(len(rows), SCORE), values[rows])

    def _frame(self, rows, columns, values=1.0):
        return DataFrame({"id": self._ids[rows], "covariate_id": columns, "value": values})

    def _demographics(self):
        """Columns of what a person is, and when it was."""
        for kind, (expression, name) in DEMOGRAPHICS.items():
            found = self._tables.frame(
                f"SELECT r.row, CAST({expression} AS BIGINT) AS code FROM sksurvgpu_rows r "
                f"JOIN {self._tables.path('person')} p ON p.person_id = r.id "
                f"WHERE coalesce({expression}, 0) <> 0 OR {kind} = 3 ORDER BY r.row"
            ).dropna()
            rows, codes = found["row"].to_numpy(), found["code"].to_numpy(np.int64)
            label = _age_group
            if kind in OF_CONCEPTS:
                label = _Named(self._tables, np.unique(codes))
            elif kind != 3:
                label = str
            for code in np.unique(codes).tolist():
                self.names[code * KINDS + kind] = f"{name}: {label(code)}"
            yield self._frame(rows, codes * KINDS + kind)

    def _records(self, name, points, flags):
        """Columns of the concepts of a domain by window, and of how many records there are."""
        number, counts = DOMAINS[name].number, {}
        concepts: set[int] = set()
        n_rows = len(self._ids)
        low, high = self._bounds()
        for row, concept, day in self._stream(name, points, low.min(), high.max()):
            is_dated, is_there = day != NEVER, concept != 0
            self.n_undated += np.count_nonzero(~is_dated)
            self.n_without_concept += np.count_nonzero(is_dated & ~is_there)
            for (_, ids), flag in zip(points, flags, strict=False):
                flag[row[np.isin(concept, ids) & (day <= 0)]] = True
            for w, window in enumerate(zip(low, high, strict=True)):
                inside = is_there & is_dated & (day >= window[0]) & (day <= window[1])
                if not inside.any():
                    continue
                counts[w] = counts.get(w, 0) + np.bincount(row[inside], minlength=n_rows)
                concepts.update(np.unique(concept[inside]).tolist())
                yield self._frame(row[inside], concept[inside] * KINDS + number + 1 + w)
        self._name(name, number, concepts)
        for w, count in counts.items():
            rows = np.flatnonzero(count)
            columns = np.full(len(rows), number + 1 + w)
            yield self._frame(rows, columns, count[rows].astype(np.float64))

    def _bounds(self):
        """First and last days of windows."""
        days = [np.clip(side, -MANY, MANY) for side in (self._windows.low, self._windows.high)]
        return np.array(days, dtype=np.int64)

    def _stream(self, name, points, first, last):
        """Row, concept and day of each record that may matter, in batches."""
        domain = DOMAINS[name]
        ids = np.concatenate([np.empty(0, np.int64), *(ids for _, ids in points)])
        self._tables.register("sksurvgpu_scored", DataFrame({"concept": np.unique(ids)}))
        day = f"(CAST(t.{domain.start} AS DATE) - r.day)"
        concept = f"coalesce(CAST(t.{domain.concept} AS BIGINT), 0)"
        excluded = f"{concept} IN (SELECT concept FROM sksurvgpu_excluded)"
        scored = f"{concept} IN (SELECT concept FROM sksurvgpu_scored) AND {day} <= 0"
        reader = self._tables.stream(
            f"SELECT r.row, {concept} AS concept, coalesce({day}, {NEVER}) AS day "
            f"FROM {self._tables.path(domain.table)} t JOIN sksurvgpu_rows r "
            f"ON t.{domain.person} = r.id WHERE ({day} IS NULL OR {day} BETWEEN {first} AND {last} "
            f"OR {scored}) AND NOT {excluded}",
            BATCH_SIZE,
        )
        for batch in reader:
            yield [batch[column].to_numpy(zero_copy_only=False) for column in range(3)]

    def _name(self, name, number, concepts):
        label = _Named(self._tables, np.array(sorted(concepts), dtype=np.int64))
        for w, window in enumerate(self._windows.names):
            self.names[number + 1 + w] = f"number of {name} records in {window}"
            for concept in concepts:
                column = concept * KINDS + number + 1 + w
                self.names[column] = f"{name} in {window}: {label(concept)}"


class _Named:
    """Names of concepts; those that the vocabulary lacks are named by their number."""

    def __init__(self, tables, ids):
        self._name_of = list_names(tables, ids)
        lacking = [id for id in ids.tolist() if id not in self._name_of]
        if lacking:
            warn(
                f"the vocabulary has no name of {len(lacking):,} concept(s) of covariates, such as "
                f"{lacking[0]}; they are named by their numbers."
            )

    def __call__(self, concept):
        return self._name_of.get(concept, f"concept {concept}")


def _age_group(code):
    return f"{5 * code}-{5 * code + 4}"
