"""Gibbs samplers of the Gaussian model with a scale-mixture prior.

y ~ N(mu + X beta, sigma2), mu flat, beta_j ~ N(0, sigma2 g v_j), sigma2 ~ IG(a, b). Given the
scales, beta is normal, and integrating it out leaves

    sigma2 | y ~ IG(a + d/2, b + q/2),
    log p(y | g, v) = -log|I + X D X'|/2 - (a + d/2) log(b + q/2) + constant

with D = diag(g v_j), q = y'(I + X D X')^-1 y of centred data, and d rows less one for mu. Samplers
differ in what they integrate out:

- three steps (Park and Casella 2008): beta, sigma2, scales, each given all others;
- two blocks (Rajaratnam and others 2019): sigma2 without beta, beta, scales;
- collapsed (Johndrow, Orenstein and Bhattacharya 2020): g by Metropolis steps without beta and
  sigma2, sigma2 without beta, beta, scales. Where p is large, only this one mixes; that g is drawn
  a second time, given all else, costs nothing and doubles its effective draws where p is small.
"""

import numpy as np

from .priors import DrawSite, draw_inverse_gamma
from .routes import Factor, choose_route

# Share of proposals accepted at which a normal random walk in one dimension moves fastest (Gelman,
# Roberts and Gilks 1996).
ACCEPTED = 0.44
SPREAD_OF_STARTS = 1.0  # standard deviation of log g and log sigma2


class GaussianSampler:
    """Chains of a model; a subclass says in which order its unknowns are drawn."""

    n_factors = 1  # a sweep
    _moving = ("coef", "local", "scale", "sigma2")  # what a sweep leaves to the next one

    def __init__(self, sampling, rows, prior, noise, *, route=None, record_local=False):
        """Take reduced rows, a prior of coefficients, and shape and rate of the noise's prior."""
        self.sampling, self._prior = sampling, prior
        self._noise = tuple(map(float, noise))
        self._record_local = record_local and prior.has_local
        self._doubtful = {}  # what else has to be finite, by name
        route = choose_route(rows, prior, self.n_factors) if route is None else route
        self._route = route(sampling, rows)
        self._column_mean = sampling.put(rows.column_mean)
        self.observe(rows)
        self._start(rows)
        self.shapes = {name: value.shape[1:] for name, value in self.state().items()}

    def observe(self, rows):
        """Take other outcomes of the same rows."""
        self._route.observe(rows)
        self._degrees, self._precision = rows.degrees, rows.precision
        self._outcome_mean = self.sampling.put(rows.outcome_mean)

    def _start(self, rows):
        """Draw scales that explain about half of the outcome, and a variance to match."""
        sampling, xp = self.sampling, self.sampling.xp
        p = rows.matrix.shape[1]
        self.coef = xp.zeros((len(sampling.chains), p))
        self.local = self._prior.start_local(sampling, p)
        shape, rate = self._noise
        self.sigma2 = self._disperse(
            DrawSite.START_NOISE, (rate + 0.5 * rows.square) / (shape + 0.5 * rows.degrees)
        )
        fixed = self._prior.fixed_scale
        if fixed is None:
            square = float(rows.column_square.sum()) or 1.0  # all columns may be constant
            self.scale = self._disperse(DrawSite.START_GLOBAL, np.array([rows.degrees / square]))
        else:
            self.scale = xp.full(len(sampling.chains), fixed)
        if not self._prior.has_local:
            self._route.prepare(self.local)
        self.intercept = self._draw_intercept()

    def _disperse(self, site, center):
        """Log-normal starts."""
        spread = SPREAD_OF_STARTS * self.sampling.random.normal(site, 1)[:, 0]
        return self.sampling.put(center) * self.sampling.xp.exp(spread)

    def sweep(self, tuning):
        """One iteration of every chain."""
        if self._prior.has_local:
            self._route.prepare(self.local)
        self._draw(tuning)
        self.intercept = self._draw_intercept()
        self._require_finite()

    def _draw(self, tuning):
        raise NotImplementedError

    def state(self):
        """Current values."""
        state = {"coef": self.coef}
        if self._precision:
            state["intercept"] = self.intercept
        state |= {"sigma2": self.sigma2, **self._prior.report(self.scale)}
        if self._record_local:
            state["local_scale2"] = self.local
        return state

    def snapshot(self):
        """All that later sweeps depend on, on the host."""
        return {name: self.sampling.to_host(getattr(self, name)) for name in self._moving}

    def restore(self, snapshot):
        """Go back to a snapshot."""
        for name in self._moving:
            setattr(self, name, self.sampling.put(snapshot[name]))

    def _draw_noise(self, quadratic, n_squares):
        """sigma2 given a sum of squares of so many normal variables."""
        shape, rate = self._noise
        self.sigma2 = draw_inverse_gamma(
            self.sampling, DrawSite.NOISE, shape + 0.5 * n_squares, rate + 0.5 * quadratic
        )

    def _draw_coef(self, factor):
        self.coef = self._route.draw(factor, self.scale, self.local, self.sigma2)

    def _draw_scales(self):
        """Local scales, and the global one given them and the coefficients."""
        prior, sampling = self._prior, self.sampling
        if prior.has_local:
            variance = self.sigma2 * self.scale
            self.local = prior.draw_local(sampling, self.coef, variance, self.local)
        if prior.fixed_scale is None:
            self.scale, self.local = prior.draw_global(
                sampling, self.coef, self.sigma2, self.scale, self.local
            )

    def _draw_intercept(self):
        if not self._precision:
            return None
        noise = self.sampling.random.normal(DrawSite.INTERCEPT, 1)[:, 0]
        center = self._outcome_mean - self.coef @ self._column_mean
        return center + self.sampling.xp.sqrt(self.sigma2 / self._precision) * noise

    def _require_finite(self):
        """Refuse what overflowed: an old value in its place would be another distribution."""
        xp = self.sampling.xp
        parts = {
            "noise variance": self.sigma2,
            "global scale": self.scale,
            "coefficient": self.coef,
            "local scale": self.local,
            **self._doubtful,
        }
        if bool(xp.isfinite(sum(part.sum() for part in parts.values()))):
            return
        bad = [name for name, part in parts.items() if not bool(xp.isfinite(part).all())]
        raise FloatingPointError(
            f"a {bad[0] if bad else 'sum of draws'} is not finite in iteration "
            f"{self.sampling.random.iteration:,}: columns or outcome have units that float64 "
            "cannot hold with this prior; rescale them, or choose proper priors of noise and scales"
        )


class ThreeStepSampler(GaussianSampler):
    """Coefficients, variance, scales, each given all others."""

    def _draw(self, tuning):
        self._draw_coef(self._route.factor(self.scale))
        coef, variance = self.coef, self.scale[:, None] * self.local
        square = self._route.residual_square(coef) + (coef * coef / variance).sum(axis=1)
        self._draw_noise(square, self._degrees + coef.shape[1])
        self._draw_scales()


class TwoBlockSampler(GaussianSampler):
    """Variance and coefficients together, then scales."""

    def _draw(self, tuning):
        factor = self._route.factor(self.scale)
        self._draw_noise(factor.quadratic, self._degrees)
        self._draw_coef(factor)
        self._draw_scales()


class CollapsedSampler(GaussianSampler):
    """Global scale, variance and coefficients together, then scales."""

    n_proposals = 2
    _moving = (*GaussianSampler._moving, "_log_step")

    @property
    def n_factors(self):
        return 1 if self._prior.fixed_scale is not None else 1 + self.n_proposals

    def _start(self, rows):
        super()._start(rows)
        xp = self.sampling.xp
        self._log_step = xp.zeros(len(self.sampling.chains))
        self._n_tuned = 0

    def snapshot(self):
        """All that later sweeps depend on, on the host."""
        return super().snapshot() | {"n_tuned": self._n_tuned}

    def restore(self, snapshot):
        """Go back to a snapshot."""
        super().restore(snapshot)
        self._n_tuned = int(snapshot["n_tuned"])

    def _draw(self, tuning):
        factor = self._route.factor(self.scale)
        if self._prior.fixed_scale is None:
            for k in range(self.n_proposals):
                factor = self._move_scale(factor, 2 * k, tuning)
        self._draw_noise(factor.quadratic, self._degrees)
        self._draw_coef(factor)
        self._draw_scales()

    def _move_scale(self, factor, turn, tuning):
        """Metropolis step of log g, with coefficients and variance integrated out."""
        xp, random = self.sampling.xp, self.sampling.random
        step = xp.exp(self._log_step) * random.normal(DrawSite.PROPOSAL + turn, 1)[:, 0]
        proposed = self.scale * xp.exp(step)
        moved = self._route.factor(proposed)
        gain = self._log_density(moved, proposed) - self._log_density(factor, self.scale)
        probability = xp.exp(xp.minimum(gain, 0.0))
        self._doubtful["probability of a proposed scale"] = probability
        accepted = random.uniform(DrawSite.ACCEPTANCE + turn, 1)[:, 0] < probability
        if tuning:
            self._n_tuned += 1
            self._log_step = self._log_step + (probability - ACCEPTED) / self._n_tuned**0.6
        self.scale = xp.where(accepted, proposed, self.scale)
        return self._keep(accepted, moved, factor)

    def _log_density(self, factor, scale):
        """Log density of log g given the local scales."""
        shape, rate = self._noise
        xp = self.sampling.xp
        likelihood = -0.5 * factor.log_det - (shape + 0.5 * self._degrees) * xp.log(
            rate + 0.5 * factor.quadratic
        )
        return likelihood + self._prior.log_density(xp, xp.log(scale))

    def _keep(self, accepted, moved, factor):
        """The factor of every chain, without copies where all chains agree."""
        if bool(accepted.all()):
            return moved
        if not bool(accepted.any()):
            return factor
        xp = self.sampling.xp
        return Factor(
            *(
                xp.where(accepted.reshape((-1,) + (1,) * (new.ndim - 1)), new, old)
                for new, old in zip(moved, factor, strict=True)
            )
        )


SAMPLERS = {
    "collapsed": CollapsedSampler,
    "two-block": TwoBlockSampler,
    "three-step": ThreeStepSampler,
}
