"""Design: every way to build one against NumPy, and what it costs."""

import pickle
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from sksurvgpu.data.design import tables
from sksurvgpu.data.design.columns import DENSE, INDICATOR, SPARSE, build_design

FORMATS = ("csc", "csr", "coo", "bsr", "lil", "dok", "dia")
INTEGERS = ("int8", "uint8", "int16", "int32", "int64", "uint64")
DTYPES = ("bool", *INTEGERS, "float32", "float64", "longdouble")


def to_array(design):
    """Read the columns by the documented layout, not by the code under test."""
    out = np.zeros((design.n_rows, design.n_columns))
    for j in range(design.n_columns):
        rows = design.indices[design.indptr[j] : design.indptr[j + 1]]
        assert (np.diff(rows.astype(np.int64)) > 0).all()
        start = design.value_ptr[j]
        if design.kind[j] == DENSE:
            assert rows.size == 0
            out[:, j] = design.values[start : start + design.n_rows]
        elif design.kind[j] == SPARSE:
            out[rows, j] = design.values[start : start + rows.size]
            assert (out[rows, j] != 0).all()
        else:
            assert design.kind[j] == INDICATOR
            out[rows, j] = 1.0
    return out


def check_layout(design):
    assert design.kind.dtype == np.uint8
    assert design.indptr.dtype == np.int64
    assert design.indices.dtype == np.int32
    assert design.values.dtype == np.float64
    assert design.value_ptr.dtype == np.int64
    assert design.indptr.shape == (design.n_columns + 1,)
    assert design.value_ptr.shape == (design.n_columns,)


def mixed_table(n_rows, rng):
    """Columns of every kind and length: empty, short, long, full."""
    long = rng.random(n_rows) < 0.2
    short = np.zeros(n_rows)
    short[rng.choice(n_rows, min(n_rows, 5), replace=False)] = 1.0
    return np.column_stack(
        [
            rng.normal(size=n_rows),
            long,
            long * rng.normal(size=n_rows),
            short,
            short * rng.normal(size=n_rows),
            np.zeros(n_rows),
            np.ones(n_rows),
        ]
    )


@pytest.mark.thorough(but="array-csc-bool|array.*(float64|int64)")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("container", ["matrix", "array"])
def test_sparse_input_equals_its_dense_form(container, format, dtype):
    rng = np.random.default_rng(3)
    table = (rng.random((30, 6)) < 0.3) * rng.integers(1, 4, (30, 6))
    table[:, 2] = table[:, 2] > 0
    table[:, 4] = 0
    make = sp.csc_matrix if container == "matrix" else sp.csc_array
    X = make(table.astype(dtype)).asformat(format)
    assert X.dtype == dtype
    design = build_design(X)
    check_layout(design)
    np.testing.assert_array_equal(to_array(design), X.toarray())
    assert design.kind[2] == INDICATOR
    assert design.names is None


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("format", ["csc", "csr", "coo"])
def test_unsorted_duplicate_and_zero_entries(format, index_dtype):
    row = np.array([4, 1, 1, 3, 0, 2, 2, 5, 0], dtype=index_dtype)
    column = np.array([0, 0, 0, 1, 1, 2, 2, 3, 3], dtype=index_dtype)
    value = np.array([1.0, 0.25, 0.75, 0.0, 1.0, 2.0, -2.0, 5.0, 1.0])
    if format == "coo":
        X = sp.coo_array((value, (row, column)), shape=(6, 4))
    elif format == "csc":
        X = sp.csc_array((value, row, np.array([0, 3, 5, 7, 9], dtype=index_dtype)), shape=(6, 4))
    else:
        X = sp.csr_array((value, row, np.array([0, 3, 5, 7, 9], dtype=index_dtype)), shape=(4, 6))
    expected = X.toarray()
    before = [array.copy() for array in _buffers(X)]
    design = build_design(X)
    np.testing.assert_array_equal(to_array(design), expected)
    if format != "csr":
        # 0.25 + 0.75 and 0/1 columns are indicators, 2 - 2 leaves an empty one.
        assert design.kind.tolist() == [INDICATOR, INDICATOR, INDICATOR, SPARSE]
        assert np.diff(design.indptr).tolist() == [2, 1, 0, 2]
    for array, copy in zip(_buffers(X), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("format", ["csc", "csr"])
def test_explicit_zeros_stay_in_the_callers_matrix(format):
    X = sp.csc_array(np.arange(1.0, 7.0).reshape(2, 3)).asformat(format)
    X.data[1] = 0.0
    before = [array.copy() for array in _buffers(X)]
    design = build_design(X)
    np.testing.assert_array_equal(to_array(design), X.toarray())
    for array, copy in zip(_buffers(X), before, strict=True):
        np.testing.assert_array_equal(array, copy)


def _buffers(X):
    return [X.data, *X.coords] if X.format == "coo" else [X.data, X.indices, X.indptr]


@pytest.mark.parametrize("format", ["coo", "csc", "csr"])
@pytest.mark.parametrize(("dtype", "entry"), [(np.int8, 100), (np.int64, 2**62)])
def test_sums_of_integers_do_not_overflow(format, dtype, entry):
    value = np.array([entry, entry], dtype=dtype)
    if format == "coo":
        X = sp.coo_array((value, ([1, 1], [0, 0])), shape=(2, 2))
    else:
        make = sp.csc_array if format == "csc" else sp.csr_array
        X = make((value, [0, 0], [0, 2, 2]), shape=(2, 2))
    assert to_array(build_design(X)).sum() == 2 * entry


def test_stale_canonical_flag_is_not_believed():
    X = sp.csc_array((np.ones(3), np.array([0, 1, 2], np.int32), [0, 3]), shape=(4, 1))
    assert X.has_canonical_format
    X.indices[:] = [2, 2, 0]
    np.testing.assert_array_equal(to_array(build_design(X)).ravel(), [1, 0, 2, 0])


def test_canonical_csc_shares_its_buffers():
    rng = np.random.default_rng(0)
    X = sp.csc_array((rng.random((50, 20)) < 0.2) * rng.normal(size=(50, 20)))
    design = build_design(X)
    assert np.shares_memory(design.indices, X.indices)
    assert np.shares_memory(design.values, X.data)
    X.data[:] = 1.0
    design = build_design(X)
    assert np.shares_memory(design.indices, X.indices)
    assert design.values.size == 0
    assert (design.kind == INDICATOR).all()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "float32", "float64", "O"])
@pytest.mark.parametrize("order", ["C", "F", "strided", "readonly"])
def test_numpy_input(order, dtype):
    table = mixed_table(90, np.random.default_rng(1))
    table = np.round(table * 2).astype(dtype)
    X = table.copy(order="F" if order == "F" else "C")
    if order == "strided":
        X = np.repeat(np.repeat(X, 2, axis=0), 3, axis=1)[::2, ::3]
    if order == "readonly":
        X.flags.writeable = False
    design = build_design(X)
    check_layout(design)
    np.testing.assert_array_equal(to_array(design), table.astype(float))


def test_more_columns_than_a_block_and_nested_lists():
    table = np.random.default_rng(2).integers(0, 3, (12, 70))
    np.testing.assert_array_equal(to_array(build_design(table)), table)
    np.testing.assert_array_equal(to_array(build_design(table.tolist())), table)


def test_kind_follows_density_and_values():
    n = 120
    table = np.zeros((n, 6))
    table[:40, 0] = 1  # a third: still an indicator
    table[:41, 1] = 1
    table[:30, 2] = 2  # a quarter: still sparse
    table[:31, 3] = 2
    table[:, 4] = 7
    expected = [INDICATOR, DENSE, SPARSE, DENSE, DENSE, INDICATOR]
    assert build_design(table).kind.tolist() == expected
    # Sparse input is never densified, however full.
    kinds = [INDICATOR, INDICATOR, SPARSE, SPARSE, SPARSE, INDICATOR]
    assert build_design(sp.csc_array(table)).kind.tolist() == kinds


def test_dense_fortran_array_is_not_copied():
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(40, 3)))
    design = build_design(X)
    assert np.shares_memory(design.values, X)
    np.testing.assert_array_equal(to_array(design), X)


def test_integers_beyond_2_to_53_are_cast():
    X = np.array([[2**60 + 1], [1], [2]])
    assert to_array(build_design(X))[0, 0] == float(2**60)
    assert to_array(build_design(sp.csc_array(X)))[0, 0] == float(2**60)


def pandas_frame():
    return pd.DataFrame(
        {
            "age": [50.5, 61.0, 47.25, 33.0],
            "count": [0, 0, 0, 3],
            "is_male": [True, False, False, False],
            "nullable": pd.array([1, 0, 0, 7], dtype="Int64"),
            "nullable_float": pd.array([0.5, 2.0, 1.0, 1.5], dtype="Float64"),
            "nullable_bool": pd.array([False, False, True, False], dtype="boolean"),
            "sparse": pd.arrays.SparseArray([0.0, 0.0, 2.5, 0.0], fill_value=0.0),
            "sparse_int": pd.arrays.SparseArray([1, 0, 1, 1], fill_value=0),
            "sparse_bool": pd.arrays.SparseArray([False, True, False, False]),
            "sparse_of_ones": pd.arrays.SparseArray([1, 1, 1, 0], fill_value=1),
            "sparse_full": pd.arrays.SparseArray([1.0, 2.0, 3.0, 4.0]),
        }
    )


def test_flags_of_arrow_in_pandas():
    pytest.importorskip("pyarrow")
    flags = pd.DataFrame({"flag": pd.array([True, False, True], dtype="bool[pyarrow]")})
    assert to_array(build_design(flags)).tolist() == [[1.0], [0.0], [1.0]]
    flags.loc[1, "flag"] = None
    with pytest.raises(ValueError, match=r"`X` has 1 NaN or infinite value.*in column 'flag'"):
        build_design(flags)


def test_pandas_input():
    frame = pandas_frame()
    design = build_design(frame)
    check_layout(design)
    np.testing.assert_array_equal(to_array(design), frame.astype(float).to_numpy())
    assert design.names.tolist() == list(frame.columns)
    assert design.names.dtype == object
    kind = dict(zip(design.names, design.kind, strict=True))
    assert kind["age"] == DENSE
    assert kind["count"] == SPARSE
    assert kind["is_male"] == kind["nullable_bool"] == kind["sparse_bool"] == INDICATOR
    assert kind["sparse_int"] == INDICATOR
    assert kind["sparse"] == SPARSE


def test_columns_of_numbers_are_read_together(monkeypatch):
    """Thousands of slices of a wide frame of genes and flags would take longer than its fit."""
    rng, singles, read = np.random.default_rng(0), [], tables._pandas_column
    kinds = rng.choice(["float64", "bool", "int8", "Int64"], 300, p=[0.3, 0.3, 0.3, 0.1])
    values = rng.integers(0, 2, (300, 5)) * rng.choice([1, 3], (300, 1))
    columns = {f"g{j}": pd.array(values[j], dtype=kind) for j, kind in enumerate(kinds)}
    frame = pd.DataFrame(columns)
    monkeypatch.setattr(tables, "_pandas_column", lambda *a: singles.append(a[2]) or read(*a))
    monkeypatch.setattr(tables, "BLOCK_VALUES", 100)
    design = build_design(frame)
    np.testing.assert_array_equal(to_array(design), frame.astype(float).to_numpy())
    assert design.kind.tolist() == build_design(frame.astype(float).to_numpy()).kind.tolist()
    alone = [repr(name) for name in frame.columns[kinds == "Int64"]]
    assert 0 < len(alone) < 60 and singles == alone * 2


def test_pandas_block_index_stored_zeros_and_labels():
    column = pd.arrays.SparseArray([0.0, 1.0, 1.0, 3.0, 0.0, 1.0], kind="block", fill_value=0.0)
    column.sp_values[2] = 0.0
    frame = pd.DataFrame({0: column, 1: [1, 0, 0, 0, 0, 0]})
    design = build_design(frame)
    np.testing.assert_array_equal(to_array(design)[:, 0], [0, 1, 1, 0, 0, 1])
    assert design.kind.tolist() == [INDICATOR, INDICATOR]
    assert design.names is None


def test_polars_input():
    frame = pl.DataFrame(
        {
            "age": [50.5, 61.0, 47.25, 33.0],
            "code": [True, False, False, False],
            "small": pl.Series([0, 0, 0, 9], dtype=pl.UInt8),
        }
    )
    design = build_design(frame)
    check_layout(design)
    expected = [[50.5, 1, 0], [61, 0, 0], [47.25, 0, 0], [33, 0, 9]]
    np.testing.assert_array_equal(to_array(design), expected)
    assert design.names.tolist() == ["age", "code", "small"]
    assert design.kind.tolist() == [DENSE, INDICATOR, SPARSE]


@pytest.mark.thorough(but=r"3-int32-|-65")
@pytest.mark.parametrize("n_rows", [1, 2, 33, 63, 64, 65, 200, 4095, 4096, 4097, 10_000])
@pytest.mark.parametrize("order_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_reordered_equals_numpy(n_rows, order_dtype, n_threads):
    rng = np.random.default_rng(n_rows)
    table = mixed_table(n_rows, rng)
    order = rng.permutation(n_rows).astype(order_dtype)
    for X in (table, sp.csc_array(table), np.asfortranarray(table[:, :1])):
        design = build_design(X)
        moved = design.reordered(order, n_threads=n_threads)
        check_layout(moved)
        expected = table[order, : design.n_columns]
        np.testing.assert_array_equal(to_array(moved), expected)
        np.testing.assert_array_equal(to_array(design), table[:, : design.n_columns])


@pytest.mark.parametrize("order", [[0, 1, 1], [0, 1, 3], [0, 1, -1], [0, 1], [0.0, 1.0, 2.0]])
def test_order_that_is_no_permutation(order):
    with pytest.raises(ValueError, match=r"^`order` (has shape|is not a permutation)"):
        build_design(np.eye(3)).reordered(order)


def test_coefficients_of_another_length():
    with pytest.raises(ValueError, match=r"^`coef` has shape \(2,\), the design has 3 columns\.$"):
        build_design(np.eye(3)).dot([1.0, 2.0])


def test_identity_order_returns_the_same_design():
    design = build_design(np.eye(5))
    assert design.reordered(np.arange(5)) is design


@pytest.mark.parametrize("columns", [[2, 0], [1, 2, 3], [], slice(1, None, 2), [3, 3], [-1]])
def test_select(columns):
    rng = np.random.default_rng(5)
    table = mixed_table(80, rng)
    design = build_design(pd.DataFrame(table, columns=list("abcdefg")))
    chosen = design.select(np.array(columns, dtype=int) if isinstance(columns, list) else columns)
    check_layout(chosen)
    expected = table[:, columns] if columns != [] else np.zeros((80, 0))
    np.testing.assert_array_equal(to_array(chosen), expected)
    order = rng.permutation(80)
    if chosen.n_columns:
        np.testing.assert_array_equal(to_array(chosen.reordered(order)), expected[order])
        np.testing.assert_allclose(chosen.dot(np.ones(chosen.n_columns)), expected.sum(axis=1))
    named = pd.Series(range(7), index=list("abcdefg")).iloc[columns]
    assert chosen.names.tolist() == list(named.index)


def test_select_by_mask_and_run_without_copy():
    design = build_design(sp.csc_array(np.triu(np.ones((6, 6)))))
    mask = np.array([True, False, True, False, False, True])
    np.testing.assert_array_equal(to_array(design.select(mask)), np.triu(np.ones((6, 6)))[:, mask])
    run = design.select(slice(2, 5))
    np.testing.assert_array_equal(to_array(run), np.triu(np.ones((6, 6)))[:, 2:5])
    assert np.shares_memory(run.indices, design.indices)


def test_dot_equals_numpy_and_skips_zero_coefficients():
    rng = np.random.default_rng(9)
    table = mixed_table(300, rng)
    coef = rng.normal(size=table.shape[1])
    for X in (table, sp.csr_array(table)):
        design = build_design(X)
        np.testing.assert_allclose(design.dot(coef), table @ coef, rtol=1e-13, atol=1e-13)
        np.testing.assert_array_equal(design.dot(np.zeros(coef.size)), np.zeros(300))
        sparse_coef = np.where(np.arange(coef.size) == 2, coef, 0.0)
        np.testing.assert_allclose(design.dot(sparse_coef), table @ sparse_coef, rtol=1e-13)


@st.composite
def sparse_input(draw):
    n_rows = draw(st.integers(1, 90))  # scipy warns of a DIA form of 100 diagonals
    n_columns = draw(st.integers(1, 6))
    size = draw(st.integers(0, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    every = [0.0, 1.0, 1.0, 1.0, -2.0, 0.5], [1.0, 3.0], [1.0]
    values = rng.choice(draw(st.sampled_from(every)), size)
    used = rng.permutation(n_columns)[: draw(st.integers(1, n_columns))]
    coords = (rng.integers(0, n_rows, size), rng.choice(used, size))
    X = sp.coo_array((values, coords), shape=(n_rows, n_columns))
    format = draw(st.sampled_from(FORMATS))
    if format in ("csc", "csr"):  # keep duplicates and disorder, which conversion would remove
        major = int(format == "csc")
        sorted_by = np.argsort(coords[major], kind="stable")
        counts = np.bincount(coords[major], minlength=X.shape[major])
        indptr = np.concatenate([[0], np.cumsum(counts)])
        parts = values[sorted_by], coords[1 - major][sorted_by], indptr
        X = (sp.csc_array if major else sp.csr_array)(parts, shape=X.shape)
    return X.asformat(format), rng.permutation(n_rows)


@given(sparse_input())
@settings(max_examples=80, deadline=None)
def test_random_sparse_input(case):
    X, order = case
    expected = X.toarray()
    design = build_design(X)
    check_layout(design)
    np.testing.assert_array_equal(to_array(design), expected)
    is_indicator = ((expected == 0) | (expected == 1)).all(axis=0)
    np.testing.assert_array_equal(design.kind == INDICATOR, is_indicator)
    np.testing.assert_array_equal(to_array(design.reordered(order)), expected[order])
    np.testing.assert_array_equal(to_array(build_design(expected)), expected)
    np.testing.assert_array_equal(X.toarray(), expected)


def peak_bytes(function):
    tracemalloc.start()
    try:
        result = function()
        return result, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def wide_indicator(n_rows=200_000, n_columns=2_000, per_column=200):
    """Sparse enough that a dense copy would take 3.2 GB."""
    rng = np.random.default_rng(0)
    gap = n_rows // per_column
    rows = np.arange(per_column) * gap + rng.integers(0, gap, (n_columns, per_column))
    indptr = np.arange(n_columns + 1, dtype=np.int32) * per_column
    ones = np.ones(rows.size, dtype=np.int8)
    return sp.csc_array((ones, rows.ravel().astype(np.int32), indptr), shape=(n_rows, n_columns))


def test_memory_of_sparse_input():
    X, csr = wide_indicator(), wide_indicator().tocsr()
    order = np.random.default_rng(1).permutation(X.shape[0])
    for table in (X, csr):
        build_design(table).reordered(order)  # compiles
    design, peak = peak_bytes(lambda: build_design(X))
    assert peak < 100 * X.shape[1]
    moved, peak = peak_bytes(lambda: design.reordered(order))
    assert peak < 4 * X.nnz + 10 * X.shape[0] + 200 * X.shape[1]
    assert moved.nbytes < 4 * X.nnz + 40 * X.shape[1]
    _, peak = peak_bytes(lambda: build_design(csr))
    assert peak < (4 + 1) * X.nnz + 100 * X.shape[1] + 10 * X.shape[0]


def test_memory_of_sparse_pandas_columns():
    frame = pd.DataFrame.sparse.from_spmatrix(wide_indicator(n_columns=100)[:, :100])
    design, peak = peak_bytes(lambda: build_design(frame))
    assert (design.kind == INDICATOR).all()
    assert peak < 8 * design.n_rows  # less than one dense column; a dense copy has 100


def test_memory_of_dense_input():
    X = np.random.default_rng(0).normal(size=(20_000, 64))
    design, peak = peak_bytes(lambda: build_design(X))
    assert peak < 1.6 * design.nbytes


def test_pickle_and_size():
    design = build_design(pandas_frame())
    copy = pickle.loads(pickle.dumps(design))
    np.testing.assert_array_equal(to_array(copy), to_array(design))
    assert copy.names.tolist() == design.names.tolist()
    assert design.nbytes > design.values.nbytes + design.indices.nbytes


def test_columns_of_one_name():
    frame = pd.DataFrame(np.eye(3), columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="`X` has several columns named 'a'; rename or drop"):
        build_design(frame)
