"""The schedule: proximal Newton with coordinate sweeps, from a start to a certificate.

A fit is a *coroutine*: plain sequential code that yields the operations it needs on rows and
columns, ``(name, *arguments)``, and is sent their results.  It never sees a row.  On the CPU each
request runs at once, a thread a fit; a backend that gains from it may collect the requests of many
fits and serve them in one launch.  This file therefore knows neither likelihood nor backend.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .exact import descend_exactly
from .extrapolate import Anderson
from .line_search import require_finite
from .majorized import borrow, descend, lend
from .penalty import Penalty
from .problem import Loan

SCHEDULES = {"majorized": descend, "exact": descend_exactly}
LARGEST_PENALTY = 1e150
RIDGE_PATH_RATIO = 1e-3  # alpha_max of a pure ridge is infinite; glmnet's convention instead


@dataclass(frozen=True)
class Options:
    """How to solve: `tol` bounds the KKT residual relative to the null model's largest gradient."""

    tol: float = 1e-6
    max_iter: int = 1000
    algorithm: str = "majorized"
    verbose: int = 0
    baseline: bool = True  # whether solutions keep their baseline, one number a cell


@dataclass
class Fit:
    """The moving state of one fit; the rows belong to the backend's session."""

    coef: np.ndarray
    loglik: float
    gradient: np.ndarray
    magnitude: float  # of the null model's log-likelihood, the unit of rounding errors
    unit: np.ndarray  # of the gradient's violations: penalty factors; deviations if unpenalized
    noise: np.ndarray  # rounding error of the gradient
    objective: float = np.inf
    reference: np.ndarray | None = None  # columns of the quadratic model in use
    curvature: np.ndarray | None = None  # ... their curvature in it
    in_gram: bool = False  # whether that model is a matrix
    borrowed: bool = False  # ... and another fit's
    extrapolation: Anderson = field(default_factory=Anderson)
    partial: bool = False  # whether only the gradient of the reference columns is current
    shortened: bool = False  # whether the predictor was interpolated, and so carries rounding
    passes: float = 0.0  # of the last sweep, over all its columns
    penalties_left: int = 0  # after the one at hand
    verbose: int = 0

    def violation(self, penalty):
        """Violation of stationarity of every column, in its unit; 0 where that is rounding."""
        violation = penalty.violation(self.coef, self.gradient)
        violation[violation <= self.noise] = 0.0
        return violation / self.unit

    def report(self, iteration, residual):
        """Print the state of an iteration where that is wanted."""
        if self.verbose > 1:
            n_active = np.count_nonzero(self.coef)
            print(
                f"  {iteration:5d}  objective {self.objective:.10g}  KKT {residual:.3g}  "
                f"{n_active:,} nonzero{'  (Gram)' if self.in_gram else ''}"
            )


@dataclass(frozen=True)
class Solution:
    """One fit at one penalty; `kkt` is recomputed from scratch at the reported coefficients."""

    coef: np.ndarray
    loglik: float
    objective: float
    kkt: float
    gap: float  # bound of objective - optimum; nan where it does not apply
    n_iter: int
    converged: bool
    lam: float
    lam_max: float
    scale: float  # largest gradient of the null model, the unit of `Options.tol`
    baseline: object = None
    objectives: tuple = ()  # after every outer iteration


def fit(batch, index, n_columns, options):
    """Coroutine of one fit of a batch: its penalties in order; returns the list of solutions."""
    solutions, _ = yield from _fit(batch, index, n_columns, options)
    return solutions


def _fit(batch, index, n_columns, options):
    """The solutions, and the state at the last one, with its penalty and scale."""
    fixed = _column(batch.fixed, index, np.zeros(n_columns, bool))
    factor = _column(batch.factor, index, np.ones(n_columns))
    start = np.array(_column(batch.coef, index, np.zeros(n_columns)), dtype=np.float64)
    lambdas = batch.lambdas[:, index]
    if batch.loan is None:
        state, scale, lam_max = yield from _begin(batch, index, start, fixed, factor, options)
    else:
        share = 1.0 if batch.share is None else float(batch.share[index])
        state, scale, lam_max = yield from _begin_with(batch.loan, share, start, fixed, options)
    bound = yield ("largest_loglik",)
    solutions = []
    schedule = SCHEDULES[options.algorithm]
    for position, lam in enumerate(lambdas):
        state.penalties_left = len(lambdas) - 1 - position
        penalty = Penalty.of(lam, batch.l1_ratio, factor, fixed)
        state.objective = penalty.value(state.coef) - state.loglik
        if options.verbose:
            print(f"fit {index}, penalty {lam:.6g} ({position + 1} of {len(lambdas)})")
        trace = yield from schedule(state, penalty, scale * options.tol, options.max_iter)
        kkt = float(state.violation(penalty).max(initial=0.0))
        solutions.append(
            Solution(
                coef=state.coef.copy(),
                loglik=state.loglik,
                objective=state.objective,
                kkt=kkt,
                gap=penalty.gap(state.coef, state.gradient, state.loglik, bound),
                n_iter=len(trace) - 1,
                converged=kkt <= options.tol * scale,
                lam=float(lam),
                lam_max=lam_max,
                scale=scale,
                baseline=(yield ("baseline",)) if options.baseline else None,
                objectives=tuple(trace),
            )
        )
    return solutions, (state, penalty, scale)


def _begin(batch, index, start, fixed, factor, options):
    """State at the start of a fit, the scale of its null model and the least empty penalty."""
    penalties = factor * batch.lambdas[:, index].max(initial=0.0)
    state = yield from _null_point(start, fixed, penalties, factor, options)
    if batch.scale is None:
        scale, lam_max = yield from _null_model(state, fixed, factor, batch.l1_ratio, options)
    else:
        scale, lam_max = float(batch.scale[index]), np.nan
    start = np.where(fixed | (state.noise > 0), start, 0.0)  # nothing would move the others
    if batch.coef is not None and np.any(state.coef != start):
        state.coef = start
        state.loglik = yield ("start", start)
        require_finite(state.loglik)
        state.gradient = yield ("gradient", np.arange(len(start)))
    return state, scale, lam_max


def _begin_with(loan, share, start, fixed, options):
    """The same with another fit's model and null model."""
    loglik = yield ("start", start)
    require_finite(loglik)
    gradient = yield ("gradient", np.arange(len(start)))
    still = fixed
    if np.any(gradient == 0.0):  # perhaps of columns without a row in this fit: their effect is 0
        unseen = ~fixed & ((yield ("rounding",)) == 0)
        start, still = np.where(unseen, 0.0, start), fixed | unseen
        loglik = yield ("start", start)
    noise = share * loan.noise
    state = Fit(start, loglik, gradient, loan.magnitude, loan.unit, noise, verbose=options.verbose)
    yield from borrow(state, loan, share, still)
    return state, loan.scale * share, np.nan


def fit_and_lend(batch, n_columns, options, n_borrowers):
    """Coroutine: solutions of the first fit, and a loan of its model if that serves others."""
    solutions, (state, penalty, scale) = yield from _fit(batch, 0, n_columns, options)
    if options.algorithm != "majorized":
        return solutions, None
    columns, matrix = yield from lend(state, penalty, n_borrowers)
    if matrix is None:
        return solutions, None
    return solutions, Loan(columns, matrix, state.unit, state.noise, state.magnitude, scale)


def _null_point(start, fixed, penalties, factor, options):
    """State with every free coefficient at zero, and the units of its gradient."""
    null = np.where(fixed, start, 0.0)
    loglik = yield ("start", null)
    require_finite(loglik)
    gradient = yield ("gradient", np.arange(len(null)))
    noise = yield ("rounding",)
    unit = np.where(fixed | (penalties == 0), 1.0, factor)
    unpenalized = np.flatnonzero(~fixed & (penalties == 0))
    if len(unpenalized):
        units = yield ("units", unpenalized)
        unit[unpenalized] = np.where(units > 0, units, 1.0)
    return Fit(null, loglik, gradient, abs(loglik), unit, noise, verbose=options.verbose)


def _null_model(state, fixed, factor, l1_ratio, options):
    """Move the state to the null model; the scale of its gradient, and lambda_max.

    Unpenalized columns are fitted in it, fixed columns stay at their start.
    """
    nothing = np.zeros(len(fixed))
    penalized = ~fixed & (factor > 0)
    scale = float(state.violation(Penalty(nothing, nothing, fixed)).max(initial=0.0))
    if not penalized.any():
        return scale, 0.0
    if not penalized[~fixed].all():
        free = Penalty(nothing, nothing, fixed | penalized)
        state.objective = -state.loglik
        yield from descend(state, free, scale * options.tol, options.max_iter)
        # unpenalized columns that explain everything leave no gradient to measure by
        slope = float(state.violation(Penalty(nothing, nothing, ~penalized)).max())
        scale = max(slope, 1e-3 * scale)
    slope = np.where(np.abs(state.gradient) > state.noise, np.abs(state.gradient), 0.0)
    lam_max = float((slope[penalized] / factor[penalized]).max())
    return scale, lam_max / max(l1_ratio, RIDGE_PATH_RATIO)


def _column(values, index, default):
    if values is None:
        return default
    return values if values.ndim == 1 else values[:, index if values.shape[1] > 1 else 0]


def solve(problem, batch, backend, options=None, n_threads=1, on_fit=None):
    """Fit a batch: a list, per fit, of one `Solution` for each of its penalties.

    `on_fit` is called with the position of every fit that is done, in the thread that did it.
    """
    options = Options() if options is None else options
    _check_penalties(batch)

    def report(b):
        solutions = yield from fit(batch, b, problem.n_columns, options)
        if on_fit is not None:
            on_fit(b)
        return solutions

    return backend.run(problem, batch, [report(b) for b in range(batch.n_fits)], n_threads)


def solve_and_lend(problem, batch, backend, options, n_threads, n_borrowers):
    """Solutions of the first fit of a batch, and a `Loan` for fits like it, or None."""
    _check_penalties(batch)
    leader = fit_and_lend(batch, problem.n_columns, options, n_borrowers)
    return backend.run(problem, batch, [leader], n_threads)[0]


def _check_penalties(batch):
    factor = 1.0 if batch.factor is None else float(batch.factor.max(initial=0.0))
    largest = float(batch.lambdas.max(initial=0.0)) * factor  # Python's product does not warn
    if not largest <= LARGEST_PENALTY:
        raise ValueError(
            f"the penalty of a column is {largest:.3g} on the sum scale, more than a fit can "
            "compute with; make `alpha` or `penalty_factor` smaller."
        )


def log_likelihoods(problem, batch, coefs, backend, n_threads=1):
    """Log-likelihood of every fit of a batch at given coefficients, (n_columns, n_fits).

    Not finite where it cannot be computed.
    """

    def evaluate(coef):
        return (yield "start", coef)

    coroutines = [evaluate(np.ascontiguousarray(coef)) for coef in coefs.T]
    return np.array(backend.run(problem, batch, coroutines, n_threads))


def curvatures(problem, batch, coef, columns, backend, n_threads=1):
    """Curvature of minus the log-likelihood along each of some columns, the others held."""

    def evaluate():
        require_finite((yield "start", coef))
        return (yield "refer", columns, False)

    return backend.run(problem, batch, [evaluate()], n_threads)[0]
