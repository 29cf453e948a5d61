"""Chains of many kinds, the same numbers everywhere: see published/make_diagnostics.py."""

import numpy as np
from scipy.special import ndtri

N_PARAMETERS = 3


def normal(z):
    return z


# Name -> (n_chains, n_draws, autocorrelation, what becomes of normal draws of shape
# (n_chains, n_draws, N_PARAMETERS)).
KINDS = {
    "independent": (4, 1000, 0.0, normal),
    "some autocorrelation": (4, 1000, 0.3, normal),
    "much autocorrelation": (4, 500, 0.9, normal),
    "hardly moving": (2, 1001, 0.995, normal),
    "antithetic": (4, 500, -0.5, normal),
    "very antithetic": (3, 101, -0.95, normal),
    "heavy tails": (4, 400, 0.5, lambda z: np.tan(1.5 * np.arctan(z))),
    "heavier tails": (4, 400, 0.5, lambda z: np.sinh(4 * z)),
    "integers": (4, 300, 0.7, np.round),
    "many zeros": (4, 301, 0.6, lambda z: np.maximum(z - 1, 0)),
    "nearly all zeros": (4, 300, 0.6, lambda z: np.maximum(z - 2.5, 0)),
    "two values": (4, 300, 0.8, lambda z: 1.0 * (z > 0.5)),
    "two values about the median": (2, 300, 0.8, lambda z: np.where(z > 0, 1.0, -1.0)),
    "far from zero": (4, 200, 0.2, lambda z: 1e9 + z),
    "a shifted chain": (4, 300, 0.1, lambda z: z + 0.5 * (np.arange(4) == 2)[:, None, None]),
    "a wide chain": (4, 300, 0.1, lambda z: z * (1 + (np.arange(4) == 1))[:, None, None]),
    "a stuck chain": (3, 200, 0.1, lambda z: z * (np.arange(3) > 0)[:, None, None]),
    "trends": (4, 250, 0.1, lambda z: z + np.arange(250)[:, None] / 100),
    "one chain": (1, 400, 0.5, normal),
    "one short chain": (1, 11, 0.5, normal),
    "many chains": (32, 40, 0.4, normal),
    "2 draws a half": (4, 4, 0.0, normal),
    "2 draws a half and one": (4, 5, 0.0, normal),
    "3 draws a half": (2, 6, 0.0, normal),
    "4 draws a half": (2, 8, 0.0, normal),
    "5 draws a half": (2, 11, 0.5, normal),
    "two very short chains": (2, 13, 0.0, normal),
    "6 draws a half": (4, 12, -0.5, normal),
    "7 draws a half": (4, 14, 0.9, normal),
}


def make_draws(name):
    """Draws of shape (n_chains, n_draws, N_PARAMETERS), all multiples of 2**-20."""
    n_chains, n_draws, rho, change = KINDS[name]
    shape = n_draws, n_chains, N_PARAMETERS
    # The raw numbers of a bit generator are what NumPy promises never to change.
    raw = np.random.PCG64(list(name.encode())).random_raw(int(np.prod(shape)))
    draws = ndtri(((raw >> np.uint64(11)) + 0.5) * 2.0**-53).reshape(shape)
    for k in range(1, n_draws):
        draws[k] = rho * draws[k - 1] + np.sqrt(1 - rho**2) * draws[k]
    return np.round(change(np.swapaxes(draws, 0, 1)) * 2**20) / 2**20
