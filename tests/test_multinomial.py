"""Samplers of multinomial logistic models: quadrature, joint distributions, calibration, mutants.

Chains of a batch are independent, so that the mean of a chain is one observation, and z is the
distance of their mean from the truth in standard errors that need no autocorrelation.  A correct
sampler exceeds `FARTHEST` in one of 9 numbers with probability 6e-5; wrong ones must exceed it by
far (`WRONG`).
"""

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.multinomial_posterior import GridPosterior, functions
from scipy.special import logsumexp, softmax
from scipy.stats import chi2

from sksurvgpu.backends.cpu.sampling import Sampling
from sksurvgpu.backends.cpu.softmax import SoftmaxRows
from sksurvgpu.bayes.multinomial import (
    MultinomialGibbs,
    MultinomialHmc,
    MultinomialRows,
    collapse_rows,
)
from sksurvgpu.bayes.softmax import CategoriesPrior, SoftmaxTarget, find_mode

FARTHEST, WRONG = 4.5, 6.0
SAMPLERS = {"gibbs": MultinomialGibbs, "hmc": MultinomialHmc}


def draw_counts(rng, X, coef, count):
    """Counts of all categories, (n, k), at coefficients (k - 1, p)."""
    eta = np.column_stack([X @ coef.T, np.zeros(len(X))])
    return rng.multinomial(count, softmax(eta, axis=1))


def small_problem(k=3, n=12, most=3):
    rng = np.random.default_rng(3)
    X = abs(rng.normal(size=(n, 1)))
    count = rng.integers(1, most + 1, n)
    counts = draw_counts(rng, X, np.array([[1.5], [-1.0]])[: k - 1], count)
    mean, precision = np.array([[1.6], [-1.2]])[: k - 1], np.array([[0.2], [0.4]])[: k - 1]
    return X, counts, CategoriesPrior(mean, precision)


def make(name, X, counts, prior, chains, *, seed=1, cls=None, rows_type=SoftmaxRows, start=None):
    """Sampler whose chains start about the mode, or from given draws."""
    sampling = Sampling(seed, np.arange(chains))
    rows = collapse_rows(X, counts)
    alone = Sampling(seed, [0])
    mode, factor = find_mode(alone, SoftmaxTarget(rows.put(alone), prior))
    served = rows_type(rows.X, rows.y, rows.count)
    sampler = (cls or SAMPLERS[name])(sampling, served, prior, mode, factor)
    if start is not None:
        sampler.coef[:] = start
        served.place(sampler.coef)
    return sampler


def run(sampler, n_tune, n_draws):
    """Draws (n_draws, B, m, q)."""
    kept = []
    for iteration in range(1, n_tune + n_draws + 1):
        sampler.sampling.random.iteration = iteration
        sampler.sweep(iteration <= n_tune)
        if iteration > n_tune:
            kept.append(sampler.state()["coef"].copy())
    return np.array(kept)


def z_scores(draws, expected):
    """Of means and second moments, over the means of chains."""
    of_chains = functions(draws.reshape(*draws.shape[:2], -1)).mean(axis=0)
    error = of_chains.std(axis=0, ddof=1) / np.sqrt(len(of_chains))
    return (of_chains.mean(axis=0) - expected) / error


def truth(X, counts, prior, **grid):
    return GridPosterior(X[:, 0], counts, prior.mean[:, 0], prior.precision[:, 0], **grid)


@pytest.mark.parametrize("k", [2, pytest.param(3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", SAMPLERS)
def test_posterior_is_that_of_quadrature(name, k):
    X, counts, prior = small_problem(k)
    draws = run(make(name, X, counts, prior, 300), 25, 40)
    z = z_scores(draws, truth(X, counts, prior).moments())
    assert abs(z).max() < FARTHEST, z


class StaleOmega(MultinomialGibbs):
    """Draws the variables of a category after its coefficients, for the next sweep."""

    def _draw_category(self, j):
        if not hasattr(self, "_kept"):
            self._kept = {}
        sampling, drawn = self.sampling, self.sampling.random.polya_gamma

        def stale(site, count, z):
            return self._kept.get(j, drawn(site, count, z))

        sampling.random.polya_gamma = stale
        super()._draw_category(j)
        sampling.random.polya_gamma = drawn
        z = self._rows.predictor(j) - self._rows.offset(j)
        self._kept[j] = drawn(1000 + j, self._rows.count, z)


class NoOffset(SoftmaxRows):
    def offset(self, j):
        return np.zeros_like(super().offset(j))


class NoReference(SoftmaxRows):
    def offset(self, j):
        return logsumexp(np.delete(self._predictor, j, axis=1), axis=1)


class NoKappa(SoftmaxRows):
    def __init__(self, X, y, count):
        super().__init__(X, np.broadcast_to(0.5 * count, y.shape), count)


class OffsetOfLastSweep(SoftmaxRows):
    """Exponentials of a category are not taken anew when it moves."""

    def move(self, j, coef):
        self._predictor[:, j] = coef @ self.X.T


class NoPriorMean(CategoriesPrior):
    def times(self, j, coef):
        return np.zeros_like(coef)


class MeanInPrecision(CategoriesPrior):
    def add_precision(self, j, matrices):
        super().add_precision(j, matrices)
        matrices += abs(self.mean[j])


MUTANTS = {
    "stale omega": {"cls": StaleOmega},
    "no offset": {"rows_type": NoOffset},
    "no reference": {"rows_type": NoReference},
    "no kappa": {"rows_type": NoKappa},
    "offset of the last sweep": {"rows_type": OffsetOfLastSweep},
    "no prior mean": {"prior_type": NoPriorMean},
    "prior mean in the precision": {"prior_type": MeanInPrecision},
}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS)
def test_wrong_samplers_are_found(mutant):
    X, counts, prior = small_problem(most=1)  # where variables vary most
    expected = truth(X, counts, prior).moments()
    wrong = dict(MUTANTS[mutant])
    prior_type = wrong.pop("prior_type", None)
    sampler = make("gibbs", X, counts, prior, 400, **wrong)
    if prior_type is not None:
        sampler._prior = prior_type(prior.mean, prior.precision)
    z = z_scores(run(sampler, 5, 25), expected)
    assert abs(z).max() > WRONG, z


@pytest.mark.thorough
def test_chains_stay_where_one_category_dominates():
    X, counts, prior = small_problem()
    counts[:, 2] += 20
    check_stays(X, counts, prior)


@pytest.mark.thorough
def test_chains_stay_where_predictors_are_hundreds():
    """Separated by the sign of X: the prior, cut off at zero."""
    X = np.array([[-320.0], [-90.0], [-25.0], [110.0], [250.0]])
    prior = CategoriesPrior(np.array([[1.0], [-2.0]]), np.array([[0.5], [0.5]]))
    check_stays(X, np.where(X > 0, [1, 0, 0], [0, 1, 0]), prior)


def check_stays(X, counts, prior):
    """Started in their posterior, chains stay there, however slowly they would get there."""
    exact = truth(X, counts, prior)
    start = exact.draw(np.random.default_rng(5), 400)
    sampler = make("gibbs", X, counts, prior, 400, start=start[:, :, None])
    z = z_scores(run(sampler, 0, 20), exact.moments())
    assert abs(z).max() < FARTHEST, z


def joint_chains(sampler_type, chains, seed=0):
    """Chains in their joint prior distribution: coefficients, then outcomes, one set a chain."""
    rng = np.random.default_rng(seed)
    n, m, q = 5, 2, 2
    X, count = rng.normal(size=(n, q)), np.sort(rng.integers(1, 4, n))
    mean = rng.normal(size=(m, q))
    root = 0.5 * rng.normal(size=(m, q, q)) + 1.2 * np.eye(q)
    prior = CategoriesPrior(mean, root @ np.swapaxes(root, 1, 2))
    factor = list(np.linalg.cholesky(prior.precision))
    noise = rng.normal(size=(chains, m, q))
    coef = np.stack(
        [mean[j] + np.linalg.solve(factor[j].T, noise[:, j].T).T for j in range(m)], axis=1
    )
    rows = SoftmaxRows(X, None, count)
    draw_outcomes(rng, rows, coef)
    sampler = sampler_type(Sampling(seed, np.arange(chains)), rows, prior, mean.ravel(), factor)
    return rng, sampler, rows, coef


def draw_outcomes(rng, rows, coef):
    eta = np.concatenate([coef @ rows.X.T, np.zeros((len(coef), 1, len(rows.X)))], axis=1)
    counts = rng.multinomial(rows.count, np.moveaxis(softmax(eta, axis=1), 1, 2))
    rows.y = np.ascontiguousarray(np.moveaxis(counts[:, :, :-1], 2, 1), dtype=float)


@pytest.mark.parametrize("is_wrong", [False, True])
def test_joint_distribution_is_kept(is_wrong):
    """Outcomes drawn anew before every sweep: coefficients stay those of the prior (Geweke)."""
    rng, sampler, rows, coef = joint_chains(MultinomialGibbs, 500)
    prior = sampler._prior
    sampler.coef[:] = coef
    rows.place(coef)
    if is_wrong:
        rows.offset = lambda j: np.zeros_like(rows.predictor(j))
    draws = []
    for iteration in range(1, 31):
        draw_outcomes(rng, rows, sampler.coef)
        sampler.sampling.random.iteration = iteration
        sampler.sweep(False)
        draws.append(sampler.state()["coef"].copy())
    flat, covariance = prior.mean.ravel(), np.zeros((4, 4))
    for j in range(2):
        covariance[2 * j : 2 * j + 2, 2 * j : 2 * j + 2] = np.linalg.inv(prior.precision[j])
    first, second = np.tril_indices(4)
    expected = np.append(flat, (covariance + np.outer(flat, flat))[first, second])
    z = abs(z_scores(np.array(draws), expected)).max()
    assert z > WRONG if is_wrong else z < FARTHEST + 0.3, z  # 14 numbers


@pytest.mark.thorough
@pytest.mark.parametrize("name", SAMPLERS)
def test_ranks_of_the_truth_are_uniform(name):
    """Calibration on 500 data sets: where the truth lies among draws (Talts et al. 2018)."""
    *_, truth_of_chain = drawn = joint_chains(SAMPLERS[name], 500, seed=2)
    draws = run(drawn[1], 40, 95)[::5]
    rank = (draws < truth_of_chain).sum(axis=0).reshape(500, -1)
    for of_coefficient in rank.T:
        found = np.bincount(of_coefficient // 2, minlength=10)
        assert ((found - 50.0) ** 2 / 50.0).sum() < chi2.isf(2e-5, 9), found


def test_hmc_and_gibbs_agree():
    rng = np.random.default_rng(8)
    X = np.column_stack([rng.normal(size=(30, 2)), np.ones(30)])
    counts = draw_counts(rng, X, rng.normal(size=(3, 3)), np.ones(30, int))
    prior = CategoriesPrior(np.zeros((3, 3)), np.full((3, 3), 0.5))
    found = {}
    for name, n_tune, n_draws in (("gibbs", 40, 60), ("hmc", 40, 20)):
        sampler = make(name, X, counts, prior, 100)
        draws = run(sampler, n_tune, n_draws)
        found[name] = functions(draws.reshape(n_draws, 100, 9)).mean(axis=0)
    gap = found["gibbs"].mean(axis=0) - found["hmc"].mean(axis=0)
    error = np.sqrt(sum(of_chains.var(axis=0) / 100 for of_chains in found.values()))
    assert abs(gap / error).max() < 5.2, gap / error  # 54 numbers


@pytest.mark.parametrize("name", SAMPLERS)
def test_chains_are_their_own(name):
    """A chain is the same alone, and but for rounding in a batch."""
    X, counts, prior = small_problem()
    draws = run(make(name, X, counts, prior, 3), 3, 3)
    for chain in range(3):
        alone = []
        for _ in range(2):
            sampler = make(name, X, counts, prior, 1)
            sampling = Sampling(1, [chain])
            rows = collapse_rows(X, counts)
            mode, factor = find_mode(Sampling(1, [0]), SoftmaxTarget(rows.put(sampling), prior))
            sampler = SAMPLERS[name](sampling, rows.put(sampling), prior, mode, factor)
            alone.append(run(sampler, 3, 3))
        np.testing.assert_array_equal(*alone)
        np.testing.assert_allclose(draws[:, [chain]], alone[0], rtol=1e-9)


def test_offsets_where_one_category_dominates():
    rng = np.random.default_rng(4)
    X = np.diag(np.array([1e-3, 1.0, 30.0, 300.0, 800.0, -800.0, 5e3, -5e3]))
    rows = SoftmaxRows(X, np.zeros((1, 3, 8)), np.ones(8, np.int64))
    coef = rng.normal(size=(2, 3, 8))
    rows.place(coef)
    for scale in (1.0, -3.0, 0.5, 2.0):  # exponentials overflow and vanish between moves
        for j in range(3):
            coef[:, j] = scale * rng.normal(size=(2, 8))
            rows.move(j, coef[:, j])
            eta = np.concatenate([coef @ X.T, np.zeros((2, 1, 8))], axis=1)
            for other in range(3):
                expected = logsumexp(np.delete(eta, other, axis=1), axis=1)
                np.testing.assert_allclose(rows.offset(other), expected, rtol=1e-12, atol=1e-13)
                np.testing.assert_allclose(rows.predictor(other), eta[:, other], rtol=1e-12)


def test_a_draw_that_is_not_finite_is_refused():
    X, counts, prior = small_problem()
    sampler = make("gibbs", X, counts, prior, 2)
    sampler._rows.y = np.full_like(sampler._rows.y, np.nan)
    with pytest.raises(FloatingPointError, match="coefficients of category 0 is not finite"):
        run(sampler, 0, 1)


@pytest.mark.parametrize("is_sparse", [False, True])
def test_equal_rows_are_added_up(is_sparse):
    rng = np.random.default_rng(6)
    X = np.round(rng.normal(size=(300, 2)) * (rng.random((300, 2)) < 0.7), 0)
    X[::7] = rng.normal(size=(43, 2))
    counts = rng.multinomial(rng.integers(0, 3, 300), [0.2, 0.3, 0.5])
    rows = collapse_rows(sp.csr_array(X) if is_sparse else X, counts)
    assert isinstance(rows, MultinomialRows)
    dense = rows.X.toarray() if is_sparse else rows.X
    some = counts.sum(axis=1) > 0
    unique, where = np.unique(X[some], axis=0, return_inverse=True)
    expected = np.zeros((len(unique), 3))
    np.add.at(expected, where.ravel(), counts[some])
    assert len(dense) == len(unique) < 200
    order = np.lexsort(dense.T[::-1])
    np.testing.assert_array_equal(dense[order], unique)
    np.testing.assert_array_equal(rows.y[0].T[order], expected[:, :2])
    np.testing.assert_array_equal(rows.count[order], expected.sum(axis=1))
    assert (np.diff(rows.count) >= 0).all()


def test_intercepts_have_their_own_name():
    X, counts, prior = small_problem()
    rows, sampling = collapse_rows(np.hstack([X, np.ones_like(X)]), counts), Sampling(0, [0, 1])
    prior = CategoriesPrior(np.zeros((2, 2)), np.ones((2, 2)))
    for cls in SAMPLERS.values():
        sampler = cls(
            sampling, rows.put(sampling), prior, np.arange(4.0), np.full(4, 1e9), has_intercept=True
        )
        assert sampler.shapes == {"coef": (2, 1), "intercept": (2,)}
        state = sampler.state()
        np.testing.assert_allclose(state["coef"][0], [[0.0], [2.0]], atol=1e-6)
        np.testing.assert_allclose(state["intercept"][0], [1.0, 3.0], atol=1e-6)


def test_sparse_rows_give_the_same_chains():
    rng = np.random.default_rng(9)
    X = sp.random_array((80, 4), density=0.4, format="csr", rng=rng)
    counts = draw_counts(rng, X.toarray(), rng.normal(size=(2, 4)), np.ones(80, int))
    prior = CategoriesPrior(np.zeros((2, 4)), np.ones((2, 4)))
    for name in SAMPLERS:
        sparse = run(make(name, X, counts, prior, 2), 2, 3)
        dense = run(make(name, X.toarray(), counts, prior, 2), 2, 3)
        np.testing.assert_allclose(sparse, dense, rtol=1e-8)
