"""Whole samplers on a simulated device: the CPU's chains, draw by draw.

Kernels are simulated, and CuPy is a stand-in on NumPy; the last bits of products differ, as other
routines form them.
"""

import numpy as np
import pytest
import scipy.sparse as sp

pytest.importorskip("numba_cuda")
pytest.importorskip("greenlet")

from gpu.cupy import simulate_sampling
from gpu.device import SimulatedDevice

from sksurvgpu import BayesianLasso, BayesianMultinomialLogistic
from sksurvgpu.backends import choose_sampling
from sksurvgpu.backends.cuda import random, softmax
from sksurvgpu.bayes import priors, reduction, regression, routes
from sksurvgpu.bayes import softmax as softmax_target
from sksurvgpu.bayes.multinomial import MultinomialGibbs, MultinomialHmc, collapse_rows
from sksurvgpu.bayes.softmax import CategoriesPrior, SoftmaxTarget, factor_curvature, find_mode

SEED, CHAINS = 3, np.arange(2)


@pytest.fixture
def device(monkeypatch):
    """With blocks that are small enough for a few rows."""
    monkeypatch.setattr(random, "THREADS", 32)
    monkeypatch.setattr(softmax, "THREADS", 32)
    simulated = SimulatedDevice()
    simulate_sampling(monkeypatch, simulated, compiled=True)
    return simulated


def run(sampling, sampler, n_iterations):
    """Draws by name, (n_iterations, B, ...)."""
    kept = []
    for iteration in range(1, n_iterations + 1):
        sampling.random.iteration = iteration
        sampler.sweep(iteration <= n_iterations // 2)
        state = sampler.state().items()
        kept.append({name: np.array(sampling.to_host(array)) for name, array in state})
    return {name: np.array([draw[name] for draw in kept]) for name in kept[0]}


def check_equal(found, expected):
    assert found.keys() == expected.keys()
    for name, draws in expected.items():
        np.testing.assert_allclose(found[name], draws, rtol=1e-6, atol=1e-9, err_msg=name)


def gaussian_rows(n, p, is_sparse=False):
    rng = np.random.default_rng(n)
    X = rng.normal(size=(n, p))
    X = sp.csr_array(X * (rng.random(X.shape) < 0.5)) if is_sparse else X
    y = X @ (np.arange(p) < 2) + rng.normal(size=n)
    return reduction.reduce_rows(X, y[None])


PRIORS = {"lasso": priors.Lasso(), "ridge": priors.Ridge(), "horseshoe": priors.HorseshoePrior()}


@pytest.mark.parametrize(
    ("sampler", "prior", "shape", "route", "n_iterations"),
    [
        ("collapsed", "lasso", (20, 4, False), routes.ColumnsRoute, 50),
        ("collapsed", "horseshoe", (5, 8, False), routes.RowsRoute, 10),
        ("two-block", "lasso", (6, 9, True), routes.RowsRoute, 10),
        ("three-step", "ridge", (12, 4, False), routes.DiagonalRoute, 10),
    ],
)
def test_gaussian_chains(sampler, prior, shape, route, n_iterations, device):
    reduced, draws = gaussian_rows(*shape), []
    for backend in ("cpu", "cuda"):
        sampling = choose_sampling(backend)(SEED, CHAINS)
        cls = regression.SAMPLERS[sampler]
        made = cls(sampling, reduced, PRIORS[prior], (1.0, 1.0), route=route)
        draws.append(run(sampling, made, n_iterations))
    assert device.n_launches > n_iterations
    check_equal(draws[1], draws[0])


def multinomial_chains(backend, name, chains, n_iterations):
    rng = np.random.default_rng(1)
    X, n_trials = rng.normal(size=(12, 2)), rng.integers(1, 3, 12)
    reduced = collapse_rows(X, rng.multinomial(n_trials, [0.5, 0.3, 0.2]))
    prior = CategoriesPrior(np.zeros((2, 2)), np.ones((2, 2)))
    cpu = choose_sampling("cpu")
    alone, sampling = (choose_sampling(backend)(SEED, c) for c in (CHAINS[:1], chains))
    mode, factor = find_mode(alone, SoftmaxTarget(reduced.put(alone), prior))
    if name == "hmc":  # rows are on the device, all else on the host
        on_host, rows = cpu(SEED, chains), reduced.put(sampling)
        hmc = MultinomialHmc(on_host, rows, prior, mode, factor)
        return run(on_host, hmc, n_iterations)
    gibbs = MultinomialGibbs(sampling, reduced.put(sampling), prior, mode, factor)
    return run(sampling, gibbs, n_iterations)


@pytest.mark.parametrize("name", ["gibbs", "hmc"])
def test_multinomial_chains(name, device):
    found = multinomial_chains("cuda", name, CHAINS, 12)
    check_equal(found, multinomial_chains("cpu", name, CHAINS, 12))
    assert device.n_launches > 12


def test_a_chain_is_the_same_beside_any_others(device):
    both, alone = (
        multinomial_chains("cuda", "gibbs", chains, 5) for chains in (CHAINS, CHAINS[1:])
    )
    np.testing.assert_allclose(both["coef"][:, 1:], alone["coef"], rtol=1e-9)


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize(("order", "blocks"), [(10, 0), (0, 10**6), (0, 0)])
def test_curvature_of_any_form(order, blocks, is_sparse, device, monkeypatch):
    """Whole, by blocks of categories, and diagonal, as sizes ask for."""
    monkeypatch.setattr(softmax_target, "LARGEST_ORDER", order)
    monkeypatch.setattr(softmax_target, "LARGEST_BLOCKS", blocks)
    rng, found = np.random.default_rng(4), []
    X = rng.normal(size=(9, 2))
    X = sp.csr_array(X * (X > -0.5)) if is_sparse else X
    reduced = collapse_rows(X, rng.multinomial(2, [0.4, 0.3, 0.3], size=9))
    prior = CategoriesPrior(np.zeros((2, 2)), np.ones((2, 2)))
    for backend in ("cpu", "cuda"):
        sampling = choose_sampling(backend)(SEED, CHAINS[:1])
        target = SoftmaxTarget(reduced.put(sampling), prior)
        found.append(factor_curvature(sampling, target, np.full(4, 0.3)))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("cls", "options"),
    [
        (BayesianLasso, {}),
        (BayesianMultinomialLogistic, {"sampler": "gibbs"}),
        (BayesianMultinomialLogistic, {"sampler": "hmc"}),
    ],
)
def test_estimators(cls, options, device):
    rng = np.random.default_rng(2)
    X = sp.csr_array(rng.normal(size=(15, 7)) * (rng.random((15, 7)) < 0.1))
    y, draws = np.arange(15) % 3, []
    for backend in ("cpu", "cuda"):
        length = {"n_tune": 3, "n_draws": 4, "n_chains": 2}
        model = cls(backend=backend, **length, **options).fit(X, y)
        draws.append(model.posterior_.draws)
        assert model.backend_ == backend
    assert device.n_launches > 7
    check_equal(draws[1], draws[0])
