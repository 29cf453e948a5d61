"""Many rows alike: their equal terms must not add up equal rounding errors."""

import math

import numpy as np
import pytest

from sksurvgpu import CaseSeriesCCD, ConditionalLogisticCCD, LogisticCCD, case_series, matched

N_ROWS = 180_000


@pytest.fixture(scope="module")
def X():
    return (np.random.default_rng(0).random((N_ROWS, 2)) < 0.3).astype(float)


@pytest.fixture(scope="module")
def sets(X):
    """One case in each three rows."""
    chance = np.exp(0.7 * X[:, 0]).reshape(-1, 3).cumsum(axis=1)
    drawn = np.random.default_rng(2).random((N_ROWS // 3, 1)) * chance[:, -1:]
    case = np.zeros(chance.shape, int)
    case[np.arange(len(case)), (drawn > chance).sum(axis=1)] = 1
    return case.ravel(), np.arange(N_ROWS) // 3


def log_likelihood_of_rows(model, X, y):
    eta = X @ model.coef_ + model.intercept_
    return math.fsum(y * eta - np.logaddexp(0.0, eta))


def log_likelihood_of_sets(model, X, case):
    eta = (X @ model.coef_).reshape(-1, 3)
    return math.fsum((case.reshape(-1, 3) * eta).sum(axis=1) - np.log(np.exp(eta).sum(axis=1)))


def check(model, log_likelihood):
    assert model.converged_
    assert model.n_iter_ < 10
    assert abs(model.log_likelihood_ / log_likelihood - 1.0) < 1e-14


def test_logistic_regression(X):
    y = np.random.default_rng(1).random(N_ROWS) < 0.02 * np.exp(X[:, 0])
    model = LogisticCCD(alpha=0, tol=1e-8).fit(X, y)
    check(model, log_likelihood_of_rows(model, X, y))


def test_matched_sets(X, sets):
    case, label = sets
    model = ConditionalLogisticCCD(alpha=0, tol=1e-8).fit(X, matched(case, label))
    check(model, log_likelihood_of_sets(model, X, case))


def test_case_series(X, sets):
    case, subject = sets
    y = case_series(case, np.ones(N_ROWS), subject)
    model = CaseSeriesCCD(alpha=0, tol=1e-8).fit(X, y)
    check(model, log_likelihood_of_sets(model, X, case))
