"""`BayesianLasso` as its users see it; its samplers are tested in test_bayesian_regression.py."""

import functools
import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from oracles.posteriors import Reference
from scipy import sparse
from scipy.optimize import brentq
from scipy.special import ndtr
from sklearn.base import clone, is_regressor
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from sksurvgpu import BayesianLasso, make_pipeline
from sksurvgpu.data.design.columns import build_design
from sksurvgpu.estimators import _bayes
from sksurvgpu.estimators._bayes import mixture_quantile

# Most chains here are too short to be trusted, which is not what is tested.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RANDOM = np.random.default_rng(1)
N, P = 60, 5
X = RANDOM.normal(size=(N, P)) * (RANDOM.uniform(size=(N, P)) < 0.6)
Y = 3.0 + X[:, 0] - 0.5 * X[:, 1] + 0.7 * RANDOM.normal(size=N)
WEIGHT = RANDOM.uniform(0.5, 2.0, N)
PRIORS = ["lasso", "ridge", "horseshoe"]


def model(**params):
    return BayesianLasso(**{"n_chains": 2, "n_tune": 20, "n_draws": 50, "n_jobs": 1, **params})


def fit(X=X, y=Y, sample_weight=None, **params):
    return model(**params).fit(X, y, sample_weight)


@functools.cache
def fitted_once(**params):
    return fit(**params)


@functools.cache
def summarized():
    return fit(np.tile(X, 4), keep="summary")


PRECISION = "a weight is the precision of a row, not a count of rows"
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": PRECISION,
    "check_sample_weight_equivalence_on_sparse_data": PRECISION,
}


@parametrize_with_checks(
    [BayesianLasso(n_chains=1, n_tune=10, n_draws=10)],
    expected_failed_checks=lambda estimator: EXPECTED_FAILURES,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.thorough
@pytest.mark.parametrize("prior", PRIORS)
def test_storage_does_not_matter(prior):
    frame = pd.DataFrame(X, columns=[f"code{j}" for j in range(P)])
    expected = fit(prior=prior)
    tables = {
        "csc": sparse.csc_array(X),
        "csr": sparse.csr_matrix(X),
        "design": build_design(X),
        "sparse frame": frame.astype(pd.SparseDtype(float, 0.0)),
        "frame": frame,
    }
    for name, table in tables.items():
        other = fit(table, prior=prior)
        assert (other.coef_ == expected.coef_).all(), name
        np.testing.assert_allclose(other.predict(table), expected.predict(X), rtol=1e-12)
    assert other.feature_names_in_.tolist() == list(frame)
    assert other.summary().index[:2].tolist() == ["coef[code0]", "coef[code1]"]
    assert expected.summary().index.tolist()[:2] == ["coef[x0]", "coef[x1]"]
    assert not hasattr(expected, "feature_names_in_") and expected.n_features_in_ == P


def test_tools_of_scikit_learn():
    assert is_regressor(BayesianLasso())
    params = {"prior": "ridge", "lam": 2.0, "n_draws": 7}
    assert clone(BayesianLasso(**params)).get_params().items() >= params.items()
    copied = pickle.loads(pickle.dumps(fitted_once()))
    assert (copied.predict(X) == fitted_once().predict(X)).all()
    assert copied.summary().equals(fitted_once().summary())
    search = GridSearchCV(model(), {"prior": PRIORS}, cv=2).fit(X, Y)
    assert search.best_params_["prior"] in PRIORS
    chain = make_pipeline(StandardScaler().set_output(transform="pandas"), model())
    table = pd.DataFrame(X, columns=list("abcde"))
    chain.fit(table, Y)
    assert chain[-1].feature_names_in_.tolist() == list("abcde")
    own = chain[-1].predict_interval(chain[:-1].transform(table), 0.5)
    np.testing.assert_array_equal(chain.predict_interval(table, level=0.5), own)
    with sklearn.config_context(enable_metadata_routing=True):
        assert BayesianLasso().get_metadata_routing().fit.requests["sample_weight"] is True
    with pytest.raises(NotFittedError):
        BayesianLasso().predict(X)


@pytest.mark.thorough
def test_published_posterior_of_the_diabetes_data():
    """As in test_posterior_references.py, whose threshold this is."""
    reference = Reference.of("bayes_lasso", "diabetes")
    table, y = load_diabetes(return_X_y=True, as_frame=True)
    params = {"noise_shape": 0.0, "noise_rate": 0.0, "lambda_rate": 1.78}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # chains of this length are not doubted
        fitted = BayesianLasso(**params, n_tune=200, n_draws=1_000, n_jobs=1).fit(table, y)
    draws = fitted.posterior_.draws
    stacked = np.dstack([draws["coef"], draws["intercept"], draws["sigma2"], draws["lambda2"]])
    assert [*table, "intercept", "sigma2", "lambda2"] == reference.case["parameters"]
    assert reference.largest_z(stacked) < 6.0
    auto = BayesianLasso(n_draws=4, n_tune=0).fit(table, y)
    assert auto.lambda_rate_ == pytest.approx(1.78)  # its columns have unit norm


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ridge_of_a_fixed_penalty_has_the_mean_of_ridge_regression(fit_intercept):
    fitted = fit(
        sample_weight=WEIGHT, prior="ridge", lam=3.0, n_draws=500, fit_intercept=fit_intercept
    )
    root = np.sqrt(WEIGHT)
    columns = np.column_stack([X, np.ones(N)])[:, : P + fit_intercept] * root[:, None]
    penalty = np.diag([9.0] * P + [0.0] * fit_intercept)
    exact = np.linalg.solve(columns.T @ columns + penalty, columns.T @ (root * Y))
    draws = fitted.posterior_.draws["coef"].reshape(-1, P)
    # draws of a ridge posterior are independent, but for what the variance carries over
    z = (fitted.coef_ - exact[:P]) / (draws.std(axis=0) / np.sqrt(len(draws)))
    assert np.abs(z).max() < 4.5
    assert fitted.intercept_ == pytest.approx(exact[P] if fit_intercept else 0.0, abs=0.02)
    assert fitted.lambda2_ == 9.0 and "lambda2" not in fitted.posterior_.draws
    assert not hasattr(fitted, "lambda_rate_")


@pytest.mark.thorough
@pytest.mark.parametrize("prior", PRIORS)
def test_auto_priors_follow_units(prior):
    expected = fit(sample_weight=WEIGHT, prior=prior)
    for other, of_x, of_y in (
        (fit(X, 100.0 - 1e4 * Y, WEIGHT, prior=prior), 1.0, -1e4),
        (fit(1e-5 * X + 7.0, Y, WEIGHT, prior=prior), 1e-5, 1.0),
        (fit(X, Y, 50.0 * WEIGHT, prior=prior), 1.0, 1.0),
    ):
        if of_y < 0:  # draws of -y are others
            expected_coef = fit(X, 1e4 * Y, WEIGHT, prior=prior).coef_
            other = fit(X, 1e4 * Y + 100.0, WEIGHT, prior=prior)
            np.testing.assert_allclose(expected_coef, 1e4 * expected.coef_, rtol=1e-6)
            of_y = 1e4
        np.testing.assert_allclose(other.coef_ * of_x, of_y * expected.coef_, rtol=1e-6)


def test_attributes_belong_together():
    fitted = fit(record_local=True)
    draws = fitted.posterior_.draws
    assert set(draws) == {"coef", "intercept", "sigma2", "lambda2", "local_scale2"}
    np.testing.assert_allclose(fitted.coef_, draws["coef"].mean(axis=(0, 1)), rtol=1e-12)
    for name in ("intercept", "sigma2", "lambda2"):
        assert getattr(fitted, f"{name}_") == pytest.approx(draws[name].mean())
    assert fitted.noise_rate_ == pytest.approx(np.var(Y, ddof=1) / 2)
    assert fitted.lambda_rate_ == pytest.approx(1.78 / (N * X.var(axis=0)).mean())
    fitted.set_params(prior="horseshoe").fit(X, Y)
    assert not hasattr(fitted, "lambda2_") and not hasattr(fitted, "lambda_rate_")
    sd = np.sqrt(X.var(axis=0, ddof=1).mean())
    assert fitted.global_scale_ == pytest.approx(1 / sd) and fitted.global_scale2_ > 0
    assert fit(lambda_rate=0.3, noise_rate=2).lambda_rate_ == 0.3


def test_draws_depend_on_the_seed_alone():
    assert (fit(n_jobs=2).coef_ == fitted_once().coef_).all()
    assert (fit(random_state=1).coef_ != fitted_once().coef_).all()
    longer = fit(n_chains=3).posterior_.draws["coef"]
    assert (longer[:2] == fitted_once().posterior_.draws["coef"]).all()


def test_short_chains_are_doubted():
    with pytest.warns(ConvergenceWarning, match="BayesianLasso: .*ESS is below 200"):
        fit(n_draws=10)


def test_a_constant_column_has_its_prior():
    table = np.column_stack([X, np.full(N, 7.0)])
    fitted = fit(table, lam=2.0, n_draws=500, prior="ridge")
    draws = fitted.posterior_.draws
    ratio = draws["coef"][..., -1].ravel() / np.sqrt(draws["sigma2"].ravel())
    # 1,000 independent draws of N(0, 1/4), within 4.5 standard errors
    assert abs(ratio.mean()) < 4.5 * 0.5 / np.sqrt(1_000)
    assert ratio.var() == pytest.approx(0.25, rel=4.5 * np.sqrt(2 / 1_000))
    line = draws["coef"][..., -1] * 7.0 + draws["intercept"]
    assert line.std() < 1.0  # what the column takes, the intercept gives


def test_predictions_are_those_of_the_draws(monkeypatch):
    monkeypatch.setattr(_bayes, "BLOCK", 700)  # several blocks of rows
    monkeypatch.setattr(_bayes, "DRAWS_AT_ONCE", 30)
    draws = fitted_once().posterior_.draws
    coef, sigma2 = draws["coef"].reshape(-1, P), draws["sigma2"].ravel()
    linear = X @ coef.T + draws["intercept"].ravel()
    mean, sd = fitted_once().predict(X, return_std=True)
    np.testing.assert_allclose(mean, linear.mean(axis=1), rtol=1e-10)
    np.testing.assert_allclose(sd**2, linear.var(axis=1, ddof=1) + sigma2.mean(), rtol=1e-10)
    interval = fitted_once().predict_interval(X, level=0.8, kind="mean")
    np.testing.assert_allclose(interval, np.quantile(linear, [0.1, 0.9], axis=1).T, rtol=1e-10)
    interval = fitted_once().predict_interval(sparse.csr_array(X), level=0.8)
    for row in (0, N - 1):
        for bound, level in zip(interval[row], (0.1, 0.9), strict=True):
            assert ndtr((bound - linear[row]) / np.sqrt(sigma2)).mean() == pytest.approx(level)
    assert fitted_once().score(X, Y) == pytest.approx(1 - ((Y - mean) ** 2).sum() / N / Y.var())
    new = fitted_once().sample_predictive(X, random_state=0)
    assert new.shape == (100, N)
    z = (new - mean) / sd
    assert abs(z.mean()) < 0.05 and z.std() == pytest.approx(1, abs=0.03)
    few = fitted_once().sample_predictive(X, n_draws=7, random_state=0)
    assert few.shape == (7, N)
    chosen = np.sort(np.random.RandomState(0).choice(100, 7, replace=False))
    assert np.corrcoef((few - mean).ravel(), (linear.T[chosen] - mean).ravel())[0, 1] > 0.1
    assert (few == fitted_once().sample_predictive(X, n_draws=7, random_state=0)).all()


def test_quantiles_of_mixtures():
    random = np.random.default_rng(4)
    mean = np.vstack([random.normal(size=40), np.repeat([-1e6, 1e6], 20), np.full(40, 3.0)])
    sd = random.uniform(0.01, 2.0, 40)
    for level in (1e-6, 0.025, 0.3, 0.5, 0.999):
        for row, value in enumerate(mixture_quantile(mean, sd, level)):

            def excess(x, row=row, level=level):
                return ndtr((x - mean[row]) / sd).mean() - level

            if row == 1 and level == 0.5:
                assert excess(value) == pytest.approx(0.0, abs=1e-12)  # anywhere between
                continue
            assert value == pytest.approx(brentq(excess, -2e6, 2e6, xtol=1e-12), abs=1e-6)


def test_quantiles_of_mixtures_of_unlike_scales():
    """Tails of narrow parts overflow, and Newton steps crawl along wide ones."""
    random = np.random.default_rng(5)
    for level in (1e-6, 0.3, 0.999):
        mean, sd = random.normal(size=(1, 300)), 10.0 ** random.uniform(-160, 3, 300)
        [value] = mixture_quantile(mean, sd, level)
        near = np.array([-1, 1]) * (1e-9 * abs(value) + 1e-12 * np.ptp(mean))
        with np.errstate(over="ignore"):
            below, above = ndtr((value + near[:, None] - mean) / sd).mean(axis=1)
        assert below - 1e-9 <= level <= above + 1e-9
    with pytest.raises(FloatingPointError, match="quantiles of predictions were not found"):
        mixture_quantile(np.array([[0.0, np.nan]]), np.ones(2), 0.5)


WIDE = RANDOM.normal(size=(6, 9))
ERRORS = {
    "nan": (lambda: fit(y=np.where(np.arange(N) == 4, np.nan, Y)), "`y` has 1 NaN or infinite"),
    "inf in X": (lambda: fit(np.where(np.arange(N * P).reshape(N, P) == 4, np.inf, X)), "inf"),
    "text": (lambda: fit(np.full((N, P), "many")), "numbers"),
    "length": (lambda: fit(y=Y[:-1]), "`y` has 59 entries, `X` has 60 rows; pass one per row."),
    "one row": (lambda: fit(X[:1], Y[:1]), "n_samples = 1 row"),
    "weights of one": (
        lambda: fit(sample_weight=1.0 * (np.arange(N) == 3)),
        "n_samples = 1 row(s) of positive weight; at least 2 are needed",
    ),
    "no weight": (lambda: fit(sample_weight=np.zeros(N)), "`sample_weight` is zero in every row"),
    "negative weight": (lambda: fit(sample_weight=-WEIGHT), "`sample_weight` is -"),
    "constant y": (lambda: fit(y=np.full(N, 0.1)), "`y` is constant, so that nothing but"),
    "constant X": (lambda: fit(np.ones((N, 2))), "`X` has constant columns only, and lambda_rate="),
    "constant X, horseshoe": (
        lambda: fit(np.ones((N, 2)), prior="horseshoe"),
        'global_scale="auto" is relative to their spread; leave them out, or pass a number as',
    ),
    "improper": (
        lambda: fit(WIDE, WIDE[:, 0], noise_rate=0),
        "the posterior is improper: the rate of the noise's prior is 0, and 9 column(s) can fit "
        "6 rows without an error; pass a positive `noise_rate`",
    ),
    "improper by shape": (lambda: fit(WIDE, WIDE[:, 0], noise_shape=0), "the posterior is improp"),
    "exact fit": (lambda: fit(y=X @ np.ones(P), noise_rate=0), "the posterior is improper"),
    "exact fit far from 0": (
        lambda: fit(y=1e6 + X @ np.ones(P), noise_rate=0),
        "the posterior is improper",
    ),
    "nothing tells lambda": (
        lambda: fit(np.ones((N, 2)), lambda_shape=0, lambda_rate=1.0),
        "`X` has constant columns only, which tell nothing of lambda",
    ),
    "tiny lambda": (lambda: fit(lam=1e-160), "`lam` is 1e-160, whose square float64 cannot hold;"),
    "huge lambda": (lambda: fit(lam=1e200), "`lam` is 1e+200, whose square float64 cannot hold;"),
    "tiny scale": (
        lambda: fit(prior="horseshoe", global_scale=1e-200),
        "`global_scale` is 1e-200, whose square float64 cannot hold; rescale `X`",
    ),
    "tiny": (lambda: fit(1e-170 * X), "the squares of `X` are too small for float64; rescale it."),
    "tiny y": (lambda: fit(y=1e-170 * Y), "the squares of `y` are too small for float64; resc"),
    "huge": (lambda: fit(1e200 * X), "the squares of `X` are infinite; rescale it."),
    "huge y": (lambda: fit(y=1e200 * Y), "the squares of `y` are infinite; rescale it."),
    "lambda of the horseshoe": (
        lambda: fit(prior="horseshoe", lam=1.0),
        '`lam` is 1, but prior="horseshoe" has no lambda; leave it out, or set',
    ),
    "prior": (lambda: fit(prior="cauchy"), "'prior' parameter of BayesianLasso must be a str"),
    "sampler": (lambda: fit(sampler="gibbs"), "'sampler' parameter"),
    "lambda rate 0": (lambda: fit(lambda_rate=0.0), "'lambda_rate' parameter"),
    "lambda infinite": (lambda: fit(lam=np.inf), "'lam' parameter"),
    "lambda negative": (lambda: fit(lam=-1.0), "'lam' parameter"),
    "noise nan": (lambda: fit(noise_rate=np.nan), "'noise_rate' parameter"),
    "local df": (lambda: fit(local_df=0), "'local_df' parameter"),
    "draws": (lambda: fit(n_draws=2.5), "'n_draws' parameter"),
    "level": (
        lambda: fitted_once().predict_interval(X, level=95),
        "`level` is 95, must lie between 0 and 1",
    ),
    "kind": (
        lambda: fitted_once().predict_interval(X, kind="old"),
        "`kind` is 'old', must be 'new' or",
    ),
    "too many draws": (
        lambda: fitted_once().sample_predictive(X, n_draws=101),
        "`n_draws` is 101, must be a whole number from 1 to the 100 draws of the posterior.",
    ),
    "columns": (
        lambda: fitted_once().predict(X[:, 1:]),
        "X has 4 features, but BayesianLasso is expect",
    ),
    "no draws": (
        lambda: summarized().predict_interval(np.tile(X, 4)),
        'draws of coef were not kept, as keep="summary" asked for; fit with keep="float64" or',
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_mistakes_are_named(case):
    call, message = ERRORS[case]
    with pytest.raises((ValueError, TypeError)) as raised:
        call()
    assert message in str(raised.value)


def test_improper_priors_of_the_noise_where_data_suffice():
    assert fit(noise_shape=0, noise_rate=0).noise_rate_ == 0
    assert fit(noise_shape=0).noise_rate_ == 0
    assert fit(y=1e15 * Y, sample_weight=np.full(N, 1e-30)).noise_rate_ > 0  # inverse variances
    assert fit(WIDE, WIDE[:, 0]).noise_rate_ > 0
    assert fit(y=np.ones(N), noise_rate=1.0).predict(X) == pytest.approx(np.ones(N), abs=0.5)
    assert fit(np.ones((N, 1)), lambda_rate=1.0).n_features_in_ == 1


def test_a_failed_fit_leaves_the_one_before():
    fitted = fit()
    before = fitted.coef_.copy()
    with pytest.raises(ValueError, match="constant"):
        fitted.fit(X, np.ones(N))
    assert (fitted.coef_ == before).all() and fitted.noise_rate_ == fitted_once().noise_rate_
