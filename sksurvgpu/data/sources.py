"""Tables of any size, read in batches: frames, Arrow, files of Parquet and Feather, chunks.

A source that can be read again is read twice and never kept; one that can be read once says so.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from pandas import DataFrame, Series, array, concat

from .._progress import Line
from .by_column import check_column_names
from .design.tables import check_arrow
from .vectors import in_native_order

_BATCH_SIZE = 1 << 20  # lines
_BUFFER_SIZE = 1 << 20  # bytes of a column that are read at once
# Suffix of a file -> its format, as pyarrow.dataset calls it.
FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".feather": "ipc",
    ".ipc": "ipc",
}


@dataclass(frozen=True)
class Source:
    """A table that is read in batches."""

    name: str  # name of the argument in messages
    columns: list  # columns of the table
    is_single: bool  # whether it can be read once only
    # from a list of columns and a number of lines to an iterator of frames with these columns, of
    # about so many lines
    open: Callable[[list, int], Iterable[Any]]
    is_held: bool = False  # whether it is in memory as a whole
    verbose: int = 0  # 1 shows a line about each reading

    def batches(self, columns: list, size: int) -> Iterator[nw.DataFrame]:
        """Read some columns in batches of at most `size` lines."""
        with Line(f"reading {self.name}", unit="lines", is_shown=self.verbose > 0 or None) as line:
            for frame in self.open(columns, size):
                for first in range(0, len(frame), size):
                    yield (batch := frame[first : first + size])
                    line.step(len(batch))

    def whole(self, columns: list):
        """Read some columns as pandas holds them."""
        parts = [to_pandas(frame, self.name) for frame in self.open(columns, _BATCH_SIZE)]
        return parts[0] if len(parts) == 1 else concat(parts, ignore_index=True)


def open_source(table, name: str) -> Source:
    """Find out how a table can be read; `name` is the argument's name in messages."""
    paths = _as_paths(table)
    if paths is not None:
        return _open_files(_list_files(paths, name), name)
    frame = _face_of(table, name)
    if isinstance(frame, nw.LazyFrame) and not hasattr(table, "__arrow_c_stream__"):
        return _open_lazy(nw.to_native(frame), name)
    if isinstance(frame, nw.DataFrame):
        read = lambda columns, _: [frame.select(columns)]  # noqa: E731
        return Source(name, list(frame.columns), False, read, is_held=True)
    if hasattr(table, "scanner") and hasattr(table, "schema"):
        return _open_dataset(table, name)
    if hasattr(table, "__arrow_c_stream__") and not hasattr(table, "to_frame"):  # no series
        table = _open_stream(table, name)
    if isinstance(table, dict | bytes) or not isinstance(table, Iterable):
        raise TypeError(
            f"`{name}` is of type {type(table).__name__}; pass a DataFrame, an Arrow table, reader "
            "or dataset, a path of Parquet or Feather files, or an iterable of frames."
        )
    return _open_chunks(table, name)


def _face_of(table, name):
    """Wrap a table by narwhals where it can be; its columns must have different names."""
    if nw.dependencies.is_pandas_dataframe(table):
        check_column_names(table.columns, name, only_text=True)
        swapped = {k: own for k, v in table.items() if (own := in_native_order(v)) is not v}
        table = table.assign(**swapped) if swapped else table
    elif nw.dependencies.is_pyarrow_table(table):
        check_column_names(table.column_names, name)
        check_arrow(table, name)
    return nw.from_native(table, pass_through=True)


def read_whole(table, name: str):
    """Return a table of any kind as pandas holds it; a pandas frame is copied."""
    source = open_source(table, name)
    return source.whole(source.columns)


def to_pandas(frame: nw.DataFrame, name: str):
    """Return a frame as pandas holds it, every entry exactly; a pandas frame is copied."""
    if frame.implementation.is_pandas():
        return nw.to_native(frame).copy()
    return DataFrame({label: _column(frame.get_column(label), name) for label in frame.columns})


def _column(series, name):
    dtype = series.dtype
    if dtype in (nw.Int128, nw.UInt128):
        raise TypeError(
            f"`{name}`[{series.name!r}] has dtype {dtype}, which pandas does not have; cast it to "
            "64 bits or to strings."
        )
    is_null = series.is_null().to_numpy().astype(np.bool_)
    if is_null.any() and (dtype.is_integer() or dtype == nw.Boolean):
        values = array(series.fill_null(False if dtype == nw.Boolean else 0).to_numpy())
        values = values.astype("boolean" if dtype == nw.Boolean else str(dtype))
        values[is_null] = None
        return values
    zone = dtype.time_zone if isinstance(dtype, nw.Datetime) else None
    values = series.to_numpy()  # times of a zone as those of UTC
    return Series(values).dt.tz_localize("UTC").dt.tz_convert(zone) if zone else values


def _as_paths(table):
    kinds = (str, os.PathLike)
    if isinstance(table, kinds):
        table = [table]
    if isinstance(table, list | tuple) and table and all(isinstance(t, kinds) for t in table):
        return [Path(os.path.expanduser(path)) for path in table]
    return None


def _list_files(paths, name):
    """Files of Parquet or Feather among paths and in folders, in the order given, then sorted."""
    files = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob("*"))
            files += [file for file in inside if _is_data(file.relative_to(path))]
        elif not path.exists():
            pattern = (
                "; pass a folder, or sorted(glob.glob(...))" if set("*?[") & set(str(path)) else ""
            )
            raise FileNotFoundError(f"`{name}` names {str(path)!r}, which does not exist{pattern}.")
        else:
            files.append(path)
    found = {FORMATS.get(file.suffix.lower()) for file in files}
    if len(found) != 1 or None in found:
        suffixes = sorted({file.suffix or file.name for file in files})
        what = ", ".join(map(repr, suffixes)) or "no such file"
        raise ValueError(
            f"`{name}` must name files of one format, Parquet (.parquet, .pq) or Feather (.feather,"
            f" .arrow, .ipc), or folders with such; found {what}."
        )
    return files


def _is_data(path):
    """Whether a file in a folder is a part of the table; others have a dot or underscore first."""
    return path.suffix.lower() in FORMATS and not any(p[0] in "._" for p in path.parts)


def _open_files(files, name):
    kind = FORMATS[files[0].suffix.lower()]
    if find_spec("pyarrow") is not None:
        return _open_with_pyarrow(files, kind, name)
    if find_spec("polars") is not None:
        return _open_with_polars(files, kind, name)
    raise ImportError(
        f"`{name}` is a path, and reading files of Parquet or Feather takes pyarrow or polars, of "
        "which none is installed: pip install pyarrow."
    )


def _open_with_pyarrow(files, kind, name):
    from pyarrow import ArrowException
    from pyarrow.dataset import dataset

    # Of damaged files Arrow also says that something is not implemented, or too large for memory.
    errors = OSError, ValueError, ArrowException
    with _readable(name, errors):
        parts = [*dataset([*map(str, files)], format=kind).get_fragments()]
    _check_files([(part.path, part.physical_schema.names) for part in parts], name)
    with _readable(name, errors):
        schema = _wide_enough([part.physical_schema for part in parts])
        table = dataset([*map(str, files)], schema=schema, format=kind)
    source = _open_dataset(table, name)
    if kind == "parquet":
        source = replace(source, open=partial(_read_parquet, files, table.schema, name))
    return _guarded(source, errors)


def _wide_enough(schemas):
    """Schema of the first file, but for flags and numbers that would cut those of other files.

    Arrow makes flags of any numbers, and rounds floats, without a word.
    """
    from pyarrow import float64
    from pyarrow.types import is_boolean, is_floating, is_integer

    schema, found = schemas[0], [dict(zip(each.names, each.types, strict=True)) for each in schemas]
    for place, field in enumerate(schema):
        types = [each[field.name] for each in found]
        numbers = [type for type in types if is_floating(type) or is_integer(type)]
        first = numbers[0] if numbers and is_boolean(types[0]) else types[0]
        if first in numbers:
            are_alike = len({is_floating(type) for type in numbers}) == 1
            first = max(numbers, key=lambda type: type.bit_width) if are_alike else float64()
        schema = schema.set(place, field.with_type(first))
    return schema


def _read_parquet(files, schema, name, columns, size):
    """Decode so many lines at a time; datasets decode whole row groups, two at a time."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    wanted = pyarrow.schema([schema.field(label) for label in columns])
    batch = None
    for path in files:
        with ParquetFile(path, buffer_size=_BUFFER_SIZE, pre_buffer=False) as file:
            for batch in file.iter_batches(size, columns=columns):
                table = pyarrow.Table.from_batches([batch]).select(columns)
                yield _face_of(table.cast(wanted), name)
    if batch is None:
        yield _face_of(wanted.empty_table(), name)


def _open_with_polars(files, kind, name):
    import polars

    scan, read_schema = {
        "parquet": (polars.scan_parquet, polars.read_parquet_schema),
        "ipc": (polars.scan_ipc, polars.read_ipc_schema),
    }[kind]
    errors = OSError, polars.exceptions.PolarsError
    with _readable(name, errors):
        found = [(file, list(read_schema(file))) for file in files]
        source = _open_lazy(scan(files), name)
    _check_files(found, name)
    return _guarded(source, errors)


def _check_files(found, name):
    """Check that all files have the columns of the first one; `found` are pairs of both."""
    for file, columns in found[1:]:
        _check_same(found[0][1], columns, name, file)


@contextmanager
def _readable(name, errors):
    """Say of errors of other packages what cannot be read."""
    try:
        yield
    except errors as error:
        raise ValueError(f"`{name}` has a file that cannot be read: {error}") from error


def _guarded(source, errors):
    def read(columns, size):
        with _readable(source.name, errors):
            yield from source.open(columns, size)

    return replace(source, open=read)


def _check_same(expected, found, name, part):
    """Check that a chunk or file has the columns of the first one, in any order."""
    added = [label for label in found if label not in expected]
    absent = [label for label in expected if label not in found]
    if added or absent:
        what = "chunk" if isinstance(part, int) else "file"
        which = f"{part:,}" if isinstance(part, int) else repr(str(part))
        said = [
            f"{verb} {', '.join(map(repr, labels))}"
            for verb, labels in (("lacks", absent), ("has also", added))
            if labels
        ]
        raise ValueError(
            f"{what} {which} of `{name}` has other columns than the first {what}: it "
            f"{' and '.join(said)}; give all the same columns, here "
            f"{', '.join(map(repr, expected))}."
        )


def _open_dataset(dataset, name):
    import pyarrow

    def read(columns, size):
        batches = dataset.to_batches(
            columns=columns, batch_size=size, batch_readahead=1, fragment_readahead=1
        )
        for batch in batches:
            yield _face_of(pyarrow.Table.from_batches([batch]), name)

    check_column_names(dataset.schema.names, name)
    return Source(name, list(dataset.schema.names), False, read)


def _open_lazy(frame, name):
    if not hasattr(frame, "collect_batches"):
        raise TypeError(
            f"`{name}` is a lazy frame ({type(frame).__module__}) without collect_batches, which "
            "those of current polars have; collect it, or pass an iterable of frames."
        )

    def read(columns, size):
        batch, chosen = None, frame.select(columns)
        for batch in chosen.collect_batches(chunk_size=size):
            yield nw.from_native(batch)
        if batch is None:
            yield nw.from_native(chosen.clear().collect())  # without a look at files

    return Source(name, frame.collect_schema().names(), False, read)


def _open_stream(table, name):
    """Arrow's batches of what gives a stream of them, such as a relation of DuckDB."""
    if find_spec("pyarrow") is None:
        raise ImportError(
            f"`{name}` is a stream of Arrow, which takes pyarrow: pip install pyarrow."
        )
    import pyarrow

    batches = pyarrow.RecordBatchReader.from_stream(table)
    return chain([batches.schema.empty_table()], batches)  # which may be none


def _open_chunks(chunks, name):
    iterator = iter(chunks)
    is_single = iterator is chunks
    first = next(iterator, None)
    if first is None:
        raise ValueError(f"`{name}` is an iterable without any frame.")
    names = list(_as_frame(first, name).columns)

    def read(columns, _):
        number = -1
        for number, chunk in enumerate(chain([first], iterator) if is_single else chunks):
            frame = _as_frame(chunk, name)
            _check_same(names, frame.columns, name, number)
            yield frame.select(columns)
        if number < 0:
            raise ValueError(f"`{name}` can be iterated over only once; pass iter(...) of it.")

    return Source(name, names, is_single, read)


def _as_frame(chunk, name):
    kind = type(chunk)
    if kind.__name__ == "RecordBatch" and kind.__module__.startswith("pyarrow"):
        import pyarrow

        chunk = pyarrow.Table.from_batches([chunk])
    frame = _face_of(chunk, name)
    if not isinstance(frame, nw.DataFrame):
        raise TypeError(
            f"`{name}` is an iterable with an item of type {kind.__name__}; pass a DataFrame, an "
            "Arrow table, reader or dataset, a path of Parquet or Feather files, or an iterable of "
            "DataFrames."
        )
    return frame
