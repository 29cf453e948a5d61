"""Columns that are left out and scaled, against what NumPy says of the dense table."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksurvgpu import CoxLassoCCD, Design, PrepareColumns, make_pipeline, surv
from sksurvgpu.data.design.columns import INDICATOR, build_design

FRAME = pd.DataFrame(
    {
        "dose": [2.0, 0, 4, 0, 1],
        "woman": [1, 0, 1, 1, 0],
        "man": [0, 1, 0, 0, 1],
        "copy": [2.0, 0, 4, 0, 1],
        "none": [0, 0, 0, 0, 0],
        "all": [3, 3, 3, 3, 3],
        "young": [1, 0, 0, 0, 1],
        "middle": [0, 1, 1, 1, 0],
        "old": [0, 0, 0, 0, 0],
    }
)


@pytest.mark.thorough(but=r"\[PrepareColumns\(\)-")
@parametrize_with_checks([PrepareColumns(), PrepareColumns(scale="sd")])
def test_it_is_a_transformer_of_scikit_learn(estimator, check):
    check(estimator)


def slow_choice(dense, min_count):
    """Columns that stay: not rare, not constant, not a copy, not the more frequent of two."""
    chosen = [j for j in range(dense.shape[1]) if np.count_nonzero(dense[:, j]) >= min_count]
    chosen = [j for j in chosen if np.ptp(dense[:, j]) > 0 or dense[0, j] == 0]
    chosen = [
        j for j in chosen if not any((dense[:, i] == dense[:, j]).all() for i in chosen if i < j)
    ]
    ones = [j for j in chosen if np.isin(dense[:, j], (0, 1)).all()]
    pairs = [(i, j) for i in ones for j in ones if i < j and (dense[:, i] + dense[:, j] == 1).all()]
    return [j for j in chosen if j not in {max(p, key=lambda j: dense[:, j].sum()) for p in pairs}]


@settings(max_examples=60)
@given(st.data())
def test_any_table_in_any_form(data):
    n, p = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    values = st.sampled_from([0.0, 0.0, 1.0, 1.0, -2.0])
    dense = np.array(data.draw(st.lists(st.lists(values, min_size=p, max_size=p), min_size=n,
                                        max_size=n)))  # fmt: skip
    min_count = data.draw(st.integers(0, 3))
    X = data.draw(st.sampled_from([np.asarray, sp.csc_array, pd.DataFrame]))(dense)
    prepare = PrepareColumns(min_count=min_count, redundant="drop", scale="sd")
    expected = slow_choice(dense, min_count)
    if not expected:
        with pytest.raises(ValueError, match="`X` has no column left"):
            prepare.fit(X)
        return
    design = build_design(X)
    found = prepare.fit(design).transform(design)
    assert prepare.columns_.tolist() == expected
    scale = dense.std(axis=0)[expected]
    scale[scale == 0] = 1
    np.testing.assert_allclose(found.to_scipy().toarray(), dense[:, expected] / scale, rtol=1e-12)
    assert (prepare.report_["left_out"] == "").to_numpy().nonzero()[0].tolist() == expected
    assert prepare.report_["rows"].tolist() == np.count_nonzero(dense, axis=0).tolist()


def test_the_report_says_why():
    groups = {"young": "age", "middle": "age", "old": "age"}
    prepare = PrepareColumns(redundant="drop", groups=groups).fit(FRAME)
    reasons = prepare.report_["left_out"]
    assert reasons[reasons != ""].to_dict() == {
        "woman": "with 'man', each row has exactly one",
        "copy": "identical to 'dose'",
        "none": "rare",
        "all": "the same in all rows",
        "middle": "with 'young', each row has exactly one",
        "old": "rare",
    }
    assert prepare.get_feature_names_out().tolist() == ["dose", "man", "young"]
    assert PrepareColumns(min_count=0).fit(FRAME).columns_.size == 9
    assert PrepareColumns(min_count=0.5).fit(FRAME).columns_.tolist() == [0, 1, 3, 5, 7]
    assert PrepareColumns(min_count=2, scale="max").fit(FRAME).scale_.tolist()[:2] == [4, 1]


def test_the_most_frequent_of_a_group_is_left_out():
    levels = pd.get_dummies(pd.Series(list("abbbcc")), dtype=float).assign(d=[1.0, 0, 0, 0, 0, 0])
    labels = ["level", "level", "level", None]
    prepare = PrepareColumns(redundant="drop", groups=labels).fit(levels)
    assert prepare.report_["left_out"].to_dict() == {
        "a": "", "b": "with 'a', 'c', each row has exactly one", "c": "", "d": "identical to 'a'",
    }  # fmt: skip
    # What does not share out all rows stays.
    some = PrepareColumns(redundant="drop", groups=labels).fit(levels.assign(b=[0, 1, 1, 0, 0, 0]))
    assert "exactly one" not in " ".join(some.report_["left_out"])


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda frame: frame, pd.DataFrame),
        (lambda frame: frame.astype(pd.SparseDtype(float, 0.0)), pd.DataFrame),
        (lambda frame: frame.to_numpy(), np.ndarray),
        (lambda frame: sp.csr_array(frame.to_numpy()), sp.csr_array),
        (lambda frame: sp.csc_matrix(frame.to_numpy()), sp.csc_matrix),
        (lambda frame: sp.coo_array(frame.to_numpy()), sp.coo_array),
        (lambda frame: pl.DataFrame(frame.to_dict("list")), pl.DataFrame),
        (lambda frame: pa.table(frame.to_dict("list")), pa.Table),
        (build_design, Design),
    ],
    ids=["pandas", "sparse", "numpy", "csr", "csc", "coo", "polars", "arrow", "design"],
)
def test_a_table_stays_of_its_kind(make, kind):
    X = make(FRAME)
    found = PrepareColumns(redundant="drop", scale="max").fit_transform(X)
    assert type(found) is kind
    expected = FRAME[["dose", "man", "young"]].to_numpy() / [4, 1, 1]
    np.testing.assert_array_equal(build_design(found).to_scipy().toarray(), expected)
    if kind is pd.DataFrame and hasattr(X, "sparse"):
        assert all(isinstance(dtype, pd.SparseDtype) for dtype in found.dtypes)
    if kind is Design:
        assert found.names.tolist() == ["dose", "man", "young"]
        ones = PrepareColumns(scale="max").fit_transform(build_design(sp.csc_array(FRAME)))
        assert np.isin([1, 2], np.flatnonzero(ones.kind == INDICATOR)).all()


@pytest.mark.parametrize(
    "make", [pa.table, lambda x: pa.table(x).to_pandas(types_mapper=pd.ArrowDtype)]
)
def test_flags_of_arrow_are_divided(make):
    found = PrepareColumns(scale="sd").fit_transform(make({"flag": [True, False, True, False]}))
    np.testing.assert_allclose(build_design(found).to_scipy().toarray().ravel(), [2, 0, 2, 0])


def test_columns_of_a_frame_are_divided_together(monkeypatch):
    """One after the other, the columns of 20,000 genes took half a minute."""
    rng, n = np.random.default_rng(0), 9
    frame = pd.DataFrame(
        {
            **{f"g{j}": rng.normal(size=n) for j in range(20)},
            "flag": rng.random(n) < 0.5,
            "count": rng.integers(0, 9, n),
            "narrow": rng.normal(size=n).astype(np.float32),
            "sparse": pd.arrays.SparseArray(np.where(rng.random(n) < 0.3, 5.0, 0.0)),
            "nullable": pd.array(range(n), dtype="Int64"),
            **{f"h{j}": rng.normal(size=n) for j in range(20)},
        },
        index=[f"p{i // 2}" for i in range(n)],
    )
    monkeypatch.setattr(pd.DataFrame, "isetitem", None)
    for scale in ("max", "sd"):
        prepare = PrepareColumns(scale=scale).fit(frame)
        found = prepare.transform(frame)
        divided = dict(zip(frame.columns, prepare.scale_, strict=True))
        for name, column in frame.items():
            by = divided[name]
            pd.testing.assert_series_equal(found[name], column if by == 1 else column / by)


def test_new_tables_get_the_same_columns_and_scales():
    prepare = PrepareColumns(redundant="drop", scale="max").fit(build_design(FRAME))
    new = FRAME * 3
    found = prepare.transform(new)
    np.testing.assert_array_equal(found["dose"], FRAME["dose"] * 3 / 4)
    assert found.columns.tolist() == ["dose", "man", "young"]
    with pytest.raises(ValueError, match="feature names"):
        prepare.transform(new.rename(columns={"dose": "other"}))
    with pytest.raises(ValueError, match="feature names should match"):
        prepare.transform(new.drop(columns="dose"))


def test_in_a_pipeline():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.random((60, 4)) < 0.4, columns=list("abcd")).astype(float)
    X["e"] = X["a"]
    y = surv(np.ones(60), rng.random(60) + X["a"])
    pipe = make_pipeline(PrepareColumns(redundant="drop", scale="sd"), CoxLassoCCD(alpha=0.01))
    design = build_design(X)
    fits = [pipe.fit(table, y)[-1].coef_.copy() for table in (X, design, sp.csr_array(X))]
    for coef in fits[1:]:
        np.testing.assert_allclose(coef, fits[0], atol=1e-6)
    assert pipe.fit(design, y)[-1].feature_names_in_.tolist() == list("abcd")
    assert pipe[:-1].get_feature_names_out().tolist() == list("abcd")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_count": -1}, "`min_count` is -1, must be a number of rows, or a share below 1"),
        ({"min_count": 1.5}, "`min_count` is 1.5, must be a whole number of rows, or a share"),
        ({"redundant": True}, "`redundant` is True, must be one of 'keep', 'drop'"),
        ({"scale": "std"}, "`scale` is 'std', must be one of None, 'max', 'sd'"),
        ({"redundant": "drop", "groups": ["a"]}, r"`groups` has shape \(1,\), `X` has 9 columns"),
        ({"redundant": "drop", "groups": {"x": 1}}, "`groups` names column 'x', which `X` does"),
        (
            {"min_count": 99},
            "`X` has no column left of 9, 9 of them in fewer rows than `min_count`",
        ),
    ],
    ids=range(7),
)
def test_bad_arguments(options, message):
    with pytest.raises(ValueError, match=message):
        PrepareColumns(**options).fit(FRAME)
