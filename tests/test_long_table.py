"""Long tables against a dictionary of entries, from every kind of table, in batches of any size."""

import pickle
from collections import Counter
from datetime import datetime

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sksurvgpu
from sksurvgpu import CoxLassoCCD, LongData, from_long, surv
from sksurvgpu.data.design.columns import INDICATOR, SPARSE
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.tables import texts as texts_module

PERSONS = pd.DataFrame(
    {"row_id": [70, 30, 90, 40, 10], "event": [1, 0, 1, 1, 0], "time": [5.0, 9.0, 2.0, 7.0, 1.0]}
)
CODES = pd.DataFrame(
    {
        "row_id": [90, 30, 70, 90, 40, 90],
        "covariate_id": [21, 40, 21, 40, 5, 5],
        "value": [1.0, 1.0, 1.0, 2.5, 1.0, 1.0],
    }
)
DENSE_CODES = np.array([[0, 1, 0], [0, 0, 1], [1, 1, 2.5], [1, 0, 0], [0, 0, 0]])


def name_of(value):
    """Part of a test's name, the same in every process."""
    return value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__)


def dense(data):
    return data.X.to_scipy().toarray()


def slow_table(row_ids, lines, join, min_count=1):
    """Dense table, identifiers of its columns and rows of each, one line after the other."""
    entries = {}
    for row, covariate, value in lines:
        if row in row_ids:
            key = row, covariate
            entries[key] = join(entries[key], value) if key in entries else value
    entries = {key: value for key, value in entries.items() if value != 0}
    rows_of = Counter(covariate for _, covariate in entries)
    kept = sorted(covariate for covariate, count in rows_of.items() if count >= min_count)
    table = np.array([[entries.get((row, c), 0.0) for c in kept] for row in row_ids])
    return table.reshape(len(row_ids), len(kept)), kept


JOINS = {"sum": lambda a, b: a + b, "max": max, "last": lambda a, b: b}


def as_sources(frame):
    """The same table in every form that needs no file; iterators are made anew by each call."""
    half = len(frame) // 2
    return {
        "pandas": lambda: frame,
        "polars": lambda: pl.DataFrame(frame.to_dict("list")),
        "lazy": lambda: pl.LazyFrame(frame.to_dict("list")),
        "list": lambda: [frame[:half], frame[half:]],
        "iterator": lambda: iter([frame[:half], frame[half:half], frame[half:]]),
        "generator": lambda: (
            pl.DataFrame(frame[i:].head(2).to_dict("list")) for i in range(0, len(frame), 2)
        ),
    }


FORMS = list(as_sources(CODES))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1, 2, 1000])
def test_every_form_gives_the_same(form, size):
    data = from_long(PERSONS, as_sources(CODES)[form](), batch_size=size)
    np.testing.assert_array_equal(dense(data), DENSE_CODES)
    assert data.covariate_ids.tolist() == [5, 21, 40]
    assert data.covariate_ids.dtype == np.int64
    assert data.X.names.tolist() == ["5", "21", "40"]
    assert data.X.kind.tolist() == [INDICATOR, INDICATOR, SPARSE]
    assert data.row_ids.tolist() == PERSONS["row_id"].tolist()
    pd.testing.assert_frame_equal(data.outcomes, PERSONS)
    report = data.report
    assert (report.n_rows, report.n_covariates, report.n_entries, report.n_lines) == (5, 3, 6, 6)
    assert (report.n_rows_without, report.smallest_count, report.largest_count) == (1, 2, 2)
    assert report.n_unnamed == 0


@pytest.mark.parametrize("form", FORMS)
def test_outcomes_of_every_form(form):
    outcomes = PERSONS.assign(town=["a", "b", "b", "c", "a"])
    data = from_long(as_sources(outcomes)[form](), CODES, batch_size=2)
    np.testing.assert_array_equal(dense(data), DENSE_CODES)
    assert data.outcomes.to_dict("list") == outcomes.to_dict("list")


@pytest.mark.thorough
@given(st.data())
def test_any_lines_in_any_batches(data):
    draw = data.draw
    n_rows, n_covariates = draw(st.integers(1, 80)), draw(st.integers(1, 6))
    offset = draw(st.sampled_from([0, -(2**40), 2**62]))
    row_ids = (offset + np.random.default_rng(0).permutation(100)[:n_rows] * 3).tolist()
    candidates = [*row_ids, offset + 1]  # the last is unknown
    line = st.tuples(
        st.sampled_from(candidates),
        st.integers(-2, n_covariates).map(lambda c: c * 1_000_003),
        st.sampled_from([0.0, 1.0, 1.0, -1.0, 2.5]),
    )
    lines = draw(st.lists(line, max_size=120))
    if draw(st.booleans()):
        lines = [(row, covariate, 1.0) for row, covariate, _ in lines]
    policy, min_count = draw(st.sampled_from(list(JOINS))), draw(st.integers(1, 3))
    expected, kept = slow_table(row_ids, lines, JOINS[policy], min_count)
    columns = ["row_id", "covariate_id", "value"]
    if draw(st.booleans()):  # strings sort differently
        row_ids = [str(row) for row in row_ids]
        lines = [(str(row), str(covariate), value) for row, covariate, value in lines]
        expected, kept = slow_table(row_ids, lines, JOINS[policy], min_count)
    frame = pd.DataFrame(lines, columns=columns)
    if not lines:
        frame = frame.astype({"row_id": type(row_ids[0]), "covariate_id": int, "value": float})
    options = {
        "duplicates": policy,
        "min_count": min_count,
        "unknown": "ignore",
        "batch_size": draw(st.integers(1, 50)),
    }
    outcomes = pd.DataFrame({"row_id": row_ids})
    form = draw(st.sampled_from(FORMS if lines else ["pandas", "list", "iterator"]))
    source = as_sources(frame)[form]()
    if not kept:
        with pytest.raises(ValueError, match="leaves no column"):
            from_long(outcomes, source, **options)
        return
    found = from_long(outcomes, source, **options)
    np.testing.assert_allclose(dense(found), expected, rtol=1e-14)
    assert found.covariate_ids.tolist() == kept
    only_ones = ((expected == 0) | (expected == 1)).all(axis=0)
    assert found.X.kind.tolist() == np.where(only_ones, INDICATOR, SPARSE).tolist()
    known = [line for line in lines if line[0] in row_ids]
    pairs = Counter(line[:2] for line in known)
    report = found.report
    assert report.n_lines == len(lines)
    assert report.n_unknown == len(lines) - len(known)
    assert report.n_duplicates == len(known) - len(pairs)
    assert report.n_entries == np.count_nonzero(expected)
    assert report.n_rare == len({covariate for _, covariate in pairs}) - len(kept)
    assert report.n_rows_without == np.count_nonzero(~expected.any(axis=1))
    counts = np.count_nonzero(expected, axis=0)
    assert (report.smallest_count, report.largest_count) == (counts.min(), counts.max())


def test_against_a_pivot_table():
    rng = np.random.default_rng(1)
    lines = pd.DataFrame(
        {
            "person": rng.integers(0, 3_000, 40_000),
            "code": rng.integers(0, 200, 40_000) ** 2,
            "amount": rng.normal(size=40_000),
        }
    ).drop_duplicates(["person", "code"])
    persons = pd.DataFrame({"person": rng.permutation(3_000)})
    data = from_long(
        persons, lines, row_id="person", covariate_id="code", value="amount", batch_size=7_000
    )
    expected = lines.pivot_table("amount", "person", "code").reindex(persons["person"])
    np.testing.assert_array_equal(dense(data), expected.fillna(0.0).to_numpy())
    assert data.covariate_ids.tolist() == expected.columns.tolist()


@pytest.mark.parametrize(
    "convert",
    [
        lambda ids: ids.astype("int8"),
        lambda ids: ids.astype("uint64"),
        lambda ids: ids.astype("float64"),  # as R exports them
        lambda ids: ids.astype("Int64"),
        lambda ids: ids.astype(object),
    ],
    ids=["int8", "uint64", "float64", "Int64", "object"],
)
def test_integers_of_any_type(convert):
    codes = CODES.assign(
        row_id=convert(CODES["row_id"]), covariate_id=convert(CODES["covariate_id"])
    )
    data = from_long(PERSONS, codes)
    np.testing.assert_array_equal(dense(data), DENSE_CODES)
    assert data.covariate_ids.dtype == np.int64


@pytest.mark.thorough(but=r"object")
@pytest.mark.parametrize("dtype", ["str", "object", "category"])
def test_strings_of_any_type(dtype):
    persons = PERSONS.assign(row_id=PERSONS["row_id"].astype(str).astype(dtype))
    codes = CODES.assign(
        row_id=CODES["row_id"].astype(str).astype(dtype),
        covariate_id=("c" + CODES["covariate_id"].astype(str)).astype(dtype),
    )
    data = from_long(persons, codes)
    assert data.covariate_ids.tolist() == ["c21", "c40", "c5"]
    np.testing.assert_array_equal(dense(data), DENSE_CODES[:, [1, 2, 0]])
    lazy = pl.LazyFrame(codes.astype({"row_id": object, "covariate_id": object}).to_dict("list"))
    categorical = lazy.with_columns(pl.col("covariate_id").cast(pl.Categorical))
    np.testing.assert_array_equal(dense(from_long(persons, categorical)), dense(data))


def check_found(ids, lines, strangers):
    """Every row has one covariate, of its own identifier, in a column in the order of these."""
    kind = object if isinstance(ids[0], str) else np.int64
    persons = pd.DataFrame({"row_id": pd.Series(ids, dtype=kind)})
    options = {"duplicates": "max", "unknown": "ignore", "batch_size": len(ids) // 3 + 1}
    data = from_long(persons, lines, **options)
    assert data.row_ids.tolist() == ids
    assert data.covariate_ids.tolist() == sorted(ids)
    rows, columns = data.X.to_scipy().nonzero()
    assert [ids[row] for row in rows] == [*data.covariate_ids[columns]]
    assert (len(rows), data.report.n_unknown) == (len(ids), len(strangers))


def lines_of(ids, strangers, rng):
    """Two lines for each identifier, and one of each stranger, in any order, as lists."""
    order = rng.permutation([*range(len(ids))] * 2).tolist()
    rows = [*strangers, *(ids[i] for i in order)]
    return {"row_id": rows, "covariate_id": [*(ids[:1] * len(strangers)), *rows[len(strangers) :]]}


def test_many_integers_are_found():
    rng = np.random.default_rng(4)
    patterns = [
        rng.integers(-(2**63) + 2, 2**63 - 2, 5_000),
        np.arange(5_000) << 45,  # which differ in high bits only
        np.arange(5_000) * 1_000 + 210,
        np.array([-(2**63) + 1, 2**63 - 1, 0, -1]),
    ]
    for ids in patterns:
        strangers = np.setdiff1d(ids ^ np.int64(4), ids).tolist()
        lines = pd.DataFrame(lines_of(ids.tolist(), strangers, rng))
        check_found(ids.tolist(), lines, strangers)


ANY_TEXT = st.text(max_size=20) | st.text("ab\0é\ud800", max_size=18)


@pytest.mark.thorough
@given(st.lists(ANY_TEXT, min_size=1, max_size=40, unique=True), st.lists(ANY_TEXT, max_size=9))
def test_any_strings_are_found(ids, others):
    strangers = [text for text in others if text not in ids]
    lines = lines_of(ids, strangers, np.random.default_rng(0))
    check_found(ids, pd.DataFrame(lines, dtype=object), strangers)


@pytest.mark.thorough
@pytest.mark.parametrize("length", [0, 5, 7, 8, 9, 16, 40])
def test_many_strings_are_found(length):
    rng = np.random.default_rng(length)
    ids, strangers = (
        [f"{k:0{length}d}" for k in numbers.tolist()]
        for numbers in np.split(rng.permutation(9_000), [6_000])
    )
    lines = pd.DataFrame(lines_of(ids, strangers, rng), dtype=object)
    forms = [lines.astype(kind) for kind in (object, "string", "string[pyarrow]")]
    forms += [pl.DataFrame(lines.to_dict("list")), pa.table(lines)]
    for form in forms:
        check_found(ids, form[1:], strangers[1:])


def test_strings_without_arrow(monkeypatch):
    monkeypatch.setattr(texts_module, "find_spec", lambda name: None)
    text = CODES.astype({"row_id": str, "covariate_id": str})
    persons = PERSONS.astype({"row_id": str})
    for codes in (
        text,
        text.astype({"row_id": "string[python]"}),
        pl.DataFrame(text.to_dict("list")),
    ):
        np.testing.assert_array_equal(dense(from_long(persons, codes)), DENSE_CODES[:, [1, 2, 0]])


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        ([90, 30, 70, 90, 40, 0.5], ValueError, r"`covariates`\['covariate_id'\] has 0.5"),
        (np.full(6, 2.0**60), ValueError, "as floating point, into 53"),
        (np.full(6, 2**63, np.uint64), ValueError, "fit into 64 bits"),
        ([True] * 6, TypeError, "has dtype Boolean; identifiers are integers or strings"),
        (pd.to_datetime(["2020-01-01"] * 6), TypeError, "has dtype Datetime"),
        (["a", "b", "c", 1, "d", "e"], TypeError, "of types str and int"),
        ([("a",)] * 6, TypeError, "of types str and tuple"),
    ],
    ids=["fraction", "large", "uint64", "bool", "date", "mixed", "tuple"],
)
def test_bad_identifiers(ids, error, message):
    with pytest.raises(error, match=message):
        from_long(PERSONS, CODES.assign(covariate_id=ids))


@pytest.mark.parametrize(
    ("ids", "error", "message"),
    [
        (pl.Series([1, 2], dtype=pl.Int128), TypeError, "has dtype Int128; .* at most 64 bits"),
        (
            np.array([1, 4_096], np.float16),
            (ValueError, TypeError),
            "has (4096.0; .* floating point, into 11|dtype Unknown)",  # to older narwhals
        ),
        (np.array([1, 2**25], np.float32), ValueError, "has 33554432.0; .*, into 24"),
        (pd.Categorical([1.0, 0.5]), ValueError, "has 0.5; identifiers"),
        (
            pd.Categorical(pd.to_datetime(["2020-01-01", "2020-01-02"])),
            TypeError,
            "has dtype Datetime",
        ),
    ],
    ids=["Int128", "float16", "float32", "category of float", "category of date"],
)
def test_bad_identifiers_of_rows(ids, error, message):
    make = pl.DataFrame if isinstance(ids, pl.Series) else pd.DataFrame
    with pytest.raises(error, match=rf"`outcomes`\['row_id'\] {message}"):
        from_long(make({"row_id": ids}), CODES)


def test_categories_are_identifiers_of_their_own_kind():
    large = [2**60 + 1, 2**60, 7]
    persons = pd.DataFrame({"row_id": pd.Categorical(large, categories=[7, 2**60, 2**60 + 1, 0])})
    codes = pd.DataFrame({"row_id": large, "covariate_id": pd.Categorical([9, 10, 9])})
    data = from_long(persons, codes)
    assert data.row_ids.tolist() == large
    assert data.covariate_ids.tolist() == [9, 10]
    assert data.X.to_scipy().toarray().tolist() == [[1, 0], [0, 1], [1, 0]]
    whole = from_long(persons.assign(row_id=pd.Categorical([1.0, 2.0, 7.0])), codes[2:])
    assert whole.row_ids.tolist() == [1, 2, 7]


def test_outcomes_in_chunks_have_the_same_columns():
    parts = [PERSONS[:2], PERSONS[2:].assign(more=1)]
    for chunks in (parts, iter(parts)):
        with pytest.raises(ValueError, match=r"chunk 1 of `outcomes` .* it has also 'more'; give"):
            from_long(chunks, CODES)
    whole = from_long([PERSONS[:2], PERSONS[2:][PERSONS.columns[::-1]]], CODES)  # in any order
    pd.testing.assert_frame_equal(whole.outcomes, PERSONS)


def test_outcomes_of_other_packages_are_exact():
    zone, large = "Europe/Berlin", 2**60 + 1
    table = pl.DataFrame(
        {
            "row_id": [1, 2],
            "whole": [large, None],
            "small": pl.Series([None, 200], dtype=pl.UInt8),
            "flag": [None, True],
            "full": [large, 5],
            "seen": pl.Series([datetime(2020, 7, 1, 12), None]).dt.replace_time_zone(zone),
        }
    )
    codes = pd.DataFrame({"row_id": [1, 2], "covariate_id": [9, 9]})
    for outcomes in (table, [table[:1], table[1:]]):
        found = from_long(outcomes, codes).outcomes
        assert found["whole"].tolist() == [large, pd.NA]
        assert found["small"].tolist() == [pd.NA, 200]
        assert found["flag"].tolist() == [pd.NA, True]
        assert found["full"].tolist() == [large, 5]
        assert found["seen"].tolist() == [pd.Timestamp(2020, 7, 1, 12, tz=zone), pd.NaT]
    dtypes = from_long(table, codes).outcomes.dtypes.astype(str).to_dict()
    assert [dtypes[name] for name in ("whole", "small", "flag", "full")] == [
        "Int64",
        "UInt8",
        "boolean",
        "int64",
    ]
    wide = table.with_columns(pl.col("full").cast(pl.Int128))
    with pytest.raises(TypeError, match=r"`outcomes`\['full'\] has dtype Int128"):
        from_long(wide, codes)


def test_identifiers_of_different_kinds():
    text = CODES.assign(row_id=CODES["row_id"].astype(str))
    with pytest.raises(TypeError, match=r"\['row_id'\] has strings, .* of rows are integers; conv"):
        from_long(PERSONS, text)
    other = CODES.assign(covariate_id=CODES["covariate_id"].astype(str))
    with pytest.raises(TypeError, match=r"\['covariate_id'\] has strings, .* are integers"):
        from_long(PERSONS, [CODES, other])
    with pytest.raises(TypeError, match=r"`outcomes`\['row_id'\] has integers, .* are strings"):
        from_long([PERSONS.astype({"row_id": str}), PERSONS], CODES)


def with_line(row, covariate, value=1.0):
    line = pd.DataFrame({"row_id": [row], "covariate_id": [covariate], "value": [value]})
    return pd.concat([CODES, line], ignore_index=True)


def test_unknown_rows():
    codes = with_line(11, 99)
    with pytest.warns(
        UserWarning, match=r"1 line\(s\) whose row is not in `outcomes`, e.g. 11"
    ) as w:
        data = from_long(PERSONS, codes)
    assert w[0].filename == __file__
    np.testing.assert_array_equal(dense(data), DENSE_CODES)  # and no column 99
    assert data.report.n_unknown == 1
    assert from_long(PERSONS, codes, unknown="ignore").report.n_unknown == 1
    with pytest.raises(ValueError, match=r"e.g. 11; pass unknown='ignore'"):
        from_long(PERSONS, codes, unknown="error")


@pytest.mark.parametrize("as_iterator", [False, True])
def test_duplicates(as_iterator):
    codes = with_line(30, 40, 3.0)

    def read(policy):
        source = (codes[i : i + 1] for i in range(len(codes))) if as_iterator else codes
        return from_long(PERSONS, source, duplicates=policy)

    for policy, value in {"sum": 4.0, "max": 3.0, "last": 3.0}.items():
        data = read(policy)
        assert dense(data)[1, 2] == value
        assert data.report.n_duplicates == 1
    with pytest.raises(ValueError, match="covariate 40 of row 30 more than once; pass duplicates="):
        read("error")


@pytest.mark.parametrize("values", [[3.0, 1.0, 2.0], [1.0, 2.0, 0.5], [-2.0, -1.0, -3.0]])
def test_the_order_of_lines_matters_to_last_only(values):
    lines = pd.DataFrame({"row_id": 30, "covariate_id": 1, "value": values})
    parts = [lines[i : i + 1] for i in range(3)]
    for policy, expected in {"last": values[-1], "max": max(values)}.items():
        for source in (lines, parts, iter(parts)):
            assert dense(from_long(PERSONS, source, duplicates=policy))[1, 0] == expected


def test_sums_of_lines_without_values_count_them():
    visits = pd.DataFrame({"row_id": [30, 30, 70, 30], "covariate_id": [1, 1, 1, 2]})
    data = from_long(PERSONS, visits, duplicates="sum")
    assert dense(data)[:2].tolist() == [[1, 0], [2, 1]]
    assert data.X.kind.tolist() == [SPARSE, INDICATOR]
    assert from_long(PERSONS, visits, duplicates="max").X.kind.tolist() == [INDICATOR, INDICATOR]


def test_zeros_are_left_out_after_duplicates_are_joined():
    codes = pd.concat([with_line(30, 40, -1.0), with_line(10, 7, 0.0)[-1:]])
    data = from_long(PERSONS, codes, duplicates="sum")
    assert (data.report.n_zeros, data.report.n_rare) == (2, 1)
    assert data.covariate_ids.tolist() == [5, 21, 40]
    assert data.X.to_scipy().nnz == data.report.n_entries == 5
    last = from_long(PERSONS, with_line(30, 40, 0.0), duplicates="last")
    assert last.report.n_zeros == 1
    assert dense(last)[1, 2] == 0


@pytest.mark.parametrize("column", ["row_id", "covariate_id", "value"])
@pytest.mark.parametrize("null", [None, np.nan])
@pytest.mark.parametrize("storage", ["pandas", "nullable", "polars", "strings"])
def test_missing_entries(storage, null, column):
    codes = CODES.astype(object)
    codes.loc[2, column] = null
    expected = DENSE_CODES.copy()
    expected[0, 1] = 0.0
    persons = PERSONS
    if storage == "pandas":
        codes = codes.astype(float)
    elif storage == "nullable":
        codes = codes.astype({"row_id": "Int64", "covariate_id": "Int64", "value": "Float64"})
    elif storage == "polars":
        as_float = pl.Float64 if null is not None else None
        codes = pl.DataFrame(
            {c: pl.Series(codes[c].tolist(), dtype=as_float, strict=False) for c in codes}
        )
    else:
        persons = PERSONS.astype({"row_id": str})
        known = CODES["row_id"].astype(str).astype(object)
        codes = codes.assign(
            row_id=known.where(codes["row_id"].notna(), null), value=codes["value"].astype(float)
        )
    with pytest.raises(ValueError, match=rf"no '{column}' in line 2; pass missing='drop'"):
        from_long(persons, codes, batch_size=2)
    data = from_long(persons, codes, missing="drop")
    np.testing.assert_array_equal(dense(data), expected)
    assert data.report.n_missing == 1


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values_name_their_covariate(value):
    with pytest.raises(ValueError, match=r"\['value'\] is -?inf for covariate 77 of row 30"):
        from_long(PERSONS, with_line(30, 77, value), missing="drop")
    with pytest.raises(ValueError, match="covariate 77 of one row that add up to more"):
        from_long(
            PERSONS,
            pd.concat([with_line(30, 77, 1.7e308), with_line(30, 77, 1.7e308)[-1:]]),
            duplicates="sum",
        )


def test_rare_covariates():
    data = from_long(PERSONS, with_line(10, 40), min_count=3)
    assert data.covariate_ids.tolist() == [40]
    assert data.report.n_rare == 2
    assert dense(data).ravel().tolist() == [0, 1, 2.5, 0, 1]
    with pytest.raises(ValueError, match="leaves no column: of its 6 lines 0 of rows that are not"):
        from_long(PERSONS, CODES, min_count=4)


@pytest.mark.parametrize("as_iterator", [False, True])
def test_like_takes_columns_and_names(as_iterator):
    data = from_long(PERSONS, CODES, names={5: "five", 21: "21", 40: "forty"})
    codes = pd.DataFrame({"row_id": [1, 2, 2], "covariate_id": [40, 40, 6]})
    new = from_long(
        pd.DataFrame({"row_id": [2, 1, 3]}), iter([codes]) if as_iterator else codes, like=data
    )
    assert dense(new).tolist() == [[0, 0, 1], [0, 0, 1], [0, 0, 0]]
    assert new.X.names.tolist() == ["five", "21", "forty"]
    assert new.covariate_ids.tolist() == [5, 21, 40]
    assert (new.report.n_unused, new.report.n_rare, new.report.smallest_count) == (1, 0, 0)
    nothing = from_long(PERSONS, codes[:0], like=data)
    assert not dense(nothing).any() and nothing.X.shape == (5, 3)
    assert "1 lines left out: their covariate is not one of `like`" in repr(new.report)


def test_like_that_cannot_be():
    data = from_long(PERSONS, CODES)
    with pytest.raises(TypeError, match="`like` is of type Design; pass what from_long returned"):
        from_long(PERSONS, CODES, like=data.X)
    for extra in ({"min_count": 2}, {"names": {5: "x"}}):
        with pytest.raises(ValueError, match="passed with `like`"):
            from_long(PERSONS, CODES, like=data, **extra)
    with pytest.raises(TypeError, match=r"has strings, .* are integers"):
        from_long(PERSONS, CODES.astype({"covariate_id": str}), like=data)


NAMES = {5: "aspirin", 40: "gout", 1: "not there"}


@pytest.mark.parametrize(
    "names",
    [
        NAMES,
        pd.Series(NAMES),
        pd.DataFrame({"covariate_id": NAMES.keys(), "name": NAMES.values(), "more": 1}),
        pl.DataFrame({"covariate_id": [*NAMES, 21], "name": [*NAMES.values(), None]}),
    ],
    ids=["dict", "Series", "pandas", "polars"],
)
def test_names(names):
    data = from_long(PERSONS, CODES, names=names)
    assert data.X.names.tolist() == ["aspirin", "21", "gout"]
    assert data.report.n_unnamed == 1


def test_names_that_are_shared_get_their_identifier():
    data = from_long(PERSONS, CODES, names={5: "gout", 21: "gout", 40: "gout (5)"})
    assert data.X.names.tolist() == ["gout (5) (5)", "gout (21)", "gout (5) (40)"]
    data = from_long(PERSONS, CODES, names={5: "21", 40: "gout"})
    assert data.X.names.tolist() == ["21 (5)", "21 (21)", "gout"]


def test_bad_names():
    with pytest.raises(ValueError, match=r"none of the 3 covariates: .* like '5', .* like 5"):
        from_long(PERSONS, CODES, names={"5": "aspirin"})
    with pytest.raises(ValueError, match=r"`names` has no column 'name'; name one .* by name="):
        from_long(PERSONS, CODES, names=pd.DataFrame({"covariate_id": [5], "label": ["a"]}))
    twice = pd.DataFrame({"covariate_id": [5, 5], "name": ["a", "b"]})
    with pytest.raises(ValueError, match="two names of covariate 5, 'a' and 'b'"):
        from_long(PERSONS, CODES, names=twice)
    with pytest.raises(TypeError, match="7 of type int for covariate 5; names are strings"):
        from_long(PERSONS, CODES, names={5: 7})


def test_iterators_are_read_once_and_lists_twice():
    read = []

    class Chunks:
        def __iter__(self):
            for i in range(0, len(CODES), 2):
                read.append(i)
                yield CODES[i : i + 2]

    np.testing.assert_array_equal(dense(from_long(PERSONS, iter(Chunks()))), DENSE_CODES)
    assert read == [0, 2, 4]
    np.testing.assert_array_equal(dense(from_long(PERSONS, Chunks())), DENSE_CODES)
    assert read[3:] == [0, 0, 2, 4, 0, 2, 4]  # the first tells the columns


def test_a_table_that_changes_is_noticed():
    class Changing:
        """Other lines in every reading, by column, row or number."""

        def __init__(self, *readings):
            self.readings = iter([CODES, *readings])

        def __iter__(self):
            return iter([next(self.readings)])

    np.testing.assert_array_equal(dense(from_long(PERSONS, Changing(CODES, CODES))), DENSE_CODES)
    for other in (
        CODES[:-1],
        with_line(10, 5),
        CODES.assign(covariate_id=5),
        CODES.assign(covariate_id=99),
        CODES.assign(row_id=11),
    ):
        with pytest.raises(ValueError, match="changed between two readings"):
            from_long(PERSONS, Changing(CODES, other), unknown="ignore", duplicates="last")

    class Once:
        """A reader that goes on where it was."""

        def __init__(self, *chunks):
            self.chunks = iter(chunks)

        def __iter__(self):
            yield from self.chunks

    for chunks in ([CODES], [CODES, CODES], [CODES[:2], CODES[2:4], CODES[4:]]):
        with pytest.raises(ValueError, match="only once"):
            from_long(PERSONS, Once(*chunks), like=from_long(PERSONS, CODES))


def test_batches_are_as_small_as_asked_for(monkeypatch):
    """What is held beyond the result is a batch: nothing larger is ever converted."""
    lengths = []
    convert = nw.Series.to_numpy

    def recording(series):
        lengths.append(len(series))
        return convert(series)

    monkeypatch.setattr(nw.Series, "to_numpy", recording)
    codes = pd.DataFrame({"row_id": np.arange(1_000), "covariate_id": np.arange(1_000) % 7})
    for form, source in as_sources(codes).items():
        lengths.clear()
        from_long(codes[["row_id"]][:10], source(), unknown="ignore", batch_size=37)
        of_covariates = [length for length in lengths if length != 10]
        assert max(of_covariates) <= 37, form
        assert sum(of_covariates) >= 2_000, form


@pytest.mark.parametrize(
    ("covariates", "error", "message"),
    [
        (5, TypeError, "`covariates` is of type int; pass a DataFrame"),
        ({"row_id": [1]}, TypeError, "`covariates` is of type dict"),
        (np.ones((3, 2)), TypeError, "an item of type ndarray"),
        (
            pd.Series([1, 2]),
            TypeError,
            "`covariates` is an iterable with an item of type int; pass",
        ),
        (
            pl.Series([1, 2]),
            TypeError,
            "`covariates` is an iterable with an item of type int; pass",
        ),
        ([pl.LazyFrame({"row_id": [1]})], TypeError, "an item of type LazyFrame"),
        ([], ValueError, "`covariates` is an iterable without any frame"),
        (iter([]), ValueError, "`covariates` is an iterable without any frame"),
        (
            [CODES, CODES[["row_id", "value"]]],
            ValueError,
            "chunk 1 .* it lacks 'covariate_id'",
        ),
        ([CODES[["row_id", "covariate_id"]], CODES], ValueError, "chunk 1 .* it has also 'value'"),
        (
            CODES.set_axis(["row_id", "a", "row_id"], axis=1),
            ValueError,
            "several .*'row_id'",
        ),
        (CODES.set_axis([0, 1, 2], axis=1), TypeError, "named 0 of type int; names of columns are"),
        (
            [CODES.set_axis([0, 1, 2], axis=1)],
            TypeError,
            "`covariates` has .* named 0 of type",
        ),
        (CODES[["row_id", "value"]], ValueError, "no column 'covariate_id'; name .* covariate_id="),
        (CODES.rename(columns={"row_id": "rowId"}), ValueError, "no column 'row_id'; .*'rowId'"),
        (CODES.rename(columns={"value": "amount"}), ValueError, "no column 'value' of values; .*="),
        (CODES.astype({"value": str}), TypeError, r"\['value'\] has dtype String; pass numbers"),
        (CODES[:0], ValueError, "leaves no column: of its 0 lines"),
    ],
    ids=name_of,
)
def test_bad_covariates(covariates, error, message):
    with pytest.raises(error, match=message):
        from_long(PERSONS, covariates)


def test_tables_without_values():
    codes = CODES[["row_id", "covariate_id"]]
    expected = (DENSE_CODES != 0).astype(float)
    np.testing.assert_array_equal(dense(from_long(PERSONS, codes)), expected)
    other = CODES.rename(columns={"value": "amount"})
    np.testing.assert_array_equal(dense(from_long(PERSONS, other, value=None)), expected)
    np.testing.assert_array_equal(dense(from_long(PERSONS, other, value="amount")), DENSE_CODES)
    flags = CODES.assign(value=CODES["value"] == 1)
    assert dense(from_long(PERSONS, flags)).sum() == 5
    with pytest.raises(ValueError, match="'row_id' and 'value'; name three different columns"):
        from_long(PERSONS, CODES, covariate_id="row_id")
    with pytest.raises(ValueError, match="no column 'amount' of values"):
        from_long(PERSONS, codes, value="amount")


@pytest.mark.parametrize(
    ("outcomes", "error", "message"),
    [
        (None, TypeError, "`outcomes` is of type NoneType"),
        (PERSONS.set_index("row_id"), ValueError, "`outcomes` has no column 'row_id'; name one of"),
        (PERSONS[:0], ValueError, "`outcomes` has no rows"),
        (
            PERSONS.assign(row_id=[1, 2, 3, 2, 4]),
            ValueError,
            "'row_id' 2 more than once; every row",
        ),
        ([PERSONS, PERSONS[3:]], ValueError, "'row_id' 40 more than once"),
        (PERSONS.assign(row_id=[1, 2, None, 3, 4]), ValueError, "has rows without 'row_id'"),
        (PERSONS.assign(row_id=0.5), ValueError, r"`outcomes`\['row_id'\] has 0.5"),
    ],
    ids=name_of,
)
def test_bad_outcomes(outcomes, error, message):
    with pytest.raises(error, match=message):
        from_long(outcomes, CODES)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unknown": "drop"}, "`unknown` is 'drop', must be one of 'warn', 'error', 'ignore'"),
        ({"duplicates": "median"}, "`duplicates` is 'median', must be one of 'error', 'last', "),
        ({"missing": None}, "`missing` is None, must be one of 'error', 'drop'"),
        ({"min_count": 0}, "`min_count` is 0, must be a whole number of at least 1"),
        ({"min_count": 2.5}, "`min_count` is 2.5"),
        ({"batch_size": True}, "`batch_size` is True"),
    ],
    ids=name_of,
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        from_long(PERSONS, CODES, **options)


def test_report_says_what_was_left_out():
    codes = pd.concat([with_line(30, 40, -1.0), with_line(11, 5, 1.0)[-1:], with_line(10, 7)[-1:]])
    codes.loc[1, "covariate_id"] = np.nan
    data = from_long(
        PERSONS, codes, duplicates="sum", missing="drop", unknown="ignore", min_count=2, names=NAMES
    )
    assert repr(data.report).splitlines() == [
        "5 rows, 3 covariates, 6 entries from 9 lines",
        "covariates occur in 2 to 2 rows",
        "1 rows have no covariate",
        "1 lines left out: their row is not among the outcomes",
        "1 lines left out: identifier or value missing",
        "1 covariates left out: in too few rows",
        "1 covariates named by their identifier",
    ]
    assert {type(count) for count in vars(data.report).values()} == {int}
    assert repr(data).startswith("<LongData: 5 rows, 3 covariates")


def test_the_callers_tables_stay_as_they_are():
    persons, codes = PERSONS.copy(), CODES.copy()
    data = from_long(persons, codes)
    data.outcomes["time"] = 0.0
    pd.testing.assert_frame_equal(persons, PERSONS)
    pd.testing.assert_frame_equal(codes, CODES)


def test_pickle():
    data = from_long(PERSONS, CODES, names=NAMES)
    again = pickle.loads(pickle.dumps(data))
    assert isinstance(again, LongData)
    np.testing.assert_array_equal(dense(again), dense(data))
    assert again.report == data.report


@pytest.mark.parametrize(
    ("module", "name"),
    [("long.result", name) for name in ("LongData", "LongReport")]
    + [("episodes.report", name) for name in ("Episodes", "EpisodesReport")],
)
def test_pickles_of_0_2_find_their_classes(module, name):
    found = pickle.loads(f"csksurvgpu.data.{module}\n{name}\n.".encode())
    assert found is getattr(sksurvgpu, name)


def test_a_fit_is_that_of_the_matrix(check_close):
    simulated = simulate_cox(400, 30, density=0.2, random_state=0)
    rng = np.random.default_rng(0)
    ids, codes = rng.permutation(10**6)[:400], np.sort(rng.permutation(10**6)[:30])
    rows, columns = simulated.X.nonzero()
    age = rng.normal(size=400)
    outcomes = pd.DataFrame(
        {"id": ids, "event": simulated.y["event"], "time": simulated.y["time"], "age": age}
    )
    lines = pd.DataFrame({"id": ids[rows], "code": codes[columns]}).sample(frac=1, random_state=0)
    data = from_long(outcomes, lines, row_id="id", covariate_id="code")
    X = data.X.with_columns(data.outcomes[["age"]])
    y = surv(data.outcomes["event"], data.outcomes["time"])
    model = CoxLassoCCD(tol=1e-10, penalty_factor={"age": 0}).fit(X, y)
    table = np.column_stack([simulated.X.toarray(), age])
    expected = CoxLassoCCD(tol=1e-10, penalty_factor={30: 0}).fit(table, simulated.y)
    check_close(model.coef_, expected.coef_, "coef")
    assert model.feature_names_in_.tolist() == [*map(str, codes), "age"]
    new = from_long(
        outcomes[5:50], lines, row_id="id", covariate_id="code", like=data, unknown="ignore"
    )
    risk = model.predict(new.X.with_columns(new.outcomes[["age"]]))
    check_close(risk, expected.predict(table[5:50]), "coef")
