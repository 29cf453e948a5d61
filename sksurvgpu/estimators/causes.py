"""Hazards of all kinds of event, and the incidences that follow from them."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from .._versioned import Versioned
from .._warnings import keep_warnings, warn
from ..data.checks import check_horizons
from ..data.design.columns import build_design
from ..data.outcomes.fields import (
    check_event_of_interest,
    labels_of,
    pack,
    read_survival,
)
from ..data.partitioned import require_in_memory
from ..metrics.competing import concordance_competing
from ._docs import documented
from .baseline import survival
from .fitted import fitted_of
from .joint_baseline import JointBaseline, add_up
from .pipelines import join_steps, learn_steps, open_pipeline, refuse_type, split_pipeline
from .survival import CoxLassoCCD

__all__ = ["CauseSpecificCox"]


@documented
class CauseSpecificCox(Versioned, BaseEstimator):
    r"""Cox models of all kinds of event, and risks of them that add up.

    The hazard of each kind of event is that of a Cox model in which the other kinds end follow-up,
    with coefficients of its own. The cumulative incidence of an event follows from the hazards of
    all: with the increments :math:`dA_k(t)` of a row's cumulative hazards, their sum :math:`dA`,
    and the probability :math:`S(t) = \exp(-A(t))` of no event until t,

    .. math:: F_k(t) = \sum_{s \le t} \frac{dA_k(s)}{dA(s)} \bigl(S(s-) - S(s)\bigr), \qquad
              S(t) + \sum_k F_k(t) = 1 .

    Parameters
    ----------
    estimator : CoxLassoCCD, CoxLassoCV, pipeline, dict or None, default=None
        Copies of it are fitted, one for each kind of event; `CoxLassoCCD` by default. With a
        dictionary ``{event: estimator}``, by code or label, every kind has one of its own.
    event_of_interest : int or str, default=1
        Code or label of the event that predictions are of where they do not say which.

    Attributes
    ----------
    events_ : list of int or str
        Labels of the kinds of event, or their codes without labels, in the order of codes.
    estimators_ : dict
        Fitted models by event.

    See Also
    --------
    FineGrayCCD : One incidence by itself, whose coefficients speak of it directly.
    sksurvgpu.nonparametric.aalen_johansen : Incidences without covariates.

    Notes
    -----
    Outcomes may have entry times (``start``), persons of several rows whose covariates change
    (``subject``), and strata; models may have coefficients that change over time.

    Equal to ``survfit`` of a multi-state ``coxph(..., ties="breslow")`` of R's survival. Where ties
    are many, :math:`\exp(-dA)` takes the place of the factors :math:`1 - dA`, as
    ``riskRegression::CSC(..., product.limit=FALSE)`` has it: incidences then never exceed 1.

    Examples
    --------
    >>> from sksurvgpu import CauseSpecificCox, CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_fine_gray
    >>> data = simulate_fine_gray(1_000, 50, random_state=0)
    >>> model = CauseSpecificCox(CoxLassoCCD(alpha=0.01)).fit(data.X, data.y)
    >>> model.events_
    [1, 2]
    >>> risks = [model.predict_risk(data.X[:2], [0.2, 0.5], event=k) for k in model.events_]
    >>> risks[0].round(2)
    time   0.2   0.5
    0     0.09  0.21
    1     0.09  0.21
    >>> bool((sum(risks) < 1.0).all(axis=None))
    True
    """

    __metadata_request__fit = {"sample_weight": True, "strata": True, "offset": True}  # noqa: RUF012
    __metadata_request__score = {"sample_weight": True, "strata": True}  # noqa: RUF012

    def __init__(self, estimator=None, *, event_of_interest=1):
        self.estimator = estimator
        self.event_of_interest = event_of_interest

    def fit(self, X, y, sample_weight=None, strata=None, offset=None):
        """Fit a model to each kind of event.

        Parameters
        ----------
        <<X_here>>
        y : structured ndarray of shape (n_samples,)
            Outcome from `sksurvgpu.competing_risks`.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights, at least 0.
        <<strata, offset>>

        Returns
        -------
        <<self>>
        """
        require_in_memory(X)
        items = read_survival(y, "iu", "fit CoxLassoCCD for a single kind", model="Cox")
        event, labels = items["event"], labels_of(y[y.dtype.names[0]])
        codes = np.unique(event[event > 0]).tolist()
        given = {"sample_weight": sample_weight, "strata": strata, "offset": offset}
        given = {name: values for name, values in given.items() if values is not None}
        check_event_of_interest(self.event_of_interest, event)
        chosen = self._choose(codes, event)
        if all(split_pipeline(one)[0] is None for one in chosen.values()):
            X = build_design(X, may_be_computed=True)  # once for all of them
        beside = {field: y[field] for field in y.dtype.names[1:]}
        fitted = {}
        for code in codes:
            own = pack({y.dtype.names[0]: event == code, **beside})
            label = labels.get(code, code)
            with _speaking_of(label):
                fitted[label] = _fit(chosen[code], X, own, given)
        self.estimators_ = fitted
        self._codes = dict(zip(codes, fitted, strict=True))
        return self

    # -- predicting -----------------------------------------------------------------------------
    def predict(self, X, *, event=None, time=None):
        """Linear predictor of one event, the log ratio of its hazard to that of a row of zeros.

        Parameters
        ----------
        <<X_here, event_of_prediction>>
        time : float, optional
            Time whose coefficients apply; required where those of the event change over time.

        Returns
        -------
        predictor : ndarray of shape (n_samples,)
            Higher is riskier. The incidence depends on the hazards of the other events, too.
        """
        label = self._event(event)
        model, table = open_pipeline(self.estimators_[label], X)
        return model.predict(table, time=time)

    def predict_cumulative_incidence_function(
        self, X, strata=None, return_array=False, *, event=None, start=None
    ):
        """Probability that an event has happened by each time, for every row.

        Parameters
        ----------
        <<X_here, strata_of_fit, return_array, event_of_prediction, start>>

        Returns
        -------
        incidence : ndarray
            <<curves>>
        """
        k = self.events_.index(self._event(event))
        return self._curves(X, strata, return_array, lambda hazards: add_up(hazards)[k], start)

    def predict_survival_function(self, X, strata=None, return_array=False, *, start=None):
        """Probability of no event of any kind until each time, for every row.

        Parameters
        ----------
        <<X_here, strata_of_fit, return_array, start>>

        Returns
        -------
        survival : ndarray
            <<curves>>
        """
        return self._curves(
            X, strata, return_array, lambda hazards: survival(hazards.sum(0)), start
        )

    def predict_risk(self, X, times, *, event=None, strata=None, start=None):
        """Probability that an event has happened by each horizon, for every row.

        Parameters
        ----------
        <<X_here, times, event_of_prediction, strata_of_fit, start>>

        Returns
        -------
        risk : pandas.DataFrame of shape (n_samples, n_times)
            <<risks>>

        See Also
        --------
        sksurvgpu.metrics.calibration : Compares risks with what was observed.
        """
        from pandas import DataFrame, Index

        label, horizons = self._event(event), check_horizons(times)
        baseline, *rows = self._open(X, strata, start)
        risks = baseline.risks_of(self.events_.index(label), horizons, *rows)
        index = X.index if isinstance(X, DataFrame) else None
        risk = DataFrame(risks, index=index, columns=Index(horizons, name="time"))
        # as it was given: of its code an outcome without labels knows, too
        risk.attrs["event_of_interest"] = self.event_of_interest if event is None else event
        return risk

    def score(self, X, y, sample_weight=None, strata=None):
        """Concordance of the risk of the event of interest, weighted for censoring.

        The risk is that by the end of the follow-up of the row's stratum in the fit; see
        `sksurvgpu.metrics.concordance_competing`, which refuses entry times.

        Parameters
        ----------
        <<X_here>>
        y : structured ndarray of shape (n_samples,)
            Outcome.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights.
        strata : array-like of shape (n_samples,), optional
            Stratum of each row, one of those of the fit, where `y` has no field ``stratum``.

        Returns
        -------
        concordance : float
            Between 0 and 1, 0.5 for predictions that say nothing.
        """
        event = self._event(None)
        k = self.events_.index(event)
        items = read_survival(y, "iu", "fit CoxLassoCCD for a single kind", strata=strata)
        if event not in labels_of(items["event"]).values():
            event = list(self._codes)[k]
        given, labels = items["stratum"], items["stratum_labels"]
        baseline, predictors, codes, _ = self._open(
            X, None if given is None else labels[given], None
        )
        risk = baseline.last_risks_of(k, predictors, codes)
        return concordance_competing(
            y, risk, event_of_interest=event, strata=strata, sample_weight=sample_weight
        )

    def summary(self):
        """Coefficients of all models.

        Returns
        -------
        table : pandas.DataFrame
            Lines by event, its label or code, and column.
        """
        from pandas import concat

        check_is_fitted(self)
        tables = {event: model.summary() for event, model in self.estimators_.items()}
        return concat(tables, names=["event"])

    @property
    def events_(self):
        """Labels of the kinds of event, or their codes."""
        check_is_fitted(self)
        return list(self.estimators_)

    @property
    def unique_times_(self):
        """Distinct times of the rows of the fit, where curves are evaluated."""
        return fitted_of(split_pipeline(self._first())[1]).baseline.unique_times.copy()

    @property
    def n_features_in_(self):
        """Columns of X."""
        return self._first().n_features_in_

    @property
    def feature_names_in_(self):
        """Names of the columns of X, where all are strings."""
        return self._first().feature_names_in_

    def _first(self):
        check_is_fitted(self)
        return next(iter(self.estimators_.values()))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.target_tags.required = True
        return tags

    def _choose(self, codes, event):
        """An estimator for each code."""
        given = CoxLassoCCD() if self.estimator is None else self.estimator
        by_code = dict.fromkeys(codes, given)
        if isinstance(given, dict):
            labels = labels_of(event)
            known = {label: code for code, label in labels.items()}
            by_code = {known.get(key, key): one for key, one in given.items()}
            if by_code.keys() != set(codes) or len(given) > len(codes):
                raise ValueError(
                    f"`estimator` has estimators of the events {list(given)}, and `y` has "
                    f"{[labels.get(code, code) for code in codes]}; give one to each of these."
                )
        for one in by_code.values():
            if not isinstance(split_pipeline(one)[1], CoxLassoCCD):
                refuse_type(one, fitted="an")
        return by_code

    def _event(self, event):
        """Label of an event, that of interest by default."""
        check_is_fitted(self)
        event = self.event_of_interest if event is None else event
        event = self._codes.get(event, event)
        if event not in self.events_:
            raise ValueError(f"`event` is {event!r}, must be one of {self.events_}.")
        return event

    def _open(self, X, strata, start):
        """Baseline of all hazards; predictors, strata and starts of rows."""
        check_is_fitted(self)
        require_in_memory(X)
        opened = [open_pipeline(model, X) for model in self.estimators_.values()]
        predictors = [model._predictors(table) for model, table in opened]
        baseline = JointBaseline.of([fitted_of(model).baseline for model, _ in opened])
        codes = baseline.strata_of(strata, len(predictors[0]))
        return baseline, np.hstack(predictors), codes, baseline.timeline.check_start(start, codes)

    def _curves(self, X, strata, return_array, curve, start):
        baseline, predictors, codes, start = self._open(X, strata, start)
        return baseline.curves(predictors, codes, return_array, curve, start)


def _fit(estimator, X, y, fit_params):
    """Fit a copy of an estimator, of which the last step of a pipeline gets all arguments."""
    steps, model = split_pipeline(estimator)
    if steps is None:
        return clone(model).fit(X, y, **fit_params)
    steps, table = learn_steps(steps, X, y, fit_params)
    return join_steps(steps, clone(model).fit(table, y, **fit_params))


@contextmanager
def _speaking_of(event):
    """Say in warnings and errors of a fit which event they are about."""
    try:
        with keep_warnings() as kept:
            yield
    except Exception as error:
        error.add_note(f"This is about the model of event {event!r}.")
        raise
    for found in kept:
        warn(f"Event {event!r}: {found}", type(found))
