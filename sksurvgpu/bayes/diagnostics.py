"""Have chains mixed, and how many independent draws are theirs worth?

Vehtari, Gelman, Simpson, Carpenter & Bürkner (2021), with the numbers of their equations. Chains
are split in halves, M of N draws each. Draws become normal scores z = Φ⁻¹((rank - 3/8)/(MN + 1/4))
of their ranks among all (14), so that nothing needs moments. With the mean W of the variances
within halves, and B/N, the variance of their means,

    V = (N - 1)/N W + B/N                                                   (3)
    R-hat = √(V/W)                                                          (4)

of z, and of the scores of |draw - median|, which sees chains of unlike spread; the larger counts.
With the autocovariances c(t), averages over halves, the autocorrelations are

    ρ(t) = 1 - (W - c(t))/V                                                 (10)

and their sums over pairs, P(k) = ρ(2k) + ρ(2k + 1), which are positive and fall in theory, end
before the first that is not positive and are made to fall (Geyer 1992):

    τ = -1 + 2 Σ P(k) + ρ(the first lag that is left out, if positive)
    ESS = MN/τ, at most MN log₁₀(MN).

Bulk ESS is that of z, tail ESS the smaller one of the indicators of both 5 % tails.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

FEWEST_DRAWS = 4  # two in each half
TAILS = 0.05, 0.95
CHUNK_BYTES = 2**23  # of the draws that are looked at together; a dozen such arrays are at work


@dataclass(frozen=True, eq=False)
class Diagnostics:
    """Diagnostics of each parameter of a quantity.

    Attributes
    ----------
    r_hat : ndarray
        Rank-normalized split R-hat: 1 if chains agree, more if they do not.
    ess_bulk, ess_tail : ndarray
        Effective number of draws for the middle and for the tails.
    """

    r_hat: np.ndarray
    ess_bulk: np.ndarray
    ess_tail: np.ndarray


def diagnose(draws) -> Diagnostics:
    """Compute R-hat and effective sample sizes of any number of parameters.

    Parameters
    ----------
    draws : ndarray of shape (n_chains, n_draws, ...)
        Draws of each chain.

    Returns
    -------
    diagnostics : Diagnostics
        Of each parameter, arrays of the shape of one draw; NaN where a parameter never changes, is
        not finite, or has less than four draws a chain.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu.bayes.diagnostics import diagnose
    >>> draws = np.random.default_rng(0).standard_normal((4, 1000, 3))
    >>> found = diagnose(draws)
    >>> bool((found.r_hat < 1.01).all() and (found.ess_bulk > 3000).all())
    True
    """
    n_chains, n_draws, *shape = draws.shape
    size = prod(shape)
    flat = draws.reshape(n_chains, n_draws, size)
    found = np.full((3, size), np.nan)
    if n_draws >= FEWEST_DRAWS:
        step = max(1, CHUNK_BYTES // (8 * n_chains * n_draws))
        for first in range(0, size, step):
            # A parameter is one piece of memory, for sorting and Fourier transforms.
            chunk = np.ascontiguousarray(
                np.moveaxis(flat[:, :, first : first + step], 2, 0), dtype=np.float64
            )
            ends = chunk.min(axis=(1, 2)), chunk.max(axis=(1, 2))
            usable = np.isfinite(ends[0]) & np.isfinite(ends[1]) & (ends[0] < ends[1])
            if usable.any():
                columns = first + np.flatnonzero(usable)
                found[:, columns] = _diagnose_chunk(chunk if usable.all() else chunk[usable])
    return Diagnostics(*(row.reshape(shape) for row in found))


def _diagnose_chunk(draws):
    """R-hat, bulk and tail ESS of draws of shape (p, n_chains, n_draws)."""
    halves = _split(draws)
    scores = _normal_scores(halves)
    median = np.median(halves, axis=(1, 2), keepdims=True)
    folded = _normal_scores(np.abs(halves - median))
    limits = np.quantile(draws, TAILS, axis=(1, 2))
    tails = [_ess(_split(draws <= limit[:, None, None])) for limit in limits]
    # NaN of one only: the distance from the median may be the same for all draws.
    return np.fmax(_r_hat(scores), _r_hat(folded)), _ess(scores), np.minimum(*tails)


def _split(draws):
    """Halves of chains; of an odd number of draws, the middle one is left out."""
    half = draws.shape[2] // 2
    return np.concatenate([draws[:, :, :half], draws[:, :, -half:]], axis=1)


def _normal_scores(draws):
    ranks = rankdata(draws.reshape(len(draws), -1), axis=1)
    return ndtri((ranks - 0.375) / (ranks.shape[1] + 0.25)).reshape(draws.shape)


def _r_hat(draws):
    within = draws.var(axis=2, ddof=1).mean(axis=1)
    between = draws.mean(axis=2).var(axis=1, ddof=1)
    n = draws.shape[2]
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.sqrt((n - 1) / n + between / within)


def _ess(draws):
    """Effective sample size of draws of shape (p, M, N); of what is constant, their number."""
    n_total, n = draws[0].size, draws.shape[2]
    means = draws.mean(axis=2)
    covariances = _mean_autocovariances(draws - means[:, :, None])
    within = covariances[:, 0] * n / (n - 1)
    total = covariances[:, 0] + means.var(axis=1, ddof=1)
    is_constant = draws.max(axis=(1, 2)) == draws.min(axis=(1, 2))
    total[is_constant] = 1.0
    correlations = 1.0 - (within[:, None] - covariances) / total[:, None]
    correlations[:, 0] = 1.0
    tau = np.maximum(_integrated_time(correlations), 1.0 / np.log10(n_total))
    return np.where(is_constant, n_total, n_total / tau)


def _mean_autocovariances(deviations):
    """At all lags, means over chains; the transform of their sum is the sum of the transforms."""
    n = deviations.shape[2]
    length = next_fast_len(2 * n, real=True)
    spectra = rfft(deviations, length, axis=2)
    power = (spectra.real**2 + spectra.imag**2).mean(axis=1)
    return irfft(power, length, axis=1)[:, :n] / n


def _integrated_time(correlations):
    """Sum of autocorrelations at all lags, positive and negative, of each row."""
    n_pairs = max(1, (correlations.shape[1] - 1) // 2)  # the last two lags are of few products
    pairs = correlations[:, : 2 * n_pairs].reshape(len(correlations), n_pairs, 2)
    sums = pairs.sum(axis=2)
    ends = sums <= 0
    ends[:, -1] = True
    last = np.argmax(ends, axis=1)  # the first pair that is left out
    falling = np.minimum.accumulate(sums, axis=1)
    falling[np.arange(n_pairs) >= last[:, None]] = 0.0
    rows = np.arange(len(sums))
    first_left = pairs[rows, last, 0]
    is_positive = (first_left > 0) | (sums[rows, last] >= 0)
    return -1.0 + 2.0 * falling.sum(axis=1) + np.where(is_positive, first_left, 0.0)
