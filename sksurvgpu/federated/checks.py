"""What a site tells of its rows, checked before compiled code of the coordinator relies on it."""

from __future__ import annotations

import numpy as np

from ..backends.sums.messages import Description

__all__ = ["check_answer"]

# Tables of descriptions that number labels, by those that have the labels.
NUMBERS = {
    "stratum": "labels",
    "lane_stratum": "labels",
    "censor_group": "censor_labels",
    "lane_group": "censor_labels",
}
TOGETHER = ("stratum", "time", "deaths"), ("censor_group", "censor_time")
FLAT = {*NUMBERS, "labels", "censor_labels", "time", "censor_time", "deaths", "last"}
COUNTS = ("deaths", "units", "events")


def check_answer(answer) -> None:
    """Refuse an answer that is not of the form that its kind has; ValueError says what is wrong."""
    if isinstance(answer, Description):
        _check_description(answer)


def _check_description(found):
    _require(found.rows >= 0, f"says that it has {found.rows:,} rows")
    columns, tables = found.columns, found.tables
    is_right = columns.ndim == 2 and columns.shape[1] == 5 and columns.dtype.kind == "f"
    _require(is_right, f"tells {columns.shape} numbers of columns, not 5 of each")
    is_right = found.names is None or len(found.names) == len(columns)
    _require(is_right, f"has another number of names than of columns, {len(columns):,}")
    entries = columns[:, 0]
    is_right = (entries >= 0) & (entries <= found.rows) & (entries == np.floor(entries))
    _require(
        is_right.all(), f"tells of columns with other numbers of rows than 0 to {found.rows:,}"
    )
    _check_tables(tables, found.rows)


def _check_tables(tables, n_rows):
    flat = [tables[name].ndim == 1 for name in FLAT if name in tables]
    _require(all(flat), "has tables of tables")
    for name in COUNTS:
        _check_numbers(tables, name, n_rows if name == "deaths" else np.inf)
    for name, labels in NUMBERS.items():
        _check_numbers(tables, name, len(tables.get(labels, ())) - 1)
    for names in TOGETHER:
        lengths = {len(tables[name]) for name in names if name in tables}
        _require(len(lengths) < 2, f"has tables {', '.join(names)} that are not of one length")
    for name in ("time", "censor_time"):
        times = tables.get(name, np.zeros(0))
        is_right = times.dtype.kind == "f" and np.isfinite(times).all()
        _require(is_right, f"has a table {name!r} that is not of finite numbers")
    labels = tables.get("labels", ())
    is_right = len(tables.get("last", labels)) == len(labels)
    _require(is_right, "has a table 'last' that is not of a number a label")


def _require(is_right, otherwise):
    if not is_right:
        raise ValueError(f"its description {otherwise}.")


def _check_numbers(tables, name, most):
    """Check that a table is of whole numbers from 0 to `most`."""
    if name not in tables:
        return
    values = tables[name]
    is_right = values.dtype.kind in "uif" and np.all((values >= 0) & (values <= most))
    is_right = is_right and np.all(values == np.floor(values))
    _require(is_right, f"has a table {name!r} that is not of whole numbers from 0 to {most:,g}")
