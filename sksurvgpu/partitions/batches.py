"""Batches of rows as users give them, and as they are stored: a design, and a vector a field."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import narwhals as nw
import numpy as np
import scipy.sparse as sp

from ..data.design.columns import Design, build_design
from ..data.design.join import join_rows
from ..data.partitioned import OutcomeInPartitions, is_of_dask
from ..data.sources import open_source
from ..data.vectors import as_vector, check_length, from_objects
from .threads import blame

Key = tuple[str, str]  # argument of fit, and field of a structured array, or ""
ARGUMENTS = ("X", "y", "sample_weight", "offset")  # of a batch that is a tuple
KINDS = {"b": "booleans", "i": "numbers", "u": "numbers", "f": "numbers", "U": "text"}


@dataclass(frozen=True)
class RowBatch:
    """Some rows: their columns of X, and whatever has an entry a row."""

    design: Design
    fields: dict[Key, np.ndarray]

    def __len__(self) -> int:
        return self.design.n_rows

    @classmethod
    def join(cls, parts: Sequence[tuple[RowBatch, int, int]]) -> RowBatch:
        """Rows from `low` to before `high` of batches, one below the other."""
        design = join_rows([(batch.design, low, high) for batch, low, high in parts])
        fields = {
            key: np.concatenate([batch.fields[key][low:high] for batch, low, high in parts])
            for key in parts[0][0].fields
        }
        return cls(design, fields)

    def reordered(self, order: np.ndarray) -> RowBatch:
        """Rows of the batch in another order."""
        fields = {key: np.ascontiguousarray(values[order]) for key, values in self.fields.items()}
        return RowBatch(self.design.reordered(order), fields)


def read_batches(batches, outcome, columns: Mapping[str, str], size: int) -> Iterator[RowBatch]:
    """Read what `write_partitions` was given; batches without a row are left out."""
    expected = None
    for number, arguments in enumerate(_arguments(batches, outcome, columns, size)):
        try:
            X = arguments["X"]
            if _count_rows(X) == 0:
                continue
            batch = _read(X, arguments)
            expected = expected or batch
            _check_alike(batch, expected)
        except (TypeError, ValueError) as error:
            raise blame(number, error, "batch") from error
        yield batch


def _arguments(batches, outcome, columns, size) -> Iterator[Mapping[str, Any]]:
    """Arguments of fit by name, a batch after the other."""
    _refuse_dask(batches)
    if outcome is not None:
        source = open_source(batches, "batches")
        for number, frame in enumerate(source.batches(source.columns, size)):
            try:
                arguments = split_table(frame, outcome, columns)
            except (TypeError, ValueError) as error:
                raise blame(number, error, "batch") from error
            yield arguments
        return
    if columns:
        raise ValueError("`columns` names columns of tables, which takes an `outcome` beside them.")
    is_tuple = isinstance(batches, tuple)  # one batch, unless it is of such
    if isinstance(batches, Mapping) or (is_tuple and not isinstance(batches[0], tuple | Mapping)):
        yield from _cut(_named(batches), size)
        return
    if hasattr(batches, "shape") or not isinstance(batches, Iterable) or isinstance(batches, str):
        raise TypeError(
            f"`batches` is of type {type(batches).__name__}; pass (X, y), an iterable of such, or "
            "a table and outcome=surv, say, for what of it is the outcome."
        )
    for batch in batches:
        yield from _cut(_named(batch), size)


def _named(batch) -> Mapping[str, Any]:
    if isinstance(batch, tuple) and 0 < len(batch) <= len(ARGUMENTS):
        batch = dict(zip(ARGUMENTS, batch, strict=False))
    if not isinstance(batch, Mapping) or "X" not in batch:
        raise TypeError(
            f"`batches` has one of type {type(batch).__name__}; pass tuples of "
            f"{', '.join(ARGUMENTS)}, of which the last may be left out, or dicts with 'X'."
        )
    for value in batch.values():
        _refuse_dask(value)
    return {**batch, "X": _as_table(batch["X"])}


def _refuse_dask(value):
    if is_of_dask(value) or isinstance(value, OutcomeInPartitions):
        raise TypeError(
            "`batches` has collections of Dask, which estimators fit as they are; to write a frame "
            "to files, pass (part.compute() for part in frame.partitions) and `outcome`."
        )


def split_table(frame, outcome, columns):
    """Arguments of fit from the columns of a table: X is what no other argument is."""
    chosen = {name: column for name, column in columns.items() if name != "X"}
    arguments: dict[str, Any] = {}
    if isinstance(outcome, str):
        chosen = {"y": outcome, **chosen}
    elif outcome is not None:
        wanted = {
            name: chosen.pop(name, name)
            for name, parameter in signature(outcome).parameters.items()
            if name in columns or name in frame.columns or parameter.default is Parameter.empty
        }
        arguments["y"] = outcome(**{p: _column(frame, label, p) for p, label in wanted.items()})
        frame = frame.drop([*wanted.values()])
    for name, label in chosen.items():
        arguments[name] = _column(frame, label, name)
    return {"X": nw.to_native(frame.drop([*chosen.values()])), **arguments}


def _column(frame, label, name):
    if label not in frame.columns:
        listed = ", ".join(map(repr, frame.columns[:10]))
        raise ValueError(
            f"there is no column {label!r} for `{name}`; name one by columns={{{name!r}: ...}}. "
            f"Columns are {listed}{', ...' if len(frame.columns) > 10 else ''}."
        )
    return nw.to_native(frame.get_column(label))


def _cut(arguments, size) -> Iterator[Mapping[str, Any]]:
    """Cut a batch, so that no more of X than that is converted at once."""
    n_rows, slice_rows = _count_rows(arguments["X"]), _slicer(arguments["X"])
    if n_rows <= size or slice_rows is None:
        yield arguments
        return
    others = {name: _vector(value, name) for name, value in arguments.items() if name != "X"}
    for name, values in others.items():
        if values is not None:
            check_length(values, name, n_rows)
    for low in range(0, n_rows, size):
        rows = slice(low, low + size)
        some = {name: None if v is None else v[rows] for name, v in others.items()}
        yield {"X": slice_rows(rows), **some}


def _count_rows(X) -> int:
    return X.shape[0] if hasattr(X, "shape") and len(X.shape) else len(X)


def _slicer(X) -> Callable[[slice], Any] | None:
    """How some rows of X are had; None where they are better cut from a design of all."""
    if isinstance(X, Design) or (sp.issparse(X) and X.format != "csr"):
        return None
    frame = nw.from_native(X, eager_only=True, pass_through=True)
    if isinstance(frame, nw.DataFrame):
        return lambda rows: nw.to_native(frame[rows])
    return (lambda rows: X[rows]) if hasattr(X, "shape") else None


def _read(X, arguments) -> RowBatch:
    design = build_design(X)
    return RowBatch(design, fields_of(arguments, design.n_rows))


def fields_of(arguments, n_rows) -> dict[Key, np.ndarray]:
    """Vectors of all arguments but X, a field of a structured array each."""
    fields = {}
    for name, given in arguments.items():
        values = None if name == "X" else _vector(given, name)
        if values is None:
            continue
        check_length(values, name, n_rows)
        for field in values.dtype.names or ("",):
            fields[name, field] = _storable(values[field] if field else values, name, field)
    return fields


def _as_table(X):
    """X, where it is neither a matrix nor a frame but a batch or a stream of Arrow."""
    is_arrow = hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__")
    if not is_arrow or isinstance(nw.from_native(X, pass_through=True), nw.DataFrame):
        return X
    import pyarrow

    return pyarrow.table(X)


def _vector(values, name):
    if values is None:
        return None
    vector = as_vector(values, name, keep_objects=True)
    if vector.dtype.kind == "T":  # has no direct cast to fixed-width strings
        vector = vector.astype(object)
    return from_objects(vector, name) if vector.dtype.kind == "O" else vector


def _storable(values, name, field):
    kind = values.dtype.kind
    if kind == "S":
        return values.astype(np.str_)
    if kind not in KINDS or values.dtype.itemsize == 0:
        which = f"field {field!r} of `{name}`" if field else f"`{name}`"
        raise TypeError(f"{which} has dtype {values.dtype}; pass numbers, booleans or strings.")
    stored = np.ascontiguousarray(values, values.dtype.newbyteorder("="))
    return stored.view(stored.dtype.str)  # files have no labels of codes


def _check_alike(batch, expected):
    """Check that a batch has the columns and fields of the first one."""
    names, first = batch.design.names, expected.design.names
    if batch.design.n_columns != expected.design.n_columns:
        raise ValueError(
            f"`X` has {batch.design.n_columns:,} columns, those before have "
            f"{expected.design.n_columns:,}."
        )
    if (names is None) != (first is None):
        raise ValueError("some batches of `X` have names of columns, others have none.")
    if names is not None and (names != first).any():
        j = int(np.argmax(names != first))
        raise ValueError(
            f"`X` has {names[j]!r} for column {j}, those before have {first[j]!r}; give all the "
            "same columns in the same order."
        )
    if batch.fields.keys() != expected.fields.keys():
        [(name, field), *_] = sorted(batch.fields.keys() ^ expected.fields.keys())
        which = f"field {field!r} of `{name}`" if field else f"`{name}`"
        raise ValueError(f"some batches have {which}, others have not.")
    for (name, field), values in batch.fields.items():
        kind, other = (KINDS[v.dtype.kind] for v in (values, expected.fields[name, field]))
        if kind != other:
            which = f"field {field!r} of `{name}`" if field else f"`{name}`"
            raise TypeError(f"{which} has {kind}, those before have {other}.")
