"""Tables of the results models of CohortMethod 6 and SelfControlledCaseSeries 6, and their checks.

Names of tables and columns, types, and which are required or part of a key, are those of the CSV
specifications in versions 6.0.2 and 6.1.4 of the R packages, in ``cohort_method.csv`` and
``case_series.csv``.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
from pandas import read_csv, to_datetime, to_numeric
from pandas.util import hash_pandas_object

from ..data import options
from .comparison_tables import ComparisonTables
from .effects import censor
from .series_tables import SeriesTables

__all__ = ["check_tables", "write_tables"]

SPECIFICATIONS = {"comparisons": "cohort_method.csv", "case_series": "case_series.csv"}
WRITERS = {"comparisons": ComparisonTables, "case_series": SeriesTables}
INTEGER = re.compile(r"-?\d{1,19}")
LINES_AT_ONCE = 500_000


def read_specification(of="comparisons") -> dict:
    """Columns of each table, in order: type, and whether required and part of the key."""
    tables: dict = {}
    path = Path(__file__).with_name(SPECIFICATIONS[of])
    with open(path, newline="", encoding="utf-8") as file:
        for line in csv.DictReader(file):
            flags = {key: line[key] == "1" for key in ("required", "key", "counts")}
            tables.setdefault(line["table"], {})[line["column"]] = {"type": line["type"], **flags}
    return tables


def check_tables(folder) -> dict:
    """Check files of results against those of CohortMethod 6 and SelfControlledCaseSeries 6.

    Every table of a results model of which the folder has some must be there with all of its
    columns and no others, values of their types, none missing where one is required, and no key
    twice.

    Parameters
    ----------
    folder : path
        Where ``cm_result.csv``, ``sccs_result.csv`` and the others are.

    Returns
    -------
    lines : dict of {str: int}
        Number of lines of each table.

    Examples
    --------
    >>> import tempfile
    >>> from sksurvgpu.study import check_tables
    >>> check_tables(tempfile.mkdtemp())
    Traceback (most recent call last):
    ValueError: the folder has no cm_attrition.csv.
    """

    folder, lines = Path(folder), {}
    models = [read_specification(of) for of in SPECIFICATIONS]
    there = [m for m in models if any((folder / f"{name}.csv").is_file() for name in m)]
    for name, columns in (item for model in there or models[:1] for item in model.items()):
        path = folder / f"{name}.csv"
        if not path.is_file():
            raise ValueError(f"the folder has no {path.name}.")
        keys, n_before = [], 0
        key = [column for column, rule in columns.items() if rule["key"]]
        options_ = {"dtype": str, "keep_default_na": False, "chunksize": LINES_AT_ONCE}
        with read_csv(path, **options_) as chunks:  # those of balance have millions of lines
            for table in chunks:
                differing = {*table} ^ {*columns}
                if differing:
                    raise ValueError(
                        f"{path.name} and its specification differ in {min(differing)!r}."
                    )
                for column, rule in columns.items():
                    _check_column(path.name, column, table[column], rule, n_before)
                keys.append(hash_pandas_object(table[key], index=False).to_numpy())
                n_before += len(table)
        of_all = np.concatenate(keys) if keys else np.empty(0, np.uint64)
        if len(np.unique(of_all)) < n_before:
            _find_twice(path, key)
        lines[name] = n_before
    return lines


def _find_twice(path, key):
    """Name a key that is there twice, if it is one, and not two with one hash."""
    table = read_csv(path, dtype=str, keep_default_na=False, usecols=key)[key]
    twice = table.duplicated()
    if twice.any():
        raise ValueError(f"{path.name} has a key twice: {table[twice].iloc[0].to_dict()}.")


def _check_column(file, column, values, rule, n_before):
    is_empty = values == ""
    if rule["required"] and is_empty.any():
        line = n_before + int(is_empty.argmax()) + 2
        raise ValueError(f"{file} has no {column!r} in line {line:,}.")
    values, kind = values[~is_empty], rule["type"]
    if kind in ("int", "bigint"):
        bits = 31 if kind == "int" else 63
        is_wrong = ~values.str.fullmatch(INTEGER)
        is_wrong |= to_numeric(values.where(~is_wrong, "0")).abs() >= 2**bits
    elif kind == "float":
        is_wrong = ~np.isfinite(to_numeric(values, errors="coerce"))
    elif kind == "date":
        is_wrong = to_datetime(values, format="%Y-%m-%d", errors="coerce").isna()
    else:
        is_wrong = values.str.len() > (20 if kind.endswith("(20)") else np.inf)
    if is_wrong.any():
        wrong = values[is_wrong].iloc[0]
        raise ValueError(f"{file} has {wrong!r} in {column!r}, which is of type {kind}.")


def write_tables(result, folder, database_id, fewest) -> Path:
    """Write all tables of a result, and check them."""
    options.whole(fewest, "min_cell_count", 0)
    folder = Path(folder).expanduser()
    folder.mkdir(parents=True, exist_ok=True)
    for of, writes in WRITERS.items():
        if not result._study[of]:
            continue
        specification = read_specification(of)
        writer = writes(result, database_id, fewest)
        wholes = writer.of_study()
        for name, columns in specification.items():  # all begin anew, with their columns
            path = folder / f"{name}.csv"
            path.write_text(",".join(columns) + "\n", encoding="utf-8")
            if name in wholes:
                _append(path, wholes[name], columns, fewest)
        for name, table in writer.of_parts():
            _append(folder / f"{name}.csv", table, specification[name], fewest)
    check_tables(folder)
    return folder


def _append(path, table, columns, fewest):
    table = table.reindex(columns=[*columns])
    for column, rule in columns.items():
        if rule["counts"] and rule["type"] != "float":  # shares are of their own
            table[column] = censor(table[column], fewest)
        if rule["type"] in ("int", "bigint"):
            table[column] = table[column].astype("Int64")
        elif rule["type"] == "float":
            table[column] = table[column].astype(float).where(np.isfinite)
    options_ = {"header": False, "index": False, "mode": "a", "date_format": "%Y-%m-%d"}
    table.to_csv(path, encoding="utf-8", lineterminator="\n", **options_)
