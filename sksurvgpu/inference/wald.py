"""Wald inference: standard errors, intervals and tests of coefficients without a penalty."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import norm, t

from .._tables import MOST_OF_A_FIT, Result, counted, in_brief
from ..data.intervals import add_tests, check_level, interval_table, with_ratios
from ..data.options import flag
from ..data.partitioned import in_partitions
from ..data.vectors import check_order
from ..estimators._columns import check_header
from ..estimators._preparing import prepare
from ..estimators.fitted import fitted_of
from ..estimators.models.base import model_of
from ..information.inverse import Inverse, invert
from ..information.views import view_of
from ..selection.criteria import basis_of, basis_of_rows
from ._covariance import (
    add_intercept,
    check_whole_clusters,
    clusters_of,
    invert_of,
    require_intercept,
    residual_df,
)
from ._rows import check_same, documented, open_fit, open_rows, require_unpenalized
from ._statistics import concordance_of, in_words, statistics_of
from .contrasts import REFERENCE, Combinable
from .joint import JointTest, as_test, joint_tests, quadratic_form, read_contrasts

INTERCEPT = "intercept"  # its name among the coefficients
INSTEAD = "Take `bootstrap` or `profile_likelihood` instead, or fit with alpha=0."


@dataclass(frozen=True, eq=False, repr=False)
class WaldResult(Combinable, Result):
    """Coefficients of a fit with their covariance; made by `wald`.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
        Coefficients of the fit, after the intercept where that was asked for. Columns that depend
        on those before them, and constant ones, are left out, as in R: their coefficients are NaN,
        and the others are those of a fit without them, which has the same likelihood.
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
    tests : pandas.DataFrame or None
        Tests that all coefficients but an intercept are zero, where they were asked for: a line
        for the likelihood ratio, the Wald and the score test, with ``statistic``, ``df`` and
        ``p_value``. In a linear model that of the Wald test is F, with ``df_residual``. Robust, the
        Wald test is, and there is a ``robust_score``, too.
    fit_statistics : pandas.Series or None
        With the tests: ``n_rows``, ``n_events`` (of weighted rows, their weights), ``df``, which
        counts an intercept and a variance, ``log_likelihood``, ``aic`` and ``bic`` as of
        `information_criteria`; of Cox models the ``concordance`` and of logistic ones the area
        under the ROC curve, with ``concordance_error`` by the infinitesimal jackknife, of clusters
        where there are such; not of rows in partitions.
    factors : pandas.DataFrame or None
        Tests of the factors of `with_factors`: the ``row`` that shows each, ``statistic``, ``df``
        and ``p_value``.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, wald
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 4, density=0.3, random_state=0)
    >>> result = wald(CoxLassoCCD(alpha=0).fit(data.X, data.y), data.X, data.y)
    >>> result
    <WaldResult of 4 coefficients, 95% intervals>
            coef standard_error   p_value hazard_ratio hazard_ratio_lower hazard_ratio_upper
    x0  -0.01074        0.07623     0.888       0.9893              0.852              1.149
    x1    -1.939         0.1032  1.07e-78       0.1439             0.1175             0.1761
    ...
    >>> result.standard_errors.shape
    (4,)
    """

    coef: np.ndarray
    covariance: np.ndarray
    level: float
    robust: bool
    feature_names: np.ndarray
    df: int | None = None
    tests: Any = None
    _effect: str | None = None
    fit_statistics: Any = None
    factors: Any = None
    _most_rows = MOST_OF_A_FIT
    _fitted: Any = None  # coefficients of the fit, with those of columns that are left out

    def _title(self) -> str:
        robust = ", robust" if self.robust else ""
        n = sum(not str(name).endswith(REFERENCE) for name in self.feature_names)
        return (
            f"WaldResult of {counted(n, 'coefficients')}, {100 * self.level:g}% intervals{robust}"
        )

    def _notes(self):
        return [] if self.tests is None else in_words(self.fit_statistics, self.tests)

    def _head(self, n):
        some = self.coef[:n], self.covariance[:n, :n], self.feature_names[:n]
        part = replace(self, coef=some[0], covariance=some[1], feature_names=some[2])
        table = in_brief(part.summary(), self._effect)
        if self.factors is not None:  # a reference has no error
            table = table.astype(object).where(table.notna(), "")
        return table, len(self.coef)

    @property
    def standard_errors(self) -> np.ndarray:
        """Square roots of the covariance's diagonal."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def intervals(self):
        """Confidence intervals of the coefficients.

        A DataFrame indexed by feature with the columns ``coef``, ``lower`` and ``upper``.
        """
        law, names = self._distribution(), self.feature_names
        return interval_table(self.coef, self.standard_errors, self.level, law, names)

    def summary(self):
        """Table of coefficients with their standard errors, tests and intervals.

        Returns
        -------
        table : pandas.DataFrame
            A row for each coefficient, indexed by its name: ``coef``, ``standard_error``, ``z``
            (``t`` for a linear model that is not robust), ``p_value`` and the bounds ``lower`` and
            ``upper`` of the interval; where exp(coef) is a ratio, such as ``hazard_ratio``, also
            that ratio and its bounds, ``hazard_ratio_lower`` and ``hazard_ratio_upper``. With
            factors ``p_factor``, a p-value for each, in the first row of its levels.
        """
        table = self.intervals
        statistic = "z" if self.df is None else "t"
        add_tests(table, self.standard_errors, self._distribution(), statistic)
        if self.factors is not None:
            p_values = self.factors.drop_duplicates("row").set_index("row")["p_value"]
            table.insert(4, "p_factor", p_values.reindex(table.index))
        return with_ratios(table, self._effect)

    def test(self, columns=None, *, contrasts=None, values=0.0) -> JointTest:
        """Wald test of several coefficients, or of sums of them, together.

        Parameters
        ----------
        columns : str, int or list of these, optional
            Coefficients by name or position; by default all but an intercept and those of columns
            that were left out.
        contrasts : array-like of shape (n_coef,) or (n_contrasts, n_coef), or DataFrame, optional
            In place of `columns`, factors of the coefficients in each sum; in a table by name.
        values : float or array-like of shape (n_contrasts,), default=0.0
            What the coefficients, or the sums, are under the hypothesis.

        Returns
        -------
        test : JointTest
            Statistic, degrees of freedom and p value: chi-squared, or F for a linear model that is
            not robust.

        Examples
        --------
        >>> from sksurvgpu import CoxLassoCCD, wald
        >>> from sksurvgpu.datasets import simulate_cox
        >>> data = simulate_cox(1_000, 4, density=0.3, random_state=0)
        >>> result = wald(CoxLassoCCD(alpha=0).fit(data.X, data.y), data.X, data.y)
        >>> result.test(["x1", "x2"])
        <Wald test: chi2(2) = ..., p = ...>

        Are the first two coefficients the same?

        >>> result.test(contrasts=[1, -1, 0, 0]).df
        1
        """
        if columns is None and hasattr(contrasts, "iterrows"):
            return self.contrast(contrasts).test(values=values)
        if columns is None and contrasts is None:
            names = self.feature_names.astype(str)
            is_own = (names != INTERCEPT) & ~np.char.endswith(names, REFERENCE)
            columns = np.flatnonzero(is_own & ~np.isnan(self.coef)).tolist()
        matrix, values = read_contrasts(self.feature_names, columns, contrasts, values)
        used = (matrix != 0).any(axis=0)
        unknown = np.flatnonzero(used & np.isnan(np.diagonal(self.covariance)))
        if len(unknown):
            raise ValueError(
                f"the data do not determine the coefficient of {self.feature_names[unknown[0]]!r}, "
                "so that it cannot be tested; leave it out of `columns` or `contrasts`."
            )
        covariance = matrix[:, used] @ self.covariance[np.ix_(used, used)] @ matrix[:, used].T
        found = matrix[:, used] @ self.coef[used]
        return as_test(*quadratic_form(found - values, covariance), self.df)

    def _distribution(self):
        return norm() if self.df is None else t(self.df)


@documented
def wald(
    estimator,
    X,
    y,
    *,
    level=0.95,
    robust=False,
    cluster=None,
    intercept=False,
    tests=False,
    **fit_params,
) -> WaldResult:
    """Standard errors and Wald intervals of a fit without a penalty.

    Parameters
    ----------
    estimator : fitted estimator of this package, or pipeline
        Fitted with ``alpha=0``, or with penalty factors of 0 only.
    <<rows_of_fit>>
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
    intercept : bool, default=False
        Whether the intercept of a logistic, Poisson or linear model is the first of the
        coefficients, by the name "intercept".
    tests : bool, default=False
        Whether to add the tests that all coefficients are zero, which need the information there,
        and what else is printed with them: numbers of rows and events, AIC, concordance.
    <<more_of_fit>>

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
            coef standard_error    p_value hazard_ratio hazard_ratio_lower hazard_ratio_upper
    x0  -0.01074        0.07624      0.888       0.9893             0.8727              1.122
    x1    -1.939         0.1024  5.881e-80       0.1439             0.1216             0.1703
    ...
    """
    level = check_level(level)
    for name, value in (("robust", robust), ("intercept", intercept), ("tests", tests)):
        flag(value, name)
    check_order(X=X, cluster=cluster)
    estimator, X = open_fit(estimator, X)
    require_unpenalized(estimator, "Wald inference", INSTEAD)
    robust = bool(robust) or cluster is not None
    if intercept:
        require_intercept(estimator, X)
    find = _find_in_partitions if in_partitions(X) else _find_in_memory
    found = find(estimator, X, y, fit_params, (robust, cluster), intercept, tests)
    coef, covariance, df, found = found
    names, fitted = fitted_of(estimator).names, estimator.coef_.copy()
    if intercept:
        names, fitted = [INTERCEPT, *names], np.append(estimator.intercept_, fitted)
    return WaldResult(
        coef=coef,
        covariance=covariance,
        level=level,
        robust=robust,
        feature_names=np.array(names, dtype=object),
        df=df,
        tests=found and found[0],
        _effect=model_of(estimator).effect,
        fit_statistics=found and found[1],
        _fitted=fitted,
    )


def _find_in_memory(estimator, X, y, fit_params, robust, intercept, tests):
    """Coefficients, covariance, degrees of freedom, and tests and statistics or None."""
    rows = open_rows(estimator, X, y, fit_params)
    view, (robust, cluster) = view_of(rows), robust
    cluster = clusters_of(view, cluster) if robust else None
    information = view.information()
    inverse = invert_of(estimator, information)
    n_rows = int(np.count_nonzero(rows.weight))
    meat = view.meat(cluster) if robust else None
    fit = FitSpread.of(estimator, information[0], meat, inverse, n_rows, rows.problem.has_intercept)
    coef, covariance = fit.coef, inverse.mask(fit.covariance)
    if intercept:
        coef, covariance = add_intercept(coef, covariance, view, fit, cluster)
    if not tests:
        return coef, covariance, fit.df, None
    null = rows.at(np.zeros(rows.n_coef))
    score = null.session.gradient(np.arange(rows.n_coef))
    at_null = view_of(null)
    meat = at_null.meat(cluster) if robust else None
    table, weight = _tests(fit, score, at_null.information(), meat, n_rows), rows.given_weight
    n_given = np.count_nonzero(np.ones(rows.outcome.n_rows) if weight is None else weight)
    basis, concordance = basis_of_rows(estimator, rows), concordance_of(rows, X, cluster)
    rank = table["df"]["score"]
    statistics = statistics_of(estimator, rows.problem, basis, n_given, rank, concordance)
    return coef, covariance, fit.df, (table, statistics)


def _find_in_partitions(estimator, X, y, fit_params, robust, intercept, tests):
    """Covariance of a fit to partitions, which add up information and products of scores."""
    robust, cluster = robust
    given = fit_params if cluster is None else fit_params | {"cluster": cluster}
    with closing(prepare(estimator, X, y, **given)) as prepared:
        check_header(estimator, prepared.setting.header)
        if robust:
            check_whole_clusters(prepared, estimator)
        problem, batch, n_rows = prepared.problem, prepared.batch, prepared.n_weighted
        information_at = partial(prepared.backend.information, problem, batch)
        loglik, *information, meat = information_at(estimator.coef_, robust)
        check_same(estimator, loglik)
        inverse = invert_of(estimator, information)
        fit = FitSpread.of(estimator, information[0], meat, inverse, n_rows, problem.has_intercept)
        coef, covariance = fit.coef, inverse.mask(fit.covariance)
        if not tests:
            return coef, covariance, fit.df, None
        null = np.zeros(problem.n_columns)
        _, *at_null, meat = information_at(null, robust)
        [score] = prepared.fits.gradients(null[:, None]).T
        basis = basis_of(estimator, prepared, prepared.sizes)
        table = _tests(fit, score, at_null, meat, n_rows)
        statistics = statistics_of(estimator, problem, basis, n_rows, table["df"]["score"])
        return coef, covariance, fit.df, (table, statistics)


class FitSpread(NamedTuple):
    """Coefficients of a fit, the information there, and the covariance that follows."""

    estimator: Any
    information: np.ndarray
    meat: np.ndarray | None  # of robust results
    inverse: Inverse
    dispersion: float
    df: int | None  # where the dispersion is estimated, and the covariance relies on it

    @classmethod
    def of(cls, estimator, information, meat, inverse, n_rows, has_intercept) -> FitSpread:
        dispersion, df = 1.0, None
        if meat is None and model_of(estimator).has_dispersion:
            df = residual_df(n_rows, inverse.rank, has_intercept)
            dispersion = -2.0 * estimator.log_likelihood_ / df
        return cls(estimator, information, meat, inverse, dispersion, df)

    @property
    def coef(self) -> np.ndarray:
        """Coefficients, NaN of columns that were left out."""
        is_left_out = ~self.inverse.identified & ~self.estimator.infinite_
        return np.where(is_left_out, np.nan, self.inverse.move(self.estimator.coef_))

    @property
    def covariance(self) -> np.ndarray:
        """Covariance of the coefficients, also of those that are unknown."""
        inverse = self.inverse.matrix
        return self.dispersion * inverse if self.meat is None else inverse @ self.meat @ inverse


def _tests(fit, score, at_null, meat, n_rows):
    """Table of the tests that all coefficients are zero, without columns that are left out."""
    model, pull = fit.estimator, fit.information @ fit.estimator.coef_
    kept = np.flatnonzero(~np.isnan(fit.coef))
    both, (information, size) = np.ix_(kept, kept), at_null
    if model.infinite_.any():
        statistic, rank = np.nan, invert(information[both], size[kept]).rank
    elif meat is not None:
        statistic, rank = quadratic_form(pull[kept], fit.meat[both])
    else:
        statistic, rank = float(model.coef_ @ pull) / fit.dispersion, fit.inverse.rank
    wald, at_null = as_test(statistic, rank, fit.df), (information[both], size[kept])
    meat = None if meat is None else meat[both]
    return joint_tests(model, wald, score[kept], at_null, meat, n_rows)
