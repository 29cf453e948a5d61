"""Arguments of `fit` whose rows are in partitions: in files, on a cluster, or in a list.

A handle knows how many rows and columns there are, and how each partition is loaded where it is
answered; it holds no row.  Handles of one fit have the same rows in the same partitions, of which
`Rows.source` is the proof: it compares equal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from pandas import DataFrame

from ..backends.sums.messages import Engine
from ..data.partitioned import InPartitions


@dataclass(frozen=True, eq=False, repr=False)
class Rows(InPartitions):
    """One argument of `fit`, or of a prediction, whose rows are in partitions.

    Handles are made by `open_partitions`, and by estimators of the collections of Dask. They can be
    passed wherever an estimator takes the argument, and have its shape, but rows cannot be chosen.

    Attributes
    ----------
    source : object
        What has the partitions; equal for handles with the same rows in the same partitions.
    loaders : tuple of callable
        One for each partition, without arguments: its rows as `fit` takes them in memory. They can
        be pickled.
    lengths : tuple of int, or None
        Rows of each partition, where that is known.
    n_columns : int or None
        Columns of a table; None of what has one entry a row.
    names : ndarray of shape (n_columns,), object, or None
        Column names when all of them are strings.
    sizes : tuple of int, or None
        Bytes of each partition, where that is known.
    memory : float or None
        Bytes of partitions that a fit keeps in memory; None leaves it to the engine.
    """

    source: Any
    loaders: tuple[Callable[[], Any], ...]
    lengths: tuple[int, ...] | None = None
    n_columns: int | None = None
    names: np.ndarray | None = None
    sizes: tuple[int, ...] | None = None
    memory: float | None = None

    # Without it Python would iterate over rows by index.
    __iter__ = None

    @property
    def n_parts(self) -> int:
        """Number of partitions."""
        return len(self.loaders)

    @property
    def shape(self) -> tuple[int | None, ...]:
        """Number of rows, None where it is not known, and of columns."""
        n_rows = None if self.lengths is None else sum(self.lengths)
        return (n_rows,) if self.n_columns is None else (n_rows, self.n_columns)

    def __len__(self) -> int:
        if self.lengths is None:
            raise TypeError("the number of rows is not known before the partitions are read.")
        return sum(self.lengths)

    def __repr__(self) -> str:
        rows = "unknown rows" if self.lengths is None else f"{len(self):,} rows"
        columns = "" if self.n_columns is None else f" and {self.n_columns:,} columns"
        return f"<Rows: {rows}{columns} in {self.n_parts:,} partition(s)>"

    def __getitem__(self, key):
        raise TypeError(
            "rows in partitions cannot be chosen from outside; for cross-validation take "
            "CoxLassoCV or another estimator that ends in CV, whose folds are dealt where the rows "
            "are, and for a part of the rows write or load that part."
        )

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "rows in partitions are not made an array by themselves; pass them to estimators of "
            "this package, or load one partition with .load(number). What transforms rows, a "
            "scaler say, does so before they are written."
        )

    def load(self, part: int) -> Any:
        """Rows of one partition, the first of which is 0, in memory."""
        if not 0 <= part < self.n_parts:
            raise IndexError(
                f"there is no partition {part}, they are numbered from 0 to {self.n_parts - 1}."
            )
        return self.loaders[part]()

    def beside(self, values: np.ndarray, ends: np.ndarray) -> Rows:
        """Handle of entries in memory, one a row; `ends` are the numbers of rows up to each part.

        They are sent with the partitions, to wherever these are read.
        """
        loaders = tuple(partial(_given, part) for part in np.split(values, ends[:-1]))
        lengths = tuple(np.diff(ends, prepend=0).tolist())
        return replace(
            self, loaders=loaders, lengths=lengths, n_columns=None, names=None, sizes=None
        )

    def map(self, function, like: np.ndarray | None = None, **others: Any) -> Any:
        """Results of a function of the partitions, each made when it is asked for.

        Parameters
        ----------
        function : callable
            From a partition in memory to an array with one entry, or line, for each row.
        like : ndarray, optional
            Such an array without rows, for collections that have to know their dtype.
        **others : Rows
            Other arguments of the function, of the same partitions.
        """
        loaders = tuple(
            partial(_made, function, load, {name: rows.loaders[k] for name, rows in others.items()})
            for k, load in enumerate(self.loaders)
        )
        return Results(self.source, loaders, self.lengths)

    def header(self):
        """Return the names of the columns as a table without rows, which scikit-learn can read."""
        return DataFrame(np.empty((0, self.n_columns or 1)), columns=self.names)

    @classmethod
    def open(cls, arguments: Mapping[str, Rows], read, n_threads: int = 1) -> Engine:
        """Engine over the partitions of arguments; `open_engine` has compared them.

        Files are read by the workers of the active `distributed.Client`, if there is one.
        """
        from ..backends.sums.part import Part
        from .dask_engine import DaskEngine, active_client
        from .threads import ThreadEngine

        first = next(iter(arguments.values()))
        known = [rows.sizes for rows in arguments.values() if rows.sizes is not None]
        sizes = [sum(column) for column in zip(*known, strict=True)] if known else None
        make = partial(Part, read=read)
        client = None if isinstance(first.source, _Listed) else active_client()
        loads = cls.loads(arguments, for_threads=client is None)
        if client is not None:
            return DaskEngine(client, loads, make, sizes)
        return ThreadEngine(list(map(make, loads)), n_threads, first.memory, sizes)

    @classmethod
    def loads(cls, arguments: Mapping[str, Any], for_threads: bool) -> list:
        """Loaders of each partition's arguments, for threads of this process or for workers."""
        names, columns = tuple(arguments), (rows.loaders for rows in arguments.values())
        return [
            partial(load_all, dict(zip(names, each, strict=True)))
            for each in zip(*columns, strict=True)
        ]


class Results(Rows):
    """Results by partition, made as often as asked for; `numpy.asarray` brings them together."""

    def __array__(self, dtype=None, copy=None):
        parts = [np.asarray(self.load(part)) for part in range(self.n_parts)]
        return np.asarray(np.concatenate(parts), dtype=dtype)


def _made(function, load, others):
    return function(load(), **{name: load_other() for name, load_other in others.items()})


def load_all(loaders: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
    """Load the arguments of `fit` of one partition."""
    return {name: load() for name, load in loaders.items()}


def open_engine(arguments: Mapping[str, Rows], read, n_threads: int = 1) -> Engine:
    """Open the partitions of one fit, where they are.

    `arguments` of ``fit`` are by name, and the first one, X, decides. ``read(model, arguments)``
    makes rows of those of one partition; this process answers for `n_threads` at a time.
    """
    (first_name, first), *others = arguments.items()
    for name, rows in others:
        check_split(name, rows, first_name, first)
    return type(first).open(arguments, read, n_threads)


def check_split(name: str, rows: Rows, first_name: str, first: Rows) -> None:
    """Check that two arguments have the same rows in the same partitions, as far as is known."""
    if not isinstance(rows, type(first)) or rows.n_parts != first.n_parts:
        raise ValueError(
            f"`{name}` is {rows!r}, `{first_name}` is {first!r}; both must have the same rows in "
            "the same partitions."
        )
    _check_lengths(name, rows, first_name, first)
    if rows.source != first.source:
        raise ValueError(
            f"`{name}` is of {rows.source!r}, `{first_name}` of {first.source!r}, whose rows may "
            "have another order; take all arguments of a fit from one place."
        )


def _check_lengths(name, rows, first_name, first):
    if rows.lengths is None or first.lengths is None:
        return
    for k, (own, other) in enumerate(zip(rows.lengths, first.lengths, strict=True)):
        if own != other:
            raise ValueError(
                f"`{name}` has {own:,} rows in partition {k}, `{first_name}` has {other:,}; both "
                "must have the same rows in the same partitions."
            )


class _Listed:
    """Partitions that somebody has in memory."""

    def __repr__(self):
        return f"partitions in memory at {id(self):#x}"


def from_lists(arguments: Mapping[str, Sequence[Any]]) -> dict[str, Rows]:
    """Handles on lists of partitions in memory, for tests and small work.

    `arguments` are such as ``{"X": [X0, X1], "y": [y0, y1]}``.
    """
    from ..data.design.columns import build_design

    source, handles = _Listed(), {}
    for name, values in arguments.items():
        of_table, values = {}, list(values)
        if name == "X":
            values = [build_design(value, may_be_empty=True) for value in values]
            sizes = tuple(design.nbytes for design in values)
            first = values[0]
            of_table = {"n_columns": first.n_columns, "names": first.names, "sizes": sizes}
        loaders = tuple(partial(_given, value) for value in values)
        handles[name] = Rows(source, loaders, tuple(map(len, values)), **of_table)
    return handles


def _given(value):
    return value
