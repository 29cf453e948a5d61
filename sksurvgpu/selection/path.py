"""Regularization paths: one fit at descending penalties, each started from the one before."""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass, field, replace
from inspect import signature
from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .._versioned import Versioned
from ..estimators._base import PenalizedModel

__all__ = ["Path", "fit_path"]


@dataclass(frozen=True, eq=False)
class Path(Versioned):
    """Fits of one model at descending penalties; made by `fit_path`, drawn by `PathDisplay`.

    Attributes
    ----------
    alphas : ndarray of shape (n_alphas,)
        Penalties, descending, on the scale of the estimator's ``alpha``.
    coefs : ndarray of shape (n_coef, n_alphas)
        Coefficients; a row for each entry of ``coef_``.
    objective : ndarray of shape (n_alphas,)
        Minimum found of the objective, a mean.
    log_likelihood : ndarray of shape (n_alphas,)
        Log-likelihood, a sum.
    df : ndarray of shape (n_alphas,), int
        Number of coefficients that are not zero.
    kkt : ndarray of shape (n_alphas,)
        Largest violation of the optimality conditions, in units of alpha.
    kkt_se : ndarray of shape (n_alphas,)
        The same in standard errors.
    dual_gap : ndarray of shape (n_alphas,)
        Upper bound of `objective` minus the optimum; NaN where some column is unpenalized.
    n_iter : ndarray of shape (n_alphas,), int
        Outer iterations.
    converged : ndarray of shape (n_alphas,), bool
        Whether the violations met the tolerance, as ``converged_`` of a fit.
    alpha_max : float
        Least alpha at which all penalized coefficients are zero.
    feature_names : ndarray of shape (n_coef,)
        Name of each row of `coefs`.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, fit_path
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> path = fit_path(CoxLassoCCD(), data.X, data.y, alphas=[0.05, 0.02])
    >>> path.df.tolist() == [int((path.at(i).coef_ != 0).sum()) for i in range(2)]
    True
    >>> path.to_frame().shape
    (2, 50)
    """

    alphas: np.ndarray
    coefs: np.ndarray
    objective: np.ndarray
    log_likelihood: np.ndarray
    df: np.ndarray
    kkt: np.ndarray
    kkt_se: np.ndarray
    dual_gap: np.ndarray
    n_iter: np.ndarray
    converged: np.ndarray
    alpha_max: float
    feature_names: np.ndarray
    _fitted: Any = field(repr=False)  # the estimator, fitted at the last penalty
    _solutions: tuple = field(repr=False)  # without their coefficients, which are in `coefs`
    _infinite: tuple = field(repr=False)  # `infinite_` at each penalty

    def __repr__(self) -> str:
        return (
            f"<Path of {len(self)} fits, alpha {self.alphas[0]:.3g} to {self.alphas[-1]:.3g}, "
            f"{self.df[0]:,} to {self.df[-1]:,} of {len(self.coefs):,} coefficients>"
        )

    def __len__(self) -> int:
        return len(self.alphas)

    def at(self, index: int):
        """Fitted estimator at one penalty of the path.

        Parameters
        ----------
        index : int
            Position in `alphas`.

        Returns
        -------
        estimator : object
            As if fitted with ``alpha=alphas[index]``.
        """
        fitted = copy.copy(self._fitted)
        fitted.alpha = float(self.alphas[index])
        solution = self._solutions[index]
        fitted._adopt_solution(replace(solution, coef=self.coefs[:, index]))
        fitted.infinite_ = self._infinite[index]
        return fitted

    def estimator(self, alpha: float):
        """Fitted estimator at a penalty of the path.

        Parameters
        ----------
        alpha : float
            One of `alphas`, up to rounding; nothing is interpolated.

        Returns
        -------
        estimator : object
            As if fitted with this `alpha`.
        """
        index = int(np.argmin(np.abs(self.alphas - alpha)))
        if not np.isclose(self.alphas[index], alpha, rtol=1e-6, atol=0.0):
            raise ValueError(
                f"`alpha` is {alpha:g}, which the path does not have (nearest: "
                f"{self.alphas[index]:g}); pass it in `alphas` of fit_path, or fit the estimator."
            )
        return self.at(index)

    def to_frame(self):
        """Table of coefficients.

        Returns
        -------
        table : pandas.DataFrame
            A row for each penalty, indexed by alpha; a column for each coefficient.
        """
        from pandas import DataFrame, Index

        return DataFrame(
            self.coefs.T, index=Index(self.alphas, name="alpha"), columns=self.feature_names
        )


def fit_path(
    estimator,
    X,
    y,
    *,
    alphas=None,
    n_alphas=100,
    alpha_min_ratio=None,
    **fit_params,
) -> Path:
    """Fit an estimator at descending penalties.

    Parameters
    ----------
    estimator : estimator of this package
        Model and options; its ``alpha`` and ``warm_start`` are not used, and it is not changed.
    X : scipy sparse matrix, ndarray, DataFrame or Design, of shape (n_samples, n_features)
        Covariates.
    y : ndarray of shape (n_samples,)
        Outcome, as the estimator's ``fit`` takes it.
    alphas : array-like, optional
        Penalties, in any order; by default a geometric sequence from the least alpha that sets
        all penalized coefficients to zero.
    n_alphas : int, default=100
        Length of that sequence.
    alpha_min_ratio : float, optional
        Its last value over its first; by default 1e-4, or 1e-2 where X has fewer rows than
        columns.
    **fit_params : array-like of shape (n_samples,), optional
        Further arguments of the estimator's ``fit``, such as `sample_weight` or `strata`.

    Returns
    -------
    path : Path
        Coefficients and diagnostics at every penalty.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, fit_path
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> path = fit_path(CoxLassoCCD(), data.X, data.y, n_alphas=20, alpha_min_ratio=0.05)
    >>> path.coefs.shape, int(path.df[0]), bool(path.converged.all())
    ((50, 20), 0, True)
    >>> path.at(10).coef_.shape
    (50,)
    """
    fitted = copy_of(estimator, "fit_path", fit_params)
    if alphas is None:
        _check_grid(n_alphas, alpha_min_ratio)
    else:
        alphas = check_alphas(alphas)
    prepared = fitted._prepare(X, y, **fit_params)
    if alphas is None:
        alphas = alpha_grid(find_alpha_max(prepared), n_alphas, alpha_min_ratio, prepared.problem)
    solutions = prepared.solve(alphas)[0]
    fitted.alpha = float(alphas[-1])
    fitted._adopt(prepared, solutions[-1])
    path = _gather(fitted, alphas, solutions, _find_infinite(fitted, prepared, solutions))
    if not path.converged.all():
        failed = int(np.argmin(path.converged))
        warnings.warn(
            f"{np.count_nonzero(~path.converged)} of {len(alphas)} fits of the path did not "
            "converge, the first one: " + path.at(failed)._explain_failure(solutions[failed]),
            ConvergenceWarning,
            stacklevel=2,
        )
    return path


def _find_infinite(fitted, prepared, solutions):
    """`infinite_` at every penalty; `fitted` has that of the last."""
    before = fitted.infinite_
    if len(solutions) > 1 and (not fitted.alpha or not prepared.batch.penalty.is_convex):
        before = prepared.find_infinite(prepared.batch.factor == 0)  # fewer columns are free
    found = [fitted.infinite_]
    for solution in solutions[-2::-1]:  # larger penalties let go of less
        more = (found[-1] & ~before).any()
        found.append(before | prepared.find_unheld(solution) if more else before)
    return tuple(found[::-1])


def _gather(fitted, alphas, solutions, infinite):
    scale = 1.0 / fitted._total_weight

    def of(name):
        return np.array([getattr(solution, name) for solution in solutions])

    coefs = np.ascontiguousarray(of("coef").T)
    return Path(
        alphas=alphas,
        coefs=coefs,
        objective=of("objective") * scale,
        log_likelihood=of("loglik"),
        df=np.count_nonzero(coefs, axis=0),
        kkt=of("kkt") * scale,
        kkt_se=of("score"),
        dual_gap=of("gap") * scale,
        n_iter=of("n_iter"),
        converged=of("converged"),
        alpha_max=fitted.alpha_max_,
        feature_names=np.array(fitted._coef_names(), dtype=object),
        _fitted=fitted,
        _solutions=tuple(replace(solution, coef=None, null=None) for solution in solutions),
        _infinite=infinite,
    )


def copy_of(estimator, caller, fit_params):
    """Unfitted copy of an estimator, after a check of it and of the arguments for its ``fit``."""
    name = type(estimator).__name__
    if not isinstance(estimator, PenalizedModel):
        raise TypeError(
            f"`estimator` is of type {name}; pass an estimator of this package such as "
            "CoxLassoCCD, and transform X beforehand."
        )
    if "alpha" not in estimator.get_params():
        model = type(estimator).__bases__[-1].__name__
        raise TypeError(
            f"`estimator` is of type {name}, which chooses its penalty itself; pass "
            f"{model}(alpha=...), with the `alpha_` of a fitted {name} if that is what you want."
        )
    known = [name for name in signature(estimator.fit).parameters if name not in ("X", "y")]
    for given in fit_params:
        if given not in known:
            raise TypeError(
                f"`{given}` is no argument of {caller} and {name}.fit; the latter takes "
                f"{', '.join(known)}."
            )
    copied = clone(estimator)
    copied._validate_params()
    return copied


def find_alpha_max(prepared):
    """Least alpha without a penalized coefficient."""
    null = prepared.null_model()
    if null.lam_max == 0.0:
        raise ValueError(
            "no column can enter the model: all are unpenalized, constant or unrelated to the "
            "outcome, so there is no path; pass `alphas`, or fit the estimator itself."
        )
    return null.lam_max / prepared.total_weight


def _check_grid(n_alphas, alpha_min_ratio):
    if not _is_number(n_alphas) or n_alphas < 1 or int(n_alphas) != n_alphas:
        raise ValueError(f"`n_alphas` is {n_alphas!r}, must be a whole number of at least 1.")
    if alpha_min_ratio is None:
        return
    if not _is_number(alpha_min_ratio) or not 0 < alpha_min_ratio < 1:
        raise ValueError(f"`alpha_min_ratio` is {alpha_min_ratio!r}, must lie between 0 and 1.")


def alpha_grid(alpha_max, n_alphas, alpha_min_ratio, problem):
    """Geometric sequence from `alpha_max` down."""
    if alpha_min_ratio is None:
        alpha_min_ratio = 1e-4 if problem.design.n_rows > problem.n_columns else 1e-2
    return alpha_max * np.geomspace(1.0, alpha_min_ratio, int(n_alphas))


def _is_number(value):
    return isinstance(value, Real) and not isinstance(value, bool) and np.isfinite(value)


def check_alphas(alphas):
    """Distinct penalties that a user gave, descending."""
    values = np.unique(np.asarray(alphas, dtype=np.float64))[::-1]
    if np.ndim(alphas) != 1 or not len(values):
        raise ValueError(
            f"`alphas` has shape {np.shape(alphas)}; pass a list of one or more penalties."
        )
    if not (np.isfinite(values) & (values >= 0)).all():
        raise ValueError("`alphas` has values that are negative or not finite; remove them.")
    return values
