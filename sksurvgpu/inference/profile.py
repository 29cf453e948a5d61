"""Profile likelihood: a coefficient is held at many values, and all others fitted at each."""

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from pandas import DataFrame, Index, Series, concat
from sklearn.exceptions import ConvergenceWarning

from .._tables import Result, counted
from .._warnings import warn
from ..data import options
from ..data.by_column import find_column, similar
from ..data.intervals import check_level, with_ratios
from ..data.partitioned import in_partitions
from ..estimators._composition import penalty_of
from ..estimators._docs import documented
from ..estimators._preparing import prepare
from ..estimators.models.base import model_of
from ..exceptions import NothingToCompareError
from ..selection.grid import open_copy
from ._profiler import FlatProfiler, Profiler, Wanted
from ._rows import require_absent
from .evidence import table_of
from .grid import EvenGrid, GivenGrid, check_grid_of_values, check_reach, check_window

BLOCK_BYTES = 2**28  # of the coefficients of all points of the columns at work
POINTS = 24  # of a column, expected


@dataclass(frozen=True, eq=False, repr=False)
class ProfileResult(Result):
    """Profile likelihoods of some coefficients; made by `profile_likelihood`.

    Attributes
    ----------
    intervals : pandas.DataFrame
        By feature: ``coef``, of the fit in which the column has no penalty, where the profile has
        its maximum, ``lower`` and ``upper``. A bound is infinite where the likelihood never falls
        on its side; ``coef`` is then as far as that fit went.
    curves : pandas.DataFrame
        Points of the profiles: ``feature``, ``value`` of the coefficient and
        ``log_likelihood_ratio``, the statistic of the test of this value, twice the ``drop`` of the
        penalized log-likelihood from its maximum. Next ``drop`` and ``log_likelihood``, which is
        the penalized one or not, as was asked for, and ``gradient`` where that was: the slope of
        ``log_likelihood`` at the point as the value moves and the other coefficients follow.
    p_values : pandas.Series
        By feature, of the likelihood ratio test that the coefficient is zero.
    thresholds : pandas.Series
        By feature, the ``log_likelihood_ratio`` at the bounds of the interval.
    level : float
        Level of the intervals.
    log_likelihoods : pandas.Series
        By feature, the ``log_likelihood`` of the fit that has ``coef``.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, profile_likelihood
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 20, random_state=0)
    >>> profile_likelihood(CoxLassoCCD(), data.X, data.y, [0, 3])
    <ProfileResult of 2 coefficients, 95% intervals>
    ...
    """

    intervals: Any
    curves: Any
    p_values: Any
    thresholds: Any
    level: float
    _effect: str | None
    log_likelihoods: Any = None

    frees_penalty: ClassVar[bool] = True  # coefficients are those of columns without a penalty
    _arrays: ClassVar[tuple[str, ...]] = ("intervals", "p_values")

    def _title(self) -> str:
        n, level = len(self.intervals), f"{100 * self.level:g}%"
        return f"ProfileResult of {counted(n, 'coefficients')}, {level} intervals"

    def summary(self):
        """Table of coefficients with intervals and p-values.

        Returns
        -------
        table : pandas.DataFrame
            A row for each coefficient, indexed by feature. Where exp(coef) is a ratio, there are
            columns for it and its interval, too.
        """
        return with_ratios(self.intervals.join(self.p_values), self._effect)

    def to_evidence_synthesis(self, feature=None, approximation="grid with gradients"):
        """Table of one profile as R's EvidenceSynthesis reads it.

        Parameters
        ----------
        feature : str, optional
            Which coefficient; may be left out where there is one.
        approximation : str, default="grid with gradients"
            Form of the table, as ``approximateLikelihood`` names it.

            - "grid with gradients": ``point``, ``value`` and ``derivative`` of every point of the
              curve, which needs ``derivatives=True``.
            - "adaptive grid": ``point`` and ``value``.
            - "grid": one row, a column a point, named by it.
            - "normal": ``rr``, ``ci95Lb``, ``ci95Ub``, ``logRr`` and ``seLogRr`` of the maximum and
              the interval.
            - "custom": ``mu``, ``sigma`` and ``gamma`` of a curve that bends more on one side,
              fitted to the points.
            - "skew normal": ``mu``, ``sigma`` and ``alpha``, fitted to the points.

        Returns
        -------
        table : pandas.DataFrame
            What ``to_csv(index=False)`` writes to a file that tells nothing of single persons.

        See Also
        --------
        combine_profiles : Reads such tables, of sites that ran either package.

        Examples
        --------
        >>> from sksurvgpu import CoxLassoCCD, profile_likelihood
        >>> from sksurvgpu.datasets import simulate_cox
        >>> data = simulate_cox(1_000, 5, random_state=0)
        >>> result = profile_likelihood(
        ...     CoxLassoCCD(alpha=0), data.X, data.y, 0, values=[-1, 0, 1], derivatives=True
        ... )
        >>> result.to_evidence_synthesis().columns.tolist()
        ['point', 'value', 'derivative']
        """
        return table_of(self, feature, approximation)


@documented
def profile_likelihood(
    estimator,
    X,
    y,
    columns,
    *,
    level=0.95,
    n_points=0,
    values=None,
    bounds=None,
    tolerance=1e-3,
    derivatives=False,
    include_penalty=False,
    **fit_params,
) -> ProfileResult:
    """Profile likelihood and intervals of some coefficients.

    A profile fixes one coefficient at a value and fits all others. The penalty of the column is
    removed meanwhile; other columns keep theirs. The interval contains the values that a
    likelihood-ratio test does not reject.

    Parameters
    ----------
    estimator : estimator of this package, or pipeline
        Model and options; it is not changed. Fits are solved to a relative residual of 1e-8, or
        ``tol`` if that is less. Transformers are fitted to `X` unless they are already.
    <<rows_to_fit>>
    columns : str, int or list of these
        Columns of X by name or position. A column whose coefficient changes over time stands for
        all of its coefficients; the names in ``summary`` of a fit stand for single ones.
    level : float, default=0.95
        Level of the intervals.
    n_points : int, default=0
        Further points of each curve, equally spaced over the interval and a quarter of its width
        beyond either bound; an infinite bound is replaced by the mirror image of the other. The
        points of the search for the bounds are there anyway.
    values : array-like of shape (n_values,) or dict, optional
        Values of the coefficient that make up the curve, and no others; a dict has those of each
        of the `columns`.
    bounds : tuple of two floats, optional
        In place of `values`: the curve has ten equally spaced values between these and its
        maximum, and as many more as interpolation needs to be off by no more than `tolerance`: by
        straight lines, or with `derivatives` by cubics, which are content with far fewer.
    tolerance : float, default=1e-3
        Of a curve within `bounds`, in units of the log-likelihood.
    derivatives : bool, default=False
        Whether curves have a column ``gradient``.
    include_penalty : bool, default=False
        Whether the column ``log_likelihood`` of the curves is the penalized one, which the other
        coefficients maximize: less the penalty of these. Else it is the log-likelihood itself at
        the same coefficients. Both are the same where no other column has a penalty. Intervals,
        ``log_likelihood_ratio`` and ``drop`` are those of the penalized one, always.
    <<more_to_fit>>

    Returns
    -------
    result : ProfileResult
        Intervals, p-values and curves.

    Notes
    -----
    At given `values` or within `bounds` a curve is finite, whatever the data: also where the
    likelihood has no maximum because no one with the column has an event, and where the column is
    constant, so that the curve is flat. Rows that have no event at all, or nothing to compare,
    which no model can be fitted to, have a log-likelihood of 0 at every value then: that of all
    but models without an intercept, whose intercept does not make up for it, and of
    ``penalty=Firth()``.

    The log-likelihood of a linear model is that of errors whose variance is known, as the fit with
    the maximum estimates it.

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

    A curve between hazard ratios of 0.1 and 10, for a combination with other data:

    >>> wanted = {"bounds": (-2.3, 2.3), "derivatives": True}
    >>> curves = profile_likelihood(model, data.X, data.y, 0, **wanted).curves
    >>> curves.columns.tolist()[3:]
    ['drop', 'log_likelihood', 'gradient']
    """
    model, _, X = open_copy(estimator, X, y, "profile_likelihood", fit_params)
    require_absent(model, "profile_likelihood")
    level = check_level(level)
    _check_flags(model, derivatives, include_penalty)
    grid = _check_grid(n_points, values, bounds, tolerance, derivatives)
    prepared, profiler_of = _prepare(model, X, y, fit_params, grid)
    with closing(prepared):
        setting = prepared.setting
        names = setting.names
        chosen = _choose(columns, setting)
        if isinstance(grid, Mapping):
            grid = GivenGrid(_by_coefficient(grid, chosen, setting))
        check_reach(grid, chosen, names, prepared.problem)
        wanted = Wanted(grid, bool(derivatives), bool(include_penalty))
        _check_slopes(wanted, model, prepared, chosen)
        n_expected = POINTS + grid.n_expected
        n_fits = n_expected * len(chosen)
        profiler, profiles = profiler_of(model, prepared, wanted, n_fits), []
        size = max(1, BLOCK_BYTES // (8 * n_expected * prepared.problem.n_columns))
        for first in range(0, len(chosen), size):
            profiles += profiler.profile(chosen[first : first + size], level)
        profiler.end()
    if profiler.n_failed:
        warn(
            f"{profiler.n_failed:,} of {profiler.n_fits:,} fits of the profiles did not converge, "
            f"and bounds may be inaccurate; raise max_iter={model.max_iter:,}, or penalize columns "
            "whose coefficients may be infinite.",
            ConvergenceWarning,
        )
    return _gather([names[column] for column in chosen], profiles, level, model_of(model).effect)


def _check_flags(model, derivatives, include_penalty):
    """Check what is asked of the curves."""
    for name, value in (("derivatives", derivatives), ("include_penalty", include_penalty)):
        options.flag(value, name)
    if derivatives and not penalty_of(model).has_strength:
        raise ValueError(
            f"`derivatives` is True, and those of penalty={model.penalty!r} are not known; take "
            "derivatives=False, whose curves have all but the gradient."
        )


def _check_grid(n_points, values, bounds, tolerance, by_cubics):
    """Where curves are wanted: a grid, or checked values by the columns that a user names."""
    options.whole(n_points, "n_points", 0, "must be an integer of at least 0")
    asked = {"n_points": n_points or None, "values": values, "bounds": bounds}
    named = [name for name, value in asked.items() if value is not None]
    if len(named) > 1:
        raise ValueError(
            f"`{named[0]}` and `{named[1]}` both say which points the curves have; give one of "
            "them."
        )
    if bounds is not None:
        return check_window(bounds, tolerance, by_cubics)
    if isinstance(values, Mapping):
        return {k: check_grid_of_values(v, f"values[{k!r}]") for k, v in values.items()}
    return EvenGrid(int(n_points)) if values is None else GivenGrid(check_grid_of_values(values))


def _prepare(model, X, y, fit_params, grid):
    """Checked input, and what makes profiles of it: no fit where the likelihood is 0 throughout."""
    try:
        return prepare(model, X, y, **fit_params), Profiler
    except ValueError as error:
        if isinstance(grid, EvenGrid) or in_partitions(X) or not penalty_of(model).has_strength:
            raise
        prepared = prepare(model, X, y, may_lack=True, **fit_params)
        if not isinstance(error, NothingToCompareError) and not _is_flat(prepared):
            raise
        return prepared, FlatProfiler


def _check_slopes(wanted, model, prepared, chosen):
    """Refuse slopes that need the information of rows in partitions."""
    if not wanted.with_slopes or wanted.with_penalty or not prepared.in_partitions:
        return
    others = (
        np.delete(prepared.batch.factor, chosen[0]) if len(chosen) == 1 else prepared.batch.factor
    )
    if model.alpha * others.max(initial=0.0) > 0:
        raise ValueError(
            "`derivatives` is True and `include_penalty` False, where other columns have a "
            "penalty: that slope needs rows in one place; take include_penalty=True, or alpha=0."
        )


def _is_flat(prepared) -> bool:
    """Whether the largest log-likelihood is 0 at every value of any coefficient."""
    if not prepared.problem.ignores_shifts:
        return False
    classes = getattr(prepared.outcome, "value", None)
    if prepared.setting.classes is not None:
        return len(np.unique(classes[prepared.weight > 0])) < 2
    return prepared.sizes[1] == 0.0


def _by_coefficient(values, chosen, setting):
    """Values of every coefficient, of those that a user gives by column."""
    found, names = {}, setting.names
    for column, array in values.items():
        for k in _choose(column, setting, "values").tolist():
            if not np.array_equal(found.setdefault(k, array), array):
                raise ValueError(f"`values` has two lists for {names[k]!r}; keep one.")
    for column in chosen:
        if column not in found:
            raise ValueError(
                f"`values` has none for {names[column]!r}, which `columns` names; give values for "
                "every column, or an array for all."
            )
    return found


def _choose(columns, setting, argument="columns"):
    """Positions of coefficients, each once, in the order in which they were asked for."""
    listed = [columns] if isinstance(columns, str | Integral) else list(columns)
    if not listed:
        raise ValueError(f"`{argument}` is empty; name one or more columns of X.")
    names, source = setting.names.tolist(), setting.terms.source
    features, chosen = setting.header.labels(), {}
    for column in listed:
        if isinstance(column, str):
            found = [k for k, name in enumerate(names) if name == column]
            if not found and column in features:
                found = np.flatnonzero(source == features.index(column)).tolist()
            if not found:
                hint = similar(column, [*names, *features])
                raise ValueError(f"`{argument}` names {column!r}, which `X` does not have{hint}")
        else:
            place = find_column(column, argument, len(features), features)
            found = np.flatnonzero(source == place).tolist()
        chosen |= dict.fromkeys(found)
    return np.array(list(chosen), dtype=np.int64)


def _gather(names, profiles, level, effect):
    index = Index(names, name="feature")
    ends = np.array([[bound.value for bound in profile.bounds] for profile in profiles])
    free = [profile.curve.origin for profile in profiles]
    intervals = DataFrame({"coef": free, "lower": ends[:, 0], "upper": ends[:, 1]}, index=index)
    curves = []
    for name, profile in zip(names, profiles, strict=True):
        points = profile.points
        curve = {"feature": name, "value": points.value, "log_likelihood_ratio": points.ratio}
        curve |= {"drop": 0.5 * points.ratio, "log_likelihood": points.loglik}
        curves.append(
            DataFrame(curve | ({} if points.slope is None else {"gradient": points.slope}))
        )
    return ProfileResult(
        intervals,
        concat(curves, ignore_index=True),
        Series([profile.p_value() for profile in profiles], index=index, name="p_value"),
        Series([profile.threshold(level) ** 2 for profile in profiles], index, name="threshold"),
        level,
        effect,
        Series([profile.points.at_origin for profile in profiles], index, name="log_likelihood"),
    )
