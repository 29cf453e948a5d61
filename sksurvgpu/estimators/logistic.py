"""Logistic regression."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.metrics import accuracy_score, roc_auc_score
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.class_weight import compute_class_weight

from ..data.checks import check_sample_weight
from ..data.outcomes.classes import read_classes, refuse_class, refuse_classes
from ..likelihoods.logistic import Logistic, expit
from ._base import OF_PENALTY, OF_SOLVER
from ._by_parts import by_parts, here
from ._docs import documented
from ._linear import LinearModel
from .fitted import Traits

__all__ = ["LogisticCCD"]


def _like_classes(model, given):
    return np.empty((0, 2))


def _like_labels(model, given):
    return model.classes_[:0]


def concordance(outcome, predictors, weight, terms) -> float:
    """Area under the curve of linear predictors; NaN where all rows that count are of one class."""
    if len(np.unique(outcome.value[weight > 0])) < 2:
        return np.nan
    return roc_auc_score(outcome.value, predictors[:, 0], sample_weight=weight)


@documented
class LogisticCCD(ClassifierMixin, LinearModel):
    r"""Logistic regression of two classes, with a lasso or elastic-net penalty.

    The model of propensity scores: thousands of sparse columns and an intercept, which is never
    penalized. Minimizes

    .. math:: -\ell(b + X\beta)/W + \alpha\Bigl(\rho\,\|f\circ\beta\|_1
              + \tfrac12(1-\rho)\,\|\sqrt f\circ\beta\|_2^2\Bigr)

    with the log-likelihood :math:`\ell`, the sum :math:`W` of the sample weights, :math:`\alpha` =
    `alpha`, :math:`\rho` = `l1_ratio` and :math:`f` = `penalty_factor`. scikit-learn's ``C`` is
    :math:`1/(\alpha W)`. Columns are neither centred nor scaled.

    Parameters
    ----------
    <<penalty, fit_intercept>>
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, ``{label: weight}``, which multiply the sample weights. "balanced"
        gives both classes the same sum of weights.
    <<solver>>

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Class labels; probabilities and coefficients are of the second.
    coef_ : ndarray of shape (n_features,)
        Coefficients, the logarithms of odds ratios.
    <<intercept_, fitted>>

    Notes
    -----
    <<routing>>

    Examples
    --------
    >>> from sksurvgpu import LogisticCCD
    >>> from sksurvgpu.datasets import simulate_logistic
    >>> data = simulate_logistic(1_000, 50, random_state=0)
    >>> model = LogisticCCD(alpha=0.01).fit(data.X, data.y)
    >>> model.predict_proba(data.X[:3]).shape
    (3, 2)
    """

    _parameters = (
        OF_PENALTY
        | {
            "fit_intercept": (True, ["boolean"]),
            "class_weight": (None, [dict, StrOptions({"balanced"}), None]),
        }
        | OF_SOLVER
    )
    _likelihood = Logistic
    _traits = Traits("odds_ratio", counts_rows=True, concordance=concordance)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X, y, sample_weight=None, offset=None):
        """Fit the model.

        Parameters
        ----------
        <<X>>
        y : array-like of shape (n_samples,)
            Labels of two classes.
        <<sample_weight, offset>>

        Returns
        -------
        <<self>>
        """
        return self._fit(X, y, sample_weight, offset)

    def _read_outcome(self, y, n_rows):
        return read_classes(y, n_rows=n_rows)

    def _check_weight(self, sample_weight, outcome):
        weight = check_sample_weight(sample_weight, outcome.n_rows)
        outcome.check_both_present(weight)
        if self.class_weight is None:
            return weight
        code, given = outcome.value.astype(int), 1.0 if weight is None else weight
        of_class = self._weights_of(outcome.labels, np.bincount(code, weight), code)
        weight = check_sample_weight(of_class[code] * given, outcome.n_rows)
        outcome.check_both_present(weight)
        return weight

    def _weights_of(self, labels, totals, code):
        """Weight of each class, given the sums of the rows' and whose classes occur."""
        if isinstance(self.class_weight, str):  # "balanced"
            return 0.5 * totals.sum() / totals
        of_class = compute_class_weight(self.class_weight, classes=labels, y=labels[code])
        for label, value in zip(labels.tolist(), of_class.tolist(), strict=True):
            if not 0.0 <= value < np.inf:
                raise ValueError(
                    f"`class_weight` of class {label!r} is {value:g}, must be a finite number "
                    "of at least 0."
                )
        return of_class

    def _tell(self, outcome, weight):
        totals = np.bincount(outcome.value.astype(int), weight, len(outcome.labels))
        return {"classes": outcome.labels, "class_totals": totals.astype(float)}

    def _agree(self, told, n_rows):
        labels = np.unique(np.concatenate([part["classes"] for part in told]))
        if len(labels) != 2:
            refuse_classes(labels)
        totals = np.zeros(2)
        for part in told:
            totals[np.searchsorted(labels, part["classes"])] += part["class_totals"]
        for label in labels[totals == 0.0].tolist():
            refuse_class(label)
        agreed = {"classes": labels}
        if self.class_weight is not None:
            agreed["class_weight"] = self._weights_of(labels, totals, np.arange(2))
        return agreed

    def _join(self, outcome, weight, agreed):
        if "classes" not in agreed:
            return outcome, weight
        labels = np.asarray(agreed["classes"])
        code = np.searchsorted(labels, outcome.labels)[outcome.value.astype(int)]
        outcome = replace(outcome, value=code.astype(np.float64), labels=labels)
        if "class_weight" in agreed:
            of_class = np.asarray(agreed["class_weight"], np.float64)[code]
            weight = of_class if weight is None else of_class * weight
        return outcome, weight

    def _of_parts(self, problem, agreed, told):
        return {"classes": agreed["classes"]}

    def _of_rows(self, plan, outcome, weight):
        return {"classes": outcome.labels}

    @by_parts()
    def decision_function(self, X):
        """Linear predictor, the log odds of the second class.

        Parameters
        ----------
        <<X>>

        Returns
        -------
        predictor : ndarray of shape (n_samples,)
            Without the offset of the fit.
        """
        return self._predict_linear(X)

    @by_parts(_like_classes)
    def predict_proba(self, X):
        """Probability of each class.

        Parameters
        ----------
        <<X>>

        Returns
        -------
        probability : ndarray of shape (n_samples, 2)
            Columns in the order of `classes_`.
        """
        predictor = self.decision_function(X)
        return np.column_stack([expit(-predictor), expit(predictor)])

    @by_parts(_like_classes)
    def predict_log_proba(self, X):
        """Logarithm of the probability of each class, without cancellation.

        Parameters
        ----------
        <<X>>

        Returns
        -------
        log_probability : ndarray of shape (n_samples, 2)
            Columns in the order of `classes_`.
        """
        predictor = self.decision_function(X)
        return -np.logaddexp(0.0, np.column_stack([predictor, -predictor]))

    @by_parts(_like_labels)
    def predict(self, X):
        """Likelier class.

        Parameters
        ----------
        <<X>>

        Returns
        -------
        label : ndarray of shape (n_samples,)
            Of `classes_`.
        """
        is_second = self.decision_function(X) > 0
        return self.classes_[is_second.astype(int)]

    def score(self, X, y, sample_weight=None):
        """Share of rows whose class is predicted.

        Parameters
        ----------
        <<X>>
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights.

        Returns
        -------
        accuracy : float
            Between 0 and 1.
        """
        y, sample_weight = here(y, sample_weight)
        predicted = np.asarray(self.predict(X))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))
