"""Beginning of paths, cross-validations and resampling: a copy of a model, and penalties."""

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import _is_fitted

from ..data import options
from ..estimators._base import PenalizedModel
from ..estimators._composition import penalty_of
from ..estimators._log_likelihood import check_arguments
from ..estimators.pipelines import learn_steps, open_pipeline, refuse_type, split_pipeline


def copy_of(estimator, caller, fit_params, *, may_choose=False):
    """Unfitted copy of the model of an estimator or pipeline, after a check of both.

    The arguments for its ``fit`` are checked, too. It has a penalty of its own, unless it may be
    one that chooses its penalty.
    """
    _, model = split_pipeline(estimator)
    if not isinstance(model, PenalizedModel):
        refuse_type(estimator, fitted="an")
    name = type(model).__name__
    if not may_choose and "alpha" not in model.get_params():
        raise TypeError(
            f"`estimator` is of type {name}, which chooses its penalty itself; pass "
            f"`refit_model()` of a fitted {name}, or of a fitted pipeline that ends in one, for "
            "the model at the chosen penalty."
        )
    check_arguments(model, fit_params, caller)
    copied = clone(model)
    copied._validate_params()
    return copied


def open_copy(estimator, X, y, caller, fit_params, **options):
    """Copy of a model, fitted transformers of the pipeline or None, and X as the model takes it."""
    copied = copy_of(estimator, caller, fit_params, **options)
    steps, model = split_pipeline(estimator)
    if steps is None or (_is_fitted(steps) and _is_fitted(model)):
        return copied, steps, open_pipeline(estimator, X)[1]
    return copied, *learn_steps(steps, X, y, fit_params)


def require_strength(model, what) -> None:
    """Refuse a penalty without a strength, which there is nothing to choose of."""
    if not penalty_of(model).has_strength:
        raise ValueError(
            f"`penalty` is {model.penalty!r}, which has no strength `alpha` to choose or to "
            f"follow, so that {what} does not go with it; fit a model with it."
        )


def find_alpha_max(prepared):
    """Least alpha without a penalized coefficient."""
    null = prepared.null_model()
    if np.isnan(null.lam_max):
        raise ValueError(
            "there is no least alpha at which this `penalty` selects nothing, to begin with; pass "
            "`alphas`, with search='grid' if this is a cross-validation."
        )
    if null.lam_max == 0.0:
        raise ValueError(
            "no column can enter the model: all are unpenalized, constant or unrelated to the "
            "outcome, so there is no path; pass `alphas`, or fit the estimator itself."
        )
    if not np.isfinite(null.lam_max):
        raise ValueError(
            "there is no alpha at which all penalized coefficients are zero (penalty_factor is 0 "
            "for some that `penalty` ties to others); pass `alphas`."
        )
    return null.lam_max / prepared.total_weight


def check_grid(n_alphas, alpha_min_ratio):
    """Check what a sequence of penalties is made from."""
    if not options.is_number(n_alphas) or not 1 <= n_alphas < np.inf or int(n_alphas) != n_alphas:
        options.refuse(n_alphas, "n_alphas", "must be a whole number of at least 1")
    if alpha_min_ratio is None:
        return
    rule = "must lie between 0 and 1"
    options.number(alpha_min_ratio, "alpha_min_ratio", rule, above=0, below=1)


def alpha_grid(alpha_max, n_alphas, alpha_min_ratio, problem):
    """Geometric sequence from `alpha_max` down."""
    if alpha_min_ratio is None:
        alpha_min_ratio = 1e-4 if problem.given.n_rows > problem.n_columns else 1e-2
    return alpha_max * np.geomspace(1.0, alpha_min_ratio, int(n_alphas))


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


def check_ratios(l1_ratios):
    """Distinct shares of the lasso that a user gave, as numbers, in their order."""
    values = np.asarray(l1_ratios, dtype=np.float64)
    if values.ndim != 1 or not values.size or not ((values >= 0) & (values <= 1)).all():
        raise ValueError(
            f"`l1_ratios` is {l1_ratios!r}; pass a list of one or more numbers from 0 to 1."
        )
    return [float(value) for value in dict.fromkeys(values)]
