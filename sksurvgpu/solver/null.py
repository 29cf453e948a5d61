"""The null model, and what it says of units: the measure of every fit that comes after it.

With C_j the curvature of minus the log-likelihood along column j in the model whose penalized
coefficients are zero, 1 / sqrt(C_j) is the standard error of the coefficient of a column by itself,
and a violation of stationarity divided by sqrt(C_j) is a score *in standard errors*: the number of
them by which the coefficient is off.  It does not depend on the unit of any column.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..backends.contract import Operations, ask, every_column
from .descend import descend
from .models import Diagonal
from .point import Goal

LARGEST_SCALE = 100.0  # standard errors: beyond, `tol` would allow too much of one
LEAST_DEVIATION = 1e-4  # of errors, over that of the null model
LEAST_SCALE = 1e-3  # of the scale before unpenalized columns were fitted, which may explain all
STEP, CLOSE, SMALLEST = 1.3, 1e-4, 1e-6  # strengths that are tried where ridges stand beside others
CONSTANT = 1e-13  # share of a curvature that rounding has lost: the most that is left
FLAT = 1e-2  # share of the root of a curvature that a column has left where it separates
SHARE_OF_PENALTY = 1e-2  # of a column's lasso penalty: the largest violation beside it


@dataclass(frozen=True)
class Null:
    """Numbers that fits keep of their null model."""

    root: np.ndarray  # (n_columns,) square root of the curvature
    noise: np.ndarray  # (n_columns,) rounding error of the gradient
    loglik: float  # where coefficients are 0
    events: float  # that the model expects: sum of h
    scale: float  # largest score in standard errors
    lam_max: float  # least penalty that leaves all penalized coefficients at zero

    @property
    def magnitude(self):
        """Size of the log-likelihood, the unit of rounding errors."""
        return abs(self.loglik)

    def pack(self):
        """All of it as a vector."""
        numbers = self.loglik, self.events, self.scale, self.lam_max
        return np.concatenate([self.root, self.noise, numbers])

    @classmethod
    def unpack(cls, vector):
        """Undo `pack`."""
        n_columns = (len(vector) - 4) // 2
        root, noise, numbers = np.split(vector, [n_columns, 2 * n_columns])
        return cls(root, noise, *map(float, numbers))

    def of_share(self, share):
        """The null model of a fit with a share of the weights."""
        if share == 1.0:
            return self
        root, scale = np.sqrt(share) * self.root, np.sqrt(share) * self.scale
        sums = {name: share * getattr(self, name) for name in ("noise", "loglik", "events")}
        return replace(self, root=root, scale=scale, lam_max=np.nan, **sums)

    def allows(self, tol, deviation):
        """Largest score in standard errors of a fit that has converged.

        `deviation` is that of the errors, 1 where the likelihood knows it.
        """
        return tol * min(self.scale, LARGEST_SCALE * deviation)

    def goal(self, penalty, allowed):
        """Goal of a fit, in units in which violations are compared with what is `allowed`.

        Where a penalty is small beside that, its share is all that is allowed: else a path would
        stand still where its penalties are below the tolerance.
        """
        unit, threshold = self.root, penalty.threshold
        if allowed > 0:
            limit = np.where(threshold > 0, SHARE_OF_PENALTY / allowed * threshold, np.inf)
            least = SHARE_OF_PENALTY * self.noise / allowed
            unit = np.minimum(unit, np.maximum(limit, least))
        return Goal(penalty, allowed, unit, self.noise, self.magnitude)

    def plain_unit(self, factor, is_free):
        """Units of the plain residual: of the penalty, and for free columns their deviation.

        The latter is 1 for an indicator of half of the rows.
        """
        deviation = 2.0 * self.root / np.sqrt(max(self.events, np.finfo(float).tiny))
        return np.where(is_free, deviation, factor)


def find_null(point, way, penalty, factor):
    """Coroutine: move `point`, whose free coefficients are zero, to the null model; returns it.

    The quadratic model is left there, of the columns with which the fit under `penalty` begins.
    """
    noise, loglik = (yield from ask(Operations.rounding)), point.loglik
    is_penalized = ~penalty.fixed & (factor > 0)
    is_free = ~penalty.fixed & ~is_penalized
    scale, before = 0.0, np.zeros(len(noise))
    if is_penalized.any() and is_free.any():
        scale, before = yield from _fit_free(point, way, penalty.family, is_free, noise)
    root, events = yield from _measure(point, way, way.near(point, penalty))
    if (root < FLAT * before)[is_free].any():
        way.secants.forget()  # along columns that separate, changes of gradients are rounding
    judged = is_penalized if is_penalized.any() else is_free
    gradient = penalty.family.reduced(point.gradient)
    gradient = np.where(gradient > noise, gradient, 0.0)
    scale = max(scale, float((gradient / root)[judged].max(initial=0.0)))
    pulled = np.where(is_penalized, factor, 0.0)
    signed = np.where(gradient > 0.0, point.gradient, 0.0)
    lam_max = penalty.family.least_strength(signed, gradient, pulled, root**2)
    null = Null(root, noise, loglik, events, scale, lam_max)
    is_ridge = penalty.family.is_always_there(pulled)
    if is_ridge.any() and lam_max > 0:
        coef = point.coef
        moves = is_ridge | is_free
        lam_max = yield from _least_beside(point, way, null, penalty.family, pulled, moves)
        null = replace(null, lam_max=lam_max)
        yield from point.go_to(coef)
        yield from _measure(point, way, way.near(point, penalty))
    return null


def _least_beside(point, way, null, family, factor, moves):
    """Coroutine: least strength that leaves columns at zero beside ridges at their optimum.

    As ridges shrink with the strength it is the largest one at which slopes reach their threshold,
    a fixed point, which is met from above.
    """
    yield from _measure(point, way, np.flatnonzero(moves), np.flatnonzero(moves))

    def reached(lam):
        yield from descend_by(descend, point, way, null, family.at(lam, factor, ~moves))
        return family.least_strength(
            point.gradient, family.reduced(point.gradient), factor, null.root**2
        )

    high = null.lam_max
    while (yield from reached(high)) > high:
        high *= 2.0
    low = high / STEP
    while low > SMALLEST * null.lam_max and (yield from reached(low)) < low:
        low, high = low / STEP, low
    while high > (1.0 + CLOSE) * low:
        middle = np.sqrt(low) * np.sqrt(high)  # their product may underflow
        is_below = (yield from reached(middle)) < middle
        low, high = (low, middle) if is_below else (middle, high)
    return float(high)


def _fit_free(point, way, family, is_free, noise):
    """Coroutine: fit the unpenalized columns alone; the least scale, and roots before that."""
    columns = np.flatnonzero(is_free)
    root, events = yield from _measure(point, way, columns, columns)
    scale = float((np.abs(point.gradient) / root)[columns].max())
    null = Null(root, noise, point.loglik, events, scale, 0.0)
    penalty = family.at(0.0, np.zeros(len(is_free)), ~is_free)
    yield from descend_by(descend, point, way, null, penalty)
    return LEAST_SCALE * scale, root


def _measure(point, way, first, columns=None):
    """Coroutine: roots of the curvature of columns at the last evaluation, and its sum over rows.

    The quadratic model is taken there, of the columns `first`. An empty column has a root of 1, as
    if it had an event.
    """
    columns = every_column(len(point.coef)) if columns is None else columns
    found, events = yield from ask(Operations.curvature, columns)
    curvature = np.full((len(point.coef), 2), np.nan)
    curvature[columns] = found
    way.model = Diagonal.of(way.secants, first, curvature)
    centred, plain = np.nan_to_num(curvature.T)
    known = np.where(centred > 0.0, centred, CONSTANT * plain)
    return np.sqrt(np.where(known > 0.0, known, 1.0)), events


def descend_by(schedule, point, way, null, penalty):
    """Coroutine: descend until scores are what the null model allows.

    Objectives, the goal that was reached, and the deviation of the errors: where that is estimated,
    it is smaller at the optimum than before.
    """
    point.objective = penalty.value(point.coef) - point.loglik
    objectives, weight = [point.objective], (yield from ask(Operations.error_weight))
    deviation = _deviation(point, null, weight)
    goal = null.goal(penalty, null.allows(way.options.tol, deviation))
    while True:
        left = way.options.max_iter - (len(objectives) - 1)
        objectives += (yield from schedule(point, goal, way, left))[1:]
        deviation = _deviation(point, null, weight)
        allowed, given = null.allows(way.options.tol, deviation), goal.tolerance
        residual = goal.violation(point).max(initial=0.0)
        goal = null.goal(penalty, allowed)
        if not allowed < residual <= given:  # else errors have become smaller on the way: go on
            return objectives, goal, deviation


def _deviation(point, null, weight):
    """Standard deviation of the errors; 1 where the likelihood knows it, and `weight` is 0.

    Errors next to none, as of a fit with more columns than rows, are no unit of accuracy.
    """
    if not weight > 0:
        return 1.0
    least = LEAST_DEVIATION * np.sqrt(2.0 * null.magnitude / weight)
    return max(least, np.sqrt(max(0.0, -2.0 * point.loglik) / weight))
