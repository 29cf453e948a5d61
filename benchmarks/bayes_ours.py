"""The package's samplers on the problems of `bayes_problems`, timed as the plain ones are."""

from __future__ import annotations

import os
import time

import numpy as np

from . import bayes_problems
from .bayes_peers import tilts
from .mixing import fastest, time_sweeps

MULTINOMIAL = ("gibbs", "hmc")


class Driven:
    """A sampler of the package with the face of the plain ones."""

    def __init__(self, make, seed, record):
        sampling = new_sampling(seed)
        self._random, self._record = sampling.random, record
        self._sampler = make(sampling)

    def sweep(self, tuning=False):
        self._random.iteration += 1
        self._sampler.sweep(tuning)

    def recorded(self):
        return self._record(self._sampler.state())


def new_sampling(seed):
    """Of one chain."""
    from sksurvgpu.backends.cpu.sampling import Sampling

    return Sampling(seed, np.array([0]))


def measure_draws(n, repeats, seed):
    """Million PG(1, z) draws a second, by kind of z, and uniform numbers beside them."""
    from sksurvgpu.backends.cpu.random import Random

    random = Random(seed, np.array([0]))
    ones = np.ones(n, dtype=np.int64)
    calls = {name: lambda z=z[None]: random.polya_gamma(0, ones, z) for name, z in tilts(n).items()}
    calls["uniform"] = lambda: random.uniform(0, n)
    return {name: n / fastest(call, repeats) / 1e6 for name, call in calls.items()}


def measure_lasso(kind, p, n, seconds, n_tune, seed):
    """One of the Gaussian samplers, a chain on a thread."""
    problem = bayes_problems.linear(p, n)
    tiny = bayes_problems.linear(12, 10)
    Driven(lasso_sampler(kind, tiny), seed, _lasso_record).sweep()  # loads the kernels
    begin = time.process_time()
    driven = Driven(lasso_sampler(kind, problem), seed, _lasso_record)
    return time_sweeps(driven, begin, seconds, n_tune)


def lasso_sampler(kind, problem):
    """What makes the sampler of some chains."""
    from sksurvgpu.bayes.priors import Lasso
    from sksurvgpu.bayes.reduction import reduce_rows
    from sksurvgpu.bayes.regression import SAMPLERS

    prior = bayes_problems.LASSO_PRIOR
    rows = reduce_rows(problem.X, problem.y[None])
    lasso = Lasso(shape=prior["r"], rate=prior["delta"])
    return lambda sampling: SAMPLERS[kind](sampling, rows, lasso, (prior["a"], prior["b"]))


def _lasso_record(state):
    coef = state["coef"][0]
    return [state["sigma2"][0], state["lambda2"][0], coef @ coef]


def measure_multinomial(kind, problem, seconds, n_tune, seed):
    """Gibbs or Hamiltonian chain, on a thread; both start about the mode, which takes time, too."""

    def record(state):
        return state["coef"][0].ravel()

    tiny = bayes_problems.multinomial(30, 2, problem["n_classes"])
    Driven(multinomial_sampler(kind, tiny), seed, record).sweep()
    drawn = bayes_problems.multinomial(**problem)
    begin = time.process_time()
    driven = Driven(multinomial_sampler(kind, drawn), seed, record)
    return time_sweeps(driven, begin, seconds, n_tune)


def multinomial_sampler(kind, problem):
    """What makes the sampler of some chains; all find the same mode."""
    from sksurvgpu.bayes.multinomial import MultinomialGibbs, MultinomialHmc, collapse_rows
    from sksurvgpu.bayes.softmax import NormalPrior, SoftmaxTarget, find_mode

    shape = (problem.n_classes - 1, problem.X.shape[1])
    prior = NormalPrior(np.zeros(shape), np.full(shape, bayes_problems.COEF_SD**-2))
    counts = np.eye(problem.n_classes, dtype=np.int64)[problem.labels]
    rows = collapse_rows(problem.X, counts)
    one = new_sampling(0)
    mode, factor = find_mode(one, SoftmaxTarget(rows.put(one), prior))
    sampler = {"gibbs": MultinomialGibbs, "hmc": MultinomialHmc}[kind]
    return lambda sampling: sampler(sampling, rows.put(sampling), prior, mode, factor)


def measure_chains(kind, problem, n_sweeps, repeats):
    """Seconds of one chain on a thread and of two on two, the fastest of `repeats` each.

    `kind` is a sampler of linear or multinomial models, `problem` what the simulator takes.
    """
    from sksurvgpu.backends.cpu.sampling import Sampling
    from sksurvgpu.bayes.chains import Schedule, run_chains

    if kind in MULTINOMIAL:
        make = multinomial_sampler(kind, bayes_problems.multinomial(**problem))
    else:
        make = lasso_sampler(kind, bayes_problems.linear(**problem))

    def run(n_chains):
        schedule = Schedule(n_chains=n_chains, n_tune=0, n_draws=n_sweeps)
        sampled = run_chains(lambda chains: make(Sampling(0, chains)), schedule, n_threads=n_chains)
        return sampled.seconds

    run(1)
    # In turns, so that another load meets both.
    seconds = np.array([[run(1), run(2)] for _ in range(repeats)]).min(axis=0)
    return {
        "one": float(seconds[0]),
        "two": float(seconds[1]),
        "efficiency": float(seconds[0] / seconds[1]),
        "load": os.getloadavg()[0],
    }
