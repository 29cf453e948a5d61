r"""Likelihood of one site where its effect is drawn from a normal distribution.

.. math:: M(\mu, \tau) = \int L(\theta)\, N(\theta; \mu, \tau^2)\, d\theta

w is the distance in which log L falls from 0.5 to 2 below its maximum, one standard error where L
is normal; where it never falls by 2, from a quarter of nearly all of its fall. With tau far below
w, L is smooth where the normal distribution is, and the nodes of Gauss and Hermite around mu do;
else those of Gauss and Legendre over panels one w wide, from where log L falls below `NEGLIGIBLE`
or stays level. What is level has an integral in closed form.
"""

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import log_ndtr, logsumexp

NEGLIGIBLE = -45.0  # log-likelihoods below the maximum
NOTHING = 1e-3  # fall of a log-likelihood that says nothing
LEVEL = 1e-10  # differences of log-likelihoods that are none
FARTHEST = 100.0  # distance from the maximum at which a curve has reached its level
MOST_PANELS = 400
NARROW = 0.3  # of w
LEGENDRE = np.polynomial.legendre.leggauss(8)
HERMITE = np.polynomial.hermite_e.hermegauss(24)


class Marginal:
    """Logarithm of the integral for one approximation of a site's log-likelihood."""

    def __init__(self, approximation):
        self._log, (self.top, height) = approximation.log_likelihood, find_top(approximation)
        self._height = height
        self._ends = [self._end(side) for side in (-1, 1)]
        widths = [self._width(side) for side in (-1, 1)]
        self.width = min(widths)
        self.is_flat = not np.isfinite(self.width)
        if self.is_flat:
            return
        (low, _), (high, _) = self._ends
        n_panels = int(np.clip(np.ceil((high - low) / self.width), 1, MOST_PANELS))
        edges = np.linspace(low, high, n_panels + 1)
        x, w = LEGENDRE
        half = 0.5 * np.diff(edges)[:, None]
        self._theta = (0.5 * (edges[1:] + edges[:-1])[:, None] + half * x).ravel()
        self._weight = np.log((half * w).ravel()) + self.value(self._theta)

    def value(self, theta):
        """Log-likelihood, 0 at its maximum."""
        return self._log(np.asarray(theta, dtype=np.float64)) - self._height

    @property
    def height_lost(self):
        """Fall of the maximum of a sum below the sum of the maxima, whose heights are 0."""
        return -self._height

    @property
    def maximum(self):
        """Where the log-likelihood is highest; infinite on a side where it never falls."""
        never_falls = [level == 0.0 for _, level in self._ends]
        return -np.inf if never_falls[0] else np.inf if never_falls[1] else self.top

    def _end(self, side):
        """Where panels end on a side, and the level beyond; -inf where there is nothing left."""
        far = self.top + side * FARTHEST
        level = float(self.value(far))
        if level < NEGLIGIBLE:
            return brentq(lambda x: self.value(x) - NEGLIGIBLE, self.top, far), -np.inf
        if level >= -LEVEL:
            return self.top, 0.0
        return brentq(lambda x: self.value(x) - level - LEVEL, self.top, far), level

    def _width(self, side):
        """Distance w on a side; infinite where the log-likelihood does not fall."""
        far = self._ends[side > 0][0]
        fallen = -float(self.value(far))
        if fallen < NOTHING:
            return np.inf
        depth = 2.0 if fallen > 2.0 else 0.9 * fallen
        ends = (0.25 * depth, depth)
        inner, outer = (brentq(lambda x, d=d: self.value(x) + d, self.top, far) for d in ends)
        return abs(outer - inner)

    def log(self, mu, tau):
        """Logarithm of the integral at an array of means and one standard deviation."""
        mu = np.asarray(mu, dtype=np.float64)
        if self.is_flat:
            return np.zeros(mu.shape)
        if tau <= NARROW * self.width:
            z, w = HERMITE
            logs = self.value(mu[..., None] + tau * z)
            return logsumexp(logs, b=w / np.sqrt(2.0 * np.pi), axis=-1)
        kernel = -0.5 * ((self._theta - mu[..., None]) / tau) ** 2
        with np.errstate(divide="ignore"):
            core = np.log(np.exp(kernel) @ np.exp(self._weight))
        lost = np.isinf(core)  # far from all nodes, where the nearest ones alone would count
        core[lost] = (kernel[lost] + self._weight).max(axis=-1)
        core -= np.log(np.sqrt(2.0 * np.pi) * tau)
        for side, (end, level) in zip((-1, 1), self._ends, strict=True):
            if np.isfinite(level):
                core = np.logaddexp(core, level + log_ndtr(side * (mu - end) / tau))
        return core


def find_top(approximation):
    """Value at which a log-likelihood is highest, and its height."""
    log, low, high = approximation.log_likelihood, approximation.low, approximation.high
    x = np.union1d(approximation.nodes, np.linspace(low, high, 513))
    heights = log(x)
    best = int(np.argmax(heights))
    around = x[max(best - 1, 0)], x[min(best + 1, len(x) - 1)]
    found = minimize_scalar(lambda v: -float(log(v)), bounds=around, options={"xatol": 1e-10})
    if found.success and -found.fun > heights[best]:
        return float(found.x), float(-found.fun)
    return float(x[best]), float(heights[best])
