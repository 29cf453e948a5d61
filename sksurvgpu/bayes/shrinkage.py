r"""Coefficients whose prior is a mixture of normals, with the scales of groups fixed or drawn.

With the mixtures of `mixtures`, local precisions :math:`k_j = \lambda_j^{-2}`, and a precision
:math:`c_j` that is known (that of an intercept, or of a slab),

.. math:: \log \pi = \ell(\beta) - \tfrac12 \sum_j \Big(\frac{k_j}{\tau_{g(j)}^2} + c_j\Big)
          (\beta_j - m_j)^2 + \sum_j \log \frac{\sqrt{k_j}}{\tau_{g(j)}} + \log p(k) p(\tau) .

Near a reference the log-likelihood is about a quadratic function with the matrix H.  Given scales,
the posterior of :math:`\beta` is then normal with the precision A = H + diag(k / tau^2 + c) and a
known mean, and positions are seen from it: :math:`\beta = \mu + L^{-\top} q` with LL' = A.  A sweep
is

1. a trajectory of Hamiltonian Monte Carlo in q, which makes nearly independent coefficients;
2. Metropolis steps of the logarithms of scales, one a group, *with q held*: its density is then
   :math:`\log \pi - \tfrac12 \log |A|`, and were the log-likelihood quadratic, it would be that of
   the scale with the coefficients integrated out (so `CollapsedSampler` for Gaussian models);
3. the same with coefficients held in units of their scales, which suits likelihoods that are far
   from quadratic over wide priors, as where columns separate the events;
4. the scales given the coefficients, local scales integrated out, from slices;
5. the local scales given all else, exactly.

Measured, effective draws of the scale of a Laplace prior in 4 chains of 1,000 sweeps, with all
steps and with step 4 alone for scales: Cox model of 500 rows and 20 columns 2,570 and 1,420; of 60
rows and 100 columns 190 and 30.
"""

from collections import namedtuple
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .hmc import ChainPoints, HmcSampler
from .mixtures import STRIDE, log_half_t

# Sites of the random numbers of an iteration, after those of trajectories; below `STRIDE`.
START_SCALE, START_LOCAL, PROPOSAL, DECISION, LEVEL, PLACE, SHRINK, LOCAL, STRETCH, FATE = range(
    4, 14
)
MOST_MOVES = 3  # of step 2 in a sweep: groups take turns
DISPERSION = 0.5  # of starts, in log scales
ACCEPTED = 0.44  # of proposals in one dimension (Gelman, Roberts and Gilks 1996)
# Added to correlations before they are factored: no wide prior makes rounding errors count.
RIDGE = 1e-10


@dataclass(frozen=True, eq=False)
class ShrinkagePrior:
    """Prior of coefficients, by a mixture whose scales are known or drawn."""

    mixture: Any  # one of `MIXTURES`
    mean: np.ndarray  # (d,): of all coefficients
    precision: np.ndarray  # (d,): known part of the precisions
    # (d,): known factors of the scales; infinite where a coefficient is not of the mixture
    scale: np.ndarray
    # (d, G): 1 where the scale of a group, which is drawn, multiplies that of a coefficient, 0
    # elsewhere
    members: np.ndarray
    median: float = 1.0  # of the half-t distribution of each scale that is drawn

    @property
    def n_groups(self) -> int:
        """Number of scales that are drawn."""
        return self.members.shape[1]

    @cached_property
    def _drawn(self):
        """Which coefficients have a scale that is drawn, and the groups of those alone."""
        drawn = np.flatnonzero(self.members.any(axis=1))
        return drawn, self.members[drawn]

    @cached_property
    def _log_known(self):
        return np.log(self.scale)

    def log_scales(self, log_scale):
        """Of coefficients, given those of groups."""
        return self._log_known + log_scale @ self.members.T

    def precisions(self, log_scale, local):
        """Of coefficients, given scales of groups and local precisions."""
        return self.precision + local * np.exp(-2.0 * self.log_scales(log_scale))

    def log_density_of_scales(self, log_scale):
        """Of the logarithms, without what depends on coefficients: (B,)."""
        alone = log_half_t(log_scale, self.median) - self.members.sum(axis=0) * log_scale
        return alone.sum(axis=1)

    def log_density_given(self, coef, log_scale):
        """Of the logarithm of each scale given coefficients, local scales integrated out."""
        drawn, members = self._drawn
        distance = (coef - self.mean)[:, drawn]
        density = self.mixture.log_density(distance, self.log_scales(log_scale)[:, drawn])
        return density @ members + log_half_t(log_scale, self.median)


@dataclass(frozen=True, eq=False)
class Reference:
    """A log-likelihood as a quadratic function of how far coefficients are from prior means."""

    hessian: np.ndarray  # (d, d): minus its second derivative
    slope: np.ndarray  # (d,): its gradient at the prior means
    log_scale: np.ndarray  # (G,): about where scales of groups will be


class Frame(NamedTuple):
    """Where positions are seen from: a normal approximation of each chain's posterior."""

    precision: np.ndarray  # (B, d), of the prior
    center: np.ndarray  # (B, d)
    width: np.ndarray  # (B, d)
    factor: np.ndarray  # (B, d, d), lower, of the matrix of correlations
    log_det: np.ndarray  # (B,), of A


class SeenPoint(namedtuple("SeenPoint", [*ChainPoints._fields, "loglik", "gradient"])):
    """Where chains are, as `ChainPoints`, and what the likelihood alone is there."""

    is_finite, energy = ChainPoints.is_finite, ChainPoints.energy


class ShrinkageSampler(HmcSampler):
    """Chains on the host that draw coefficients and the scales of their prior.

    `evaluate` returns log-likelihoods (B,) and their gradients (B, d) at coefficients (B, d), whose
    parts have names and `shapes`; ``report(scales)`` is what is recorded of scales (B, G), a
    dictionary of arrays.
    """

    def __init__(self, sampling, evaluate, prior, reference, *, shapes, report=None):
        self._evaluate, self._prior, self._reference = evaluate, prior, reference
        self._report = report
        n_chains, d = len(sampling.chains), len(prior.mean)
        random, n_groups = sampling.random, prior.n_groups
        spread = DISPERSION * random.normal(START_SCALE, n_groups)
        self._log_scale = reference.log_scale + spread
        self._local = prior.mixture.draw_precision(random, START_LOCAL, np.ones((n_chains, d)))
        self._log_steps, self._n_tuned = np.zeros((2, n_chains, n_groups)), np.zeros((2, n_groups))
        self.sampling = sampling
        self._frame = self._frame_at(self._log_scale, self._local)
        self._begin(sampling, dict(shapes))
        if report is not None:
            scales = report(np.exp(self._log_scale))
            self.shapes |= {name: array.shape[1:] for name, array in scales.items()}

    def sweep(self, tuning):
        """Draw coefficients, then scales; step sizes adapt while `tuning`."""
        super().sweep(tuning)
        n_groups = self._prior.n_groups
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            for move in range(min(n_groups, MOST_MOVES)):
                group = (self._random.iteration * MOST_MOVES + move) % n_groups
                self._move_scale(group, move, tuning)
            for move in range(min(n_groups, MOST_MOVES)):
                self._stretch(group, move, tuning)
            self._draw_scales()
            self._look_again()

    def _move_scale(self, group, move, tuning):
        """Metropolis step of a group's log scale, with positions held as they are seen."""
        proposed, _ = self._propose(group, PROPOSAL + STRIDE * move, 0)
        frame = self._frame_at(proposed, self._local)
        point = self._at(self._point.q, frame)
        gain = self._height(point, frame, proposed) - self._height(
            self._point, self._frame, self._log_scale
        )
        chance = np.where(point.is_finite(), np.exp(np.minimum(gain, 0.0)), 0.0)
        accepted = self._decide(chance, group, DECISION + STRIDE * move, 0, tuning)
        _take((*self._point, *self._frame), (*point, *frame), accepted)
        _take((self._log_scale,), (proposed,), accepted)

    def _stretch(self, group, move, tuning):
        """Move a group's scales with coefficients held in units of them; frames stay."""
        prior, here = self._prior, self._point
        proposed, step = self._propose(group, STRETCH + STRIDE * move, 1)
        factor = np.where(prior.members[:, group] > 0, np.exp(step), 1.0)
        there = self._evaluate_at(prior.mean + factor * (here.position - prior.mean))
        gain = self._height_in_units(there, proposed) - self._height_in_units(
            (here.position, here.loglik), self._log_scale
        )
        is_finite = np.isfinite(gain) & np.isfinite(there[2]).all(axis=1)
        chance = np.where(is_finite, np.exp(np.minimum(gain, 0.0)), 0.0)
        accepted = self._decide(chance, group, FATE + STRIDE * move, 1, tuning)
        _take((here.position, here.loglik, here.gradient), there, accepted)
        _take((self._log_scale,), (proposed,), accepted)

    def _propose(self, group, site, kind):
        """Other log scales of a group, and by how much they differ, of shape (B, 1)."""
        step = np.exp(self._log_steps[kind, :, group, None]) * self._random.normal(site, 1)
        proposed = self._log_scale.copy()
        proposed[:, group] += step[:, 0]
        return proposed, step

    def _decide(self, chance, group, site, kind, tuning):
        """Which chains accept; tunes the steps of a kind and group."""
        if tuning:
            self._n_tuned[kind, group] += 1
            rate = self._n_tuned[kind, group] ** -0.6
            self._log_steps[kind, :, group] += rate * (chance - ACCEPTED)
        return self._random.uniform(site, 1)[:, 0] < chance

    def _height_in_units(self, point, log_scale):
        """Log density of coefficients in units of their scales, and of log scales."""
        position, loglik = point[:2]
        known = -0.5 * (self._prior.precision * (position - self._prior.mean) ** 2).sum(axis=1)
        return loglik + known + log_half_t(log_scale, self._prior.median).sum(axis=1)

    def _height(self, point, frame, log_scale):
        """Log density of q and log scales."""
        of_scales = self._prior.log_density_of_scales(log_scale)
        return point.value + of_scales - 0.5 * frame.log_det

    def _draw_scales(self):
        """Draw scales of groups, then local ones, given coefficients."""
        prior, coef = self._prior, self._point.position
        if prior.n_groups:
            self._log_scale = draw_from_slices(
                lambda log_scale: prior.log_density_given(coef, log_scale),
                self._log_scale,
                self._random,
                (LEVEL, PLACE, SHRINK),
            )
        ratio = np.abs(coef - prior.mean) * np.exp(-prior.log_scales(self._log_scale))
        self._local = prior.mixture.draw_precision(self._random, LOCAL, ratio)

    def _look_again(self):
        """See the same coefficients from the frame of the scales as they are now."""
        here = self._point
        self._frame = self._frame_at(self._log_scale, self._local)
        q = _to_q(here.position, self._frame)
        self._point = self._see(q, here.position, here.loglik, here.gradient, self._frame)

    def _frame_at(self, log_scale, local):
        """The normal approximation at given scales."""
        linalg, hessian = self.sampling.linalg, self._reference.hessian
        precision = self._prior.precisions(log_scale, local)
        width = 1.0 / np.sqrt(np.diagonal(hessian) + precision)
        correlation = hessian * width[:, :, None] * width[:, None, :]
        diagonal = np.arange(len(hessian))
        correlation[:, diagonal, diagonal] = 1.0 + RIDGE
        factor = linalg.cholesky(correlation)
        solved = linalg.solve_lower(factor, width * self._reference.slope)
        center = self._prior.mean + width * linalg.solve_upper(factor, solved)
        log_det = linalg.log_determinant(factor) - 2.0 * np.log(width).sum(axis=1)
        return Frame(precision, center, width, factor, log_det)

    def _at(self, q, frame=None):
        frame = self._frame if frame is None else frame
        position = frame.center + frame.width * self.sampling.linalg.solve_upper(frame.factor, q)
        return self._see(q, *self._evaluate_at(position), frame)

    def _evaluate_at(self, position):
        """Positions, log-likelihoods, which are minus infinity beyond all numbers, gradients."""
        finite = np.isfinite(position).all(axis=1)  # what a likelihood computes with
        loglik, gradient = self._evaluate(np.where(finite[:, None], position, self._prior.mean))
        return position, np.where(finite, loglik, -np.inf), np.array(gradient)

    def _see(self, q, position, loglik, gradient, frame):
        distance = position - self._prior.mean
        pull = frame.precision * distance
        value = loglik - 0.5 * (pull * distance).sum(axis=1)
        slope = self.sampling.linalg.solve_lower(frame.factor, frame.width * (gradient - pull))
        return SeenPoint(q, position, value, slope, loglik, gradient)

    def state(self):
        """Parts of the current coefficients and scales by name, of shapes (B, ...)."""
        reported = {} if self._report is None else self._report(np.exp(self._log_scale))
        return super().state() | reported

    def snapshot(self):
        """All that later sweeps depend on, arrays by name."""
        return super().snapshot() | {
            "log_scale": self._log_scale,
            "local": self._local,
            "log_steps": self._log_steps,
            "n_tuned": self._n_tuned,
        }

    def restore(self, snapshot):
        """Go back to a snapshot of such a sampler."""
        super().restore(snapshot)
        self._log_scale, self._local, self._log_steps, self._n_tuned = (
            np.array(snapshot[name]) for name in ("log_scale", "local", "log_steps", "n_tuned")
        )
        self._frame = self._frame_at(self._log_scale, self._local)


def _to_q(position, frame):
    distance = (position - frame.center) / frame.width
    return np.einsum("bij,bi->bj", np.tril(frame.factor), distance)


def _take(old, new, accepted):
    """Take what is new in the chains that accept it."""
    for before, after in zip(old, new, strict=True):
        before[accepted] = after[accepted]


WIDTH = 1.0
MOST_STEPS = 100  # that an interval grows, or shrinks: by then it is long or short beyond doubt


def draw_from_slices(log_density, position, random, sites):
    """Move each of many independent numbers by slice sampling (Neal 2003): nothing has to be tuned.

    ``log_density`` of positions (B, d) has the same shape, up to constants. Of the three `sites` of
    random numbers the last and every `STRIDE`-th after it are used.
    """
    size = position.shape[1]
    level = log_density(position) + np.log(random.uniform(sites[0], size))
    low = position - WIDTH * random.uniform(sites[1], size)
    high = low + WIDTH
    for edge, direction in ((low, -WIDTH), (high, WIDTH)):
        for _ in range(MOST_STEPS):
            inside = log_density(edge) > level
            if not inside.any():
                break
            edge += direction * inside
    found, is_open = position.copy(), np.ones(position.shape, bool)
    for attempt in range(MOST_STEPS):
        trial = low + (high - low) * random.uniform(sites[2] + attempt * STRIDE, size)
        hits = is_open & (log_density(trial) > level)
        found[hits] = trial[hits]
        is_open &= ~hits
        if not is_open.any():
            break
        low, high = (
            np.where(trial < position, trial, low),
            np.where(trial < position, high, trial),
        )
    return found
