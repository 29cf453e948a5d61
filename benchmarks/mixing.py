"""Sweeps timed, their floors, and how well chains mix, recomputed without the package.

Bulk ESS and split R-hat as of Vehtari, Gelman, Simpson, Carpenter and Burkner (2021): chains are
split in half and ranks replaced by normal scores; the effective sample size sums autocorrelations
by Geyer's initial monotone sequence.
"""

from __future__ import annotations

import os
import time
from functools import partial

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from .processes import least

FEWEST_SWEEPS = 3
FEWEST_DRAWS = 50  # of a chain; of fewer, ESS and R-hat say nothing
LEAPFROG_STEPS = 3  # the fewest of a Hamiltonian iteration; more in many dimensions
FEW_QUANTITIES = 8  # whose ESS is told one by one


fastest = partial(least, unit="cpu_seconds")  # of a function and a number of calls


def time_sweeps(sampler, begin, seconds, n_tune):
    """Sweep for `seconds` after tuning, which ends after `n_tune` sweeps or a quarter of the time.

    `begin` is the CPU time when the sampler began to be made. Times are CPU times of this process,
    which has one thread: what else runs on the machine stretches them less than the clock's.
    """
    made = time.process_time()
    n_tuned = 0
    while n_tuned < max(1, n_tune) and time.process_time() - made < 0.25 * seconds:
        sampler.sweep(tuning=True)
        n_tuned += 1
    draws, times = [], []
    start_clock = time.perf_counter()
    start = now = time.process_time()
    while len(draws) < FEWEST_SWEEPS or now - start < seconds:
        sampler.sweep(tuning=False)
        draws.append(np.array(sampler.recorded()))
        before, now = now, time.process_time()
        times.append(now - before)
    return {
        "made_seconds": made - begin,
        "tuned": n_tuned,
        "ms": 1e3 * float(np.median(times)),
        "clock_seconds": time.perf_counter() - start_clock,
        "load": os.getloadavg()[0],
        **mixing(np.array(draws)[None], now - start),
    }


def mixing(draws, seconds):
    """ESS and R-hat of `draws` (chains x draws x quantities) that took `seconds`.

    Of many quantities, the ESS are the least and the median; R-hat is the largest.
    """
    n_chains, n_draws, n_quantities = draws.shape
    result = {"chains": n_chains, "draws": n_draws, "seconds": seconds, "ess": None, "r_hat": None}
    if n_draws < FEWEST_DRAWS:
        return result
    found = [float(ess(draws[:, :, k])) for k in range(n_quantities)]
    if n_quantities > FEW_QUANTITIES:
        found = [min(found), float(np.median(found))]
    else:
        result["mean"] = draws.mean(axis=(0, 1)).tolist()
    worst = max(r_hat(draws[:, :, k]) for k in range(n_quantities))
    return {**result, "ess": found, "r_hat": worst}


def ess(draws):
    """Bulk effective sample size of one quantity, chains x draws."""
    scores = _normal_scores(_split(draws))
    n_chains, n = scores.shape
    covariance = _autocovariance(scores)
    within = covariance[:, 0].mean() * n / (n - 1.0)
    between = scores.mean(axis=1).var(ddof=1)
    total = within * (n - 1.0) / n + between
    if not total > 0.0:
        return float(n_chains * n)
    rho = 1.0 - (within - covariance.mean(axis=0)) / total
    rho[0] = 1.0
    pairs = rho[: n - n % 2].reshape(-1, 2).sum(axis=1)
    negative = np.flatnonzero(pairs < 0.0)
    n_pairs = negative[0] if len(negative) else len(pairs) - 1
    tau = -1.0 + 2.0 * np.minimum.accumulate(pairs[:n_pairs]).sum()
    tau += max(rho[2 * n_pairs], 0.0)  # half of a pair that would end below zero
    return n_chains * n / max(tau, 1.0 / np.log10(n_chains * n))


def r_hat(draws):
    """Rank-normalized split R-hat, of draws or of distances to their median: the larger."""
    folded = np.abs(draws - np.median(draws))
    return max(_r_hat(draws), _r_hat(folded))


def _r_hat(draws):
    scores = _normal_scores(_split(draws))
    n = scores.shape[1]
    within = scores.var(axis=1, ddof=1).mean()
    between = scores.mean(axis=1).var(ddof=1)
    return float(np.sqrt((n - 1.0) / n + between / within)) if within > 0.0 else np.inf


def _split(draws):
    """Twice as many chains, each half as long; the middle draw of an odd number is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, draws.shape[1] - half :]])


def _normal_scores(draws):
    ranks = rankdata(draws, method="average", axis=None).reshape(draws.shape)
    return ndtri((ranks - 0.375) / (draws.size + 0.25))


def _autocovariance(draws):
    """Of every chain at every lag, divided by the length."""
    n = draws.shape[1]
    length = 2 ** int(np.ceil(np.log2(2 * n)))
    transform = np.fft.rfft(draws - draws.mean(axis=1, keepdims=True), length)
    return np.fft.irfft(np.abs(transform) ** 2, length)[:, :n] / n


def measure_ceilings(order, n_bytes, repeats):
    """Rates of one core: products of matrices (flop/s), reading an array (bytes/s)."""
    matrix = np.random.default_rng(0).standard_normal((order, order))
    out = np.empty_like(matrix)
    long = np.ones(n_bytes // 8)
    return {
        "flops": 2.0 * order**3 / fastest(lambda: np.matmul(matrix, matrix, out=out), repeats),
        "bytes": long.nbytes / fastest(lambda: long @ long, repeats),
    }


def lasso_floor(p, n, ceilings):
    """Milliseconds of an iteration that factors once, in the smaller of n and p.

    n < p: X V X' (half of it), its factor, three products with X. p <= n: scaled X'X, its factor,
    two products with X.
    """
    order = min(n, p)
    flops = order**3 / 3 + (n * n * p if n < p else p * p) + 6 * n * p
    return _milliseconds(flops, 8 * n * p if n < p else 8 * p * p, ceilings)


def published_lasso_floor(p, n, ceilings):
    """Factor, inverse from it, factor of that: 4 p^3 / 3."""
    return _milliseconds(4 * p**3 / 3 + 2 * p * p + 2 * n * p, 4 * 8 * p * p, ceilings)


def gibbs_floor(problem, ceilings, draws):
    """Milliseconds of a sweep; `draws` is the best rate of PG draws, a second.

    A class: half of X'WX, two products with X, n draws; X is read at least once.
    """
    n, p, n_free = problem["n"], problem["p"], problem["n_classes"] - 1
    flops = n_free * (n * p * p + 4 * n * p + p**3 / 3)
    return _milliseconds(flops, n_free * 8 * n * p, ceilings) + 1e3 * n_free * n / draws


def hmc_floor(problem, ceilings):
    """Milliseconds of an iteration of `LEAPFROG_STEPS`: two products with X and n k exponentials
    each; the products are what is counted, and X read once."""
    n, p, n_free = problem["n"], problem["p"], problem["n_classes"] - 1
    steps = max(LEAPFROG_STEPS, int(np.ceil((p * n_free) ** 0.25)))
    return _milliseconds(steps * 4 * n * p * n_free, steps * 8 * n * p, ceilings)


def _milliseconds(flops, n_bytes, ceilings):
    return 1e3 * max(flops / ceilings["flops"], n_bytes / ceilings["bytes"])
