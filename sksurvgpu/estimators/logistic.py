"""Logistic regression."""

import numpy as np
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.metrics import accuracy_score

from ..likelihoods.logistic import expit
from ._base import PenalizedModel
from ._docs import documented
from ._partition import by_partition, to_memory
from .models.linear import LogisticModel


def _like_classes(model, given):
    return np.empty((0, 2))


def _like_labels(model, given):
    return model.classes_[:0]


@documented
class LogisticCCD(ClassifierMixin, PenalizedModel):
    r"""Logistic regression of two classes, with a lasso or elastic-net penalty.

    Suited to propensity scores, with thousands of sparse columns. The intercept is never penalized.
    Minimizes

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

    _model = LogisticModel

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

        <<itself>>
        """
        return self._fit(X, y, sample_weight, offset)

    @by_partition()
    def decision_function(self, X):
        """Linear predictor, the log odds of the second class.

        <<only_X>>

        Returns
        -------
        predictor : ndarray of shape (n_samples,)
            Without the offset of the fit.
        """
        return self._predict_linear(X)

    @by_partition(_like_classes)
    def predict_proba(self, X):
        """Probability of each class.

        <<only_X>>

        Returns
        -------
        probability : ndarray of shape (n_samples, 2)
            Columns in the order of `classes_`.
        """
        predictor = self.decision_function(X)
        return np.column_stack([expit(-predictor), expit(predictor)])

    @by_partition(_like_classes)
    def predict_log_proba(self, X):
        """Logarithm of the probability of each class, without cancellation.

        <<only_X>>

        Returns
        -------
        log_probability : ndarray of shape (n_samples, 2)
            Columns in the order of `classes_`.
        """
        predictor = self.decision_function(X)
        return -np.logaddexp(0.0, np.column_stack([predictor, -predictor]))

    @by_partition(_like_labels)
    def predict(self, X):
        """Most probable class.

        <<only_X>>

        Returns
        -------
        label : ndarray of shape (n_samples,)
            Of `classes_`.
        """
        is_second = self.decision_function(X) > 0
        return self.classes_[is_second.astype(int)]

    def score(self, X, y, sample_weight=None):
        """Accuracy: proportion of rows classified correctly.

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
        y, sample_weight = to_memory(X, y=y, sample_weight=sample_weight)
        predicted = np.asarray(self.predict(X))
        return float(accuracy_score(y, predicted, sample_weight=sample_weight))
