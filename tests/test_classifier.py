"""Logistic regression: scikit-learn's optimum, weights of classes, labels, probabilities."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from faces import IS_CASE, OFFSET, WEIGHT, N, X
from scipy.special import expit, log_expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score

from sksurvgpu import LogisticCCD

DENSE = X.toarray()
TIGHT = {"tol": 1e-11}
LABELS = np.where(IS_CASE, "yes", "no")


def ours(**params):
    return LogisticCCD(**{"alpha": 0.02, **TIGHT, **params})


def theirs(alpha, weight, l1_ratio, **params):
    """scikit-learn's model at the same penalty of the mean."""
    total = N if weight is None else weight.sum()
    how = {"solver": "saga", "max_iter": 100_000, "tol": 1e-12}
    if l1_ratio == 0:
        how = {"solver": "newton-cholesky", "tol": 1e-12}
    return LogisticRegression(C=1 / (alpha * total), l1_ratio=l1_ratio, **how, **params)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
@pytest.mark.parametrize("l1_ratio", [0.0, 1.0, 0.5], ids=["ridge", "lasso", "elastic net"])
def test_equals_scikit_learn(l1_ratio, weight, fit_intercept, check_close):
    model = ours(l1_ratio=l1_ratio, fit_intercept=fit_intercept).fit(DENSE, IS_CASE, weight)
    other = theirs(0.02, weight, l1_ratio, fit_intercept=fit_intercept, random_state=0)
    other.fit(DENSE, IS_CASE, weight)
    check_close(model.coef_, other.coef_[0], "other package")
    check_close(model.intercept_, other.intercept_[0] if fit_intercept else 0.0, "other package")
    check_close(model.predict_proba(DENSE), other.predict_proba(DENSE), "other package")
    check_close(model.predict_log_proba(X), other.predict_log_proba(DENSE), "other package")
    np.testing.assert_array_equal(model.predict(X), other.predict(DENSE))
    assert model.score(X, IS_CASE, weight) == other.score(DENSE, IS_CASE, weight)
    assert type(model.intercept_) is float and (model.intercept_ != 0) == fit_intercept


@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
def test_the_intercept_is_not_penalized():
    model = ours(alpha=10.0).fit(X, IS_CASE, WEIGHT)
    assert not model.coef_.any()
    share = np.average(IS_CASE, weights=WEIGHT)
    assert model.intercept_ == pytest.approx(np.log(share / (1 - share)), rel=1e-9)
    assert model.log_likelihood_ == pytest.approx(
        WEIGHT.sum() * (share * np.log(share) + (1 - share) * np.log(1 - share)), rel=1e-9
    )


def test_log_likelihood_is_that_of_the_probabilities():
    model = ours(class_weight={"yes": 3.0, "no": 0.5}).fit(X, LABELS, WEIGHT)
    weight = WEIGHT * np.where(IS_CASE, 3.0, 0.5)
    log_probability = model.predict_log_proba(X)[np.arange(N), IS_CASE * 1]
    assert model.log_likelihood_ == pytest.approx(weight @ log_probability, rel=1e-12)


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_class_weights_multiply_sample_weights(weight):
    rows = np.ones(N) if weight is None else weight
    of_class = {"yes": 3.0, "no": 0.5}
    model = ours(class_weight=of_class).fit(X, LABELS, weight)
    by_hand = ours().fit(X, LABELS, rows * np.where(IS_CASE, 3.0, 0.5))
    np.testing.assert_allclose(model.coef_, by_hand.coef_, atol=1e-10)
    assert model.intercept_ == pytest.approx(by_hand.intercept_, abs=1e-10)
    assert model.objective_ == pytest.approx(by_hand.objective_, rel=1e-12)
    other = theirs(0.02, rows * np.where(IS_CASE, 3.0, 0.5), 0.0, class_weight=of_class)
    ridge = ours(l1_ratio=0.0, class_weight=of_class).fit(X, LABELS, weight)
    np.testing.assert_allclose(ridge.coef_, other.fit(DENSE, LABELS, weight).coef_[0], atol=1e-6)


@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])
def test_balanced_classes_have_the_same_sum_of_weights(weight):
    rows = np.ones(N) if weight is None else weight
    share = np.average(IS_CASE, weights=rows)
    by_hand = ours().fit(X, LABELS, rows * np.where(IS_CASE, 0.5 / share, 0.5 / (1 - share)))
    model = ours(class_weight="balanced").fit(X, LABELS, weight)
    np.testing.assert_allclose(model.coef_, by_hand.coef_, atol=1e-10)
    assert model.objective_ == pytest.approx(by_hand.objective_, rel=1e-12)
    null = ours(alpha=10.0, class_weight="balanced").fit(X, LABELS, weight)
    assert null.intercept_ == pytest.approx(0.0, abs=1e-9)
    if weight is None:  # some versions of scikit-learn balance rows, whatever they weigh
        other = theirs(0.02, None, 0.0, class_weight="balanced").fit(DENSE, LABELS)
        ridge = ours(l1_ratio=0.0, class_weight="balanced").fit(X, LABELS)
        np.testing.assert_allclose(ridge.coef_, other.coef_[0], atol=1e-6)


def test_class_weights_of_one_change_nothing():
    plain = ours().fit(X, LABELS)
    for of_class in ({"yes": 1.0, "no": 1}, {"yes": 1.0}):
        np.testing.assert_array_equal(ours(class_weight=of_class).fit(X, LABELS).coef_, plain.coef_)


KINDS = {
    "booleans": (False, True),
    "numbers": (0, 1),
    "negative": (-1, 1),
    "both negative": (-7, -3),
    "whole floats": (1.0, 2.0),
    "strings": ("no", "yes"),
    "later first": ("b", "a"),
    "objects": (np.array(["x"], dtype=object)[0], "y"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_of_any_kind(kind):
    low, high = sorted(KINDS[kind])
    y = np.where(IS_CASE, high, low)
    if kind == "objects":
        y = y.astype(object)
    model = ours().fit(X, y)
    expected = ours().fit(X, IS_CASE)
    assert model.classes_.tolist() == [low, high]
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    found = model.predict(X)
    assert set(found.tolist()) == {low, high}
    np.testing.assert_array_equal(found == high, model.decision_function(X) > 0)
    assert model.score(X, y) == accuracy_score(y, found) > 0.6
    np.testing.assert_array_equal(model.predict_proba(X)[:, 1] > 0.5, found == high)


def test_labels_in_other_containers():
    expected = ours().fit(X, LABELS)
    for y in (LABELS.tolist(), pd.Series(LABELS), pl.Series(LABELS), pd.Categorical(LABELS)):
        model = ours().fit(X, y)
        assert model.classes_.tolist() == ["no", "yes"]
        np.testing.assert_array_equal(model.coef_, expected.coef_)


def test_predictions_follow_from_the_coefficients():
    model = ours().fit(X, LABELS)
    predictor = DENSE @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), predictor, atol=1e-12)
    expected = np.column_stack([expit(-predictor), expit(predictor)])
    np.testing.assert_allclose(model.predict_proba(X), expected, rtol=1e-12)
    np.testing.assert_allclose(model.predict_log_proba(X), np.log(expected), rtol=1e-12)


def test_extreme_predictors_neither_overflow_nor_cancel():
    model = ours(fit_intercept=False).fit(X, LABELS)
    model.coef_ = np.eye(12)[0]
    predictor = np.array([-1e300, -1e5, -800.0, -40.0, 0.0, 40.0, 800.0, 1e5, 1e300])
    rows = predictor[:, None] * np.eye(12)[0]
    probability, logs = model.predict_proba(rows), model.predict_log_proba(rows)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, rtol=1e-15)
    np.testing.assert_allclose(probability[:, 1], expit(predictor), rtol=1e-14)
    np.testing.assert_allclose(probability[:, 0], expit(-predictor), rtol=1e-14)
    np.testing.assert_allclose(logs[:, 1], log_expit(predictor), rtol=1e-14)
    np.testing.assert_array_equal(logs[:, 0], logs[::-1, 1])
    assert model.predict(rows).tolist() == ["no"] * 5 + ["yes"] * 4


def test_a_constant_offset_moves_the_intercept():
    plain, moved = ours().fit(X, LABELS), ours().fit(X, LABELS, offset=np.full(N, 50.0))
    np.testing.assert_allclose(moved.coef_, plain.coef_, atol=1e-8)
    assert moved.intercept_ == pytest.approx(plain.intercept_ - 50.0, abs=1e-7)


def test_predictions_leave_the_offset_out():
    model = ours().fit(X, LABELS, offset=OFFSET)
    predictor = DENSE @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.decision_function(X), predictor, atol=1e-12)
    rows = np.where(IS_CASE, 1.0, -1.0) * (predictor + OFFSET)
    assert model.log_likelihood_ == pytest.approx(log_expit(rows).sum(), rel=1e-12)
