"""Profile likelihood: a coefficient is held at many values, and all others fitted at each.

The column of interest is freed of its penalty, the others keep theirs. All points of all columns
are fits of one batch, round by round (see `curve` for where), each started from the nearest point
of its column. A round has at most two fits a column.
"""

from __future__ import annotations

import warnings
from contextlib import closing
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from .._versioned import Versioned
from ..data.intervals import check_level, with_ratios
from ..selection.grid import copy_of
from ..selection.progress import Progress
from ..solver.solve import curvatures
from ._rows import require_absent
from .curve import Bound, Curve

__all__ = ["ProfileResult", "profile_likelihood"]

# An objective is off by about half the squared score in standard errors: that of `tol` 1e-8, at
# most 1e-6, is far below 1e-5 of a quantile. A fit that stalls before, at the accuracy of floating
# point, is good enough up to the second one.
TIGHTEST, GOOD_ENOUGH = 1e-8, 1e-6
BLOCK_BYTES = 2**28  # of the coefficients of all points of the columns at work
POINTS = 24  # of a column, expected
WIDER = 0.25  # the curve's reach beyond its bounds, in widths of the interval


@dataclass(frozen=True, eq=False)
class ProfileResult(Versioned):
    """Profile likelihoods of some coefficients; made by `profile_likelihood`.

    Attributes
    ----------
    intervals : pandas.DataFrame
        By feature: ``coef``, of the fit in which the column has no penalty, where the profile has
        its maximum, ``lower`` and ``upper``. A bound is infinite where the likelihood never falls
        on its side; ``coef`` is then as far as that fit went.
    curves : pandas.DataFrame
        Points of the profiles: ``feature``, ``value`` of the coefficient and
        ``log_likelihood_ratio``, the statistic of the test of this value, twice the fall of the
        penalized log-likelihood from its maximum.
    p_values : pandas.Series
        By feature, of the likelihood ratio test that the coefficient is zero.
    thresholds : pandas.Series
        By feature, the ``log_likelihood_ratio`` at the bounds of the interval.
    level : float
        Level of the intervals.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, profile_likelihood
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 20, random_state=0)
    >>> profile_likelihood(CoxLassoCCD(), data.X, data.y, [0, 3])
    <ProfileResult of 2 coefficients, 95% intervals>
    """

    intervals: Any
    curves: Any
    p_values: Any
    thresholds: Any
    level: float
    _effect: str | None = field(repr=False)

    frees_penalty: ClassVar[bool] = True  # coefficients are those of columns without a penalty

    def __repr__(self) -> str:
        n = len(self.intervals)
        noun = "coefficient" if n == 1 else "coefficients"
        return f"<ProfileResult of {n:,} {noun}, {100 * self.level:g}% intervals>"

    def summary(self):
        """Table of coefficients with intervals and p-values.

        Returns
        -------
        table : pandas.DataFrame
            A row for each coefficient, indexed by feature. Where exp(coef) is a ratio, there are
            columns for it and its interval, too.
        """
        return with_ratios(self.intervals.join(self.p_values), self._effect)


def profile_likelihood(
    estimator, X, y, columns, *, level=0.95, n_points=0, **fit_params
) -> ProfileResult:
    """Profile likelihood and intervals of some coefficients.

    The penalty of a column is removed while its coefficient is profiled; all other columns keep
    theirs. The interval holds the values that a likelihood ratio test does not reject.

    Parameters
    ----------
    estimator : estimator of this package
        Model and options; it is not changed. Fits are solved to a relative residual of 1e-8, or
        ``tol`` if that is less.
    X : scipy sparse matrix or array, ndarray or DataFrame of shape (n_samples, n_features)
        Covariates.
    y : ndarray of shape (n_samples,)
        Outcome, as the estimator's ``fit`` takes it.
    columns : str, int or list of these
        Columns of X by name or position. A column whose coefficient changes over time stands for
        all of its coefficients; the names in ``summary`` of a fit stand for single ones.
    level : float, default=0.95
        Level of the intervals.
    n_points : int, default=0
        Further points of each curve, equally spaced over the interval and a quarter of its width
        beyond either bound; an infinite bound is replaced by the mirror image of the other. The
        points of the search for the bounds are there anyway.
    **fit_params : array-like of shape (n_samples,), optional
        Further arguments of the estimator's ``fit``, such as `sample_weight` or `strata`.

    Returns
    -------
    result : ProfileResult
        Intervals, p-values and curves.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, profile_likelihood
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 20, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.01, penalty_factor={0: 0.0})
    >>> result = profile_likelihood(model, data.X, data.y, 0)
    >>> [lower, upper] = result.intervals.loc["x0", ["lower", "upper"]]
    >>> bool(lower < model.fit(data.X, data.y).coef_[0] < upper)
    True
    >>> result.summary().columns[:4].tolist()
    ['coef', 'lower', 'upper', 'p_value']
    """
    model = copy_of(estimator, "profile_likelihood", fit_params)
    require_absent(model, "profile_likelihood")
    level = check_level(level)
    if not isinstance(n_points, Integral) or isinstance(n_points, bool) or n_points < 0:
        raise ValueError(f"`n_points` is {n_points!r}, must be an integer of at least 0.")
    with closing(model._prepare(X, y, **fit_params)) as prepared:
        model._adopt_data(prepared)
        chosen = _choose(columns, model, prepared.problem)
        profiler, profiles = _Profiler(model, prepared), []
        size = max(1, BLOCK_BYTES // (8 * POINTS * prepared.problem.n_columns))
        for first in range(0, len(chosen), size):
            profiles += profiler.profile(chosen[first : first + size], level, int(n_points))
        profiler.end()
    if profiler.n_failed:
        warnings.warn(
            f"{profiler.n_failed:,} of {profiler.n_fits:,} fits of the profiles did not converge, "
            f"and bounds may be inaccurate; raise max_iter={model.max_iter:,}, or penalize columns "
            "whose coefficients may be infinite.",
            ConvergenceWarning,
            stacklevel=2,
        )
    names = model._coef_names()
    return _gather([names[column] for column in chosen], profiles, level, model._effect)


def _choose(columns, model, problem):
    """Positions of coefficients, each once, in the order in which they were asked for."""
    listed = [columns] if isinstance(columns, str | Integral) else list(columns)
    if not listed:
        raise ValueError("`columns` is empty; name one or more columns of X.")
    names = model._coef_names()
    features, chosen = [str(name) for name in model._feature_names()], {}
    for column in listed:
        if isinstance(column, str):
            found = [k for k, name in enumerate(names) if name == column]
            if not found and column in features:
                found = np.flatnonzero(problem.source == features.index(column)).tolist()
            if not found:
                close = get_close_matches(column, [*names, *features], n=3)
                hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else "."
                raise ValueError(f"`columns` names {column!r}, which `X` does not have{hint}")
        elif isinstance(column, Integral) and not isinstance(column, bool | np.bool_):
            if not 0 <= column < len(features):
                raise ValueError(
                    f"`columns` has position {column}, must be from 0 to {len(features) - 1}."
                )
            found = np.flatnonzero(problem.source == column).tolist()
        else:
            raise TypeError(f"`columns` has {column!r}; give names or positions of columns of X.")
        chosen |= dict.fromkeys(found)
    return np.array(list(chosen), dtype=np.int64)


@dataclass
class _Profile:
    """One coefficient: the curve, the coefficients at its points, and how it is judged."""

    column: int
    curve: Curve
    coefs: list
    law: Any  # of the root of the statistic: normal or Student's t
    bounds: tuple = ()

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


class _Profiler:
    """Fits with a coefficient held, in batches."""

    def __init__(self, model, prepared):
        self._progress, verbose = Progress(model), max(int(model.verbose) - 1, 0)
        tol = min(prepared.options.tol, TIGHTEST)
        options = replace(prepared.options, tol=tol, baseline=False, verbose=verbose)
        self._model, self._prepared = model, replace(prepared, options=options)
        self._problem, self._factor = prepared.problem, prepared.batch.factor
        self.n_fits = self.n_failed = 0
        with self._progress.batch("fit of all columns", 1) as done:
            [self._full] = self._prepared.solve([model.alpha], on_fit=done)[0]
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
            )
        solutions = [of_fit[0] for of_fit in solutions]
        self._count(solutions)
        return solutions

    def profile(self, columns, level, n_points):
        """Profiles of some coefficients, with their bounds, zero and further points."""
        profiles = [self._begin(*start) for start in zip(columns, self._free(columns), strict=True)]
        steps = self._first_steps(profiles)
        for profile, step in zip(profiles, steps, strict=True):
            root = profile.threshold(level)
            profile.bounds = tuple(
                Bound(profile.curve, sign, root, root * step) for sign in (-1, 1)
            )
        self._evaluate("at zero", [(profile, [0.0]) for profile in profiles])
        n_round, wanted = 0, self._wanted(profiles)
        while wanted:
            n_round += 1
            self._evaluate(f"round {n_round}", wanted)
            wanted = self._wanted(profiles)
        self._evaluate("curves", [(profile, profile.grid(n_points)) for profile in profiles])
        for profile in profiles:
            profile.coefs.clear()
        return profiles

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
        span, law, dispersion = self._span(column), stats.norm, 1.0
        if self._model._has_dispersion:
            n_rows = self._prepared.n_weighted
            left = n_rows - np.count_nonzero(free.coef)
            left -= self._problem.has_intercept
            if left < 1:
                raise ValueError(
                    f"{np.count_nonzero(free.coef):,} coefficients are not zero and "
                    f"{n_rows:,} rows have a positive weight, so nothing is left "
                    "to estimate the variance of the errors from; raise `alpha`."
                )
            law, dispersion = stats.t(left), -2.0 * free.loglik / left
        curve = Curve(free.coef[column], free.objective, span, dispersion)
        return _Profile(int(column), curve, [free.coef], law)

    def _span(self, column):
        return self._problem.design.span(self._problem.source[column])

    def _first_steps(self, profiles):
        """Standard errors if the other coefficients were known, which are too small."""
        prepared, columns = self._prepared, np.array([profile.column for profile in profiles])
        given = prepared.batch, self._full.coef, columns, prepared.backend, prepared.n_threads
        dispersion = np.array([profile.curve.dispersion for profile in profiles])
        with np.errstate(divide="ignore"):
            return np.sqrt(dispersion / np.maximum(curvatures(self._problem, *given), 0.0))

    def _wanted(self, profiles):
        found = [(profile, [bound.propose() for bound in profile.bounds]) for profile in profiles]
        found = [(profile, [v for v in values if v is not None]) for profile, values in found]
        return [(profile, values) for profile, values in found if values]

    def _evaluate(self, name, wanted):
        """Add points to profiles, each fitted from the nearest one there is."""
        points = [(p, float(v)) for p, values in wanted for v in values]
        points = [(p, v) for p, v in points if v not in p.curve.values]
        if not points:
            return
        starts = []
        for profile, value in points:
            start = profile.coefs[profile.curve.nearest(value)].copy()
            start[profile.column] = value
            starts.append(start)
        columns = np.array([profile.column for profile, _ in points])
        solutions = self._solve(name, columns, starts, True)
        for (profile, value), solution in zip(points, solutions, strict=True):
            profile.curve.add(value, solution.objective)
            profile.coefs.append(solution.coef)


def _gather(names, profiles, level, effect):
    from pandas import DataFrame, Index, Series, concat

    index = Index(names, name="feature")
    ends = np.array([[bound.value for bound in profile.bounds] for profile in profiles])
    free = [profile.curve.origin for profile in profiles]
    intervals = DataFrame({"coef": free, "lower": ends[:, 0], "upper": ends[:, 1]}, index=index)
    curves = []
    for name, profile in zip(names, profiles, strict=True):
        values, ratios = np.array(profile.curve.values), profile.curve.ratios()
        order = np.argsort(values)
        points = {"feature": name, "value": values[order], "log_likelihood_ratio": ratios[order]}
        curves.append(DataFrame(points))
    return ProfileResult(
        intervals,
        concat(curves, ignore_index=True),
        Series([profile.p_value() for profile in profiles], index=index, name="p_value"),
        Series([profile.threshold(level) ** 2 for profile in profiles], index, name="threshold"),
        level,
        effect,
    )
