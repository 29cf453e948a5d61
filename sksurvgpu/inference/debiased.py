r"""Confidence intervals of penalized coefficients: a step that takes the penalty's bias back.

With the slopes g and the information H of the log-likelihood at a penalized fit :math:`\hat\beta`,
and rows :math:`\theta_j` of an approximate inverse of H,

.. math:: b_j = \hat\beta_j + \theta_j' g, \qquad \mathrm{var}\, b_j = \theta_j' H \theta_j

(Van de Geer, Buhlmann, Ritov and Dezeure 2014).  Where the events are many beside the columns,
:math:`\theta_j` is a row of the inverse itself (Xia, Nan and Li 2023).  Elsewhere it has the least
variance among those with :math:`|R\omega - e_j| \le \gamma` in every entry, R being H scaled to a
diagonal of ones and :math:`\omega` the row in these units (Javanmard and Montanari 2014; for Cox
models Xia, Nan and Li 2021).  The dual of that quadratic program is a lasso,

.. math:: \min_\omega \tfrac12 \omega' R \omega - \omega_j + \gamma \|\omega\|_1,

whose stationarity is the constraint.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.stats import norm

from .._progress import Line
from .._tables import Result, counted
from ..data import options
from ..data.intervals import add_tests, check_level, interval_table, with_ratios
from ..estimators.fitted import fitted_of
from ..estimators.models.base import model_of
from ..information.inverse import CONSTANT
from ..information.views import view_of
from ..penalties import ElasticNet
from ..selection.criteria import basis_of_rows
from ..solver.minimize import Quadratic, minimize_on_model
from ._covariance import UNKNOWN, invert_information, warn_of
from ._rows import documented, open_fit, open_rows, require_absent, require_selection

METHODS = ("auto", "inverse", "quadratic")
MOST_PER_OBSERVATION = 0.2  # columns, for which the inverse is taken
MOST_COLUMNS = 5_000  # whose information, a matrix, takes 200 MB
SHARE = 0.5  # of sqrt(log p / n), the constraint
ACCURACY, ALLOWED = 1e-7, 1e-3  # share of the constraint: when to stop, and what is no solution


@dataclass(frozen=True, eq=False, repr=False)
class DebiasedResult(Result):
    """Penalized coefficients with their bias removed, and intervals; made by `debiased`.

    Attributes
    ----------
    coef : ndarray of shape (n_coef,)
        Debiased coefficients; NaN where the data do not determine one.
    penalized : ndarray of shape (n_coef,)
        Coefficients of the fit.
    standard_errors : ndarray of shape (n_coef,)
        Of the debiased coefficients.
    level : float
        Confidence level of the intervals.
    method : str
        How the information was inverted, "inverse" or "quadratic".
    gamma : float
        Constraint of the quadratic program; 0 for the inverse.
    feature_names : ndarray of shape (n_coef,)
        Name of each coefficient.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, debiased
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 20, density=0.3, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.01).fit(data.X, data.y)
    >>> debiased(model, data.X, data.y)
    <DebiasedResult of 20 coefficients, 95% intervals, by the inverse>
    ...
    """

    coef: np.ndarray
    penalized: np.ndarray
    standard_errors: np.ndarray
    level: float
    method: str
    gamma: float
    feature_names: np.ndarray
    _effect: str | None = None

    _arrays: ClassVar[tuple[str, ...]] = ("coef", "penalized", "standard_errors", "feature_names")

    def _title(self) -> str:
        how = "the inverse" if self.method == "inverse" else f"gamma={self.gamma:.3g}"
        return (
            f"DebiasedResult of {counted(len(self.coef), 'coefficients')}, {100 * self.level:g}% "
            f"intervals, by {how}"
        )

    @property
    def intervals(self):
        """Confidence intervals: a DataFrame by feature with ``coef``, ``lower`` and ``upper``."""
        return interval_table(self.coef, self.standard_errors, self.level, norm, self.feature_names)

    def summary(self):
        """Table of coefficients with their standard errors, tests and intervals.

        Returns
        -------
        table : pandas.DataFrame
            A row for each coefficient, indexed by its name: ``coef``, ``penalized`` (that of the
            fit), ``standard_error``, ``z``, ``p_value`` and the bounds ``lower`` and ``upper``;
            where exp(coef) is a ratio, also that ratio and its bounds.
        """
        table = self.intervals
        add_tests(table, self.standard_errors, norm)
        table.insert(1, "penalized", self.penalized)
        return with_ratios(table, self._effect)


@documented
def debiased(
    estimator, X, y, *, level=0.95, method="auto", gamma=None, **fit_params
) -> DebiasedResult:
    """Confidence intervals and tests of all coefficients of a lasso or other penalized fit.

    Parameters
    ----------
    estimator : fitted estimator of this package, or pipeline
        With a penalty, best one that predicts well.
    <<rows_of_fit>>
    level : float, default=0.95
        Confidence level of the intervals.
    method : {"auto", "inverse", "quadratic"}, default="auto"
        How the information is inverted: exactly, or by a quadratic program for each coefficient,
        which also works with more columns than rows. By default exactly where there are five or
        more observations a column, events where models compare rows at their times or within
        groups.
    gamma : float, optional
        Largest entry of the inverse times the information less the identity, in the units of a
        correlation, that the quadratic program allows; by default half of the square root of
        log(n_coef) over the number of observations. Smaller ones leave less bias, wider intervals,
        and may not be possible.
    <<more_of_fit>>

    Returns
    -------
    result : DebiasedResult
        Debiased coefficients, standard errors, intervals and tests.

    See Also
    --------
    wald : For fits without a penalty.
    profile_likelihood : For one or a few columns that are left out of the penalty.

    Notes
    -----
    What is assumed: the model, few enough effects (their number times the logarithm of the number
    of columns is small beside the square root of that of observations), and for "quadratic" that
    each column depends on few others, given the rest. Intervals are of one coefficient each, not
    all together. The dispersion of a linear model is that of the fit's residuals.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, debiased
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 20, density=0.3, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.01).fit(data.X, data.y)
    >>> table = debiased(model, data.X, data.y).summary()
    >>> table.columns.tolist()
    ['coef', 'penalized', 'standard_error', 'z', 'p_value', 'lower', 'upper', 'hazard_ratio',
     'hazard_ratio_lower', 'hazard_ratio_upper']
    >>> bool((table["coef"].abs() > table["penalized"].abs()).mean() > 0.9)
    True
    """
    level = check_level(level)
    options.choice(method, "method", METHODS)
    estimator, X = open_fit(estimator, X)
    require_absent(estimator, "debiased", ("bounds",))
    require_selection(estimator, "debiased")
    rows = open_rows(estimator, X, y, fit_params)
    basis = basis_of_rows(estimator, rows)
    n_coef, n = rows.n_coef, basis.n_observations
    if method == "auto":
        method = "inverse" if n_coef <= MOST_PER_OBSERVATION * n else "quadratic"
    _check_size(method, n_coef, n)
    gamma, deviation = _check_gamma(gamma, method, n_coef, n), _deviation(estimator, rows, basis)
    rows.session.start(coef := estimator.coef_)
    slope, view = rows.session.gradient(np.arange(n_coef)), view_of(rows)
    if method == "inverse":
        inverse = invert_information(view)
        coef = inverse.move(coef)
        step, variance = inverse.matrix @ slope, np.diagonal(inverse.matrix)
        known = inverse.identified
    else:
        step, variance, known = _solve_programs(view, slope, gamma)
    error = np.sqrt(variance) * deviation
    return DebiasedResult(
        coef=np.where(known, coef + step, np.nan),
        penalized=estimator.coef_.copy(),
        standard_errors=np.where(known, error, np.nan),
        level=level,
        method=method,
        gamma=gamma,
        feature_names=fitted_of(estimator).names,
        _effect=model_of(estimator).effect,
    )


def _solve_programs(view, slope, gamma):
    """Steps and variances of all coefficients, and which of them the data speak of."""
    estimator, (information, size) = view.rows.estimator, view.information()
    known = np.diagonal(information) > CONSTANT * size
    warn_of(estimator, ~known, UNKNOWN)
    some, names = np.flatnonzero(known), fitted_of(estimator).names
    unit = 1.0 / np.sqrt(np.diagonal(information)[some])
    R = np.ascontiguousarray(information[np.ix_(some, some)] * np.outer(unit, unit))
    columns, ones = np.arange(len(some)), np.ones(len(some))
    penalty = ElasticNet().at(gamma, ones, np.zeros(len(some), bool))
    step, variance = np.zeros(len(known)), np.zeros(len(known))
    with Line("debiased", len(some), "columns", estimator.verbose > 0 or None) as line:
        for a, j in enumerate(some):
            omega, target = np.zeros(len(some)), np.zeros(len(some))
            target[a] = 1.0
            model, start = Quadratic.of_matrix(R, ones), (omega, target.copy())
            minimize_on_model(model, penalty, columns, *start, ones, ACCURACY * gamma)
            product = R @ omega
            if not np.abs(product - target).max() <= gamma * (1.0 + ALLOWED):
                raise ValueError(
                    f"`gamma` is {gamma:.3g}, and no combination of columns tells `{names[j]}` "
                    "from the others as closely; pass a larger one, below 1."
                )
            step[j] = unit[a] * (omega @ (unit * slope[some]))
            variance[j] = unit[a] ** 2 * (omega @ product)
            line.step()
    return step, variance, known


def _deviation(estimator, rows, basis):
    """Standard deviation of the errors, 1 where the likelihood knows it."""
    if not basis.has_dispersion:
        return 1.0
    n_used = np.count_nonzero(estimator.coef_ - basis.rest) + int(rows.problem.has_intercept)
    df = np.count_nonzero(rows.weight) - n_used
    if df < 1:
        raise ValueError(
            f"the fit has {n_used:,} parameters for {np.count_nonzero(rows.weight):,} rows, so "
            "that nothing is left to estimate the variance of the errors from; fit with a larger "
            "alpha."
        )
    return np.sqrt(-2.0 * estimator.log_likelihood_ / df)


def _check_size(method, n_coef, n):
    if n_coef > MOST_COLUMNS:
        raise ValueError(
            f"the model has {n_coef:,} coefficients, and debiased takes a matrix of at most "
            f"{MOST_COLUMNS:,} columns; select columns first on other rows, or take "
            "`profile_likelihood` of a few that are left out of the penalty."
        )
    if method == "inverse" and n_coef >= n:
        raise ValueError(
            f"the model has {n_coef:,} coefficients and {n:,.0f} observations (events, where rows "
            'are compared), which do not determine an inverse; take method="quadratic".'
        )


def _check_gamma(gamma, method, n_coef, n) -> float:
    if method == "inverse":
        if gamma is not None:
            raise ValueError('`gamma` is for method="quadratic"; leave it out.')
        return 0.0
    if gamma is None:
        return float(min(SHARE * np.sqrt(np.log(max(n_coef, 2)) / n), 0.99))
    return options.number(gamma, "gamma", "must lie between 0 and 1", above=0, below=1)
