"""Samplers on the same problems: the package's, and plain ones in NumPy beside them.

The plain ones need NumPy and SciPy, the multinomial one polyagamma besides, and nothing of the
package, so that they run in an interpreter of their own. One chain, one thread; nothing is tuned.
"""

from __future__ import annotations

import importlib
import os
import time
from dataclasses import dataclass

import numpy as np
from scipy.linalg import lapack, solve_triangular

from .mixing import fastest, time_sweeps

N_ROWS = 425  # of a linear problem
N_SIGNALS = 10
NEIGHBOURS = 0.7  # correlation of adjacent columns
SPREAD = 1.5  # standard deviation of a class's predictor
LASSO_PRIOR = {"r": 1.0, "delta": 1e-4, "a": 1.0, "b": 1.0}
COEF_SD = 1.0  # of the normal prior of a multinomial coefficient
LARGEST_TILT = 150.0  # polyagamma's "devroye" breaks between here and 178
MULTINOMIAL = ("gibbs", "hmc")


@dataclass(frozen=True)
class Linear:
    """y = X @ coef + standard normal noise; columns of mean zero and variance one."""

    X: np.ndarray
    y: np.ndarray
    coef: np.ndarray


@dataclass(frozen=True)
class Multinomial:
    """Labels of `n_classes` classes; the first column of X is one, the last class has zeros."""

    X: np.ndarray
    labels: np.ndarray
    n_classes: int


def linear(p, n=N_ROWS, seed=1):
    """Columns of an autoregression, ten of them with coefficients 1 and -1 in turn."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    fresh = np.sqrt(1.0 - NEIGHBOURS**2)
    for j in range(1, p):
        X[:, j] = NEIGHBOURS * X[:, j - 1] + fresh * X[:, j]
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    coef = np.zeros(p)
    coef[np.linspace(0, p - 1, N_SIGNALS).astype(int)] = np.resize([1.0, -1.0], N_SIGNALS)
    return Linear(X, X @ coef + rng.standard_normal(n), coef)


def multinomial(n, p, n_classes, common=None, seed=1):
    """Normal columns and coefficients; `common` is the share of the last class, about."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, 0] = 1.0
    coef = rng.standard_normal((p, n_classes)) * (SPREAD / np.sqrt(p))
    coef[0] = 0.0
    coef[:, -1] = 0.0
    if common is not None:
        coef[0, :-1] = np.log((1.0 - common) / common / (n_classes - 1)) - SPREAD**2 / 2.0
    # The largest of predictor + Gumbel noise has the probabilities of the softmax.
    noise = rng.gumbel(size=(n, n_classes))
    return Multinomial(X, np.argmax(X @ coef + noise, axis=1), n_classes)


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


def measure_our_draws(n, repeats, seed):
    """Million PG(1, z) draws a second, by kind of z, and uniform numbers beside them."""
    from sksurvgpu.backends.cpu.random import Random

    random = Random(seed, np.array([0]))
    ones = np.ones(n, dtype=np.int64)
    calls = {name: lambda z=z[None]: random.polya_gamma(0, ones, z) for name, z in tilts(n).items()}
    calls["uniform"] = lambda: random.uniform(0, n)
    return {name: n / fastest(call, repeats) / 1e6 for name, call in calls.items()}


def measure_our_lasso(kind, p, n, seconds, n_tune, seed):
    """One of the Gaussian samplers, a chain on a thread."""
    problem = linear(p, n)
    tiny = linear(12, 10)
    Driven(lasso_sampler(kind, tiny), seed, _lasso_record).sweep()  # loads the kernels
    begin = time.process_time()
    driven = Driven(lasso_sampler(kind, problem), seed, _lasso_record)
    return time_sweeps(driven, begin, seconds, n_tune)


def lasso_sampler(kind, problem):
    """A maker of Gaussian samplers, given the sampling of some chains."""
    from sksurvgpu.bayes.priors import Lasso
    from sksurvgpu.bayes.reduction import reduce_rows
    from sksurvgpu.bayes.regression import SAMPLERS

    prior = LASSO_PRIOR
    rows = reduce_rows(problem.X, problem.y[None])
    lasso = Lasso(shape=prior["r"], rate=prior["delta"])
    return lambda sampling: SAMPLERS[kind](sampling, rows, lasso, (prior["a"], prior["b"]))


def _lasso_record(state):
    coef = state["coef"][0]
    return [state["sigma2"][0], state["lambda2"][0], coef @ coef]


def measure_our_multinomial(kind, problem, seconds, n_tune, seed):
    """Gibbs or Hamiltonian chain, on a thread; both start about the mode, which takes time, too."""

    def record(state):
        return state["coef"][0].ravel()

    tiny = multinomial(30, 2, problem["n_classes"])
    Driven(multinomial_sampler(kind, tiny), seed, record).sweep()
    drawn = multinomial(**problem)
    begin = time.process_time()
    driven = Driven(multinomial_sampler(kind, drawn), seed, record)
    return time_sweeps(driven, begin, seconds, n_tune)


def multinomial_sampler(kind, problem):
    """A maker of multinomial samplers from the sampling of some chains; all find one mode."""
    from sksurvgpu.bayes.multinomial import MultinomialGibbs, MultinomialHmc, collapse_rows
    from sksurvgpu.bayes.softmax import CategoriesPrior, SoftmaxTarget, find_mode

    shape = (problem.n_classes - 1, problem.X.shape[1])
    prior = CategoriesPrior(np.zeros(shape), np.full(shape, COEF_SD**-2))
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
        make = multinomial_sampler(kind, multinomial(**problem))
    else:
        make = lasso_sampler(kind, linear(**problem))

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


class PublishedLasso:
    """Park and Casella's Gibbs sampler by the published route.

    beta ~ N(A^-1 X'y, sigma2 A^-1), A = X'X + D^-1: A^-1 formed, then its Cholesky factor. The
    formulas are the right ones, not those of the published box (inverse of tau2, rate of lambda2,
    prior of sigma2).
    """

    def __init__(self, X, y, prior, seed):
        self.rng = np.random.default_rng(seed)
        self.prior = prior
        self.X = X - X.mean(axis=0)
        self.y = y - y.mean()
        self.gram = self.X.T @ self.X
        self.moments = self.X.T @ self.y
        self.sigma2 = self.y.var() * 10.0 ** self.rng.uniform(-1.0, 1.0)
        self.lambda2 = 10.0 ** self.rng.uniform(-1.0, 2.0)
        self.tau2 = self.rng.exponential(2.0 / self.lambda2, X.shape[1])
        self.coef = np.zeros(X.shape[1])

    def sweep(self, tuning=False):
        n, p = self.X.shape
        rng, prior = self.rng, self.prior
        A = self.gram.copy()
        A[np.diag_indices(p)] += 1.0 / self.tau2
        inverse = _inverse(A)
        mean = inverse @ self.moments
        root = _cholesky(inverse)
        self.coef = mean + np.sqrt(self.sigma2) * (root @ rng.standard_normal(p))
        residual = self.y - self.X @ self.coef
        rate = 0.5 * (residual @ residual + self.coef @ (self.coef / self.tau2))
        self.sigma2 = (prior["b"] + rate) / rng.gamma(prior["a"] + 0.5 * (n - 1 + p))
        mean = np.sqrt(self.lambda2 * self.sigma2) / np.abs(self.coef)
        self.tau2 = 1.0 / inverse_gaussian(rng, mean, self.lambda2)
        rate = prior["delta"] + 0.5 * self.tau2.sum()
        self.lambda2 = rng.gamma(prior["r"] + p) / rate

    def recorded(self):
        """Quantities that are compared: sigma2, lambda2 and the squared length of beta."""
        return [self.sigma2, self.lambda2, self.coef @ self.coef]


class PolyaGammaGibbs:
    """Polya-Gamma Gibbs sampler of multinomial logistic regression, category by category.

    `draw(counts, z)` returns PG(counts, z), `y` are counts (rows x classes), the coefficients of
    the last class zero; priors are N(prior_mean[j], prior_precision[j]^-1).
    """

    def __init__(self, X, y, prior_mean, prior_precision, draw, seed):
        self.rng = np.random.default_rng(seed)
        self.X, self.y, self.draw = X, y, draw
        self.trials = y.sum(axis=1)
        self.prior_mean, self.prior_precision = prior_mean, prior_precision
        n_free = y.shape[1] - 1
        self.coef = 0.1 * self.rng.standard_normal((n_free, X.shape[1]))
        self.eta = np.column_stack([X @ self.coef.T, np.zeros(len(X))])

    def sweep(self, tuning=False):
        for j in range(len(self.coef)):
            others = np.delete(self.eta, j, axis=1)
            top = others.max(axis=1)
            offset = top + np.log(np.exp(others - top[:, None]).sum(axis=1))
            omega = self.draw(self.trials, self.eta[:, j] - offset)
            kappa = self.y[:, j] - 0.5 * self.trials
            precision = self.prior_precision[j]
            A = (self.X * omega[:, None]).T @ self.X + precision
            bracket = self.X.T @ (kappa + omega * offset) + precision @ self.prior_mean[j]
            root = _cholesky(A)
            half = solve_triangular(root, bracket, lower=True)
            half += self.rng.standard_normal(len(half))
            self.coef[j] = solve_triangular(root, half, lower=True, trans="T")
            self.eta[:, j] = self.X @ self.coef[j]

    def recorded(self):
        """All coefficients, category by category."""
        return self.coef.ravel()


def inverse_gaussian(rng, mean, shape):
    """Michael, Schucany and Haas, written so that large means lose no digits."""
    q = mean * rng.standard_normal(len(mean)) ** 2 / (2.0 * shape)
    x = mean / (1.0 + q + np.sqrt(q * (q + 2.0)))
    return np.where(rng.uniform(size=len(mean)) * (mean + x) <= mean, x, mean * (mean / x))


def _cholesky(matrix):
    """Lower factor."""
    factor, failed = lapack.dpotrf(matrix, lower=True)
    if failed:
        raise np.linalg.LinAlgError(f"not positive definite: row {failed}")
    return factor


def _inverse(matrix):
    """From the Cholesky factor: a third of what an LU factorization would take more."""
    inverse, failed = lapack.dpotri(_cholesky(matrix), lower=True)
    if failed:
        raise np.linalg.LinAlgError(f"singular: row {failed}")
    return np.tril(inverse) + np.tril(inverse, -1).T


def measure_lasso(p, n, seconds, n_tune, seed):
    """The published route on one linear problem."""
    problem = linear(p, n)
    begin = time.process_time()
    sampler = PublishedLasso(problem.X, problem.y, LASSO_PRIOR, seed)
    return time_sweeps(sampler, begin, seconds, n_tune)


def measure_multinomial(problem, seconds, n_tune, seed):
    """polyagamma and NumPy on one multinomial problem."""
    draw = _exact_draws(seed)
    if draw is None:
        return {"reason": "polyagamma is not importable; see --peer-python"}
    drawn = multinomial(**problem)
    p, n_free = drawn.X.shape[1], drawn.n_classes - 1
    precision = np.array([np.eye(p) / COEF_SD**2] * n_free)
    counts = np.eye(drawn.n_classes, dtype=np.int64)[drawn.labels]
    prior = (np.zeros((n_free, p)), precision)
    begin = time.process_time()
    sampler = PolyaGammaGibbs(drawn.X, counts, *prior, draw, seed)
    return time_sweeps(sampler, begin, seconds, n_tune)


def measure_draws(n, repeats, seed):
    """Million PG(1, z) draws a second of polyagamma, by kind of z."""
    draw = _exact_draws(seed)
    if draw is None:
        return {"reason": "polyagamma is not importable; see --peer-python"}
    ones = np.ones(n, dtype=np.int64)
    return {
        name: n / fastest(lambda z=z: draw(ones, z), repeats) / 1e6 for name, z in tilts(n).items()
    }


def tilts(n, seed=1):
    """The kinds of z that are timed."""
    fixed = {f"z = {z:g}": np.full(n, z) for z in (0.0, 1.0, 4.0)}
    return {**fixed, "z ~ N(0, 4)": 2.0 * np.random.default_rng(seed).standard_normal(n)}


def import_polyagamma():
    """The module, or None."""
    try:
        return importlib.import_module("polyagamma")
    except ImportError:
        return None


def _exact_draws(seed):
    """Draws by polyagamma's exact method (its default picks approximations), or None."""
    polyagamma = import_polyagamma()
    if polyagamma is None:
        return None
    rng = np.random.default_rng([seed, 1])

    def draw(counts, z):
        if np.abs(z).max() > LARGEST_TILT:
            raise ValueError(f"|z| up to {np.abs(z).max():g}: polyagamma is not exact there")
        return polyagamma.random_polyagamma(counts, z, method="devroye", random_state=rng)

    return draw
