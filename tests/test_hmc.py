"""Hamiltonian Monte Carlo against densities whose moments are known.

Chains are independent, and what is tested is one state of each: z-scores are exact.  All of them
stay below 4.8 (a probability of 1.6e-6 each, 1e-4 for the sixty of a test).
"""

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import block_diag

from sksurvgpu.backends.cpu.sampling import Sampling
from sksurvgpu.bayes import hmc
from sksurvgpu.bayes.doubts import doubts_of_divergence
from sksurvgpu.bayes.hmc import HmcSampler

LARGEST_Z, LEAST_P_VALUE = 4.8, 1e-5


class Target:
    """A log density and its gradient, as two functions of positions, in the same memory always."""

    def __init__(self, value, gradient):
        self.value, self.gradient, self.memory = value, gradient, None

    def value_and_gradient(self, positions):
        assert np.isfinite(positions).all()
        found = self.value(positions), self.gradient(positions)
        if self.memory is None or len(self.memory[0]) != len(positions):
            self.memory = tuple(np.empty_like(part) for part in found)
        for old, new in zip(self.memory, found, strict=True):
            old[:] = new
        return self.memory


def normal(mean, precision):
    return Target(
        lambda x: -0.5 * np.einsum("bi,ij,bj->b", x - mean, precision, x - mean),
        lambda x: -(x - mean) @ precision,
    )


def run(sampler, n_tune, n_draws):
    """Last state of every chain, and the share of accepted proposals after tuning."""
    random, n_accepted = sampler.sampling.random, 0.0
    for random.iteration in range(1, n_tune + n_draws + 1):
        before = sampler.state()["coef"].copy()
        sampler.sweep(tuning=random.iteration <= n_tune)
        if random.iteration > n_tune:
            n_accepted += (sampler.state()["coef"] != before).any(axis=1).mean()
    return sampler.state()["coef"], n_accepted / max(n_draws, 1)


def chains(n_chains, target, mode, factor, seed=1, first=0, **options):
    sampling = Sampling(seed, np.arange(first, first + n_chains))
    return HmcSampler(sampling, target, mode, factor, **options)


def check_means(values, expected):
    """Means of independent columns of values, within their own standard errors."""
    z = (values.mean(axis=0) - expected) / (values.std(axis=0) / np.sqrt(len(values)))
    assert np.abs(z).max() < LARGEST_Z, z


MEAN = np.array([1.0, -2.0, 0.5])
COVARIANCE = np.array([[2.0, 0.9, -0.4], [0.9, 0.8, 0.1], [-0.4, 0.1, 1.0]])
PRECISION = np.linalg.inv(COVARIANCE)


@pytest.mark.thorough(but=r"Hessian")
@pytest.mark.parametrize(
    "factor",
    [np.linalg.cholesky(PRECISION), np.ones(3), 0.5 * np.sqrt(np.diag(PRECISION))],
    ids=["of the Hessian", "none", "too wide"],
)
def test_a_normal_density_is_sampled_with_any_factor(factor):
    sampler = chains(10_000, normal(MEAN, PRECISION), MEAN + 0.3, factor)
    draws, _ = run(sampler, 20, 25)
    centred = draws - MEAN
    products = np.stack([centred[:, i] * centred[:, j] for i in range(3) for j in range(i, 3)], 1)
    upper = COVARIANCE[np.triu_indices(3)]
    check_means(draws, MEAN)
    check_means(products, upper)
    check_means(centred**3, 0.0)
    check_means(centred**4, 3.0 * np.diag(COVARIANCE) ** 2)
    assert doubts_of_divergence([sampler]) == []


@pytest.mark.parametrize("shape", [0.5, 2.0])
def test_a_skewed_density_in_one_dimension(shape):
    """The logarithm of a gamma variable."""
    target = Target(lambda x: (shape * x - np.exp(x))[:, 0], lambda x: shape - np.exp(x))
    sampler = chains(10_000, target, np.log([shape]), np.sqrt([shape]))
    draws, _ = run(sampler, 20, 40)
    assert stats.kstest(np.exp(draws[:, 0]), "gamma", args=(shape,)).pvalue > LEAST_P_VALUE


def test_a_curved_density_in_two_dimensions():
    """x standard normal, y normal about x^2 / 2: bent, and with known moments."""
    target = Target(
        lambda p: -0.5 * p[:, 0] ** 2 - 0.5 * (p[:, 1] - 0.5 * p[:, 0] ** 2) ** 2,
        lambda p: np.stack(
            [
                -p[:, 0] + p[:, 0] * (p[:, 1] - 0.5 * p[:, 0] ** 2),
                -(p[:, 1] - 0.5 * p[:, 0] ** 2),
            ],
            axis=1,
        ),
    )
    draws, _ = run(chains(10_000, target, np.zeros(2), np.eye(2)), 30, 50)
    x, y = draws.T
    moments = np.stack([x, y, x * y, x**2, y**2, x**2 * y, x**4], axis=1)
    check_means(moments, [0.0, 0.5, 0.0, 1.0, 1.75, 1.5, 3.0])
    assert stats.kstest(x, "norm").pvalue > LEAST_P_VALUE
    assert stats.kstest(y - 0.5 * x**2, "norm").pvalue > LEAST_P_VALUE


def gamma_density(positions):
    """Of shape 3, which is not a number below zero."""
    x = positions[:, 0]
    return np.where(x > 0.0, 2.0 * np.log(np.abs(x)) - x, np.nan)


GAMMA = Target(gamma_density, lambda x: np.where(x > 0.0, 2.0 / x - 1.0, np.nan))


def test_proposals_without_a_density_are_rejected():
    sampler = chains(3_000, GAMMA, np.array([6.0]), np.array([1.0 / 0.8]))
    draws, _ = run(sampler, 30, 120)
    assert stats.kstest(draws[:, 0], "gamma", args=(3.0,)).pvalue > LEAST_P_VALUE
    assert 0 < sampler.n_divergent.sum() < 0.01 * 3_000 * 120
    (doubt,) = doubts_of_divergence([sampler])
    assert f"{sampler.n_divergent.sum():,} trajectories after tuning diverged" in doubt
    assert f" {np.flatnonzero(sampler.n_divergent)[0]}" in doubt


def test_a_start_without_a_density_is_an_error():
    with pytest.raises(ValueError, match=r"not finite where chain 7 starts.*larger precision"):
        chains(1, GAMMA, np.array([-5.0]), np.array([10.0]), first=7)


def test_trajectories_return_when_momenta_turn():
    target = Target(lambda x: -np.cosh(x).sum(axis=1), lambda x: -np.sinh(x))
    sampler = chains(5, target, np.zeros(3), PRECISION)
    start, momentum = sampler._point, sampler._point.q[:, ::-1]
    step = np.full((5, 1), 0.3)
    sampler._point, momentum = sampler._travel(momentum, step)
    assert np.abs(sampler._point.q - start.q).min(axis=1).max() > 1e-3
    end, _ = sampler._travel(-momentum, step)
    for part, expected in zip(end, start, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-12)


def test_an_energy_that_overflows_is_a_rejection():
    """A density that falls so fast that a trajectory leaves all numbers behind."""
    target = Target(lambda x: -(x[:, 0] ** 4), lambda x: -4.0 * x**3)
    sampler = chains(50, target, np.zeros(1), np.array([1e-60]) ** 0.5)
    assert np.isfinite(sampler.state()["coef"]).all()
    run(sampler, 3, 0)
    assert np.isfinite(sampler.state()["coef"]).all()


def test_steps_adapt_until_most_proposals_are_accepted():
    """The factor says that the density is ten times as wide as it is."""
    sampler = chains(200, normal(np.zeros(3), 100.0 * np.eye(3)), np.zeros(3), np.ones(3))
    draws, accepted = run(sampler, 300, 200)
    assert 0.7 < accepted < 0.95
    check_means(draws**2, 0.01)


def test_steps_stay_as_they_are_after_tuning():
    """A state is then a function of the one before, and of the random numbers."""
    sampler = chains(3, normal(np.zeros(3), 100.0 * np.eye(3)), np.zeros(3), np.ones(3))
    run(sampler, 20, 5)
    sampler.sampling.random.iteration, before = 26, [part.copy() for part in sampler._point]
    sampler.sweep(tuning=False)
    first = sampler.state()["coef"].copy()
    run(sampler, 0, 30)
    sampler._point = hmc.ChainPoints(*before)
    sampler.sampling.random.iteration = 26
    sampler.sweep(tuning=False)
    np.testing.assert_array_equal(sampler.state()["coef"], first)


def test_chains_do_not_know_each_other():
    target, factor = normal(MEAN, PRECISION), np.linalg.cholesky(PRECISION)
    together, _ = run(chains(4, target, MEAN, factor), 20, 20)
    for chain in range(4):
        alone, _ = run(chains(1, target, MEAN, factor, first=chain), 20, 20)
        np.testing.assert_allclose(alone[0], together[chain], rtol=1e-10)
    again, _ = run(chains(1, target, MEAN, factor, first=3), 20, 20)
    np.testing.assert_array_equal(again, alone)
    other, _ = run(chains(1, target, MEAN, factor, seed=2, first=3), 20, 20)
    assert np.abs(other - alone).min() > 1e-3


def test_blocks_and_diagonals_are_the_dense_factor():
    square = np.linalg.cholesky(PRECISION[:2, :2])
    single = np.sqrt(PRECISION[2:, 2:])
    dense = block_diag(square, single) + np.triu(np.full((3, 3), np.nan), 1)
    target = normal(MEAN, PRECISION)
    expected, _ = run(chains(5, target, MEAN, dense), 10, 10)
    blocks, _ = run(chains(5, target, MEAN, [square, single]), 10, 10)
    np.testing.assert_allclose(blocks, expected, rtol=1e-10)
    diagonal = np.array([1.0, 2.0, 3.0])
    expected, _ = run(chains(5, target, MEAN, np.diag(diagonal)), 10, 10)
    vector, _ = run(chains(5, target, MEAN, diagonal), 10, 10)
    np.testing.assert_allclose(vector, expected, rtol=1e-10)


def test_parts_of_a_position_have_names():
    shapes = {"coef": (2, 2), "intercept": ()}
    sampler = chains(3, normal(np.zeros(5), np.eye(5)), np.arange(5.0), np.ones(5), shapes=shapes)
    state = sampler.state()
    whole = chains(3, normal(np.zeros(5), np.eye(5)), np.arange(5.0), np.ones(5)).state()["coef"]
    assert sampler.shapes == shapes
    np.testing.assert_array_equal(state["coef"], whole[:, :4].reshape(3, 2, 2))
    np.testing.assert_array_equal(state["intercept"], whole[:, 4])


def test_starts_are_wider_than_the_posterior():
    starts = chains(20_000, normal(MEAN, PRECISION), MEAN, np.linalg.cholesky(PRECISION)).state()
    spread = np.cov(starts["coef"].T)
    np.testing.assert_allclose(spread, hmc.DISPERSION**2 * COVARIANCE, rtol=0.1)


@pytest.mark.parametrize("n_before", [7, 25])
def test_restored_chains_go_on_to_the_same_bits(n_before):
    # twice as narrow as it is said to be, so that step sizes have something to learn
    target, n_chains = normal(np.ones(5), 4.0 * np.eye(5)), 3

    def make():
        sampling = Sampling(0, np.arange(n_chains))
        return HmcSampler(sampling, target, np.ones(5), np.full(5, 0.7))

    def sweep(sampler, first, last):
        for sampler.sampling.random.iteration in range(first, last):
            sampler.sweep(tuning=sampler.sampling.random.iteration <= 20)
        return sampler

    whole, broken = (sweep(make(), 1, n_before + 1) for _ in range(2))
    kept = {name: np.array(array) for name, array in broken.snapshot().items()}
    restored, other = make(), make()
    restored.restore(kept)
    other.restore(kept | {"n_learned": np.array(0)})
    states = [sweep(sampler, n_before + 1, 41).state()["coef"] for sampler in (whole, restored)]
    assert states[0].tobytes() == states[1].tobytes()
    if n_before < 20:  # what was learned matters
        assert sweep(other, n_before + 1, 41).state()["coef"].tobytes() != states[0].tobytes()
