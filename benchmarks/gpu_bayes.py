"""Samplers on a device: the CPU's chains draw by draw, then times.

Iterations are of all chains together and leave nothing on the host, but for Hamiltonian ones, whose
positions and gradients travel.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from sksurvgpu.backends import choose, choose_sampling
from sksurvgpu.bayes.hmc import FEWEST_STEPS
from sksurvgpu.bayes.multinomial import MultinomialGibbs, MultinomialHmc, collapse_rows
from sksurvgpu.bayes.priors import Lasso
from sksurvgpu.bayes.reduction import reduce_rows
from sksurvgpu.bayes.regression import CollapsedSampler
from sksurvgpu.bayes.softmax import NormalPrior, SoftmaxTarget, find_mode
from sksurvgpu.exceptions import BackendUnavailableError

from . import gpu_ceilings
from .report import number

ITEM_LIMIT = 150.0
HEADERS = ["samplers", "", "unit", "floor", "note"]
SEED = 1
PARITY_RTOL = 1e-6
# Of draws: an accepted one may be refused where the last bit of a logarithm differs.
FEW, DRAW_RTOL = 3, 1e-9
PG_BYTES = 8 + 8 + 8 + 4  # of a draw: tilt, draw, count, place in the order


@dataclass(frozen=True)
class Scale:
    draws: int = 2**26
    compared_draws: int = 100_000
    lasso: tuple = (64, 425, 2_000)  # chains, rows, columns
    multinomial: tuple = (506_450, 56, 9)  # rows, columns, categories
    parity_lasso: tuple = (2, 60, 100)
    parity_multinomial: tuple = (2_000, 5, 4)
    parity_iterations: int = 50
    iterations: int = 20
    repeats: int = 5
    ceilings: gpu_ceilings.Scale = gpu_ceilings.FULL


FULL = Scale()
SMALL = Scale(
    draws=2**20,
    compared_draws=10_000,
    lasso=(8, 60, 100),
    multinomial=(5_000, 10, 4),
    iterations=5,
    repeats=2,
    ceilings=gpu_ceilings.SMALL,
)

# item -> (unit, what it aims at)
TARGETS = {
    "Polya-Gamma": ("1e9 draws/s", 1.0),
    "lasso": ("ms an iteration", 15.0),
    "multinomial, Gibbs": ("ms a sweep", 15.0),
    "multinomial, Hamiltonian": ("ms an iteration", 5.0),
}
PARITY = ("parity: draws", "parity: lasso", "parity: Gibbs", "parity: Hamiltonian")


def jobs(scale):
    return {"bayes": (*PARITY, *TARGETS)}


def measure(item, scale):
    try:
        choose_sampling("cuda")
    except BackendUnavailableError as error:
        return {"not_run": str(error)}
    return MEASURES[item](scale)


# -- problems ---------------------------------------------------------------------------------


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

    def __init__(self, n, p, k):
        rng = np.random.default_rng(0)
        X = np.column_stack([rng.normal(size=(n, p - 1)), np.ones(n)])
        coef = rng.normal(size=(p, k - 1)) / np.sqrt(p)
        level = np.column_stack([X @ coef, np.zeros(n)]) + rng.gumbel(size=(n, k))
        self.rows = collapse_rows(X, np.eye(k, dtype=np.int64)[level.argmax(axis=1)])
        self.prior = NormalPrior(np.zeros((k - 1, p)), np.ones((k - 1, p)))

    def find_mode(self, make):
        alone = make(SEED, np.arange(1))
        self.mode = find_mode(alone, SoftmaxTarget(self.rows.put(alone), self.prior))

    def sampler(self, name, make, n_chains):
        sampling, chains = make(SEED, np.arange(n_chains)), np.arange(n_chains)
        rows = self.rows.put(sampling)
        if name == "Gibbs":
            return sampling, MultinomialGibbs(sampling, rows, self.prior, *self.mode)
        on_host = choose_sampling("cpu")(SEED, chains)
        return on_host, MultinomialHmc(on_host, rows, self.prior, *self.mode)


# -- parity -----------------------------------------------------------------------------------


def run_chains(sampling, sampler, n_iterations):
    """Coefficients (n_iterations, B, ...) on the host."""
    kept = []
    for iteration in range(1, n_iterations + 1):
        sampling.random.iteration = iteration
        sampler.sweep(iteration <= n_iterations // 2)
        kept.append(np.array(sampling.to_host(sampler.state()["coef"])))
    return np.array(kept)


def _compare(cpu, cuda):
    """Largest difference of two runs, over the largest number of each iteration."""
    axes = tuple(range(1, cpu.ndim))
    error = float((abs(cuda - cpu).max(axis=axes) / abs(cpu).max(axis=axes)).max())
    return {"value": error, "unit": "rel. difference", "passed": bool(error <= PARITY_RTOL)}


def _parity_of_lasso(scale):
    n_chains, *size = scale.parity_lasso
    rows, runs = lasso_rows(*size), []
    for backend in ("cpu", "cuda"):
        sampling = choose_sampling(backend)(SEED, np.arange(n_chains))
        runs.append(run_chains(sampling, lasso_sampler(sampling, rows), scale.parity_iterations))
    return _compare(*runs)


def _parity_of_multinomial(scale, name):
    problem, runs = Multinomial(*scale.parity_multinomial), []
    problem.find_mode(choose_sampling("cpu"))
    for backend in ("cpu", "cuda"):
        sampling, sampler = problem.sampler(name, choose_sampling(backend), 2)
        runs.append(run_chains(sampling, sampler, scale.parity_iterations))
    return _compare(*runs)


def _parity_of_draws(scale):
    """Draws of every kind that differ by more than rounding."""
    n, rng, found = scale.compared_draws, np.random.default_rng(0), []
    shape, mean = rng.gamma(1.0, size=(1, n)), np.exp(5.0 * rng.normal(size=(1, n)))
    tilt, count = 4.0 * rng.normal(size=(1, n)), rng.integers(1, 4, n)
    for backend in ("cpu", "cuda"):
        sampling = choose_sampling(backend)(SEED, np.arange(1))
        random, put = sampling.random, sampling.put
        arrays = (
            random.normal(0, n),
            random.uniform(1, n),
            random.gamma(2, put(shape)),
            random.inverse_gaussian(3, put(mean), put(shape)),
            random.polya_gamma(4, put(count), put(tilt)),
        )
        found.append(np.stack([np.array(sampling.to_host(array)) for array in arrays]))
    differ = abs(found[1] - found[0]) > DRAW_RTOL * abs(found[0])
    n_differ = int(differ.sum())
    return {"value": n_differ, "unit": "draws differ", "passed": n_differ <= FEW}


# -- times ------------------------------------------------------------------------------------


def _seconds(run, synchronize, repeats):
    """Least time of a run, the first of which compiles and is left out."""
    seconds = []
    for _ in range(repeats + 1):
        begin = time.perf_counter()
        run()
        synchronize()
        seconds.append(time.perf_counter() - begin)
    return min(seconds[1:])


def _time_polya_gamma(scale):
    sampling, n = choose_sampling("cuda")(SEED, np.arange(1)), scale.draws
    tilt, count = 2.0 * sampling.random.normal(0, n), sampling.put(np.ones(n, np.int64))
    kept = {}

    def run():
        kept["draws"] = sampling.random.polya_gamma(1, count, tilt)

    seconds = _seconds(run, lambda: sampling.to_host(kept["draws"][:, :1]), scale.repeats)
    bandwidth = gpu_ceilings.known_bandwidth(choose("cuda").device, scale.ceilings)
    return {"value": 1e-9 * n / seconds, "floor": 1e-9 * bandwidth / PG_BYTES}


def _time_sampler(sampling, sampler, scale):
    """Milliseconds of an iteration, after some that tune."""

    def run():
        for _ in range(scale.iterations):
            sampling.random.iteration += 1
            sampler.sweep(sampling.random.iteration <= scale.iterations)

    def synchronize():
        sampling.to_host(sampler.state()["coef"])

    return 1e3 * _seconds(run, synchronize, scale.repeats) / scale.iterations


def _time_lasso(scale):
    n_chains, n, p = scale.lasso
    sampling = choose_sampling("cuda")(SEED, np.arange(n_chains))
    value = _time_sampler(sampling, lasso_sampler(sampling, lasso_rows(n, p)), scale)
    return {"value": value, "chains": n_chains}


def _time_multinomial(scale, name):
    """One chain; X is read once for every product with it, which is the floor."""
    problem, make = Multinomial(*scale.multinomial), choose_sampling("cuda")
    problem.find_mode(make)
    sampling, sampler = problem.sampler(name, make, 1)
    value = _time_sampler(sampling, sampler, scale)
    bandwidth = gpu_ceilings.known_bandwidth(choose("cuda").device, scale.ceilings)
    mean = problem.prior.mean
    steps = max(FEWEST_STEPS, math.ceil(mean.size**0.25))
    reads = 3 * len(mean) if name == "Gibbs" else 2 * steps
    return {"value": value, "floor": 1e3 * reads * problem.rows.X.nbytes / bandwidth}


MEASURES = {
    "parity: draws": _parity_of_draws,
    "parity: lasso": _parity_of_lasso,
    "parity: Gibbs": lambda scale: _parity_of_multinomial(scale, "Gibbs"),
    "parity: Hamiltonian": lambda scale: _parity_of_multinomial(scale, "Hamiltonian"),
    "Polya-Gamma": _time_polya_gamma,
    "lasso": _time_lasso,
    "multinomial, Gibbs": lambda scale: _time_multinomial(scale, "Gibbs"),
    "multinomial, Hamiltonian": lambda scale: _time_multinomial(scale, "Hamiltonian"),
}


# -- the table --------------------------------------------------------------------------------


def row(item, result):
    if item in PARITY:
        note = "" if result["passed"] else "FAILED"
        return [item, f"{result['value']:.2g}", result["unit"], "", note]
    unit, aim = TARGETS[item]
    value = result["value"]
    is_met = value >= aim if unit.endswith("/s") else value <= aim
    note = f"{'within' if is_met else 'MISSES'} the aim of {aim:g}"
    if "chains" in result:
        note += f", {result['chains']} chains together"
    return [item, number(value), unit, number(result.get("floor")), note]


def failed(result):
    return "error" in result or result.get("passed") is False
