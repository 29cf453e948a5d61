r"""Marginal false discovery rates of what a lasso selects.

With the slope :math:`g_j` of the log-likelihood along a column at the fit, and its information
:math:`C_j` there, the others held, :math:`z_j = g_j + C_j\beta_j` is what the column would have
for a slope without its own coefficient.  It is selected where :math:`z_j` is beyond the threshold
of its penalty.  If nothing but chance relates the column to the outcome, given all others, z is
normal with mean 0 and variance :math:`C_j` (times that of the errors of a linear model), and

.. math:: \sum_j \Phi(-t^+_j / \sqrt{C_j}) + \Phi(t^-_j / \sqrt{C_j})

columns are expected to be selected by chance (Breheny 2019; Miller and Breheny 2019).
The thresholds are in units of the slope: no column needs to be standardized.  The local rate of a
column compares the densities of :math:`z_j / \sqrt{C_j}` under chance and of those of all columns
(Miller and Breheny 2023).
"""

import numpy as np
from pandas import DataFrame, Index
from scipy.special import ndtr

from .._calls import renamed
from ..estimators.fitted import fitted_of
from ..estimators.pipelines import split_pipeline
from ..information.views import view_of
from ..penalties.base import Penalty
from ..selection.criteria import basis_of_rows
from ..selection.path import Path
from ._rows import documented, open_fit, open_rows, require_selection

N_GRID, BEYOND = 512, 3.0  # points of a density, and bandwidths beyond the outermost z


@renamed(fitted="estimator")
@documented
def false_discovery(estimator, X, y, **fit_params):
    """Expected number and share of columns that a fit, or every fit of a path, selects by chance.

    Parameters
    ----------
    estimator : Path or fitted estimator of this package, or pipeline
        With a lasso or another penalty that leaves columns out.
    <<rows_of_fit>>
    **fit_params : array-like of shape (n_samples,), optional
        What else ``fit`` or `fit_path` was given, such as `sample_weight`, `strata` or `offset`.

    Returns
    -------
    table : pandas.DataFrame
        A row for each penalty: ``alpha``; ``n_selected``, the penalized coefficients that are not
        zero; ``expected_false``, how many are expected by chance, at most `n_selected`; and
        ``rate``, their share, 0 where nothing is selected. NaN where a linear model has no degrees
        of freedom left for its variance.

    See Also
    --------
    local_false_discovery : The same for each column of a fit.
    stability_selection : Bounds that rely on less.

    Notes
    -----
    False is what has no effect *marginally*: a column is not false that is correlated with one that
    has an effect. The number is a sum over all penalized columns, also those that have an effect,
    which makes it too large by a little.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, false_discovery, fit_path
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, density=0.2, random_state=0)
    >>> path = fit_path(CoxLassoCCD(), data.X, data.y, n_alphas=20)
    >>> table = false_discovery(path, data.X, data.y)
    >>> table.columns.tolist()
    ['alpha', 'n_selected', 'expected_false', 'rate']
    >>> chosen = path.at(int(table.index[table["rate"] <= 0.1].max()))
    >>> int((chosen.coef_ != 0).sum())
    8
    """
    estimators = [estimator]
    if isinstance(estimator, Path):
        estimators = [estimator.at(i) for i in range(len(estimator))]
    model, X = open_fit(estimators[-1], X)
    estimators = [*(split_pipeline(each)[1] for each in estimators[:-1]), model]
    require_selection(model, "false_discovery")
    rows = open_rows(model, X, y, fit_params)
    records = [_expect(each, rows) for each in estimators]
    return DataFrame(records, columns=["alpha", "n_selected", "expected_false", "rate"])


@documented
def local_false_discovery(estimator, X, y, **fit_params):
    """Local false discovery rate: probability that a column is related by chance only, by column.

    Parameters
    ----------
    estimator : fitted estimator of this package, or pipeline
        With a lasso or another penalty that leaves columns out, and dozens of penalized columns:
        the rates rest on a density of all their statistics.
    <<rows_of_fit>>
    <<more_of_fit>>

    Returns
    -------
    table : pandas.DataFrame
        A row for each penalized coefficient, indexed by feature: ``coef``; ``z``, normal with
        variance 1 where only chance relates the column to the outcome; ``local_rate``; and whether
        the column is ``selected``.

    See Also
    --------
    false_discovery : Of all that is selected.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, local_false_discovery
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, density=0.2, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.02).fit(data.X, data.y)
    >>> table = local_false_discovery(model, data.X, data.y)
    >>> bool(data.coef[(table["local_rate"] < 0.05).to_numpy()].all())
    True
    """
    estimator, X = open_fit(estimator, X)
    require_selection(estimator, "local_false_discovery")
    rows = open_rows(estimator, X, y, fit_params)
    basis, information, deviation = _measure(estimator, rows)
    _at_rest(basis, fitted_of(estimator).alpha)
    delta = estimator.coef_ - basis.rest
    some = np.flatnonzero(basis.factor > 0)
    slope = rows.session.gradient(np.arange(rows.n_coef)) + information * delta
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(information > 0, slope / (deviation * np.sqrt(information)), 0.0)[some]
    names = fitted_of(estimator).names[some]
    return DataFrame(
        {
            "coef": estimator.coef_[some],
            "z": z,
            "local_rate": _local_rate(z),
            "selected": delta[some] != 0,
        },
        index=Index(names, name="feature"),
    )


def _measure(estimator, rows):
    """Basis of a fit, information of its columns, and standard deviation of the errors."""
    rows.session.start(estimator.coef_)
    basis = basis_of_rows(estimator, rows)
    information = np.maximum(view_of(rows).diagonal(), 0.0)
    deviation = 1.0
    if basis.has_dispersion:
        n_rows = np.count_nonzero(rows.weight)
        n_coef = np.count_nonzero(estimator.coef_ - basis.rest)
        df = n_rows - n_coef - int(rows.problem.has_intercept)
        deviation = np.sqrt(-2.0 * estimator.log_likelihood_ / df) if df > 0 else np.nan
    return basis, information, deviation


def _expect(estimator, rows):
    """Row of the table for one fit."""
    basis, information, deviation = _measure(estimator, rows)
    alpha = fitted_of(estimator).alpha
    some = basis.factor > 0
    left, right = _at_rest(basis, alpha)
    n_selected = int(np.count_nonzero((estimator.coef_ - basis.rest)[some]))
    error = deviation * np.sqrt(information[some])
    with np.errstate(divide="ignore", invalid="ignore"):
        chance = ndtr(-right[some] / error) + ndtr(left[some] / error)
    chance = np.where(information[some] > 0, chance, 0.0)
    expected = min(float(chance.sum()), n_selected) if chance.sum() >= 0 else np.nan
    return alpha, n_selected, expected, expected / n_selected if n_selected else 0.0


def _at_rest(basis, alpha):
    """Slopes at zero on both sides, of a penalty that is a sum over columns."""
    penalty = basis.penalty(alpha)
    if type(penalty) is not Penalty:
        raise ValueError(
            "columns that are selected in groups have no thresholds of their own, on which false "
            "discovery rates rest; take `stability_selection`."
        )
    return penalty.at_rest.left * basis.scale, penalty.at_rest.right * basis.scale


def _local_rate(z):
    """Normal density over that of all, at each."""
    if len(z) < 2 or not np.isfinite(z).all():
        return np.full(len(z), np.nan)
    low, high = np.quantile(z, [0.25, 0.75])
    spreads = np.array([z.std(ddof=1), (high - low) / 1.34])
    spread = spreads[spreads > 0].min(initial=np.inf)
    width = 0.9 * (spread if np.isfinite(spread) else 1.0) * len(z) ** -0.2  # Silverman's rule
    grid = np.linspace(z.min() - BEYOND * width, z.max() + BEYOND * width, N_GRID)
    density = np.array([np.exp(-0.5 * ((point - z) / width) ** 2).mean() for point in grid]) / width
    with np.errstate(divide="ignore"):
        rate = np.exp(-0.5 * z**2) / np.interp(z, grid, density)
    return np.minimum(rate, 1.0)
