r"""Rows of a multinomial logistic model on a device; `backends.cpu.softmax` says what they do.

Predictors lie category by category, so that neighbouring threads read neighbouring rows; products
with X are the library's.  An offset takes all exponentials of its row anew: on a device they cost
less than to keep those of the last category.
"""

import math

import numpy as np

from ._cuda import cuda, device, kernel

THREADS = 256


@device
def _top_of_others(predictor, b, i, skipped):
    """Largest predictor of a row, the reference's 0 included, without one category."""
    top = 0.0
    for j in range(predictor.shape[1]):
        if j != skipped:
            top = max(top, predictor[b, j, i])
    return top


@kernel
def log_sums_of_others(predictor, skipped, out):
    """Offset of a category: one thread a row and chain."""
    t, n = cuda.grid(1), out.shape[1]
    while t < out.size:
        b, i = t // n, t % n
        top = _top_of_others(predictor, b, i, skipped)
        total = math.exp(-top)
        for j in range(predictor.shape[1]):
            if j != skipped:
                total += math.exp(predictor[b, j, i] - top)
        out[b, i] = top + math.log(total)
        t += cuda.gridsize(1)


@device
def _normalize(predictor, b, i):
    """Predictors of a row become probabilities; the logarithm of their sum is returned."""
    top = _top_of_others(predictor, b, i, predictor.shape[1])
    total = math.exp(-top)
    for j in range(predictor.shape[1]):
        power = math.exp(predictor[b, j, i] - top)
        predictor[b, j, i] = power
        total += power
    for j in range(predictor.shape[1]):
        predictor[b, j, i] /= total
    return top + math.log(total)


@kernel
def normalize(predictor):
    """Predictors become probabilities: one thread a row and chain."""
    t, n = cuda.grid(1), predictor.shape[2]
    while t < predictor.shape[0] * n:
        _normalize(predictor, t // n, t % n)
        t += cuda.gridsize(1)


@kernel
def score_rows(predictor, y, count, loglik):
    """Predictors become residuals, and every row says its log-likelihood."""
    t, n = cuda.grid(1), loglik.shape[1]
    while t < loglik.size:
        b, i = t // n, t % n
        of_chain, n_trials, linear = b if y.shape[0] > 1 else 0, count[i], 0.0
        for j in range(predictor.shape[1]):
            if y[of_chain, j, i] > 0.0:  # 0 of what may be infinite is 0
                linear += y[of_chain, j, i] * predictor[b, j, i]
        loglik[b, i] = linear - n_trials * _normalize(predictor, b, i)
        for j in range(predictor.shape[1]):
            predictor[b, j, i] = y[of_chain, j, i] - n_trials * predictor[b, j, i]
        t += cuda.gridsize(1)


class SoftmaxRows:
    """Rows of X with counts of categories, for the chains of a `Sampling`."""

    def __init__(self, sampling, X, y, count):
        self.X, self.y, self.count = X, y, count
        self._sampling, self._predictor = sampling, None
        # two sets of predictors and a copy in between; offsets, draws and their products
        numbers = (3 * y.shape[1] + 6) * X.shape[0] + X.shape[1] ** 2
        sampling.reserve(8 * sampling.linalg.gram_scratch(X), 8 * numbers)

    def place(self, coef):
        self._predictor = self._predict(self._sampling.xp.asarray(coef))

    def predictor(self, j):
        return self._predictor[:, j]

    def offset(self, j):
        n_chains, _, n_rows = self._predictor.shape
        out = self._sampling.xp.empty((n_chains, n_rows))
        self._launch(log_sums_of_others, out.size, self._predictor, np.int32(j), out)
        return out

    def project(self, target):
        return self._sampling.linalg.product(self.X.T, target)

    def move(self, j, coef):
        self._predictor[:, j] = self._sampling.linalg.product(self.X, coef)

    def snapshot(self):
        return {"predictor": self._predictor}

    def restore(self, arrays):
        self._predictor = arrays["predictor"]

    def probability(self, coef):
        predictor = self._predict(self._sampling.xp.asarray(coef))
        self._launch(normalize, predictor.shape[0] * predictor.shape[2], predictor)
        return predictor

    def value_and_gradient(self, coef):
        sampling = self._sampling
        residual = self._predict(sampling.xp.asarray(coef))
        n_chains, n_categories, n_rows = residual.shape
        loglik = sampling.xp.empty((n_chains, n_rows))
        self._launch(score_rows, loglik.size, residual, self.y, self.count, loglik)
        gradient = self.project(residual.reshape(n_chains * n_categories, n_rows))
        value = sampling.to_host(loglik.sum(axis=1))
        return value, sampling.to_host(gradient).reshape(coef.shape)

    def _predict(self, coef):
        """Predictors (B, m, n) at coefficients (B, m, q) of the device."""
        n_chains, n_categories, n_columns = coef.shape
        rows = coef.reshape(n_chains * n_categories, n_columns)
        found = self._sampling.xp.ascontiguousarray(self._sampling.linalg.product(self.X, rows))
        return found.reshape(n_chains, n_categories, -1)

    def _launch(self, kernel, n_threads, *arguments):
        device = self._sampling.device
        is_scalar = [isinstance(argument, np.integer) for argument in arguments]
        pairs = zip(arguments, is_scalar, strict=True)
        given = [argument if plain else device.share(argument) for argument, plain in pairs]
        device.launch(kernel, -(-n_threads // THREADS), THREADS, tuple(given))
