"""The sampler of coefficients and scales, on logistic models with thousands of outcomes at once.

Coefficients and scales are drawn from the prior, then outcomes, so that each chain starts with an
exact draw of its posterior.  Sweeps must leave the joint distribution as it is (Geweke 2004): what
chains end with is distributed as the prior again, and no function of it has changed on average.
All z-scores stay below 4.8.
"""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import expit

from sksurvgpu.backends.cpu.sampling import Sampling
from sksurvgpu.bayes.mixtures import DF, MEDIAN_T, MIXTURES, log_half_t
from sksurvgpu.bayes.shrinkage import Reference, ShrinkagePrior, ShrinkageSampler, draw_from_slices

LARGEST_Z, LEAST_P_VALUE = 4.8, 1e-5
N_CHAINS, MEDIAN = 2_500, 0.7
# Two coefficients of a group, one of another, and one that the mixture leaves alone.
MEMBERS = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
IS_SHRUNK = MEMBERS.any(axis=1)
X = np.random.default_rng(0).normal(size=(8, 4))
MEAN = np.array([0.5, 0.0, 0.0, -0.3])


def make_prior(name, slab=np.inf, scale=None):
    known = np.where(IS_SHRUNK, slab**-2.0, 2.0)
    widths = np.where(IS_SHRUNK, 1.0 if scale is None else scale, np.inf)
    members = MEMBERS if scale is None else MEMBERS[:, :0]
    return ShrinkagePrior(MIXTURES[name], MEAN, known, widths, members, MEDIAN)


def draw_prior(name, prior, rng, n):
    """Log scales, local precisions and coefficients; a slab by rejection."""
    scale = MEDIAN / MEDIAN_T * np.abs(rng.standard_t(DF, (n, prior.n_groups)))
    local = {
        "normal": np.ones((n, 4)),
        "laplace": 1.0 / rng.exponential(size=(n, 4)),
        "horseshoe": rng.standard_cauchy((n, 4)) ** -2.0,
    }[name]
    precision = prior.precisions(np.log(scale), local)
    slab = np.where(IS_SHRUNK, prior.precision, 0.0)
    kept = rng.random(n) < np.sqrt(np.where(slab > 0, 1.0 - slab / precision, 1.0)).prod(axis=1)
    coef = MEAN + rng.normal(size=(n, 4)) / np.sqrt(precision)
    return np.log(scale)[kept], local[kept], coef[kept]


def open_chains(prior, y, seed=3):
    """Chains of logistic models of rows of X, a row of outcomes each."""

    def evaluate(coef):
        eta = coef @ X.T
        loglik = (y * eta - np.logaddexp(0.0, eta)).sum(axis=1)
        return loglik, (y - expit(eta)) @ X

    slope = np.array([0.1, -0.2, 0.0, 0.3])
    reference = Reference(0.2 * X.T @ X, slope, np.zeros(prior.n_groups))
    sampling = Sampling(seed, np.arange(len(y)))
    return ShrinkageSampler(sampling, evaluate, prior, reference, shapes={"coef": (4,)})


def place(sampler, log_scale, local, coef):
    loglik, gradient = sampler._evaluate(coef)
    sampler._point = sampler._point._replace(position=coef, loglik=loglik, gradient=gradient)
    sampler._log_scale, sampler._local = log_scale, local
    sampler._look_again()


def functions(sampler, y):
    """Bounded functions of coefficients, scales and outcomes."""
    coef, log_scale = sampler._point.position, sampler._log_scale
    distance = np.tanh(coef - MEAN)
    local = np.log(sampler._local[:, IS_SHRUNK])
    return np.column_stack(
        [
            distance,
            distance**2,
            distance[:, 0] * distance[:, 1],
            np.tanh(sampler._point.loglik / 8.0),
            np.tanh(coef) * (y @ X),
            np.tanh(log_scale),
            np.tanh(log_scale) * distance[:, : log_scale.shape[1]] ** 2,
            np.tanh(local),
            np.tanh(local) * distance[:, IS_SHRUNK] ** 2,
        ]
    )


CASES = [
    ("normal", np.inf, None),
    ("laplace", np.inf, None),
    ("horseshoe", np.inf, None),
    ("horseshoe", 0.8, None),
    ("normal", 0.8, None),
    ("laplace", np.inf, 0.6),
    ("horseshoe", np.inf, 0.3),
]


@pytest.mark.thorough(but=r"horseshoe-0|laplace-inf-0|normal-0")
@pytest.mark.parametrize(("name", "slab", "scale"), CASES)
def test_sweeps_leave_prior_times_likelihood_as_it_is(name, slab, scale):
    rng = np.random.default_rng(11)
    prior = make_prior(name, slab, scale)
    log_scale, local, coef = draw_prior(name, prior, rng, N_CHAINS)
    y = 1.0 * (rng.random((len(coef), len(X))) < expit(coef @ X.T))
    sampler = open_chains(prior, y)
    place(sampler, log_scale, local, coef)
    before = functions(sampler, y)
    for sampler.sampling.random.iteration in range(1, 9):
        sampler.sweep(tuning=False)
    change = functions(sampler, y) - before
    moves = change.std(axis=0)
    z = change.mean(axis=0) / np.where(moves > 0, moves / np.sqrt(len(change)), 1.0)
    assert np.abs(z).max() < LARGEST_Z, z
    if slab == np.inf and scale is None:
        for draws in np.exp(sampler._log_scale).T * MEDIAN_T / MEDIAN:
            assert stats.kstest(2.0 * stats.t.sf(draws, DF), "uniform").pvalue > LEAST_P_VALUE


def integral(function, low=-np.inf, high=np.inf):
    return quad(function, low, high, epsabs=0.0, epsrel=1e-10, limit=500)[0]


LOCAL_DENSITIES = {  # of the logarithm of a local scale
    "laplace": lambda t: 2.0 * np.exp(2.0 * t - np.exp(2.0 * t)),
    "horseshoe": lambda t: 2.0 / np.pi * np.exp(t) / (1.0 + np.exp(2.0 * t)),
}


@pytest.mark.parametrize("name", LOCAL_DENSITIES)
def test_densities_of_mixtures_are_integrals_over_local_scales(name):
    """Up to a constant, also of distances where an expansion takes over."""
    distances, scale = np.array([1e-3, 0.4, 3.0, 21.9, 22.7]), 0.7

    def joint(t, distance):
        width = scale * np.exp(t)
        return np.exp(-0.5 * (distance / width) ** 2) / width * LOCAL_DENSITIES[name](t)

    expected = np.log([integral(lambda t, d=d: joint(t, d), -20.0, 20.0) for d in distances])
    found = MIXTURES[name].log_density(distances, np.log(scale))
    np.testing.assert_allclose(found - found[0], expected - expected[0], atol=1e-8)


@pytest.mark.parametrize("ratio", [1e-200, 1e-3, 1.2, 1.5, 60.0])
def test_local_precisions_of_a_horseshoe_have_their_distribution(ratio):
    """One plus the precision, t, has the distribution function 1 - E1(u t) / E1(u)."""
    from scipy.special import exp1

    random = Sampling(5, np.arange(1)).random
    draws = MIXTURES["horseshoe"].draw_precision(random, 7, np.full((1, 4_000), ratio))
    u = 0.5 * max(ratio, 1e-150) ** 2
    assert np.isfinite(draws).all() and (draws > 0).all()
    share = exp1(u * (1.0 + draws[0])) / exp1(u) if u < 700 else np.exp(-u * draws[0])
    assert stats.kstest(share, "uniform").pvalue > LEAST_P_VALUE


def test_slices_leave_a_skewed_density_as_it_is():
    random, rng = Sampling(2, np.arange(5_000)).random, np.random.default_rng(3)
    position = np.log(rng.gamma(0.7, size=(5_000, 2)))
    for random.iteration in range(1, 6):
        position = draw_from_slices(lambda x: 0.7 * x - np.exp(x), position, random, (0, 1, 2))
    for column in np.exp(position).T:
        assert stats.kstest(column, "gamma", args=(0.7,)).pvalue > LEAST_P_VALUE
    assert abs(np.corrcoef(position.T)[0, 1]) < 0.07


def test_the_median_of_a_scale_is_that_of_its_prior():
    def density(t):
        return np.exp(log_half_t(np.array(t), 2.5))

    whole, half = integral(density, -40, 40), integral(density, -40, np.log(2.5))
    assert half / whole == pytest.approx(0.5, abs=1e-8)


def test_restored_chains_go_on_to_the_same_bits():
    y = np.random.default_rng(0).integers(0, 2, (3, len(X))) * 1.0
    prior = make_prior("laplace")

    def sweep(sampler, first, last):
        for sampler.sampling.random.iteration in range(first, last):
            sampler.sweep(tuning=sampler.sampling.random.iteration <= 20)
        return sampler

    whole, broken = (sweep(open_chains(prior, y), 1, 8) for _ in range(2))
    kept = {name: np.array(array) for name, array in broken.snapshot().items()}
    restored = open_chains(prior, y)
    restored.restore(kept)
    ends = [sweep(sampler, 8, 31) for sampler in (whole, restored)]
    for name, array in ends[0].snapshot().items():
        assert np.array(array).tobytes() == np.array(ends[1].snapshot()[name]).tobytes(), name
