"""Likelihood-ratio test of two nested fits without a penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .._tables import Result
from ..estimators._base import PenalizedModel
from ._rows import open_fit, require_unpenalized

__all__ = ["LikelihoodRatioResult", "likelihood_ratio_test"]

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
        constant columns.
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


def likelihood_ratio_test(restricted, full) -> LikelihoodRatioResult:
    """Test whether a model needs the coefficients that another one does not have.

    Parameters
    ----------
    restricted : fitted estimator of this package, or pipeline
        The smaller model, fitted without a penalty. A model without any coefficient is one that
        was fitted to a constant column.
    full : fitted estimator of this package, or pipeline
        The larger model: same class and parameters, the same rows in the same order, the columns
        of the other among its own, and their cut points of ``time_varying`` among its own.

    Returns
    -------
    result : LikelihoodRatioResult
        Statistic, degrees of freedom and p value.

    Notes
    -----
    The variance of a linear model's errors is estimated under both models. Constant columns do not
    count as degrees of freedom. Collinear columns, and those that are constant only within each
    stratum, do although they add nothing: leave them out. Rows must
    be independent and weights counts; the test of a Fine-Gray model is approximate, because its
    censoring curve is estimated, too.

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
    """
    from scipy.stats import chi2

    [restricted], [full] = open_fit(restricted, name="restricted"), open_fit(full, name="full")
    if all(_is_held(model) for model in (restricted, full)):
        return _compare_held(restricted, full)
    for name, model in (("restricted", restricted), ("full", full)):
        require_unpenalized(model, "a likelihood-ratio test", "Compare fits with alpha=0.", name)
    _check_same_model(restricted, full)
    _check_nested(restricted, full)
    df = _n_determined(full) - _n_determined(restricted)
    gain = _gain(restricted.log_likelihood_, full.log_likelihood_)
    statistic = 2.0 * max(gain, 0.0)
    if full._has_dispersion and gain > 0:
        squares = -2.0 * np.array([full.log_likelihood_, restricted.log_likelihood_])
        with np.errstate(divide="ignore"):  # a perfect fit
            statistic = full._n_rows * np.diff(np.log(squares))[0]
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


def _is_held(model) -> bool:
    """Whether a restricted model is one of all columns, some of which are held at zero."""
    return "likelihood_ratio_test" in model._spec().known_to


def _compare_held(restricted, full) -> LikelihoodRatioResult:
    """Test of penalized likelihoods, whose penalty is that of all columns in both models."""
    from scipy.stats import chi2

    _check_same_model(restricted, full)
    _check_same_columns(restricted, full)
    more, less = _held(restricted), _held(full)
    df = int(np.count_nonzero(more & ~less))
    if not df or (less & ~more).any():
        raise ValueError(
            f"`restricted` has penalty={restricted.penalty!r} and `full` {full.penalty!r}; the "
            "restricted model must hold all columns that the full one holds, and more (hold)."
        )
    gain = _gain(*(-model.objective_ * model._total_weight for model in (restricted, full)))
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
    source = model._terms.source if hasattr(model, "_terms") else np.arange(len(model.coef_))
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
    for name, noun in (("_n_rows", "rows"), ("_total_weight", "the sum of weights")):
        left, right = getattr(restricted, name), getattr(full, name)
        if not np.isclose(left, right, rtol=1e-12, atol=0.0):
            raise ValueError(
                f"`restricted` and `full` were fitted to different data ({noun}: {left:,g} and "
                f"{right:,g}); fit both to the same rows and weights."
            )
    if restricted._fingerprint != full._fingerprint:
        raise ValueError(
            "`restricted` and `full` were fitted to different data: outcomes, strata, weights, "
            "offsets or censoring groups differ; fit both to the same rows, in the same order, and "
            "give `fit` the same arguments."
        )


def _n_determined(model) -> int:
    """Number of coefficients, without those of constant columns."""
    return len(model.coef_) - model._n_constant


def _check_nested(restricted, full) -> None:
    few, many = _n_determined(restricted), _n_determined(full)
    if few >= many:
        raise ValueError(
            f"`restricted` has {few} coefficients and `full` {many}, constant columns not counted; "
            "pass the model with fewer coefficients first."
        )
    _check_cuts(restricted, full)
    names = [getattr(model, "feature_names_in_", None) for model in (restricted, full)]
    if names[0] is None or names[1] is None:
        return
    missing = [name for name in names[0] if name not in set(names[1])]
    if missing:
        raise ValueError(
            f"`restricted` has a column {missing[0]!r} that `full` does not have: the models are "
            "not nested; give the full model all columns of the restricted one."
        )


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
    terms = getattr(model, "_terms", None)
    if terms is None:
        return {}
    ends: dict[str, set[float]] = {}
    for column, (first, _) in zip(terms.source, terms.piece_ptr, strict=True):
        if first > 0:
            name = str(model._feature_names()[column])
            ends.setdefault(name, set()).add(float(terms.cuts[first - 1]))
    return ends
