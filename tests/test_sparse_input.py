"""Input whose arrays were damaged: refused in words, before compiled code follows them."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from sksurvgpu.data.design.columns import build_design

INTS = np.int32


def damaged(format, **parts):
    """A matrix of 4 x 4 with ones on its diagonal, of which some attributes were replaced."""
    X = sp.eye_array(4, format="csr").asformat(format)
    for attribute, value in parts.items():
        setattr(X, attribute, value)
    return X


def blocks(**parts):
    X = sp.bsr_array(np.eye(4), blocksize=(2, 2))
    for attribute, value in parts.items():
        setattr(X, attribute, value)
    return X


def lists(row, data):
    X = sp.lil_array(np.eye(4))
    X.rows[1], X.data[1] = row, data
    return X


def entry(key, value=1.0):
    X = sp.dok_array(np.eye(4))
    X._dict[key] = value
    return X


MATRICES = {
    # SciPy's own check of indptr is skipped where its last entry is 0: these crashed.
    "csc peak": (
        lambda: damaged("csc", indptr=np.array([0, 10**9, 0, 0, 0], INTS)),
        "CSC matrix: `indptr` falls from 1000000000 at position 1 to 0, must not fall",
    ),
    "csr peak": (
        lambda: damaged("csr", indptr=np.array([0, 5, 5, 5, -1], INTS)),
        "CSR matrix: `indptr` falls from 5 at position 3 to -1, must not fall",
    ),
    "bsr peak": (
        lambda: blocks(indptr=np.array([0, 10**9, 0], INTS)),
        "BSR matrix: `indptr` falls from 1000000000 at position 1 to 0, must not fall",
    ),
    # The difference of neighbours is positive in 32 bits.
    "indptr overflow": (
        lambda: damaged("csc", indptr=np.array([0, 2**31 - 1, -(2**31), 3, 4], INTS)),
        "CSC matrix: `indptr` falls from 2147483647 at position 1 to -2147483648, must not fall",
    ),
    "indptr start": (
        lambda: damaged("csr", indptr=np.arange(1, 6)),
        "CSR matrix: `indptr[0]` is 1, must be 0",
    ),
    "indptr end": (
        lambda: damaged("csr", indptr=np.array([0, 1, 2, 3, 99])),
        "CSR matrix: `indptr` ends at 99, but there are 4 entries in `indices`",
    ),
    "indptr size": (
        lambda: damaged("csc", indptr=np.arange(4)),
        "CSC matrix: `indptr` has 4 entries, must have 5 for shape (4, 4)",
    ),
    "indptr numbers": (
        lambda: damaged("csc", indptr=np.arange(5.0)),
        "CSC matrix: `indptr` has dtype float64, must be integers",
    ),
    "csc index": (
        lambda: damaged("csc", indices=np.array([0, 1, -1, 3], INTS)),
        "CSC matrix: `indices[2]` is -1, must be from 0 to 3",
    ),
    "csr index": (
        lambda: damaged("csr", indices=np.array([0, 1, 2, 2**32 + 3])),
        "CSR matrix: `indices[3]` is 4294967299, must be from 0 to 3",
    ),
    "narrow index": (
        lambda: damaged("csr", indices=np.array([-7, 1, 2, 3], np.int8), _shape=(4, 1000)),
        "CSR matrix: `indices[0]` is -7, must be from 0 to 999",
    ),
    "index beyond 63 bits": (
        lambda: damaged("csc", indices=np.array([0, 1, 2, 2**64 - 1], np.uint64)),
        "CSC matrix: `indices[3]` is 18446744073709551615, must be from 0 to 3",
    ),
    "index kind": (
        lambda: damaged("csc", indices=np.array([0, 1.5, 2, 3])),
        "CSC matrix: `indices` has dtype float64, must be integers",
    ),
    "index list": (
        lambda: damaged("csc", indices=[0, 1, 2, 3]),
        "CSC matrix: `indices` is of type list, must be a NumPy array without a mask",
    ),
    "index dimensions": (
        lambda: damaged("csc", indices=np.zeros((4, 1), INTS)),
        "CSC matrix: `indices` has shape (4, 1), must have 1 dimension(s)",
    ),
    "values length": (
        lambda: damaged("csr", data=np.ones(3)),
        "CSR matrix: `indices` has 4 entries, `data` has 3",
    ),
    "values masked": (
        lambda: damaged("csr", data=np.ma.array(np.ones(4), mask=[0, 1, 0, 0])),
        "CSR matrix: `data` is of type MaskedArray, must be a NumPy array without a mask",
    ),
    "shape": (
        lambda: damaged("csr", _shape=(4.0, 4)),
        "CSR matrix: its shape is (4.0, 4), must be two positive integers",
    ),
    "block zero": (
        lambda: blocks(data=np.ones((2, 0, 2))),
        "BSR matrix: `data` has blocks of shape (0, 2), which do not fill the matrix of shape "
        "(4, 4)",
    ),
    "block size": (
        lambda: blocks(data=np.ones((2, 1, 3))),
        "BSR matrix: `data` has blocks of shape (1, 3), which do not fill the matrix of shape "
        "(4, 4)",
    ),
    "block index": (
        lambda: blocks(indices=np.array([0, 2], INTS)),
        "BSR matrix: `indices[1]` is 2, must be from 0 to 1",
    ),
    "coo row": (
        lambda: damaged("coo", coords=(np.array([0, 1, 2, 4]), np.arange(4))),
        "COO matrix: `coords[0][3]` is 4, must be from 0 to 3",
    ),
    "coo column": (
        lambda: damaged("coo", coords=(np.arange(4), np.array([0, -5, 2, 3]))),
        "COO matrix: `coords[1][1]` is -5, must be from 0 to 3",
    ),
    "coo kind": (
        lambda: damaged("coo", coords=(np.arange(4), np.array([0, np.nan, 2, 3]))),
        "COO matrix: `coords[1]` has dtype float64, must be integers",
    ),
    "coo lengths": (
        lambda: damaged("coo", coords=(np.arange(3), np.arange(4))),
        "COO matrix: `coords[0]` has 3 entries, `coords[1]` has 4",
    ),
    "coo axes": (
        lambda: damaged("coo", coords=(np.arange(4),)),
        "COO matrix: `coords` has 1 arrays, must have 2",
    ),
    "dia offset": (
        lambda: damaged("dia", offsets=np.array([-4])),
        "DIA matrix: `offsets[0]` is -4, must be from -3 to 3",
    ),
    "dia kind": (
        lambda: damaged("dia", offsets=np.array([0.5])),
        "DIA matrix: `offsets` has dtype float64, must be integers",
    ),
    "dia lengths": (
        lambda: damaged("dia", offsets=np.array([0, 1])),
        "DIA matrix: `offsets` has 2 entries, `data` has 1",
    ),
    "dia twice": (
        lambda: damaged("dia", offsets=np.array([1, 1]), data=np.ones((2, 4))),
        "DIA matrix: `offsets` names a diagonal twice",
    ),
    "dia values": (
        lambda: damaged("dia", data=np.ones(4)),
        "DIA matrix: `data` has shape (4,), must have 2 dimension(s)",
    ),
    "lil column": (
        lambda: lists([0, 4], [1.0, 1.0]),
        "LIL matrix: `rows[1][1]` is 4, must be from 0 to 3",
    ),
    "lil lengths": (
        lambda: lists([0, 1, 2], [1.0]),
        "LIL matrix: `rows[1]` has 3 entries, `data[1]` has 1",
    ),
    "lil kind": (
        lambda: lists([1.5], [1.0]),
        "LIL matrix: `rows` holds 1.5 of type float, must be integers of 64 bits",
    ),
    "lil too large": (
        lambda: lists([2**70], [1.0]),
        f"LIL matrix: `rows` holds {2**70} of type int, must be integers of 64 bits",
    ),
    "lil value": (
        lambda: lists([1], ["1"]),
        "LIL matrix: `data` holds '1' of type str, must be real numbers",
    ),
    "lil ragged": (
        lambda: lists([1, 2], [[1.0], 2.0]),
        "LIL matrix: `data` holds [1.0] of type list, must be real numbers",
    ),
    "lil no list": (
        lambda: lists(5, [1.0]),
        "LIL matrix: `rows[1]` is of type int, must be a list",
    ),
    "lil rows": (
        lambda: damaged("lil", rows=sp.lil_array(np.eye(4)).rows[:1]),
        "LIL matrix: `rows` has 1 lists, must have one for each of 4 rows",
    ),
    "dok row": (
        lambda: entry((4, 0)),
        "DOK matrix: key (4, 0)[0] is 4, must be from 0 to 3",
    ),
    "dok kind": (
        lambda: entry((0, 0.5)),
        "DOK matrix: `keys` holds 0.5 of type float, must be integers of 64 bits",
    ),
    "dok key": (
        lambda: entry((0, 0, 0)),
        "DOK matrix: a key is (0, 0, 0), must be a row and a column",
    ),
    "dok value": (
        lambda: entry((0, 1), None),
        "DOK matrix: `values` holds None of type NoneType, must be real numbers",
    ),
}


@pytest.mark.parametrize("case", MATRICES)
def test_damaged_matrix(case):
    make, message = MATRICES[case]
    with pytest.raises(ValueError) as error:
        build_design(make())
    assert str(error.value) == (
        f"`X` is a malformed {message}; build it anew from its values, rows and columns with "
        "scipy.sparse.coo_array."
    )


def sparse_column(kind="integer", fill=0.0, **parts):
    column = pd.arrays.SparseArray([fill, 5.0, fill, 7.0], fill_value=fill, kind=kind)
    frame = pd.DataFrame({"a": column})
    for attribute, value in parts.items():
        if attribute.startswith("_"):
            setattr(frame["a"].array, attribute, value)
        else:
            getattr(frame["a"].array.sp_index, attribute)[:] = value
    return frame


COLUMNS = {
    "outside": (
        lambda: sparse_column(indices=[1, 10**8]),
        "`sp_index.indices[1]` is 100000000, must be from 0 to 3",
    ),
    "negative": (
        lambda: sparse_column(fill=1.0, indices=[-4, 3]),
        "`sp_index.indices[0]` is -4, must be from 0 to 3",
    ),
    "order": (
        lambda: sparse_column(indices=[3, 3]),
        "`sp_index.indices` has 3 after 3, must be increasing",
    ),
    "block": (
        lambda: sparse_column("block", blocs=[1, 4]),
        "`sp_index.indices[1]` is 4, must be from 0 to 3",
    ),
    "block length": (
        lambda: sparse_column("block", blengths=[10**6, 2 - 10**6]),
        "`sp_index.blengths` is [1000000, -999998], must have the sum 2 for the entries of "
        "`sp_values`",
    ),
    "values length": (
        lambda: sparse_column(_sparse_values=np.ones(1)),
        "`sp_index` has 2 entries, `sp_values` has 1",
    ),
    "values kind": (
        lambda: sparse_column(_sparse_values=np.array(["1", "2"])),
        "`sp_values` has dtype <U1, must be numbers",
    ),
    "other length": (
        lambda: sparse_column(
            _sparse_index=pd.arrays.SparseArray([0.0, 1.0, 2.0, 0.0, 0.0], fill_value=0.0).sp_index
        ),
        "`sp_index` is for 5 rows, there are 4",
    ),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_damaged_column_of_pandas(case):
    make, message = COLUMNS[case]
    with pytest.raises(ValueError) as error:
        build_design(make())
    assert str(error.value) == (
        f"`X` has a malformed sparse column 'a': {message}; build it anew with "
        "pandas.arrays.SparseArray."
    )


@pytest.mark.parametrize("format", ["csc", "csr", "bsr", "coo"])
def test_stale_flags_are_not_believed(format):
    X = sp.csr_array(([1.0, 2.0, 4.0], [1, 1, 0], [0, 3]), shape=(1, 2))
    if format == "csc":
        X = X.T
    elif format == "bsr":
        X = sp.bsr_array((X.data.reshape(-1, 1, 1), X.indices, X.indptr), shape=X.shape)
    elif format == "coo":
        X = sp.coo_array((X.data, ([0, 0, 0], X.indices)), shape=X.shape)
    X.has_canonical_format = True
    if format != "coo":
        X.has_sorted_indices = True
    dense = build_design(X).to_scipy().toarray().ravel()
    np.testing.assert_array_equal(dense, [4.0, 3.0])


def test_values_of_lists_and_dictionaries_keep_their_digits():
    """SciPy would read them in the dtype of the matrix: 1.5 as 1, 300 as an error."""
    for X in (sp.lil_array((2, 2), dtype=np.int8), sp.dok_array((2, 2), dtype=np.int8)):
        if X.format == "lil":
            X.rows[0], X.data[0] = [1, 0], [1.5, 300]
        else:
            X._dict.update({(0, 1): 1.5, (0, 0): 300})
        dense = build_design(X).to_scipy().toarray()
        np.testing.assert_array_equal(dense, [[300.0, 1.5], [0.0, 0.0]])


def test_foreign_byte_order_strides_and_spare_room_are_read():
    X = sp.csc_array(np.array([[0.0, 2.0], [3.0, 0.0], [0.0, 5.0]]))
    expected = X.toarray()
    X.data = np.repeat(X.data, 2).astype(">f4")[::2]
    X.indices = np.append(X.indices, -1).astype(">i8")
    X.data = np.append(X.data, np.nan).astype(">f4")
    X.indptr = X.indptr.astype(np.uint8)
    np.testing.assert_array_equal(build_design(X).to_scipy().toarray(), expected)


def test_columns_beyond_any_memory():
    X = sp.coo_array(([1.0], ([0], [2**40])), shape=(1, 2**41))
    with pytest.raises(ValueError, match=re.escape("`X` has 2,199,023,255,552 columns, of which")):
        build_design(X)


@pytest.mark.parametrize("format", ["csc", "csr", "coo", "dia", "bsr"])
def test_half_precision_is_read_exactly(format):
    X = sp.csr_array(np.array([[0.0, 1.5], [2.5, 0.0]])).asformat(format)
    X.data = X.data.astype(np.float16)
    np.testing.assert_array_equal(build_design(X).to_scipy().toarray(), [[0.0, 1.5], [2.5, 0.0]])


def test_an_arrow_column_that_is_shorter_than_it_says(tmp_path):
    """As read from a damaged file; what lies behind the column in memory was taken for rows."""
    pyarrow, feather = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.feather")
    path, size = tmp_path / "a.feather", 7777
    feather.write_feather(pyarrow.table({"a": np.arange(float(size))}), path, "uncompressed")
    content = path.read_bytes()
    path.write_bytes(
        content.replace(size.to_bytes(8, "little"), (size + 5000).to_bytes(8, "little"))
    )
    with pytest.raises(ValueError, match="`X` is a damaged Arrow table: "):
        build_design(feather.read_table(path))
