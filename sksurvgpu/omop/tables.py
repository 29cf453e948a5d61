"""Tables of the OMOP common data model, wherever they are, as relations of DuckDB.

Versions 5.4 and 5.3 have the same columns in all that is read here. Names of tables and columns are
found whatever their case is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import NamedTuple

from .._journal import digest_of
from ..data.sources import to_pandas

_numbers = count()


class Domain(NamedTuple):
    """A table of records; `number` is that of covariates, None of what is no domain of such."""

    number: int | None
    table: str
    start: str
    stop: str | None = None

    @property
    def concept(self):
        """Column of the concepts, or of the numbers of cohorts."""
        name = self.table.partition("_")[0]
        return "cohort_definition_id" if name == "cohort" else f"{name}_concept_id"

    @property
    def person(self):
        """Column of the persons."""
        return "subject_id" if self.table == "cohort" else "person_id"


DOMAINS = {
    "condition": Domain(100, "condition_occurrence", "condition_start_date", "condition_end_date"),
    "drug": Domain(300, "drug_exposure", "drug_exposure_start_date", "drug_exposure_end_date"),
    "procedure": Domain(500, "procedure_occurrence", "procedure_date"),
    "measurement": Domain(700, "measurement", "measurement_date"),
    "observation": Domain(800, "observation", "observation_date"),
    "visit": Domain(None, "visit_occurrence", "visit_start_date", "visit_end_date"),
    "cohort": Domain(None, "cohort", "cohort_start_date", "cohort_end_date"),
}
SUPPLY = "days_supply"  # of exposures that have no end
BIRTH = "month_of_birth", "day_of_birth"
OPTIONAL = SUPPLY, *BIRTH, *(domain.stop for domain in DOMAINS.values() if domain.stop)
# Columns that must be there; others that are read may lack.
COLUMNS_OF = {
    "person": "person_id gender_concept_id year_of_birth race_concept_id ethnicity_concept_id",
    "observation_period": "person_id observation_period_start_date observation_period_end_date",
    "concept": "concept_id concept_name",
    "concept_ancestor": "ancestor_concept_id descendant_concept_id",
    "death": "person_id death_date",
}
COLUMNS = {name: columns.split() for name, columns in COLUMNS_OF.items()}
COLUMNS |= {d.table: [d.person, d.concept, d.start] for d in DOMAINS.values()}
ALWAYS = "person", "observation_period", "concept"
DATES = ("DATE", "TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS")
INTEGERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT")
NUMBERS = (*INTEGERS, *(f"U{kind}" for kind in INTEGERS), "FLOAT", "DOUBLE", "DECIMAL")
APART = {"FLOAT": 2**24, "DOUBLE": 2**53}  # whole numbers below are kept apart
# What columns hold by how their names end; others hold numbers.
KINDS = {"date": ("dates", DATES), "name": ("texts", ("VARCHAR",))}


class Place(NamedTuple):
    """Where a table is in DuckDB, and the types of its columns."""

    path: str
    columns: dict[str, str]


class Tables:
    """Tables of the model in a connection to DuckDB, which answers queries one after the other."""

    def __init__(self, connection, places: dict[str, Place]):
        self._connection, self._places = connection, places
        # Other tables are made anew for each question, this one once: connections may be shared.
        self.observed = f"sksurvgpu_observed_{next(_numbers)}"

    def has(self, name) -> bool:
        """Whether a table is there."""
        return name in self._places

    def path(self, name) -> str:
        """Return how SQL names a table, which must be there."""
        if name not in self._places:
            raise ValueError(
                f"the database has no table {name!r}; of its tables, {', '.join(self._places)}."
            )
        return self._places[name].path

    def columns(self, name) -> dict[str, str]:
        """Return types of the columns of a table by their names."""
        return self._places[name].columns

    def run(self, sql, **values):
        """Run a statement that returns nothing."""
        self._connection.execute(sql, values or None)

    def frame(self, sql, **values):
        """Return the result of a query as pandas holds it."""
        return self._connection.execute(sql, values or None).df()

    def stream(self, sql, size):
        """Return the result of a query as batches of Arrow, of which few are held."""
        return self._connection.sql(sql).to_arrow_reader(size)

    def digest(self) -> str:
        """Return what differs where anything that is read of the tables does, not their order."""
        found = []
        for name, place in sorted(self._places.items()):
            read = [c for c in (*COLUMNS[name], *OPTIONAL) if c in place.columns]
            sql = f"SELECT CAST(sum(hash({', '.join(read)})) AS VARCHAR) FROM {place.path}"
            found.append((name, *read, *self._connection.execute(sql).fetchone()))
        return digest_of(found)

    def register(self, name, frame):
        """Let queries read a frame by a name."""
        self._connection.register(name, frame)


def open_tables(source, schema) -> Tables:
    """Connect to DuckDB, and find the tables that are there."""
    try:
        import duckdb
    except ImportError:
        raise ImportError(
            'sksurvgpu.omop joins tables by DuckDB: pip install "sksurvgpu[omop]".'
        ) from None
    if isinstance(source, duckdb.DuckDBPyConnection):
        connection = source
    elif isinstance(source, Mapping):
        connection = _registered(duckdb.connect(), source)
    elif isinstance(source, str | os.PathLike):
        connection = _opened(duckdb, Path(source).expanduser())
    else:
        raise TypeError(
            f"`source` is of type {type(source).__name__}; pass a file of DuckDB, a folder of "
            "Parquet files, a connection, or a mapping from names of tables to tables."
        )
    places = _find_places(connection, schema)
    for name, columns in COLUMNS.items():
        if name in places:
            _check_table(name, places[name].columns, columns)
            places[name] = _in_whole_numbers(connection, name, places[name])
        elif name in ALWAYS:
            there = ", ".join(places) or "none that it should have"
            raise ValueError(f"the database has no table {name!r}; of its tables, {there}.")
    return Tables(connection, places)


def _opened(duckdb, path):
    if path.is_file():
        try:
            return duckdb.connect(str(path), read_only=True)
        except duckdb.Error as error:
            raise ValueError(f"`source` is no database of DuckDB: {error}") from error
    if not path.is_dir():
        raise FileNotFoundError(f"`source` names {str(path)!r}, which does not exist.")
    inside = [place for place in sorted(path.iterdir()) if place.is_dir() or _is_parquet(place)]
    return _registered(duckdb.connect(), {place.stem: place for place in inside})


def _registered(connection, tables):
    """Name tables in a connection: frames and files are read where they are, streams are kept."""
    for given, table in tables.items():
        name = str(given).lower()
        if name not in COLUMNS:
            continue
        if isinstance(table, str | os.PathLike):
            connection.read_parquet(_files(Path(table).expanduser(), name)).create_view(name)
        elif hasattr(table, "__narwhals_dataframe__"):
            connection.register(name, to_pandas(table, name))
        elif hasattr(table, "read_next_batch") or hasattr(table, "__next__"):
            connection.register("stream_of_table", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM stream_of_table")
            connection.unregister("stream_of_table")
        else:
            connection.register(name, table)
    return connection


def _files(path, name):
    """Files of Parquet of a table, in a folder sorted by their names."""
    inside = sorted(path.rglob("*")) if path.is_dir() else [path]
    files = [str(file) for file in inside if _is_parquet(file)]
    if not files:
        raise ValueError(f"{str(path)!r} has no files of Parquet for table {name!r}.")
    return files


def _is_parquet(path):
    return (
        path.is_file() and path.suffix.lower() in (".parquet", ".pq") and path.name[0] not in "._"
    )


def _find_places(connection, schema):
    """Tables of the model in a schema, by default those that need no name of one."""
    database, _, last = (schema or "").rpartition(".")
    found = connection.execute(
        "SELECT database_name, schema_name, table_name, column_name, data_type "
        "FROM duckdb_columns() WHERE NOT internal AND (database_name = "
        "coalesce($database, current_database()) AND lower(schema_name) = "
        "lower(coalesce($schema, current_schema())) "
        "OR $is_default AND database_name = 'temp') "
        "ORDER BY database_name = 'temp', table_name, column_index",
        {"database": database or None, "schema": last or None, "is_default": schema is None},
    ).fetchall()
    places: dict[str, Place] = {}
    for *parts, column, kind in found:
        name = parts[2].lower()
        path = ".".join('"' + part.replace('"', '""') + '"' for part in parts)
        if name in COLUMNS:
            if name not in places or places[name].path != path:
                places[name] = Place(path, {})
            places[name].columns[column.lower()] = kind
    return places


def _check_table(name, columns, required):
    """Check that a table has its columns, and that dates are dates of no time zone."""
    absent = [column for column in required if column not in columns]
    if absent:
        raise ValueError(
            f"table {name!r} lacks {', '.join(map(repr, absent))}; it has "
            f"{', '.join(map(repr, columns))}."
        )
    for column in (column for column in (*required, *OPTIONAL) if column in columns):
        kind = columns[column].partition("(")[0]
        if kind == "TIMESTAMP WITH TIME ZONE":
            raise TypeError(
                f"table {name!r} has times of a zone in {column!r}, whose day depends on where one "
                "is; make them dates."
            )
        what, kinds = KINDS.get(column.rpartition("_")[2], ("numbers", NUMBERS))
        if kind not in (*kinds, '"NULL"'):  # of columns without an entry
            raise TypeError(f"table {name!r} has {kind} in {column!r}; pass {what}.")


def _in_whole_numbers(connection, name, place):
    """A table of whole numbers: frames with gaps, and files of them, have floating point."""
    kinds = {c: place.columns.get(c) for c in (*COLUMNS[name], *OPTIONAL)}
    kinds = {column: kind for column, kind in kinds.items() if kind in APART}
    for column in (column for column in kinds if column.endswith("_id")):
        is_wrong = f"{column} <> floor({column}) OR abs({column}) >= {APART[kinds[column]]}"
        [n] = connection.execute(
            f"SELECT count(*) FROM {place.path} WHERE NOT isnan({column}) AND ({is_wrong})"
        ).fetchone()
        if n:
            raise ValueError(
                f"table {name!r} has {n:,} number(s) in {column!r} that are not whole, or so large "
                f"that {kinds[column]} does not keep them apart; pass integers."
            )
    if not kinds:
        return place
    view = f"sksurvgpu_{name}_{next(_numbers)}"
    whole = ", ".join(f"CASE WHEN isfinite({c}) THEN CAST({c} AS BIGINT) END AS {c}" for c in kinds)
    connection.execute(f"CREATE TEMP VIEW {view} AS SELECT * REPLACE ({whole}) FROM {place.path}")
    return Place(view, place.columns | dict.fromkeys(kinds, "BIGINT"))
