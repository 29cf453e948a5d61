"""Values and derivatives of log-likelihoods at points that are known: no search.

As in `solve`, what is asked of a backend is a coroutine for each fit of a batch.
"""

from __future__ import annotations

import numpy as np

from ..backends.contract import Operations, ask
from .line_search import require_finite

__all__ = ["curvatures", "gradients", "log_likelihoods", "serve_all", "slopes"]


def serve_all(backend, problem, batch, coroutines, n_threads):
    """What coroutines return; none is left open by an error, whoever keeps its traceback."""
    try:
        return backend.run(problem, batch, coroutines, n_threads)
    finally:
        for coroutine in coroutines:
            coroutine.close()


def log_likelihoods(problem, batch, coefs, backend, n_threads=1):
    """Log-likelihood of every fit of a batch at given coefficients, (n_columns, n_fits).

    Not finite where it cannot be computed.
    """

    def evaluate(coef):
        return (yield from ask(Operations.start, coef))

    coroutines = [evaluate(coef) for coef in coefs.T.copy()]
    return np.array(serve_all(backend, problem, batch, coroutines, n_threads))


def gradients(problem, batch, coefs, backend, n_threads=1):
    """Gradient of every fit's log-likelihood at given coefficients, both (n_columns, n_fits)."""

    def evaluate(coef):
        require_finite((yield from ask(Operations.start, coef)))
        return (yield from ask(Operations.gradient, np.arange(len(coef))))

    coroutines = [evaluate(coef) for coef in coefs.T.copy()]
    return np.stack(serve_all(backend, problem, batch, coroutines, n_threads), axis=1)


def slopes(problem, batch, coefs, columns, backend, n_threads=1):
    """Slope of every fit's log-likelihood along a column of its own, at given coefficients."""

    def evaluate(coef, column):
        require_finite((yield from ask(Operations.start, coef)))
        return (yield from ask(Operations.gradient, np.array([column])))[0]

    pairs = zip(coefs.T.copy(), columns, strict=True)
    coroutines = [evaluate(coef, column) for coef, column in pairs]
    return np.array(serve_all(backend, problem, batch, coroutines, n_threads))


def curvatures(problem, batch, coef, columns, backend, n_threads=1):
    """Curvature of minus the log-likelihood along each of some columns, the others held."""

    def evaluate():
        require_finite((yield from ask(Operations.start, coef)))
        curvature, _ = yield from ask(Operations.curvature, columns)
        return curvature[:, 0]

    return serve_all(backend, problem, batch, [evaluate()], n_threads)[0]
