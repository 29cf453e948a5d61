"""Columns of X in partitions, for sums over all rows that are no fit.

What has one entry a row is brought to memory, or is there: it is little beside X, and what rows
share, such as the strata of a comparison, may lie in several partitions.  X is read one partition
at a time by each thread or worker, and nothing of it is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from .._journal import digest_of
from ..backends.sums.messages import Apply, Description
from ..backends.sums.opening import check_descriptions
from ..data.design.columns import build_design
from ..data.design.sums import GroupSums, sum_by_group
from ..data.partitioned import check_order_beside, in_partitions, refuse_partitions
from ..data.vectors import check_order, check_unmasked, to_host
from .dask import as_rows
from .handles import open_engine


class ColumnsInPartitions:
    """Columns that are summed where their rows are.

    Parameters
    ----------
    X : Rows, or collection of Dask
    beside : dict
        Arguments of the same rows, in the same partitions or whole in memory.
    n_threads : int
        Partitions that this process reads at a time.

    Attributes
    ----------
    beside : dict
        All of them whole in memory.
    names : ndarray of shape (n_columns,), object, or None
    ends : ndarray of shape (n_parts,), int
        Number of rows up to the end of each partition.
    n_rows, n_columns : int
    has_all : ndarray of shape (n_columns,), bool
        Columns of which every partition stores all rows.
    """

    def __init__(self, X, beside: Mapping[str, Any], n_threads: int):
        far = {name: as_rows(value, name) for name, value in beside.items() if in_partitions(value)}
        check_order_beside(X, **{name: v for name, v in beside.items() if name not in far})
        self._engine = open_engine({"X": as_rows(X), **far}, None, n_threads)
        self._ends = np.zeros(1, np.int64)
        try:
            if hasattr(self._engine, "backend"):
                refuse_partitions("the rows are at sites, which take part in fits only")
            questions = [(_describe, ())] * self._engine.n_parts
            told = check_descriptions(list(_ask(self._engine, questions)))
        except BaseException:
            self._engine.close()
            raise
        self._ends = np.cumsum([0, *(part.rows for part in told)])
        self.ends = self._ends[1:]
        self.n_rows, self.n_columns = int(self._ends[-1]), len(told[0].columns)
        self.names = None if told[0].names is None else np.array(told[0].names, object)
        self.has_all = np.logical_and.reduce([part.columns for part in told])
        rows = [part for part in told if part.rows]
        whole = {name: _join([part.tables[name] for part in rows]) for name in far}
        self.beside = {**beside, **whole}

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._engine.close()

    def apply(self, function, by_row=(), *given) -> Iterator[Any]:
        """Results of ``function(design, own, *given)`` of all partitions, in their order.

        `own` has their entries of vectors `by_row`.
        """
        edges = list(zip(self._ends[:-1], self._ends[1:], strict=True))
        own = [[None if v is None else v[start:end] for v in by_row] for start, end in edges]
        return _ask(self._engine, [(_apply, (function, part, *given)) for part in own])

    def sum_by_group(self, group=None, n_groups=1, weight=None, some=slice(None)) -> GroupSums:
        """`data.design.sums.sum_by_group` of all rows, for some columns."""
        parts = self.apply(_sum_part, (group, weight), n_groups, some)
        return reduce(add, parts).settled(self.has_all[some])

    def column(self, j) -> np.ndarray:
        """Values of a column in all rows."""
        return np.concatenate(list(self.apply(_values, (), j)))

    def digests(self) -> np.ndarray:
        """Digest of each partition."""
        return Digests(self._engine).to_numpy()


def _ask(engine, questions):
    """Answers in the order of partitions, each as soon as those before it are there."""
    early: dict[int, Any] = {}
    part = 0
    for number, answer in engine.ask({k: Apply(*each) for k, each in enumerate(questions)}):
        early[number] = answer
        while part in early:
            yield early.pop(part)
            part += 1


class Digests:
    """Digests of all arguments, by partition, for a journal: sums do not tell rows apart.

    Partitions are asked when it wants them as an array, which it does not without a folder.
    """

    def __init__(self, engine):
        self._engine = engine

    def to_numpy(self) -> np.ndarray:
        """Digests in the order of partitions."""
        return np.array([*_ask(self._engine, [(_digest, ())] * self._engine.n_parts)])


def _digest(arguments):
    beside = {name: np.asarray(to_host(v)) for name, v in arguments.items() if name != "X"}
    return digest_of([_design(arguments), beside])


def _design(arguments):
    return build_design(to_host(arguments["X"]), may_be_empty=True)


def _apply(arguments, function, own, *given):
    return function(_design(arguments), own, *given)


def _describe(arguments):
    check_order(**arguments)
    design = _design(arguments)
    beside = {name: np.asarray(to_host(v)) for name, v in arguments.items() if name != "X"}
    for name, values in beside.items():
        check_unmasked(arguments[name], name)
        if len(values) != design.n_rows:
            raise ValueError(
                f"`{name}` has {len(values):,} entries, and `X` has {design.n_rows:,} rows; both "
                "must have the same rows in the same partitions."
            )
    names = None if design.names is None else tuple(map(str, design.names))
    return Description(design.n_rows, names, design.n_stored == design.n_rows, beside, 0)


def _sum_part(design, own, n_groups, some):
    group, weight = own
    return sum_by_group(design.select(some), group, n_groups, weight, is_part=True)


def _values(design, own, j):
    return design.select([j]).dot([1.0])


def _join(parts):
    """Entries of all partitions; numbers do not become text."""
    kinds = {part.dtype.kind for part in parts}
    if kinds & {"U", "S"} and len(kinds) > 1:
        parts = [part.astype(object) for part in parts]
    return np.concatenate(parts)
