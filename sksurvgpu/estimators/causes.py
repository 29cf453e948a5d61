"""Hazards of all kinds of event, and the incidences that follow from them."""

import numpy as np
from pandas import DataFrame, Index

from ..data.checks import check_horizons
from ..data.outcomes.fields import check_event_of_interest, labels_of, pack, read_survival
from ..data.partitioned import check_in_memory, require_in_memory
from ..metrics.competing import concordance_competing
from ._docs import documented
from ._hazards import HazardModels
from .hazard_curves import survival
from .joint_baseline import add_up
from .pipelines import open_pipeline

NO_EVENT = "no event"


@documented
class CauseSpecificCox(HazardModels):
    r"""Cox models of all kinds of competing events, and the cumulative incidences of all.

    Each kind of event has a Cox model with separate coefficients, in which the other kinds are
    censored. The cumulative incidence of an event follows from the hazards of all kinds: with the
    increments :math:`dA_k(t)` of a row's cumulative hazards, their sum :math:`dA`, and the
    probability :math:`S(t) = \exp(-A(t))` of no event until t,

    .. math:: F_k(t) = \sum_{s \le t} \frac{dA_k(s)}{dA(s)} \bigl(S(s-) - S(s)\bigr), \qquad
              S(t) + \sum_k F_k(t) = 1 .

    Parameters
    ----------
    estimator : CoxLassoCCD, CoxLassoCV, pipeline, dict or None, default=None
        Copies of it are fitted, one for each kind of event; `CoxLassoCCD` by default. With a
        dictionary ``{event: estimator}``, by code or label, every kind has one of its own.
    event_of_interest : int or str, default=1
        Code or label of the event that predictions are of where they do not say which.
    <<shared_coefficients>>

    Attributes
    ----------
    events_ : list of int or str
        Labels of the kinds of event, or their codes without labels, in the order of codes.
    estimators_ : dict
        Fitted models by event.
    <<joint>>

    See Also
    --------
    FineGrayCCD : One incidence by itself, whose coefficients speak of it directly.
    sksurvgpu.nonparametric.aalen_johansen : Incidences without covariates.

    Notes
    -----
    Outcomes may have entry times (``start``), persons of several rows whose covariates change
    (``subject``), and strata; models may have coefficients that change over time.

    With coefficients in common, a coefficient's penalty is `alpha` times the weight of the rows
    that it is of: what is not shared is penalized as it is by separate fits.

    Equal to ``survfit`` of a multi-state ``coxph(..., ties="breslow")`` of R's survival. Where ties
    are many, :math:`\exp(-dA)` takes the place of the factors :math:`1 - dA`: incidences then never
    exceed 1. ``riskRegression::CSC(..., product.limit=FALSE)`` has these factors, too, and adds up
    :math:`S(s-)\,dA_k`, a little more.

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

    def __init__(
        self, estimator=None, *, event_of_interest=1, shared=None, between=None, fused=None
    ):
        self.estimator = estimator
        self.event_of_interest = event_of_interest
        self.shared = shared
        self.between = between
        self.fused = fused

    def fit(self, X, y, sample_weight=None, strata=None, offset=None):
        """Fit a model to each kind of event.

        Parameters
        ----------
        <<X_here>>
        y : structured ndarray of shape (n_samples,)
            Outcome from `sksurvgpu.competing_risks`.
        <<sample_weight, strata, offset>>

        <<itself>>
        """
        require_in_memory(X)
        items = read_survival(
            y, "iu", "fit CoxLassoCCD for a single kind", model="Cox", strata=strata
        )
        event, labels = items["event"], labels_of(y[y.dtype.names[0]])
        codes = {code: labels.get(code, code) for code in np.unique(event[event > 0]).tolist()}
        check_event_of_interest(self.event_of_interest, event)
        given = {"sample_weight": sample_weight, "strata": strata, "offset": offset}
        self._learn(self._hazards(y, codes=codes), codes, X, y, given, "event")
        self._codes = codes
        return self

    def _hazards(self, y, strata=None, codes=None):
        """Outcomes of all kinds of event, each of all rows, whose strata are given beside them."""
        name, *others = y.dtype.names
        beside = {field: y[field] for field in others}
        return {
            label: (None, pack({name: y[name] == code, **beside}))
            for code, label in (codes or self._codes).items()
        }

    def _ends(self, state, of):
        """States that hazards go from and to, that rows are in, and that is asked for."""
        if state is not None:
            raise ValueError(f"`state` is {state!r}, and rows are at risk of all events: drop it.")
        names = [NO_EVENT, *self.events_]
        target = 0 if of == NO_EVENT else names.index(self._event(of))
        return [(0, k) for k in range(1, len(names))], 0, target

    def _probability(self, X, times, of, *, state, start, strata, is_time):
        """Incidence of one event, or probability of none, (n_samples, n_times)."""
        if is_time:
            raise ValueError("`what` is 'expected_time', which is of states: fit MultiStateCox.")
        events = self.events_ if of == NO_EVENT else [of]
        given = {"start": start, "strata": strata}
        risk = sum(self.predict_risk(X, times, event=k, **given) for k in events).to_numpy()
        return 1.0 - risk if of == NO_EVENT else risk

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

        <<curves>>
        """
        k = self.events_.index(self._event(event))
        return self._curves(X, strata, return_array, lambda hazards: add_up(hazards)[k], start)

    def predict_survival_function(self, X, strata=None, return_array=False, *, start=None):
        """Probability of no event of any kind until each time, for every row.

        Parameters
        ----------
        <<X_here, strata_of_fit, return_array, start>>

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

        <<risks>>

        See Also
        --------
        sksurvgpu.metrics.calibration : Compares risks with what was observed.
        """
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
        `sksurvgpu.metrics.concordance_competing`, also for entry times.

        Parameters
        ----------
        <<X_here>>
        y : structured ndarray of shape (n_samples,)
            Outcome.
        sample_weight : array-like of shape (n_samples,), optional
            Row weights.
        strata : array-like of shape (n_samples,), optional
            Stratum of each row, one of those of the fit, where `y` has no field ``stratum``.

        <<concordance>>
        """
        check_in_memory(X, sample_weight=sample_weight, strata=strata)
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

    @property
    def events_(self):
        """Labels of the kinds of event, or their codes."""
        return self._names()

    def _event(self, event):
        """Label of an event, that of interest by default."""
        events = self.events_
        event = self.event_of_interest if event is None else event
        event = self._codes.get(event, event) if np.ndim(event) == 0 else event
        if event not in events:
            raise ValueError(f"`event` is {event!r}, must be one of {events}.")
        return event

    def _curves(self, X, strata, return_array, curve, start):
        baseline, predictors, codes, start = self._open(X, strata, start)
        return baseline.curves(predictors, codes, return_array, curve, start)
