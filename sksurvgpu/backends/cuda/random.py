"""Random arrays on a device: one thread a number, every number by its address.

The formulas are those of the CPU, compiled for the device.  Logarithms and exponentials of the two
differ in their last bits, integers and uniforms do not.
"""

import numpy as np

from ..._compile import BOUND
from .. import polya_gamma as polya_gamma_formula
from .. import random as formulas
from ..random import Address, as_counts, as_words
from ._cuda import cuda, kernel, specialize

draw = BOUND

THREADS = 256


def _fill(seed, chains, iteration, site, out):
    k, n = cuda.grid(1), out.shape[1]
    while k < out.size:
        b, i = k // n, k % n
        address = Address(seed, chains[b], np.uint64(i), iteration, site)
        out[b, i] = draw(address)
        k += cuda.gridsize(1)


def _fill_of_shape(seed, chains, iteration, site, shape, out):
    k, n = cuda.grid(1), out.shape[1]
    while k < out.size:
        b, i = k // n, k % n
        address = Address(seed, chains[b], np.uint64(i), iteration, site)
        out[b, i] = draw(address, shape[b, i])
        k += cuda.gridsize(1)


fill_normal = specialize(_fill, "normal", draw=formulas.normal)
fill_uniform = specialize(_fill, "uniform", draw=formulas.uniform)
fill_gamma = specialize(_fill_of_shape, "gamma", draw=formulas.gamma)
fill_log_gamma = specialize(_fill_of_shape, "log_gamma", draw=formulas.log_gamma)


@kernel
def fill_inverse_gaussian(seed, chains, iteration, site, mean, shape, out):
    k, n = cuda.grid(1), out.shape[1]
    while k < out.size:
        b, i = k // n, k % n
        address = Address(seed, chains[b], np.uint64(i), iteration, site)
        out[b, i] = formulas.inverse_gaussian(address, mean[b, i], shape[b, i])
        k += cuda.gridsize(1)


@kernel
def fill_polya_gamma(seed, chains, iteration, site, order, count, z, out):
    """`order` brings rows of equal counts together: threads of a warp then end together."""
    k, n = cuda.grid(1), out.shape[1]
    while k < out.size:
        b, i = k // n, order[k % n]
        address = Address(seed, chains[b], np.uint64(i), iteration, site)
        out[b, i] = polya_gamma_formula.polya_gamma(address, count[i], z[b, i])
        k += cuda.gridsize(1)


class Random:
    """Draws of some chains; `iteration` is set before every sweep.  Arrays are CuPy's."""

    def __init__(self, device, cupy, seed, chains):
        self._device, self._cupy, self._seed = device, cupy, as_words("seed", seed)
        self.chains = cupy.asarray(as_words("chains", np.atleast_1d(chains)))
        self.iteration = 0
        self._counts = self._order = None

    def _fill(self, kernel, site, size, *arrays):
        """Array of (n_chains, size), by a kernel that takes some more arrays."""
        as_words("size", size)
        iteration, site = as_words("iteration", self.iteration), as_words("site", site)
        out = self._cupy.empty((len(self.chains), size))
        chains, *given = [self._device.share(array) for array in (self.chains, *arrays, out)]
        if out.size:
            arguments = self._seed, chains, iteration, site, *given
            self._device.launch(kernel, -(-out.size // THREADS), THREADS, arguments)
        return out

    def _rows(self, values, size):
        """Values of every chain and item."""
        values = self._cupy.broadcast_to(values, (len(self.chains), size))
        return self._cupy.ascontiguousarray(values, np.float64)

    def normal(self, site, size):
        return self._fill(fill_normal, site, size)

    def uniform(self, site, size):
        return self._fill(fill_uniform, site, size)

    def gamma(self, site, shape):
        """Of rate 1, for shapes of (n_chains, size)."""
        size = shape.shape[1]
        return self._fill(fill_gamma, site, size, self._rows(shape, size))

    def log_gamma(self, site, shape):
        """Logarithms of what `gamma` gives, also where that underflows."""
        size = shape.shape[1]
        return self._fill(fill_log_gamma, site, size, self._rows(shape, size))

    def inverse_gaussian(self, site, mean, shape):
        """For means, which may be infinite, and shapes of (n_chains, size)."""
        size = mean.shape[1]
        return self._fill(
            fill_inverse_gaussian, site, size, self._rows(mean, size), self._rows(shape, size)
        )

    def polya_gamma(self, site, count, z):
        """PG(count, z) for counts of rows (n,) and tilts (n_chains, n)."""
        size = z.shape[1]
        if self._counts is not count:  # a model's counts are the same array in every sweep
            as_counts(self._cupy.asnumpy(count))
            self._counts, self._order = count, self._cupy.argsort(count).astype(np.int32)
        return self._fill(fill_polya_gamma, site, size, self._order, count, self._rows(z, size))
