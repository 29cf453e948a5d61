"""Wald inference: standard errors, intervals and tests of coefficients without a penalty."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field

import numpy as np

from .._versioned import Versioned
from ..data.intervals import add_tests, check_level, interval_table, with_ratios
from ..information.views import view_of
from ..partitions.handles import is_far
from ._covariance import ONE_CLUSTER, clusters_of, invert_information, invert_of
from ._rows import check_estimator, check_same, open_rows, require_unpenalized

__all__ = ["WaldResult", "wald"]

INSTEAD = "Take `bootstrap` or `profile_likelihood` instead, or fit with alpha=0."


@dataclass(frozen=True, eq=False)
class WaldResult(Versioned):
    """Coefficients of a fit with their covariance; made by `wald`.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
        Coefficients of the fit.
    covariance : ndarray of shape (n_coef, n_coef)
        Their covariance; NaN where the data do not determine a coefficient.
    level : float
        Confidence level of the intervals.
    robust : bool
        Whether the covariance is a sandwich.
    feature_names : ndarray of shape (n_coef,)
        Name of each coefficient.
    df : int or None
        Degrees of freedom of the t distribution of a linear model's tests; None where
        coefficients are taken for normal, as those of robust covariances are.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, wald
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 4, density=0.3, random_state=0)
    >>> result = wald(CoxLassoCCD(alpha=0).fit(data.X, data.y), data.X, data.y)
    >>> result
    <WaldResult of 4 coefficients, 95% intervals>
    >>> result.standard_errors.shape
    (4,)
    """

    coef: np.ndarray
    covariance: np.ndarray
    level: float
    robust: bool
    feature_names: np.ndarray
    df: int | None = None
    _effect: str | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        robust = ", robust" if self.robust else ""
        return (
            f"<WaldResult of {len(self.coef):,} coefficients, {100 * self.level:g}% "
            f"intervals{robust}>"
        )

    @property
    def standard_errors(self) -> np.ndarray:
        """Square roots of the covariance's diagonal."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def intervals(self):
        """Confidence intervals of the coefficients.

        A DataFrame indexed by feature with the columns ``coef``, ``lower`` and ``upper``.
        """
        given = self.coef, self.standard_errors, self.level, self._distribution()
        return interval_table(*given, self.feature_names)

    def summary(self):
        """Table of coefficients with their standard errors, tests and intervals.

        Returns
        -------
        table : pandas.DataFrame
            A row for each coefficient, indexed by its name: ``coef``, ``standard_error``, ``z``
            (``t`` for a linear model that is not robust), ``p_value`` and the bounds ``lower`` and
            ``upper`` of the interval; where exp(coef) is a ratio, such as ``hazard_ratio``, also
            that ratio and its bounds, ``hazard_ratio_lower`` and ``hazard_ratio_upper``.
        """
        table = self.intervals
        statistic = "z" if self.df is None else "t"
        add_tests(table, self.standard_errors, self._distribution(), statistic)
        return with_ratios(table, self._effect)

    def _distribution(self):
        from scipy.stats import norm, t

        return norm() if self.df is None else t(self.df)


def wald(estimator, X, y, *, level=0.95, robust=False, cluster=None, **fit_params) -> WaldResult:
    """Standard errors and Wald intervals of a fit without a penalty.

    Parameters
    ----------
    estimator : fitted estimator of this package
        Fitted with ``alpha=0``, or with penalty factors of 0 only.
    X : scipy sparse matrix or array, ndarray or DataFrame of shape (n_samples, n_features)
        Covariates of the fit.
    y : ndarray of shape (n_samples,)
        Outcome of the fit.
    level : float, default=0.95
        Confidence level of the intervals.
    robust : bool, default=False
        Whether the covariance is the sandwich of the rows' scores, which does not rely on the
        model's variance: Lin and Wei's for Cox models, Huber and White's (HC0) for generalized
        linear models, and Fine and Gray's, which knows that the censoring was estimated.
    cluster : array-like of shape (n_samples,), optional
        Labels of rows that are not independent, such as persons or practices; implies `robust`.
        By default what `y` says: its field ``subject``, the subjects of a case series, or the
        matched sets; each row by itself where it says nothing. Of rows in partitions, each
        cluster must be whole in one.
    **fit_params : array-like of shape (n_samples,), optional
        What else ``fit`` was given, such as `sample_weight`, `strata` or `offset`.

    Returns
    -------
    result : WaldResult
        Covariance, standard errors, intervals and tests.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, wald
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 4, density=0.3, random_state=0)
    >>> model = CoxLassoCCD(alpha=0).fit(data.X, data.y)
    >>> wald(model, data.X, data.y).summary().columns.tolist()
    ['coef', 'standard_error', 'z', 'p_value', 'lower', 'upper', 'hazard_ratio',
     'hazard_ratio_lower', 'hazard_ratio_upper']
    >>> wald(model, data.X, data.y, robust=True, level=0.9)
    <WaldResult of 4 coefficients, 90% intervals, robust>
    """
    level = check_level(level)
    if not isinstance(robust, bool | np.bool_):
        raise TypeError(f"`robust` is {robust!r}, must be True or False.")
    check_estimator(estimator)
    require_unpenalized(estimator, "Wald inference", INSTEAD)
    robust = bool(robust) or cluster is not None
    covariance, df, inverse = _find(estimator, X, y, fit_params, robust, cluster)
    return WaldResult(
        coef=estimator.coef_.copy(),
        covariance=inverse.mask(covariance),
        level=level,
        robust=robust,
        feature_names=np.array(estimator._coef_names(), dtype=object),
        df=df,
        _effect=estimator._effect,
    )


def _find(estimator, X, y, fit_params, robust, cluster):
    """Covariance, degrees of freedom, and the inverse information."""
    if is_far(X):
        return _find_far(estimator, X, y, fit_params, robust, cluster)
    rows = open_rows(estimator, X, y, fit_params)
    view = view_of(rows)
    cluster = clusters_of(view, cluster) if robust else None
    inverse = invert_information(view, stacklevel=6)
    if robust:
        return inverse.matrix @ view.meat(cluster) @ inverse.matrix, None, inverse
    n_rows = int(np.count_nonzero(rows.weight))
    return *_plain(estimator, inverse, n_rows, rows.problem.has_intercept), inverse


def _find_far(estimator, X, y, fit_params, robust, cluster):
    """The same of rows in partitions, which add up the information and products of scores."""
    given = fit_params if cluster is None else fit_params | {"cluster": cluster}
    with closing(estimator._prepare(X, y, **given)) as prepared:
        if robust:
            _check_clusters(prepared, estimator)
        given = prepared.problem, prepared.batch, estimator.coef_, robust
        loglik, *information, meat = prepared.backend.information(*given)
        check_same(estimator, loglik)
        inverse = invert_of(estimator, information, stacklevel=6)
        if robust:
            return inverse.matrix @ meat @ inverse.matrix, None, inverse
        has_intercept = prepared.problem.has_intercept
        return *_plain(estimator, inverse, prepared.n_weighted, has_intercept), inverse


def _check_clusters(prepared, estimator):
    """Refuse clusters that are divided among partitions, or a single one."""
    owner = prepared.check_subjects(
        estimator,
        "cluster",
        "scores are added up by cluster where the rows are",
    )
    if owner is not None and len(owner) < 2:
        raise ValueError(ONE_CLUSTER.format(next(iter(owner)), prepared.problem.design.n_rows))


def _plain(estimator, inverse, n_rows, has_intercept):
    """Covariance under the model, and degrees of freedom where it has a dispersion."""
    if not estimator._has_dispersion:
        return inverse.matrix, None
    df = _residual_df(n_rows, inverse.rank, has_intercept)
    return inverse.matrix * (-2.0 * estimator.log_likelihood_ / df), df


def _residual_df(n_rows, rank, has_intercept) -> int:
    """Rows of positive weight less the number of estimated means."""
    df = n_rows - rank - int(has_intercept)
    if df < 1:
        raise ValueError(
            f"the linear model has {rank} coefficients and an intercept for "
            f"{n_rows:,} rows, so that nothing is left to estimate the "
            "variance of its errors from; take fewer columns, or robust=True."
        )
    return df
