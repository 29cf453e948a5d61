"""Fits in which coefficients are held: the points of profile likelihoods, in batches.

The column of interest is freed of its penalty, the others keep theirs. All points of all columns
are fits of one batch, round by round (see `curve` for where), which borrow the quadratic model of
the fit in which all are free. A round of the search for bounds has at most two fits a column.

With the penalty p of the other coefficients theta, a profile is the largest value q(b) of
l(b, theta) - p(theta) given b, and dq/db is the likelihood's own slope along b at that theta. The
log-likelihood alone, l(b, theta(b)), is q + p(theta(b)). Where theta moves smoothly with b,
(I_tt + p'') dtheta/db = -I_tb, I the information, so that its slope has -p' (I_tt + p'')^-1 I_tb
on top.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy import stats

from ..backends.cpu.session import Session
from ..backends.cpu.threads import Threads
from ..estimators.models.base import model_of
from ..information.rows import FittedRows
from ..information.views import view_of
from ..selection.progress import Progress
from .curve import Bound, ProfileCurve

# An objective is off by about half the squared score in standard errors: that of `tol` 1e-8, at
# most 1e-6, is far below 1e-5 of a quantile. A fit that stalls before, at the accuracy of floating
# point, is good enough up to the second one.
TIGHTEST, GOOD_ENOUGH = 1e-8, 1e-6
WIDER = 0.25  # the curve's reach beyond its bounds, in widths of the interval


@dataclass(frozen=True)
class Points:
    """Points that a curve shows, in the order of their values."""

    value: np.ndarray
    ratio: np.ndarray
    loglik: np.ndarray
    slope: np.ndarray | None
    at_origin: float  # log-likelihood of the fit in which the coefficient was free


@dataclass(frozen=True)
class Wanted:
    """Request for points of curves: which, and with what."""

    grid: Any
    with_slopes: bool
    with_penalty: bool

    def points_of(self, profile) -> Points:
        """The points of a curve that are shown."""
        value, unit = np.sort(self.grid.shown(profile)), profile.curve.dispersion
        return Points(
            value,
            profile.curve.ratios()[profile.positions(value)],
            profile.heights(value) / unit,
            profile.slopes_at(value) / unit if self.with_slopes else None,
            profile.logliks[0] / unit,
        )


@dataclass
class Profile:
    """One coefficient: the curve, the fits at its points, and how it is judged."""

    column: int
    curve: ProfileCurve
    coefs: list
    logliks: list  # penalized or not, as is wanted
    law: Any  # of the root of the statistic: normal or Student's t
    bounds: tuple = ()
    slopes: dict[float, float] = field(default_factory=dict)
    points: Points | None = None  # of the curve that is wanted

    def positions(self, values):
        """Where values are among the points."""
        at = {value: position for position, value in enumerate(self.curve.values)}
        return np.array([at[value] for value in values], dtype=np.int64)

    def start_at(self, value):
        """Coefficients to start from at a value: on the line through its two nearest points.

        They move smoothly along the curve, but for those that become zero, or are no longer; not
        far beyond the points, where the line may be anywhere.
        """
        values = np.array(self.curve.values)
        first, *others = np.argsort(np.abs(values - value), kind="stable")[:2]
        start = self.coefs[first].copy()
        for second in others:
            share = max(-1.0, (value - values[first]) / (values[second] - values[first]))
            start += np.where(start == 0.0, 0.0, share * (self.coefs[second] - start))
        start[self.column] = value
        return start

    def heights(self, values):
        """Log-likelihoods at some of the points."""
        return np.array(self.logliks)[self.positions(values)]

    def slopes_at(self, values):
        """Slopes of the log-likelihood at some of the points."""
        return np.array([self.slopes[value] for value in values])

    def missing(self, values):
        """Values that are not among the points."""
        known = set(self.curve.values)
        return [value for value in np.asarray(values).tolist() if value not in known]

    def threshold(self, level):
        return float(self.law.ppf(0.5 + 0.5 * level))

    def p_value(self):
        at_zero = self.curve.ratios()[self.curve.values.index(0.0)]
        return float(2.0 * self.law.sf(np.sqrt(at_zero)))

    def grid(self, n_points):
        """Values of the curve that were asked for."""
        lower, upper = (bound.value for bound in self.bounds)
        centre = self.curve.origin
        if not np.isfinite(lower):
            lower = 2.0 * centre - upper
        if not np.isfinite(upper):
            upper = 2.0 * centre - lower
        if not n_points or not np.isfinite([lower, upper]).all():
            return np.empty(0)
        more = WIDER * (upper - lower)
        return np.linspace(lower - more, upper + more, n_points)


class Profiler:
    """Fits with a coefficient held, in batches."""

    def __init__(self, model, prepared, wanted, n_fits):
        self._wanted = wanted
        self._progress, verbose = Progress(model), max(int(model.verbose) - 1, 0)
        tol = min(prepared.options.tol, TIGHTEST)
        self._model = model
        self._prepared = prepared.with_options(tol=tol, baseline=False, verbose=verbose)
        self._problem, self._factor = prepared.problem, prepared.batch.factor
        self.n_fits = self.n_failed = 0
        with self._progress.batch("fit of all columns", 1) as done:
            # its quadratic model serves all points, which are near it
            self._full, self._loan = self._prepared.solve_and_lend(model.alpha, n_fits)
            done(0)
        self._count([self._full])

    def end(self):
        """Report that all is done."""
        self._progress.end()

    def _count(self, solutions):
        self.n_fits += len(solutions)
        good_enough = GOOD_ENOUGH / self._prepared.options.tol
        self.n_failed += sum(s.score > good_enough * s.allowed for s in solutions)

    def _solve(self, name, columns, starts, held):
        """Fits without the penalty of one column each, which is held at its start or free."""
        fits = np.arange(len(columns))
        factor = np.repeat(self._factor[:, None], len(fits), axis=1)
        factor[columns, fits] = 0.0
        fixed = np.zeros(factor.shape, bool)
        fixed[columns, fits] = held
        with self._progress.batch(name, len(fits)) as done:
            solutions = self._prepared.solve(
                np.full((1, len(fits)), float(self._model.alpha)),
                on_fit=done,
                factor=factor,
                fixed=fixed,
                coef=np.stack(starts, axis=1),
                null=(self._full.null,),
                loan=self._loan,
            )
        solutions = [of_fit[0] for of_fit in solutions]
        self._count(solutions)
        return solutions

    def profile(self, columns, level):
        """Profiles of some coefficients, with their bounds, zero and the points of a grid."""
        profiles = [self._begin(*start) for start in zip(columns, self._free(columns), strict=True)]
        steps = self._first_steps(profiles)
        for profile, step in zip(profiles, steps, strict=True):
            root = profile.threshold(level)
            profile.bounds = tuple(
                Bound(profile.curve, sign, root, root * step) for sign in (-1, 1)
            )
        self._evaluate("at zero", [(profile, [0.0]) for profile in profiles])
        n_round, wanted = 0, self._proposed(profiles)
        while wanted:
            n_round += 1
            self._evaluate(f"round {n_round}", wanted)
            wanted = self._proposed(profiles)
        grid, is_first = self._wanted.grid, True
        while is_first or wanted:
            is_first, wanted = False, [(p, v) for p in profiles if (v := grid.next(p))]
            self._evaluate("curves", wanted)
            if self._wanted.with_slopes:
                self._add_slopes(profiles)
        for profile in profiles:
            profile.points = self._wanted.points_of(profile)
            profile.coefs.clear()
        return profiles

    def _add_slopes(self, profiles):
        """Slopes of the curves at the points that are shown, where they are not known yet."""
        shown = [(p, v) for p in profiles for v in self._wanted.grid.shown(p).tolist()]
        points = [(p, v) for p, v in shown if v not in p.slopes]
        if not points:
            return
        prepared, columns = self._prepared, [p.column for p, _ in points]
        coefs = [p.coefs[p.curve.nearest(v)] for p, v in points]
        fits = prepared.fits.with_batch(lambdas=np.zeros((1, len(points))), coef=None)
        slopes = fits.slopes(np.stack(coefs, axis=1), columns)
        for (p, v), coef, slope in zip(points, coefs, slopes, strict=True):
            alone = self._wanted.with_penalty
            p.slopes[v] = slope + (0.0 if alone else self._penalty_slope(p.column, coef))

    def _penalty_slope(self, column, coef):
        """Slope of the penalty of the other coefficients as they follow one."""
        prepared, free = self._prepared, self._factor * self._model.alpha
        free[column] = 0.0
        if not free.any():
            return 0.0
        total, nothing = prepared.total_weight, np.zeros(len(coef), bool)
        scale = prepared.route.scale(self._problem)
        family = prepared.batch.penalty.of_total(total).in_units(scale)
        penalty = family.at(total, free, nothing)
        moved = coef - prepared.route.rest(self._problem)
        pieces = penalty.pieces(moved * scale)
        smooth = pieces.left == pieces.right
        smooth[column] = False
        others = np.flatnonzero(smooth)
        if not pieces.right[others].any():
            return 0.0
        self._session.start(coef)
        information, _ = view_of(self._rows).information(np.append(others, column))
        matrix = information[:-1, :-1] + np.diag(pieces.curvature[others] * scale[others] ** 2)
        follow = np.linalg.lstsq(matrix, -information[:-1, -1], rcond=None)[0]
        return float((pieces.right * scale)[others] @ follow)

    @cached_property
    def _session(self):
        return Session(self._problem, *self._prepared.batch.rows(0), Threads(1))

    @cached_property
    def _rows(self):
        prepared = self._prepared
        return FittedRows(
            estimator=self._model,
            outcome=prepared.outcome,
            problem=self._problem,
            session=self._session,
            given_weight=None,
            batch=prepared.batch,
            route=prepared.route,
        )

    def _free(self, columns):
        """Fits in which each column is free of its penalty."""
        penalized = (self._model.alpha * self._factor)[columns] > 0
        solutions = np.full(len(columns), self._full, dtype=object)
        if penalized.any():
            starts = [self._full.coef] * int(penalized.sum())
            found = self._solve("without their penalty", columns[penalized], starts, False)
            solutions[penalized] = found
        return solutions

    def _begin(self, column, free):
        span = self._problem.given.span(self._problem.source[column])
        law, dispersion = stats.norm, 1.0
        if model_of(self._model).has_dispersion:
            n_rows = self._prepared.n_weighted
            rest = self._prepared.route.rest(self._problem)
            n_moved = np.count_nonzero(free.coef - rest)
            left = n_rows - n_moved - self._problem.has_intercept
            if left < 1:
                raise ValueError(
                    f"{n_moved:,} coefficients are not zero and "
                    f"{n_rows:,} rows have a positive weight, so nothing is left "
                    "to estimate the variance of the errors from; raise `alpha`."
                )
            law, dispersion = stats.t(left), -2.0 * free.loglik / left
            if not dispersion > 0:
                raise ValueError(
                    "the fit has no errors, so that no value of a coefficient is likelier than "
                    "another; is `y` a sum of columns of X, or constant?"
                )
        curve = ProfileCurve(free.coef[column], free.objective, span, dispersion)
        return Profile(int(column), curve, [free.coef], [self._height(free)], law)

    def _height(self, solution):
        """Log-likelihood of a fit, penalized or not, as is wanted."""
        return -solution.objective if self._wanted.with_penalty else solution.loglik

    def _first_steps(self, profiles):
        """Standard errors if the other coefficients were known, which are too small."""
        columns = np.array([profile.column for profile in profiles])
        curvature = self._prepared.fits.curvatures(self._full.coef, columns)
        dispersion = np.array([profile.curve.dispersion for profile in profiles])
        with np.errstate(divide="ignore"):
            return np.sqrt(dispersion / np.maximum(curvature, 0.0))

    def _proposed(self, profiles):
        found = [(profile, [bound.propose() for bound in profile.bounds]) for profile in profiles]
        found = [(profile, [v for v in values if v is not None]) for profile, values in found]
        return [(profile, values) for profile, values in found if values]

    def _evaluate(self, name, wanted):
        """Add points to profiles, each fitted from the nearest one there is."""
        points = [(p, float(v)) for p, values in wanted for v in p.missing(values)]
        if not points:
            return
        starts = [profile.start_at(value) for profile, value in points]
        columns = np.array([profile.column for profile, _ in points])
        solutions = self._solve(name, columns, starts, True)
        for (profile, value), solution in zip(points, solutions, strict=True):
            profile.curve.add(value, solution.objective)
            profile.coefs.append(solution.coef)
            profile.logliks.append(self._height(solution))


class FlatProfiler:
    """Profiles where the log-likelihood is 0 whatever the coefficients are."""

    n_fits = n_failed = 0

    def __init__(self, model, prepared, wanted, n_fits):
        self._wanted = wanted

    def end(self):
        """Nothing is left to report."""

    def profile(self, columns, level):
        """Profiles of some coefficients."""
        return [self._profile(int(column)) for column in columns]

    def _profile(self, column):
        profile = Profile(column, ProfileCurve(0.0, 0.0, 0.0), [], [0.0], stats.norm)
        profile.bounds = tuple(Bound(profile.curve, sign, 1.0, np.inf) for sign in (-1, 1))
        profile.slopes[0.0] = 0.0
        while values := self._wanted.grid.next(profile):
            for value in profile.missing(values):
                profile.curve.add(value, 0.0)
                profile.logliks.append(0.0)
                profile.slopes[value] = 0.0
        profile.points = self._wanted.points_of(profile)
        return profile
