"""The door to partitions: whether rows are in partitions, and what is said where they must not be.

A *partition* is a piece of the rows of a fit: in a file, on a cluster, or at a site.  Rows are in
partitions or in memory.  Who must know asks `in_partitions`, and nobody else looks at types: those
of this package say so by their base, collections of Dask by the package that they are of.
Where rows are in partitions, `partitions.dask.as_rows` gives their handle.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NoReturn

from .vectors import check_order


class InPartitions:
    """An argument of `fit` whose rows are in partitions."""


def in_partitions(value: Any) -> bool:
    """Whether the rows of an argument are in partitions; nothing is imported to find out."""
    return isinstance(value, InPartitions) or is_of_dask(value)


def is_of_dask(values):
    """Whether values are a collection of Dask, or delayed objects."""
    if isinstance(values, (list, tuple)) and values:
        return type(values[0]).__module__ == "dask.delayed"
    return type(values).__module__.partition(".")[0] in ("dask", "dask_expr")


def refuse_partitions(
    what: str, instead: str = "pass rows that are in the memory of one machine, or a sample of them"
) -> NoReturn:
    """Refuse what needs rows that are in partitions."""
    raise ValueError(f"`X` is in partitions, and {what}; {instead}.")


def index_of(X: Any) -> Any:
    """Labels of the rows of a table, brought to memory where it is Dask's; None without any."""
    index = getattr(X, "index", None)
    return index.compute() if hasattr(index, "compute") else index


def check_order_beside(X: Any, **given: Any) -> None:
    """Refuse what is in memory, and has the labels of X, a table of Dask, in another order."""
    if any(hasattr(getattr(value, "index", None), "equals") for value in given.values()):
        check_order(X=SimpleNamespace(index=index_of(X)), **given)


def require_in_memory(X: Any) -> Any:
    """X, whose rows must be in memory."""
    if in_partitions(X):
        refuse_partitions("this compares or returns rows")
    return X


def check_in_memory(X: Any, **others: Any) -> None:
    """Check that other arguments are in memory, and in no other order, where X is in memory."""
    check_order(X=X, **others)
    for name, value in others.items():
        if in_partitions(value):
            raise TypeError(
                f"`{name}` is in partitions, and `X` is of type {type(X).__name__} and in memory; "
                "pass both in partitions, or both in memory. A step before that transforms X, a "
                "scaler say, may have brought it here."
            )


@dataclass(frozen=True, eq=False, repr=False)
class OutcomeInPartitions(InPartitions):
    """An outcome that is built where a partition of its columns is, when that is read.

    Attributes
    ----------
    build : callable
        From the columns of a partition, by keyword, to its outcome.
    columns : dict
        Collections of Dask, or lists of delayed objects.
    """

    build: Callable[..., Any]
    columns: dict[str, Any]

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            f"{self!r} is not made an array by itself; for cross-validation take CoxLassoCV or "
            "another estimator that ends in CV, and for other software compute the columns first."
        )

    def __repr__(self) -> str:
        return f"<{self.build.__name__}({', '.join(self.columns)}), built partition by partition>"


def outcome_in_partitions(build: Callable[..., Any], **columns: Any) -> Any:
    """Outcome of columns of Dask, to be built later; None where no column is Dask's."""
    if not any(map(is_of_dask, columns.values())):
        check_order(**columns)
        return None
    return OutcomeInPartitions(
        build, {name: value for name, value in columns.items() if value is not None}
    )
