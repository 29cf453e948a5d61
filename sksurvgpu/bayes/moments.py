"""Means and covariances of draws that are not kept.

They are updated a block of draws at a time: with mean m and scatter S (sum of outer products about
m) of the N draws so far, and m', S' of the k new ones, they become

    m + (m' - m) k / (N + k)   and   S + S' + (m' - m)(m' - m)^T N k / (N + k)

(Chan, Golub & LeVeque 1983), which loses no digits where the mean is large beside the spread.
"""

from math import prod

import numpy as np

LARGEST_COVARIANCE = 2_000  # parameters: 32 MB a chain; beyond, variances only


class RunningMoments:
    """Running means and covariances, or variances, of the chains of one quantity of some shape."""

    def __init__(self, n_chains, shape):
        size = prod(shape)
        self.shape = tuple(shape)
        self.count = np.zeros(n_chains, np.int64)
        self.means = np.zeros((n_chains, size))
        self.scatters = np.zeros(self.means.shape + ((size,) if self._is_full(size) else ()))

    @staticmethod
    def _is_full(size):
        return size <= LARGEST_COVARIANCE

    @classmethod
    def bytes_needed(cls, n_chains, size):
        """Bytes of the moments of all chains, and of one more while they are updated."""
        return 8 * (n_chains + 1) * size * (1 + (size if cls._is_full(size) else 1))

    @property
    def has_covariance(self) -> bool:
        """Whether covariances are known, or variances only."""
        return self.scatters.ndim == 3

    def add(self, chain, rows):
        """Take up draws of a chain, of shape (k, size)."""
        rows = rows.astype(np.float64, copy=False)
        new, old = len(rows), int(self.count[chain])
        mean = rows.mean(axis=0)
        self.scatters[chain] += self._scatter(rows - mean)
        shift = mean - self.means[chain]
        self.scatters[chain] += self._scatter(shift[None]) * (old * new / (old + new))
        self.means[chain] += shift * (new / (old + new))
        self.count[chain] = old + new

    def _scatter(self, deviations):
        if self.has_covariance:
            return deviations.T @ deviations
        return np.einsum("ij,ij->j", deviations, deviations)

    def mean(self):
        """Mean over the draws of all chains."""
        return (self.count @ self.means / self.count.sum()).reshape(self.shape)

    def sd(self):
        """Standard deviation over the draws of all chains."""
        spread = self.spread()
        variance = np.diagonal(spread) if self.has_covariance else spread
        return np.sqrt(variance).reshape(self.shape)

    def r_hat(self):
        """R-hat of whole chains (Gelman & Rubin 1992), without ranks or halves; NaN of one."""
        n, n_chains = self.count.min(), len(self.count)
        scatters = self.scatters
        if self.has_covariance:
            scatters = np.diagonal(scatters, axis1=1, axis2=2)
        if n < 2 or n_chains < 2:
            return np.full(self.shape, np.nan)
        within = (scatters / (self.count - 1)[:, None]).mean(axis=0)
        between = self.means.var(axis=0, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sqrt((n - 1) / n + between / within).reshape(self.shape)

    def spread(self):
        """Covariance matrix of the draws of all chains, or their variances."""
        deviations = (self.means - self.mean().ravel()) * np.sqrt(self.count)[:, None]
        scatter = self.scatters.sum(axis=0) + self._scatter(deviations)
        return scatter / (self.count.sum() - 1)
