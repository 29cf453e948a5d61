"""Problems of the Bayesian samplers, drawn without the package."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

N_ROWS = 425  # of a linear problem
N_SIGNALS = 10
NEIGHBOURS = 0.7  # correlation of adjacent columns
SPREAD = 1.5  # standard deviation of a class's predictor
LASSO_PRIOR = {"r": 1.0, "delta": 1e-4, "a": 1.0, "b": 1.0}
COEF_SD = 1.0  # of the normal prior of a multinomial coefficient


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
