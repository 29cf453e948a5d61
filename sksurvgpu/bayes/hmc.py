r"""Hamiltonian Monte Carlo, preconditioned at the mode.

Positions are :math:`\theta = m + L^{-\top} q` with the mode :math:`m` and the factor
:math:`LL^\top` of minus the Hessian there: where the posterior is normal, :math:`q` is standard
normal.  An iteration draws a momentum :math:`v \sim N(0, I)`, makes a few leapfrog steps

.. math:: v \gets v + \tfrac{\epsilon}{2} \nabla_q \log \pi, \quad
          q \gets q + \epsilon v, \quad v \gets v + \tfrac{\epsilon}{2} \nabla_q \log \pi,

and goes there with probability :math:`\min(1, e^{H_0 - H})`, :math:`H = \tfrac12 v^\top v - \log
\pi` (Duane et al. 1987; Neal 2011).  Any linear map would leave the posterior as it is; this one
makes all directions alike.  While tuning, dual averaging (Hoffman and Gelman 2014) moves the step
size of each chain until it accepts `ACCEPTANCE` of its proposals, or the trajectory is a quarter of
a period long.

How many steps: with the dimension the error of the energy grows as its square root, so that steps
grow in number as :math:`d^{1/4}` (Beskos et al. 2013).  Measured, the least effective draws per
gradient of all coefficients and their squares: normal with d = 20, for 2, 3, 4, 5 steps 0.19,
**0.24**, 0.20, 0.17; with d = 200, 0.05, 0.07, **0.12**, 0.12; with d = 2,000, for 5, 6, 7, 8 steps
0.02, 0.03, **0.04**, 0.04; logistic posterior of 100 rows, d = 20, for 2, 3, 4, 5 steps 0.19,
**0.19**, 0.15, 0.12; logarithms of 20 exponential variables, for 2, 3, 4 steps 0.03, **0.04**,
0.04.  Trajectories longer by a quarter lose a third of that where d = 20, and an acceptance of 0.9
up to a half; 0.7 gains nothing.
"""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

FEWEST_STEPS = 3
ACCEPTANCE = 0.8
# A quarter of the period of trajectories in a standard normal density: where they end does not
# depend on where they start.
LONGEST = 0.5 * np.pi
JITTER = 0.2
DISPERSION = 1.5
LARGEST_ERROR = 1000.0  # of the energy, beyond which a trajectory has diverged
# Constants of dual averaging: its authors' (Hoffman and Gelman 2014, section 3.2).
SHRINKAGE, STABILITY, FORGETTING = 0.05, 10.0, 0.75

# Sites of the random numbers of an iteration.
START, MOMENTUM, STEP, ACCEPT = range(4)


class HmcSampler:
    """Chains of Hamiltonian Monte Carlo, in lockstep.

    Parameters
    ----------
    sampling : Sampling
        Random numbers of the chains, on the host.
    target : object
        Its ``value_and_gradient(positions)`` returns the log density, up to a constant, and its
        gradient, of shapes (B,) and (B, d), at positions of shape (B, d).
    mode : ndarray of shape (d,)
        Where the density is largest, about.
    factor : ndarray of shape (d, d) or (d,), or list of ndarray of shape (m, m)
        Lower Cholesky factor of minus the Hessian at the mode; what is above its diagonal is not
        read.  A vector is a diagonal factor, a list (or a stack) the blocks along the diagonal.
    shapes : dict of {str: tuple of int}, optional
        Names and shapes of the parts of a position, one after the other; all of it is "coef" by
        default.

    Attributes
    ----------
    n_divergent : ndarray of shape (B,)
        Trajectories after tuning whose energy was lost, a chain.

    Examples
    --------
    A normal density with mean 3 and standard deviation 1/2:

    >>> import numpy as np
    >>> from sksurvgpu.backends.cpu.sampling import Sampling
    >>> from sksurvgpu.bayes.hmc import HmcSampler
    >>> class Normal:
    ...     def value_and_gradient(self, positions):
    ...         return -2.0 * ((positions - 3.0) ** 2).sum(axis=1), -4.0 * (positions - 3.0)
    >>> sampling = Sampling(0, np.arange(500))
    >>> sampler = HmcSampler(sampling, Normal(), np.array([3.0]), np.array([2.0]))
    >>> for sampling.random.iteration in range(1, 51):
    ...     sampler.sweep(tuning=sampling.random.iteration <= 25)
    >>> draws = sampler.state()["coef"]
    >>> draws.shape, bool(abs(draws.mean() - 3.0) < 0.1), bool(abs(draws.std() - 0.5) < 0.07)
    ((500, 1), True, True)
    """

    def __init__(self, sampling, target, mode, factor, *, shapes=None):
        self._target, self._mode, self._map = target, np.asarray(mode, float), Whitening(factor)
        self._begin(sampling, {"coef": (len(mode),)} if shapes is None else dict(shapes))

    def _begin(self, sampling, shapes):
        """Start chains, once a target and a map are known."""
        self.sampling, self.shapes, self._parts = sampling, shapes, dict(shapes)
        self._random, n_chains = sampling.random, len(sampling.chains)
        self._size = sum(int(np.prod(shape)) for shape in shapes.values())
        self._n_steps = max(FEWEST_STEPS, math.ceil(self._size**0.25))
        self._step_sizes = StepSizes(n_chains, LONGEST / self._n_steps)
        self.n_divergent = np.zeros(n_chains, np.int64)
        self._point = self._at(DISPERSION * self._random.normal(START, self._size))
        finite = self._point.is_finite()
        if not finite.all():
            raise ValueError(
                f"the log density or its gradient is not finite where chain "
                f"{sampling.chains[np.argmin(finite)]} starts, about {DISPERSION} standard "
                "deviations from the mode; the posterior may not be proper: a prior with a larger "
                "precision makes it so."
            )

    def sweep(self, tuning):
        """Make one trajectory in every chain; step sizes adapt while `tuning`."""
        momentum = self._random.normal(MOMENTUM, self._size)
        jitter = 1.0 + JITTER * (2.0 * self._random.uniform(STEP, 1) - 1.0)
        step = self._step_sizes.current(tuning)[:, None] * jitter
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            end, last_momentum = self._travel(momentum, step)
            error = end.energy(last_momentum) - self._point.energy(momentum)
            finite = end.is_finite() & np.isfinite(error)
            chance = np.where(finite, np.exp(-np.maximum(error, 0.0)), 0.0)
        accepted = self._random.uniform(ACCEPT, 1)[:, 0] < chance
        for old, new in zip(self._point, end, strict=True):
            old[accepted] = new[accepted]
        if tuning:
            self._step_sizes.learn(chance)
        else:
            self.n_divergent += ~(finite & (error < LARGEST_ERROR))

    def state(self):
        """Parts of the current positions by name, of shapes (B, ...)."""
        sizes = [int(np.prod(shape)) for shape in self._parts.values()]
        parts = np.split(self._point.position, np.cumsum(sizes)[:-1], axis=1)
        named = zip(self._parts.items(), parts, strict=True)
        return {name: part.reshape(len(part), *shape) for (name, shape), part in named}

    def snapshot(self):
        """All that later trajectories depend on, arrays by name."""
        state = {**self._point._asdict(), "n_divergent": self.n_divergent}
        return state | self._step_sizes.snapshot()

    def restore(self, snapshot):
        """Go back to a snapshot of such a sampler."""
        point = self._point
        self._point = type(point)(*(snapshot[name] for name in point._fields))
        self._step_sizes.restore(snapshot)
        self.n_divergent[:] = snapshot["n_divergent"]

    def _travel(self, momentum, step):
        """Where leapfrog steps from the current points end, and with which momentum."""
        point = self._point
        momentum = momentum + 0.5 * step * point.slope
        for remaining in reversed(range(self._n_steps)):
            point = self._at(point.q + step * momentum)
            momentum = momentum + (step if remaining else 0.5 * step) * point.slope
        return point, momentum

    def _at(self, q):
        position = self._mode + self._map.to_positions(q)
        finite = np.isfinite(position).all(axis=1)  # what a target computes with
        value, gradient = self._target.value_and_gradient(
            np.where(finite[:, None], position, self._mode)
        )
        value = np.where(finite, value, -np.inf)
        return ChainPoints(q, position, value, self._map.to_slopes(gradient))


class ChainPoints(NamedTuple):
    """Where chains are: arrays of (B, d), and the log density (B,)."""

    q: np.ndarray
    position: np.ndarray
    value: np.ndarray
    slope: np.ndarray  # of the log density in q

    def is_finite(self):
        return np.isfinite(self.value) & np.isfinite(self.slope).all(axis=1)

    def energy(self, momentum):
        return 0.5 * (momentum**2).sum(axis=1) - self.value


class Whitening:
    """The map from standard normal to posterior coordinates, L^-T, a diagonal or blocks."""

    def __init__(self, factor):
        self._scale = None
        if isinstance(factor, np.ndarray) and factor.ndim == 1:
            self._scale = 1.0 / factor
            return
        blocks = [factor] if isinstance(factor, np.ndarray) and factor.ndim == 2 else factor
        self._blocks = [
            solve_triangular(block, np.eye(len(block)), lower=True, check_finite=False)
            for block in blocks
        ]
        ends = np.cumsum([len(block) for block in self._blocks])
        self._ranges = [slice(*pair) for pair in pairwise([0, *ends])]

    def to_positions(self, q):
        """L^-T q of every row."""
        return self._apply(q, self._blocks) if self._scale is None else q * self._scale

    def to_slopes(self, gradient):
        """L^-1 g of every row, by the transpose of the same matrix."""
        if self._scale is not None:
            return gradient * self._scale
        return self._apply(gradient, [block.T for block in self._blocks])

    def _apply(self, rows, blocks):
        pairs = zip(self._ranges, blocks, strict=True)
        return np.concatenate([rows[:, part] @ block for part, block in pairs], axis=1)


class StepSizes:
    """Step size of each chain, by dual averaging of its acceptance."""

    def __init__(self, n_chains, longest):
        self._longest = np.log(longest)
        self._center = np.full(n_chains, self._longest)
        self._lack = np.zeros(n_chains)
        self._now, self._average = self._center.copy(), self._center.copy()
        self._n_learned = 0

    def current(self, tuning):
        """Sizes to use: the latest, or after tuning their average."""
        return np.exp(self._now if tuning else self._average)

    def learn(self, chance):
        """Adapt to the probability with which the last proposal was accepted."""
        self._n_learned += 1
        t = self._n_learned
        self._lack += (ACCEPTANCE - chance - self._lack) / (t + STABILITY)
        wished = self._center - np.sqrt(t) / SHRINKAGE * self._lack
        self._now = np.minimum(wished, self._longest)
        self._average += t**-FORGETTING * (self._now - self._average)

    def snapshot(self):
        return {
            "lack": self._lack,
            "now": self._now,
            "average": self._average,
            "n_learned": self._n_learned,
        }

    def restore(self, snapshot):
        self._lack, self._now = snapshot["lack"], snapshot["now"]
        self._average, self._n_learned = snapshot["average"], int(snapshot["n_learned"])
