"""The samplers that ours are measured beside, written plainly in NumPy.

They need NumPy and SciPy, the multinomial one polyagamma besides, and nothing of the package, so
that they run in an interpreter of their own. One chain, one thread; nothing is tuned.
"""

from __future__ import annotations

import importlib
import time

import numpy as np
from scipy.linalg import lapack, solve_triangular

from . import bayes_problems
from .mixing import fastest, time_sweeps

LARGEST_TILT = 150.0  # polyagamma's "devroye" breaks between here and 178


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
        """What is compared: sigma2, lambda2 and the squared length of beta."""
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


# -- measurements -----------------------------------------------------------------------------


def measure_lasso(p, n, seconds, n_tune, seed):
    """The published route on one linear problem."""
    problem = bayes_problems.linear(p, n)
    begin = time.process_time()
    sampler = PublishedLasso(problem.X, problem.y, bayes_problems.LASSO_PRIOR, seed)
    return time_sweeps(sampler, begin, seconds, n_tune)


def measure_multinomial(problem, seconds, n_tune, seed):
    """polyagamma and NumPy on one multinomial problem."""
    draw = _exact_draws(seed)
    if draw is None:
        return {"reason": "polyagamma is not importable; see --peer-python"}
    drawn = bayes_problems.multinomial(**problem)
    p, n_free = drawn.X.shape[1], drawn.n_classes - 1
    precision = np.array([np.eye(p) / bayes_problems.COEF_SD**2] * n_free)
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
