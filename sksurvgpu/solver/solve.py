"""Fits from a start to a certificate, by one of two schedules.

A fit is a *coroutine*: plain sequential code that asks for operations on rows and columns
(`backends.contract`) and is sent their results.  It never sees a row, and this folder knows neither
likelihood nor backend nor penalty.
"""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from .._progress import Line, is_wanted
from ..backends.contract import Operations, ask, every_column
from ..data.by_fit import of_fit
from .descend import descend
from .exact import descend_exactly
from .null import Null, descend_by, find_null
from .point import Point
from .way import NEAR, NEAR_LATER, Way

SCHEDULES = {"majorized": descend, "exact": descend_exactly}
# Penalties on the way to a small one, each a share of the one before it, down to a share of the
# largest; for so many iterations at most, or until so much of their first residual is left.
NEXT, LEAST_ON_THE_WAY, ITERATIONS_ON_THE_WAY, LEFT_ON_THE_WAY = 0.8, 1e-4, 3, 0.2


@dataclass(frozen=True)
class Solution:
    """One fit at one penalty; residuals are recomputed from scratch at its coefficients."""

    coef: np.ndarray
    loglik: float
    objective: float
    kkt: float  # largest violation in plain units, see `null.Null.plain_unit`
    score: float  # ... in standard errors
    allowed: float  # largest score of a fit that has converged
    deviation: float  # standard deviation of the errors, 1 where the likelihood knows it
    gap: float  # bound of objective - optimum; nan where it does not apply
    n_iter: int
    converged: bool
    lam: float
    lam_max: float
    null: Null
    baseline: object = None
    objectives: tuple = ()  # after every outer iteration
    of_route: dict = field(default_factory=dict)  # fitted attributes that a route adds


def fit(fits, index):
    """Coroutine of one fit of a batch: its penalties in order, a solution for each.

    Returns the list of these, and where, by which way and under which penalty the fit was last.
    """
    with _line(fits, index) as line:
        return (yield from _fit_in_turn(fits, index, line))


def _fit_in_turn(fits, index, line):
    batch, options, (fixed, factor) = fits.batch, fits.options, _by_column(fits, index)
    lambdas = batch.lambdas[:, index]
    family = batch.family(index)
    penalties = [family.at(lam, factor, fixed) for lam in lambdas]
    begin = _begin if batch.null is None else _begin_with_null
    point, way, null = yield from begin(fits, index, penalties[0], factor)
    bound = yield from ask(Operations.largest_loglik)
    way.line = line if len(lambdas) == 1 else None
    solutions = []
    for position, (lam, penalty) in enumerate(zip(lambdas, penalties, strict=True)):
        way.penalties_left = len(lambdas) - 1 - position
        way.share = _near(lambdas[max(position - 1, 0)], lam, family.haste)
        if options.verbose and not line.is_shown:
            _announce(batch, index, position)
        schedule, on_the_way = SCHEDULES[options.algorithm], 0
        is_alone, far = len(lambdas) == 1 and schedule is descend, NEXT * null.lam_max
        if is_alone and 0 < lam < far < np.inf and (yield from _is_far(point, way, penalty)):
            under = partial(family.at, factor=factor, fixed=fixed)
            on_the_way = yield from _come_near(point, way, null, under, lam)
        trace, goal, deviation = yield from descend_by(schedule, point, way, null, penalty)
        violation, is_free = goal.violation(point), factor * lam == 0
        error = deviation if deviation > 0 else 1.0
        solutions.append(
            Solution(
                coef=point.coef.copy(),
                loglik=point.loglik,
                objective=point.objective,
                kkt=_largest(violation * goal.unit / null.plain_unit(factor, is_free)),
                score=_largest(violation * goal.unit / null.root) / error,
                allowed=goal.tolerance / error,
                deviation=deviation,
                gap=penalty.gap(point.coef, point.gradient, point.loglik, bound),
                n_iter=on_the_way + len(trace) - 1,
                converged=_largest(violation) <= goal.tolerance,
                lam=float(lam),
                lam_max=null.lam_max,
                null=null,
                baseline=(yield from ask(Operations.baseline)) if options.baseline else None,
                objectives=tuple(trace),
            )
        )
        if len(lambdas) > 1:
            line.step(1, f"alpha {_alpha(batch, index, position):.3g}")
    return solutions, (point, way, penalty)


def _near(previous, lam, haste):
    """Share of their thresholds at which slopes may be expected to reach them at the next penalty.

    The strong rule: a slope moves by less than the penalty did, times the `haste` of its family.
    """
    expected = 1.0 + haste - haste * previous / lam if lam > 0 else NEAR_LATER
    return float(np.clip(expected, NEAR_LATER, NEAR))


def _is_far(point, way, penalty):
    """Coroutine: whether a fit begins at zero and there are more columns than rows.

    The optimum under a small penalty is then nearly one of many, and most columns that a model has
    on the way there leave it again.
    """
    if point.coef.any() or not (way.room.counts and penalty.family.is_convex):
        return False
    return (yield from ask(Operations.count, every_column(0))).rows < len(point.coef)


def _come_near(point, way, null, under, lam):
    """Coroutine: move `point` towards its optimum by larger penalties in turn; iterations."""
    done, at = 0, NEXT * null.lam_max
    least = max(lam / NEXT, LEAST_ON_THE_WAY * null.lam_max)
    while at > least:
        if way.options.verbose > 1:
            print(f"  by way of {at / null.lam_max:.3g} of the largest penalty")
        goal = null.goal(under(at), 0.0)
        point.objective = goal.penalty.value(point.coef) - point.loglik
        enough = LEFT_ON_THE_WAY * _largest(goal.violation(point))
        goal = replace(goal, tolerance=enough)
        done += len((yield from descend(point, goal, way, ITERATIONS_ON_THE_WAY))) - 1
        if point.partial:
            yield from point.take_gradient()
        at *= NEXT
    return done


def _largest(violation):
    return float(violation.max(initial=0.0))


def _line(fits, index):
    """Line about a fit by itself; others, and those of which all is told, have one a penalty."""
    batch = fits.batch
    is_shown = is_wanted(fits.options.verbose) if batch.n_fits == 1 else False
    if len(batch.lambdas) > 1:
        return Line("path", len(batch.lambdas), "penalties", is_shown)
    return Line(f"alpha {_alpha(batch, index, 0):.6g}", unit="iterations", is_shown=is_shown)


def _announce(batch, index, position):
    """Say which penalty comes next."""
    alpha, n_penalties = _alpha(batch, index, position), len(batch.lambdas)
    which = f"fit {index}, " if batch.n_fits > 1 else ""
    print(f"{which}alpha {alpha:.6g} ({position + 1} of {n_penalties})")


def _alpha(batch, index, position):
    """A penalty as users give it."""
    return batch.lambdas[position, index] / (1.0 if batch.total is None else batch.total[index])


def _begin(fits, index, penalty, factor):
    """Coroutine: point, way and null model of a fit at its start, after the latter was found."""
    fixed, start = penalty.fixed, _start(fits.batch, index, penalty)
    point, way = yield from _open(np.where(fixed, start, 0.0), fits)
    null = yield from find_null(point, way, penalty, factor)
    start = np.where(fixed | (null.noise > 0), start, 0.0)  # nothing would move the others
    if fits.batch.coef is not None and np.any(point.coef != start):
        yield from point.go_to(start)
        way.model = None
    return point, way, null


def _begin_with_null(fits, index, penalty, factor):
    """Begin a fit with the null model of a fit like it, and perhaps its quadratic model."""
    batch, null = fits.batch, fits.batch.null_of(index)
    point, way = yield from _open(_start(batch, index, penalty), fits)
    still = penalty.fixed
    if np.any(point.gradient == 0.0):  # perhaps of columns without a row in this fit: no effect
        unseen = ~still & ((yield from ask(Operations.rounding)) == 0)
        still = still | unseen
        if np.any(point.coef[unseen]):
            yield from point.go_to(np.where(unseen, 0.0, point.coef))
    if batch.loan is not None:
        way.borrow(batch.loan, batch.share_of(index), still)
    return point, way, null


def _start(batch, index, penalty):
    start = _column(batch.coef, index, np.zeros(len(penalty.fixed))).astype(np.float64)
    return np.where(penalty.fixed, start, penalty.family.clip(start))


def _open(coef, fits):
    """Coroutine: point and way at coefficients."""
    point = Point(coef)
    yield from point.go_to(coef)
    return point, Way((yield from ask(Operations.room)), fits.options, fits.batch.reach)


def find_null_of(fits, index):
    """Coroutine: null model of a fit."""
    fixed, factor = _by_column(fits, index)
    penalty = fits.batch.penalty.at(1.0, factor, fixed)
    *_, null = yield from _begin(fits, index, penalty, factor)
    return null


def fit_and_lend(fits, n_borrowers):
    """Coroutine: solutions of the first fit, and a loan of its model if that serves others."""
    solutions, (point, way, penalty) = yield from fit(fits, 0)
    if fits.options.algorithm != "majorized":
        return solutions, None
    return solutions, (yield from way.lend(point, penalty, n_borrowers))


def _by_column(fits, index):
    """Which columns are held, and penalty factors."""
    batch, n_columns = fits.batch, fits.problem.n_columns
    fixed = _column(batch.fixed, index, np.zeros(n_columns, bool))
    return fixed, _column(batch.factor, index, np.ones(n_columns))


def _column(values, index, default):
    return default if values is None else of_fit(values, index)
