"""From the user's table to column arrays: every check on X, and the choice of storage.

Readers return the fields of a Design in order: n_rows, kind, indptr, indices, values,
value_ptr, names.
"""

from itertools import groupby

import narwhals as nw
import numpy as np
import scipy.sparse as sp
from pandas import SparseDtype
from pandas.api.types import is_complex_dtype, is_numeric_dtype

from ..by_column import check_column_names
from ..partitioned import require_in_memory
from ..vectors import check_unmasked
from .kernels import DENSE, INDICATOR, SPARSE, scan_values, write_columns
from .sparse import trusted_column, trusted_matrix

# Densest 0/1 and valued columns of a dense table that are stored by row index. Time of
# one gather and scatter over (u, h) against the dense loop, n = 1e4..1e6, one core:
# 0.32-0.69 (indicator, 1/3) and 0.29-0.80 (valued, 1/4). Half the bytes or fewer, too.
MAX_INDICATOR_DENSITY = 1 / 3
MAX_SPARSE_DENSITY = 1 / 4
# End of the refusal of arrays that are not of numbers, as transformers make of mixed tables.
OF_FRAMES = (
    "sksurvgpu.CategoryColumns does so of a DataFrame, which transformers make after "
    "set_output(transform='pandas')."
)
# Columns of an array that are read at a time (a cache line holds 8 float64), or values of more.
BLOCK_COLUMNS, BLOCK_VALUES = 16, 2**16


def read_table(X, name, may_be_empty=False):
    """Check X and return its columns; `name` is the argument's name in messages."""
    require_in_memory(X)
    if sp.issparse(X):
        check_shape(X.shape, name, may_be_empty)
        trusted = trusted_matrix(X, name)
        is_ones = trusted.format == "csr" and bool((trusted.data == 1).all())
        found = _from_ones(trusted) if is_ones else None
        return _from_sparse(trusted, name) if found is None else found
    if nw.dependencies.is_pandas_dataframe(X):
        check_column_names(X.columns, name)
        return _from_pandas(X, name, may_be_empty)
    if nw.dependencies.is_pyarrow_table(X):
        check_arrow(X, name)
    frame = nw.from_native(X, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        raise TypeError(f"`{name}` is a lazy frame; pass {name}.collect().")
    if isinstance(frame, nw.DataFrame):
        return _from_frame(frame, name, may_be_empty)
    return _from_numpy(_as_table(X, name, may_be_empty), name)


def value_sizes(kind, indptr, n_rows):
    return np.choose(kind, [0, np.diff(indptr), n_rows, 0]).astype(np.int64)


def packed_offsets(sizes):
    """Start of each column's values when packed; 0 for a column without values."""
    return np.where(sizes > 0, np.cumsum(sizes) - sizes, 0)


def check_shape(shape, name, may_be_empty=False):
    if len(shape) != 2:
        raise ValueError(
            f"`{name}` has shape {shape}, must be two-dimensional: one row per "
            f"observation, one column per covariate. Reshape your data: {name}.reshape(1, -1) "
            f"for a single row ({name}.to_frame().T of pandas), {name}.reshape(-1, 1) for a single "
            "column."
        )
    for count, what in zip(shape, ("sample", "feature"), strict=True):
        if count == 0 and (what == "feature" or not may_be_empty):
            raise ValueError(
                f"`{name}` has 0 {what}(s) (shape={shape}) while a minimum of 1 is required."
            )
    if shape[0] >= 2**31:
        raise ValueError(
            f"`{name}` has {shape[0]:,} rows; row indices are int32, so at most 2,147,483,647 fit."
        )
    if shape[1] >= 2**31:
        raise ValueError(
            f"`{name}` has {shape[1]:,} columns, of which at most 2,147,483,647 fit, empty ones "
            "included; number only columns that occur, as from_long does."
        )


def check_arrow(table, name):
    """Check an Arrow table, of which a mapped file or foreign buffers may have said anything."""
    from pyarrow import ArrowException

    try:
        table.validate(full=True)
    except ArrowException as error:
        raise ValueError(f"`{name}` is a damaged Arrow table: {error}; build it anew.") from error


def refuse_nonfinite(n_nonfinite, label, name):
    """Raise for the first column with NaN or infinite values; `label` names a column."""
    bad = np.flatnonzero(n_nonfinite)
    if bad.size:
        more = f" (and {bad.size - 1:,} more column(s) have some)" if bad.size > 1 else ""
        raise ValueError(
            f"`{name}` has {n_nonfinite[bad[0]]:,} NaN or infinite value(s) in column "
            f"{label(bad[0])}{more}; impute them or drop those rows."
        )


def _from_ones(X):
    """Columns of ones that are stored by row, as encoders make; None if one is there twice.

    SciPy's conversion moves values, too, three times as much.
    """
    n_rows, n_columns = X.shape
    indptr, rows = np.zeros(n_columns + 1, np.int64), np.empty(X.nnz, np.int32)
    columns = X.indices.astype(np.int32, copy=False)
    if not write_columns(X.indptr.astype(np.int64), columns, indptr, rows):
        return None
    kind, value_ptr = np.full(n_columns, INDICATOR, np.uint8), np.zeros(n_columns, np.int64)
    return n_rows, kind, indptr, rows, np.empty(0), value_ptr, None


def _from_sparse(X, name):
    csc, owned = _canonical_csc(X)
    n_nonfinite = np.empty(csc.shape[1], dtype=np.int64)
    has_only_ones = np.empty(csc.shape[1], dtype=np.bool_)
    data = csc.data.view(np.uint8) if csc.dtype == np.bool_ else csc.data
    data = data.astype(np.float64) if data.dtype.itemsize > 8 else data  # longdouble
    n_zero = scan_values(csc.indptr, data, n_nonfinite, has_only_ones)
    refuse_nonfinite(n_nonfinite, str, name)
    if n_zero:
        csc = csc if owned else csc.copy()
        csc.eliminate_zeros()
    kind = np.where(has_only_ones, INDICATOR, SPARSE).astype(np.uint8)
    indptr = csc.indptr.astype(np.int64)
    sizes = value_sizes(kind, indptr, csc.shape[0])
    value_ptr = packed_offsets(sizes)
    if not has_only_ones.any():
        values = csc.data.astype(np.float64, copy=False)
    else:
        values = np.empty(sizes.sum())
        for j in np.flatnonzero(sizes):
            start, size = value_ptr[j], sizes[j]
            values[start : start + size] = csc.data[indptr[j] : indptr[j + 1]]
    indices = csc.indices.astype(np.int32, copy=False)
    return csc.shape[0], kind, indptr, indices, values, value_ptr, None


def _canonical_csc(X):
    """Return X as CSC, sorted and without duplicates, and whether its arrays are ours."""
    owned = X.format != "csc"
    is_integer = X.dtype.kind in "iu"  # a sum of duplicates might overflow
    if is_integer and X.format in ("coo", "bsr"):
        X = X.astype(np.float64)  # conversion sums duplicates in the dtype of X
    csc = X.tocsc()
    if not csc.has_canonical_format:
        csc = csc.astype(np.float64) if is_integer else csc
        csc = csc if owned or is_integer else csc.copy()
        csc.sum_duplicates()
        owned = True
    return csc, owned


def _as_table(X, name, may_be_empty):
    """Return X as a two-dimensional numeric ndarray, or say why it cannot be one."""
    check_unmasked(X, name)
    if not hasattr(X, "__array__") and not isinstance(X, (list, tuple)):
        raise TypeError(
            f"`{name}` is of type {type(X).__name__}; pass a scipy sparse matrix, a NumPy array "
            "or a pandas or polars DataFrame."
        )
    try:
        table = np.asarray(X)
    except ValueError as error:
        raise ValueError(
            f"`{name}` is a list of rows of different lengths; pass one value per column."
        ) from error
    check_shape(table.shape, name, may_be_empty)
    if table.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: `{name}` has dtype {table.dtype}; pass real numbers."
        )
    if table.dtype.kind in "biuf":
        return table
    if table.dtype.kind != "O":
        raise TypeError(
            f"`{name}` has dtype {table.dtype}; pass numbers: one-hot encode categories, turn "
            f"dates into durations. {OF_FRAMES}"
        )
    try:
        return table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"`{name}` has dtype object and cannot be read as numbers ({error}); one-hot encode "
            f"categories. {OF_FRAMES}"
        ) from error


def _from_numpy(table, name, label=str):
    n_rows, n_columns = table.shape

    def blocks():
        size = max(BLOCK_COLUMNS, BLOCK_VALUES // max(1, n_rows))
        for first in range(0, n_columns, size):
            block = table[:, first : first + size]
            yield np.asfortranarray(block, dtype=np.float64).T

    kind, counts = _classify(blocks, n_columns, label, name)
    if table.dtype == np.float64 and table.flags.f_contiguous and (kind == DENSE).all():
        indptr = np.zeros(n_columns + 1, dtype=np.int64)
        value_ptr = n_rows * np.arange(n_columns, dtype=np.int64)
        return n_rows, kind, indptr, np.empty(0, np.int32), table.T.reshape(-1), value_ptr, None
    return _fill(blocks, n_rows, kind, counts, None)


def _from_pandas(frame, name, may_be_empty):
    check_shape(frame.shape, name, may_be_empty)
    n_rows, labels = len(frame), list(frame.columns)
    _check_dtypes(list(frame.dtypes), _is_pandas_number, labels, name)

    if len(labels) and all(dtype == np.float64 for dtype in frame.dtypes.unique()):
        read = _from_numpy(frame.to_numpy(), name, lambda j: repr(labels[j]))
        return *read[:-1], _names_of(labels)
    # Columns of NumPy's types are read together: thousands of slices take longer than a fit.
    numbers, size = np.arange(len(labels)), max(BLOCK_COLUMNS, BLOCK_VALUES // max(1, n_rows))
    is_plain = [isinstance(dtype, np.dtype) for dtype in frame.dtypes]
    run_of = np.where(is_plain, -1 - numbers // size, numbers)
    runs = [[*own] for _, own in groupby(numbers, run_of.__getitem__)]

    def blocks():
        for first, *others in runs:
            if is_plain[first]:
                run = frame.iloc[:, first : first + len(others) + 1]
                yield np.ascontiguousarray(run.to_numpy(dtype=np.float64).T)
            else:
                yield _pandas_column(frame.iloc[:, first].array, n_rows, repr(labels[first]), name)

    return _from_blocks(blocks, frame.shape, labels, name)


def _from_frame(frame, name, may_be_empty):
    check_shape(frame.shape, name, may_be_empty)
    labels = list(frame.columns)
    _check_dtypes(frame.schema.values(), lambda k: k.is_numeric() or k == nw.Boolean, labels, name)

    def blocks():
        for label in labels:
            # A null becomes NaN and is reported with the others.
            column = frame.get_column(label).cast(nw.Float64).to_numpy()
            yield np.ascontiguousarray(column)

    return _from_blocks(blocks, frame.shape, labels, name)


def _check_dtypes(dtypes, is_number, labels, name):
    for label, dtype in zip(labels, dtypes, strict=True):
        if not is_number(dtype):
            raise TypeError(
                f"`{name}` column {label!r} has dtype {dtype}; pass numbers: one-hot encode "
                "categories (sksurvgpu.CategoryColumns), turn dates into durations, cast numbers "
                "kept as objects to float."
            )


def _is_pandas_number(dtype):
    dtype = dtype.subtype if isinstance(dtype, SparseDtype) else dtype
    # flags of Arrow are no numbers to pandas, whose own are
    return (is_numeric_dtype(dtype) or dtype.kind == "b") and not is_complex_dtype(dtype)


def _pandas_column(array, n_rows, label, name):
    """Return a pandas column as float64 values, or as (rows, values) if kept sparse."""
    if hasattr(array, "sp_index"):
        rows, stored = trusted_column(array, n_rows, label, name)
        if array.fill_value == 0:  # also False; NaN and other fills are not sparse data
            is_kept = stored != 0
            return rows[is_kept], stored[is_kept]
        dense = np.full(n_rows, array.fill_value, dtype=np.float64)
        dense[rows] = stored
        return dense
    if hasattr(array, "isna") and array.isna().any():
        return array.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.ascontiguousarray(array, dtype=np.float64)


def _from_blocks(blocks, shape, labels, name):
    n_rows, n_columns = shape
    kind, counts = _classify(blocks, n_columns, lambda j: repr(labels[j]), name)
    return _fill(blocks, n_rows, kind, counts, _names_of(labels))


def _names_of(labels):
    """Names of columns, where they have some."""
    is_named = all(isinstance(label, str) for label in labels)
    return np.array(labels, dtype=object) if is_named else None


def _classify(blocks, n_columns, label, name):
    """First pass: kind and number of nonzeros of each column, and the finite check.

    A block is a column, an array of columns, or the rows and values of a column that is sparse.
    """
    kind = np.empty(n_columns, dtype=np.uint8)
    counts, n_nonfinite = np.zeros((2, n_columns), dtype=np.int64)
    first = 0
    for block in blocks():
        is_stored_sparse = isinstance(block, tuple)
        values = np.atleast_2d(block[1] if is_stored_sparse else block)
        part, size = slice(first, first + len(values)), values.shape[1]
        # NumPy's counts along an axis take as long as all of this
        is_zero, is_finite = values == 0.0, np.isfinite(values)
        n_nonzero = size - is_zero.view(np.uint8).sum(axis=1, dtype=np.uint32)
        n_nonfinite[part] = 0 if is_finite.all() else size - np.count_nonzero(is_finite, axis=1)
        has_only_ones = (is_zero | (values == 1.0)).all(axis=1)
        limit = np.where(has_only_ones, MAX_INDICATOR_DENSITY, MAX_SPARSE_DENSITY)
        is_sparse = np.full(len(values), is_stored_sparse) | (n_nonzero <= limit * size)
        kind[part] = np.where(is_sparse, np.where(has_only_ones, INDICATOR, SPARSE), DENSE)
        counts[part] = np.where(is_sparse, n_nonzero, 0)
        first += len(values)
    refuse_nonfinite(n_nonfinite, label, name)
    return kind, counts


def _fill(blocks, n_rows, kind, counts, names):
    """Second pass: write each column into its place, so that X is held only once more."""
    indptr = np.concatenate([[0], np.cumsum(counts)])
    sizes = value_sizes(kind, indptr, n_rows)
    value_ptr = packed_offsets(sizes)
    indices = np.empty(indptr[-1], dtype=np.int32)
    values = np.empty(sizes.sum())
    first = 0
    for block in blocks():
        columns = [block] if isinstance(block, tuple) else np.atleast_2d(block)
        part = slice(first, first + len(columns))
        if (kind[part] == DENSE).all():
            begin = value_ptr[first]
            values[begin : begin + columns.size].reshape(columns.shape)[:] = columns
        else:
            for j, column in enumerate(columns, first):
                _write(column, kind[j], indices[indptr[j] : indptr[j + 1]], values[value_ptr[j] :])
        first = part.stop
    return n_rows, kind, indptr, indices, values, value_ptr, names


def _write(column, kind, indices, values):
    """Write a column where its rows and values belong."""
    if kind == DENSE:
        values[: len(column)] = column
        return
    if isinstance(column, tuple):
        rows, stored = column
    else:
        rows = np.flatnonzero(column)
        stored = column[rows]
    indices[:] = rows
    if kind == SPARSE:
        values[: len(rows)] = stored
