"""Checked input of fits: what a fit, a path, a cross-validation or a bootstrap starts from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, ClassVar

import numpy as np

from .._threads import usable_cpus
from ..data.outcomes.checksum import checksum
from ..penalties import Given, PenaltySpec
from ..routes import Route
from ..solver.fits import Fits, Options
from ..solver.null import Null
from ..solver.problem import Loan
from ..solver.solve import Solution
from ._relaxed import relax
from ._separation import find_directions, find_undetermined, is_determined
from .fitted import Setting

# Effect of a column over its range that infinite coefficients reach before a fit has converged:
# what pulls them falls with the exponential.
HUGE = 7.0


def count_threads(n_jobs: int | None) -> int:
    """Threads of a fit: None what Numba would use, -1 all cores, -2 all but one, and so on."""
    if n_jobs is None:
        # joblib sets NUMBA_NUM_THREADS in its workers, so that nested fits do not pile up.
        from numba import config

        return int(config.NUMBA_NUM_THREADS)
    if n_jobs == 0:
        raise ValueError("`n_jobs` is 0; pass None, a number of threads, or -1 for all cores.")
    if n_jobs > 0:
        return int(n_jobs)
    return max(1, usable_cpus() + 1 + int(n_jobs))


def options_of(estimator) -> Options:
    """How an estimator has its fits solved."""
    tol, max_iter = float(estimator.tol), int(estimator.max_iter)
    return Options(tol, max_iter, estimator.algorithm, int(estimator.verbose))


def start_of(estimator, n_coef):
    """Coefficients of the fit before, where they are wanted and as many."""
    before = getattr(estimator, "coef_", None)
    if not estimator.warm_start or before is None or len(before) != n_coef:
        return None
    return before[:, None]


def sizes_of_rows(outcome, batch) -> tuple[float, float]:
    """Sum of the weights of rows, and of those of their events."""
    weight = np.ones(outcome.n_rows) if batch.weight is None else batch.weight[:, 0]
    return float(weight.sum()), float((weight * outcome.n_events).sum())


@dataclass(frozen=True)
class Prepared:
    """Checked input of a fit: what all of its fits share.

    Those have no penalties yet.
    """

    fits: Fits
    outcome: Any  # of the rows as the caller has them
    setting: Setting  # what predictions need beside a solution
    given: Given  # by column
    route: Route  # how fits are carried out
    plain_route: Route  # ... without a penalty
    gamma: float | None = None  # share of the penalized fit, where fits are relaxed
    null: Null | None = None  # the null model, where the penalty needs it

    in_partitions = False  # whether rows are, see `_partitioned`
    problem: ClassVar = property(attrgetter("fits.problem"))
    batch: ClassVar = property(attrgetter("fits.batch"))
    backend: ClassVar = property(attrgetter("fits.backend"))
    options: ClassVar = property(attrgetter("fits.options"))

    def with_batch(self, **changes) -> Prepared:
        """Copy with other fields of the batch."""
        return replace(self, fits=self.fits.with_batch(**changes))

    def with_options(self, **changes) -> Prepared:
        """Copy with other options."""
        return replace(self, fits=self.fits.with_options(**changes))

    def close(self) -> None:
        """Let go of rows in partitions."""

    @property
    def fingerprint(self) -> int:
        """Checksum of all that a fit was given beside its columns.

        Fits whose checksums differ cannot be compared.
        """
        return checksum(self.outcome, self.batch.weight, self.batch.offset)

    @property
    def sizes(self) -> tuple[float, float]:
        """Sums of the sample weights, and of the weights of events."""
        return sizes_of_rows(self.outcome, self.batch)

    def costs(self) -> dict[str, Any]:
        """Fitted attributes that say what was asked of rows in partitions."""
        return {}

    def doubts_of(self, solution) -> list[str]:
        """Warnings about a solution that only this kind of preparation can give."""
        return []

    @cached_property
    def total_weight(self) -> float:
        """Sum of the sample weights."""
        return float(self.weight.sum())

    @property
    def n_weighted(self) -> int:
        """Number of rows of positive weight."""
        return int(np.count_nonzero(self.weight))

    @property
    def weight(self) -> np.ndarray:
        """Weight of every row, as the caller has them."""
        weight = self.batch.weight
        return np.ones(self.problem.given.n_rows) if weight is None else weight[:, 0]

    def find_infinite(self, is_free, coef=None) -> np.ndarray:
        """Coefficients without a finite estimate, where `is_free` have no penalty.

        `coef` is a point near the optimum, if one is known: it may prove that there are none.
        """
        return self.find_directions(is_free, coef)[0]

    def find_directions(self, is_free, coef=None) -> tuple[np.ndarray, int]:
        """Which free coefficients are infinite, and how many directions change nothing."""
        is_free = is_free & ~self.batch.penalty.is_bounded(self.problem.n_columns)
        point = None if coef is None else (self.batch.rows(0)[1], coef)
        return find_directions(self.problem, self.weight, is_free, point)

    def find_undetermined(self, is_free, weight) -> np.ndarray:
        """Coefficients that rows of some weights do not determine, where these have no penalty."""
        return find_undetermined(self.problem, weight, is_free & self._is_open())

    def is_determined(self, is_free, weight) -> bool:
        """Whether there are no such coefficients."""
        return is_determined(self.problem, weight, is_free & self._is_open())

    def _is_open(self):
        return ~self.unpenalized().batch.penalty.is_bounded(self.problem.n_columns)

    def unpenalized(self) -> Prepared:
        """Copy without a penalty, and not relaxed."""
        nothing = np.zeros(self.problem.n_columns)
        free = self.with_batch(penalty=PenaltySpec().family(self.given), factor=nothing)
        return replace(free, route=self.plain_route, gamma=None)

    def find_unheld(self, solution) -> np.ndarray:
        """Which coefficients that their penalty has let go, as beyond the end of MCP, are infinite.

        It takes longer than most fits, and is asked only where a coefficient's effect is huge.
        """
        nothing, family = np.zeros(self.problem.n_columns, bool), self.batch.penalty
        if family.is_convex:
            return nothing
        scale, family = self.route.scale(self.problem), family.of_total(self.total_weight)
        penalty = family.in_units(scale).at(solution.lam, self.batch.factor, nothing)
        coef = solution.coef - self.route.rest(self.problem)
        is_free = penalty.has_let_go(coef * scale) | (self.batch.factor * solution.lam == 0)
        span, source = self.problem.given.span, self.problem.source
        huge = (abs(coef[j]) * span(source[j]) > HUGE for j in np.flatnonzero(is_free))
        if not any(huge):
            return nothing
        key = is_free.tobytes()
        if key not in self._found_unheld:  # smaller penalties on a path often let go of no more
            self._found_unheld[key] = self.find_infinite(is_free, solution.coef)
        return self._found_unheld[key]

    @cached_property
    def _found_unheld(self) -> dict[bytes, np.ndarray]:
        return {}

    def describe(self) -> dict[str, Any]:
        """Data that fits depend on, beside parameters, by the names that users know."""
        return {
            "X": self.problem.given,
            "y": self.outcome,
            "sample_weight": self.batch.weight,
            "offset": self.batch.offset,
            "backend": self.setting.backend[0],
        }

    def solve(self, alphas, *, total=None, on_fit=None, **changes) -> list[list[Solution]]:
        """Fit at penalties on the mean scale, (n_alphas,) or (n_alphas, n_fits).

        `changes` replaces fields of the batch; `total` is the sum of the weights of each fit,
        where these are replaced.
        """
        fits = self.route.solve(self._fits_at(alphas, total, changes), on_fit)
        fits = [list(map(self._uncentred, solutions)) for solutions in fits]
        weight = changes.get("weight", self.batch.weight)
        return fits if self.gamma is None else relax(self, fits, self.gamma, weight)

    def checked_by(self, penalty: PenaltySpec) -> Prepared:
        """Input that a penalty is for, which knows the null model where the penalty needs it."""
        penalty.check(self)
        return self.with_null() if self.batch.penalty.needs_null else self

    def with_null(self) -> Prepared:
        """Input whose penalty knows the null model of all rows."""
        of_total = self.batch.penalty.of_total(self.total_weight)
        null = self.with_batch(penalty=of_total).null_model()
        known = self.with_batch(penalty=of_total.at_null(null.root**2))
        return replace(known, null=null)

    def null_model(self):
        """The fit without penalized columns, and its measures, as `solver.null.Null`."""
        if self.null is not None:
            return self.null
        quiet = self.fits.with_options(verbose=0)
        return self.route.null_model(quiet.with_batch(total=np.array([self.total_weight])))

    def null_log_likelihood(self, solution) -> float:
        """Log-likelihood without coefficients; a solution knows it unless they rest elsewhere."""
        rest = self.route.rest(self.problem)
        if not rest.any():
            return solution.null.loglik
        [loglik] = self.fits.log_likelihoods(np.zeros((len(rest), 1)))
        return float(loglik)

    def solve_and_lend(self, alpha, n_borrowers, **changes) -> tuple[Solution, Loan | None]:
        """Fit at one penalty; also its quadratic model, where that will serve other fits."""
        one = self._fits_at([alpha], None, changes)
        solutions, loan = self.route.solve_and_lend(one, n_borrowers)
        fits = [[self._uncentred(solutions[0])]]
        if self.gamma is not None:
            fits = relax(self, fits, self.gamma, self.batch.weight)
        return fits[0][0], loan

    def _uncentred(self, solution):
        """The solution with its baseline for columns as they were given."""
        baseline = self.problem.baseline_of(solution.baseline, solution.coef)
        return replace(solution, baseline=baseline)

    def _fits_at(self, alphas, total, changes):
        alphas = np.asarray(alphas, dtype=np.float64)
        total = np.atleast_1d(self.total_weight if total is None else total)
        lambdas = alphas.reshape(len(alphas), -1) * total
        total = np.broadcast_to(total, lambdas.shape[1])
        return self.fits.with_batch(lambdas=lambdas, total=total, **changes)
