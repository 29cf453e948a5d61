"""Handles of arguments; those of Dask: DataFrames, Series, arrays, and outcomes built of them.

A partition of each is a delayed object.  With a `distributed.Client`, workers compute and keep
them; without, threads of this process do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..data.partitioned import OutcomeInPartitions, in_partitions
from .handles import Rows, check_split


@dataclass(frozen=True)
class Divisions:
    """How a collection is split, of which two of one fit must not contradict each other."""

    divisions: tuple | None = None  # of the index of a DataFrame, where they are known

    def __eq__(self, other: object) -> bool:
        known = isinstance(other, Divisions) and None not in (self.divisions, other.divisions)
        return isinstance(other, Divisions) and (not known or self.divisions == other.divisions)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"partitions with the divisions {self.divisions}"


@dataclass(frozen=True, eq=False, repr=False)
class DaskRows(Rows):
    """One argument of `fit` that is a collection of Dask.

    Attributes
    ----------
    delayed : tuple of dask.delayed.Delayed
        The partitions.
    """

    delayed: tuple = ()

    @classmethod
    def loads(cls, arguments: Mapping[str, Any], for_threads: bool) -> list:
        """Delayed arguments of each partition, which threads compute together."""
        names, columns = tuple(arguments), (rows.delayed for rows in arguments.values())
        loads = [dict(zip(names, each, strict=True)) for each in zip(*columns, strict=True)]
        return [partial(compute_here, load) for load in loads] if for_threads else loads

    def beside(self, values: np.ndarray, ends: np.ndarray) -> Rows:
        """Handle of entries in memory, as that of `Rows.beside`."""
        from dask import delayed

        rows = super().beside(values, ends)
        return replace(rows, delayed=tuple(delayed(load()) for load in rows.loaders))

    def map(self, function, like: np.ndarray | None = None, **others: Any) -> Any:
        """Array of Dask of what a function makes of the partitions, when it is computed.

        The arguments are those of `Rows.map`; without `like`, entries are numbers, one a row.
        """
        import dask.array as da
        from dask import delayed

        like = np.empty(0) if like is None else like
        lengths = (np.nan,) * self.n_parts if self.lengths is None else self.lengths
        function = delayed(function, pure=True)  # one task, on which those of partitions depend
        blocks = [
            da.from_delayed(
                function(part, **{name: rows.delayed[k] for name, rows in others.items()}),
                (length, *like.shape[1:]),
                meta=like,
            )
            for k, (part, length) in enumerate(zip(self.delayed, lengths, strict=True))
        ]
        return da.concatenate(blocks, allow_unknown_chunksizes=True)


def compute_here(values: Any) -> Any:
    """Values of delayed objects, by the thread that asks."""
    import dask

    return dask.compute(values, scheduler="synchronous")[0]


def as_rows(value: Any, name: str = "X") -> Rows:
    """The handle of an argument; `name` is the argument's name in messages."""
    if isinstance(value, Rows):
        return value
    if not in_partitions(value):
        raise TypeError(
            f"`{name}` is of type {type(value).__name__} and in memory, where X is in partitions; "
            "pass what is in the same partitions: another handle of the same open_partitions, or "
            "columns of the same frame of Dask."
        )
    if isinstance(value, OutcomeInPartitions):
        return _of_outcome(value)
    if isinstance(value, (list, tuple)):
        return _of_delayed(value, name)
    if type(value).__module__ == "dask.delayed":
        return _of_delayed([value], name)
    if hasattr(value, "chunks"):
        return _of_array(value, name)
    if getattr(value, "ndim", 0) > 0:
        return _of_frame(value)
    raise TypeError(
        f"`{name}` is of type {type(value).__name__} of Dask; pass a DataFrame, a Series, an array "
        "or delayed partitions."
    )


def _of_delayed(parts, name):
    if name == "X":
        raise TypeError(
            "`X` is of delayed objects, whose columns are not known; make arrays of Dask of them: "
            "dask.array.from_delayed(part, (numpy.nan, n_columns), dtype=float), and concatenate."
        )
    return _rows(parts)


def _rows(delayed, **known):
    loaders = tuple(partial(compute_here, part) for part in delayed)
    source = known.pop("source", Divisions())
    return DaskRows(source, loaders, delayed=tuple(delayed), **known)


def _of_frame(frame):
    known = {"source": Divisions(tuple(frame.divisions) if frame.known_divisions else None)}
    if frame.ndim == 2:
        columns = list(frame.columns)
        known["n_columns"] = len(columns)
        if all(isinstance(column, str) for column in columns):
            known["names"] = np.array(columns, dtype=object)
    # Optimized, few columns of files would be read in fewer partitions: y in others than X.
    return _rows(frame.simplify().to_delayed(optimize_graph=False), **known)


def _of_array(array, name):
    from dask import delayed

    if array.ndim not in (1, 2):
        raise ValueError(f"`{name}` has {array.ndim} dimensions, must have one or two.")
    if array.ndim == 2 and array.numblocks[1] != 1:
        raise ValueError(
            f"`{name}` has its columns in {array.numblocks[1]:,} chunks, and partitions are whole "
            f"rows; pass {name}.rechunk({{1: -1}})."
        )
    lengths = array.chunks[0]
    known = {} if np.isnan(lengths).any() else {"lengths": tuple(map(int, lengths))}
    if array.ndim == 2:
        if np.isnan(array.shape[1]):
            raise ValueError(f"`{name}` does not say how many columns it has; give it a shape.")
        known["n_columns"] = int(array.shape[1])
    parts = array.to_delayed().ravel()
    if array.ndim == 2 and not isinstance(array._meta, np.ndarray):
        parts = list(map(delayed(_in_scipy, pure=True), parts))
    return _rows(parts, **known)


def _in_scipy(block):
    """A sparse chunk as SciPy's, also of the package `sparse`."""
    return block.to_scipy_sparse() if hasattr(block, "to_scipy_sparse") else block


def _of_outcome(outcome):
    from dask import delayed

    columns: dict[str, Any] = {
        name: as_rows(value, name) for name, value in outcome.columns.items()
    }
    (first_name, first), *others = columns.items()
    for name, rows in others:
        check_split(name, rows, first_name, first)
    build = delayed(outcome.build, pure=True)
    parts = [
        build(**dict(zip(columns, each, strict=True)))
        for each in zip(*(rows.delayed for rows in columns.values()), strict=True)
    ]
    return _rows(parts, source=first.source, lengths=first.lengths)
