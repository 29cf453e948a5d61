"""The least time of a sweep: its floating-point operations and bytes at the rates of one core."""

from __future__ import annotations

import numpy as np

from .mixing import fastest

LEAPFROG_STEPS = 3  # the fewest of a Hamiltonian iteration; more in many dimensions


def measure_ceilings(order, n_bytes, repeats):
    """Rates of one core: products of matrices (flop/s), reading an array (bytes/s)."""
    matrix = np.random.default_rng(0).standard_normal((order, order))
    out = np.empty_like(matrix)
    long = np.ones(n_bytes // 8)
    return {
        "flops": 2.0 * order**3 / fastest(lambda: np.matmul(matrix, matrix, out=out), repeats),
        "bytes": long.nbytes / fastest(lambda: long @ long, repeats),
    }


def lasso(p, n, ceilings):
    """Milliseconds of an iteration that factors once, in the smaller of n and p.

    n < p: X V X' (half of it), its factor, three products with X. p <= n: scaled X'X, its factor,
    two products with X.
    """
    order = min(n, p)
    flops = order**3 / 3 + (n * n * p if n < p else p * p) + 6 * n * p
    return _milliseconds(flops, 8 * n * p if n < p else 8 * p * p, ceilings)


def published_lasso(p, n, ceilings):
    """Factor, inverse from it, factor of that: 4 p^3 / 3."""
    return _milliseconds(4 * p**3 / 3 + 2 * p * p + 2 * n * p, 4 * 8 * p * p, ceilings)


def gibbs(problem, ceilings, draws):
    """Milliseconds of a sweep; `draws` is the best rate of PG draws, a second.

    A class: half of X'WX, two products with X, n draws; X is read at least once.
    """
    n, p, n_free = problem["n"], problem["p"], problem["n_classes"] - 1
    flops = n_free * (n * p * p + 4 * n * p + p**3 / 3)
    return _milliseconds(flops, n_free * 8 * n * p, ceilings) + 1e3 * n_free * n / draws


def hmc(problem, ceilings):
    """Milliseconds of an iteration of `LEAPFROG_STEPS`: two products with X and n k exponentials
    each; the products are what is counted, and X read once."""
    n, p, n_free = problem["n"], problem["p"], problem["n_classes"] - 1
    steps = max(LEAPFROG_STEPS, int(np.ceil((p * n_free) ** 0.25)))
    return _milliseconds(steps * 4 * n * p * n_free, steps * 8 * n * p, ceilings)


def _milliseconds(flops, n_bytes, ceilings):
    return 1e3 * max(flops / ceilings["flops"], n_bytes / ceilings["bytes"])
