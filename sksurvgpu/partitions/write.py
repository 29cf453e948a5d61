"""Writing partitions of rows to files; `store` says what is in them, and reads it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from uuid import uuid4

import numpy as np

from .._progress import Line
from ..data.design.tables import value_sizes
from ..data.options import is_whole, refuse
from ..data.vectors import encode
from .batches import Key, read_batches
from .packing import find_field, gather, pack
from .store import (
    DESIGN,
    FORMAT,
    MANIFEST,
    VERSION,
    PartitionedData,
    digest_of,
    file_name,
    open_partitions,
    part_name,
)

MOST_ROWS = 1 << 16  # of which uint16 has the numbers


def write_partitions(
    path,
    batches,
    *,
    outcome: Callable | str | None = None,
    columns: Mapping[str, str] | None = None,
    group: str | None = None,
    rows: int = MOST_ROWS,
    overwrite: bool = False,
    verbose: int = 0,
) -> PartitionedData:
    """Write rows to files of partitions, for fits with only some partitions in memory.

    Parameters
    ----------
    path : path-like
        The folder to make; ``~`` is the user's home. It appears when all is written.
    batches : iterable, tuple, dict or table
        Rows in batches of any size: tuples ``(X, y)``, ``(X, y, sample_weight)`` or ``(X, y,
        sample_weight, offset)`` as ``fit`` takes them, or dicts of these and further arguments
        of ``fit`` by name, such as ``strata``. One such tuple or dict is written as it is. With
        `outcome`, tables that have the outcome among their columns: frames, Arrow tables, readers,
        datasets and streams (a DuckDB relation, say), paths of Parquet or Feather files, folders
        or lists of such, and iterables of frames. Batches have the same columns.
    outcome : callable or str, optional
        What the outcome is in a table: `surv`, `competing_risks`, `case_series` or `matched`,
        whose parameters are the columns of the same names, or the name of a column. All other
        columns are X.
    columns : mapping, optional
        Columns of a table by argument, where they have other names or belong to the rows:
        ``{"time": "days", "sample_weight": "w", "strata": "site"}``.
    group : str, optional
        Bring rows with the same label to one partition: the name of a field of y ("subject",
        "stratum") or of another argument. Case series and matched sets need it, unless their
        groups come whole in partitions already. Rows are sorted through temporary files.
    rows : int, default=65_536
        Rows of a partition, at most 65,536.
    overwrite : bool, default=False
        Whether to replace partitions that are there, once all is written.
    verbose : int, default=0
        1 shows one line about all rows, 2 also one for each partition.

    Returns
    -------
    data : PartitionedData
        ``data.X``, ``data.y`` and others, for `fit`.

    Examples
    --------
    >>> import pandas as pd
    >>> from tempfile import mkdtemp
    >>> from sksurvgpu import surv, write_partitions
    >>> table = pd.DataFrame(
    ...     {"died": [1, 0, 1, 1], "time": [5.0, 9.0, 2.0, 7.0], "age": [61, 48, 70, 55]}
    ... )
    >>> batches = [table[:2], table[2:]]  # or "persons.parquet", or what else is read in batches
    >>> data = write_partitions(
    ...     mkdtemp() + "/cohort.parts", batches, outcome=surv, columns={"event": "died"}, rows=3
    ... )
    >>> data
    <PartitionedData: 4 rows and 1 columns with 4 entries in 2 partition(s); X, y>
    >>> data.y.load(0)  # in the order of time
    array([( True, 2.), ( True, 5.), (False, 9.)],
          dtype=[('event', '?'), ('time', '<f8')])
    """
    path, rows = check_target(path, overwrite), check_size(rows)
    given = ((batch, None) for batch in read_batches(batches, outcome, columns or {}, MOST_ROWS))
    return write_batches(path, given, group, rows, overwrite, verbose)


def write_batches(
    path, batches, group, rows, overwrite=False, verbose=0, is_cut=False
) -> PartitionedData:
    """Write batches that were read; the folder is there when all of it is, or not at all.

    With each comes where it may be cut, see `pack`; groups are whole already where that `is_cut`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
    unfinished.mkdir()
    with Line(path.name, unit="rows", is_shown=verbose > 0 or None) as line:
        try:
            if group is not None and not is_cut:
                batches = _gather(batches, group, rows, unfinished)
            parts = pack(batches, rows)
            _write(unfinished, parts, group, line, f"{path.name}: " if verbose > 1 else None)
            _put_in_place(unfinished, path)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
        data = open_partitions(path)
        line.end(f"{path.name}: {sum(data.lengths):,} rows in {len(data.lengths):,} partitions")
    return data


def _put_in_place(unfinished, path):
    if not path.exists():
        unfinished.rename(path)
        return
    replaced = path.with_name(f".{path.name}.{uuid4().hex}")
    path.rename(replaced)
    unfinished.rename(path)
    shutil.rmtree(replaced)


def check_size(rows) -> int:
    """Rows of a partition."""
    if not is_whole(rows) or not 1 <= rows <= MOST_ROWS:
        refuse(rows, "rows", f"must be an integer from 1 to {MOST_ROWS:,}")
    return int(rows)


def check_target(path, overwrite) -> Path:
    """Where partitions can be written."""
    path = Path(os.path.expanduser(path)).resolve()
    if not path.exists():
        return path
    if not overwrite:
        raise FileExistsError(f"`path` is {str(path)!r}, which exists; pass overwrite=True.")
    if not (path / MANIFEST).is_file():
        raise FileExistsError(
            f"`path` is {str(path)!r}, where there are no partitions; it is not "
            "replaced, name another."
        )
    return path


def _write(folder, batches, group, line, progress):
    manifest = {"format": FORMAT, "version": VERSION, "group": group}
    manifest["parts"] = parts = []
    for batch in batches:
        if not parts:
            manifest |= _describe(batch)
        batch = batch.reordered(order_of(batch.fields, batch))
        parts.append(_write_part(folder / part_name(len(parts)), batch))
        line.step(len(batch))
        if progress is not None:
            print(f"{progress}partition {len(parts):,}, {len(batch):,} rows")
    if not parts:
        raise ValueError("`batches` has no rows; pass at least one.")
    (folder / MANIFEST).write_text(json.dumps(manifest, indent=1), encoding="utf-8")


def _gather(batches, group, size, folder):
    batches = (batch for batch, _ in batches)
    for first in batches:
        key = find_field(first.fields, group)
        yield from gather(chain([first], batches), key, size, folder)


def _describe(batch):
    fields: dict[str, list[str]] = {}
    for argument, field in batch.fields:
        fields.setdefault(argument, []).append(field)
    names = batch.design.names
    return {
        "n_columns": batch.design.n_columns,
        "names": None if names is None else names.tolist(),
        "fields": fields,
    }


def order_of(fields: Mapping[Key, np.ndarray], rows) -> np.ndarray:
    """Order in which fits have rows with these fields: by group or stratum, then by time."""
    of_y = [field for argument, field in fields if argument == "y" and field]
    groups = [("y", "subject" if of_y[:2] == ["count", "length"] else "stratum"), ("strata", "")]
    keys = [encode(fields[key])[0] for key in groups if key in fields]
    is_survival = len(of_y) > 1 and fields["y", of_y[1]].dtype.kind in "iuf"
    if is_survival and of_y[:2] != ["count", "length"]:
        keys.insert(0, fields["y", of_y[1]])
    return np.lexsort(keys) if keys else np.arange(len(rows))


def _write_part(folder, batch):
    folder.mkdir()
    design = batch.design
    n_values = value_sizes(design.kind, design.indptr, design.n_rows).sum()
    indices = design.indices.astype(np.uint16)
    arrays = {
        ("X", field): array
        for field, array in zip(
            DESIGN, (design.kind, design.indptr, indices, design.values[:n_values]), strict=True
        )
    }
    files = {}
    for key, array in {**arrays, **batch.fields}.items():
        path = folder / file_name(*key)
        np.save(path, array, allow_pickle=False)
        files[path.name] = {
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "bytes": path.stat().st_size,
            "sha256": digest_of(path),
        }
    return {"rows": len(batch), "entries": design.n_entries, "files": files}
