"""Published moments of posteriors, and the plain samplers of the benchmarks against them.

Under Student's t with 99 degrees of freedom a score above `LARGEST_Z` has probability 3e-8, so one
of the 104 of a lasso 3e-6. Wrong formulas reach 9 and more: a PG variable that is a sweep old; an
offset, a prior mean or the half of kappa left out; the half or the p of the lasso's gammas.
"""

import numpy as np
import pytest
from oracles.posteriors import Reference
from sklearn.datasets import load_diabetes

from benchmarks.samplers import PolyaGammaGibbs, PublishedLasso

LARGEST_Z = 6.0
REFERENCES = [
    ("bayes_lasso", "diabetes", 2e-3),
    ("bayes_multinomial", "counts", 1e-4),
    ("bayes_multinomial", "iris", 1e-4),
]


@pytest.mark.parametrize(("file", "name", "largest_error"), REFERENCES)
def test_references_are_consistent_and_precise(file, name, largest_error):
    reference = Reference.of(file, name)
    assert np.linalg.eigvalsh(reference.covariance / np.outer(reference.sd, reference.sd))[0] > 0
    np.testing.assert_allclose(np.diag(reference.covariance), reference.sd**2, rtol=1e-6)
    assert (reference.mean_error < largest_error * reference.sd).all()
    assert (reference.sd_error < largest_error * reference.sd).all()
    scale = np.outer(reference.sd, reference.sd)
    assert (reference.covariance_error < 2 * largest_error * scale).all()


@pytest.fixture
def reference():
    return Reference.of("bayes_multinomial", "counts")


def normal_draws(mean, covariance):
    root = np.linalg.cholesky(covariance)
    return mean + np.random.default_rng(5).standard_normal((4, 5_000, len(mean))) @ root.T


def test_scores_accept_the_right_moments_and_no_others(reference):
    mean, covariance, sd = reference.mean, reference.covariance, reference.sd
    assert reference.largest_z(normal_draws(mean, covariance)) < LARGEST_Z
    shifted = reference.z_scores(normal_draws(mean + 0.1 * sd * (np.arange(6) == 2), covariance))
    assert np.argmax(np.abs(shifted["mean"])) == 2
    assert abs(shifted["mean"][2]) > LARGEST_Z
    stretch = np.where(np.arange(6) == 4, 1.1, 1.0)
    stretched = reference.z_scores(normal_draws(mean, covariance * np.outer(stretch, stretch)))
    assert np.argmax(np.abs(stretched["sd"])) == 4
    assert stretched["sd"][4] > LARGEST_Z
    apart = reference.z_scores(normal_draws(mean, np.diag(sd**2)))
    assert max(np.abs(apart["mean"]).max(), np.abs(apart["sd"]).max()) < LARGEST_Z
    assert np.abs(apart["covariance"]).max() > LARGEST_Z


def run(samplers, record, n_tune, n_draws):
    draws = []
    for sampler in samplers:
        for _ in range(n_tune):
            sampler.sweep()
        chain = []
        for _ in range(n_draws):
            sampler.sweep()
            chain.append(record(sampler))
        draws.append(chain)
    return np.array(draws)


def test_published_lasso_route_draws_the_published_posterior():
    reference = Reference.of("bayes_lasso", "diabetes")
    X, y = load_diabetes(return_X_y=True)
    rng = np.random.default_rng(3)

    def record(sampler):
        intercept = y.mean() + np.sqrt(sampler.sigma2 / len(y)) * rng.standard_normal()
        return [*sampler.coef, intercept, sampler.sigma2, sampler.lambda2]

    prior = reference.case["prior"]
    samplers = [PublishedLasso(X, y, prior, seed) for seed in range(4)]
    assert reference.largest_z(run(samplers, record, 200, 1_500)) < LARGEST_Z


def polya_gamma(rng, n_terms=20):
    """PG(counts, z) as its sum of gamma variates, the mean of what is left out added."""
    k = np.arange(n_terms) + 0.5

    def draw(counts, z):
        denominators = 2.0 * np.pi**2 * (k**2 + (z[:, None] / (2.0 * np.pi)) ** 2)
        gammas = rng.standard_gamma(counts[:, None], size=denominators.shape)
        half = 0.5 * np.maximum(np.abs(z), 1e-8)
        mean = counts * np.tanh(half) / (4.0 * half)
        return (
            (gammas / denominators).sum(axis=1) + mean - counts * (1.0 / denominators).sum(axis=1)
        )

    return draw


@pytest.mark.slow
def test_plain_gibbs_sampler_draws_the_integrated_posterior(reference):
    X, counts, mean, precision = (
        np.array(reference.case[key]) for key in ("X", "counts", "prior_mean", "prior_precision")
    )
    samplers = [
        PolyaGammaGibbs(X, counts, mean, precision, polya_gamma(np.random.default_rng(seed)), seed)
        for seed in range(4)
    ]
    draws = run(samplers, lambda sampler: sampler.recorded().copy(), 100, 1_200)
    assert reference.largest_z(draws) < LARGEST_Z
