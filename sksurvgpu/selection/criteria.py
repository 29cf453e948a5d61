r"""Information criteria of penalized fits: what the log-likelihood pays for its coefficients.

With the log-likelihood :math:`\ell`, degrees of freedom d, n observations, and s of P penalized
coefficients that are not zero,

.. math::

    \mathrm{AIC} = -2\ell + 2d, \quad \mathrm{BIC} = -2\ell + d\log n, \quad
    \mathrm{EBIC} = \mathrm{BIC} + 2\gamma \log\binom{P}{s}

(Akaike 1973; Schwarz 1978; Chen and Chen 2008).  Degrees of freedom of the coefficients are
:math:`\mathrm{tr}[H(H + D)^{-1}]` over those that are free to move: not at a kink of the penalty,
not at a bound.  H is their information, D the curvature of the penalty.  Without curvature this is
their number (Zou, Hastie and Tibshirani 2007), for a ridge it is the trace of the smoother.  Where
a penalty is concave, D counts as 0.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pandas import DataFrame
from scipy.special import betaln

from ..data.options import number
from ..estimators._prepared import sizes_of_rows
from ..estimators.fitted import fitted_of
from ..estimators.models.base import model_of
from ..inference._rows import documented, open_fit, open_rows, require_selection
from ..information.inverse import invert
from ..information.views import view_of
from ..routes import IN_ROWS, PLAIN, Shifted, Standardized

CRITERIA = ("aic", "bic", "ebic")
KINK = 1e-9  # relative difference of two slopes that is not rounding
SINGULAR = 1e-11  # eigenvalue of a matrix scaled to 1 that is rounding
MOST_COLUMNS = 10_000  # whose matrix of 800 MB takes minutes to decompose


@dataclass(frozen=True, eq=False)
class Basis:
    """Sizes and penalties that criteria need beside a fit's coefficients and log-likelihood."""

    family: Any  # of penalties; None where they are no function of the coefficients alone
    rest: np.ndarray  # where coefficients are kept by the penalty
    scale: np.ndarray  # what it takes columns to be divided by
    factor: np.ndarray  # (n_coef,)
    total_weight: float
    n_observations: float  # of the BIC
    n_others: int  # parameters beside the coefficients: an intercept, a variance
    has_dispersion: bool

    def penalty(self, alpha):
        """Penalty at a strength on the mean scale, of coefficients times `scale`."""
        if self.family is not None:
            none = np.zeros(len(self.factor), bool)
            penalty = self.family.at(alpha * self.total_weight, self.factor, none)
            if not penalty.needs_matrix:  # else it is of differences, and its pieces say nothing
                return penalty
        raise ValueError(
            "what coefficients pay under this `penalty` is not known by column or group; take "
            "cross-validation or `stability_selection`."
        )

    def log_likelihood(self, loglik):
        """Log-likelihood at its maximum over a variance that is not known."""
        if not self.has_dispersion:
            return loglik
        weight = self.total_weight
        with np.errstate(divide="ignore"):
            return -0.5 * weight * (np.log(2.0 * np.pi * -2.0 * loglik / weight) + 1.0)


def basis_of(estimator, rows, sizes) -> Basis:
    """Basis that the criteria of all fits to some data share.

    These are `Prepared` or `FittedRows`; `sizes` are those of the former.
    """
    problem, batch, route = rows.problem, rows.batch, rows.route
    rest, scale = route.rest(problem), route.scale(problem)
    while isinstance(route, Shifted | Standardized):
        route = route.inner
    total, n_events = sizes
    # A conditional likelihood is a product over events; other rows are what they are compared with.
    is_conditional = problem.likelihood.pattern.is_conditional
    has_dispersion = model_of(estimator).has_dispersion
    return Basis(
        family=batch.penalty.in_units(scale) if route in (PLAIN, IN_ROWS) else None,
        rest=rest,
        scale=scale,
        factor=batch.factor,
        total_weight=total,
        n_observations=n_events if is_conditional else total,
        n_others=int(problem.has_intercept) + int(has_dispersion),
        has_dispersion=has_dispersion,
    )


def basis_of_rows(estimator, rows) -> Basis:
    """Basis of the criteria of a fitted estimator, from its rows."""
    return basis_of(estimator, rows, sizes_of_rows(rows.outcome, rows.batch))


@documented
def information_criteria(estimator, X, y, *, gamma=1.0, n_observations=None, **fit_params):
    """AIC, BIC and EBIC of a fit.

    For a path call ``path.information_criteria()``; ``path.best("bic")`` is the fit with the
    smallest BIC.

    Parameters
    ----------
    estimator : fitted estimator of this package, or pipeline
        With a penalty by column or group (not one that refits, or has columns of its own).
    <<rows_of_fit>>
    gamma : float, default=1.0
        Of the EBIC, from 0 (the BIC) to 1, which controls false discoveries however fast the
        number of columns grows with that of observations.
    n_observations : float, optional
        The n of the BIC. By default the events of models that compare rows within risk sets,
        persons or strata (Cox, Fine-Gray, case series, conditional models), as Volinsky and
        Raftery (2000) have it, and the rows of linear, logistic and Poisson models, both
        weighted.
    <<more_of_fit>>

    Returns
    -------
    criteria : pandas.Series
        ``alpha``, ``df``, ``log_likelihood``, ``aic``, ``bic`` and ``ebic``. An intercept and the
        variance of a linear model count among the degrees of freedom, and the log-likelihood of a
        linear model is that at the estimate of its variance: without a penalty AIC and BIC are
        those of other software. (Those of Poisson models, whose log-likelihood is without
        ``log(y!)`` here, are so up to a constant of the data.)

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, information_criteria
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 20, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.01).fit(data.X, data.y)
    >>> criteria = information_criteria(model, data.X, data.y)
    >>> bool(criteria["df"] == (model.coef_ != 0).sum())
    True
    >>> bool(criteria["aic"] == -2 * model.log_likelihood_ + 2 * criteria["df"])
    True
    """
    estimator, X = open_fit(estimator, X)
    require_selection(estimator, "information_criteria")
    rows = open_rows(estimator, X, y, fit_params)
    basis = basis_of_rows(estimator, rows)
    fitted, coef = fitted_of(estimator), estimator.coef_
    alpha = fitted.alpha
    if len(fitted.penalized) or estimator.bounds is not None:
        df = _degrees_of_freedom(basis, alpha, coef, lambda: view_of(rows))
    else:  # nothing chooses among columns; near infinite coefficients information vanishes
        df = invert(*view_of(rows.at(np.zeros(rows.n_coef))).information()).rank
    loglik = np.array([estimator.log_likelihood_])
    table = _tabulate(basis, [alpha], coef[:, None], loglik, [df], gamma, n_observations)
    return table.iloc[0].rename(None)


def criteria_of_path(path, basis, X, y, gamma, n_observations, fit_params):
    """Table of the criteria of all fits of a path; see `Path.information_criteria`."""
    views = _open_views(path, X, y, fit_params)
    if path.gamma < 1.0:  # of what is selected, a share is fitted without a penalty
        df = [np.count_nonzero(coef - basis.rest) for coef in path.coefs.T]
    else:
        df = [
            _degrees_of_freedom(basis, alpha, coef, lambda coef=coef: views(coef))
            for alpha, coef in zip(path.alphas, path.coefs.T, strict=True)
        ]
    logliks = path.log_likelihood
    return _tabulate(basis, path.alphas, path.coefs, logliks, df, gamma, n_observations)


def _open_views(path, X, y, fit_params):
    """Function from coefficients to the view of the path's rows there."""
    rows = None

    def view_at(coef):
        nonlocal rows
        if rows is None:
            if X is None or y is None:
                raise ValueError(
                    "the penalty has curvature (a quadratic part, or norms of groups), so that "
                    "degrees of freedom depend on the data; pass `X` and `y` of the path, and what "
                    "else fit_path was given."
                )
            rows = open_rows(*open_fit(path.at(len(path) - 1), X), y, fit_params)
        rows.session.start(np.ascontiguousarray(coef))
        return view_of(rows)

    return view_at


def _degrees_of_freedom(basis, alpha, coef, make_view) -> float:
    """Degrees of freedom of coefficients, as the penalty has them.

    Rows are needed where it has curvature.
    """
    penalty, coef = basis.penalty(alpha), (coef - basis.rest) * basis.scale
    pieces = penalty.pieces(coef)
    is_smooth = np.isclose(pieces.left, pieces.right, rtol=KINK, atol=0.0)
    # a free coefficient is exactly zero where its column says nothing
    moves = is_smooth & ((coef != 0) | (pieces.curvature != 0))
    columns = np.flatnonzero(moves)
    pieces = pieces._replace(curvature=np.maximum(pieces.curvature, 0.0))
    if not pieces.curvature[moves].any():
        return float(len(columns))
    if len(columns) > MOST_COLUMNS:
        raise ValueError(
            f"degrees of freedom under a quadratic penalty need a matrix of {len(columns):,} x "
            f"{len(columns):,} numbers, and {MOST_COLUMNS:,} is the most; take l1_ratio=1, or "
            "cross-validation."
        )
    information, _ = make_view().information(columns)
    information = information / np.outer(basis.scale[columns], basis.scale[columns])
    whole = information.copy()
    penalty.add_curvature(whole, columns, pieces, coef, penalty.columns)
    return _trace_of_smoother(information, whole)


def _trace_of_smoother(information, whole) -> float:
    """Trace of H (H + D)^-1, `whole` being H + D, over the directions in which that is not zero."""
    diagonal = np.diagonal(whole)
    some = np.flatnonzero(diagonal > 0)
    unit = 1.0 / np.sqrt(diagonal[some])
    scaled = np.outer(unit, unit)
    values, vectors = np.linalg.eigh(whole[np.ix_(some, some)] * scaled)
    kept = values > SINGULAR
    vectors = vectors[:, kept] / np.sqrt(values[kept])
    smoothed = vectors.T @ (information[np.ix_(some, some)] * scaled) @ vectors
    return float(np.trace(smoothed))


def _tabulate(basis, alphas, coefs, logliks, df, gamma, n_observations):
    gamma = number(gamma, "gamma", "must lie between 0 (the BIC) and 1", least=0, most=1)
    n = basis.n_observations
    if n_observations is not None:
        n = number(n_observations, "n_observations", "must be a positive number", above=0)
    df = np.asarray(df) + basis.n_others
    loglik = basis.log_likelihood(np.asarray(logliks))
    if basis.has_dispersion:  # nothing is left to estimate it from
        loglik = np.where(df < basis.total_weight, loglik, np.nan)
    is_penalized = basis.factor > 0
    bic = -2.0 * loglik + df * np.log(n)
    moved = (coefs.T - basis.rest).T
    n_selected = np.count_nonzero(moved[is_penalized], axis=0)
    n_penalized = np.count_nonzero(is_penalized)
    # the logarithm of the binomial coefficient
    ways = -np.log1p(n_penalized) - betaln(n_selected + 1.0, n_penalized - n_selected + 1.0)
    return DataFrame(
        {
            "alpha": alphas,
            "df": df,
            "log_likelihood": loglik,
            "aic": -2.0 * loglik + 2.0 * df,
            "bic": bic,
            "ebic": bic + 2.0 * gamma * ways,
        }
    )
