"""The models with a cross-validated penalty: docstrings, and which score they mean by default.

A docstring has the parameters and attributes of the cross-validation, then those of the model.
"""

from .._docs import section, sharing
from ..estimators.case_series import CaseSeriesCCD, ConditionalPoissonCCD
from ..estimators.competing import FineGrayCCD
from ..estimators.conditional_logistic import ConditionalLogisticCCD
from ..estimators.logistic import LogisticCCD
from ..estimators.regression import LinearCCD, PoissonCCD
from ..estimators.survival import CoxLassoCCD
from .cv import NOT_OF_MODEL, CrossValidated

__all__ = [
    "CaseSeriesCV",
    "ConditionalLogisticCV",
    "ConditionalPoissonCV",
    "CoxLassoCV",
    "FineGrayCV",
    "LinearCV",
    "LogisticCV",
    "PoissonCV",
]

_CROSS_VALIDATED = """
    Parameters
    ----------
    alphas : array-like or None, default=None
        Penalties to score, all of them. By default a geometric sequence from the least that
        selects nothing.
    n_alphas : int, default=100
        Length of that sequence.
    alpha_min_ratio : float or None, default=None
        Its last value over its first; by default 1e-4, or 1e-2 where X has fewer rows than
        columns.
    cv : int, splitter or iterable, default=10
        Number of folds, made as by `SurvivalKFold`: subjects and matched sets stay whole,
        events are shared out. Or an object with ``split``, or pairs of row numbers (train,
        test).
    n_repeats : int, default=1
        How often the rows are dealt into folds anew, where `cv` is a number.
    scoring : {"loglik", "van_houwelingen", "held_out", "concordance"}, default="loglik"
        Score of held-out rows, larger being better. "van_houwelingen" is what they add to the
        log-likelihood of the others; "held_out" is their log-likelihood by themselves; both an
        event, or a row in logistic and linear regression. "loglik" is the former for Cox and
        Fine-Gray models, the latter for others, where they are the same. "concordance" is that of
        ``score``, without offsets, and the area under the curve in logistic regression;
        conditional models, Poisson and linear regression have none.
    rule : {"best", "1se"}, default="best"
        Take the penalty with the best mean score, or the largest penalty whose mean score is
        within one standard error of it.
    search : {"grid", "auto"}, default="grid"
        "auto" searches over the variance of the prior that a penalty stands for, from
        `start_variance`: by factors of ten, then to the maximum of a quadratic.
    start_variance : float, default=0.01
        Where that search begins.
    early_stopping : bool, default=True
        Leave the sequence of penalties once the mean score is more than one standard error
        below the best.
    random_state : int, RandomState instance or None, default=0
        Seed of the dealing into folds, where `cv` is a number.
    folder : path or None, default=None
        New folder in which finished fits are kept, 16 splits at a time; where ``fit`` is called
        again with the same data and parameters after it was ended, whatever ended it, it goes
        on with the others, to the same result. None in searches, which fit many times.
    relax : float, list of float or None, default=None
        Shares of the penalized fit, from 0 to 1, to choose from, together with the penalties: the
        rest is a fit without a penalty of the columns selected in the split; see
        :doc:`/guide/adaptive`. With rule="1se", the best share at the largest penalty that has one
        within a standard error.
    l1_ratios : list of float or None, default=None
        Shares of the lasso to choose from, each with penalties of its own, in place of `l1_ratio`.
        With rule="1se", the largest penalty is one of the best share.
    <<parameters_of_model>>

    Attributes
    ----------
    alpha_ : float
        Chosen penalty, with which all rows are fitted.
    relax_ : float or None
        Chosen share of the penalized fit, None where `relax` is.
    l1_ratio_ : float, dict or array-like
        Chosen share of the lasso, or `l1_ratio`.
    best_index_ : int
        Its row of `cv_results_`.
    best_score_ : float
        Its mean score.
    cv_results_ : DataFrame
        A row for each penalty scored, in descending order: ``alpha``; with `l1_ratios`,
        ``l1_ratio``, one share after the other; with `relax`, ``gamma``, the share, of which each
        penalty has a row a piece; ``variance`` of the prior
        it stands for, NaN where `l1_ratio` differs between columns; ``mean_score`` over the
        splits, weighted by their events; its ``standard_error`` over the folds; ``n_nonzero``
        coefficients, the mean over the splits; and the score of every split.
    n_splits_ : int
        Number of splits.
    <<attributes_of_model>>

    See Also
    --------
    <<model>>

    Notes
    -----
    A split is fitted at the same penalty of the mean as all rows; with ``search="auto"`` at the
    same penalty of the sum, that is the same prior. All splits are one batch of fits that share
    X, and results are the same for any number of threads. Weights by class are those of all
    rows, in the splits, too.
    With scikit-learn's metadata routing, the arguments of ``fit`` and ``score`` beyond X and y
    are requested unless ``set_fit_request`` or ``set_score_request`` say otherwise. With its
    callbacks (version 1.9), every batch of fits is a task; its ``ProgressBar`` needs the
    package rich.
    """


def _documented(cls):
    """Decorator that puts the text above, with what the model says of itself, into a docstring."""
    model = cls.__bases__[1]
    parameters, attributes = (section(model.__doc__, s) for s in ("Parameters", "Attributes"))
    kept = [text for name, text in parameters.items() if name not in NOT_OF_MODEL]
    texts = {
        "cross_validated": _CROSS_VALIDATED,
        "parameters_of_model": "\n".join(kept),
        "attributes_of_model": "\n".join(attributes.values()),
        "model": f"{model.__name__} : The model at a given penalty.",
    }
    return sharing(texts)(cls)


@_documented
class CoxLassoCV(CrossValidated, CoxLassoCCD):
    """Cox regression with a penalty chosen by cross-validation; see `CoxLassoCCD`.

    <<cross_validated>>

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


@_documented
class FineGrayCV(CrossValidated, FineGrayCCD):
    """Fine-Gray regression with a penalty chosen by cross-validation; see `FineGrayCCD`.

    <<cross_validated>>

    Examples
    --------
    >>> from sksurvgpu import FineGrayCV
    >>> from sksurvgpu.datasets import simulate_fine_gray
    >>> data = simulate_fine_gray(1_000, 50, random_state=0)
    >>> FineGrayCV(cv=5, n_alphas=20).fit(data.X, data.y).n_splits_
    5
    """

    _loglik = "van_houwelingen"


@_documented
class CaseSeriesCV(CrossValidated, CaseSeriesCCD):
    """Self-controlled case series with a penalty chosen by cross-validation.

    See `CaseSeriesCCD`. Folds hold whole subjects.

    <<cross_validated>>

    Examples
    --------
    >>> from sksurvgpu import CaseSeriesCV
    >>> from sksurvgpu.datasets import simulate_case_series
    >>> data = simulate_case_series(500, 30, random_state=0)
    >>> CaseSeriesCV(cv=5, rule="1se").fit(data.X, data.y).n_splits_
    5
    """


@_documented
class ConditionalLogisticCV(CrossValidated, ConditionalLogisticCCD):
    """Conditional logistic regression with a penalty chosen by cross-validation.

    See `ConditionalLogisticCCD`. Folds hold whole matched sets.

    <<cross_validated>>

    Examples
    --------
    >>> from sksurvgpu import ConditionalLogisticCV
    >>> from sksurvgpu.datasets import simulate_matched
    >>> data = simulate_matched(300, 30, random_state=0)
    >>> ConditionalLogisticCV(cv=5, n_alphas=20).fit(data.X, data.y).n_splits_
    5
    """


@_documented
class LogisticCV(CrossValidated, LogisticCCD):
    """Logistic regression with a penalty chosen by cross-validation; see `LogisticCCD`.

    <<cross_validated>>

    Examples
    --------
    >>> from sksurvgpu import LogisticCV
    >>> from sksurvgpu.datasets import simulate_logistic
    >>> data = simulate_logistic(1_000, 50, random_state=0)
    >>> model = LogisticCV(cv=5, scoring="concordance", n_alphas=20).fit(data.X, data.y)
    >>> bool(model.best_score_ > 0.5)
    True
    """


@_documented
class PoissonCV(CrossValidated, PoissonCCD):
    """Poisson regression with a penalty chosen by cross-validation; see `PoissonCCD`.

    <<cross_validated>>

    Examples
    --------
    >>> from sksurvgpu import PoissonCV
    >>> from sksurvgpu.datasets import simulate_poisson
    >>> data = simulate_poisson(500, 30, random_state=0)
    >>> PoissonCV(cv=5, n_alphas=20).fit(data.X, data.y).n_splits_
    5
    """


@_documented
class ConditionalPoissonCV(CrossValidated, ConditionalPoissonCCD):
    """Conditional Poisson regression with a penalty chosen by cross-validation.

    See `ConditionalPoissonCCD`. Folds hold whole strata.

    <<cross_validated>>

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import ConditionalPoissonCV
    >>> from sksurvgpu.datasets import simulate_poisson
    >>> data, week = simulate_poisson(500, 30, random_state=0), np.arange(500) % 52
    >>> ConditionalPoissonCV(cv=5, n_alphas=20).fit(data.X, data.y, strata=week).n_splits_
    5
    """


@_documented
class LinearCV(CrossValidated, LinearCCD):
    """Linear regression with a penalty chosen by cross-validation; see `LinearCCD`.

    The log-likelihood of held-out rows is minus half of their squared errors.

    <<cross_validated>>

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sksurvgpu import LinearCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LinearCV(cv=5, l1_ratios=[0.5, 1.0]).fit(X, y)
    >>> model.l1_ratio_ in (0.5, 1.0)
    True
    """
