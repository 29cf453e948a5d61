"""The log-likelihood of held-out rows as a score of scikit-learn's searches."""

from typing import ClassVar

from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED

from .._versioned import Versioned
from ..estimators.pipelines import open_pipeline


class LogLikelihoodScorer(Versioned, BaseEstimator):
    """Mean log-likelihood of rows, for ``scoring=`` of `GridSearchCV` and its kin.

    The score is ``estimator.log_likelihood(X, y, mean=True)`` of the held-out rows alone, as
    ``scoring="held_out"`` of `CoxLassoCV` and other cross-validated models. The estimator is one of
    this package, or a pipeline that ends in one. With metadata routing enabled, `sample_weight`,
    `strata`, `offset`, `exposure` and `censoring_groups` of a search reach the score; otherwise
    only fields of `y` such as ``stratum`` do.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sksurvgpu import CoxLassoCCD, LogLikelihoodScorer
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> alphas = {"alpha": [0.05, 0.01]}
    >>> search = GridSearchCV(CoxLassoCCD(), alphas, scoring=LogLikelihoodScorer(), cv=3)
    >>> search.fit(data.X, data.y).best_params_
    {'alpha': 0.01}
    """

    __metadata_request__score: ClassVar[dict] = {"estimator": UNUSED} | dict.fromkeys(
        ("sample_weight", "strata", "offset", "exposure", "censoring_groups"), True
    )

    def __call__(self, estimator, X, y, **given):
        """Score, as scikit-learn asks for it."""
        return self.score(estimator, X, y, **given)

    def score(
        self,
        estimator,
        X,
        y,
        *,
        sample_weight=None,
        strata=None,
        offset=None,
        exposure=None,
        censoring_groups=None,
    ):
        """Mean log-likelihood of rows.

        Parameters
        ----------
        estimator : fitted estimator or Pipeline
            Whose coefficients count.
        X : table of shape (n_samples, n_features)
            Covariates.
        y : ndarray of shape (n_samples,)
            Outcome.
        sample_weight, strata, offset, exposure, censoring_groups : array-like, optional
            What the estimator's ``fit`` takes of these.

        Returns
        -------
        score : float
            An event, or a row in logistic and linear regression; 0 where none can be compared.
        """
        given = {"sample_weight": sample_weight, "strata": strata, "offset": offset}
        given |= {"exposure": exposure, "censoring_groups": censoring_groups}
        estimator, X = open_pipeline(estimator, X)
        given = {name: values for name, values in given.items() if values is not None}
        return estimator.log_likelihood(X, y, mean=True, **given)
