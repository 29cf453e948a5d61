"""Priors that differ between columns: ratios and means of the penalty, and their variances."""

from __future__ import annotations

from copy import copy

import numpy as np
import pandas as pd
import pytest
from faces import FACES, P, X
from scipy.optimize import minimize

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    LogisticCCD,
    alpha_of_variance,
    bootstrap,
    fit_path,
    mixed_priors,
    posterior,
    variance_of_alpha,
)

ALPHA = 0.02
RATIO = np.array([1.0, 0.0, 0.4, 1.0] * (P // 4))
MEAN = np.where(np.arange(P) % 3 == 0, 0.3, np.where(np.arange(P) % 3 == 1, -0.1, 0.0))
FACTOR = np.where(np.arange(P) % 5 == 0, 0.0, 1.5)


@pytest.fixture(params=FACES)
def face(request):
    return FACES[request.param]


def stationarity(face, model, ratio, mean, factor):
    """Violation of the definition, with the gradient of the fit's log-likelihood by differences."""
    scale, step = 1.0 / len(face.y), 1e-6
    given = face.arguments()

    def loglik(coef):
        moved = copy(model)
        moved.coef_ = coef
        return moved.log_likelihood(X, face.y, **{"sample_weight": None, **given})

    base = model.coef_
    gradient = np.array(
        [(loglik(base + step * e) - loglik(base - step * e)) / (2 * step) for e in np.eye(P)]
    )
    l1, away = model.alpha * ratio * factor, base - mean
    slope = scale * gradient - model.alpha * (1 - ratio) * factor * away
    return np.where(away == 0, np.maximum(abs(slope) - l1, 0), abs(slope - l1 * np.sign(away)))


def test_fits_are_stationary(face):
    given = {"l1_ratio": RATIO, "prior_mean": MEAN, "penalty_factor": FACTOR}
    model = face.make(**given, max_iter=5_000).fit(X, face.y, **face.arguments())
    assert model.converged_
    assert stationarity(face, model, RATIO, MEAN, FACTOR).max() < 1e-7
    if not np.isnan(model.dual_gap_):
        assert 0 <= model.dual_gap_ < 1e-6


def test_optimum_by_another_route():
    """Split into positive and negative parts, the problem is smooth with bounds: L-BFGS-B."""
    face = FACES["logistic"]
    bounds = (MEAN - 0.2, MEAN + 0.4)
    model = LogisticCCD(
        alpha=ALPHA, l1_ratio=RATIO, prior_mean=MEAN, bounds=bounds, tol=1e-11, fit_intercept=False
    ).fit(X, face.y)
    design, is_case = X.toarray(), (face.y == np.unique(face.y)[1]).astype(float)

    def objective(parts):
        away = parts[:P] - parts[P:]
        eta = design @ (MEAN + away)
        value = np.mean(np.logaddexp(0, eta) - is_case * eta)
        slope = design.T @ (1 / (1 + np.exp(-eta)) - is_case) / len(face.y)
        slope += ALPHA * (1 - RATIO) * away
        value += ALPHA * (RATIO @ parts.reshape(2, P).sum(axis=0) + (1 - RATIO) @ away**2 / 2)
        return value, np.concatenate([slope, -slope]) + ALPHA * np.tile(RATIO, 2)

    limits = [(0, 0.4)] * P + [(0, 0.2)] * P
    method = {"method": "L-BFGS-B", "jac": True, "bounds": limits}
    best = minimize(objective, np.zeros(2 * P), options={"ftol": 1e-15, "gtol": 1e-9}, **method)
    np.testing.assert_allclose(model.coef_, MEAN + best.x[:P] - best.x[P:], atol=1e-5)
    assert model.objective_ == pytest.approx(best.fun, rel=1e-9)


def test_one_ratio_for_all_columns_is_a_number():
    face = FACES["cox"]
    fits = [face.make(l1_ratio=ratio).fit(X, face.y) for ratio in (0.4, np.full(P, 0.4), {0: 0.4})]
    np.testing.assert_array_equal(fits[0].coef_, fits[1].coef_)
    assert fits[0].alpha_max_ == fits[1].alpha_max_
    assert np.abs(fits[0].coef_ - fits[2].coef_).max() > 1e-3


def test_a_mean_is_an_offset():
    face = FACES["cox"]
    around = face.make(prior_mean=MEAN).fit(X, face.y)
    offset = face.make().fit(X, face.y, offset=X @ MEAN)
    np.testing.assert_array_equal(around.coef_, offset.coef_ + MEAN)
    assert (around.coef_ == MEAN).any()
    at = around.baseline_survival_(20.0), offset.baseline_survival_(20.0)
    assert at[0] == pytest.approx(at[1], rel=1e-12)


def test_paths_folds_and_replicates_know_means():
    face, alphas = FACES["cox"], [0.1, ALPHA]
    path = fit_path(face.make(prior_mean=MEAN, l1_ratio=RATIO), X, face.y, alphas=alphas)
    single = face.make(prior_mean=MEAN, l1_ratio=RATIO).fit(X, face.y)
    np.testing.assert_allclose(path.coefs[:, 1], single.coef_, atol=1e-7)
    given = {"prior_mean": MEAN, "alphas": alphas, "cv": 3, "tol": 1e-9}
    chosen = CoxLassoCV(**given, l1_ratio=RATIO).fit(X, face.y)
    single = face.make(prior_mean=MEAN, l1_ratio=RATIO, alpha=chosen.alpha_).fit(X, face.y)
    np.testing.assert_allclose(chosen.coef_, single.coef_, atol=1e-6)
    assert chosen.cv_results_["variance"].isna().all()
    offset = X @ MEAN
    shifted = CoxLassoCV(**given | {"prior_mean": None}).fit(X, face.y, offset=offset)
    around = CoxLassoCV(**given).fit(X, face.y)
    np.testing.assert_allclose(
        shifted.cv_results_["mean_score"], around.cv_results_["mean_score"], rtol=1e-7
    )
    drawn = bootstrap(
        face.make(prior_mean=1e3 * (np.arange(P) == 0), alpha=5.0), X, face.y, n_replicates=2
    )
    np.testing.assert_array_equal(drawn.coefs[0], 1e3)


def test_warm_starts_and_held_columns_keep_their_coefficients():
    face = FACES["cox"]
    model = face.make(prior_mean=MEAN, warm_start=True).fit(X, face.y)
    first = model.coef_.copy()
    assert model.fit(X, face.y).n_iter_ == 0
    np.testing.assert_array_equal(model.coef_, first)


def test_names_of_columns():
    face = FACES["cox"]
    table = pd.DataFrame(X.toarray(), columns=[f"c{j}" for j in range(P)])
    named = face.make(prior_mean={"c2": 0.5}, l1_ratio={"c1": 0.0}).fit(table, face.y)
    ratio, mean = np.where(np.arange(P) == 1, 0.0, 1.0), np.where(np.arange(P) == 2, 0.5, 0.0)
    given = face.make(prior_mean=mean, l1_ratio=ratio).fit(X.toarray(), face.y)
    np.testing.assert_array_equal(named.coef_, given.coef_)


# Cyclops 3.5.0, createPrior(c("none", "normal", "laplace"), ...), is what these stand for:
# likelihoods and penalties are added up here, from the definition.
def test_mixed_priors_are_strengths_of_each_column():
    given = mixed_priors(
        {"a": ("normal", 0.5), "b": None}, ["a", "b", "c", "d"], 40, default=("laplace", 2.0)
    )
    lam = 40 * given["alpha"] * given["penalty_factor"]
    np.testing.assert_allclose(lam * given["l1_ratio"], [0, 0, 1, 1])
    np.testing.assert_allclose(lam * (1 - given["l1_ratio"]), [2, 0, 0, 0])
    alone = mixed_priors({1: ("laplace", 0.5)}, 3, 40)
    assert 40 * alone["alpha"] == pytest.approx(2.0)
    assert alone["penalty_factor"].tolist() == [0, 1, 0]


def test_variances_and_penalties():
    assert variance_of_alpha(np.sqrt(2) / 100, 100) == pytest.approx(1.0)
    assert variance_of_alpha(0.01, 100, "normal") == pytest.approx(1.0)
    for prior in ("laplace", "normal"):
        back = alpha_of_variance(variance_of_alpha([0.02, 0.3], 70, prior), 70, prior)
        np.testing.assert_allclose(back, [0.02, 0.3])
    assert alpha_of_variance(np.inf, 10) == 0.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"l1_ratio": [0.5] * 3}, "`l1_ratio` has 3 entries, `X` has 12 columns"),
        ({"l1_ratio": {0: 1.5}}, "`l1_ratio` of column 0 is 1.5, must be at most 1"),
        ({"prior_mean": {99: 1.0}}, "`prior_mean` names column 99, `X` has columns 0 to 11"),
        ({"prior_mean": {0: np.nan}}, "`prior_mean` of column 0 is nan, must be a finite number"),
        (
            {"prior_mean": {0: 1.0}, "bounds": (-0.5, 0.5)},
            r"`bounds` of column 0 are \(-0.5, 0.5\); they must hold 1",
        ),
    ],
)
def test_bad_input(given, message):
    face = FACES["cox"]
    with pytest.raises(ValueError, match=message):
        face.make(**given).fit(X, face.y)


def test_what_does_not_go_together():
    face = FACES["cox"]
    with pytest.raises(ValueError, match="`estimator` has `prior_mean`, which posterior"):
        posterior(CoxLassoCCD(prior_mean=MEAN), X, face.y)
    with pytest.raises(ValueError, match=r'search="auto" is over one variance, and `l1_ratio`'):
        CoxLassoCV(search="auto", l1_ratio=RATIO).fit(X, face.y)
    with pytest.raises(ValueError, match=r"`prior` is .x."):
        alpha_of_variance(1.0, 10, "x")
    with pytest.raises(ValueError, match="`variance` is 0"):
        alpha_of_variance(0, 10)
    with pytest.raises(ValueError, match=r"`total_weight` is None"):
        variance_of_alpha(0.1, None)
    with pytest.raises(ValueError, match="priors"):
        mixed_priors({0: "laplace"}, 3, 10)
    with pytest.raises(ValueError, match=r"`priors` is \[.*\], must be a dictionary"):
        mixed_priors([("laplace", 1.0)] * 3, 3, 10)
