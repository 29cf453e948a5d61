"""Posterior moments of a Gaussian model with one column, by quadrature over its two scales.

Given the scales, everything about the coefficient and the variance is known in closed form, the
intercept integrated out.  Densities of scales are those that define the priors, not the mixtures
that samplers draw from.
"""

import numpy as np
from scipy.special import digamma, polygamma
from scipy.stats import t as student

STEP = 0.2  # half of it changes no moment by 1e-9
WIDE = np.arange(-70.0, 70.0, STEP)


def log_gamma_global(shape, rate):
    """Log density of log g where 1/g ~ Gamma(shape, rate)."""
    return lambda u: -shape * u - rate * np.exp(-u)


def log_half_t(scale, df):
    """Log density of the logarithm of a square whose root is half-t."""
    return lambda u: 0.5 * u + student.logpdf(np.exp(0.5 * u), df, scale=scale)


def log_exponential(u):
    """Log density of the logarithm of a variable with rate 1/2."""
    return u - 0.5 * np.exp(u)


def moments(x, y, weight, noise, log_global, log_local):
    """Means and covariances of the coefficient, log sigma2, log g and log v.

    A number in place of a density fixes that log scale.
    """
    x, y = (value - np.average(value, weights=weight) for value in (x, y))
    k, xy, yy = weight @ (x * x), weight @ (x * y), weight @ (y * y)
    (u, on_u), (w, on_w) = _grid(log_global), _grid(log_local)
    u, w = u[:, None], w[None, :]
    with np.errstate(over="ignore", under="ignore"):
        d = np.exp(u + w)
        shape = noise[0] + 0.5 * (len(y) - 1)
        rate = noise[1] + 0.5 * (yy - xy**2 * d / (1.0 + d * k))
        log = on_u[:, None] + on_w[None, :] - 0.5 * np.log1p(d * k) - shape * np.log(rate)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    variance = d / (1.0 + d * k)
    log_sigma2 = np.log(rate) - digamma(shape)
    given = [np.broadcast_to(value, weight.shape) for value in (variance * xy, log_sigma2, u, w)]
    mean = np.array([(weight * value).sum() for value in given])
    covariance = np.array(
        [
            [(weight * (a - m) * (b - l)).sum() for b, l in zip(given, mean, strict=True)]
            for a, m in zip(given, mean, strict=True)
        ]
    )
    covariance[0, 0] += (weight * variance * rate / (shape - 1.0)).sum()
    covariance[1, 1] += polygamma(1, shape)
    return mean, covariance


def _grid(density):
    if not callable(density):
        return np.array([density]), np.zeros(1)
    with np.errstate(over="ignore"):
        return WIDE, density(WIDE)
