"""Fit, validate and report once, for every penalized model.

A subclass names its model (`models`), which reads rows, and says which arguments its ``fit`` takes
and what can be predicted from it. All other behaviour is here. A fit goes

    prepare (checks, Problem) -> Prepared.solve -> Fitted.of -> adopt

and a path or a cross-validation calls the same four with more penalties or weights. The estimator
itself changes in the last step only, so that a fit that fails leaves the one before it whole.
"""

from contextlib import closing
from numbers import Integral, Real

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from .._warnings import warn
from ..backends import BACKENDS
from ..data.partitioned import in_partitions
from ..exceptions import NothingSelectedWarning
from ..penalties import BY_NAME, PenaltySpec
from ._columns import check_columns
from ._docs import documented
from ._estimator import Estimator
from ._log_likelihood import check_arguments, log_likelihood_of
from ._partition import by_partition, predict_to_memory
from ._preparing import prepare
from ._relaxed import check_share, require_refit
from ._report import doubts_of, explain_empty, fit_card, table_of
from ._version_0_2 import upgrade
from .fitted import Fitted, adopt
from .models.base import BaseModel, Parameters
from .pipelines import keep_methods_of_plain_pipelines

keep_methods_of_plain_pipelines()

OF_PENALTY: Parameters = {
    "alpha": (0.01, [Interval(Real, 0, None, closed="left")]),
    "l1_ratio": (1.0, [Interval(Real, 0, 1, closed="both"), dict, "array-like"]),
    "penalty_factor": (None, [dict, "array-like", None]),
    "bounds": (None, [dict, tuple, list, None]),
    "prior_mean": (None, [dict, "array-like", None]),
    "penalty": (None, [PenaltySpec, StrOptions(set(BY_NAME)), None]),
    "relax": (None, [Interval(Real, 0, 1, closed="both"), None]),
    "standardize": (False, ["boolean"]),
}
OF_SOLVER: Parameters = {
    "algorithm": ("majorized", [StrOptions({"majorized", "exact"})]),
    "tol": (1e-6, [Interval(Real, 0, None, closed="neither")]),
    "max_iter": (1000, [Interval(Integral, 1, None, closed="left")]),
    "warm_start": (False, ["boolean"]),
    "backend": ("auto", [StrOptions(BACKENDS.keys())]),
    "precision": ("float64", [StrOptions({"float64", "float32"})]),
    "device": (0, [Interval(Integral, 0, None, closed="left"), list, StrOptions({"all"})]),
    "n_jobs": (None, [Integral, None]),
    "verbose": (0, ["verbose"]),
}


class PenalizedModel(Estimator):
    """Base of the estimators; see `CoxLassoCCD` for the meaning of the parameters."""

    _parameters: Parameters = OF_PENALTY | OF_SOLVER
    # What belongs to the rows of a model as its outcome does is requested unless a user says
    # otherwise; models with more of it than weights and offset say so.
    __metadata_request__fit = {"sample_weight": True, "offset": True}  # noqa: RUF012
    __metadata_request__score = {"sample_weight": True}  # noqa: RUF012

    _model: type[BaseModel] = BaseModel
    _fitted: Fitted | None = None

    def __init_subclass__(cls, **kwargs):
        if "_model" in cls.__dict__:
            cls._parameters = OF_PENALTY | cls._model.parameters | OF_SOLVER
        super().__init_subclass__(**kwargs)

    def _check_caller(self, y) -> None:
        """Refuse callers whose outcome this model cannot have."""

    def _l1_ratio(self):
        return self.l1_ratio

    def _gamma(self):
        """Share of the penalized fit in a relaxed one, or None."""
        return None if self.relax is None else check_share(self.relax)

    def _fit(self, X, y, sample_weight, offset, **given):
        """Body of every `fit`."""
        with closing(prepare(self, X, y, sample_weight, offset, **given)) as prepared:
            [solution] = prepared.solve([self.alpha])[0]
            require_refit(self, prepared, solution)
            adopt(self, Fitted.of(prepared, solution))
            doubts = doubts_of(self, prepared, solution)
        if doubts:
            warn(" ".join(doubts), ConvergenceWarning)
        elif empty := explain_empty(self):  # of a fit that can be trusted
            warn(empty, NothingSelectedWarning)
        return self

    @staticmethod
    def _upgrade(state):
        return upgrade(state)

    def log_likelihood(self, X, y, *, mean=False, **fit_params) -> float:
        """Log-likelihood of rows by themselves at the fitted coefficients; higher is better.

        Parameters
        ----------
        X : scipy sparse matrix, ndarray, DataFrame or Design, of shape (n_samples, n_features)
            Covariates.
        y : ndarray of shape (n_samples,)
            Outcome, as ``fit`` takes it. Subjects, strata and matched sets should be whole.
        mean : bool, default=False
            Divide it by the weighted number of events, or of rows in logistic and linear models.
        **fit_params : array-like of shape (n_samples,), optional
            What else ``fit`` takes for rows, such as `sample_weight`, `strata` or `offset`.

        Returns
        -------
        log_likelihood : float
            0 where no rows can be compared; the mean over no events is NaN, unless that is 0.
        """
        check_arguments(self, fit_params, "log_likelihood")
        total, size = log_likelihood_of(self, X, y, fit_params)
        return total / (size or np.nan) if mean and total else total

    def _predict_linear(self, X) -> np.ndarray:
        if in_partitions(X):
            return predict_to_memory(self, PenalizedModel._predict_linear, X)
        predictor = check_columns(self, X).dot(self.coef_)
        return predictor + self.intercept_ if hasattr(self, "intercept_") else predictor

    def summary(self, intervals=None):
        """Table of coefficients.

        Parameters
        ----------
        intervals : object with intervals, optional
            Result for this fit, of `wald`, `bootstrap` or `profile_likelihood`, whose bounds are
            added; NaN for coefficients that it does not have. The bounds of `profile_likelihood`
            are those of a coefficient without its penalty: where the fit penalizes it, ``coef`` is
            still the fit's, and may lie outside of them.

        Returns
        -------
        table : pandas.DataFrame
            A row for each coefficient, indexed by the name of its column: ``coef``, ``lower`` and
            ``upper`` where there are intervals, and, where exp(coef) is a ratio of hazards, odds
            or rates, the same of that ratio. Where some coefficient is infinite, a last column
            ``is_infinite`` says which: their ``coef`` is what was reached when the fit stopped.
        """
        check_is_fitted(self)
        return table_of(self, intervals)

    def _get_fitted_attr_html(self, doc_link=""):
        """scikit-learn's table of fitted attributes (from 1.9 on, which calls this), below ours."""
        attributes = super()._get_fitted_attr_html(doc_link)
        table_of_sklearn = attributes._html_repr
        attributes._html_repr = lambda: fit_card(self) + table_of_sklearn()
        return attributes


@documented
class ConditionalModel(PenalizedModel):
    """Model that knows of rows their linear predictor, and the log-likelihood of sets of them."""

    __metadata_request__score = {"offset": True}  # noqa: RUF012

    @by_partition()
    def predict(self, X):
        """Linear predictor; only differences within a group have a meaning.

        <<predictor>>
        """
        return self._predict_linear(X)
