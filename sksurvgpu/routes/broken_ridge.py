r"""Broken adaptive ridge: ridges, each with the penalties that the one before says, to the end.

From the coefficients :math:`\beta` of a ridge, the next one has the penalty
:math:`\lambda f_j b_j^2 / (2\beta_j^2)`. Since :math:`\log|b| \le \log|\beta| +
(b^2/\beta^2 - 1)/2`, no round raises

.. math:: -\ell(\beta) + \lambda \sum_{\beta_j \ne 0} f_j \log|\beta_j|,

and where nothing changes any more the slope of :math:`\ell` is :math:`\lambda f_j/\beta_j`: that of
this sum, whose local minimum on its support the limit is. Coefficients that go to zero do so at a
quadratic rate, and never return: what is found depends on the first ridge, and the sum, without a
lower bound, can be compared on one support only.

Other coefficients come closer by a factor a round, the nearer to 1 the smaller they are; once they
hardly move, rounds are extrapolated, unless that raises the sum.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from ..data import options
from ..penalties import ElasticNet, PenaltySpec
from ..solver.problem import Batch
from ..solver.solve import Solution
from .base import Route
from .pilots import LARGEST_FACTOR, Pilots, by_fit

RIDGE = ElasticNet(0.0)
NEGLIGIBLE = 1e-6  # of the least size that a coefficient of such curvature can have in the end
SETTLED = 1e-2  # relative change of coefficients in a round, from which it is extrapolated
MOST = 2.0  # factor between a round's coefficient and the extrapolated one
DEPTH = 5  # secants


class BrokenRidge(PenaltySpec):
    r"""Broken adaptive ridge (BAR): an iterated ridge that selects nearly like best subsets.

    A ridge is refitted until its coefficients no longer change, with the penalty
    ``alpha * penalty_factor * b**2 / (2 * b0**2)`` of a coefficient that was ``b0`` in the fit
    before: small coefficients go to zero, large ones are hardly shrunk.

    Parameters
    ----------
    start : float or None, default=None
        ``alpha`` of the ridge that it starts from. None is the strength of normal priors under
        which the linear predictor has variance 1.

    See Also
    --------
    Adaptive : One such step, with a lasso, which has a single optimum.
    MCP : Another penalty without shrinkage of large coefficients, with an objective.

    Notes
    -----
    In the end every coefficient that is not zero has, with ``g`` the slope of the mean
    log-likelihood, ``g = alpha * penalty_factor / b``: that of a penalty
    ``alpha * penalty_factor * log(abs(b))``. Zero is the pole of it, where every column could be:
    there is no optimum over all coefficients, and which are zero follows from the start. So

    - ``objective_`` has this penalty of the coefficients that are not zero. They are a local
      minimum of it, and it says nothing about other supports;
    - ``kkt_`` and ``kkt_se_`` are violations of the equation above, 0 for columns at zero;
    - ``dual_gap_`` and ``alpha_max_`` are NaN: `fit_path` and cross-validation need `alphas`;
    - ``n_iter_`` counts ridges after the first, of which ``pilot_coef_`` are the coefficients, and
      `max_iter` bounds their number as well as the iterations of each;
    - ``warm_start`` is of no use: each fit, also at each penalty of a path, has its own start. That
      is fitted inside every fold of a cross-validation and every replicate of a `bootstrap`.

    With W the sum of the weights, a column that is not correlated with others stays if its squared
    z-score is at least ``4 * W * alpha``, so that ``alpha = log(n) / (4 * W)`` asks of it what the
    BIC of n events does. R Cyclops' prior "barupdate" of variance v is ``alpha = 1 / (v * W)``; its
    updates of single coefficients may also bring columns back from zero, where ridges cannot.

    It takes `penalty_factor` and `prior_mean`, not `l1_ratio` and `bounds`.

    References
    ----------
    Dai, L., Chen, K., Sun, Z., Liu, Z. and Li, G. (2018). Broken adaptive ridge regression and its
    asymptotic properties. Journal of Multivariate Analysis 168, 334-351.

    Kawaguchi, E. S., Suchard, M. A., Liu, Z. and Li, G. (2020). A surrogate L0 sparse Cox's
    regression with applications to sparse high-dimensional massive sample size time-to-event data.
    Statistics in Medicine 39, 675-686.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import BrokenRidge, CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> alpha = 0.25 * np.log(data.y["event"].sum()) / 1_000
    >>> model = CoxLassoCCD(alpha=alpha, penalty=BrokenRidge()).fit(data.X, data.y)
    >>> bool(0 < np.count_nonzero(model.coef_) < np.count_nonzero(model.pilot_coef_))
    True
    """

    accepts: ClassVar[frozenset[str]] = frozenset({"penalty_factor", "prior_mean"})

    def __init__(self, start=None):
        self.start = start

    def family(self, given):
        return RIDGE

    def prior_ratio(self, l1_ratio):
        return 0.0

    def route(self, given, inner):
        start = self.start
        if start is not None:
            rule = "must be the positive `alpha` of a ridge, or None"
            start = options.number(start, "start", rule, above=0)
        return Broken(inner, Pilots(inner, RIDGE, start))


@dataclass(frozen=True)
class Broken(Route):
    """Rounds of ridges, all fits of a batch and all their penalties at the same time."""

    inner: Route
    pilots: Pilots

    def solve(self, fits, on_fit=None):
        pilots, batch, options = self.pilots.fit(fits), fits.batch, fits.options
        n, positions = len(batch.lambdas), range(len(batch.lambdas))
        runs = [_Run(batch, b, k, pilot) for b, pilot in enumerate(pilots) for k in positions]
        # half of the tolerance is for the change of the penalties
        verbose = max(options.verbose - 1, 0)
        halved = fits.with_options(tol=0.5 * options.tol, verbose=verbose)
        left = runs
        for _ in range(options.max_iter):
            ridges = replace(halved, batch=_batch_of(batch, left))
            for run, [solution] in zip(left, self.inner.solve(ridges), strict=True):
                run.advance(solution, options.max_iter)
            going = [run for run in left if not run.is_done]
            _report(left, going, on_fit)
            left = going
            if not left:
                break
        _report(left, [], on_fit)
        coefs = np.stack([run.solution.coef for run in runs], axis=1)
        slopes = replace(fits, batch=_batch_of(batch, runs)).gradients(coefs)
        found = [run.finish(slopes[:, k], options.tol) for k, run in enumerate(runs)]
        return [found[first : first + n] for first in range(0, len(found), n)]

    def solve_and_lend(self, fits, n_borrowers):
        return self.solve(fits)[0], None

    def null_model(self, fits):
        return replace(self.inner.null_model(fits), lam_max=np.nan)


class _Run:
    """One fit at one penalty, between rounds."""

    def __init__(self, batch, index, position, pilot):
        shape = len(pilot.coef), batch.n_fits
        self.index, self.lam = index, float(batch.lambdas[position, index])
        self.factor = by_fit(batch.factor, shape)[:, index]
        held = np.zeros(shape, bool) if batch.fixed is None else by_fit(batch.fixed, shape)
        self._is_held, self._pilot, self.null = held[:, index], pilot, pilot.null
        self._is_pulled = (self.factor > 0) & ~self._is_held
        self._least = NEGLIGIBLE * np.sqrt(self.lam * self.factor) / self.null.root
        self._least = np.maximum(self._least, LARGEST_FACTOR**-0.5)
        self.coef, self.solution = self._without_negligible(pilot.coef), pilot
        self._image, self._value, self._n_rounds = self.coef, np.inf, 0
        self._anderson, self._is_extrapolated, self.is_done = Anderson(), False, False

    @property
    def weight(self):
        """Penalty factors of the next ridge."""
        is_in = self._is_pulled & (self.coef != 0)
        weight = np.where(self._is_pulled, 1.0, self.factor)
        weight[is_in] = self.factor[is_in] / self.coef[is_in] ** 2
        return weight

    @property
    def fixed(self):
        return self._is_held | (self._is_pulled & (self.coef == 0))

    def advance(self, solution, max_iter):
        """Go on from the ridge that began at `coef`, with its weights."""
        self._n_rounds += 1
        image = self._without_negligible(solution.coef)
        value = self._penalty(image) - solution.loglik
        if self._is_extrapolated and not value <= self._value:
            self.coef, self._is_extrapolated = self._image, False
            self._anderson.clear()
            return
        start, self.coef, self._is_extrapolated = self.coef, image, False
        self.solution, self._image, self._value = solution, image, value
        change, size = (np.abs(values)[self._is_pulled] for values in (image - start, image))
        settled = np.all(change <= SETTLED * size)
        is_stuck = not solution.converged and solution.n_iter < max_iter
        self.is_done = bool(solution.n_iter == 0 or (settled and is_stuck))
        if not settled:
            self._anderson.clear()
        elif not self.is_done:
            self._extrapolate(start, image)

    def _extrapolate(self, start, image):
        ends = np.sort([image / MOST, image * MOST], axis=0)
        low, high = np.where(self.factor > 0, ends, [[-np.inf], [np.inf]])
        low[self.fixed] = high[self.fixed] = image[self.fixed]
        proposal = self._anderson.propose(start, image, low, high, self.null.root)
        if proposal is not None:
            self.coef, self._is_extrapolated = proposal, True

    def _without_negligible(self, coef):
        return np.where(self._is_pulled & (np.abs(coef) <= self._least), 0.0, coef)

    def _penalty(self, coef):
        is_in = self._is_pulled & (coef != 0)
        return self.lam * float(self.factor[is_in] @ np.log(np.abs(coef[is_in])))

    def finish(self, slope, tol) -> Solution:
        """The solution, with what its equations lack, the slopes of the log-likelihood given."""
        found, null = self.solution, self.null
        is_in = self._is_pulled & (found.coef != 0)
        slope = np.where(self.fixed, 0.0, slope)
        slope[is_in] -= self.lam * self.factor[is_in] / found.coef[is_in]
        violation = np.where(np.abs(slope) <= null.noise, 0.0, np.abs(slope))
        error = found.deviation if found.deviation > 0 else 1.0
        score = float((violation / null.root).max(initial=0.0) / error)
        allowed = float(null.allows(tol, found.deviation) / error)
        unit = null.plain_unit(self.factor, self.factor * self.lam == 0)
        return replace(
            found,
            objective=self._penalty(found.coef) - found.loglik,
            kkt=float((violation / np.where(unit > 0, unit, 1.0)).max(initial=0.0)),
            score=score,
            allowed=allowed,
            gap=np.nan,
            n_iter=self._n_rounds,
            converged=score <= allowed,
            lam=self.lam,
            lam_max=np.nan,
            null=replace(null, lam_max=np.nan),
            objectives=(),
            of_route={"pilot_coef_": self._pilot.coef.copy()},
        )


def _batch_of(batch, runs) -> Batch:
    """The next ridges of some runs."""
    return replace(
        batch.of([run.index for run in runs]),
        lambdas=np.array([[run.lam for run in runs]]),
        penalty=RIDGE,
        factor=np.stack([run.weight for run in runs], axis=1),
        coef=np.stack([run.coef for run in runs], axis=1),
        fixed=np.stack([run.fixed for run in runs], axis=1),
        null=tuple(run.null for run in runs),
        loan=None,
        share=None,
        reach=None,
    )


def _report(before, after, on_fit):
    """Say which fits are done at all of their penalties."""
    if on_fit is not None:
        for index in {run.index for run in before} - {run.index for run in after}:
            on_fit(index)


class Anderson:
    """Secants of rounds: successive changes of coefficients, and of how far a round moves them."""

    def __init__(self):
        self.clear()

    def clear(self):
        """Forget all."""
        self._residual_steps, self._image_steps = [], []
        self._residual = self._image = None

    def propose(self, coef, image, low, high, root):
        """Image corrected by the secants, so that the predicted residual is least; or None.

        It lies between `low` and `high`, and stays where these do not differ. `root` is one over
        the units of the coefficients.
        """
        residual = root * (image - coef)
        if self._residual is not None:
            self._residual_steps = [*self._residual_steps, residual - self._residual][-DEPTH:]
            self._image_steps = [*self._image_steps, image - self._image][-DEPTH:]
        self._residual, self._image = residual, image
        if len(self._residual_steps) < 2:
            return None
        used = np.flatnonzero((low < image) & (image < high))
        slopes = np.array(self._residual_steps)[:, used].T
        mix = np.linalg.lstsq(slopes, residual[used], rcond=None)[0]
        proposal = image.copy()
        proposal[used] -= np.array(self._image_steps)[:, used].T @ mix
        proposal[used] = np.clip(proposal[used], low[used], high[used])
        return proposal
