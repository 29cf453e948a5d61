r"""Posterior of a normal distribution of effects, given the log-likelihoods of sites.

.. math:: p(\mu, \tau) \propto N(\mu; 0, s_\mu^2)\, N^+(\tau; 0, s_\tau^2) \prod_i M_i(\mu, \tau)

with the integrals M of `_marginal`. Both are known on a grid that is dense where the sum of the
log-likelihoods has its maximum, and where tau is as small as the smallest standard error, and wider
with the distance from there: equal steps of t in ``mu = c + s sinh(t)`` and ``tau = s sinh(t)``. In
t the density is smooth, and cubics through it are integrated exactly.
"""

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.stats import norm

N_MEANS, N_SPREADS, N_FINE, EVERY = 401, 81, 8001, 20
NEGLIGIBLE = 1e-10  # probability
REACH, REACH_OF_SPREAD = 8.0, 10.0  # of the grid, in standard deviations of the priors
STEP, MOST_STEPS = 0.1, 80  # of a new effect around the mean, in units of tau


@dataclass(frozen=True, eq=False)
class Distribution:
    """One number's distribution, by its distribution function at many values."""

    value: np.ndarray
    below: np.ndarray  # probability of a lesser value
    mean: float
    deviation: float

    def quantile(self, probability):
        """Value below which the number is with some probability."""
        return float(np.interp(probability, self.below, self.value))

    def densest(self, level):
        """Shortest interval that has some probability."""
        edges = np.linspace(0.0, 1.0 - level, 20_001)
        width = np.interp(edges + level, self.below, self.value)
        width -= np.interp(edges, self.below, self.value)
        start = edges[np.argmin(width)]
        return self.quantile(start), self.quantile(start + level)

    @classmethod
    def of_density(cls, t, density, value, value_at):
        """From a density in t, where the number is a function of t."""
        fine = np.linspace(t[0], t[-1], N_FINE)
        below = CubicSpline(t, density).antiderivative()(fine)
        below = np.maximum.accumulate(np.clip(below / below[-1], 0.0, 1.0))
        weight = _half_first(density)
        mean = float(weight @ value)
        return cls(value_at(fine), below, mean, float(np.sqrt(weight @ (value - mean) ** 2)))


def _half_first(density):
    """Shares of a density that goes on below its first value as it does above it."""
    weight = density.copy()
    weight[0] *= 0.5
    return weight / weight.sum()


def mix(marginals, prior_deviations, centre, scale):
    """Distributions of mean, spread and the effect at a new site, from the marginals of sites.

    The priors of mean and spread have these standard deviations. The sum of the log-likelihoods has
    its maximum at the centre, and the scale is its standard error.
    """
    of_mean, of_spread = prior_deviations
    narrowest = min((m.width for m in marginals), default=np.inf)
    scale = min(scale, of_mean)
    unit = min(0.5 * narrowest, of_spread)
    reach = REACH * of_mean + abs(centre)
    t = np.linspace(-1.0, 1.0, N_MEANS) * np.arcsinh(reach / scale)
    widest = max([REACH_OF_SPREAD * of_spread, *(abs(m.top - centre) for m in marginals)])
    s = np.linspace(0.0, np.arcsinh(widest / unit), N_SPREADS)
    mean, spread = centre + scale * np.sinh(t), unit * np.sinh(s)
    log_density = norm.logpdf(mean, 0.0, of_mean) + np.log(np.cosh(t))
    log_density = log_density + (norm.logpdf(spread, 0.0, of_spread) + np.log(np.cosh(s)))[:, None]
    for marginal in marginals:
        log_density += [marginal.log(mean, tau) for tau in spread]
    highest = log_density.max(axis=1, keepdims=True)
    share = np.exp(log_density - highest)
    of_spreads = np.exp(highest[:, 0] - highest.max()) * share.sum(axis=1)
    share /= share.sum(axis=1, keepdims=True)
    weight = _half_first(of_spreads)

    def mean_at(t):
        return centre + scale * np.sinh(t)

    means = Distribution.of_density(t, weight @ share, mean, mean_at)
    spreads = Distribution.of_density(s, of_spreads, spread, lambda s: unit * np.sinh(s))
    fine = np.linspace(t[0], t[-1], N_FINE)
    below = CubicSpline(t, share, axis=1).antiderivative()(fine)
    below /= below[:, -1:]
    # a new effect may be farther away than any mean, by as much as is likely
    reach += STEP * MOST_STEPS * spread[weight > NEGLIGIBLE].max()
    value = mean_at(np.linspace(-1.0, 1.0, N_FINE) * np.arcsinh(reach / scale))
    return means, spreads, _new_effect(value, mean_at(fine), below, spread, weight, means)


def _new_effect(value, mean, below, spread, weight, means):
    """Distribution of a normal effect around a mean, given that of the mean at every spread."""
    z = STEP * np.arange(-MOST_STEPS, MOST_STEPS + 1)
    of_z = norm.pdf(z) / norm.pdf(z).sum()
    at, total = value[::EVERY], 0.0
    for tau, share, known in zip(spread, weight, below, strict=True):
        if share > NEGLIGIBLE:
            lower = np.interp(at[:, None] - tau * z, mean, known, 0.0, 1.0)
            total += share * (lower @ of_z)
    deviation = np.sqrt(means.deviation**2 + weight @ spread**2)
    total = np.clip(CubicSpline(np.arange(len(at)), total)(np.arange(len(value)) / EVERY), 0.0, 1.0)
    return Distribution(value, np.maximum.accumulate(total), means.mean, float(deviation))
