r"""Rows of a multinomial logistic model, for some chains: what samplers ask of a backend.

Row i counts :math:`n_i` trials in k categories with probabilities
:math:`\mathrm{softmax}(\eta_{i\cdot})`, :math:`\eta_{ij} = x_i^\top\beta_j`, and the last category
is the reference, :math:`\eta_{ik} = 0`.  The m = k - 1 others are called categories 0 to m - 1.

Every backend has ``Sampling.softmax_rows(X, y, count)``, an object for B chains with the
operations below; arrays are those of ``Sampling.xp`` unless they are said to be of the host.
`X` (n, q) is dense or by rows (``Sampling.put``), `y` (1 or B, m, n) has the counts of the
categories but the reference as floats, `count` (n,) the trials as integers of at least 1.

    place(coef)                 set all coefficients (B, m, q), and with them the predictors
    predictor(j)                eta_ij of category j, (B, n); not to be written to
    offset(j)                   c_ij = log sum_{l != j} exp(eta_il), the reference included, (B, n)
    project(target)             X' t of one number a row, (B, n) -> (B, q)
    move(j, coef)               set the coefficients (B, q) of category j, and its predictors
    snapshot(), restore(arrays) all that these share, arrays by name
    probability(coef)           P(category j) at coefficients (B, m, q) of the host, (B, m, n)
    value_and_gradient(coef)    of the host, (B, m, q) -> log-likelihood (B,), gradient (B, m, q)

The first six share the predictors, the last two leave them alone.  `offset` never subtracts a
term from a total: where category j dominates, nothing would be left of the others.  Exponentials
are kept relative to a row's largest predictor when they were taken (`top`), so that a sweep over m
categories costs m exponentials a row and not m^2; a row's are taken anew where they would overflow
or where too little is left of the others.
"""

import math

import numpy as np
from scipy.sparse import issparse

from ..._compile import device, kernel

# Rows of a block: few enough to stay in cache between two products, so many that threads do not
# queue for the interpreter's lock between blocks (of 500, two threads were no faster than one), and
# no power of two, which would put the categories of a row into one set of the cache.
_BLOCK = 4_000
_SPARSE_BLOCK = 20_000  # a block of sparse rows is a copy
# Sums of exponentials below this may have lost terms to underflow, which begins at 1e-308.
_LEAST = 1e-200
_LARGEST = 400.0  # logarithm of the largest exponential kept


@device
def _take_exponentials(predictor, i, exponential):
    """Exponentials of a row relative to its largest predictor, which is returned."""
    n_categories = predictor.shape[0]
    top = 0.0
    for j in range(n_categories):
        top = max(top, predictor[j, i])
    for j in range(n_categories):
        exponential[j, i] = math.exp(predictor[j, i] - top)
    exponential[n_categories, i] = math.exp(-top)
    return top


@device
def _log_sum_of_others(predictor, i, skipped):
    """Logarithm of the sum over all categories but one, from the predictors."""
    top = 0.0
    for j in range(predictor.shape[0]):
        if j != skipped:
            top = max(top, predictor[j, i])
    total = math.exp(-top)
    for j in range(predictor.shape[0]):
        if j != skipped:
            total += math.exp(predictor[j, i] - top)
    return top + math.log(total)


@kernel
def take_exponentials(predictor, exponential, top):
    """All exponentials anew: a loop over chains and rows."""
    for b in range(predictor.shape[0]):
        for i in range(predictor.shape[2]):
            top[b, i] = _take_exponentials(predictor[b], i, exponential[b])


@kernel
def log_sums_of_others(predictor, exponential, top, skipped, out):
    """Offset of a category: a loop over chains, and category by category over rows."""
    n_categories = predictor.shape[1]
    for b in range(predictor.shape[0]):
        out[b] = exponential[b, n_categories]
        for j in range(n_categories):
            if j != skipped:
                for i in range(out.shape[1]):
                    out[b, i] += exponential[b, j, i]
        for i in range(out.shape[1]):
            if out[b, i] >= _LEAST:
                out[b, i] = top[b, i] + math.log(out[b, i])
            else:
                out[b, i] = _log_sum_of_others(predictor[b], i, skipped)
                top[b, i] = _take_exponentials(predictor[b], i, exponential[b])


@kernel
def retake_exponentials(predictor, changed, exponential, top):
    """Exponentials of a category after its predictors have changed."""
    for b in range(predictor.shape[0]):
        for i in range(predictor.shape[2]):
            relative = predictor[b, changed, i] - top[b, i]
            if relative <= _LARGEST:
                exponential[b, changed, i] = math.exp(relative)
            else:
                top[b, i] = _take_exponentials(predictor[b], i, exponential[b])


@device
def _normalize(predictor, i):
    """Predictors of a row become probabilities; the logarithm of their sum is returned."""
    top = 0.0
    for j in range(predictor.shape[0]):
        top = max(top, predictor[j, i])
    total = math.exp(-top)
    for j in range(predictor.shape[0]):
        predictor[j, i] = math.exp(predictor[j, i] - top)
        total += predictor[j, i]
    for j in range(predictor.shape[0]):
        predictor[j, i] /= total
    return top + math.log(total)


@kernel
def normalize(predictor):
    """Predictors (m, n) become probabilities."""
    for i in range(predictor.shape[1]):
        _normalize(predictor, i)


@kernel
def score_rows(predictor, y, count):
    """Predictors (m, n) of some rows become residuals; their log-likelihood is returned."""
    loglik = 0.0
    for i in range(predictor.shape[1]):
        n_trials, linear = count[i], 0.0
        for j in range(predictor.shape[0]):
            linear += y[j, i] * predictor[j, i] if y[j, i] else 0.0
        loglik += linear - n_trials * _normalize(predictor, i)
        for j in range(predictor.shape[0]):
            predictor[j, i] = y[j, i] - n_trials * predictor[j, i]
    return loglik


class SoftmaxRows:
    """Rows of X with counts of categories; see the module."""

    def __init__(self, X, y, count):
        self.X, self.y, self.count = X, y, count
        self._predictor = None

    def place(self, coef):
        n_chains, n_categories, n_rows = len(coef), coef.shape[1], self.X.shape[0]
        self._predictor = np.empty((n_chains, n_categories, n_rows))
        self._exponential = np.empty((n_chains, n_categories + 1, n_rows))
        self._top = np.empty((n_chains, n_rows))
        for predictor, of_chain in zip(self._predictor, coef, strict=True):
            predictor[:] = _predict(self.X, of_chain)
        take_exponentials(self._predictor, self._exponential, self._top)

    def predictor(self, j):
        return self._predictor[:, j]

    def offset(self, j):
        out = np.empty_like(self._top)
        log_sums_of_others(self._predictor, self._exponential, self._top, j, out)
        return out

    def project(self, target):
        return (self.X.T @ target.T).T if issparse(self.X) else target @ self.X

    def move(self, j, coef):
        self._predictor[:, j] = _predict(self.X, coef)
        retake_exponentials(self._predictor, j, self._exponential, self._top)

    def snapshot(self):
        return {
            "predictor": self._predictor,
            "exponential": self._exponential,
            "top": self._top,
        }

    def restore(self, arrays):
        self._predictor, self._exponential = arrays["predictor"], arrays["exponential"]
        self._top = arrays["top"]

    def probability(self, coef):
        out = np.stack([_predict(self.X, of_chain) for of_chain in coef])
        for of_chain in out:
            normalize(of_chain)
        return out

    def value_and_gradient(self, coef):
        value, gradient = np.zeros(len(coef)), np.zeros(coef.shape)
        for b, of_chain in enumerate(coef):
            y = self.y[b if len(self.y) > 1 else 0]
            n_rows = _SPARSE_BLOCK if issparse(self.X) else _BLOCK
            for first in range(0, self.X.shape[0], n_rows):
                rows = slice(first, first + n_rows)
                X = self.X[rows]
                residual = _predict(X, of_chain)
                value[b] += score_rows(residual, y[:, rows], self.count[rows])
                gradient[b] += (X.T @ residual.T).T if issparse(X) else residual @ X
        return value, gradient


def _predict(X, coef):
    """Predictors (rows of coef, n) in C order."""
    return np.ascontiguousarray((X @ coef.T).T) if issparse(X) else coef @ X.T
