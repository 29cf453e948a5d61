"""Outcomes of columns whose rows are in partitions: built where a partition is, when it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..vectors import check_order

__all__ = ["LazyOutcome", "build_lazily", "is_of_dask"]


@dataclass(frozen=True, eq=False, repr=False)
class LazyOutcome:
    """An outcome that is built partition by partition."""

    build: Callable[..., Any]  # from the columns of a partition, by keyword, to its outcome
    columns: dict[str, Any]  # collections of Dask, or lists of delayed objects

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            f"{self!r} is not made an array by itself; for cross-validation take CoxLassoCV or "
            "another estimator that ends in CV, and for other software compute the columns first."
        )

    def __repr__(self) -> str:
        return f"<{self.build.__name__}({', '.join(self.columns)}), built partition by partition>"


def is_of_dask(values: Any) -> bool:
    """Whether values are a collection of Dask, or delayed objects; nothing is imported."""
    if isinstance(values, (list, tuple)) and values:
        values = values[0]
        return type(values).__module__ == "dask.delayed"
    return type(values).__module__.partition(".")[0] in ("dask", "dask_expr")


def build_lazily(build: Callable[..., Any], **columns: Any) -> Any:
    """Outcome of columns of Dask, to be built later; None where no column is Dask's."""
    if not any(map(is_of_dask, columns.values())):
        check_order(**columns)
        return None
    return LazyOutcome(build, {name: value for name, value in columns.items() if value is not None})
