"""Debiased coefficients: steps and variances by the oracle, programs by another solver."""

import pickle

import numpy as np
import pytest
from faces import CODE, FACES, IS_CASE, OFFSET, STRATA, TIME, X
from oracles.reference_glm import glm_direct
from oracles.reference_likelihoods import cox_direct
from scipy.optimize import minimize
from scipy.stats import norm
from test_criteria import DENSE, information_of

from sksurvgpu import CoxLassoCCD, LinearCCD, LogisticCCD, debiased, wald
from sksurvgpu.inference import debiased as module


@pytest.mark.parametrize("name", list(FACES))
def test_without_a_penalty_they_are_those_of_wald(name):
    face = FACES[name]
    model = face.fit(names=face.rows, alpha=0.0)
    found = debiased(model, X, face.y, method="inverse", **face.rows)
    expected = wald(model, X, face.y, **face.rows)
    np.testing.assert_allclose(found.coef, expected.coef, atol=1e-6)
    np.testing.assert_allclose(found.standard_errors, expected.standard_errors, rtol=1e-6)


def slope_and_information(name, model):
    """Of all columns, by the oracle."""
    eta = DENSE @ model.coef_ + OFFSET
    if name == "cox":
        u = cox_direct(eta, TIME, CODE == 1, strata=STRATA).u
    else:
        u = glm_direct(eta + model.intercept_, IS_CASE * 1.0, "logistic").u
    return DENSE.T @ u, information_of(name, model)


def fitted(name):
    face = FACES[name]
    rows = {"offset": OFFSET} | ({"strata": STRATA} if name == "cox" else {})
    model = face.make(l1_ratio=0.9, penalty_factor={2: 0.0}, prior_mean={1: 0.1})
    return model.fit(X, face.y, **rows), rows, face.y


@pytest.mark.parametrize("name", ["cox", "logistic"])
def test_inverse_is_a_newton_step(name):
    model, rows, y = fitted(name)
    g, H = slope_and_information(name, model)
    result = debiased(model, X, y, level=0.9, **rows)
    assert result.method == "inverse" and result.gamma == 0
    inverse = np.linalg.inv(H)
    np.testing.assert_allclose(result.coef, model.coef_ + inverse @ g, rtol=1e-6)
    errors = np.sqrt(np.diagonal(inverse))
    np.testing.assert_allclose(result.standard_errors, errors, rtol=1e-7)
    table = result.summary()
    np.testing.assert_allclose(table["upper"] - table["coef"], norm.isf(0.05) * errors, rtol=1e-7)
    p_value = 2 * norm.sf(np.abs(result.coef) / errors)
    np.testing.assert_allclose(table["p_value"], p_value, rtol=1e-5)
    np.testing.assert_array_equal(table["penalized"], model.coef_)


@pytest.mark.parametrize("name", ["cox", "logistic"])
def test_quadratic_programs_have_the_least_variance(name):
    """By sequential least squares, of omega' R omega such that |R omega - e| <= gamma."""
    model, rows, y = fitted(name)
    g, H = slope_and_information(name, model)
    result = debiased(model, X, y, method="quadratic", gamma=0.15, **rows)
    unit = 1 / np.sqrt(np.diagonal(H))
    R = H * np.outer(unit, unit)
    for j in (0, 5, 11):
        target = np.eye(12)[j]
        bounds = [
            {"type": "ineq", "fun": lambda w, s=s, e=target: 0.15 - s * (R @ w - e)}
            for s in (-1.0, 1.0)
        ]
        best = minimize(
            lambda w: w @ R @ w,
            np.linalg.solve(R, target),
            jac=lambda w: 2 * R @ w,
            constraints=bounds,
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        ).x
        assert np.abs(R @ best - target).max() > 0.149
        error = unit[j] * np.sqrt(best @ R @ best)
        assert result.standard_errors[j] == pytest.approx(error, rel=1e-5)
        step = unit[j] * (best @ (unit * g))
        assert result.coef[j] - model.coef_[j] == pytest.approx(step, rel=1e-4, abs=1e-6)


def test_a_small_constraint_is_the_inverse():
    model, rows, y = fitted("cox")
    inverse = debiased(model, X, y, method="inverse", **rows)
    nearly = debiased(model, X, y, method="quadratic", gamma=1e-5, **rows)
    np.testing.assert_allclose(nearly.coef, inverse.coef, atol=1e-4)
    np.testing.assert_allclose(nearly.standard_errors, inverse.standard_errors, rtol=1e-3)


def draw(seed, n, p):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, p))
    return X, X[:, :2] @ [1.0, -0.5] + rng.normal(size=n)


def test_intervals_hold_the_truth():
    """Of 1,200 coefficients, of more columns than rows, by both sides' binomial margin."""
    held, truth = [], np.append([1.0, -0.5], np.zeros(118))
    for seed in range(10):
        X, y = draw(seed, 100, 120)
        result = debiased(LinearCCD(alpha=0.15, n_jobs=1).fit(X, y), X, y)
        assert result.method == "quadratic"
        table = result.intervals
        held.append((table["lower"] <= truth) & (truth <= table["upper"]))
    assert 0.92 < np.mean(held) < 0.98
    assert np.mean(held, axis=0)[0] >= 0.7


def test_units_of_columns_do_not_matter():
    X, y = draw(0, 80, 30)
    unit = np.geomspace(0.01, 100, 30)
    plain = debiased(LinearCCD(alpha=0.1, tol=1e-11).fit(X, y), X, y)
    scaled = LinearCCD(alpha=0.1, tol=1e-11, penalty_factor=unit).fit(X * unit, y)
    other = debiased(scaled, X * unit, y)
    np.testing.assert_allclose(other.coef * unit, plain.coef, atol=1e-6)
    np.testing.assert_allclose(other.standard_errors * unit, plain.standard_errors, rtol=1e-5)
    again = pickle.loads(pickle.dumps(other))
    assert repr(again) == repr(other) and "gamma=0.103" in repr(other)


@pytest.mark.parametrize("method", ["inverse", "quadratic"])
def test_constant_columns_have_no_interval(method):
    X, y = draw(0, 80, 6)
    wide = np.column_stack([X, np.ones(80)])
    model = LinearCCD(alpha=0.1).fit(wide, y)
    with pytest.warns(UserWarning, match="do not determine the coefficients of `x6`") as caught:
        result = debiased(model, wide, y, method=method)
    assert len(caught) == 1 and caught[0].filename == __file__
    plain = debiased(LinearCCD(alpha=0.1).fit(X, y), X, y, method=method)
    assert np.isnan(result.coef[6]) and np.isnan(result.standard_errors[6])
    # the constraint depends a little on the number of columns
    np.testing.assert_allclose(result.standard_errors[:6], plain.standard_errors, rtol=1e-2)


def test_collinear_columns_count_as_one():
    X, y = draw(0, 80, 4)
    wide = np.column_stack([X, X[:, 0] - X[:, 1]])
    ridge = {"alpha": 0.1, "l1_ratio": 0.0, "tol": 1e-11}  # a lasso would take few of them
    with pytest.warns(UserWarning, match="do not determine the coefficients of `x4`"):
        result = debiased(LinearCCD(**ridge).fit(wide, y), wide, y)
    free = wald(LinearCCD(alpha=0.0, tol=1e-11).fit(X, y), X, y)
    np.testing.assert_allclose(result.coef, [*free.coef, np.nan], atol=1e-7)


def test_more_observations_take_the_inverse():
    X, y = draw(0, 60, 12)
    given = (LinearCCD(alpha=0.1).fit(X, y), X, y)
    assert debiased(*given).method == "inverse"
    assert debiased(LinearCCD(alpha=0.1).fit(X[:59], y[:59]), X[:59], y[:59]).method == "quadratic"
    event = np.arange(60) < 45  # what counts are events
    y = np.array(
        [*zip(event, np.arange(1.0, 61.0), strict=True)], [("event", bool), ("time", float)]
    )
    assert debiased(CoxLassoCCD(alpha=0.1).fit(X, y), X, y).method == "quadratic"


def test_what_is_refused(monkeypatch):
    X, y = draw(0, 40, 50)
    model = LinearCCD(alpha=0.2).fit(X, y)
    for options, message in (
        ({"method": "lasso"}, "`method` is 'lasso', must be one of 'auto', 'inverse'"),
        ({"method": "inverse"}, "50 coefficients and 40 observations .* do not determine"),
        ({"gamma": 1.5}, r"`gamma` is 1\.5, must lie between 0 and 1"),
        ({"gamma": 0.001}, r"`gamma` is 0\.001, and no combination of columns tells `x0`"),
        ({"level": 2}, "`level` is 2"),
    ):
        with pytest.raises(ValueError, match=message):
            debiased(model, X, y, **options)
    with pytest.raises(ValueError, match="are not the rows of the fit"):
        debiased(model, X, y[::-1])
    few = LinearCCD(alpha=0.1).fit(X[:, :5], y)
    with pytest.raises(ValueError, match='`gamma` is for method="quadratic"'):
        debiased(few, X[:, :5], y, gamma=0.1)
    full = LinearCCD(alpha=1e-4).fit(X[:8, :12], y[:8])
    with pytest.raises(ValueError, match="nothing is left to estimate the variance"):
        debiased(full, X[:8, :12], y[:8])
    bounded = LogisticCCD(bounds=(0, np.inf)).fit(X, y > 0)
    with pytest.raises(ValueError, match="`estimator` has `bounds`, which debiased does not know"):
        debiased(bounded, X, y > 0)
    monkeypatch.setattr(module, "MOST_COLUMNS", 20)
    with pytest.raises(ValueError, match="50 coefficients, and debiased takes a matrix of at most"):
        debiased(model, X, y)
