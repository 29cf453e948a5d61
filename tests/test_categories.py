"""Indicators of levels, against scikit-learn's OneHotEncoder and fits to columns made by hand."""

import pickle
import re

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import OneHotEncoder
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksurvgpu import (
    CategoryColumns,
    CoxLassoCCD,
    GroupLasso,
    PrepareColumns,
    groups_from,
    make_pipeline,
    surv,
    to_sklearn,
    wald,
)
from sksurvgpu.data.design.columns import INDICATOR, build_design

RNG = np.random.default_rng(0)
N = 200
TABLE = pd.DataFrame(
    {
        "site": RNG.choice(["c", "a", "b"], N),
        "age": RNG.normal(60.0, 9.0, N),
        "stage": pd.Categorical(RNG.choice(["late", "early"], N), ["none", "late", "early"]),
        "drug": pd.Series(RNG.choice(["x", "y", None], N), dtype=object),
        "grade": RNG.choice([1, 2, 10], N),
        "flag": RNG.random(N) < 0.5,
    }
)
FACTORS = ["site", "stage", "drug", "grade", "flag"]
Y = surv(RNG.random(N) < 0.7, RNG.exponential(1.0 + (TABLE["site"] == "a")))
SMALL = pd.DataFrame({"k": ["b", "a", "b", None, "c", "b", "a"]})


def dense(design):
    return design.to_scipy().toarray()


def shown(columns, values):
    """Names of the columns in which each of some values has a one."""
    design = columns.transform(pd.DataFrame({"k": pd.Series(values, dtype=object)}))
    return [" ".join(design.names[row > 0]) for row in dense(design)]


@parametrize_with_checks([CategoryColumns()])
def test_it_is_a_transformer_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("drop", [None, "first"])
def test_columns_are_those_of_the_encoder(drop):
    table = TABLE.assign(stage=TABLE["stage"].cat.set_categories(["early", "late"]))
    columns = CategoryColumns(columns=FACTORS, reference=drop).fit(table)
    found = columns.transform(table)
    encoder = OneHotEncoder(drop=drop, sparse_output=True)
    parts = [table[["age"]] if k == "age" else encoder.fit_transform(table[[k]]) for k in table]
    assert (found.to_scipy() != sp.hstack(parts).tocsc()).nnz == 0
    assert (found.kind == INDICATOR).tolist() == [name != "age" for name in found.names]
    assert found.names.tolist() == columns.get_feature_names_out().tolist()
    last = ["grade=2", "grade=10", "flag=True"]
    last = last if drop else ["grade=1", *last[:2], "flag=False", "flag=True"]
    assert found.names[-len(last) :].tolist() == last


def test_fits_are_those_to_columns_made_by_hand():
    columns = CategoryColumns(columns=FACTORS)
    model = make_pipeline(columns, CoxLassoCCD(alpha=0.01)).fit(TABLE, Y)
    hand = build_design(sp.csc_array(pd.get_dummies(TABLE["site"], dtype=float)))
    hand = hand.with_columns(TABLE[["age"]].to_numpy())
    for name, levels in columns.levels_.items():
        if name != "site":
            labels = TABLE[name].astype(object).where(TABLE[name].notna(), "missing").astype(str)
            ones = (labels.to_numpy()[:, None] == np.array(levels)).astype(float)
            hand = hand.with_columns(sp.csc_array(ones))
    np.testing.assert_array_equal(model[-1].coef_, CoxLassoCCD(alpha=0.01).fit(hand, Y).coef_)
    assert model.summary().index[:4].tolist() == ["site=a", "site=b", "site=c", "age"]


@pytest.mark.parametrize("kind", ["polars", "arrow", "object", "category", "string[pyarrow]"])
def test_any_frame(kind):
    expected = CategoryColumns(columns=FACTORS, min_count=0.3).fit(TABLE)
    if kind in ("polars", "arrow"):
        pytest.importorskip("pyarrow")
        polars = pytest.importorskip("polars")
        stage = polars.col("stage").cast(polars.Enum(["none", "late", "early"]))
        table = polars.from_pandas(TABLE).with_columns(stage)
        table = table.to_arrow() if kind == "arrow" else table
    else:
        table = TABLE.astype({"site": kind, "drug": kind})
    for columns in (expected, clone(expected).fit(table)):
        found = columns.transform(table)
        assert found.names.tolist() == expected.get_feature_names_out().tolist()
        np.testing.assert_array_equal(dense(found), dense(expected.transform(TABLE)))
    assert columns.levels_ == expected.levels_


def test_only_columns_of_categories_are_taken_apart(monkeypatch):
    """Beside 20,000 columns of numbers it took seconds to look at each."""
    monkeypatch.setattr(nw.DataFrame, "iter_columns", None)
    wide = TABLE.assign(**{f"g{j}": RNG.normal(size=N) for j in range(30)})
    made = CategoryColumns(columns=FACTORS).fit_transform(wide)
    assert made.names[-30:].tolist() == [f"g{j}" for j in range(30)]
    np.testing.assert_array_equal(dense(made)[:, -30:], wide.iloc[:, -30:].to_numpy())


def test_levels_have_the_order_of_categories():
    assert CategoryColumns().fit(TABLE).levels_["stage"] == ["late", "early"]
    kept = CategoryColumns(min_count=0, reference="first").fit(TABLE)
    assert kept.levels_["stage"] == ["none", "late", "early"]
    ages = pd.DataFrame({"k": pd.cut(TABLE["age"], [0, 60, 200])})
    assert CategoryColumns().fit(ages).levels_["k"] == ["(0, 60]", "(60, 200]"]
    swapped = TABLE[["grade"]].astype(">i8")  # bytes in the other order
    assert CategoryColumns(columns=["grade"]).fit(swapped).levels_["grade"] == ["1", "2", "10"]
    polars = pytest.importorskip("polars")
    drawn = polars.DataFrame({"k": polars.Series(["b", "a"], dtype=polars.Categorical)})
    assert CategoryColumns().fit(drawn).levels_["k"] == ["a", "b"]


def test_missing_entries():
    level = CategoryColumns().fit(SMALL)
    assert level.levels_["k"] == ["a", "b", "c", "missing"]
    assert shown(level, ["a", None, np.nan, "missing"]) == ["k=a", *["k=missing"] * 3]
    mode = CategoryColumns(missing="mode").fit(SMALL.dropna())
    assert shown(mode, [None, "a"]) == ["k=b", "k=a"]
    assert shown(CategoryColumns().fit(SMALL.dropna()), [None]) == [""]
    numbers = pd.DataFrame({"k": [1.0, np.nan, 2.0]})
    assert shown(CategoryColumns(columns="k").fit(numbers), [2, None]) == ["k=2", "k=missing"]


@pytest.mark.parametrize(("fitted", "new"), [([True, False], [1, 0]), ([1, 0], [True, False])])
def test_flags_are_zeros_and_ones(fitted, new):
    """As all were unknown, scenarios and files with the other kind predicted the same for all."""
    encoder = CategoryColumns(columns=["flag"], unknown="error").fit(pd.DataFrame({"flag": fitted}))
    found = encoder.transform(pd.DataFrame({"flag": new})).to_scipy().toarray()
    assert found.tolist() == [[0.0, 1.0], [1.0, 0.0]]
    both = CategoryColumns().fit(pd.DataFrame({"text": ["True", "1"]}))
    assert both.transform(pd.DataFrame({"text": ["1"]})).to_scipy().toarray().tolist() == [[1, 0]]


def test_unknown_levels():
    found = [CategoryColumns(unknown=u, min_count=2).fit(SMALL) for u in ("zeros", "other")]
    assert [shown(columns, ["new", "c"]) for columns in found] == [["", "k=other"], ["k=other"] * 2]
    assert shown(CategoryColumns(unknown="missing").fit(SMALL), ["new"]) == ["k=missing"]
    assert shown(CategoryColumns(unknown="missing").fit(SMALL.dropna()), ["new", ""]) == ["", ""]
    strict = CategoryColumns(unknown="error").fit(SMALL.dropna())
    with pytest.raises(ValueError, match="'k' has level 'new' in row 1, which the fit has not"):
        shown(strict, ["a", "new"])
    with pytest.raises(ValueError, match="'k' has a missing entry in row 0"):
        shown(strict, [None])
    contrary = CategoryColumns(unknown="missing", missing="error").fit(SMALL.dropna())
    with pytest.raises(ValueError, match="'k' has level 'new' in row 0"):
        shown(contrary, ["new"])


def test_a_column_without_any_known_level_warns():
    """Another spelling, in a file from elsewhere, made everybody a reference person."""
    columns = CategoryColumns().fit(SMALL)
    with pytest.warns(
        UserWarning, match=r"'k' has none of the levels of the fit \('a', 'b', 'c'\)"
    ):
        assert shown(columns, ["A", "B "]) == ["", ""]
    for one in (["A", "A"], ["A", "b"]):
        assert shown(columns, one)[0] == ""
    assert shown(CategoryColumns(unknown="other", min_count=2).fit(SMALL), ["A", "B"])[0]


def test_rare_levels_are_one():
    rare = CategoryColumns(min_count=2, reference="most_frequent").fit(SMALL)
    assert rare.levels_["k"] == ["a", "b", "other"]
    assert shown(rare, ["a", "b", "c", None]) == ["k=a", "", "k=other", "k=other"]
    assert rare.report_.set_index("level")["becomes"].to_dict() == {
        "a": "k=a", "b": "", "c": "k=other", "missing": "k=other",
    }  # fmt: skip
    assert rare.report_["rows"].tolist() == [2, 3, 1, 1]
    # one of this name takes them; a reference that is named stays
    other = SMALL.fillna("other")
    named = CategoryColumns(min_count=2, reference={"k": "c"}).fit(other)
    assert named.levels_["k"] == ["a", "b", "c", "other"]
    assert shown(named, ["c", "other"]) == ["", "k=other"]


def test_groups_go_to_the_group_lasso():
    columns = CategoryColumns(reference={"flag": False}, columns=FACTORS)
    found = columns.fit_transform(TABLE)
    expected = [*["site"] * 3, None, *["stage"] * 2, *["drug"] * 3, *["grade"] * 3, None]
    assert columns.groups_.tolist() == groups_from(columns) == expected
    assert groups_from(make_pipeline(columns, PrepareColumns()).fit(TABLE)) == expected
    coef = [
        CoxLassoCCD(alpha=0.02, penalty=penalty).fit(found, Y).coef_
        for penalty in (GroupLasso(columns.groups_), GroupLasso("prefix", prefix_sep="="))
    ]
    np.testing.assert_array_equal(*coef)
    assert (coef[0][:3] != 0).all() and (coef[0][4:6] == 0).all()


def test_levels_go_to_tests_of_factors_and_to_scikit_learn():
    model = make_pipeline(CategoryColumns(reference="first"), CoxLassoCCD(alpha=0)).fit(TABLE, Y)
    found = wald(model, TABLE, Y).with_factors(model)
    assert found.factors["df"].to_dict() == {"site": 2, "stage": 1, "drug": 2}
    assert found.feature_names[0] == "site_a (reference)"
    np.testing.assert_allclose(to_sklearn(model).predict(TABLE), model.predict(TABLE), rtol=1e-12)


def test_tests_of_factors_know_of_constant_and_collinear_ones():
    """A level in all rows has no column; a factor that others determine has no estimates."""
    table = TABLE.assign(one="yes", copy=TABLE["site"].astype(str))
    model = make_pipeline(CategoryColumns(reference="first"), CoxLassoCCD(alpha=0)).fit(table, Y)
    with pytest.warns(UserWarning, match="collinear"):
        result = wald(model, table, Y)
    found = result.with_factors(model)
    assert found.factors["df"].to_dict() == {"site": 2, "stage": 1, "drug": 2, "copy": 0}
    assert np.isnan(found.factors.loc["copy", "p_value"])
    assert "one" not in repr(found.summary())
    with pytest.raises(ValueError, match="levels of 'one' without a column: 'yes'"):
        result.with_factors({"one": ["yes"]})
    alone = CategoryColumns(reference="first").fit(table[["one"]])
    assert result.with_factors(alone).feature_names.tolist() == result.feature_names.tolist()


def test_in_searches():
    pipe = make_pipeline(CategoryColumns(reference="first"), CoxLassoCCD(alpha=0.01))
    pipe.set_output(transform="pandas")
    grid = {"categorycolumns__min_count": [1, 60], "coxlassoccd__alpha": [0.01, 0.1]}
    search = GridSearchCV(pipe, grid, cv=3, error_score="raise").fit(TABLE, Y)
    loaded = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(loaded.predict(TABLE[:5]), search.predict(TABLE[:5]))


def test_in_a_column_transformer():
    both = make_column_transformer(
        (CategoryColumns(reference="first"), ["site", "drug"]),
        ("passthrough", ["age"]),
        verbose_feature_names_out=False,
    )
    with pytest.raises(TypeError, match=r"ColumnTransformer .* set_output\(transform='pandas'\)"):
        both.fit_transform(TABLE)
    made = both.set_output(transform="pandas").fit_transform(TABLE.set_axis(TABLE.index + 7))
    expected = CategoryColumns(reference="first").fit_transform(TABLE[["site", "drug", "age"]])
    pd.testing.assert_frame_equal(made, expected.to_frame().set_axis(made.index))
    assert made["site=b"].sparse.density < 1
    assert groups_from(both) == ["site", "site", "drug", "drug", None]
    model = make_pipeline(both, CoxLassoCCD(alpha=0)).fit(TABLE, Y)
    plain = CoxLassoCCD(alpha=0).fit(expected, Y)
    np.testing.assert_array_equal(model[-1].coef_, plain.coef_)


def test_tables_without_categories_pass():
    X = TABLE[["age", "grade"]].to_numpy()
    for table in (X, sp.csr_array(X), build_design(X)):
        assert CategoryColumns().fit(table).transform(table) is table
        framed = CategoryColumns().set_output(transform="pandas").fit_transform(table)
        np.testing.assert_array_equal(framed, X)
    found = CategoryColumns().fit(TABLE[["age", "grade"]])
    np.testing.assert_array_equal(dense(found.transform(TABLE[["age", "grade"]])), X)
    one = TABLE[["age", "grade"]].assign(k="a")  # whose level is the reference
    found = CategoryColumns(reference="first").fit_transform(one)
    assert found.names.tolist() == ["age", "grade"]
    numbered = CategoryColumns(columns=1).fit(TABLE[["age", "grade"]].set_axis([7, 8], axis=1))
    assert numbered.get_feature_names_out().tolist() == ["7", "8=1", "8=2", "8=10"]
    assert numbered.groups_.tolist() == [None, "8", "8", "8"]


TEXTS = SMALL.dropna()
ODD = pd.DataFrame({"k": ["a", 1, None]}, dtype=object)
MANY = pd.DataFrame({"k": [f"{i // 2}" for i in range(20_002)]})


@pytest.mark.parametrize(
    ("options", "X", "message"),
    [
        ({"columns": [0]}, np.ones((2, 1)), "`columns`...ndarray...pass a frame"),
        ({}, TABLE.to_numpy(), "`X` has dtype object...CategoryColumns...set_output"),
        ({"columns": ["age"]}, TABLE, "`columns` leaves out column 'site'"),
        ({"columns": ["ag"]}, TABLE[["age"]], "`columns`...'ag'...did you mean 'age'"),
        ({"reference": "a"}, TEXTS, "`reference` is 'a', must be one of...or a dictionary"),
        ({"reference": {"age": 1}}, TABLE, "`reference` names column 'age'...`columns`"),
        ({"reference": {"k": "B"}}, TEXTS, "`reference` of column 'k' is 'B'...3 levels"),
        ({"missing": "error"}, SMALL, "column 'k' has 1 missing...first in row 3"),
        ({"unknown": "nan"}, TEXTS, "`unknown` is 'nan', must be one of"),
        ({"min_count": -1}, TEXTS, "`min_count` is -1"),
        ({}, pd.DataFrame({"k": ["missing", None]}), "'k' has a level 'missing'...rename"),
        ({}, pd.DataFrame({"k": [["a"], ["b"]]}), "column 'k' has no levels...unhashable"),
        ({"missing": "mode"}, ODD[2:], "column 'k' has no level"),
        ({}, ODD, "column 'k' has 1 in row 1 beside 'a'"),
        ({"columns": "age"}, TABLE[["age"]], "column 'age' has...in row 0; levels...pandas.cut"),
        ({}, pd.DataFrame({"k": [f"{i}" for i in range(101)]}), "101 levels...identifiers"),
        ({}, MANY, "10,001 levels, at most 10,000...`min_count`"),
        ({}, TEXTS.assign(**{"k=a": 1.0}), "several columns named 'k=a'"),
        ({}, TEXTS.assign(age=np.nan), "column 'age'; impute them"),
        ({}, TEXTS.assign(day=pd.Timestamp(0)), "column 'day' has dtype...durations"),
    ],
    ids=range(20),
)
def test_bad_arguments(options, X, message):
    pattern = ".*".join(map(re.escape, message.split("...")))
    with pytest.raises((TypeError, ValueError), match=pattern):
        CategoryColumns(**options).fit(X)


def test_a_fit_that_fails_changes_nothing():
    columns = CategoryColumns().fit(TEXTS)
    before = dict(vars(columns))
    with pytest.raises(TypeError, match="column 'day' has dtype"):
        columns.fit(TEXTS.assign(day=pd.Timestamp(0)))
    assert vars(columns) == before


def test_other_tables_are_refused():
    columns = CategoryColumns().fit(TEXTS)
    with pytest.raises(TypeError, match="`X` is of type Design, and the fit was to a frame"):
        columns.transform(columns.transform(TEXTS).select([0]).with_names(np.array(["k"])))
    with pytest.raises(ValueError, match="feature names should match"):
        columns.transform(TEXTS.rename(columns={"k": "l"}))
    with pytest.raises(TypeError, match=r"one-hot encode categories \(sksurvgpu.CategoryColumns\)"):
        CoxLassoCCD().fit(TABLE, Y)
