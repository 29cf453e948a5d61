"""Samplers on a device: the CPU's chains draw by draw, evaluations of a posterior, then times.

Iterations are of all chains together and leave nothing on the host, but for Hamiltonian ones, whose
positions and gradients travel.
"""

from __future__ import annotations

import math
import time
from functools import partial

import numpy as np

from sksurvgpu.backends import choose, choose_sampling, cpu
from sksurvgpu.bayes.hmc import FEWEST_STEPS
from sksurvgpu.bayes.multinomial import MultinomialGibbs, MultinomialHmc, collapse_rows
from sksurvgpu.bayes.priors import Lasso
from sksurvgpu.bayes.reduction import reduce_rows
from sksurvgpu.bayes.regression import CollapsedSampler
from sksurvgpu.bayes.softmax import CategoriesPrior, SoftmaxTarget, find_mode
from sksurvgpu.exceptions import BackendUnavailableError
from sksurvgpu.solver.problem import Batch

from . import ceilings, problems
from .day import Part

SEED = 1
PARITY_RTOL = 1e-6
# Of draws: an accepted one may be refused where the last bit of a logarithm differs.
FEW, DRAW_RTOL = 3, 1e-9
EVALUATION_RTOL = 1e-10
PG_BYTES = 8 + 8 + 8 + 4  # of a draw: tilt, draw, count, place in the order


class Samplers(Part):
    """The CPU's chains draw by draw, then times."""

    limit = 150.0
    table = "=value:.3g | unit | floor:.3g"

    def jobs(self, sizes):
        return [tuple(MEASURES)]

    def measure(self, item, sizes):
        try:
            choose_sampling("cuda")
        except BackendUnavailableError as error:
            return {"not_run": str(error)}
        return MEASURES[item](sizes)


def lasso_rows(n, p):
    """Ten columns with an effect; noise of variance 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, p))
    y = X @ np.where(np.arange(p) < 10, 1.0, 0.0) + rng.normal(size=n)
    return reduce_rows(X, y[None])


def lasso_sampler(sampling, rows):
    return CollapsedSampler(sampling, rows, Lasso(), (1.0, 1.0))


class Multinomial:
    """A trial a row, an intercept among the columns, and what chains of it start from."""

    def __init__(self, n, p, k, make):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.normal(size=(n, p - 1)), np.ones(n)])
        coef = rng.normal(size=(p, k - 1)) / np.sqrt(p)
        level = np.column_stack([X @ coef, np.zeros(n)]) + rng.gumbel(size=(n, k))
        self.rows = collapse_rows(X, np.eye(k, dtype=np.int64)[level.argmax(axis=1)])
        self.prior = CategoriesPrior(np.zeros((k - 1, p)), np.ones((k - 1, p)))
        alone = make(SEED, np.arange(1))
        self.mode = find_mode(alone, SoftmaxTarget(self.rows.put(alone), self.prior))

    def sampler(self, name, make, n_chains):
        sampling, chains = make(SEED, np.arange(n_chains)), np.arange(n_chains)
        rows = self.rows.put(sampling)
        if name == "Gibbs":
            return sampling, MultinomialGibbs(sampling, rows, self.prior, *self.mode)
        on_host = choose_sampling("cpu")(SEED, chains)
        return on_host, MultinomialHmc(on_host, rows, self.prior, *self.mode)


def run_chains(sampling, sampler, n_iterations):
    """Coefficients (n_iterations, B, ...) on the host."""
    kept = []
    for iteration in range(1, n_iterations + 1):
        sampling.random.iteration = iteration
        sampler.sweep(iteration <= n_iterations // 2)
        kept.append(np.array(sampling.to_host(sampler.state()["coef"])))
    return np.array(kept)


def compare(found, expected, rtol=PARITY_RTOL):
    """Largest difference of two runs, over the largest number of each iteration."""
    axes = tuple(range(1, expected.ndim))
    error = float((abs(found - expected).max(axis=axes) / abs(expected).max(axis=axes)).max())
    return {"value": error, "unit": "rel. difference", "passed": bool(error <= rtol)}


def parity_of_lasso(sizes):
    n_chains, *size = sizes.parity_lasso
    rows, runs = lasso_rows(*size), []
    for backend in ("cuda", "cpu"):
        sampling = choose_sampling(backend)(SEED, np.arange(n_chains))
        runs.append(run_chains(sampling, lasso_sampler(sampling, rows), sizes.parity_iterations))
    return compare(*runs)


def parity_of_multinomial(name, sizes):
    problem = Multinomial(*sizes.parity_multinomial, choose_sampling("cpu"))
    runs = [
        run_chains(*problem.sampler(name, choose_sampling(backend), 2), sizes.parity_iterations)
        for backend in ("cuda", "cpu")
    ]
    return compare(*runs)


def draw_all(sampling, n):
    """Draws of every kind, (kinds, n)."""
    rng, random, put = np.random.default_rng(0), sampling.random, sampling.put
    shape, mean = rng.gamma(1.0, size=(1, n)), np.exp(5.0 * rng.normal(size=(1, n)))
    tilt, count = 4.0 * rng.normal(size=(1, n)), rng.integers(1, 4, n)
    arrays = (
        random.normal(0, n),
        random.uniform(1, n),
        random.gamma(2, put(shape)),
        random.log_gamma(5, put(shape)),
        random.inverse_gaussian(3, put(mean), put(shape)),
        random.polya_gamma(4, put(count), put(tilt)),
    )
    return np.stack([np.array(sampling.to_host(array)) for array in arrays])


def parity_of_draws(sizes):
    """Draws of every kind that differ by more than rounding."""
    found, expected = (
        draw_all(choose_sampling(backend)(SEED, np.arange(1)), sizes.compared_draws)
        for backend in ("cuda", "cpu")
    )
    n_differ = int((abs(found - expected) > DRAW_RTOL * abs(expected)).sum())
    return {"value": n_differ, "unit": "draws differ", "passed": n_differ <= FEW}


def parity_of_evaluator(sizes):
    """Log-likelihoods and gradients of a Cox posterior's chains."""
    n_chains, n, p = sizes.parity_lasso[0], *sizes.large
    problem, batch = problems.cox_problem(n, p), Batch(np.ones((1, n_chains)))
    coefs, found = 0.1 * np.random.default_rng(0).normal(size=(n_chains, p)), []
    for backend in (choose("cuda"), cpu):
        logliks, gradients = backend.open_evaluator(problem, batch).evaluate(coefs)
        found.append(np.column_stack([logliks, gradients]))
    return compare(*found, rtol=EVALUATION_RTOL)


def _seconds(run, synchronize, repeats):
    """Least time of a run, the first of which compiles and is left out."""
    seconds = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        run()
        synchronize()
        seconds.append(time.perf_counter() - begin)
    return min(seconds[1:])


def time_polya_gamma(sizes):
    sampling, n = choose_sampling("cuda")(SEED, np.arange(1)), sizes.draws
    tilt, count = 2.0 * sampling.random.normal(0, n), sampling.put(np.ones(n, np.int64))
    kept = {}

    def run():
        kept["draws"] = sampling.random.polya_gamma(1, count, tilt)

    seconds = _seconds(run, lambda: sampling.to_host(kept["draws"][:, :1]), sizes.repeats)
    floor = 1e-9 * ceilings.bandwidth(choose("cuda").device, sizes) / PG_BYTES
    return {"value": 1e-9 * n / seconds, "unit": "1e9 draws/s", "floor": floor}


def _time_sampler(sampling, sampler, sizes):
    """Milliseconds of an iteration, after some that tune."""

    def run():
        for _ in range(sizes.iterations):
            sampling.random.iteration += 1
            sampler.sweep(sampling.random.iteration <= sizes.iterations)

    def synchronize():
        sampling.to_host(sampler.state()["coef"])

    seconds = _seconds(run, synchronize, sizes.repeats)
    return {"value": 1e3 * seconds / sizes.iterations, "unit": "ms an iteration"}


def time_lasso(sizes):
    n_chains, n, p = sizes.lasso
    sampling = choose_sampling("cuda")(SEED, np.arange(n_chains))
    found = _time_sampler(sampling, lasso_sampler(sampling, lasso_rows(n, p)), sizes)
    return {**found, "note": f"{n_chains} chains together"}


def time_multinomial(name, sizes):
    """One chain; X is read once for every product with it, which is the floor."""
    make = choose_sampling("cuda")
    problem = Multinomial(*sizes.multinomial, make)
    found = _time_sampler(*problem.sampler(name, make, 1), sizes)
    bandwidth, mean = ceilings.bandwidth(choose("cuda").device, sizes), problem.prior.mean
    steps = max(FEWEST_STEPS, math.ceil(mean.size**0.25))
    reads = 3 * len(mean) if name == "Gibbs" else 2 * steps
    return {**found, "floor": 1e3 * reads * problem.rows.X.nbytes / bandwidth}


MEASURES = {
    "parity: draws": parity_of_draws,
    "parity: lasso": parity_of_lasso,
    "parity: Gibbs": partial(parity_of_multinomial, "Gibbs"),
    "parity: Hamiltonian": partial(parity_of_multinomial, "Hamiltonian"),
    "parity: evaluations": parity_of_evaluator,
    "Polya-Gamma": time_polya_gamma,
    "lasso": time_lasso,
    "multinomial, Gibbs": partial(time_multinomial, "Gibbs"),
    "multinomial, Hamiltonian": partial(time_multinomial, "Hamiltonian"),
}


def draw_everything(n=24):
    """Every kernel of samplers on tiny data; how many runs."""
    make = choose_sampling("cuda")
    draw_all(make(SEED, np.arange(2)), n)
    sampling = make(SEED, np.arange(2))
    sampling.linalg.weighted_gram(sampling.put(np.ones((n, 3))), sampling.put(np.ones((2, n))))
    run_chains(sampling, lasso_sampler(sampling, lasso_rows(n, 5)), 2)
    problem = Multinomial(n, 3, 3, make)
    for name in ("Gibbs", "Hamiltonian"):
        run_chains(*problem.sampler(name, make, 2), 2)
    return 5
