"""Priors of regression coefficients as mixtures of normals over their scales.

Given the noise variance sigma2, a global scale g and local scales v_j,

    beta_j ~ N(0, sigma2 g v_j).

- Lasso (Park and Casella 2008): v_j ~ Exp(rate 1/2), g = 1/lambda2: beta_j is double exponential
  with the rate lambda/sigma.
- Ridge: v_j = 1, g = 1/lambda2.
- Horseshoe (Carvalho, Polson and Scott 2010): the roots of v_j are half-t, that of g is half-t with
  the scale s, by default half-Cauchy. Half-t variables are mixtures of inverse gammas (Makalic and
  Schmidt 2016): v | m ~ IG(f/2, f/m), m ~ IG(1/2, 1/s^2).

lambda2 is fixed or Gamma(shape, rate). A prior draws v_j and g given all else, and knows the
density of log g for samplers that draw g with the coefficients integrated out.
"""

import math
from dataclasses import dataclass
from enum import IntEnum, auto

# Coefficients smaller than this, in their prior's standard deviations, are taken for this: their
# squares would underflow.  The local scales drawn are the same to the last digit.
SMALLEST_RATIO = 1e-150


class DrawSite(IntEnum):
    """Which draw of an iteration; proposal k adds 2 k to the last two."""

    START_NOISE = auto()
    START_GLOBAL = auto()
    START_LOCAL = auto()
    COEF = auto()
    ERROR = auto()
    INTERCEPT = auto()
    NOISE = auto()
    LOCAL = auto()
    LOCAL_MIXTURE = auto()
    GLOBAL = auto()
    GLOBAL_MIXTURE = auto()
    PROPOSAL = auto()
    ACCEPTANCE = auto()


def draw_gamma(sampling, site, shape, rate):
    """Gamma with one shape, for rates of (n_chains,) or (n_chains, size)."""
    wide = rate if rate.ndim == 2 else rate[:, None]
    drawn = sampling.random.gamma(site, sampling.xp.full(wide.shape, float(shape))) / wide
    return drawn.reshape(rate.shape)


def draw_inverse_gamma(sampling, site, shape, rate):
    return 1.0 / draw_gamma(sampling, site, shape, rate)


@dataclass(frozen=True)
class _GammaGlobal:
    """lambda2 = 1/g, fixed at the square of `lam` or Gamma(shape, rate)."""

    lam: float | None = None
    shape: float = 1.0
    rate: float = 1.0

    @property
    def fixed_scale(self):
        return None if self.lam is None else self.lam**-2

    def log_density(self, xp, log_scale):
        """Log density of log g, up to a constant."""
        return -self.shape * log_scale - self.rate * xp.exp(-log_scale)

    def report(self, scale):
        """Recorded values of g, by name."""
        return {"lambda2": 1.0 / scale} if self.lam is None else {}


class Lasso(_GammaGlobal):
    """Double exponential coefficients."""

    has_local = True

    def start_local(self, sampling, size):
        return -2.0 * sampling.xp.log(sampling.random.uniform(DrawSite.START_LOCAL, size))

    def draw_local(self, sampling, coef, variance, local):
        """v_j given coefficients and sigma2 g; what v_j was is not needed."""
        xp = sampling.xp
        ratio = xp.maximum(xp.abs(coef) / xp.sqrt(variance)[:, None], SMALLEST_RATIO)
        inverse = sampling.random.inverse_gaussian(DrawSite.LOCAL, 1.0 / ratio, xp.ones_like(ratio))
        return 1.0 / inverse

    def draw_global(self, sampling, coef, sigma2, scale, local):
        """g and v_j given the products g v_j."""
        product = scale[:, None] * local
        shape, rate = self.shape + coef.shape[1], self.rate + 0.5 * product.sum(axis=1)
        lambda2 = draw_gamma(sampling, DrawSite.GLOBAL, shape, rate)
        return 1.0 / lambda2, product * lambda2[:, None]


class Ridge(_GammaGlobal):
    """Normal coefficients."""

    has_local = False

    def start_local(self, sampling, size):
        return sampling.xp.ones((len(sampling.chains), size))

    def draw_local(self, sampling, coef, variance, local):
        return local

    def draw_global(self, sampling, coef, sigma2, scale, local):
        shape = self.shape + 0.5 * coef.shape[1]
        rate = self.rate + 0.5 * (coef * coef).sum(axis=1) / sigma2
        return draw_inverse_gamma(sampling, DrawSite.GLOBAL, shape, rate), local


@dataclass(frozen=True)
class HorseshoePrior:
    """Half-t local scales, and a half-t global one with the scale `global_scale`."""

    global_scale: float = 1.0
    local_df: float = 1.0
    global_df: float = 1.0

    fixed_scale = None
    has_local = True

    def log_density(self, xp, log_scale):
        """Log density of log g, up to a constant."""
        df = self.global_df
        ratio = log_scale - math.log(df * self.global_scale**2)
        return 0.5 * log_scale - 0.5 * (df + 1.0) * xp.logaddexp(0.0, ratio)

    def report(self, scale):
        return {"global_scale2": scale}

    def start_local(self, sampling, size):
        return sampling.xp.exp(sampling.random.normal(DrawSite.START_LOCAL, size))

    def draw_local(self, sampling, coef, variance, local):
        df, shape = self.local_df, 0.5 * (self.local_df + 1.0)
        mixture = draw_inverse_gamma(sampling, DrawSite.LOCAL_MIXTURE, shape, 1.0 + df / local)
        rate = df / mixture + 0.5 * coef * coef / variance[:, None]
        return draw_inverse_gamma(sampling, DrawSite.LOCAL, shape, rate)

    def draw_global(self, sampling, coef, sigma2, scale, local):
        df = self.global_df
        rate = self.global_scale**-2 + df / scale
        mixture = draw_inverse_gamma(sampling, DrawSite.GLOBAL_MIXTURE, 0.5 * (df + 1.0), rate)
        rate = df / mixture + 0.5 * (coef * coef / local).sum(axis=1) / sigma2
        shape = 0.5 * (df + coef.shape[1])
        return draw_inverse_gamma(sampling, DrawSite.GLOBAL, shape, rate), local
