"""Likelihood-ratio test of two nested fits."""

from contextlib import closing
from dataclasses import dataclass

import numpy as np
from scipy.sparse import hstack
from scipy.stats import chi2

from .._tables import Result
from ..data.by_column import check_time_varying
from ..data.partitioned import in_partitions, refuse_partitions
from ..estimators._base import PenalizedModel
from ..estimators._columns import check_columns
from ..estimators._composition import penalty_of
from ..estimators._preparing import prepare
from ..estimators.fitted import fitted_of
from ..estimators.models.base import model_of
from ..information.inverse import invert
from ..information.rows import FittedRows
from ..information.views import view_of
from ._rows import open_fit, open_rows, require_unpenalized

ROUNDING = 1e-6  # of log-likelihoods of two fits of one model, each stopped by its tolerance


@dataclass(frozen=True, repr=False)
class LikelihoodRatioResult(Result):
    """Likelihood-ratio test; made by `likelihood_ratio_test`.

    Attributes
    ----------
    statistic : float
        Twice the difference of the log-likelihoods.
    df : int
        Number of coefficients that the full model has beyond the restricted one, without those of
        columns that add nothing to others.
    p_value : float
        Probability of a larger statistic if the restricted model holds: the upper tail of the
        chi-squared distribution.
    """

    statistic: float
    df: int
    p_value: float

    def _title(self) -> str:
        return (
            f"Likelihood-ratio test: chi2({self.df}) = {self.statistic:.4g}, p = {self.p_value:.3g}"
        )


def likelihood_ratio_test(
    restricted, full, *, X=None, y=None, **fit_params
) -> LikelihoodRatioResult:
    """Likelihood-ratio test of two nested fits.

    Parameters
    ----------
    restricted : fitted estimator of this package, or pipeline
        The smaller model, fitted without a penalty. A model without any coefficient is one that
        was fitted to a constant column.
    full : fitted estimator of this package, or pipeline
        The larger model: same class and parameters, the same rows in the same order, the columns
        of the other among its own, and their cut points of ``time_varying`` among its own.
    X : pair of matrices, optional
        What `restricted` and what `full` were fitted to. Then the columns of the one need not be
        among those of the other, but only be sums of them: a linear effect is tested against a
        spline. By default columns are told by their names, or where they have none, taken for
        nested.
    y : ndarray of shape (n_samples,), optional
        With `X`, the outcome of the fits.
    **fit_params : array-like of shape (n_samples,), optional
        With `X`, what else ``fit`` was given, such as `sample_weight`, `strata` or `offset`.

    Returns
    -------
    result : LikelihoodRatioResult
        Statistic, degrees of freedom and p value.

    Notes
    -----
    The variance of a linear model's errors is estimated under both models. Degrees of freedom are
    the difference in rank: columns that are constant, perhaps only within each stratum, and
    collinear ones do not count; those of linear models and of partitions only where `X` shows them.
    Rows must be independent and weights counts; the test of a Fine-Gray model is approximate,
    because its censoring curve is estimated, too.

    Fits with ``penalty=Firth()`` are compared by their penalized likelihoods, with the information
    of all columns in both: the restricted one is fitted to the same columns, of which its penalty
    holds some at zero, ``Firth(hold=["age", "sex"])``.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, likelihood_ratio_test
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 4, density=0.3, random_state=0)
    >>> full = CoxLassoCCD(alpha=0).fit(data.X, data.y)
    >>> restricted = CoxLassoCCD(alpha=0).fit(data.X[:, :2], data.y)
    >>> likelihood_ratio_test(restricted, full).df
    2

    All coefficients at once, by a fit to a column that says nothing:

    >>> null = CoxLassoCCD(alpha=0).fit(0 * data.X[:, :1], data.y)
    >>> likelihood_ratio_test(null, full).df
    4

    Is the effect of a column linear, or curved?

    >>> import numpy as np
    >>> from sklearn.preprocessing import SplineTransformer
    >>> x = np.random.default_rng(0).normal(size=(1_000, 1))
    >>> spline = SplineTransformer(n_knots=4).fit_transform(x)
    >>> line, curve = (CoxLassoCCD(alpha=0).fit(columns, data.y) for columns in (x, spline))
    >>> likelihood_ratio_test(line, curve, X=(x, spline), y=data.y).df
    4
    """
    tables = ((), ()) if X is None else _pairs_of(X)
    restricted, *of_restricted = open_fit(restricted, *tables[0], name="restricted")
    full, *of_full = open_fit(full, *tables[1], name="full")
    # of models of all columns, some of which are held at zero
    if all("likelihood_ratio_test" in penalty_of(m).known_to for m in (restricted, full)):
        return _compare_held(restricted, full)
    for name, model in (("restricted", restricted), ("full", full)):
        require_unpenalized(model, "a likelihood-ratio test", "Compare fits with alpha=0.", name)
    _check_same_model(restricted, full)
    if X is None:
        if y is not None or fit_params:
            given = "y" if y is not None else next(iter(fit_params))
            raise TypeError(
                f"`{given}` was passed without `X`; pass X=(X_restricted, X_full), too."
            )
        df = _compare_names(restricted, full)
    else:
        df = _compare_columns((restricted, full), (*of_restricted, *of_full), y, fit_params)
    gain = _gain(restricted.log_likelihood_, full.log_likelihood_)
    statistic = 2.0 * max(gain, 0.0)
    if model_of(full).has_dispersion and gain > 0:
        squares = -2.0 * np.array([full.log_likelihood_, restricted.log_likelihood_])
        with np.errstate(divide="ignore"):  # a perfect fit
            statistic = fitted_of(full).n_rows * np.diff(np.log(squares))[0]
    return LikelihoodRatioResult(float(statistic), df, float(chi2.sf(statistic, df)))


def _gain(restricted, full) -> float:
    """Difference of log-likelihoods, which is no more below 0 than by rounding."""
    if not full - restricted >= -ROUNDING * max(1.0, abs(full)):
        raise ValueError(
            f"`full` has the log-likelihood {full:.10g}, less than {restricted:.10g} of "
            "`restricted`: the models are not nested, were fitted to different rows, or did not "
            "converge; fit them to the same rows."
        )
    return full - restricted


def _compare_held(restricted, full) -> LikelihoodRatioResult:
    """Test of penalized likelihoods, whose penalty is that of all columns in both models."""
    _check_same_model(restricted, full)
    _check_same_columns(restricted, full)
    more, less = _held(restricted), _held(full)
    df = int(np.count_nonzero(more & ~less))
    if not df or (less & ~more).any():
        raise ValueError(
            f"`restricted` has penalty={restricted.penalty!r} and `full` {full.penalty!r}; the "
            "restricted model must hold all columns that the full one holds, and more (hold)."
        )
    gain = _gain(
        *(-model.objective_ * fitted_of(model).total_weight for model in (restricted, full))
    )
    statistic = 2.0 * max(gain, 0.0)
    return LikelihoodRatioResult(float(statistic), df, float(chi2.sf(statistic, df)))


def _check_same_columns(restricted, full) -> None:
    of_model = [
        (model.n_features_in_, len(model.coef_), list(getattr(model, "feature_names_in_", [])))
        for model in (restricted, full)
    ]
    if of_model[0] != of_model[1]:
        raise ValueError(
            f"`restricted` was fitted to {restricted.n_features_in_} columns and `full` to "
            f"{full.n_features_in_}, or to others; the penalty {full.penalty!r} depends on the "
            "columns: fit both to the same, and name those that are tested in its `hold`."
        )


def _held(model) -> np.ndarray:
    """Coefficients that are held at zero."""
    source = fitted_of(model).terms.source
    names = getattr(model, "feature_names_in_", None)
    return np.isin(source, model.penalty.find_held(model.n_features_in_, names))


def _check_same_model(restricted, full) -> None:
    if type(restricted) is not type(full):
        raise TypeError(
            f"`restricted` is a {type(restricted).__name__} and `full` a {type(full).__name__}; "
            "compare fits of one class."
        )
    free = {*PenalizedModel().get_params(), "time_varying"}
    given = restricted.get_params(deep=False)
    for name, value in full.get_params(deep=False).items():
        if name not in free and given[name] != value:
            raise ValueError(
                f"`restricted` has {name}={given[name]!r} and `full` {name}={value!r}, so that "
                "their likelihoods cannot be compared; fit both with the same."
            )
    fits = fitted_of(restricted), fitted_of(full)
    for name, noun in (("n_rows", "rows"), ("total_weight", "the sum of weights")):
        left, right = (getattr(fit, name) for fit in fits)
        if not np.isclose(left, right, rtol=1e-12, atol=0.0):
            raise ValueError(
                f"`restricted` and `full` were fitted to different data ({noun}: {left:,g} and "
                f"{right:,g}); fit both to the same rows and weights."
            )
    if fits[0].fingerprint != fits[1].fingerprint:
        raise ValueError(
            "`restricted` and `full` were fitted to different data: outcomes, strata, weights, "
            "offsets or censoring groups differ; fit both to the same rows, in the same order, and "
            "give `fit` the same arguments."
        )


def _pairs_of(X):
    if not isinstance(X, tuple | list) or len(X) != 2:
        raise TypeError(
            f"`X` is of type {type(X).__name__}; pass a pair, the columns of `restricted` and "
            "those of `full`."
        )
    return [(columns,) for columns in X]


def _compare_columns(models, X, y, fit_params) -> int:
    """Difference in rank of two models, one of whose columns are sums of those of the other."""
    for model, columns in zip(models, X, strict=True):
        if in_partitions(columns):
            refuse_partitions(
                "columns are compared in memory", "leave `X` out, and let names tell columns"
            )
        open_rows(model, columns, y, fit_params)  # the rows of both fits
    rows, n_full = _beside(models, X, y, fit_params)
    information, size = view_of(rows).information()
    is_own = rows.problem.source < n_full
    few = invert(information[np.ix_(~is_own, ~is_own)], size[~is_own]).rank
    found = invert(information, size).without_dependent(np.zeros(len(size), bool)).identified
    many = int(np.count_nonzero(found & is_own))
    new = np.flatnonzero(found & ~is_own)
    if len(new) and few <= many:  # else they may be in the wrong order
        name = fitted_of(models[0]).names[new[0] - np.count_nonzero(is_own)]
        raise ValueError(
            f"`restricted` has a column {name!r} that is no sum of the columns of `full`: the "
            "models are not nested; give the full model this column, too."
        )
    return _check_ranks(few, many)


def _beside(models, X, y, fit_params) -> tuple[FittedRows, int]:
    """Rows with the columns of the full model and then those of the restricted one, and a count.

    All coefficients are zero, because where they are infinite there is no information.
    """
    full = models[1]
    designs = [check_columns(model, columns) for model, columns in zip(models, X, strict=True)]
    n_full, given = full.n_features_in_, {"alpha": 0.0}
    if hasattr(full, "time_varying"):
        own, other = (
            check_time_varying(model.time_varying, design.n_columns, design.names)
            for model, design in zip(models[::-1], designs[::-1], strict=True)
        )
        given["time_varying"] = own | {n_full + j: cuts for j, cuts in other.items()} or None
    free = PenalizedModel().get_params()
    params = full.get_params(deep=False)
    joint = type(full)(**{k: v for k, v in params.items() if k not in free} | given)
    columns = hstack([design.to_scipy() for design in designs[::-1]], format="csc")
    with closing(prepare(joint, columns, y, **fit_params)) as prepared:
        problem, batch = prepared.problem, prepared.batch
        rows = FittedRows(joint, prepared.outcome, problem, None, None, batch)
        return rows.at(np.zeros(problem.n_columns)), n_full


def _check_ranks(few, many) -> int:
    if few >= many:
        raise ValueError(
            f"`restricted` has {few} coefficients and `full` {many}, constant and collinear "
            "columns not counted; pass the model with fewer coefficients first."
        )
    return many - few


def _compare_names(restricted, full) -> int:
    """Difference in rank of two models, one of whose columns are among those of the other."""
    df = _check_ranks(
        *(len(model.coef_) - fitted_of(model).n_constant for model in (restricted, full))
    )
    _check_cuts(restricted, full)
    names = [getattr(model, "feature_names_in_", None) for model in (restricted, full)]
    if names[0] is None or names[1] is None:
        return df
    missing = [name for name in names[0] if name not in set(names[1])]
    if missing:
        raise ValueError(
            f"`restricted` has a column {missing[0]!r} that `full` does not have: by their names "
            "the models are not nested; give the full model all columns of the restricted one, or "
            "pass X=(X_restricted, X_full) and y if they are sums of its columns, as a line is of "
            "a spline's."
        )
    return df


def _check_cuts(restricted, full) -> None:
    """Check that a coefficient of the full model changes wherever one of the restricted does."""
    own, known = _cuts_of(restricted), _cuts_of(full)
    if not own:
        return
    named = all(hasattr(model, "feature_names_in_") for model in (restricted, full))
    same_width = restricted.n_features_in_ == full.n_features_in_
    for column, cuts in own.items():
        # Without names, any column of a wider table may be the one of the narrower.
        rivals = [known.get(column, set())] if named or same_width else known.values()
        if not any(cuts <= rival for rival in rivals):
            raise ValueError(
                f"`restricted` has a coefficient of {column!r} that changes at "
                f"{sorted(cuts)} (time_varying), which `full` does not have at all of these times: "
                "the models are not nested; give the full model the same cut points, or more."
            )


def _cuts_of(model) -> dict[str, set[float]]:
    """Cut points of the columns that have any."""
    fitted = fitted_of(model)
    terms, columns = fitted.terms, fitted.setting.header.labels()
    ends: dict[str, set[float]] = {}
    for column, (first, _) in zip(terms.source, terms.piece_ptr, strict=True):
        if first > 0:
            name = columns[column]
            ends.setdefault(name, set()).add(float(terms.cuts[first - 1]))
    return ends
