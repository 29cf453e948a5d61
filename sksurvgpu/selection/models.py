"""The models with a cross-validated penalty: docstrings, and which score they mean by default."""

from __future__ import annotations

from ..estimators._docs import documented
from ..estimators.case_series import CaseSeriesCCD
from ..estimators.competing import FineGrayCCD
from ..estimators.conditional_logistic import ConditionalLogisticCCD
from ..estimators.logistic import LogisticCCD
from ..estimators.regression import PoissonCCD
from ..estimators.survival import CoxLassoCCD
from .cv import CrossValidated

__all__ = [
    "CaseSeriesCV",
    "ConditionalLogisticCV",
    "CoxLassoCV",
    "FineGrayCV",
    "LogisticCV",
    "PoissonCV",
]


@documented
class CoxLassoCV(CrossValidated, CoxLassoCCD):
    """Cox regression with a penalty chosen by cross-validation; see `CoxLassoCCD`.

    Parameters
    ----------
    <<cross_validation, penalty_chosen>>
    ties : {"breslow", "efron"}, default="breslow"
        Treatment of tied events.
    time_varying : dict or None, default=None
        ``{column: cut points}``: the column's coefficient changes after each cut point.
    <<solver_chosen>>

    Attributes
    ----------
    <<chosen>>
    coef_ : ndarray of shape (n_coef,)
        Coefficients (log hazard ratios) of the fit to all rows.
    <<fitted>>

    See Also
    --------
    CoxLassoCCD : The model at a given penalty.

    Notes
    -----
    <<cv_notes>>

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCV
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCV(cv=5, n_alphas=20).fit(data.X, data.y)
    >>> 0 < model.alpha_ < model.alpha_max_
    True
    >>> bool(model.cv_results_["mean_score"].max() == model.best_score_)
    True
    """

    _loglik = "van_houwelingen"


@documented
class FineGrayCV(CrossValidated, FineGrayCCD):
    """Fine-Gray regression with a penalty chosen by cross-validation; see `FineGrayCCD`.

    Parameters
    ----------
    <<cross_validation, penalty_chosen>>
    event_of_interest : int, default=1
        Code of the event whose incidence is modelled; all others compete with it.
    censoring_ties : {"crr", "finegray"}, default="crr"
        Whether a row with an event at some time is still at risk of being censored then.
    <<solver_chosen>>

    Attributes
    ----------
    <<chosen, coef_, fitted>>

    See Also
    --------
    FineGrayCCD : The model at a given penalty.

    Notes
    -----
    <<cv_notes>>

    Examples
    --------
    >>> from sksurvgpu import FineGrayCV
    >>> from sksurvgpu.datasets import simulate_fine_gray
    >>> data = simulate_fine_gray(1_000, 50, random_state=0)
    >>> FineGrayCV(cv=5, n_alphas=20).fit(data.X, data.y).n_splits_
    5
    """

    _loglik = "van_houwelingen"


@documented
class CaseSeriesCV(CrossValidated, CaseSeriesCCD):
    """Self-controlled case series with a penalty chosen by cross-validation.

    See `CaseSeriesCCD`. Folds hold whole subjects.

    Parameters
    ----------
    <<cross_validation, penalty_chosen, solver_chosen>>

    Attributes
    ----------
    <<chosen, coef_, fitted>>

    See Also
    --------
    CaseSeriesCCD : The model at a given penalty.

    Notes
    -----
    <<cv_notes>>

    Examples
    --------
    >>> from sksurvgpu import CaseSeriesCV
    >>> from sksurvgpu.datasets import simulate_case_series
    >>> data = simulate_case_series(500, 30, random_state=0)
    >>> CaseSeriesCV(cv=5, rule="1se").fit(data.X, data.y).n_splits_
    5
    """


@documented
class ConditionalLogisticCV(CrossValidated, ConditionalLogisticCCD):
    """Conditional logistic regression with a penalty chosen by cross-validation.

    See `ConditionalLogisticCCD`. Folds hold whole matched sets.

    Parameters
    ----------
    <<cross_validation, penalty_chosen>>
    ties : {"exact", "efron", "breslow"}, default="exact"
        Likelihood of a set with several cases.
    <<solver_chosen>>

    Attributes
    ----------
    <<chosen, coef_, fitted>>

    See Also
    --------
    ConditionalLogisticCCD : The model at a given penalty.

    Notes
    -----
    <<cv_notes>>

    Examples
    --------
    >>> from sksurvgpu import ConditionalLogisticCV
    >>> from sksurvgpu.datasets import simulate_matched
    >>> data = simulate_matched(300, 30, random_state=0)
    >>> ConditionalLogisticCV(cv=5, n_alphas=20).fit(data.X, data.y).n_splits_
    5
    """


@documented
class LogisticCV(CrossValidated, LogisticCCD):
    """Logistic regression with a penalty chosen by cross-validation; see `LogisticCCD`.

    Parameters
    ----------
    <<cross_validation, penalty_chosen>>
    fit_intercept : bool, default=True
        Whether there is an intercept.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, ``{label: weight}``, which multiply the sample weights.
    <<solver_chosen>>

    Attributes
    ----------
    <<chosen>>
    classes_ : ndarray of shape (2,)
        Class labels; probabilities and coefficients are of the second.
    <<coef_, intercept_, fitted>>

    See Also
    --------
    LogisticCCD : The model at a given penalty.

    Notes
    -----
    <<cv_notes>>

    Examples
    --------
    >>> from sksurvgpu import LogisticCV
    >>> from sksurvgpu.datasets import simulate_logistic
    >>> data = simulate_logistic(1_000, 50, random_state=0)
    >>> model = LogisticCV(cv=5, scoring="concordance", n_alphas=20).fit(data.X, data.y)
    >>> bool(model.best_score_ > 0.5)
    True
    """


@documented
class PoissonCV(CrossValidated, PoissonCCD):
    """Poisson regression with a penalty chosen by cross-validation; see `PoissonCCD`.

    Parameters
    ----------
    <<cross_validation, penalty_chosen, fit_intercept, solver_chosen>>

    Attributes
    ----------
    <<chosen, coef_, intercept_, fitted>>

    See Also
    --------
    PoissonCCD : The model at a given penalty.

    Notes
    -----
    <<cv_notes>>

    Examples
    --------
    >>> from sksurvgpu import PoissonCV
    >>> from sksurvgpu.datasets import simulate_poisson
    >>> data = simulate_poisson(500, 30, random_state=0)
    >>> PoissonCV(cv=5, n_alphas=20).fit(data.X, data.y).n_splits_
    5
    """
