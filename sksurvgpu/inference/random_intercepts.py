"""Random intercepts of clusters beside a fit, and what follows from them."""

import copy
from contextlib import closing
from inspect import signature

import numpy as np
from pandas import DataFrame, Index, Series
from scipy.stats import chi2
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from .._versioned import Versioned
from .._warnings import warn
from ..data.design.columns import build_design
from ..data.intervals import check_level
from ..data.options import is_number
from ..data.partitioned import check_in_memory, require_in_memory
from ..data.vectors import check_labels, check_order, encode
from ..estimators._composition import penalty_of
from ..estimators._docs import documented
from ..estimators._preparing import prepare
from ..estimators._report import doubts_of
from ..estimators.competing import FineGrayCCD
from ..estimators.fitted import Fitted, adopt, fitted_of
from ..estimators.logistic import LogisticCCD
from ..estimators.models.base import model_of
from ..estimators.pipelines import (
    join_steps,
    learn_steps,
    open_pipeline,
    refuse_type,
    split_pipeline,
)
from ..estimators.regression import PoissonCCD
from ..estimators.survival import CoxLassoCCD
from ..selection.cv import CrossValidated
from ._covariance import invert_of
from ._intercept_variance import ModeInformation, VarianceSearch
from ._joint_mode import Intercepts
from ._laplace import IntegratedLikelihood
from .wald import WaldResult

MODELS = (CoxLassoCCD, FineGrayCCD, LogisticCCD, PoissonCCD)
ZERO = (
    "the variance of the intercepts is zero: clusters differ by no more than chance among their "
    "rows, and the fit is that without them."
)
SINGLE = (
    "every label of `cluster` is of one row, so that intercepts are told from chance by the shape "
    "of the model alone; label clusters of several rows."
)
UNSETTLED = (
    "the intercepts are not at their optimum: lower `tol` of the estimator, or give `variance` a "
    "smaller number."
)
FORWARDED = """``{name}`` of the estimator, with the intercepts of clusters.

        Parameters
        ----------
        X : scipy sparse matrix, ndarray, DataFrame or Design, of shape (n_samples, n_features)
            Covariates.
        cluster : array-like of shape (n_samples,), optional
            Label of the cluster of each row. Intercepts of labels that the fit does not know are 0,
            as all are without labels: what is predicted is that of a typical cluster, no mean.

        Returns
        -------
        found : ndarray, pandas.DataFrame or float
            What that method returns.
        """


def _forward(name):
    """Method of the fitted model that is there if the estimator has it."""

    def method(self, X, *args, cluster=None, **kwargs):
        model, table = self._open(X, cluster)
        found = getattr(model, name)(table, *args, **kwargs)
        if isinstance(found, DataFrame) and isinstance(X, DataFrame):
            found.index = X.index
        return found

    method.__name__, method.__qualname__ = name, f"RandomIntercepts.{name}"
    method.__doc__ = FORWARDED.format(name=name)
    return available_if(lambda self: hasattr(split_pipeline(self._chosen())[1], name))(method)


@documented
class RandomIntercepts(Versioned, BaseEstimator):
    r"""Models with a normal random intercept for each cluster, such as hospitals or families.

    The linear predictor of row i of cluster g is :math:`x_i'\beta + b_g` with independent
    :math:`b_g \sim N(0, v)`, in a Cox model a log-normal frailty. The intercepts maximize

    .. math:: \ell(X\beta + Zb) - P(\beta) - \tfrac{1}{2v} b'b

    with the log-likelihood and the penalty of the estimator, and so do the coefficients, but for
    those of logistic and Poisson models without a penalty by "ml".

    Parameters
    ----------
    estimator : estimator, pipeline or None, default=None
        `CoxLassoCCD` (by default), `FineGrayCCD`, `LogisticCCD` or `PoissonCCD`, of which a copy is
        fitted, with whatever penalty. Of a cross-validated one the penalty is chosen without the
        intercepts.
    variance : {"reml", "ml"}, float or None, default=None
        How v is estimated, or v itself. "ml" maximizes Laplace's approximation of the likelihood
        of v and, of logistic and Poisson models without a penalty, of the coefficients; "reml"
        solves the equation of Ripatti and Palmgren, for the degrees of freedom of columns without
        a penalty and an intercept, too. None is "ml" of logistic and Poisson models, "reml" of
        Cox and Fine-Gray models.

    Attributes
    ----------
    estimator_ : estimator or pipeline
        The fitted copy, whose offsets had the intercepts in them.
    cluster_effects_ : pandas.Series
        Intercepts by label.
    variance_ : float
        Variance of the intercepts.
    variance_sd_ : float
        Its standard error, NaN where it is zero or was given.
    variance_p_value_ : float
        Of the likelihood ratio test that the variance is zero: half of the tail of chi-squared
        with one degree of freedom. NaN beside a penalty.
    log_likelihood_ : float
        Laplace's approximation of the log-likelihood without the intercepts.

    Notes
    -----
    Of a Cox model "reml" is ``frailty(id, dist="gauss")`` of R's survival and "ml" is ``coxme``,
    whose default takes information of more than 50 clusters as diagonal. Of logistic and Poisson
    models "ml" is lme4's ``glmer``; :doc:`/models/clusters` says where they are biased.

    With scikit-learn's metadata routing, ``cluster`` and what else rows have is requested.

    Examples
    --------
    >>> import numpy as np
    >>> from sksurvgpu import CoxLassoCCD, RandomIntercepts
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(2_000, 4, density=0.3, random_state=0)
    >>> hospital = np.arange(2_000) % 40
    >>> model = RandomIntercepts(CoxLassoCCD(alpha=0), variance=0.1)
    >>> model.fit(data.X, data.y, hospital).cluster_effects_.shape
    (40,)
    >>> model.predict_risk(data.X[:2], 20, cluster=[3, 99]).shape  # 99 is new, its intercept 0
    (2, 1)
    """

    __metadata_request__fit = dict.fromkeys(("cluster", "sample_weight", "strata", "offset"), True)
    __metadata_request__predict = dict.fromkeys(("cluster",), True)
    __metadata_request__predict_proba = __metadata_request__predict
    __metadata_request__predict_log_proba = __metadata_request__predict
    __metadata_request__decision_function = __metadata_request__predict
    __metadata_request__score = dict.fromkeys(("cluster", "sample_weight", "strata"), True)

    def __init__(self, estimator=None, *, variance=None):
        self.estimator = estimator
        self.variance = variance

    def fit(self, X, y, cluster, sample_weight=None, strata=None, offset=None):
        """Fit the model.

        Parameters
        ----------
        <<X_here>>
        y : ndarray of shape (n_samples,)
            Outcome, as the estimator takes it.
        cluster : array-like of shape (n_samples,)
            Label of the cluster of each row.
        <<sample_weight, strata, offset>>

        <<itself>>
        """
        require_in_memory(X)
        given = {"sample_weight": sample_weight, "strata": strata, "offset": offset}
        given = {name: values for name, values in given.items() if values is not None}
        check_in_memory(X, y=y, cluster=cluster, **given)
        steps, model = self._check(given)
        if steps is not None:
            steps, X = learn_steps(steps, X, y, given)
        table = build_design(X, may_be_computed=True)
        codes, labels = _read_clusters(cluster, table.n_rows)
        if isinstance(model, CrossValidated):
            model = clone(model).fit(table, y, **given).refit_model()
        model = clone(model)
        with closing(prepare(model, table, y, **given)) as prepared:
            fits = Intercepts(model, prepared, codes, len(labels))
            self._fit(model, fits)
        self.estimator_ = model if steps is None else join_steps(steps, model)
        self._labels = labels
        return self

    def _chosen(self):
        return CoxLassoCCD() if self.estimator is None else self.estimator

    def _check(self, given):
        """Steps and model of the estimator."""
        steps, model = split_pipeline(self._chosen())
        if not isinstance(model, MODELS):
            refuse_type(self.estimator, fitted="a Cox, Fine-Gray, logistic or Poisson")
        known = signature(model.fit).parameters
        for name in given:
            if name not in known:
                raise TypeError(f"`{name}` is no argument of {type(model).__name__}.fit.")
        if model.relax is not None or not penalty_of(model).has_strength:
            name = "penalty" if model.relax is None else "relax"
            raise ValueError(
                f"`estimator` has `{name}`, whose fits are the minimum of no penalty, which "
                f"intercepts need; use set_params({name}=None)."
            )
        if self.variance not in (None, "reml", "ml") and not (
            is_number(self.variance) and 0.0 < self.variance < np.inf
        ):
            raise ValueError(
                f'`variance` is {self.variance!r}, must be None, "reml", "ml" or a positive number.'
            )
        return steps, model

    def _fit(self, model, fits):
        """Find the mode, and have the model be the fit there."""
        is_free = fits.alpha * fits.prepared.batch.factor == 0
        fits, mode, self.variance_sd_ = self._find_mode(fits, is_free)
        offset = fits.offset_at(mode.intercepts)[:, None]
        prepared = fits.prepared.with_batch(offset=offset)
        adopt(model, Fitted.of(prepared, mode.solution))
        doubts = doubts_of(model, prepared, mode.solution)
        if not mode.settled:
            doubts.append(UNSETTLED)
        if doubts:
            warn(" ".join(doubts), ConvergenceWarning)
        found = ModeInformation(fits, mode, is_free)
        self.variance_, self._effects = float(mode.variance), mode.intercepts
        self.log_likelihood_, self.variance_p_value_ = found.log_likelihood, np.nan
        self._inverse = invert_of(model, found.information) if is_free.all() else None
        if is_free.all() and not is_number(self.variance):
            gain = 2.0 * (self.log_likelihood_ - fits.plain.loglik)
            self.variance_p_value_ = float(0.5 * chi2.sf(gain, 1)) if gain > 0.0 else 1.0

    def _find_mode(self, fits, is_free):
        """Fits, their mode, and the standard error of its variance."""
        kind = self.variance
        if kind is None:
            kind = "reml" if fits.has_time else "ml"
        if not isinstance(kind, str):
            return fits, fits.mode(float(kind), fits.without()), np.nan
        moves_all = kind == "ml" and not fits.has_time and is_free.all()
        search = VarianceSearch(fits, kind == "reml", is_free, moves_all)
        if not search.run():
            warn(ZERO)
            return fits, fits.without(), np.nan
        if not moves_all:
            return fits, search.mode, float(search.sd)
        laplace = IntegratedLikelihood(fits, search.mode)
        inverse = ModeInformation(fits, search.mode, is_free).inverse.matrix
        mode, sd = laplace.climb(inverse, search.sd / search.mode.variance)
        return laplace.fits, mode, float(sd)

    @property
    def cluster_effects_(self):
        """Intercepts by label."""
        check_is_fitted(self, "estimator_")
        return Series(self._effects, Index(self._labels, name="cluster"), name="effect")

    @property
    def n_features_in_(self):
        """Columns of X."""
        return self._fitted_model().n_features_in_

    @property
    def classes_(self):
        """Class labels of a logistic model."""
        return self._fitted_model().classes_

    def _fitted_model(self):
        check_is_fitted(self, "estimator_")
        return open_pipeline(self.estimator_)[0]

    def wald(self, *, level=0.95) -> WaldResult:
        """Standard errors and intervals of the coefficients, without a penalty.

        Parameters
        ----------
        level : float, default=0.95
            Confidence level of the intervals.

        Returns
        -------
        result : WaldResult
            The covariance knows that the intercepts were estimated, and takes their variance for
            known, as R's coxph, coxme and lme4 do.
        """
        model, level = self._fitted_model(), check_level(level)
        if self._inverse is None:
            raise ValueError(
                "`estimator` penalizes columns, which are biased towards zero and have no Wald "
                "intervals; set alpha=0, or penalty_factor=0 for all of them."
            )
        coef = np.where(self._inverse.identified, self._inverse.move(model.coef_), np.nan)
        return WaldResult(
            coef=coef,
            covariance=self._inverse.covariance,
            level=level,
            robust=False,
            feature_names=fitted_of(model).names,
            _effect=model_of(model).effect,
            _fitted=model.coef_.copy(),
        )

    decision_function = _forward("decision_function")
    predict = _forward("predict")
    predict_cumulative_hazard_function = _forward("predict_cumulative_hazard_function")
    predict_cumulative_incidence_function = _forward("predict_cumulative_incidence_function")
    predict_log_proba = _forward("predict_log_proba")
    predict_median = _forward("predict_median")
    predict_proba = _forward("predict_proba")
    predict_quantile = _forward("predict_quantile")
    predict_risk = _forward("predict_risk")
    predict_survival_function = _forward("predict_survival_function")
    score = _forward("score")

    def _open(self, X, cluster):
        """The fitted model, whose predictors have the intercepts of rows, and X as it takes it."""
        check_is_fitted(self, "estimator_")
        model, table = open_pipeline(self.estimator_, require_in_memory(X))
        if cluster is None:
            return model, table
        check_order(X=X, cluster=cluster)
        effects = self._effects_of(cluster, table.shape[0])
        shifted = copy.copy(model)
        shifted._predict_linear = lambda X: model._predict_linear(X) + effects
        if isinstance(model, (CoxLassoCCD, FineGrayCCD)):
            shifted._predictors = lambda X: model._predictors(X) + effects[:, None]
            shifted.predict = lambda X, **time: model.predict(X, **time) + effects
        return shifted, table

    def _effects_of(self, cluster, n_rows):
        """Intercepts of rows, 0 of clusters that the fit does not know."""
        given = check_labels(cluster, "cluster", n_rows)
        codes = Index(self._labels).get_indexer(given)
        if (codes < 0).all() and given.dtype.kind != self._labels.dtype.kind:
            warn(
                "no label of `cluster` is one of the fit, so that all intercepts are 0; they are "
                f"such as {given[:1].tolist()}, those of the fit such as "
                f"{self._labels[:1].tolist()}."
            )
        return np.append(self._effects, 0.0)[codes]

    def __sklearn_tags__(self):
        return get_tags(self._chosen())


def _read_clusters(cluster, n_rows):
    """Number of each row's cluster, and labels by number."""
    codes, labels = encode(check_labels(cluster, "cluster", n_rows))
    if len(labels) < 2:
        raise ValueError(
            f"`cluster` has one label ({labels[0]}) for all {n_rows:,} rows; a variance is one "
            "among several clusters."
        )
    if len(labels) == n_rows:
        warn(SINGLE)
    return codes, labels
