"""Regularization paths: one fit at descending penalties, each started from the one before."""

import copy
from contextlib import closing
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from pandas import DataFrame, Index
from sklearn.exceptions import ConvergenceWarning

from .._tables import Result
from .._warnings import warn
from ..data.options import choice, flag
from ..data.partitioned import in_partitions, refuse_partitions
from ..estimators._docs import documented
from ..estimators._preparing import prepare
from ..estimators._report import explain_failure, name_infinite
from ..estimators.fitted import Fitted, adopt, fitted_of
from ..estimators.pipelines import join_steps
from .criteria import CRITERIA, Basis, basis_of, criteria_of_path
from .grid import alpha_grid, check_alphas, check_grid, find_alpha_max, open_copy, require_strength
from .relax import blend_path, require_blend, with_refits


@dataclass(frozen=True, eq=False, repr=False)
class Path(Result):
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
    gamma : float
        Share of the penalized fits in `coefs`, where these are relaxed; see `blend`.

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
    _fitted: Any  # the estimator, fitted at the last penalty
    _solutions: tuple  # without their coefficients, which are in `coefs`
    _infinite: tuple  # `infinite_` at each penalty
    _basis: Basis
    gamma: float = 1.0
    _refits: Any = None  # `relax.Refits`, where they were asked for
    _steps: Any = None  # transformers of a pipeline

    def __getstate__(self):
        return {**super().__getstate__(), "_refits": None}  # they hold the rows

    def _title(self) -> str:
        return (
            f"Path of {len(self)} fits, alpha {self.alphas[0]:.3g} to {self.alphas[-1]:.3g}, "
            f"{self.df[0]:,} to {self.df[-1]:,} of {len(self.coefs):,} coefficients"
        )

    def _head(self, n):
        shown = "df", "objective", "log_likelihood", "converged"
        columns = {name: getattr(self, name)[:n] for name in shown}
        return DataFrame(columns, Index(self.alphas[:n], name="alpha")), len(self)

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
            As if fitted with ``alpha=alphas[index]``; the path of a pipeline has pipelines.
        """
        if not isinstance(index, Integral):
            must = "must be a position in `alphas`; path.estimator(alpha) takes a penalty."
            raise TypeError(f"`index` is {index!r}, {must}")
        if not -len(self.alphas) <= index < len(self.alphas):
            raise IndexError(f"`index` is {index}; `alphas` has {len(self.alphas)} penalties.")
        fitted = copy.copy(self._fitted)
        fitted.alpha = float(self.alphas[index])
        require_blend(self, index)
        solution = replace(self._solutions[index], coef=self.coefs[:, index])
        adopt(fitted, fitted_of(fitted).at(solution, self._infinite[index]))
        return fitted if self._steps is None else join_steps(self._steps, fitted)

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

    def blend(self, gamma: float):
        """Relaxed path: `gamma` times these coefficients, the rest from fits without a penalty.

        The latter are fits of the columns that are not zero and of those without a penalty. What
        the path says of its objective (`objective`, `kkt`, `dual_gap`, `alpha_max`) stays that of
        the penalized fits; `log_likelihood` and predictions are those of the blend.

        Parameters
        ----------
        gamma : float
            Share of the penalized fits, from 0 to 1.

        Returns
        -------
        path : Path
            NaN where the selected columns have no fit without a penalty, of which `fit_path` has
            warned.
        """
        return blend_path(self, gamma)

    def information_criteria(self, X=None, y=None, *, gamma=1.0, n_observations=None, **fit_params):
        """AIC, BIC and EBIC of all fits.

        Parameters
        ----------
        X, y : optional
            Data of the path. Only penalties with a quadratic part or of groups need them, whose
            degrees of freedom are not a number of coefficients.
        gamma : float, default=1.0
            Of the EBIC, from 0 (the BIC) to 1.
        n_observations : float, optional
            The n of the BIC; by default the number of events or of rows, by model, as
            `information_criteria` has it.
        **fit_params : array-like of shape (n_samples,), optional
            With `X` and `y`, what else `fit_path` was given for the rows, such as `sample_weight`.

        Returns
        -------
        table : pandas.DataFrame
            A row for each penalty: ``alpha``, ``df``, ``log_likelihood``, ``aic``, ``bic`` and
            ``ebic``, of which the least is best; NaN where a linear model has as many degrees of
            freedom as rows, and so no variance.

        See Also
        --------
        information_criteria : Those of one fit, and what they count.
        """
        return criteria_of_path(self, self._basis, X, y, gamma, n_observations, fit_params)

    @property
    def aic(self) -> np.ndarray:
        """AIC of every fit, as `information_criteria` has it."""
        return self.information_criteria()["aic"].to_numpy()

    @property
    def bic(self) -> np.ndarray:
        """BIC of every fit, as `information_criteria` has it."""
        return self.information_criteria()["bic"].to_numpy()

    @property
    def ebic(self) -> np.ndarray:
        """EBIC of every fit, as `information_criteria` has it."""
        return self.information_criteria()["ebic"].to_numpy()

    def best(self, criterion="bic", X=None, y=None, **options):
        """Fitted estimator with the least of an information criterion.

        Parameters
        ----------
        criterion : {"aic", "bic", "ebic"}, default="bic"
            What to minimize.
        X, y : optional
            As `information_criteria` has them.
        **options : object
            Further arguments of `information_criteria`.

        Returns
        -------
        estimator : object
            As if fitted with the chosen penalty, which is its ``alpha``.

        Examples
        --------
        >>> from sksurvgpu import CoxLassoCCD, fit_path
        >>> from sksurvgpu.datasets import simulate_cox
        >>> data = simulate_cox(1_000, 50, random_state=0)
        >>> path = fit_path(CoxLassoCCD(), data.X, data.y)
        >>> path.best("bic").alpha > path.best("aic").alpha
        True
        """
        choice(criterion, "criterion", CRITERIA)
        values = self.information_criteria(X, y, **options)[criterion]
        if values.isna().all():
            why = "every fit of the path has as many degrees of freedom as rows, which leaves no"
            raise ValueError(f"{why} variance to a linear model; pass larger `alphas` to fit_path.")
        return self.at(int(values.argmin()))

    def to_frame(self):
        """Table of coefficients.

        Returns
        -------
        table : pandas.DataFrame
            A row for each penalty, indexed by alpha; a column for each coefficient.
        """
        return DataFrame(
            self.coefs.T, index=Index(self.alphas, name="alpha"), columns=self.feature_names
        )


@documented
def fit_path(
    estimator,
    X,
    y,
    *,
    alphas=None,
    n_alphas=100,
    alpha_min_ratio=None,
    relax=False,
    **fit_params,
) -> Path:
    """Fit an estimator at descending penalties (a regularization path).

    Parameters
    ----------
    estimator : estimator of this package, or pipeline
        Model and options; its ``alpha`` and ``warm_start`` are not used, and it is not changed.
        Transformers are fitted to `X` unless they are already.
    <<rows_to_fit>>
    alphas : array-like, optional
        Penalties, in any order; by default a geometric sequence from the least alpha that sets
        all penalized coefficients to zero.
    n_alphas : int, default=100
        Length of that sequence.
    alpha_min_ratio : float, optional
        Its last value over its first; by default 1e-4, or 1e-2 where X has fewer rows than
        columns.
    relax : bool, default=False
        Also fit what each penalty selects without a penalty, for `Path.blend`. The path then keeps
        the rows; its pickles do not. An estimator with a `relax` of its own has a path of blends.
    <<more_to_fit>>

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
    fitted, steps, X = open_copy(estimator, X, y, "fit_path", fit_params)
    flag(relax, "relax", "; Path.blend takes shares")
    require_strength(fitted, "fit_path")
    if alphas is None:
        check_grid(n_alphas, alpha_min_ratio)
    else:
        alphas = check_alphas(alphas)
    n_fits = int(n_alphas) if alphas is None else len(alphas)
    if relax and in_partitions(X):
        refuse_partitions(
            "refits without a penalty are checked by comparing rows", "pass relax=False"
        )
    with closing(prepare(fitted, X, y, n_fits=n_fits, **fit_params)) as prepared:
        path = _fit(fitted, prepared, alphas, n_alphas, alpha_min_ratio, bool(relax))
        return replace(path, _steps=steps)


def _fit(fitted, prepared, alphas, n_alphas, alpha_min_ratio, relax):
    gamma, prepared = prepared.gamma, replace(prepared, gamma=None)
    known = {}  # of the null model, which every fit begins with
    if alphas is None:
        prepared = replace(prepared, null=prepared.null_model())
        alphas = alpha_grid(find_alpha_max(prepared), n_alphas, alpha_min_ratio, prepared.problem)
        if (prepared.batch.factor > 0).all():  # others would have to be fitted again
            known = {"null": (prepared.null,)}
    solutions = prepared.solve(alphas, **known)[0]
    fitted.alpha = float(alphas[-1])
    adopt(fitted, Fitted.of(prepared, solutions[-1]))
    infinite = _find_infinite(fitted, prepared, solutions)
    basis = basis_of(fitted, prepared, prepared.sizes)
    path = _gather(fitted, alphas, solutions, infinite, basis)
    if not path.converged.all():
        failed = int(np.argmin(path.converged))
        warn(
            f"{np.count_nonzero(~path.converged)} of {len(alphas)} fits of the path did not "
            "converge, the first one: " + explain_failure(path.at(failed), solutions[failed]),
            ConvergenceWarning,
        )
    let_go = np.array([found.any() for found in infinite])
    if let_go.any():
        first = path.at(int(let_go.argmax()))
        of = f"{let_go.sum()} of {len(alphas)} fits of the path, first at alpha={first.alpha:.3g}: "
        warn(of + name_infinite(first)[0], ConvergenceWarning)
    if relax or gamma is not None:
        path = with_refits(path, prepared, solutions)
    return path if gamma is None else path.blend(gamma)


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


def _gather(fitted, alphas, solutions, infinite, basis):
    scale = 1.0 / fitted_of(fitted).total_weight

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
        feature_names=fitted_of(fitted).names,
        _fitted=fitted,
        _solutions=tuple(replace(solution, coef=None, null=None) for solution in solutions),
        _infinite=infinite,
        _basis=basis,
    )
