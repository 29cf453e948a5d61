"""The target of multinomial logistic models: density, gradient, curvature, mode."""

import numpy as np
import pytest
import scipy.sparse as sp
from oracles.multinomial_posterior import log_likelihood
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from sksurvgpu.backends.cpu import softmax as cpu_softmax
from sksurvgpu.backends.cpu.linalg import weighted_gram
from sksurvgpu.backends.cpu.sampling import Sampling
from sksurvgpu.bayes import newton, softmax
from sksurvgpu.bayes.hmc import Whitening
from sksurvgpu.bayes.multinomial import collapse_rows
from sksurvgpu.bayes.softmax import (
    CategoriesPrior,
    NoModeError,
    SoftmaxTarget,
    factor_curvature,
    find_mode,
)

RNG = np.random.default_rng(12)
N, Q, K = 70, 3, 4
X = RNG.normal(size=(N, Q)) * (RNG.random((N, Q)) < 0.8)
COUNTS = RNG.multinomial(RNG.integers(1, 4, N), [0.1, 0.2, 0.3, 0.4])
ROOT = RNG.normal(size=(K - 1, Q, Q))
PRIORS = {
    "diagonal": CategoriesPrior(RNG.normal(size=(K - 1, Q)), RNG.random((K - 1, Q)) + 0.1),
    "matrices": CategoriesPrior(
        RNG.normal(size=(K - 1, Q)), ROOT @ ROOT.swapaxes(1, 2) + 0.1 * np.eye(Q)
    ),
    "flat": CategoriesPrior(np.zeros((K - 1, Q)), np.zeros((K - 1, Q))),
}
ALONE = Sampling(0, [0])


def make(prior, X=X, counts=COUNTS):
    return SoftmaxTarget(collapse_rows(X, counts).put(ALONE), prior)


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(cpu_softmax, "_BLOCK", 32)
    monkeypatch.setattr(cpu_softmax, "_SPARSE_BLOCK", 48)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("name", PRIORS)
def test_density_and_gradient(name, is_sparse, small_blocks, check_close):
    prior, table = PRIORS[name], sp.csr_array(X) if is_sparse else X
    target, positions = make(prior, table), RNG.normal(size=(2, (K - 1) * Q))
    values, gradients = target.value_and_gradient(positions)
    for value, gradient, position in zip(values, gradients, positions, strict=True):
        coef = position.reshape(K - 1, Q)
        expected = log_likelihood(X, COUNTS, coef)
        for j, away in enumerate(coef - prior.mean):
            matrix = (
                np.diag(prior.precision[j]) if prior.precision.ndim == 2 else prior.precision[j]
            )
            expected -= 0.5 * away @ matrix @ away
        check_close(value, expected, "loglik")
        step = 1e-5 * np.eye(len(position))
        above, below = (target.value_and_gradient(position + s * step)[0] for s in (1, -1))
        check_close(gradient, (above - below) / 2e-5, "finite difference")


def test_density_where_predictors_are_extreme(check_close):
    rows = np.diag([1.0, 40.0, 700.0, -700.0, 3e4, -3e4])
    counts = np.eye(3, dtype=int)[[0, 1, 2, 0, 1, 2]]
    coef = RNG.normal(size=(2, 6))
    eta = np.vstack([coef @ rows, np.zeros(6)])
    prior = CategoriesPrior(np.zeros((2, 6)), np.zeros((2, 6)))
    [value], [gradient] = make(prior, rows, counts).value_and_gradient(coef.reshape(1, -1))
    log_p = eta - logsumexp(eta, axis=0)
    check_close(value, (counts.T * log_p).sum(), "loglik")
    check_close(gradient.reshape(2, 6), (counts.T - np.exp(log_p))[:2] @ rows, "u")


@pytest.mark.parametrize("name", PRIORS)
def test_curvature_is_minus_the_hessian(name, check_close):
    target, position = make(PRIORS[name]), RNG.normal(size=(K - 1) * Q)
    step = 1e-5 * np.eye(len(position))
    above, below = (target.value_and_gradient(position + s * step)[1] for s in (1, -1))
    factor = factor_curvature(ALONE, target, position)
    check_close(factor @ factor.T, (below - above) / 2e-5, "finite difference")
    assert not np.triu(factor, 1).any()


@pytest.mark.parametrize("is_sparse", [False, True])
def test_curvature_of_many_coefficients_is_a_part_of_the_whole(is_sparse, monkeypatch, check_close):
    target = make(PRIORS["matrices"], sp.csr_array(X) if is_sparse else X)
    position = RNG.normal(size=(K - 1) * Q)
    factor = factor_curvature(ALONE, target, position)
    whole = factor @ factor.T
    monkeypatch.setattr(softmax, "LARGEST_ORDER", 0)
    for j, block in enumerate(factor_curvature(ALONE, target, position)):
        part = slice(j * Q, (j + 1) * Q)
        check_close(block @ block.T, whole[part, part], "h")
    monkeypatch.setattr(softmax, "LARGEST_BLOCKS", 0)
    check_close(factor_curvature(ALONE, target, position) ** 2, np.diagonal(whole), "h")


@pytest.mark.parametrize("form", ["whole", "blocks", "diagonal"])
@pytest.mark.parametrize("name", PRIORS)
def test_mode_has_no_gradient(name, form, monkeypatch):
    if form != "whole":
        monkeypatch.setattr(softmax, "LARGEST_ORDER", 0)
    if form == "diagonal":
        monkeypatch.setattr(softmax, "LARGEST_BLOCKS", 0)
    target = make(PRIORS[name])
    if form == "diagonal" and name == "flat":
        with pytest.raises(ValueError, match=r"^the prior is flat .* for 9 coefficients it cannot"):
            find_mode(ALONE, target)
        return
    mode, factor = find_mode(ALONE, target)
    _, gradient = target.value_and_gradient(mode[None])
    assert abs(Whitening(factor).to_slopes(gradient)).max() < (1e-5 if form == "whole" else 1e-2)


def test_mode_without_a_prior_is_that_of_scikit_learn(check_close):
    mode, _ = find_mode(ALONE, make(PRIORS["flat"]))
    rows, labels = np.nonzero(COUNTS)
    theirs = LogisticRegression(C=1e12, fit_intercept=False, tol=1e-12, max_iter=1000)
    theirs.fit(X[rows], labels, COUNTS[rows, labels])
    expected = theirs.coef_[:-1] - theirs.coef_[-1]
    check_close(mode.reshape(K - 1, Q), expected, "other package")


def test_a_prior_of_a_far_mean_is_climbed_from():
    prior = CategoriesPrior(np.full((K - 1, Q), 300.0), np.full((K - 1, Q), 1e-6))
    near = CategoriesPrior(np.zeros((K - 1, Q)), np.full((K - 1, Q), 1e-6))
    np.testing.assert_allclose(
        find_mode(ALONE, make(prior))[0], find_mode(ALONE, make(near))[0], atol=1e-2
    )


SEPARATED = np.where(X[:, [0]] > 0, [1, 0, 0, 0], [0, 1, 0, 0]) + [0, 0, 1, 1] * (X[:, [0]] == 0)


@pytest.mark.parametrize("route", ["newton", "gradients"])
@pytest.mark.parametrize("case", ["separated", "collinear", "absent"])
def test_no_mode(case, route, monkeypatch):
    if route == "gradients":
        monkeypatch.setattr(softmax, "LARGEST_ORDER", 0)
    table, counts, prior = X, COUNTS, PRIORS["flat"]
    if case == "separated":
        counts = SEPARATED
    elif case == "collinear":
        table = np.column_stack([X[:, :2], X[:, 0] - X[:, 1]])
    else:
        table, counts = np.column_stack([X[:, :2], np.ones(N)]), COUNTS * [1, 1, 0, 1]
    with pytest.raises(NoModeError) as raised:
        find_mode(ALONE, make(prior, table, counts))
    size = abs(raised.value.direction)
    assert size.shape == (K - 1, Q)
    if case == "absent" and route == "newton":
        assert size[2, 2] == size.max()
    mode, _ = find_mode(
        ALONE, make(CategoriesPrior(prior.mean, prior.precision + 1e-3), table, counts)
    )
    assert np.isfinite(mode).all()


def test_a_column_that_says_nothing_is_blamed():
    table = np.column_stack([X[:, 0], np.zeros(N), X[:, 1]])
    with pytest.raises(NoModeError) as raised:
        find_mode(ALONE, make(PRIORS["flat"], table))
    assert raised.value.is_collinear
    assert np.flatnonzero(raised.value.direction).tolist() == [1]


def test_the_mode_of_huge_counts_is_found(check_close):
    """The log-likelihood is a difference of terms that leave it no digits; two rows fit exactly."""
    counts = np.array([[2**31 - 10, 5, 4], [3, 2**31 - 10, 6]])
    prior = CategoriesPrior(np.zeros((2, 2)), np.array([[0.0, 1e-9], [0.0, 1e-9]]))
    table = np.array([[0.0, 1.0], [1.0, 1.0]])
    coef = find_mode(ALONE, make(prior, table, counts))[0].reshape(2, 2)
    check_close(table @ coef.T, np.log(counts[:, :2] / counts[:, 2:]), "other package")


@pytest.mark.parametrize(("module", "limit"), [(softmax, "MOST_STEPS"), (newton, "MOST_HALVINGS")])
def test_a_mode_that_is_not_found_is_not_called_improper(module, limit, monkeypatch):
    monkeypatch.setattr(module, limit, 1)
    far = CategoriesPrior(np.full((K - 1, Q), 300.0), np.full((K - 1, Q), 1e-6))
    with pytest.raises(ValueError, match="mode of the posterior was not found") as raised:
        find_mode(ALONE, make(far))
    assert not isinstance(raised.value, NoModeError)


def test_a_weak_prior_of_collinear_columns_is_not_called_improper():
    weak = CategoriesPrior(np.zeros((K - 1, Q)), np.full((K - 1, Q), 1e-20))
    with pytest.raises(ValueError, match="prior is next to flat") as raised:
        find_mode(ALONE, make(weak, X[:, [0, 0, 1]]))
    assert not isinstance(raised.value, NoModeError)


def test_weighted_gram_of_blocks_and_of_sparse_rows(check_close):
    table = RNG.normal(size=(700, 140)) * (RNG.random((700, 140)) < 0.3)
    weight = RNG.random((2, 700))
    expected = np.stack([table.T @ (w[:, None] * table) for w in weight])
    check_close(weighted_gram(table, weight), expected, "h")
    check_close(weighted_gram(sp.csr_array(table), weight), expected, "h")
