"""Fits from a start to a certificate, by one of two schedules.

A fit is a *coroutine*: plain sequential code that asks for operations on rows and columns
(`backends.contract`) and is sent their results.  It never sees a row, and this folder knows neither
likelihood nor backend nor penalty.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .._progress import Line, is_wanted
from ..backends.contract import Counts, Operations, Room, ask
from . import costs
from .choose import FEWEST, NEAR, NEAR_LATER, borrow, lend
from .descend import descend
from .exact import descend_exactly
from .line_search import require_finite
from .models import Model
from .null import Null, descend_by, find_null
from .secants import Secants

SCHEDULES = {"majorized": descend, "exact": descend_exactly}


@dataclass
class Fit:
    """The moving state of one fit; the rows belong to the backend's session."""

    coef: np.ndarray
    loglik: float
    gradient: np.ndarray
    null_loglik: float  # the log-likelihood of the null model
    unit: np.ndarray  # of the gradient's violations, see `null.Null.unit`
    noise: np.ndarray  # rounding error of the gradient
    reach: np.ndarray | None = None  # longest first step of the exact algorithm
    objective: float = np.inf
    model: Model | None = None  # the quadratic model in use
    most_columns: int = 0  # ... that it may have as a matrix
    room: Room | None = None
    level: int = 0  # of its bases, where these are not counted
    counts: Counts | None = None  # the last that were asked for
    counted: int = 0  # ... of so many columns
    near: float = NEAR  # share of its threshold above which a slope is worked on, in a cheap matrix
    chosen: int = FEWEST  # columns that are enough to go on with
    secants: Secants = field(default_factory=Secants)
    partial: bool = False  # whether only the gradient of the model's columns is current
    shortened: bool = False  # whether the predictor was interpolated, and so carries rounding
    penalties_left: int = 0  # after the one at hand
    verbose: int = 0
    line: Line | None = None  # of one fit

    def violation(self, penalty):
        """Violation of stationarity of every column, in its unit; 0 where that is rounding."""
        violation = penalty.violation(self.coef, self.gradient)
        violation[violation <= self.noise] = 0.0
        return violation / self.unit

    @property
    def magnitude(self):
        """Size of the null model's log-likelihood, the unit of rounding errors."""
        return abs(self.null_loglik)

    @property
    def has_matrix(self):
        """Whether the quadratic model is a matrix."""
        return self.model is not None and self.model.is_matrix

    def report(self, iteration, residual):
        """Print the state of an iteration where that is wanted."""
        if self.line is not None:
            self.line.step(int(iteration > 0), f"KKT {residual:.3g}")
        if self.verbose > 1:
            n_active = np.count_nonzero(self.coef)
            print(
                f"  {iteration:5d}  objective {self.objective:.10g}  KKT {residual:.3g}  "
                f"{n_active:,} nonzero{'  (matrix)' if self.has_matrix else ''}"
            )


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
    """Coroutine of one fit of a batch: its penalties in order; returns the list of solutions."""
    solutions, _ = yield from _fit(fits, index)
    return solutions


def _fit(fits, index):
    """The solutions, and the state at the last one, with its penalty."""
    with _line(fits, index) as line:
        return (yield from _fit_in_turn(fits, index, line))


def _fit_in_turn(fits, index, line):
    batch, options, (fixed, factor) = fits.batch, fits.options, _by_column(fits, index)
    lambdas = batch.lambdas[:, index]
    family = batch.family(index)
    penalties = [family.at(lam, factor, fixed) for lam in lambdas]
    begin = _begin if batch.null is None else _begin_with_null
    state, null = yield from begin(fits, index, penalties[0], factor)
    bound = yield from ask(Operations.largest_loglik)
    state.line = line if len(lambdas) == 1 else None
    solutions = []
    for position, (lam, penalty) in enumerate(zip(lambdas, penalties, strict=True)):
        state.penalties_left = len(lambdas) - 1 - position
        state.near = _near(lambdas[max(position - 1, 0)], lam, family.haste)
        state.objective = penalty.value(state.coef) - state.loglik
        if options.verbose and not line.is_shown:
            _announce(batch, index, position)
        trace, allowed, deviation = yield from descend_by(
            SCHEDULES[options.algorithm], state, null, penalty, options
        )
        violation, is_free = state.violation(penalty), factor * lam == 0
        error = deviation if deviation > 0 else 1.0
        solutions.append(
            Solution(
                coef=state.coef.copy(),
                loglik=state.loglik,
                objective=state.objective,
                kkt=_largest(violation * state.unit / null.plain_unit(factor, is_free)),
                score=_largest(violation * state.unit / null.root) / error,
                allowed=allowed / error,
                deviation=deviation,
                gap=penalty.gap(state.coef, state.gradient, state.loglik, bound),
                n_iter=len(trace) - 1,
                converged=_largest(violation) <= allowed,
                lam=float(lam),
                lam_max=null.lam_max,
                null=null,
                baseline=(yield from ask(Operations.baseline)) if options.baseline else None,
                objectives=tuple(trace),
            )
        )
        if len(lambdas) > 1:
            line.step(1, f"alpha {_alpha(batch, index, position):.3g}")
    return solutions, (state, penalty)


def _near(previous, lam, haste):
    """Share of their thresholds at which slopes may be expected to reach them at the next penalty.

    The strong rule: a slope moves by less than the penalty did, times the `haste` of its family.
    """
    expected = 1.0 + haste - haste * previous / lam if lam > 0 else NEAR_LATER
    return float(np.clip(expected, NEAR_LATER, NEAR))


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
    """State at the start of a fit, after its null model was found."""
    fixed, start = penalty.fixed, _start(fits.batch, index, penalty)
    state = yield from _open(np.where(fixed, start, 0.0), fits)
    state.noise = yield from ask(Operations.rounding)
    null = yield from find_null(state, penalty, factor, fits.options)
    start = np.where(fixed | (state.noise > 0), start, 0.0)  # nothing would move the others
    if fits.batch.coef is not None and np.any(state.coef != start):
        yield from _move(state, start)
        state.model = None
    return state, null


def _begin_with_null(fits, index, penalty, factor):
    """The same with the null model of a fit like it, and perhaps its quadratic model."""
    batch = fits.batch
    share = 1.0 if batch.share is None else float(batch.share[index])
    null = batch.null[index if len(batch.null) > 1 else 0].of_share(share)
    state = yield from _open(_start(batch, index, penalty), fits)
    still = penalty.fixed
    if np.any(state.gradient == 0.0):  # perhaps of columns without a row in this fit: no effect
        unseen = ~still & ((yield from ask(Operations.rounding)) == 0)
        still = still | unseen
        if np.any(state.coef[unseen]):
            yield from _move(state, np.where(unseen, 0.0, state.coef))
    state.noise, state.null_loglik = null.noise, null.loglik
    if batch.loan is not None:
        borrow(state, batch.loan, share, still)
    return state, null


def _start(batch, index, penalty):
    start = np.array(_column(batch.coef, index, np.zeros(len(penalty.fixed))), dtype=np.float64)
    return np.where(penalty.fixed, start, penalty.family.clip(start))


def _open(coef, fits):
    """State at coefficients."""
    loglik = yield from ask(Operations.start, coef)
    require_finite(loglik)
    gradient = yield from ask(Operations.gradient, np.arange(len(coef)))
    room = yield from ask(Operations.room)
    nothing, ones = np.zeros(len(coef)), np.ones(len(coef))
    measures = {"unit": ones, "noise": nothing, "reach": fits.batch.reach}
    measures |= {"most_columns": costs.most_columns(room), "room": room}
    measures["secants"] = Secants(far=room.whole_gradients)
    return Fit(coef, loglik, gradient, loglik, verbose=fits.options.verbose, **measures)


def _move(state, coef):
    """Move to other coefficients."""
    state.coef = coef
    state.loglik = yield from ask(Operations.start, coef)
    require_finite(state.loglik)
    state.gradient = yield from ask(Operations.gradient, np.arange(len(coef)))


def find_null_of(fits, index):
    """Coroutine: null model of a fit."""
    fixed, factor = _by_column(fits, index)
    penalty = fits.batch.penalty.at(1.0, factor, fixed)
    _, null = yield from _begin(fits, index, penalty, factor)
    return null


def fit_and_lend(fits, n_borrowers):
    """Coroutine: solutions of the first fit, and a loan of its model if that serves others."""
    solutions, (state, penalty) = yield from _fit(fits, 0)
    if fits.options.algorithm != "majorized":
        return solutions, None
    return solutions, (yield from lend(state, penalty, n_borrowers))


def _by_column(fits, index):
    """Which columns are held, and penalty factors."""
    batch, n_columns = fits.batch, fits.problem.n_columns
    fixed = _column(batch.fixed, index, np.zeros(n_columns, bool))
    return fixed, _column(batch.factor, index, np.ones(n_columns))


def _column(values, index, default):
    if values is None:
        return default
    return values if values.ndim == 1 else values[:, index if values.shape[1] > 1 else 0]
