"""Posteriors under normal priors against quadrature, Hessians and known distributions.

Where moments are tested, hundreds of independent chains run as one batch, so that the standard
error of a mean over chains is known; z-scores stay below 4.8, as in `test_hmc`.
"""

import numpy as np
import pytest
from faces import FACES, IS_CASE, SUBJECT, N, X
from grids import thin
from mistakes import check
from models import MODELS
from oracles.reference_glm import glm_direct
from oracles.reference_likelihoods import cox_direct
from sklearn.exceptions import ConvergenceWarning

from sksurvgpu import (
    ConditionalLogisticCCD,
    CoxLassoCCD,
    CoxLassoCV,
    LogisticCCD,
    PoissonCCD,
    posterior,
    surv,
    wald,
)
from sksurvgpu.backends import cpu
from sksurvgpu.inference import posterior as module

LARGEST_Z = 4.8
SAMPLED = [name for name in FACES if name != "linear"]
N_CHAINS, N_TUNE, N_DRAWS = 150, 20, 30
TOO_SHORT = "ignore::sklearn.exceptions.ConvergenceWarning"  # for what diagnostics ask of a chain


def sample_batch(monkeypatch, estimator, X, y, **given):
    """Posterior by many short chains, which start dispersed, in one batch."""
    monkeypatch.setattr(cpu, "batched", True)
    lengths = {"n_chains": N_CHAINS, "n_tune": N_TUNE, "n_draws": N_DRAWS}
    return posterior(estimator, X, y, **{**lengths, **given})


def check_means(values, expected, context=""):
    """Means of functions (n_chains, n_draws, ...) over independent chains."""
    means = values.mean(axis=1)
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    z = (means.mean(axis=0) - expected) / error
    assert np.abs(z).max() < LARGEST_Z, (context, z)


def check_moments(draws, mean, covariance):
    """Means and covariances of draws (n_chains, n_draws, d)."""
    check_means(draws, mean, "means")
    centred = draws - mean
    check_means(centred[..., :, None] * centred[..., None, :], covariance, "covariances")


def integrate(log_density, draws, n=25, reach=8.0):
    """Mean and covariance in two dimensions by the trapezoid rule, over where draws are.

    For a smooth density its error falls like exp(-2 (pi / step)^2), with steps of 0.7 to 1 sd.
    """
    center, width = draws.mean(axis=(0, 1)), draws.std(axis=(0, 1))
    axes = [m + w * np.linspace(-reach, reach, n) for m, w in zip(center, width, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    height = np.array([log_density(point) for point in grid])
    weight = np.exp(height - height.max())
    weight /= weight.sum()
    assert weight.reshape(n, n)[[0, -1]].sum() + weight.reshape(n, n)[:, [0, -1]].sum() < 1e-6
    mean = weight @ grid
    return mean, (weight[:, None] * (grid - mean)).T @ (grid - mean)


@pytest.mark.filterwarnings(TOO_SHORT)
def test_logistic_regression(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(12, 2))
    y = rng.random(12) < 0.7
    mean, precision = np.array([1.0, -0.5]), np.array([0.2, 1.0])

    def log_density(beta):
        evaluation = glm_direct(X @ beta, y.astype(float), "logistic", intercept=False)
        return evaluation.loglik - 0.5 * precision @ (beta - mean) ** 2

    result = sample_batch(
        monkeypatch,
        LogisticCCD(fit_intercept=False),
        X,
        y,
        prior_mean=mean,
        prior_precision=precision,
    )
    draws = result.draws["coef"]
    check_moments(draws, *integrate(log_density, draws))


@pytest.mark.filterwarnings(TOO_SHORT)
def test_cox_regression(monkeypatch):
    """Strata, entry times, ties by Efron, weights and an offset."""
    sample = MODELS["cox, efron"].sample(11, p=2, kind="valued")
    X, given = sample.X.toarray(), sample.y
    y = surv(given["event"], given["time"], start=given["start"], stratum=given["strata"])

    def log_density(beta):
        eta = X @ beta + sample.offset
        evaluation = cox_direct(eta, **given, weights=sample.weights, ties="efron")
        return evaluation.loglik - 0.5 * 0.3 * (beta[0] ** 2 + (beta[1] - 1.0) ** 2)

    result = sample_batch(
        monkeypatch,
        CoxLassoCCD(ties="efron"),
        X,
        y,
        prior_mean={1: 1.0},
        prior_precision=0.3,
        sample_weight=sample.weights,
        offset=sample.offset,
    )
    draws = result.draws["coef"]
    check_moments(draws, *integrate(log_density, draws, n=17))


@pytest.mark.thorough
@pytest.mark.filterwarnings(TOO_SHORT)
def test_poisson_regression_with_an_intercept(monkeypatch):
    rng = np.random.default_rng(3)
    x, exposure = 2.0 + rng.normal(size=8), rng.uniform(0.5, 2.0, 8)
    count = rng.poisson(exposure)

    def log_density(theta):
        eta = theta[0] * x + theta[1] + np.log(exposure)
        evaluation = glm_direct(eta, count.astype(float), "poisson", intercept=False)
        return evaluation.loglik - 0.5 * (0.5 * theta[0] ** 2 + 2.0 * theta[1] ** 2)

    result = sample_batch(
        monkeypatch,
        PoissonCCD(),
        x[:, None],
        count,
        prior_precision=0.5,
        intercept_precision=2.0,
        exposure=exposure,
    )
    draws = np.stack([result.draws["coef"][..., 0], result.draws["intercept"]], axis=-1)
    check_moments(draws, *integrate(log_density, draws))


def open_sampler(monkeypatch, estimator, X, y, **given):
    """The sampler that `posterior` makes for its first chain, before it has drawn anything."""
    opened = []

    def run_chains(make_sampler, schedule, **options):
        opened.append(make_sampler(np.arange(1)))
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "run_chains", run_chains)
    with pytest.raises(KeyboardInterrupt):
        posterior(estimator, X, y, **given)
    return opened[0]


ESTIMATORS = {name: FACES[name].make(n_jobs=1) for name in SAMPLED} | {
    "cox, efron, pieces": CoxLassoCCD(ties="efron", time_varying={1: [10.0, 30.0]}, n_jobs=1),
    "conditional logistic, efron": ConditionalLogisticCCD(ties="efron", n_jobs=1),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_mode_gradient_and_factor_of_every_model(name, monkeypatch):
    face = FACES[name.split(",")[0]]
    sampler = open_sampler(
        monkeypatch,
        ESTIMATORS[name],
        X,
        face.y,
        prior_mean=0.3,
        prior_precision={0: 2.0, 5: 0.7},
        **face.arguments(face.rows),
    )
    target, mode = sampler._target, sampler._mode

    def value(position):
        return target.value_and_gradient(position[None])[0][0]

    def gradient(position):
        return target.value_and_gradient(position[None])[1][0]

    rng = np.random.default_rng(4)
    elsewhere, direction = mode + rng.normal(size=mode.size), rng.normal(size=mode.size)
    step = 1e-4
    ahead, behind = (value(elsewhere + s * direction) for s in (step, -step))
    assert (ahead - behind) / (2 * step) == pytest.approx(gradient(elsewhere) @ direction, rel=1e-6)
    hessian = np.array(
        [
            (gradient(mode - step * e) - gradient(mode + step * e)) / (2 * step)
            for e in np.eye(mode.size)
        ]
    )
    (inverse,) = sampler._map._blocks
    np.testing.assert_allclose(inverse @ hessian @ inverse.T, np.eye(mode.size), atol=1e-5)
    assert np.abs(inverse @ gradient(mode)).max() < 2e-3  # standard deviations


@pytest.mark.thorough
@pytest.mark.filterwarnings(TOO_SHORT)
def test_a_large_sample_is_as_without_a_prior(monkeypatch):
    """Bernstein and von Mises: Wald's estimate and standard errors."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(1_000, 3))
    y = rng.random(1_000) < 1.0 / (1.0 + np.exp(-X @ [0.5, 0.0, -0.5]))
    result = sample_batch(monkeypatch, LogisticCCD(), X, y, prior_precision=0.0, n_chains=60)
    expected = wald(LogisticCCD(alpha=0).fit(X, y), X, y)
    errors = expected.standard_errors
    np.testing.assert_allclose(result.mean("coef"), expected.coef, atol=0.15 * errors.min())
    np.testing.assert_allclose(result.sd("coef"), errors, rtol=0.1)


@pytest.mark.thorough
@pytest.mark.filterwarnings(TOO_SHORT)
def test_what_the_data_do_not_determine_is_as_the_prior_has_it(monkeypatch):
    """Two equal columns, whose difference they leave, and a constant one."""
    rng = np.random.default_rng(6)
    x = rng.normal(size=40)
    X = np.column_stack([x, x, np.ones(40)])
    result = sample_batch(
        monkeypatch,
        CoxLassoCCD(),
        X,
        surv(np.ones(40, bool), rng.exponential(size=40)),
        prior_mean=[1.0, 0.0, -3.0],
        prior_precision=[0.5, 2.0, 0.25],
    )
    draws = result.draws["coef"]
    # the sum is determined to some degree: of it, the difference's best guess is a multiple
    ratio = (1 / 0.5 - 1 / 2.0) / (1 / 0.5 + 1 / 2.0)
    difference = draws[..., 0] - draws[..., 1] - ratio * (draws[..., 0] + draws[..., 1])
    unknown = np.stack([difference, draws[..., 2]], axis=-1)
    check_moments(unknown, [1.0 - ratio, -3.0], np.diag([2.5 - 1.5 * ratio, 4.0]))


@pytest.mark.filterwarnings(TOO_SHORT)
def test_means_of_the_prior_draw_coefficients_to_them():
    face = FACES["cox"]
    lengths = {"n_tune": 20, "n_draws": 50}
    means = [
        posterior(
            CoxLassoCCD(), X, face.y, prior_mean={0: mean}, prior_precision=50.0, **lengths
        ).mean("coef")[0]
        for mean in (-2.0, 0.0, 2.0)
    ]
    assert means[0] + 0.3 < means[1] < means[2] - 0.3
    tight = posterior(CoxLassoCCD(), X, face.y, prior_mean=1.5, prior_precision=1e8, **lengths)
    np.testing.assert_allclose(tight.mean("coef"), 1.5, atol=1e-4)


def test_columns_have_their_priors_by_name(monkeypatch):
    """Names find their columns, and every coefficient of a column gets its prior."""
    import pandas as pd

    rng = np.random.default_rng(7)
    table = pd.DataFrame(rng.normal(size=(60, 2)), columns=["age", "dose"])
    y = surv(rng.random(60) < 0.7, rng.exponential(size=60))
    model = CoxLassoCCD(time_varying={"age": [0.5]})
    given = {"prior_mean": {"age": 2.0}, "prior_precision": {"dose": 9.0}}
    density = open_sampler(monkeypatch, model, table, y, **given)._target
    np.testing.assert_array_equal(density._prior.mean, [2.0, 2.0, 0.0])
    np.testing.assert_array_equal(density._prior.precision, [1.0, 1.0, 9.0])


SHORT = {"n_tune": 5, "n_draws": 8}


@pytest.mark.filterwarnings(TOO_SHORT)
@pytest.mark.parametrize("name", ["cox", "poisson"])
def test_chains_depend_on_nothing_but_the_seed(name):
    face = FACES[name]

    def draws(n_jobs=1, **given):
        result = posterior(face.make(n_jobs=n_jobs), X, face.y, **{**SHORT, **given})
        return np.concatenate([a.reshape(*a.shape[:2], -1) for a in result.draws.values()], axis=-1)

    expected = draws(n_chains=3)
    np.testing.assert_array_equal(draws(n_chains=3, n_jobs=2), expected)
    np.testing.assert_array_equal(draws(n_chains=2), expected[:2])
    assert np.abs(draws(n_chains=3, random_state=1) - expected).min() > 0.0
    thinned = draws(n_chains=3, n_draws=4, thin=2)
    np.testing.assert_array_equal(thinned, expected[:, 1::2])
    np.testing.assert_array_equal(draws(n_chains=3, keep="float32"), expected.astype("float32"))


@pytest.mark.thorough
@pytest.mark.filterwarnings(TOO_SHORT)
@pytest.mark.parametrize("name", thin(2, ["logistic", "cox"]))
def test_a_device_draws_as_the_cpu_does(name, monkeypatch):
    from gpu.backend import simulate_backend

    simulate_backend(monkeypatch, seed=3)
    face, few = FACES[name], slice(0, 20)
    cpu_draws, cuda_draws = (
        posterior(
            face.make(backend=backend), X[few, 8:10], face.y[few], n_chains=2, n_tune=1, n_draws=3
        ).draws
        for backend in ("cpu", "cuda")
    )
    for quantity, expected in cpu_draws.items():
        np.testing.assert_allclose(cuda_draws[quantity], expected, rtol=1e-6)


def test_the_result_speaks_of_the_model():
    face = FACES["logistic"]
    with pytest.warns(ConvergenceWarning) as caught:
        result = posterior(face.make(), X[:, :3], face.y, n_chains=2, level=0.8, **SHORT)
    [few] = [str(w.message) for w in caught if "bulk ESS is below 200" in str(w.message)]
    assert few.startswith("posterior: ")
    assert " for coef[x" in few or " for intercept" in few
    assert {name: a.shape for name, a in result.draws.items()} == {
        "coef": (2, 8, 3),
        "intercept": (2, 8),
    }
    assert result.intervals.index.tolist() == ["x0", "x1", "x2"]
    assert result.level == 0.8
    table = result.summary()
    assert table.index.tolist() == ["coef[x0]", "coef[x1]", "coef[x2]", "intercept"]
    np.testing.assert_allclose(table["odds_ratio_upper"][:3], np.exp(table["upper"][:3]))
    assert np.isnan(table.loc["intercept", "odds_ratio"])


def test_trajectories_that_diverge_are_one_doubt(monkeypatch):
    monkeypatch.setattr("sksurvgpu.bayes.hmc.LARGEST_ERROR", -np.inf)
    face = FACES["cox"]
    with pytest.warns(ConvergenceWarning) as caught:
        posterior(face.make(), X[:, :2], face.y, n_chains=2, **SHORT)
    texts = [str(warning.message) for warning in caught if "diverged" in str(warning.message)]
    assert texts == [
        "posterior: 16 trajectories after tuning diverged, in chains 0, 1: the posterior is far "
        "from normal, and draws may miss a part of it; a prior with a larger precision helps."
    ]


def rare_events():
    """Rows of which few are events; the first column is 1 in three rows without one."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=4000)
    y = rng.random(4000) < 1 / (1 + np.exp(5.5 - 1.5 * z))
    x = np.zeros(4000)
    x[np.flatnonzero(~y & (z < -0.5))[:3]] = 1.0
    return np.column_stack([x, z]), y, np.where(y, rng.random(4000), 1.0 + rng.random(4000))


def separable(seed):
    """Forty indicators of a class, each wrong in 15 % of the rows: together they separate it."""
    rng, y = np.random.default_rng(seed), np.repeat([0, 1], 100)
    wrong = rng.random((200, 40)) < 0.15
    return np.where(wrong, 1 - y[:, None], y[:, None]) * 1.0, y


UNBOUNDED = "have a flat prior, and no posterior"


@pytest.mark.parametrize("name", ["cox", "poisson", "logistic"])
def test_a_likelihood_that_rises_for_ever_in_few_rows_is_refused(name):
    X, y, time = rare_events()
    outcome = surv(y, time) if name == "cox" else y.astype(float)
    with pytest.raises(ValueError, match=f"^the coefficients of `x0` {UNBOUNDED}"):
        posterior(FACES[name].make(), X, outcome, prior_precision=0.0, **SHORT)


@pytest.mark.parametrize("seed", [0, 2])
def test_columns_that_separate_together_are_refused(seed):
    with pytest.raises(ValueError, match=f"`x1`, .* more {UNBOUNDED}"):
        posterior(LogisticCCD(), *separable(seed), prior_precision=0.0, **SHORT)


def test_a_column_in_the_order_of_the_events_is_refused():
    x = np.random.default_rng(0).normal(size=50)
    with pytest.raises(ValueError, match=UNBOUNDED):
        posterior(
            CoxLassoCCD(), x[:, None], surv(np.ones(50), np.exp(-x)), prior_precision=0.0, **SHORT
        )


@pytest.mark.filterwarnings(TOO_SHORT)
def test_strong_effects_have_flat_priors():
    """Two groups of Poisson counts, whose mode is known, and a logistic model with far columns."""
    rng, group = np.random.default_rng(0), np.repeat([0.0, 1.0], 200)
    y = rng.poisson(np.where(group == 1, 5e6, 2.0)).astype(float)
    flat = {"prior_precision": 0.0, **SHORT}
    ratio = np.log(y[200:].mean() / y[:200].mean())
    draws = posterior(PoissonCCD(), group[:, None], y, **flat).draws["coef"]
    assert abs(draws - ratio).max() < 6 / np.sqrt(y[:200].sum())
    x = np.exp(1.2 * rng.normal(size=5000))
    y = (rng.random(5000) < 1 / (1 + np.exp(2.0 - x))).astype(float)
    draws = posterior(LogisticCCD(), x[:, None], y, **flat).draws["coef"]
    assert abs(draws - 1.0).max() < 0.3


def draw(name="cox", X=X, y=None, **given):
    face = FACES[name]
    return posterior(face.make(), X, face.y if y is None else y, **{**SHORT, **given})


SEPARATED = np.column_stack([IS_CASE, X.toarray()[:, 0]])
COLLINEAR = np.column_stack([X.toarray()[:, :2], np.ones(N)])[:, [0, 1, 1, 2]]
BAD_INPUT = {
    "no estimator": (lambda: posterior("cox", X, FACES["cox"].y), TypeError, "`estimator`...str"),
    "cross-validation": (
        lambda: posterior(CoxLassoCV(), X, FACES["cox"].y),
        TypeError,
        "`estimator`...CoxLassoCV",
    ),
    "linear model": (lambda: draw("linear"), TypeError, "`estimator`...LinearCCD...known"),
    "unknown argument of fit": (
        lambda: draw(stratum=SUBJECT),
        TypeError,
        "`stratum` is no argument of posterior and CoxLassoCCD.fit....",
    ),
    "mean of text": (
        lambda: draw(prior_mean="0"),
        ValueError,
        "`prior_mean`...'0'...finite number",
    ),
    "infinite mean": (
        lambda: draw(prior_mean=np.inf),
        ValueError,
        "`prior_mean`...inf...finite number",
    ),
    "means of other columns": (
        lambda: draw(prior_mean=[0.0, 1.0]),
        ValueError,
        "`prior_mean`...2 entries...one per column...dictionary",
    ),
    "negative precision": (
        lambda: draw(prior_precision=-1.0),
        ValueError,
        "`prior_precision`...-1.0...finite number",
    ),
    "precision true": (
        lambda: draw(prior_precision=True),
        ValueError,
        "`prior_precision`...True...finite number",
    ),
    "negative precision of a column": (
        lambda: draw(prior_precision={2: -1.0}),
        ValueError,
        "`prior_precision`...-1.0...finite number",
    ),
    "precision of no column": (
        lambda: draw(prior_precision={12: 1.0}),
        ValueError,
        "`prior_precision`...column 12...columns 0 to",
    ),
    "intercept of a Cox model": (
        lambda: draw(intercept_precision=2.0),
        ValueError,
        "`intercept_precision`...2",
    ),
    "missing precision of the intercept": (
        lambda: draw("logistic", intercept_precision=None),
        ValueError,
        "`intercept_precision`...None...finite number",
    ),
    "level in percent": (lambda: draw(level=95), ValueError, "`level`...95...between 0 and 1"),
    "no chain": (lambda: draw(n_chains=0), ValueError, "`n_chains`...0...at least 1"),
    "separated": (
        lambda: draw("logistic", SEPARATED, prior_precision={0: 0.0}),
        ValueError,
        "`x0`...flat prior...positive `prior_precision`",
    ),
    "collinear": (
        lambda: draw("logistic", COLLINEAR, prior_precision=0.0),
        ValueError,
        "`x1`, `x2`, `x3`, `intercept`...larger `prior_precision`",
    ),
    "means that overflow": (
        lambda: draw("poisson", prior_mean=1e300),
        ValueError,
        "the log-likelihood is not finite...`algorithm='majorized'`",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_mistakes_have_messages(case):
    check(*BAD_INPUT[case])
