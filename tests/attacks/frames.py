"""Damaged frames of pandas and polars: kinds of columns, missing entries, names, sparse columns."""

import datetime

import numpy as np
import pandas as pd
import polars as pl

from .judge import MEANINGLESS, judge
from .matrices import DOORS, ODD_INTEGERS, ODD_VALUES, pick

PANDAS_KINDS = ("?", "i1", "u8", "f2", "f4", "f8", "Int64", "UInt8", "Float32", "boolean", "object")
POLARS_KINDS = (pl.Boolean, pl.Int8, pl.UInt64, pl.Int128, pl.Float32, pl.Float64)
# Columns without a reading as numbers.
PANDAS_ODD = (
    lambda values: pd.Series(values.astype(str), dtype=object),
    lambda values: pd.Series(values).astype("category"),
    lambda values: pd.Series(values).astype("string"),
    lambda values: pd.Series(values).astype("M8[ns]"),
    lambda values: pd.Series(values).astype("m8[ns]"),
    lambda values: pd.Series(values.astype(complex)),
    lambda values: pd.Series([None] + [1] * (values.size - 1), dtype="Int64"),
    lambda values: pd.Series([None] + [1.5] * (values.size - 1)),
    lambda values: pd.Series([[value] for value in values]),
    lambda values: pd.Series(pd.period_range("2020", periods=values.size, freq="D")),
    lambda values: pd.Series(pd.interval_range(0, values.size, periods=values.size)),
    lambda values: pd.arrays.SparseArray([np.nan, *values[1:]], fill_value=0),
    lambda values: pd.arrays.SparseArray([np.nan, *values[1:]]),
)
POLARS_ODD = (
    lambda values: pl.Series(values.astype(str)),
    lambda values: pl.Series(values.astype(str)).cast(pl.Categorical),
    lambda values: pl.Series([None] * values.size),
    lambda values: pl.Series([None, *values.tolist()[1:]]),
    lambda values: pl.Series([datetime.date(2020, 1, 1)] * values.size),
    lambda values: pl.Series([[value] for value in values.tolist()]),
    lambda values: pl.Series([{"a": value} for value in values.tolist()]),
    lambda values: pl.Series([object()] * values.size, dtype=pl.Object),
    lambda values: pl.Series([float("nan"), *values.tolist()[1:]]),
    lambda values: pl.Series([b"1"] * values.size),
)


def _draw_table(rng):
    n, p = (rng.integers(1, 9), rng.integers(1, 6)) if rng.random() < 0.9 else (300, 5)
    table = (rng.random((n, p)) < rng.choice([0.1, 0.4, 0.9])) * rng.integers(0, 4, (n, p))
    return table.astype(float)


def _sparse_column(rng, values):
    """A sparse column with, sometimes, a damaged index; and what it reads as."""
    fill = pick(rng, (0.0, 0.0, 1.0))
    column = pd.arrays.SparseArray(values, fill_value=fill, kind=pick(rng, ("integer", "block")))
    if rng.random() < 0.4:
        return column, values
    index = column.sp_index
    parts = [getattr(index, name) for name in ("blocs", "blengths") if hasattr(index, name)]
    parts = parts or [index.indices]
    for part in parts:
        if part.size and rng.random() < 0.7:
            part[rng.integers(part.size)] = np.int64(pick(rng, ODD_INTEGERS)).astype(np.int32)
    if rng.random() < 0.3:
        stored = column.sp_values
        column._sparse_values = pick(
            rng, (stored[:-1], np.append(stored, 1.0), stored[None], stored.astype(str))
        )
    return column, _read_sparse(column, values.size, fill)


def _read_sparse(column, n_rows, fill):
    index, stored = column.sp_index, column.sp_values
    if stored.ndim != 1 or stored.dtype.kind != "f":
        return MEANINGLESS
    if hasattr(index, "blocs"):
        blocks = list(zip(index.blocs.tolist(), index.blengths.tolist(), strict=True))
        if any(length < 0 or length > n_rows for _, length in blocks):
            return MEANINGLESS
        rows = [row for start, length in blocks for row in range(start, start + length)]
    else:
        rows = index.indices.tolist()
    is_good = all(0 <= row < n_rows for row in rows) and rows == sorted(set(rows))
    if not is_good or len(rows) != stored.size:
        return MEANINGLESS
    values = np.full(n_rows, fill)
    for row, value in zip(rows, stored.tolist(), strict=True):
        values[row] = value
    return values


def _pandas_column(rng, values):
    choice = rng.random()
    if choice < 0.15:
        return pick(rng, PANDAS_ODD)(values), MEANINGLESS
    if choice < 0.5:
        return _sparse_column(rng, values)
    kind = pick(rng, PANDAS_KINDS)
    if kind in ("?", "boolean"):
        values = values > 0
    elif kind[0].lower() in "iu" and not (values == values.clip(0, 100).round()).all():
        kind = "f8"
    return pd.Series(values).astype(kind), None if kind == "object" else values.astype(float)


def _polars_column(rng, values):
    if rng.random() < 0.15:
        return pick(rng, POLARS_ODD)(values), MEANINGLESS
    kind = pick(rng, POLARS_KINDS)
    if kind == pl.Boolean:
        values = values > 0
    elif not kind.is_float() and not (values == values.clip(0, 100).round()).all():
        kind = pl.Float64
    return pl.Series(values).cast(kind), values.astype(float)


def attack_frame(rng):
    """One attempt with a frame."""
    table, is_pandas = _draw_table(rng), rng.random() < 0.6
    if rng.random() < 0.2:
        table[rng.integers(len(table)), 0] = pick(rng, ODD_VALUES)
    column_of = _pandas_column if is_pandas else _polars_column
    with np.errstate(all="ignore"):
        columns, plain = zip(*(column_of(rng, values.copy()) for values in table.T), strict=True)
    is_meaningless = any(part is MEANINGLESS or not np.isfinite(part).all() for part in plain)
    names = [f"c{j}" for j in range(len(columns))]
    if is_pandas:
        frame = pd.DataFrame(dict(zip(names, columns, strict=True)))
        choice = rng.integers(8)
        if choice == 0:
            frame.columns = pick(
                rng,
                (range(len(names)), pd.MultiIndex.from_product([["a"], names]), [*names[:-1], 7]),
            )
        elif choice == 1:
            frame.columns = [names[0]] * len(names)
            is_meaningless |= len(names) > 1
        elif choice == 2:
            frame.index = rng.permutation(len(frame))
    else:
        frame = pl.DataFrame(dict(zip(names, columns, strict=True)))
    door = DOORS[rng.choice(len(DOORS), p=[0.8, 0.1, 0.0, 0.1, 0.0])]
    if not is_pandas and rng.random() < 0.1:
        frame, is_meaningless, door = frame.lazy(), True, DOORS[0]
    return judge(door, frame, MEANINGLESS if is_meaningless else np.column_stack(plain))
