"""Design: the columns of X in the three forms that kernels read, and columns that are computed.

A column is an indicator (the rows of its ones; no values), valued sparse (rows and
values), dense (one float64 for every row), or computed (`computed`). Row indices are
int32 (n < 2^31), or uint16 where they come from files of at most 65,536 rows, offsets
int64, so the number of nonzeros is not limited by either. Nothing is centred, scaled or
silently densified.
"""

from dataclasses import dataclass, replace

import numpy as np
from pandas import DataFrame, Index

from ..._threads import over_columns
from ..._versioned import Versioned
from ..by_column import check_names
from .beside import join_names, side_by_side, store, to_csc, to_frame
from .computed import ComputedColumns
from .kernels import (
    COMPUTED,
    DENSE,
    INDICATOR,
    SPARSE,
    VALUE,
    DesignArrays,
    add_products,
    invert_order,
    reorder_columns,
)
from .rows import take_rows
from .tables import check_shape, packed_offsets, read_table, value_sizes

__all__ = ["COMPUTED", "DENSE", "INDICATOR", "SPARSE", "Design", "build_design"]

KIND_NAMES = ("indicator", "sparse", "dense", "computed")  # by number


@dataclass(frozen=True, eq=False)
class Design(Versioned):
    """Table of covariates with sparse and dense columns and names, accepted as ``X`` everywhere.

    The result of `from_long` has one as its attribute ``X``. ``X[rows]`` selects rows, by row
    numbers in any order, a boolean mask or a slice, so that scikit-learn's splits and searches take
    a design like an array; ``X[rows, columns]`` selects columns, too. Do not write to its arrays,
    which compiled code reads.

    Attributes
    ----------
    n_rows : int
    kind : ndarray of shape (n_columns,), uint8
        INDICATOR, SPARSE, DENSE or COMPUTED.
    indptr : ndarray of shape (n_columns + 1,), int64
        Offsets into `indices`; an empty range for a dense or computed column.
    indices : ndarray of shape (n_nonzeros,), int32, or uint16 in files
        Row indices, strictly ascending inside a column (kernels rely on it).
    values : ndarray, float64
        Values of valued sparse and of dense columns. May be shared with other designs.
    value_ptr : ndarray of shape (n_columns,), int64
        Where a column's values start in `values`; 0 for an indicator, which has none. Of a computed
        column its number among the columns of all blocks.
    names : ndarray of shape (n_columns,), object, or None
        Column names when all of them are strings.
    keeps_order : bool, default=False
        Whether plans leave the rows where they are, so that many outcomes have the same columns.
    blocks : tuple
        Of computed columns.

    Examples
    --------
    >>> import pandas as pd
    >>> from sksurvgpu import from_long
    >>> persons = pd.DataFrame({"row_id": [1, 2, 3], "age": [61.0, 48.0, 70.0]})
    >>> codes = pd.DataFrame({"row_id": [3, 1, 3], "covariate_id": [20, 20, 10]})
    >>> X = from_long(persons, codes).X.with_columns(persons[["age"]])
    >>> X
    <Design of 3 rows and 3 columns (2 indicator, 1 dense) with 3 sparse entries>
    >>> X.names.tolist(), X.shape
    (['10', '20', 'age'], (3, 3))
    >>> X[[2, 0]].to_scipy().toarray()
    array([[ 1.,  1., 70.],
           [ 0.,  1., 61.]])
    """

    n_rows: int
    kind: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    value_ptr: np.ndarray
    names: np.ndarray | None = None
    keeps_order: bool = False
    blocks: tuple = ()

    # Without it Python would iterate over rows by index, of which each were a design.
    __iter__ = None
    ndim = 2

    @classmethod
    def of(cls, X, names=None) -> "Design":
        """Make a design of a table; `names` name the columns of a matrix, which has no names."""
        design = build_design(X, may_be_computed=True)
        return design if names is None else design.with_names(check_names(names, design.n_columns))

    @property
    def n_columns(self) -> int:
        return self.kind.size

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return self.n_rows, self.n_columns

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        counts = np.bincount(self.kind, minlength=len(KIND_NAMES))
        kinds = [f"{n:,} {name}" for n, name in zip(counts, KIND_NAMES, strict=True) if n]
        return (
            f"<Design of {self.n_rows:,} rows and {self.n_columns:,} columns ({', '.join(kinds)}) "
            f"with {self.indptr[-1]:,} sparse entries>"
        )

    def __array__(self, dtype=None, copy=None):
        raise TypeError(
            "a Design is not made dense by itself; pass it to estimators of this package, or take "
            "X.to_scipy(), X.to_frame(), or X.to_scipy().toarray() where memory allows; in a "
            "ColumnTransformer of scikit-learn, set_output(transform='pandas')."
        )

    def __getitem__(self, key) -> "Design":
        rows, *others = key if isinstance(key, tuple) else (key,)
        columns = [other for other in others if other is not Ellipsis]
        if len(columns) > 1:
            raise IndexError(f"a Design has rows and columns, the index has {len(key)} parts.")
        design = self.select(columns[0]) if columns else self
        is_all = rows is Ellipsis or (isinstance(rows, slice) and rows == slice(None))
        return design if is_all else design._take(rows)

    def _take(self, rows) -> "Design":
        """Some of the rows, in the order asked for; a row may be asked for more than once."""
        rows, taken = take_rows(self._arrays(), self.n_rows, rows)
        return self._with(rows.size, taken, [block.take(rows) for block in self.blocks])

    def _with(self, n_rows, arrays, blocks):
        """Take the same columns of other rows."""
        if self.blocks:
            numbers = np.where(self.kind == COMPUTED, self.value_ptr, arrays.value_ptr)
            arrays = arrays._replace(value_ptr=numbers)
        return Design(n_rows, *arrays, self.names, blocks=tuple(blocks))

    @property
    def n_entries(self) -> int:
        """Stored entries, all rows of dense and computed columns among them."""
        return len(self.indices) + self.n_rows * int(np.count_nonzero(self.kind >= DENSE))

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (*self._arrays(), *self.blocks))

    def stored(self) -> "Design":
        """Store columns that are computed.

        Returns
        -------
        design : Design
            The same columns, each an indicator, sparse or dense; this one where none is computed.
        """
        return store(self) if self.blocks else self

    def arrays(self) -> DesignArrays:
        """Arrays for kernels that read all columns, none of which may be computed then."""
        if self.blocks:
            raise TypeError("a column is computed, and this reads stored ones; pass X.stored().")
        return self._arrays()

    def _arrays(self):
        return DesignArrays(self.kind, self.indptr, self.indices, self.values, self.value_ptr)

    @property
    def n_stored(self) -> np.ndarray:
        """Stored entries of every column, all rows of dense ones among them; computed have none."""
        return np.where(self.kind == DENSE, self.n_rows, np.diff(self.indptr))

    def stored_values(self, j: int) -> np.ndarray:
        """Values of the stored entries of column j, of all rows where it is computed."""
        if self.kind[j] == COMPUTED:
            return ComputedColumns(self).values(np.array([j]), np.arange(self.n_rows))[0]
        size = self.n_rows if self.kind[j] == DENSE else self.indptr[j + 1] - self.indptr[j]
        if self.kind[j] == INDICATOR:
            return np.ones(size)
        return self.values[self.value_ptr[j] : self.value_ptr[j] + size]

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
        inverse, is_moved = invert_order(order, self.n_rows)
        if not is_moved:
            return self
        sizes = value_sizes(self.kind, self.indptr, self.n_rows)
        value_ptr = packed_offsets(sizes)
        indices = np.empty(self.indptr[-1], dtype=self.indices.dtype)
        values = np.empty(sizes.sum())
        moved = DesignArrays(self.kind, self.indptr, indices, values, value_ptr)
        order, columns = np.asarray(order, np.int32), self._arrays()
        cost = np.diff(self.indptr) + sizes + 64

        def reorder(first, last):
            reorder_columns(first, last, order, inverse, columns, moved)

        over_columns(reorder, cost, n_threads)
        return self._with(self.n_rows, moved, [block.take(order) for block in self.blocks])

    def span(self, j: int) -> float:
        """Largest minus smallest value of column j, zeros that are not stored included."""
        stored = self.stored_values(j)
        return float(np.ptp(stored if len(stored) == self.n_rows else np.append(stored, 0.0)))

    def typical_values(self) -> np.ndarray:
        """Median of the absolute values of each column that are not zero; 1 without any."""
        typical = np.ones(self.n_columns)
        for j in np.flatnonzero(self.kind != INDICATOR):
            values = np.abs(self.stored_values(j))
            if values.any():
                typical[j] = np.median(values[values > 0])
        return typical

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
            indices = np.empty(indptr[-1], dtype=self.indices.dtype)
            for j in np.flatnonzero(counts):
                column = self.indices[starts[j] : starts[j] + counts[j]]
                indices[indptr[j] : indptr[j + 1]] = column
        names = None if self.names is None else self.names[columns]
        kind, value_ptr = self.kind[columns], self.value_ptr[columns]
        blocks = self.blocks if (kind == COMPUTED).any() else ()
        values, n = self.values, self.n_rows
        return Design(n, kind, indptr, indices, values, value_ptr, names, blocks=blocks)

    def with_names(self, names) -> "Design":
        """Design with these columns under other names."""
        return replace(self, names=names)

    def with_columns(self, table) -> "Design":
        """Add the columns of a table on the right.

        Parameters
        ----------
        table : DataFrame, ndarray, scipy sparse matrix or Design with the same rows
            In the order of the rows of this design; an index is not looked at. Its columns need
            names where those of this design have some, and other ones.

        Returns
        -------
        design : Design
            A copy, with the columns of both.
        """
        other = build_design(table, name="table", may_be_computed=True)
        if other.n_rows != self.n_rows:
            raise ValueError(
                f"`table` has {other.n_rows:,} rows, the design has {self.n_rows:,}; pass one row "
                "for each, in the same order."
            )
        names = join_names(self.names, other.names)
        return side_by_side([self, other]).with_names(names)

    def to_scipy(self):
        """Copy the columns into a sparse array.

        Returns
        -------
        X : scipy.sparse.csc_array of shape (n_rows, n_columns)
            In float64, with sorted indices and without stored zeros.
        """
        return to_csc(self.stored())

    def to_frame(self):
        """Copy the columns into a table.

        Returns
        -------
        table : pandas.DataFrame
            In float64; columns that the design has dense are dense, others sparse.
        """
        return to_frame(self.stored())

    def describe(self, groups=None, weights=None, *, n_threads: int = 1):
        """Describe every column, in all rows or in groups of them, in one pass.

        Parameters
        ----------
        groups : array-like of shape (n_rows,), optional
            Label of each row's group.
        weights : array-like of shape (n_rows,), optional
            Row weights; rows of weight 0 are left out.
        n_threads : int, default=1
            Column ranges read at the same time.

        Returns
        -------
        table : pandas.DataFrame
            A line for each column: ``rows``, how many are not 0, ``mean``, ``sd``, ``prevalence``
            (share of the weight of the rows that are not 0), ``min`` and ``max``. With `groups`,
            ``table["mean"]`` is a table of the means by group, and so on. The variance divides by
            n - 1, with weights by the effective number of rows less 1.

        Examples
        --------
        >>> import pandas as pd
        >>> from sksurvgpu import from_long
        >>> persons = pd.DataFrame({"row_id": [1, 2, 3, 4], "age": [61.0, 48.0, 70.0, 55.0]})
        >>> codes = pd.DataFrame({"row_id": [3, 1, 3], "covariate_id": [20, 20, 10]})
        >>> X = from_long(persons, codes).X.with_columns(persons[["age"]])
        >>> X.describe(["a", "a", "b", "b"])["mean"]
        group     a     b
        10      0.0   0.5
        20      0.5   0.5
        age    54.5  62.5
        """
        from .sums import describe_columns

        return describe_columns(self.stored(), groups, weights, n_threads)

    def header(self):
        """Return the names of the columns as a table without rows, which scikit-learn can read."""
        empty = np.empty((0, self.n_columns))
        return empty if self.names is None else DataFrame(empty, columns=Index(self.names, object))

    def dot(self, coef) -> np.ndarray:
        """Return X @ coef, shape (n_rows,); costs the nonzeros of columns with coef ≠ 0."""
        coef = np.ascontiguousarray(coef, dtype=np.float64)
        if coef.shape != (self.n_columns,):
            raise ValueError(
                f"`coef` has shape {coef.shape}, the design has {self.n_columns:,} columns."
            )
        out, active = np.zeros(self.n_rows), np.flatnonzero(coef)
        is_computed = self.kind[active] == COMPUTED
        add_products(active[~is_computed], coef, self._arrays(), out)
        if is_computed.any():
            computed = active[is_computed]
            ComputedColumns(self).add(computed, coef[computed], VALUE, out)
        return out


def build_design(
    X, *, name: str = "X", may_be_empty: bool = False, may_be_computed: bool = False
) -> Design:
    """Check a feature table and return its columns in kernel form.

    Parameters
    ----------
    X : scipy sparse matrix or array, ndarray of shape (n_rows, n_columns), DataFrame or Design
        Any sparse format, pandas (its sparse columns stay sparse), polars and other
        eager frames known to narwhals. Numbers and booleans only, all finite. A design is
        returned as it is.
    name : str, default="X"
        Name of the argument in messages.
    may_be_empty : bool, default=False
        Whether there may be no rows, as in a part of those of a fit.
    may_be_computed : bool, default=False
        Whether columns may be computed ones; they are stored otherwise.

    Notes
    -----
    Duplicate sparse entries are summed and explicit zeros dropped. The caller's object
    is never changed, but its buffers are shared where they already have the right form.

    Memory beyond X: a canonical CSC indicator with int32 indices costs O(n_columns); valued columns
    add 8 bytes a value unless all are valued and float64. Other formats become CSC once: 4 bytes +
    the item size a nonzero. Dense tables cost the design, plus a block of 16 columns.
    """
    if isinstance(X, Design):
        check_shape(X.shape, name, may_be_empty)
        return X if may_be_computed else X.stored()
    return Design(*read_table(X, name, may_be_empty))
