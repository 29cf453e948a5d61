"""Moments and distribution functions of Polya-Gamma variables, from formulas no sampler uses."""

import numpy as np
from scipy.stats import invgauss

# From here, PG(1, 2 drift) is the first passage of one barrier but for a share of exp(-2 * drift).
ONE_BARRIER = 8.0


def moments(count, z):
    """Mean and variance, from the Laplace transform (cosh(z / 2) / cosh(...))**count."""
    z = abs(z)
    if z < 1e-2:  # Taylor series; the next terms are below 1e-9 of the value
        return count / 4 * (1 - z**2 / 12), count / 24 * (1 - z**2 / 5)
    tanh = np.tanh(z / 2)
    # z sech**2(z / 2) of the usual form overflows in cosh: it is z (1 - tanh**2).
    sech_square = 4 * np.exp(-z) / (1 + np.exp(-z)) ** 2
    return count * tanh / (2 * z), count * (2 * tanh - z * sech_square) / (4 * z**3)


def distribution(z):
    """Distribution function of PG(1, z)."""
    drift = abs(z) / 2
    if drift >= ONE_BARRIER:
        return lambda omega: invgauss.cdf(4 * omega, 1 / drift, scale=1)

    def cdf(omega):
        x = 4 * np.asarray(omega)
        # The first term left out is below exp(-50), also where cosh(drift) multiplies it.
        n_terms = 2 + int(np.sqrt(2 * (50 + drift) / x.min()) / np.pi)
        survival = np.zeros_like(x)
        for k in range(n_terms):
            odd = (k + 0.5) * np.pi
            rate = 0.5 * (odd**2 + drift**2)
            survival += (-1) ** k * odd / rate * np.exp(-rate * x)
        return 1 - np.cosh(drift) * survival

    return cdf


def density_without_drift(x):
    """Density of the time at which a Brownian motion without drift leaves (-1, 1); x from 0.02."""
    odd = (np.arange(60) + 0.5) * np.pi
    return np.sum((-1.0) ** np.arange(60) * odd * np.exp(-0.5 * odd**2 * x))
