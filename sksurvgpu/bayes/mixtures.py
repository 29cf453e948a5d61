r"""Priors of coefficients as mixtures of normals over local scales.

At the distance d from its mean and with the scale :math:`\tau` of its group, a coefficient has

.. math:: d \mid \lambda \sim N(0, \tau^2 \lambda^2),

- normal: :math:`\lambda = 1`.
- Laplace: :math:`\lambda^2 \sim` Exp(1), so that :math:`\tau` is the standard deviation of d, whose
  density falls by the rate :math:`\sqrt2 / \tau` (Andrews and Mallows 1974; Park and Casella 2008).
- horseshoe: :math:`\lambda` is half-Cauchy (Carvalho, Polson and Scott 2010).

Each mixture knows the density of d with :math:`\lambda` integrated out, and draws
:math:`\lambda^{-2}` given d exactly: a scale is then drawn without the local ones, which follow.
"""

import math

import numpy as np
from scipy.special import exp1, stdtrit

# Distances smaller than this, in scales, are taken for this: their squares would underflow.
SMALLEST_RATIO = 1e-150
DF = 3.0  # of the half-t distribution of scales: their variance is finite
MEDIAN_T = float(stdtrit(DF, 0.75))  # of its absolute value, in units of its scale
STRIDE = 16  # between the sites of two attempts of one draw
FAR = 500.0  # from where on five terms of a series have all digits


class Normal:
    """All local scales are 1."""

    l1_ratio = 0.0  # of the penalty that the prior stands for

    @staticmethod
    def log_density(distance, log_scale):
        """Log density of distances given scales, up to a constant."""
        return -0.5 * (distance * np.exp(-log_scale)) ** 2 - log_scale

    @staticmethod
    def draw_precision(random, site, ratio):
        """Inverse squares of local scales, given distances over scales, of shape (B, d)."""
        return np.ones_like(ratio)

    @staticmethod
    def penalty(scale):
        """Factor of half the square of a coefficient in minus the log density."""
        return scale**-2


class Laplace:
    """Squares of local scales are exponential with the mean 1."""

    l1_ratio = 1.0

    @staticmethod
    def log_density(distance, log_scale):
        return -math.sqrt(2.0) * np.abs(distance) * np.exp(-log_scale) - log_scale

    @staticmethod
    def draw_precision(random, site, ratio):
        mean = math.sqrt(2.0) / np.maximum(ratio, SMALLEST_RATIO)
        return random.inverse_gaussian(site, mean, np.full_like(mean, 2.0))

    @staticmethod
    def penalty(scale):
        """Factor of the absolute value of a coefficient in minus the log density."""
        return math.sqrt(2.0) / scale


class HorseshoeMixture:
    """Local scales are half-Cauchy; the prior is no penalty of this package."""

    l1_ratio = None

    @staticmethod
    def log_density(distance, log_scale):
        u = 0.5 * np.maximum(np.abs(distance) * np.exp(-log_scale), SMALLEST_RATIO) ** 2
        return log_scaled_exp1(u) - log_scale

    @staticmethod
    def draw_precision(random, site, ratio):
        """By rejection: the density of the precision k is proportional to exp(-u k) / (1 + k)."""
        u = 0.5 * np.clip(ratio, SMALLEST_RATIO, 1.0 / SMALLEST_RATIO) ** 2
        found, attempt = np.full_like(u, np.nan), 0
        while (missing := np.isnan(found)).any():
            first, second, accept = (
                random.uniform(site + (3 * attempt + k) * STRIDE, u.shape[1]) for k in range(3)
            )
            proposal, chance = _propose_precision(u, first, second)
            found = np.where(missing & (accept < chance), proposal, found)
            attempt += 1
        return found


def _propose_precision(u, first, second):
    """A proposal for the precision in a horseshoe, and the probability of its acceptance.

    Where u is large, from the exponential density.  Elsewhere of w = log(1 + k), whose log density
    -u exp(w) is concave: its bound is level up to log(1 / u), and falls as the tangent there.
    """
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        steep = -np.log(first) / u
        knee = np.log(1.0 / u)
        level, tail = knee * np.exp(-u), math.exp(-1.0)
        is_level = second * (level + tail) < level
        w = np.where(is_level, knee * first, knee - np.log(first))
        chance = np.exp(np.where(is_level, u, w - knee + 1.0) - u * np.exp(w))
        is_steep = u >= 1.0
        return np.where(is_steep, steep, np.expm1(w)), np.where(is_steep, 1 / (1 + steep), chance)


def log_scaled_exp1(u):
    """log(exp(u) E1(u)) of the exponential integral, for u > 0."""
    near = np.minimum(u, FAR)
    x = 1.0 / np.maximum(u, FAR)
    series = 1.0 - x * (1.0 - 2.0 * x * (1.0 - 3.0 * x * (1.0 - 4.0 * x * (1.0 - 5.0 * x))))
    return np.where(u < FAR, near + np.log(exp1(near)), np.log(x * series))


def log_half_t(log_scale, median):
    """Log density of log scales, up to a constant, where scales are half-t with this median."""
    log_ratio = 2.0 * (log_scale - math.log(median / MEDIAN_T)) - math.log(DF)
    return log_scale - 0.5 * (DF + 1.0) * np.logaddexp(0.0, log_ratio)


MIXTURES = {"normal": Normal, "laplace": Laplace, "horseshoe": HorseshoeMixture}
