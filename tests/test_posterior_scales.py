"""Posteriors under priors whose scales are drawn, or that are not normal, against quadrature.

Hundreds of independent chains run as one batch, as in `test_normal_posterior`.
"""

import numpy as np
import pandas as pd
import pytest
from faces import FACES, X
from grids import thin
from mistakes import check
from models import MODELS
from oracles.reference_glm import glm_direct
from oracles.reference_likelihoods import cox_direct
from scipy import stats
from scipy.special import exp1
from test_normal_posterior import TOO_SHORT, check_means, open_sampler, sample_batch

from sksurvgpu import CoxLassoCCD, LogisticCCD, posterior, surv
from sksurvgpu.bayes.mixtures import DF, MEDIAN_T

pytestmark = pytest.mark.filterwarnings(TOO_SHORT)
LENGTHS = {"n_chains": 120, "n_tune": 25, "n_draws": 30}
SHORT = {"n_tune": 5, "n_draws": 8}


def half_t(log_scale, median):
    """Density of a log scale, up to a constant."""
    scale = np.exp(log_scale)
    return scale * (1.0 + (scale * MEDIAN_T / median) ** 2 / DF) ** (-0.5 * (DF + 1.0))


PRIORS = {  # densities of a coefficient, given its scale
    "normal": lambda b, scale: np.exp(-0.5 * (b / scale) ** 2) / scale,
    "laplace": lambda b, scale: np.exp(-np.sqrt(2.0) * np.abs(b) / scale) / scale,
    "horseshoe": lambda b, scale: np.exp(0.5 * (b / scale) ** 2) * exp1(0.5 * (b / scale) ** 2),
}


def expect(functions, density, *axes):
    """Means of functions over a grid, points of which are rows."""
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    weight = density(grid)
    return weight @ functions(grid) / weight.sum()


def moments(points):
    """All points, their squares and products."""
    d = points.shape[-1]
    products = [points[..., i] * points[..., j] for i in range(d) for j in range(i, d)]
    return np.concatenate([points, np.stack(products, axis=-1)], axis=-1)


@pytest.mark.parametrize("prior", ["normal", "laplace"])
def test_scales_that_are_drawn(prior, monkeypatch):
    rng = np.random.default_rng(1)
    x = rng.normal(size=14)
    y = rng.random(14) < 1.0 / (1.0 + np.exp(-1.5 * x))

    def density(grid):
        b, log_scale = grid.T
        likelihood = np.exp(
            [glm_direct(x * beta, 1.0 * y, "logistic", intercept=False).loglik for beta in axis]
        )
        likelihood = np.repeat(likelihood, len(log_scale) // len(axis))
        return likelihood * PRIORS[prior](b, np.exp(log_scale)) * half_t(log_scale, 0.8)

    axis = np.linspace(-4.0, 10.0, 1_400) + 1e-4
    expected = expect(moments, density, axis, np.linspace(-12.0, 6.0, 200))
    result = sample_batch(
        monkeypatch,
        LogisticCCD(fit_intercept=False),
        x[:, None],
        y,
        prior=prior,
        scale="learn",
        scale_median=0.8,
        **LENGTHS,
    )
    draws = np.stack([result.draws["coef"][..., 0], np.log(result.draws["scale"])], axis=-1)
    check_means(moments(draws), expected)
    penalty = {"normal": lambda s: s**-2, "laplace": lambda s: np.sqrt(2.0) / s}[prior]
    np.testing.assert_allclose(result.draws["alpha"], penalty(result.draws["scale"]) / 14)


def test_a_laplace_prior_of_known_scale(monkeypatch):
    """Cox regression with ties, entry times, strata and weights; two coefficients."""
    sample = MODELS["cox, efron"].sample(11, p=2, kind="valued")
    X, given = sample.X.toarray(), sample.y
    y = surv(given["event"], given["time"], start=given["start"], stratum=given["strata"])
    mean = np.array([0.0, 0.7])

    def density(grid):
        loglik = [
            cox_direct(X @ b, **given, weights=sample.weights, ties="efron").loglik for b in grid
        ]
        return np.exp(loglik) * PRIORS["laplace"](grid - mean, 0.4).prod(axis=1)

    result = sample_batch(
        monkeypatch,
        CoxLassoCCD(ties="efron"),
        X,
        y,
        prior="laplace",
        scale=0.4,
        prior_mean=mean,
        sample_weight=sample.weights,
        **LENGTHS,
    )
    draws = result.draws["coef"]
    axes = [m + np.linspace(-7.0, 7.0, 45) * draws[..., j].std() + 1e-4 for j, m in enumerate(mean)]
    check_means(moments(draws), expect(moments, density, *axes))
    assert set(result.draws) == {"coef"}


def test_a_horseshoe_is_what_weights_of_its_prior_say(monkeypatch):
    """Importance sampling from the prior, with groups, a slab and an intercept."""
    face, n = FACES["poisson"], 150_000
    rows, columns = slice(0, 30), [8, 9, 10]
    design = X.toarray()[rows][:, columns]
    rng = np.random.default_rng(2)
    scale = 0.5 / MEDIAN_T * np.abs(rng.standard_t(DF, (n, 2)))
    width = scale[:, [0, 1, 0]] * np.abs(rng.standard_cauchy((n, 3)))
    slab = 1.5
    coef = rng.normal(size=(n, 3)) / np.hypot(1.0 / width, 1.0 / slab)
    intercept = rng.normal(size=n) / np.sqrt(4.0)
    eta = coef @ design.T + intercept[:, None]
    loglik = eta @ face.y[rows] - np.exp(eta).sum(axis=1)
    # the slab is a factor of the density, and leaves less of wide priors
    weight = np.exp(loglik - loglik.max()) / np.hypot(1.0, width / slab).prod(axis=1)
    points = np.column_stack([np.tanh(coef), np.tanh(intercept), np.tanh(np.log(scale))])
    values = moments(points)
    expected = weight @ values / weight.sum()
    error = np.sqrt(weight**2 @ (values - expected) ** 2) / weight.sum()
    result = sample_batch(
        monkeypatch,
        face.make(),
        design,
        face.y[rows],
        prior="horseshoe",
        scale_groups=["a", "b", "a"],
        scale_median=0.5,
        slab=slab,
        intercept_precision=4.0,
        **LENGTHS,
    )
    draws = result.draws
    points = np.concatenate(
        [
            np.tanh(draws["coef"]),
            np.tanh(draws["intercept"])[..., None],
            np.tanh(np.log(draws["scale"])),
        ],
        axis=-1,
    )
    means = moments(points).mean(axis=1)
    errors = np.hypot(error, means.std(axis=0, ddof=1) / np.sqrt(len(means)))
    assert np.abs((means.mean(axis=0) - expected) / errors).max() < 4.8
    assert "alpha" not in draws


def test_what_the_data_do_not_determine_is_as_the_prior_has_it(monkeypatch):
    """A constant column in a group of its own: its scale, and it, keep their prior."""
    rng = np.random.default_rng(6)
    X = np.column_stack([rng.normal(size=(40, 2)), np.ones(40)])
    result = sample_batch(
        monkeypatch,
        CoxLassoCCD(),
        X,
        surv(np.ones(40, bool), rng.exponential(size=40)),
        prior="laplace",
        scale_groups={2: "constant"},
        scale_median=2.0,
        prior_mean={2: -1.0},
        n_chains=300,
        n_tune=15,
        n_draws=8,
    )
    scale, coef = result.draws["scale"][:, -1, 1], result.draws["coef"][:, -1, 2]
    for values in (
        2.0 * stats.t.sf(scale * MEDIAN_T / 2.0, DF),
        stats.laplace.cdf(np.sqrt(2.0) * (coef + 1.0) / scale),
    ):
        assert stats.kstest(values, "uniform").pvalue > 1e-5


def test_a_known_scale_of_a_normal_prior_is_a_precision():
    face = FACES["cox"]
    by_scale, by_precision = (
        posterior(face.make(), X, face.y, prior_mean=0.2, **given, **SHORT).draws["coef"]
        for given in ({"scale": 0.5}, {"prior_precision": 4.0})
    )
    np.testing.assert_array_equal(by_scale, by_precision)


def test_columns_are_in_their_groups(monkeypatch):
    """By name, with every coefficient of a column; None is a flat prior."""
    rng = np.random.default_rng(7)
    names = ["age", "dose", "sex", "site"]
    table = pd.DataFrame(rng.normal(size=(60, 4)), columns=names)
    y = surv(rng.random(60) < 0.7, rng.exponential(size=60))
    model = CoxLassoCCD(time_varying={"age": [0.5]})
    groups = {"age": "person", "sex": "person", "dose": None}
    given = {"prior": "laplace", "scale_groups": groups, "slab": 2.0}
    prior = open_sampler(monkeypatch, model, table, y, **given)._prior
    expected = np.array([[0, 1], [0, 1], [0, 0], [0, 1], [1, 0]])
    person_first = prior.members[:, ::-1] if prior.members[0, 0] else prior.members
    np.testing.assert_array_equal(person_first, expected)
    np.testing.assert_array_equal(prior.precision, [0.25, 0.25, 0.0, 0.25, 0.25])
    np.testing.assert_array_equal(np.isinf(prior.scale), [False, False, True, False, False])


def test_the_result_names_its_scales():
    face = FACES["logistic"]
    given = {"prior": "laplace", "scale_groups": ["a", "b", "a"], **SHORT}
    result = posterior(face.make(), X[:, :3], face.y, **given)
    assert result.summary().index.tolist() == [
        *("coef[x0]", "coef[x1]", "coef[x2]", "intercept"),
        *("scale[a]", "scale[b]", "alpha[a]", "alpha[b]"),
    ]
    alone = posterior(face.make(), X[:, :3], face.y, prior="horseshoe", **SHORT)
    assert alone.labels[3:] == ["intercept", "scale"]


@pytest.mark.parametrize("name", FACES.keys() - {"linear"})
def test_every_model_has_these_posteriors(name):
    face = FACES[name]
    lengths = {"n_chains": 2, "n_tune": 30, "n_draws": 20}
    result = posterior(
        face.make(n_jobs=1), X, face.y, prior="horseshoe", **lengths, **face.arguments()
    )
    assert np.isfinite(result.draws["coef"]).all()
    assert (np.diff(result.draws["coef"], axis=1) != 0).any(axis=2).mean() > 0.5
    assert (np.diff(result.draws["scale"]) != 0).all()


@pytest.mark.parametrize("prior", ["laplace", "horseshoe"])
def test_chains_depend_on_nothing_but_the_seed(prior):
    face = FACES["cox"]
    model = {1: face.make(n_jobs=1), 2: face.make(n_jobs=2)}

    def draws(n_jobs=1, **given):
        given = {"prior": prior, "n_chains": 3, **SHORT, **given}
        return posterior(model[n_jobs], X, face.y, **given).draws["coef"]

    expected = draws()
    np.testing.assert_array_equal(draws(n_jobs=2), expected)
    np.testing.assert_array_equal(draws(n_chains=2), expected[:2])
    assert np.abs(draws(random_state=1) - expected).min() > 0.0


@pytest.mark.parametrize("prior", thin(2, ["horseshoe", "laplace"]))
def test_a_device_draws_as_the_cpu_does(prior, monkeypatch):
    from gpu.backend import simulate_backend

    simulate_backend(monkeypatch, seed=3)
    face, few = FACES["logistic"], slice(0, 20)
    lengths = {"n_chains": 2, "n_tune": 1, "n_draws": 2}
    cpu_draws, cuda_draws = (
        posterior(face.make(backend=backend), X[few, 8:10], face.y[few], prior=prior, **lengths)
        for backend in ("cpu", "cuda")
    )
    for quantity, expected in cpu_draws.draws.items():
        np.testing.assert_allclose(cuda_draws.draws[quantity], expected, rtol=1e-6)


def draw(**given):
    face = FACES["cox"]
    return posterior(face.make(), X, face.y, **SHORT, **given)


POSITIVE = "must be a positive finite number"
LEARN_ONLY = (
    'only scales that are drawn have groups and a prior; pass scale="learn", or leave it out.'
)
BAD_INPUT = {
    "unknown prior": (lambda: draw(prior="cauchy"), "`prior`...'cauchy'"),
    "scale zero": (lambda: draw(prior="laplace", scale=0.0), "`scale`...0.0...finite number"),
    "scale of text": (lambda: draw(scale="auto"), "`scale`...'auto'...finite number"),
    "two widths": (
        lambda: draw(scale=2.0, prior_precision=1.0),
        "`prior_precision`...given, and `scale` is 2.0, which says how wide the prior is...known",
    ),
    "precision of a Laplace prior": (
        lambda: draw(prior="laplace", prior_precision=1.0),
        "`prior_precision`...`prior` is 'laplace'",
    ),
    "groups of a known scale": (
        lambda: draw(prior="laplace", scale=1.0, scale_groups={0: "a"}),
        "`scale_groups`...`scale` is 1.0",
    ),
    "median of a known scale": (
        lambda: draw(scale_median=1.0),
        "`scale_median`...`scale` is None",
    ),
    "slab of a known normal prior": (lambda: draw(slab=1.0), "`slab`...1.0...known"),
    "negative slab": (lambda: draw(prior="horseshoe", slab=-1.0), "`slab`...-1.0...finite number"),
    "median true": (
        lambda: draw(scale="learn", scale_median=True),
        "`scale_median`...True...finite number",
    ),
    "group of no column": (
        lambda: draw(scale="learn", scale_groups={12: "a"}),
        "`scale_groups`...column 12...columns 0 to",
    ),
    "too few groups": (
        lambda: draw(scale="learn", scale_groups=["a", "b"]),
        "`scale_groups`...2 entries...dictionary",
    ),
    "groups of text": (
        lambda: draw(scale="learn", scale_groups="a"),
        "`scale_groups`...'a'...dictionary",
    ),
    "group without a label": (
        lambda: draw(scale="learn", scale_groups=[np.nan] * 12),
        "`scale_groups`...nan...strings or numbers",
    ),
    "label that is a list": (
        lambda: draw(scale="learn", scale_groups={0: ["a"]}),
        "`scale_groups`...['a']...strings or numbers",
    ),
    "no groups": (
        lambda: draw(scale="learn", scale_groups=[None] * 12),
        "`scale_groups`...no scale to draw...label some columns",
    ),
}


@pytest.mark.parametrize("case", BAD_INPUT)
def test_mistakes_have_messages(case):
    call, message = BAD_INPUT[case]
    check(call, ValueError, message)
