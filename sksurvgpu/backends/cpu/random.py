"""Random arrays on the CPU: a row for each chain, every number by its address."""

import numpy as np

from ..._compile import BOUND, kernel, specialize
from .. import polya_gamma as polya_gamma_formula
from .. import random as formulas
from ..random import Address, as_counts, as_words
from .threads import Threads

draw = BOUND

_ROWS_A_THREAD = 25_000  # some 3 ms


def _fill(seed, chains, iteration, site, out):
    for b in range(out.shape[0]):
        for i in range(out.shape[1]):
            out[b, i] = draw(Address(seed, chains[b], np.uint64(i), iteration, site))


def _fill_of_shape(seed, chains, iteration, site, shape, out):
    for b in range(out.shape[0]):
        for i in range(out.shape[1]):
            address = Address(seed, chains[b], np.uint64(i), iteration, site)
            out[b, i] = draw(address, shape[b, i])


fill_normal = specialize(_fill, draw=formulas.normal)
fill_uniform = specialize(_fill, draw=formulas.uniform)
fill_gamma = specialize(_fill_of_shape, draw=formulas.gamma)
fill_log_gamma = specialize(_fill_of_shape, draw=formulas.log_gamma)


@kernel
def fill_inverse_gaussian(seed, chains, iteration, site, mean, shape, out):
    for b in range(out.shape[0]):
        for i in range(out.shape[1]):
            address = Address(seed, chains[b], np.uint64(i), iteration, site)
            out[b, i] = formulas.inverse_gaussian(address, mean[b, i], shape[b, i])


@kernel
def fill_polya_gamma(seed, chains, iteration, site, count, z, rows, out):
    low, high = rows
    for b in range(out.shape[0]):
        for i in range(low, high):
            address = Address(seed, chains[b], np.uint64(i), iteration, site)
            out[b, i] = polya_gamma_formula.polya_gamma(address, count[i], z[b, i])


class Random:
    """Draws of some chains; `iteration` is set before every sweep.

    What is not a distribution (a shape of 0, a tilt of NaN) gives NaN: samplers check what they
    draw.  Draws do not depend on `threads`, which only many Polya-Gamma variables use.
    """

    def __init__(self, seed, chains, threads=1):
        self._seed = as_words("seed", seed)
        self.chains = as_words("chains", np.atleast_1d(chains))
        self.iteration = 0
        self._threads = threads

    def _where(self, site, size):
        as_words("size", size)
        iteration, site = as_words("iteration", self.iteration), as_words("site", site)
        return self._seed, self.chains, iteration, site

    def _rows(self, values, size):
        """Values of every chain and item, of one type of array: kernels are compiled once."""
        shape = len(self.chains), size
        values = values if np.shape(values) == shape else np.broadcast_to(values, shape)
        return np.require(values, np.float64, ["C", "W"])

    def _empty(self, size):
        return np.empty((len(self.chains), size))

    def normal(self, site, size):
        out = self._empty(size)
        fill_normal(*self._where(site, size), out)
        return out

    def uniform(self, site, size):
        out = self._empty(size)
        fill_uniform(*self._where(site, size), out)
        return out

    def gamma(self, site, shape):
        """Of rate 1, for shapes of (n_chains, size); at least 2.2e-308."""
        return self._of_shape(fill_gamma, site, shape)

    def log_gamma(self, site, shape):
        """Logarithms of what `gamma` gives, also where that underflows."""
        return self._of_shape(fill_log_gamma, site, shape)

    def _of_shape(self, fill, site, shape):
        size = shape.shape[1]
        out = self._empty(size)
        fill(*self._where(site, size), self._rows(shape, size), out)
        return out

    def inverse_gaussian(self, site, mean, shape):
        """For means, which may be infinite, and shapes of (n_chains, size)."""
        size = mean.shape[1]
        out = self._empty(size)
        where = self._where(site, size)
        fill_inverse_gaussian(*where, self._rows(mean, size), self._rows(shape, size), out)
        return out

    def polya_gamma(self, site, count, z):
        """PG(count, z) for counts of rows (n,) and tilts (n_chains, n)."""
        size = z.shape[1]
        out = self._empty(size)
        where, z = self._where(site, size), self._rows(z, size)
        count = np.require(np.broadcast_to(as_counts(count), size), np.int64, ["C", "W"])
        with Threads(self._threads) as threads:
            threads.over_ranges(
                lambda low, high: fill_polya_gamma(*where, count, z, (low, high), out),
                size,
                smallest=_ROWS_A_THREAD,
            )
        return out
