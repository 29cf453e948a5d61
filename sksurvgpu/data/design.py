"""Design: the columns of X in the three forms that kernels read.

A column is an indicator (the rows of its ones; no values), valued sparse (rows and
values) or dense (one float64 for every row). Tables mix all three. Row indices are
int32 (n < 2^31), offsets int64, so the number of nonzeros is not limited by either.
Nothing is centred, scaled or silently densified.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ._reorder import (
    DENSE,
    INDICATOR,
    SPARSE,
    Columns,
    add_products,
    invert_permutation,
    reorder_columns,
)
from ._tables import packed_offsets, read_table, value_sizes

__all__ = ["DENSE", "INDICATOR", "SPARSE", "Design", "build_design"]


@dataclass(frozen=True, eq=False)
class Design:
    """Columns of X; rows in the caller's order until `reordered`.

    Attributes
    ----------
    n_rows : int
    kind : ndarray of shape (n_columns,), uint8
        INDICATOR, SPARSE or DENSE.
    indptr : ndarray of shape (n_columns + 1,), int64
        Offsets into `indices`; an empty range for a dense column.
    indices : ndarray of shape (n_nonzeros,), int32
        Row indices, strictly ascending inside a column (kernels rely on it).
    values : ndarray, float64
        Values of valued sparse and of dense columns. May be shared with other designs.
    value_ptr : ndarray of shape (n_columns,), int64
        Where a column's values start in `values`; 0 for an indicator, which has none.
    names : ndarray of shape (n_columns,), object, or None
        Column names when all of them are strings.
    """

    n_rows: int
    kind: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    value_ptr: np.ndarray
    names: np.ndarray | None = None

    @property
    def n_columns(self) -> int:
        return self.kind.size

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self._columns())

    def _columns(self) -> Columns:
        return Columns(self.kind, self.indptr, self.indices, self.values, self.value_ptr)

    def reordered(self, order, *, n_threads: int = 1) -> "Design":
        """Return the design whose row i is row ``order[i]`` of this one.

        Parameters
        ----------
        order : ndarray of shape (n_rows,), int32 or int64
            A permutation of the rows. The identity returns `self`.
        n_threads : int, default=1
            Column ranges reordered at the same time. Each takes n/8 bytes of scratch,
            and 8n more if it holds long valued sparse columns.
        """
        order = np.asarray(order)
        if order.shape != (self.n_rows,) or order.dtype.kind not in "iu":
            raise ValueError(
                f"`order` has shape {order.shape} and dtype {order.dtype}; pass the "
                f"{self.n_rows:,} row numbers as integers."
            )
        inverse = np.empty(self.n_rows, dtype=np.int32)
        changed = invert_permutation(order, inverse)
        if changed < 0:
            raise ValueError(
                "`order` is not a permutation of the rows: a row number is repeated or "
                f"outside 0..{self.n_rows - 1:,}."
            )
        if not changed:
            return self
        sizes = value_sizes(self.kind, self.indptr, self.n_rows)
        value_ptr = packed_offsets(sizes)
        indices = np.empty(self.indptr[-1], dtype=np.int32)
        values = np.empty(sizes.sum())
        moved = Columns(self.kind, self.indptr, indices, values, value_ptr)
        shared = (order.astype(np.int32), inverse, self._columns(), moved)
        cost = np.diff(self.indptr) + sizes + 64
        ranges = _column_ranges(cost, n_threads)
        if len(ranges) == 1:
            reorder_columns(*ranges[0], *shared)
        else:
            with ThreadPoolExecutor(len(ranges)) as pool:
                list(pool.map(lambda part: reorder_columns(*part, *shared), ranges))
        return Design(self.n_rows, *moved, self.names)

    def span(self, j: int) -> float:
        """Largest minus smallest value of column j, zeros that are not stored included."""
        dense, start = self.kind[j] == DENSE, self.value_ptr[j]
        size = self.n_rows if dense else int(self.indptr[j + 1] - self.indptr[j])
        stored = np.ones(size) if self.kind[j] == INDICATOR else self.values[start : start + size]
        if size < self.n_rows:
            stored = np.append(stored, 0.0)
        return float(np.ptp(stored))

    def select(self, columns) -> "Design":
        """Return some of the columns, in the order asked for.

        A run of neighbours shares all buffers with this design; otherwise the row
        indices of the selected columns are copied. `values` is always shared.

        Parameters
        ----------
        columns : slice, ndarray of bool of shape (n_columns,), or ndarray of int
        """
        columns = np.atleast_1d(np.arange(self.n_columns)[columns])
        starts, counts = self.indptr[columns], np.diff(self.indptr)[columns]
        indptr = np.concatenate([[0], np.cumsum(counts)])
        if columns.size and (np.diff(columns) == 1).all():
            indices = self.indices[starts[0] : starts[0] + indptr[-1]]
        else:
            indices = np.empty(indptr[-1], dtype=np.int32)
            for j in np.flatnonzero(counts):
                column = self.indices[starts[j] : starts[j] + counts[j]]
                indices[indptr[j] : indptr[j + 1]] = column
        names = None if self.names is None else self.names[columns]
        kind, value_ptr = self.kind[columns], self.value_ptr[columns]
        return Design(self.n_rows, kind, indptr, indices, self.values, value_ptr, names)

    def dot(self, coef) -> np.ndarray:
        """Return X @ coef, shape (n_rows,); costs the nonzeros of columns with coef ≠ 0."""
        coef = np.ascontiguousarray(coef, dtype=np.float64)
        if coef.shape != (self.n_columns,):
            raise ValueError(
                f"`coef` has shape {coef.shape}, the design has {self.n_columns:,} columns."
            )
        out = np.zeros(self.n_rows)
        add_products(np.flatnonzero(coef), coef, self._columns(), out)
        return out


def build_design(X, *, name: str = "X") -> Design:
    """Check a feature table and return its columns in kernel form.

    Parameters
    ----------
    X : scipy sparse matrix or array, ndarray of shape (n_rows, n_columns), or DataFrame
        Any sparse format, pandas (its sparse columns stay sparse), polars and other
        eager frames known to narwhals. Numbers and booleans only, all finite.
    name : str, default="X"
        Name of the argument in messages.

    Notes
    -----
    Duplicate sparse entries are summed and explicit zeros dropped. The caller's object
    is never changed, but its buffers are shared where they already have the right form.

    Memory beyond X, for m nonzeros: a canonical CSC indicator with int32 indices costs
    O(n_columns); valued columns add 8 bytes a value unless all are valued and float64.
    CSR, COO and other formats are converted to CSC once: 4 bytes + the item size for
    each nonzero (8 for COO and BSR of narrow integers, whose sums might overflow).
    Dense tables cost what the design itself takes, plus a block of 16 columns.
    """
    return Design(*read_table(X, name))


def _column_ranges(cost, n_parts):
    """Cut the columns into at most `n_parts` ranges of similar total cost."""
    total = np.cumsum(cost)
    cuts = np.searchsorted(total, total[-1] * np.arange(1, n_parts) / n_parts)
    bounds = np.unique(np.concatenate([[0], cuts, [cost.size]]))
    return list(pairwise(bounds))
