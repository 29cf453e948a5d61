"""The intercept from sums at nodes: against roots of the scores themselves."""

import numpy as np
import pytest
from models import best_intercept
from scipy.optimize import brentq
from scipy.special import expit

from sksurvgpu.backends.sums.messages import MIDDLE, nodes
from sksurvgpu.likelihoods import Gaussian, Logistic, Poisson
from sksurvgpu.patterns.rows.intercept import MOST_ASKS, InterceptSearch, first_intercept


def logistic(eta, y):
    return y * eta - np.logaddexp(0.0, eta), y - expit(eta), expit(eta) * expit(-eta)


def poisson(eta, y):
    return y * eta - np.exp(eta), y - np.exp(eta), np.exp(eta)


def gaussian(eta, y):
    return -0.5 * (y - eta) ** 2, y - eta, np.ones(len(eta))


def cloglog(eta, y):
    mean = np.exp(np.minimum(eta, 700.0))
    near = np.minimum(mean, 700.0)
    score = near / np.expm1(near)
    curvature = score * (-near / np.expm1(-near) - 1.0)
    terms = (np.log(-np.expm1(-near)), score, curvature), (-mean, -mean, mean)
    return tuple(np.where(y > 0.0, *pair) for pair in zip(*terms, strict=True))


ROWS = {"logistic": logistic, "poisson": poisson, "gaussian": gaussian, "cloglog": cloglog}


def draw(name, sd, n=500):
    rng = np.random.default_rng(0)
    eta = sd * rng.normal(size=n)
    y = (rng.random(n) < expit(eta - 1.0)).astype(float)
    if name == "poisson":
        y = rng.poisson(np.exp(np.minimum(eta, 4.0))).astype(float)
    return eta, y, rng.choice([0.0, 0.5, 1.0, 3.3], n)


def search(rows, data, start):
    """The search, and how often it asked."""
    (eta, y, weight), searched, asked = data, InterceptSearch(start), 0
    with np.errstate(all="ignore"):
        while not searched.found:
            sums = [[weight @ term for term in rows(eta + b, y)] for b in nodes(searched.center)]
            logliks, scores, curvatures = np.transpose(sums)
            searched.read(logliks[MIDDLE], scores, curvatures)
            asked += 1
    return searched, asked


@pytest.mark.parametrize("sd", [1.0, 3.0, 8.0])
@pytest.mark.parametrize("name", ROWS)
def test_intercept_is_the_root_of_the_scores(name, sd):
    rows, data = ROWS[name], draw(name, sd)
    eta, y, weight = data
    if name == "cloglog":
        root = brentq(lambda b: weight @ rows(eta + b, y)[1], -60.0, 60.0, xtol=1e-15)
    else:
        root = best_intercept(name, *data)
    # near, far on either side, and where the predictor overflows
    for start, most in [(root + 0.3, 2 + (name == "cloglog")), (25.0, 9), (-60.0, 9), (600.0, 20)]:
        found, asked = search(rows, data, start)
        # rounding of the scores moves their root
        rounding = 1e-14 * (weight @ abs(y)) / (weight @ rows(eta + root, y)[2])
        assert abs(found.intercept - root) < 1e-13 * (1.0 + abs(root)) + rounding
        assert found.loglik == pytest.approx(weight @ rows(eta + root, y)[0], rel=1e-13)
        assert asked <= most


def test_near_the_last_intercept_one_exchange_serves():
    for name, rows in ROWS.items():
        eta, y, weight = draw(name, 3.0)
        before, _ = search(rows, (eta, y, weight), 0.0)
        moved = eta + 1e-4 * np.sin(np.arange(len(eta)))
        found, asked = search(rows, (moved, y, weight), before.intercept)
        assert asked == 1, name
        again, _ = search(rows, (moved, y, weight), found.intercept)
        assert found.intercept == pytest.approx(again.intercept, abs=1e-13)


def test_scores_with_a_plateau_are_bracketed():
    eta, y = np.repeat([-20.0, 20.0], 50), (np.arange(100) % 4 == 0).astype(float)
    found, asked = search(logistic, (eta, y, np.ones(100)), 0.0)
    assert found.intercept == pytest.approx(-20.0, abs=1e-12)
    assert asked < 10


def test_without_a_root_the_search_ends():
    eta, nothing = np.zeros(10), np.zeros(10)
    for rows in (poisson, logistic):  # at minus infinity, where scores underflow
        found, asked = search(rows, (eta, nothing, np.ones(10)), 0.0)
        assert abs(found.loglik) < 1e-300
        assert asked < MOST_ASKS
    found, asked = search(lambda eta, y: (eta * np.nan,) * 3, (eta, nothing, eta + 1), 0.0)
    assert np.isnan(found.loglik)
    assert asked == MOST_ASKS


def test_first_intercept_is_the_link_of_the_mean():
    assert first_intercept(Gaussian(), 3.5) == 3.5
    assert first_intercept(Logistic(), 0.25) == pytest.approx(-np.log(3.0))
    assert first_intercept(Poisson(), 0.0) == 0.0  # log(0) is no place to look
