"""Poisson and linear regression: scikit-learn's optima, exposure, offsets, scores."""

import numpy as np
import pytest
from faces import COUNT, EXPOSURE, FACES, OFFSET, WEIGHT, N, X
from scipy.special import xlogy
from sklearn.linear_model import ElasticNet, Lasso, LinearRegression, PoissonRegressor, Ridge
from sklearn.metrics import r2_score

from sksurvgpu import LinearCCD, PoissonCCD

DENSE = X.toarray()
Y = FACES["linear"].y
INTERCEPT = pytest.mark.parametrize("fit_intercept", [True, False])
WEIGHTED = pytest.mark.parametrize("weight", [None, WEIGHT], ids=["plain", "weighted"])


def poisson(**params):
    return PoissonCCD(**{"alpha": 0.02, "tol": 1e-11, **params})


def linear(**params):
    return LinearCCD(**{"alpha": 0.02, "tol": 1e-11, **params})


@INTERCEPT
@WEIGHTED
@pytest.mark.parametrize("alpha", [0.0, 0.05])
def test_poisson_equals_scikit_learn(alpha, weight, fit_intercept, check_close):
    model = poisson(alpha=alpha, l1_ratio=0.0, fit_intercept=fit_intercept)
    model.fit(X, COUNT, weight)
    other = PoissonRegressor(
        alpha=alpha, solver="newton-cholesky", tol=1e-12, fit_intercept=fit_intercept
    ).fit(DENSE, COUNT, weight)
    check_close(model.coef_, other.coef_, "other package")
    check_close(model.intercept_, other.intercept_, "other package")
    check_close(model.predict(X), other.predict(DENSE), "other package")
    assert model.score(X, COUNT, weight) == pytest.approx(
        other.score(DENSE, COUNT, weight), abs=1e-9
    )


def deviance(y, mean, weight):
    return 2 * (weight * (xlogy(y, y / mean) - y + mean)).sum()


@WEIGHTED
def test_exposure_is_an_offset_of_its_logarithm(weight):
    model = poisson().fit(X, COUNT, weight, exposure=EXPOSURE)
    by_offset = poisson().fit(X, COUNT, weight, offset=np.log(EXPOSURE))
    np.testing.assert_allclose(model.coef_, by_offset.coef_, atol=1e-12)
    assert model.intercept_ == pytest.approx(by_offset.intercept_, abs=1e-12)
    assert model.log_likelihood_ == pytest.approx(by_offset.log_likelihood_, rel=1e-12)
    both = poisson().fit(X, COUNT, weight, exposure=EXPOSURE, offset=OFFSET)
    summed = poisson().fit(X, COUNT, weight, offset=OFFSET + np.log(EXPOSURE))
    np.testing.assert_allclose(both.coef_, summed.coef_, atol=1e-12)
    # the same rates are those of scikit-learn under weights of exposure
    size = EXPOSURE if weight is None else weight * EXPOSURE
    ridge = poisson(l1_ratio=0.0, alpha=0.05).fit(X, COUNT, weight, exposure=EXPOSURE)
    alpha = 0.05 * (N if weight is None else weight.sum()) / size.sum()
    other = PoissonRegressor(alpha=alpha, solver="newton-cholesky", tol=1e-12)
    other.fit(DENSE, COUNT / EXPOSURE, size)
    np.testing.assert_allclose(ridge.coef_, other.coef_, atol=1e-6)


def test_predicted_counts_are_rates_times_exposure():
    model = poisson().fit(X, COUNT, exposure=EXPOSURE)
    rate = np.exp(DENSE @ model.coef_ + model.intercept_)
    np.testing.assert_allclose(model.predict(X), rate, rtol=1e-12)
    np.testing.assert_allclose(model.predict(X, exposure=EXPOSURE), EXPOSURE * rate, rtol=1e-12)
    expected = (xlogy(COUNT, EXPOSURE * rate) - EXPOSURE * rate).sum()
    assert model.log_likelihood_ == pytest.approx(expected, rel=1e-12)
    # at the optimum of an unpenalized intercept the model predicts as many events as there were
    assert model.predict(X, EXPOSURE).sum() == pytest.approx(COUNT.sum(), rel=1e-8)


@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
@WEIGHTED
def test_poisson_score_is_the_share_of_the_deviance(weight):
    model = poisson().fit(X, COUNT, weight, exposure=EXPOSURE)
    rows = np.ones(N) if weight is None else weight
    for exposure in (None, EXPOSURE):
        size = np.ones(N) if exposure is None else exposure
        mean = model.predict(X, exposure)
        null = size * (rows @ COUNT) / (rows @ size)
        expected = 1 - deviance(COUNT, mean, rows) / deviance(COUNT, null, rows)
        assert model.score(X, COUNT, weight, exposure) == pytest.approx(expected, rel=1e-10)
    null = poisson(alpha=100.0).fit(X, COUNT, weight, exposure=EXPOSURE)
    assert null.score(X, COUNT, weight, exposure=EXPOSURE) == pytest.approx(0.0, abs=1e-9)
    assert model.score(X, 0 * COUNT, weight) == 0.0  # a fold without events, and no warning


def test_counts_beyond_floating_point_are_infinite():
    model = poisson().fit(X, COUNT)
    model.coef_, model.intercept_ = np.eye(12)[0], 0.0
    rows = np.outer([-1e5, 0.0, 1e5], np.eye(12)[0])
    assert model.predict(rows).tolist() == [0.0, 1.0, np.inf]
    assert model.predict(rows, exposure=[2.0, 3.0, 0.5]).tolist() == [0.0, 3.0, np.inf]


def test_a_constant_offset_moves_the_intercept():
    plain, moved = poisson().fit(X, COUNT), poisson().fit(X, COUNT, offset=np.full(N, 300.0))
    np.testing.assert_allclose(moved.coef_, plain.coef_, atol=1e-8)
    assert moved.intercept_ == pytest.approx(plain.intercept_ - 300.0, abs=1e-7)


@pytest.mark.filterwarnings("ignore::sksurvgpu.exceptions.NothingSelectedWarning")
def test_the_null_model_is_the_mean_rate():
    model = poisson(alpha=100.0).fit(X, COUNT, WEIGHT, exposure=EXPOSURE)
    assert not model.coef_.any()
    rate = (WEIGHT @ COUNT) / (WEIGHT @ EXPOSURE)
    assert model.intercept_ == pytest.approx(np.log(rate), abs=1e-9)


def test_counts_need_not_be_whole():
    halves = poisson().fit(X, COUNT / 2, exposure=EXPOSURE / 2)
    doubled = poisson(alpha=0.04).fit(X, COUNT, exposure=EXPOSURE)
    np.testing.assert_allclose(halves.coef_, doubled.coef_, atol=1e-8)


@INTERCEPT
@WEIGHTED
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.01], ids=["lasso", "elastic net", "nearly ridge"])
def test_linear_equals_scikit_learn(l1_ratio, weight, fit_intercept, check_close):
    model = linear(l1_ratio=l1_ratio, fit_intercept=fit_intercept).fit(X, Y, weight)
    other = ElasticNet(
        alpha=0.02, l1_ratio=l1_ratio, fit_intercept=fit_intercept, tol=1e-14, max_iter=100_000
    ).fit(DENSE, Y, weight)
    check_close(model.coef_, other.coef_, "other package")
    check_close(model.intercept_, other.intercept_, "other package")
    check_close(model.predict(X), other.predict(DENSE), "other package")
    assert model.score(X, Y, weight) == pytest.approx(
        r2_score(Y, model.predict(X), sample_weight=weight)
    )
    assert type(model.intercept_) is float and (model.intercept_ != 0) == fit_intercept


@INTERCEPT
def test_linear_extremes_equal_scikit_learn(fit_intercept, check_close):
    plain = linear(alpha=0.0, fit_intercept=fit_intercept).fit(X, Y)
    other = LinearRegression(fit_intercept=fit_intercept).fit(DENSE, Y)
    check_close(plain.coef_, other.coef_, "other package")
    ridge = linear(l1_ratio=0.0, fit_intercept=fit_intercept).fit(X, Y)
    other = Ridge(alpha=0.02 * N, fit_intercept=fit_intercept, tol=1e-12).fit(DENSE, Y)
    check_close(ridge.coef_, other.coef_, "other package")
    lasso = linear(alpha=0.1, fit_intercept=fit_intercept).fit(X, Y)
    other = Lasso(alpha=0.1, fit_intercept=fit_intercept, tol=1e-14).fit(DENSE, Y)
    check_close(lasso.coef_, other.coef_, "other package")
    np.testing.assert_array_equal(lasso.coef_ == 0, other.coef_ == 0)


def test_linear_log_likelihood_is_half_the_sum_of_squares():
    model = linear().fit(X, Y, WEIGHT, OFFSET)
    residual = Y - OFFSET - model.predict(X)
    assert model.log_likelihood_ == pytest.approx(-0.5 * (WEIGHT * residual**2).sum(), rel=1e-12)
    assert WEIGHT @ residual == pytest.approx(0.0, abs=1e-8)


def test_an_offset_is_subtracted_from_numbers():
    model, by_hand = linear().fit(X, Y, offset=OFFSET), linear().fit(X, Y - OFFSET)
    np.testing.assert_allclose(model.coef_, by_hand.coef_, atol=1e-10)
    assert model.intercept_ == pytest.approx(by_hand.intercept_, abs=1e-10)


def test_linear_has_neither_ratios_nor_infinite_coefficients():
    model = linear(alpha=0.0).fit(X, 1e6 * Y)
    assert np.abs(model.coef_).max() > 1e4
    assert model.summary().columns.tolist() == ["coef"]


def test_a_constant_outcome_has_an_intercept_only():
    for level in (3.0, 0.0, -2.5):
        model = linear().fit(X, np.full(N, level))
        assert not model.coef_.any() and model.intercept_ == pytest.approx(level, abs=1e-12)
