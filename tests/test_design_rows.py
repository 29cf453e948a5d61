"""A Design as users hold it: rows chosen, columns added, fits, splits and searches."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from faces import FACES, X, same_predictions
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.model_selection import (
    GridSearchCV,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.preprocessing import StandardScaler

from sksurvgpu import CoxLassoCCD, Pipeline, fit_path
from sksurvgpu.data.design.columns import DENSE, INDICATOR, SPARSE, build_design

NAMES = [f"code {j}" for j in range(X.shape[1])]
FRAME = pd.DataFrame(X.toarray(), columns=NAMES)
COX = FACES["cox"]


def design_of(table, names=None):
    """Columns of all kinds, with names where they are given."""
    table = np.asarray(table, dtype=float)
    names = [f"c{j}" for j in range(table.shape[1])] if names is None else names
    return build_design(pd.DataFrame(table, columns=names))


@pytest.fixture(scope="module")
def mixed():
    rng = np.random.default_rng(0)
    table = np.column_stack(
        [
            rng.random(300) < 0.2,
            (rng.random(300) < 0.2) * rng.normal(size=300),
            rng.normal(size=300) * (np.arange(300) % 5 > 0),  # dense, with zeros
            np.zeros(300),
            rng.random(300) < 0.02,
        ]
    )
    design = design_of(table)
    assert set(design.kind) == {INDICATOR, SPARSE, DENSE}
    return design, table.astype(float)


def check_equal(design, table):
    """Compare with NumPy; the rows of every column must be strictly ascending."""
    assert design.shape == table.shape
    assert len(design) == len(table)
    for j in range(design.n_columns):
        rows = design.indices[design.indptr[j] : design.indptr[j + 1]]
        assert (np.diff(rows.astype(np.int64)) > 0).all()
    found = design.to_scipy()
    assert found.format == "csc" and found.has_canonical_format
    assert (found.data != 0).all()
    np.testing.assert_array_equal(found.toarray(), table)
    coef = np.arange(1.0, design.n_columns + 1)
    np.testing.assert_allclose(design.dot(coef), table @ coef, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    "rows",
    [
        slice(None),
        slice(10, 200, 3),
        slice(None, None, -1),
        slice(5, 5),
        [3, 1, 2],
        [],
        [-1, 0, -300],
        [7] * 5,
        np.arange(300) % 3 == 0,
        np.random.default_rng(1).permutation(300),
        np.random.default_rng(2).integers(0, 300, 1000),
        np.sort(np.random.default_rng(3).integers(0, 300, 500)).astype(np.uint16),
        pd.Series(np.arange(300) > 250),
    ],
    ids=str,
)
def test_rows_are_those_of_numpy(mixed, rows):
    design, table = mixed
    check_equal(design[rows], table[rows])
    check_equal(design[rows, ...], table[rows])
    check_equal(design[rows, [4, 1]], table[rows][:, [4, 1]])
    assert design[rows].names.tolist() == design.names.tolist()


@given(st.data())
@settings(max_examples=50)
def test_rows_of_any_table(data):
    n, p = data.draw(st.integers(1, 70)), data.draw(st.integers(1, 4))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    table = (rng.random((n, p)) < rng.random(p)) * rng.choice([1.0, 2.0, -0.5], (n, p))
    rows = data.draw(st.lists(st.integers(-n, n - 1), max_size=150))
    check_equal(design_of(table)[rows], table[rows])


def test_all_rows_share_the_arrays(mixed):
    design, table = mixed
    assert design[:] is design and design[...] is design
    assert design[:, 1:3].values is design.values
    check_equal(design[:, 1:3], table[:, 1:3])
    check_equal(design[:, [4, 0]][[9, 1]], table[[9, 1]][:, [4, 0]])


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        (3, TypeError, r"X\[\[3\]\], not X\[3\]"),
        ([[1, 2]], TypeError, "chosen by a list, mask or slice"),
        ([300], IndexError, "out of bounds"),
        (np.ones(299, dtype=bool), IndexError, "boolean index did not match"),
        ([0.5], IndexError, "integer"),
        ("age", IndexError, "indices"),
        (([1], [2], [3]), IndexError, "the index has 3 parts"),
    ],
    ids=str,
)
def test_bad_rows(mixed, rows, error, message):
    with pytest.raises(error, match=message):
        mixed[0][rows]


def test_a_design_is_not_a_sequence_of_rows(mixed):
    design, _ = mixed
    with pytest.raises(TypeError, match="not iterable"):
        iter(design)
    with pytest.raises(TypeError, match=r"X\.to_scipy"):
        np.asarray(design)


def test_repr_counts_columns_by_kind(mixed):
    entries = int(mixed[0].indptr[-1])
    assert repr(mixed[0]) == (
        "<Design of 300 rows and 5 columns (3 indicator, 1 sparse, 1 dense) with "
        f"{entries} sparse entries>"
    )


def test_to_scipy_is_a_copy(mixed):
    design, table = mixed
    found = design.to_scipy()
    found.data[:] = -1.0
    found.indices[:] = 0
    check_equal(design, table)


@pytest.mark.parametrize("storage", ["pandas", "polars", "design"])
def test_added_columns_are_on_the_right(mixed, storage):
    import polars as pl

    design, table = mixed
    rng = np.random.default_rng(5)
    more = {"age": rng.normal(size=300), "sex": np.arange(300) % 2, "rare": np.arange(300) == 7}
    frame = pd.DataFrame(more, index=np.arange(300)[::-1])  # an index is not looked at
    added = {"pandas": frame, "polars": pl.DataFrame(more), "design": build_design(frame)}[storage]
    both = design.with_columns(added)
    expected = np.column_stack([table, frame.to_numpy(dtype=float)])
    check_equal(both, expected)
    check_equal(both[[5, 250, 7]], expected[[5, 250, 7]])
    assert both.names.tolist() == [*design.names, "age", "sex", "rare"]
    part = design[:, [1, 4]].with_columns(both[:, [7, 2]].with_columns(both[:, [0]]))
    check_equal(part, expected[:, [1, 4, 7, 2, 0]])


def test_columns_without_names_are_added_to_such():
    X = np.arange(6.0).reshape(3, 2)
    both = build_design(X).with_columns(sp.csc_array(np.eye(3)))
    assert both.names is None
    check_equal(both, np.column_stack([X, np.eye(3)]))


def test_columns_that_cannot_be_added(mixed):
    design, table = mixed
    with pytest.raises(ValueError, match="`table` has 299 rows, the design has 300"):
        design.with_columns(pd.DataFrame({"age": np.ones(299)}))
    with pytest.raises(ValueError, match="columns of the table have no names"):
        design.with_columns(table)
    with pytest.raises(ValueError, match="columns of the design have no names"):
        build_design(table).with_columns(pd.DataFrame({"age": table[:, 2]}))
    with pytest.raises(ValueError, match="column 'c1', which the design has already; rename"):
        design.with_columns(pd.DataFrame({"c1": table[:, 2]}))
    with pytest.raises(ValueError, match=r"column 'c1', .* already \(2 such names\)"):
        design.with_columns(pd.DataFrame({"c3": table[:, 2], "c1": table[:, 2]}))
    with pytest.raises(ValueError, match="`table` has 1 NaN or infinite value"):
        design.with_columns(pd.DataFrame({"age": [np.nan, *range(299)]}))
    with pytest.raises(ValueError, match="`table` has shape"):
        design.with_columns(pd.DataFrame({"age": np.ones(300)})["age"])


@pytest.mark.parametrize("name", FACES)
def test_every_model_takes_a_design(name, check_close):
    face = FACES[name]
    design = build_design(FRAME)
    expected, model = face.fit(FRAME), face.fit(design)
    check_close(model.coef_, expected.coef_, "coef")
    assert model.feature_names_in_.tolist() == NAMES
    assert model.n_features_in_ == len(NAMES)
    same_predictions(face, model, face.fit(X), design)
    arguments = face.arguments([n for n in face.needed if n in face.scored])
    assert model.score(design, face.y, **arguments) == pytest.approx(
        expected.score(FRAME, face.y, **arguments), rel=1e-7
    )
    assert model.summary().index.tolist() == NAMES


def test_names_are_compared_when_predicting():
    design = build_design(FRAME)
    model = COX.fit(design)
    with pytest.raises(ValueError, match="must be in the same order"):
        model.predict(design[:, ::-1])
    with pytest.raises(ValueError, match="12 features"):
        COX.fit(X).predict(build_design(X)[:, :3])
    with pytest.raises(ValueError, match="unseen at fit time:\n- other"):
        model.predict(build_design(FRAME.rename(columns={"code 3": "other"})))
    with pytest.warns(UserWarning, match="X does not have valid feature names"):
        model.predict(build_design(X))
    assert not hasattr(COX.fit(build_design(X)), "feature_names_in_")


def test_no_rows_is_an_error():
    design = build_design(FRAME)
    with pytest.raises(ValueError, match=r"`X` has 0 sample\(s\)"):
        CoxLassoCCD().fit(design[[]], COX.y[:0])


def test_penalty_factors_by_name(check_close):
    design = build_design(FRAME[NAMES[1:]]).with_columns(FRAME[NAMES[:1]])
    model = COX.make(penalty_factor={NAMES[0]: 0}).fit(design, COX.y)
    expected = COX.make(penalty_factor={0: 0}).fit(FRAME, COX.y)
    check_close(model.coef_, np.roll(expected.coef_, -1), "coef")


def test_path(check_close):
    path = fit_path(COX.make(), build_design(FRAME), COX.y, alphas=[0.05, 0.01])
    expected = fit_path(COX.make(), X, COX.y, alphas=[0.05, 0.01])
    check_close(path.coefs, expected.coefs, "coef")
    assert path.feature_names.tolist() == NAMES


def test_splits_and_searches(check_close):
    design = build_design(FRAME)
    folds = ShuffleSplit(3, random_state=0)
    scores = cross_val_score(COX.make(), design, COX.y, cv=folds)
    check_close(scores, cross_val_score(COX.make(), X, COX.y, cv=folds), "coef")
    check_close(
        cross_val_predict(COX.make(), design, COX.y, cv=3),
        cross_val_predict(COX.make(), X, COX.y, cv=3),
        "coef",
    )
    train, test, y_train, y_test = train_test_split(design, COX.y, random_state=0)
    assert train.shape == (180, 12) and test.names.tolist() == NAMES
    assert 0 < COX.make().fit(train, y_train).score(test, y_test) < 1


def test_pipeline_in_a_search():
    design = build_design(FRAME)
    steps = Pipeline([("as it is", "passthrough"), ("cox", COX.make())])
    grid = {"cox__alpha": [0.02, 0.01]}
    search = GridSearchCV(steps, grid, cv=3).fit(design, COX.y)
    expected = GridSearchCV(steps, grid, cv=3).fit(X, COX.y)
    scores = [s.cv_results_["mean_test_score"] for s in (search, expected)]
    np.testing.assert_allclose(*scores, rtol=1e-7)
    np.testing.assert_allclose(search.predict(design), expected.predict(X), atol=1e-7)
    assert search.best_estimator_[-1].feature_names_in_.tolist() == NAMES


def test_transformers_that_need_arrays_say_what_to_do():
    with pytest.raises(TypeError, match=r"take X\.to_scipy\(\)"):
        Pipeline([("scale", StandardScaler()), ("cox", COX.make())]).fit(build_design(FRAME), COX.y)


def test_pickle(mixed):
    design, table = mixed
    again = pickle.loads(pickle.dumps(design))
    check_equal(again, table)
    assert again.names.tolist() == design.names.tolist()
