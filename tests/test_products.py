"""Products of columns, against those of scikit-learn, and against the same ones stored."""

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import PolynomialFeatures

from sksurvgpu import (
    CategoryColumns,
    CoxLassoCCD,
    Design,
    FineGrayCCD,
    GroupLasso,
    LogisticCCD,
    PrepareColumns,
    ProductColumns,
    StepColumns,
    competing_risks,
    fit_path,
    make_pipeline,
    surv,
)
from sksurvgpu.data import products as transformer
from sksurvgpu.data.design import products
from sksurvgpu.data.design.computed import ComputedColumns
from sksurvgpu.data.design.kernels import ONE, SIZE, SQUARE, VALUE
from sksurvgpu.exceptions import NothingSelectedWarning

N, P = 500, 24
FORMS = {VALUE: np.array, SIZE: np.abs, SQUARE: np.square, ONE: lambda x: 1.0 * (x != 0)}
TIGHT = {"tol": 1e-11, "max_iter": 1000}


def codes(seed=0):
    """Codes, a few of them with values, so that all pairs meet, and some of them often."""
    rng = np.random.default_rng(seed)
    X = 1.0 * (rng.random((N, P)) < np.linspace(0.3, 0.1, P))
    X[:, ::5] *= rng.normal(size=(N, len(range(0, P, 5))))
    return X


def with_dense(seed=0):
    X = codes(seed)
    X[:, [3, 11, P - 1]] = np.random.default_rng(seed).normal(size=(N, 3))
    return X


@pytest.fixture(scope="module")
def cohort():
    X, rng = with_dense(), np.random.default_rng(1)
    eta = X[:, 1] - X[:, 2] + 2 * X[:, 1] * X[:, 6] + X[:, 3] * X[:, 4]
    time, event = rng.exponential(np.exp(-eta)).round(2) + 0.01, rng.random(N) < 0.8
    return X, time, event


@pytest.mark.parametrize("make", [codes, with_dense])
def test_products_are_those_of_scikit_learn(make):
    X = make()
    columns = ProductColumns().fit(X)
    expected = PolynomialFeatures(2, interaction_only=True, include_bias=False).fit(X)
    np.testing.assert_array_equal(columns.transform(X).to_scipy().toarray(), expected.transform(X))
    names = columns.get_feature_names_out().tolist()
    assert names == [name.replace(" ", "*") for name in expected.get_feature_names_out()]
    assert columns.pairs_.tolist() == [[a, b] for a in range(P) for b in range(a + 1, P)]
    new = make(1)[[5, 5, 0, 17]]
    np.testing.assert_array_equal(
        columns.transform(new).to_scipy().toarray(), expected.transform(new)
    )


@pytest.mark.parametrize("size", [2**19, 100, 1])
@pytest.mark.parametrize("make", [codes, with_dense])
def test_sums_are_the_same_whichever_way_is_gone(make, size, monkeypatch):
    """Tables of all pairs, of some first columns, of one; and columns, where pairs are few."""
    monkeypatch.setattr(products, "TABLE", size)
    given, rng = ProductColumns().fit_transform(make()), np.random.default_rng(1)
    for X in (given, given[rng.integers(0, N, N)]):
        made, values = ComputedColumns(X), X.to_scipy().toarray()
        numbers, label = rng.normal(size=N), rng.integers(0, 5, N)
        of_label = numbers[:, None] * (label[:, None] == np.arange(5))
        every = np.arange(P, X.n_columns)
        for form, part in FORMS.items():
            of_every = made.sums(every, numbers, form, None, 1, _at_once)[:, 0]
            for some in (every, rng.integers(P, X.n_columns, 9)):
                coef = rng.normal(size=len(some))
                x, out = part(values[:, some]), np.zeros(N)
                made.add(some, coef, form, out)
                np.testing.assert_allclose(out, x @ coef, atol=1e-10)
                found = made.sums(some, numbers, form, None, 1, _at_once)[:, 0]
                np.testing.assert_allclose(found, x.T @ numbers, atol=1e-10)
                np.testing.assert_array_equal(found, of_every[some - P])  # whichever thread has it
                found = made.sums(some, numbers, form, label, 5, _at_once)
                np.testing.assert_allclose(found, x.T @ of_label, atol=1e-10)


def _at_once(function, columns):
    function(0, len(columns))


def test_the_shorter_way_is_gone(monkeypatch):
    block, ways = ProductColumns().fit_transform(codes()).blocks[0], []
    for name in ("add_sums_by_row", "add_sums_by_column", "add_by_row", "add_by_column"):
        monkeypatch.setattr(products, name, lambda *_, name=name: ways.append(name))
    for some in (np.arange(block.n_columns), np.array([3, 70])):
        block.sums(some, np.ones(N), VALUE)
        block.add(some, np.ones(len(some)), VALUE, np.zeros(N))
    assert ways == ["add_sums_by_row", "add_by_row", "add_sums_by_column", "add_by_column"]


@pytest.mark.thorough(but="Cox|Logistic")
@pytest.mark.parametrize(
    ("model", "of"),
    [
        (CoxLassoCCD, lambda time, event: surv(event, time)),
        (FineGrayCCD, lambda time, event: competing_risks(event * (1 + (time > 1)), time)),
        (LogisticCCD, lambda time, event: event),
    ],
)
def test_fits_are_those_of_stored_columns(cohort, model, of):
    X, time, event = cohort
    y, given = of(time, event), ProductColumns().fit_transform(X)
    for options in ({"alpha": 0.01}, {"alpha": 0.05, "l1_ratio": 0.0}):
        computed, stored = (model(**options, **TIGHT).fit(Z, y) for Z in (given, given.stored()))
        np.testing.assert_allclose(computed.coef_, stored.coef_, rtol=0, atol=1e-9)
        assert np.count_nonzero(computed.coef_[P:]) > 1
    paths = [
        fit_path(model(**TIGHT), Z, y, alphas=[0.1, 0.04, 0.02]).coefs
        for Z in (given, given.stored())
    ]
    np.testing.assert_allclose(*paths, rtol=0, atol=1e-9)


def test_columns_by_others_and_pairs():
    X = pd.DataFrame(codes()[:, :5], columns=["drug", "a", "b", "c", "d"])
    for columns, expected in (
        (ProductColumns(by=["drug"]), ["drug*a", "drug*b", "drug*c", "drug*d"]),
        (ProductColumns(columns=["a", "d"]), ["a*d"]),
        (ProductColumns(columns=["d", 1], by=["drug", "a"]), ["drug*a", "drug*d", "a*d"]),
        (ProductColumns(pairs=[("c", "drug"), (1, "b"), ("drug", "c")]), ["drug*c", "a*b"]),
    ):
        made = columns.fit_transform(X)
        assert made.names[:5].tolist() == list(X) and made.names[5:].tolist() == expected
        for name in expected:
            a, b = name.split("*")
            found = made[:, made.names == name].to_scipy().toarray()[:, 0]
            np.testing.assert_array_equal(found, X[a] * X[b])


def test_pairs_that_meet_in_few_rows_are_left_out(monkeypatch):
    X = np.array([[1.0, 1, 0, 1], [0, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 2]])
    columns = ProductColumns().fit(X)
    assert columns.get_feature_names_out()[4:].tolist() == ["x0*x1", "x0*x3", "x1*x2", "x1*x3"]
    assert columns.n_left_out_ == 2
    for min_count in (2, 0.5):
        assert ProductColumns(min_count=min_count).fit(X).pairs_.tolist() == [[0, 1]]
    assert len(ProductColumns(min_count=0).fit(X).pairs_) == 6
    monkeypatch.setattr(transformer, "COUNTED", 2)  # pairs in pieces
    np.testing.assert_array_equal(ProductColumns().fit(X).pairs_, columns.pairs_)


def test_an_estimator_chooses_what_is_multiplied(cohort):
    X, time, event = cohort
    y = surv(event, time)
    chosen = CoxLassoCCD(alpha=0.1).fit(X, y).coef_ != 0
    assert 1 < chosen.sum() < P / 2
    for hierarchy, test in (("strong", np.logical_and), ("weak", np.logical_or)):
        columns = ProductColumns(estimator=CoxLassoCCD(alpha=0.1), hierarchy=hierarchy).fit(X, y)
        assert columns.estimator_.coef_.shape == (P,)
        expected = [(a, b) for a in range(P) for b in range(a + 1, P) if test(chosen[a], chosen[b])]
        np.testing.assert_array_equal(columns.pairs_, expected)
    by = np.flatnonzero(chosen)[:1]
    columns = ProductColumns(by=by, estimator=CoxLassoCCD(alpha=0.1)).fit(X, y)
    assert len(columns.pairs_) == chosen.sum() - 1
    for X_of in (X, pd.DataFrame(X).add_prefix("c")):
        pipe = make_pipeline(PrepareColumns(min_count=100), CoxLassoCCD())
        search = GridSearchCV(pipe, {"coxlassoccd__alpha": [0.1]}, cv=2)
        found = ProductColumns(estimator=search).fit(X_of, y).pairs_
        is_kept = np.count_nonzero(X, axis=0) >= 100
        alone = np.flatnonzero(is_kept)[CoxLassoCCD(alpha=0.1).fit(X[:, is_kept], y).coef_ != 0]
        assert found.tolist() == list(map(list, combinations(alone, 2))) and 0 < len(alone) < P
    other = ProductColumns(estimator=LogisticRegression(l1_ratio=1.0, C=0.2, solver="liblinear"))
    assert 0 < len(other.fit(X, event).pairs_) < P
    with pytest.warns(NothingSelectedWarning):
        none = ProductColumns(estimator=LogisticCCD(alpha=9.0)).fit_transform(X, event)
    assert none.shape == X.shape


def test_the_estimator_that_chooses_has_its_weights(cohort):
    X, time, event = cohort
    y, lasso = surv(event, time), CoxLassoCCD(alpha=0.1)
    given = {"sample_weight": np.where(X[:, 0] > 0, 5.0, 0.2)}
    expected = clone(lasso).fit(X, y, **given).coef_
    assert np.any((expected != 0) != (clone(lasso).fit(X, y).coef_ != 0))
    products = ProductColumns(estimator=lasso)
    np.testing.assert_array_equal(clone(products).fit(X, y, **given).estimator_.coef_, expected)
    with config_context(enable_metadata_routing=True):
        pipe = make_pipeline(products, CoxLassoCCD(alpha=0.05)).fit(X, y, **given)
        make_pipeline(ProductColumns(), CoxLassoCCD(alpha=0.05)).fit(X, y, **given)
    np.testing.assert_array_equal(pipe[0].estimator_.coef_, expected)
    with pytest.raises(TypeError, match="unexpected"):
        ProductColumns().fit(X, y, **given)


def test_groups_of_products(cohort):
    rng = np.random.default_rng(2)
    X = pd.DataFrame({"sex": rng.choice(["f", "m"], N), "site": rng.choice(list("abc"), N)})
    X["age"] = rng.normal(size=N)
    categories = CategoryColumns().fit(X)
    columns = ProductColumns(groups=categories.groups_)
    made = columns.fit_transform(categories.transform(X))
    assert columns.groups_.tolist().count("sex*site") == 6  # of one category none meet
    assert columns.groups_[made.names == "sex=f*age"].tolist() == [None]
    _, time, event = cohort
    model = CoxLassoCCD(alpha=1e-3, penalty=GroupLasso(groups=columns.groups_))
    model.fit(made, surv(event, time))
    assert np.count_nonzero(model.coef_[columns.groups_ == "sex*site"]) in (0, 6)
    plain = ProductColumns().fit(X[["age"]].assign(old=1.0 * (X["age"] > 0)))
    assert plain.groups_.tolist() == ["age", "old", "age*old"]
    named = ProductColumns(groups={"sex=f": "z", "age": "y"}).fit(categories.transform(X))
    assert named.groups_[-1] is None and "y*z" in named.groups_


def test_columns_that_are_computed_are_multiplied(cohort):
    X, time, event = cohort
    steps = StepColumns(columns=[3], n_steps=4)
    both = make_pipeline(steps, ProductColumns(by=[0, 1]), CoxLassoCCD(alpha=0.01))
    both.fit(X, surv(event, time))
    made = both[:-1].transform(X)
    assert isinstance(made, Design)
    step = made.names.tolist().index(next(name for name in made.names if name.startswith("x1*x3>")))
    threshold = steps.fit(X).thresholds_["x3"][0]
    np.testing.assert_array_equal(
        made[:, step].to_scipy().toarray()[:, 0], X[:, 1] * (X[:, 3] > threshold)
    )
    np.testing.assert_allclose(both.predict(X), both[-1].predict(made.stored()), atol=1e-12)


def test_what_products_cannot_be_is_said(cohort, monkeypatch):
    X = pd.DataFrame(codes()[:, :4], columns=["drug", "a", "b", "c"])
    y = np.arange(N) % 2
    for columns, error, match in (
        (ProductColumns(columns=["drug", "hair"]), ValueError, "`columns` names column 'hair'"),
        (ProductColumns(by="drug"), TypeError, r"`by` is 'drug', must be a list: \['drug'\]"),
        (ProductColumns(by=[7]), ValueError, "`by` names column 7, `X` has columns 0 to 3"),
        (ProductColumns(columns=["a"]), ValueError, "no two columns to multiply"),
        (ProductColumns(pairs=[]), ValueError, "no two columns to multiply"),
        (ProductColumns(pairs=["ab"]), ValueError, r"`pairs\[0\]` is 'ab', must be two columns"),
        (ProductColumns(pairs=[(0, 1), (0, 1, 2)]), ValueError, r"`pairs\[1\]` is \(0, 1, 2\)"),
        (ProductColumns(pairs=[("a", "x")]), ValueError, r"`pairs\[0\]` names column 'x'"),
        (ProductColumns(pairs=[(1, "a")]), ValueError, r"`pairs\[0\]` is column 'a' with itself"),
        (ProductColumns(pairs=[(0, 1)], by=[0]), ValueError, "leave out `columns` and `by`"),
        (ProductColumns(min_count=N), ValueError, "none of 6 pairs of columns is not zero"),
        (ProductColumns(hierarchy="none"), ValueError, "`hierarchy` is 'none'"),
        (ProductColumns(groups=["a"]), ValueError, "`groups` has shape"),
        (
            ProductColumns(estimator=PCA()),
            ValueError,
            "`estimator` ends in a PCA that has no `coef_`",
        ),
    ):
        with pytest.raises(error, match=match):
            columns.fit(X, y)
    with pytest.raises(ValueError, match=r"`X` has several columns named 'a\*b'"):
        ProductColumns().fit(X.assign(**{"a*b": 1.0}))
    large = X.assign(a=1e60 * X["a"], b=1e60 * X["b"])
    with pytest.raises(ValueError, match=r"column 'a\*b' has values of at most 1e\+120"):
        ProductColumns().fit_transform(large)
    with pytest.raises(ValueError, match="feature"):
        ProductColumns().fit(X).transform(X[["a", "b"]])
    monkeypatch.setattr(transformer, "MOST_PAIRS", 5)
    with pytest.raises(ValueError, match="6 of the first 6 pairs of columns"):
        ProductColumns().fit(X)
