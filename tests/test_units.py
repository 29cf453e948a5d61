"""Units of columns do not matter: neither to what converges nor to what a fit says.

Scaling a column by s and its lasso penalty by s changes its coefficient by 1/s and nothing else. By
powers of two that holds but for the order of sums, which depends on how a column is stored.
"""

import warnings

import numpy as np
import pytest
from faces import FACES, WEIGHT_OF_SUBJECT, X
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import (
    CoxLassoCCD,
    CoxLassoCV,
    LinearCCD,
    LogisticCCD,
    PoissonCCD,
    PoissonCV,
    bootstrap,
    fit_path,
    posterior,
    profile_likelihood,
    surv,
)
from sksurvgpu.datasets import simulate_cox
from sksurvgpu.estimators._preparing import prepare

P = X.shape[1]
# 12 orders of magnitude, all kinds of columns
SCALE = 2.0 ** np.array([20, -20, 0, 7, -13, 0, 18, -3, -20, 20, 9, -16])


def same(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-11)


def scaled(scale=SCALE):
    table = X.toarray() * scale
    table[:, 9] += 0.3 * scale[9]  # a dense column
    return table


def pair(
    name,
    factor=1.0,
    fit=lambda model, *data, **rows: model.fit(*data, **rows),
    names=None,
    **params,
):
    """What becomes of the same data in units of one and in others."""
    face = FACES[name]
    found = []
    for scale in (np.ones(P), SCALE):
        model = face.make(**{"tol": 1e-6, "penalty_factor": factor * scale, **params})
        found.append(fit(model, scaled(scale), face.y, **face.arguments(names)))
    return found


@pytest.mark.thorough(but=r"majorized|logistic-exact")
@pytest.mark.parametrize("algorithm", ["majorized", "exact"])
@pytest.mark.parametrize("name", FACES)
def test_units_change_coefficients_only(name, algorithm):
    """With weights where exact steps have them in other tests: the same kernels serve all."""
    more = {"algorithm": algorithm}
    if algorithm == "exact" and name != "cox":
        more |= {"names": [*FACES[name].needed, "sample_weight"], "alpha": 0.01}
    plain, other = pair(name, **more)
    assert plain.converged_ and np.count_nonzero(plain.coef_) > 1
    same(other.coef_ * SCALE, plain.coef_)
    for attribute in ("objective_", "kkt_", "kkt_se_", "kkt_se_bound_", "alpha_max_", "n_iter_"):
        same(getattr(other, attribute), getattr(plain, attribute))


@pytest.mark.parametrize("name", FACES)
def test_units_of_unpenalized_columns_change_coefficients_only(name):
    free = (np.arange(P) % 4 != 1).astype(float)
    plain, other = pair(name, free)
    assert plain.converged_ and plain.coef_[1] != 0
    same(other.coef_ * SCALE, plain.coef_)


@pytest.mark.parametrize("name", ["cox", "logistic", "linear"])
def test_units_of_columns_with_a_ridge_penalty(name):
    face = FACES[name]
    plain, other = (
        face.make(tol=1e-6, l1_ratio=0, penalty_factor=s**2).fit(scaled(s), face.y)
        for s in (np.ones(P), SCALE)
    )
    same(other.coef_ * SCALE, plain.coef_)


@pytest.mark.thorough(but=r"cox|logistic|linear")
@pytest.mark.parametrize("name", FACES)
def test_units_do_not_matter_to_paths(name):
    plain, other = pair(name, fit=lambda *args, **rows: fit_path(*args, n_alphas=12, **rows))
    assert plain.converged.all() and (plain.n_iter[1:] > 0).all()
    same(other.coefs * SCALE[:, None], plain.coefs)


@pytest.mark.parametrize("name", ["cox", "logistic"])
def test_units_do_not_matter_to_bootstraps_and_profiles(name):
    def replicate(*args, **rows):
        return bootstrap(*args, n_replicates=6, random_state=0, **rows)

    plain, other = pair(name, fit=replicate)
    same(other.coefs * SCALE[:, None], plain.coefs)
    plain, other = pair(name, fit=lambda *a, **rows: profile_likelihood(*a, columns=[0, 9], **rows))
    bounds = other.intervals.to_numpy() * SCALE[[0, 9]][:, None]
    np.testing.assert_allclose(bounds, plain.intervals.to_numpy(), rtol=1e-6)


def test_units_do_not_matter_to_cross_validation():
    face = FACES["cox"]
    plain, other = (
        CoxLassoCV(n_alphas=8, cv=5, penalty_factor=s).fit(scaled(s), face.y)
        for s in (np.ones(P), SCALE)
    )
    same(other.coef_ * SCALE, plain.coef_)
    same(other.cv_results_, plain.cv_results_)


@pytest.mark.parametrize("power", [-99, 99])
def test_units_at_the_ends_of_floating_point(power):
    """Nothing overflows on the way, which would warn."""
    face, scale = FACES["cox"], np.where(np.arange(P) % 4 == 0, 10.0**power, 1.0)
    plain, other = (
        fit_path(face.make(tol=1e-6, penalty_factor=s), scaled(s), face.y, n_alphas=5)
        for s in (np.ones(P), scale)
    )
    assert plain.converged.all() and other.converged.all()
    np.testing.assert_allclose(other.coefs * scale[:, None], plain.coefs, atol=1e-6)


@pytest.fixture(scope="module")
def platelets():
    """Indicators and a count of platelets, as health records have them."""
    rng = np.random.default_rng(4)
    data = simulate_cox(1_000, 40, random_state=0)
    count = 250_000 + 60_000 * rng.normal(size=1_000)
    return np.column_stack([data.X.toarray(), count]), data.y


def error(model, exact, X):
    """Largest distance of coefficients, in standard deviations of the predictor's part."""
    return (np.abs(model.coef_ - exact.coef_) * X.std(axis=0)).max()


def test_a_path_with_a_column_in_large_units_goes_on(platelets):
    alphas = np.geomspace(0.02, 2e-5, 12)
    path = fit_path(CoxLassoCCD(), *platelets, alphas=alphas)
    assert path.converged.all() and (path.n_iter > 0).all()
    assert (path.kkt <= 0.01 * alphas).all()
    for i in (5, 11):
        tight = CoxLassoCCD(alpha=alphas[i], tol=1e-11).fit(*platelets)
        assert error(path.at(i), tight, platelets[0]) < 1e-4


def test_a_warm_start_with_a_column_in_large_units_moves(platelets):
    warm = CoxLassoCCD(alpha=0.01, warm_start=True).fit(*platelets)
    warm.set_params(alpha=0.0005).fit(*platelets)
    assert warm.n_iter_ > 0
    cold = CoxLassoCCD(alpha=0.0005, tol=1e-11).fit(*platelets)
    assert error(warm, cold, platelets[0]) < 1e-4


def test_least_squares_with_a_column_in_large_units(platelets):
    X, _ = platelets
    rng = np.random.default_rng(5)
    y = X[:, :40] @ rng.normal(size=40) + 1e-5 * X[:, 40] + 0.1 * rng.normal(size=len(X))
    model, tight = (LinearCCD(alpha=1e-3, tol=tol).fit(X, y) for tol in (1e-6, 1e-12))
    assert model.converged_ and error(model, tight, X) < 1e-5


@pytest.mark.parametrize("alpha", [1e-3, 1e-7])
def test_no_fit_converges_beside_its_penalty(platelets, alpha):
    """However loose `tol` is, the residual is small beside alpha."""
    model = CoxLassoCCD(alpha=alpha, tol=1.0).fit(*platelets)
    assert model.converged_ and 0 < model.kkt_ <= 0.01 * alpha


@pytest.mark.parametrize("name", ["cox", "fine-gray", "poisson", "logistic", "linear"])
def test_the_residual_is_in_standard_errors(name):
    """Moving the optimum of one column by a standard error violates its conditions by one."""
    face = FACES[name]
    column = scaled(np.ones(P))[:, [0]]
    free = face.make(alpha=0.0).fit(column, face.y)
    curve = profile_likelihood(face.make(alpha=0.0), column, face.y, columns=[0], level=0.6827)
    width = np.ptp(curve.intervals[["lower", "upper"]].to_numpy()) / 2
    start = face.make(alpha=0.0, warm_start=True, max_iter=1, tol=1e-300)
    start.coef_ = free.coef_ + 0.05 * width
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prepared = prepare(start, column, face.y, None, None)
    [solution] = _at_start(prepared)
    assert solution.score == pytest.approx(0.05, rel=0.3)


def _at_start(prepared):
    still = prepared.with_options(max_iter=0)
    return still.solve([0.0])[0]


FAR = [("linear", 1e8), ("poisson", 1e6), ("logistic", 1e6), ("cox", 1e6), ("fine-gray", 1e6)]


@pytest.mark.parametrize(("name", "far"), FAR)
def test_columns_may_lie_far_from_zero(name, far):
    face = FACES[name]
    near = scaled(np.ones(P))
    moved = near + np.where(np.arange(P) == 9, far, 0.0)
    plain, other = (face.make(tol=1e-8, alpha=0.003).fit(table, face.y) for table in (near, moved))
    assert other.converged_ and plain.coef_[9] != 0
    np.testing.assert_allclose(other.coef_, plain.coef_, atol=1e-5)
    for found, expected in zip(face.predict(other, moved), face.predict(plain, near), strict=True):
        if name in ("cox", "fine-gray") and np.ndim(found) == 1:  # without the baseline
            found, expected = found - found.mean(), expected - expected.mean()
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_cross_validation_scores_centred_columns_as_others():
    face = FACES["poisson"]
    near = scaled(np.ones(P))
    moved = near + np.where(np.arange(P) == 9, 1e6, 0.0)
    plain, other = (
        PoissonCV(alphas=[0.1, 0.03, 0.01, 0.003], cv=5, tol=1e-8).fit(table, face.y)
        for table in (near, moved)
    )
    np.testing.assert_allclose(
        other.cv_results_["mean_score"], plain.cv_results_["mean_score"], rtol=1e-6
    )


def test_centring_respects_pieces_of_time():
    face = FACES["cox"]
    near = scaled(np.ones(P))
    moved = near + np.where(np.arange(P) == 9, 1e4, 0.0)
    cuts = {9: [10.0], 0: [20.0]}
    plain, other = (
        CoxLassoCCD(alpha=0.001, tol=1e-9, time_varying=cuts).fit(table, face.y)
        for table in (near, moved)
    )
    curves = (
        m.predict_survival_function(t, return_array=True)
        for m, t in ((plain, near), (other, moved))
    )
    np.testing.assert_allclose(*curves, atol=1e-6)


def test_a_model_without_intercept_is_not_centred():
    y = FACES["poisson"].y
    table = np.abs(scaled(np.ones(P))) + np.where(np.arange(P) == 9, 50.0, 0.0)
    model = PoissonCCD(alpha=0.0, fit_intercept=False, tol=1e-8).fit(table, y)
    mean = np.exp(table @ model.coef_)
    np.testing.assert_allclose(table.T @ (y - mean) / (table.T @ y), 0.0, atol=1e-6)


@pytest.mark.parametrize(("scale", "verb"), [(1e-201, "multiply"), (1e150, "divide")])
def test_columns_beyond_floating_point_are_refused(scale, verb):
    table = scaled(np.ones(P))
    table[:, 9] *= scale
    with pytest.raises(ValueError, match=f"column x9 has values of at most .* {verb} it by"):
        CoxLassoCCD().fit(table, FACES["cox"].y)


@pytest.mark.thorough(but=r"\[1\]")
@pytest.mark.parametrize("seed", range(4))
def test_lost_digits_are_no_convergence(seed):
    """A row without weight keeps a column from being centred, which then has lost its curvature."""
    rng = np.random.default_rng(seed)
    near = rng.normal(size=(300, 3))
    y = surv(np.ones(301), rng.exponential(np.exp(-0.5 * np.append(near[:, 1], 0.0))))
    far = np.vstack([near + np.array([0.0, 1e8, 0.0]), [0.0, 1e12, 0.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = CoxLassoCCD(alpha=0).fit(far, y, sample_weight=np.append(np.ones(300), 0.0))
    exact = CoxLassoCCD(alpha=0).fit(near, y[:300])
    assert not model.converged_ or abs(model.coef_ - exact.coef_).max() < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("cls", [LogisticCCD, PoissonCCD])
def test_posteriors_of_columns_far_from_zero_begin_at_their_mode(cls):
    rng = np.random.default_rng(6)
    table = np.column_stack([250_000 + 1_000 * rng.normal(size=300), rng.normal(size=300)])
    prior = {"prior_mean": {0: 3e-4}, "prior_precision": {0: 1e7, 1: 1.0}}
    near, far = (
        posterior(cls(alpha=0), X, (rng_of(7) < 0.4).astype(int), n_draws=200, n_tune=200, **prior)
        for X in (table - [250_000, 0], table)
    )
    found, expected = far.summary()["mean"], near.summary()["mean"]
    assert abs(found.iloc[0] - expected.iloc[0]) < 2e-5


def rng_of(seed):
    return np.random.default_rng(seed).random(300)


@pytest.mark.parametrize("size", [1e-200, 1e-300])
def test_tiny_penalties_and_outcomes_do_not_overflow(size):
    table, y = scaled(np.ones(P)), FACES["linear"].y
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        LinearCCD(alpha=0.0).fit(table, size * y)
        LinearCCD(alpha=size**1.05).fit(table, y)


def test_a_constant_column_is_not_centred_into_noise():
    table = scaled(np.ones(P))
    table[:, 9] = 0.1 + np.where(np.arange(len(table)) % 2, 1e-17, 0.0)
    table[::7, 9] = np.nextafter(0.1, 1)
    model = LinearCCD(alpha=1e-6).fit(table, FACES["linear"].y, sample_weight=WEIGHT_OF_SUBJECT)
    assert model.coef_[9] == 0.0 and model.converged_


@pytest.mark.thorough(but=r"\[2-")
@pytest.mark.parametrize("alpha", [0.0, 1e-3])
@pytest.mark.parametrize("seed", [2, 4, 6])
def test_columns_without_variance_do_not_loosen_the_tolerance(seed, alpha):
    """Under wild offsets few rows count, and columns may not vary among them."""
    rng = np.random.default_rng(seed)
    n, p = int(rng.integers(10, 60)), int(rng.integers(2, 6))
    table = rng.normal(size=(n, p))
    table[:, rng.random(p) < 0.4] = rng.random((n, 1)) < 0.3
    table = table * 10.0 ** rng.uniform(-6, 6, p)
    offset, time = 175 * rng.normal(size=n), rng.exponential(size=n)
    model = CoxLassoCCD(alpha=alpha, penalty_factor={0: 0.0}, max_iter=200)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table, surv(rng.random(n) < 0.6, time), offset=offset)
    assert not model.converged_ or model.kkt_ < 1e-3
