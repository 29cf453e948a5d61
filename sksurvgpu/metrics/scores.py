r"""Brier score and AUC of predicted risks, of the only kind of event or of one of several.

By a horizon t a row has met the event of interest (a case), met a competing event, is free of
events, or was censored before. With G the Kaplan-Meier curve of censoring, events first at tied
times, rows in sight stand for those censored with the weights

    W(t) = 1 / G(T-)  after an event at T <= t,   1 / G(t)  if free of events at t,   0  else

and with predicted risks F(t) (Schoop et al. 2011; Blanche, Dartigues and Jacqmin-Gadda 2013)

    Brier(t) = mean_i W_i(t) (D_i(t) - F_i(t))^2,    D_i(t) = [case by t]
    AUC(t) = sum_{i case, j no case} W_i W_j ([F_i > F_j] + [F_i = F_j] / 2) / sum W_i W_j .

Without competing events scikit-survival has G(T) in place of G(T-), and so have we.  Sorting by
risk makes either O(n log n) a horizon.

With entry times G is the share of those free of events that is seen (`LateEntry`), and who has not
come by t has the weight 0.
"""

import numpy as np
from pandas import Index, Series

from .._calls import called_as
from .._docs import entries, section, sharing
from ..nonparametric.risk import Censoring, LateEntry
from .observed import check_same_event, read_observed, read_risks

BOTH = "with outcomes of surv or competing_risks, which may be the same"

_ENTRIES = entries("""
    y_train : structured ndarray
        Outcome whose censoring is estimated, from `sksurvgpu.surv`, or for competing events from
        `sksurvgpu.competing_risks`; as a rule that of the fit.
    y_test : structured ndarray of shape (n_samples,)
        Outcome of the rows whose risk was predicted.
    risk : DataFrame or array-like of shape (n_samples, n_times)
        Predicted risks, those of the event of interest, as from ``predict_risk``.
    times : float or array-like of shape (n_times,), optional
        Horizons, increasing, before the last times of both outcomes; by default the columns of
        `risk`. Without competing events the first lies within the follow-up of `y_test`; a mean
        over time takes two or more.
    event_of_interest : int or str, optional
        Its code or label, for outcomes of `competing_risks`: all other events compete with it.
        None for those of `surv`.
    area : pandas.Series of shape (n_times,)
        By horizon; 0.5 for risks that say nothing.
    """)
_documented = sharing(_ENTRIES)


@called_as("brier_score(y_train, y_test, risk, times), " + BOTH)
@_documented
def brier_score(y_train, y_test, risk, times=None, *, event_of_interest=None):
    """Mean squared error of predicted risks at horizons, weighted for censoring.

    Parameters
    ----------
    <<y_train, y_test, risk, times, event_of_interest>>

    Returns
    -------
    score : pandas.Series of shape (n_times,)
        By horizon; 0 is best, 0.25 is that of a risk of one half for everybody.

    See Also
    --------
    integrated_brier_score : Its mean over time.
    auc : Discrimination alone.

    Notes
    -----
    Rows with an event at T by the horizon t weigh ``1 / G(T-)``, those free of events ``1 / G(t)``
    and those censored by then nothing; G is the Kaplan-Meier estimate of the probability not to be
    censored, where events come before censorings at the same time. Without competing events it is
    ``1 / G(T)``, as in ``sksurv.metrics.brier_score``, which differs where an event is tied with a
    censoring. Strata of the outcomes are not used. Outcomes may have entry times (``start``), both
    of them, that depend neither on the time of events nor on covariates: an event then weighs
    its jump in the Kaplan-Meier curve, and a row at risk at t its share of ``S(t)``.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, FineGrayCCD
    >>> from sksurvgpu.datasets import simulate_cox, simulate_fine_gray
    >>> from sksurvgpu.metrics import brier_score
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.02).fit(data.X[:500], data.y[:500])
    >>> risk = model.predict_risk(data.X[500:], [10, 20, 40])
    >>> brier_score(data.y[:500], data.y[500:], risk).round(3).tolist()
    [0.157, 0.215, 0.203]

    Of an event among competing ones:

    >>> data = simulate_fine_gray(1_000, 50, random_state=0)
    >>> model = FineGrayCCD(alpha=0.02).fit(data.X[:500], data.y[:500])
    >>> risk = model.predict_risk(data.X[500:], [0.2, 0.5])
    >>> brier_score(data.y[:500], data.y[500:], risk, event_of_interest=1).round(3).tolist()
    [0.087, 0.174]
    """
    is_case, weights, risks, horizons = _read(y_train, y_test, risk, times, event_of_interest)
    return _by_horizon(np.mean(weights * (is_case - risks) ** 2, axis=0), horizons, "brier_score")


@called_as("integrated_brier_score(y_train, y_test, risk, times), " + BOTH)
@_documented
def integrated_brier_score(y_train, y_test, risk, times=None, *, event_of_interest=None):
    """Brier score, averaged over the time between the first and the last horizon.

    Parameters
    ----------
    <<y_train, y_test, risk, times, event_of_interest>>

    Returns
    -------
    score : float
        Integral by the trapezoidal rule, divided by the time between the horizons.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.metrics import integrated_brier_score
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.02).fit(data.X[:500], data.y[:500])
    >>> risk = model.predict_risk(data.X[500:], [10, 20, 40])
    >>> round(integrated_brier_score(data.y[:500], data.y[500:], risk), 3)
    0.201
    """
    score = brier_score(y_train, y_test, risk, times, event_of_interest=event_of_interest)
    return _mean_over_time(score)


@called_as("auc(y_train, y_test, risk, times), " + BOTH)
@_documented
def auc(y_train, y_test, risk, times=None, *, event_of_interest=None):
    """Area under the cumulative/dynamic ROC curve at horizons, weighted for censoring.

    The probability that a row with the event of interest by the horizon has a higher predicted risk
    than a row without it, free of events or with a competing event; ties count one half.

    Parameters
    ----------
    <<y_train, y_test, risk, times, event_of_interest>>

    Returns
    -------
    <<area>>

    See Also
    --------
    concordance, concordance_competing : One number for all times.

    Notes
    -----
    Pairs weigh the product of their rows' weights, which are those of `brier_score`. Without
    competing events this is ``sksurv.metrics.cumulative_dynamic_auc``, but that risks which hardly
    differ are not tied; with competing events the second of the two definitions of Blanche,
    Dartigues and Jacqmin-Gadda (Statistics in Medicine 32, 2013, 5381-5397). Strata of the outcomes
    are not used.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, FineGrayCCD
    >>> from sksurvgpu.datasets import simulate_cox, simulate_fine_gray
    >>> from sksurvgpu.metrics import auc
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.02).fit(data.X[:500], data.y[:500])
    >>> risk = model.predict_risk(data.X[500:], [10, 20, 40])
    >>> auc(data.y[:500], data.y[500:], risk).round(3).tolist()
    [0.679, 0.685, 0.691]

    Of an event among competing ones:

    >>> data = simulate_fine_gray(1_000, 50, random_state=0)
    >>> model = FineGrayCCD(alpha=0.02).fit(data.X[:500], data.y[:500])
    >>> risk = model.predict_risk(data.X[500:], [0.2, 0.5])
    >>> auc(data.y[:500], data.y[500:], risk, event_of_interest=1).round(3).tolist()
    [0.549, 0.541]
    """
    read = _read(y_train, y_test, risk, times, event_of_interest, first=0)
    is_case, weights, risks, horizons = read
    area = [_area(*column) for column in zip(is_case.T, weights.T, risks.T, strict=True)]
    return _by_horizon(area, horizons, "auc")


def _of_competing(score):
    """`score` of one of several kinds of events, of which there is one by default."""
    name = f"{score.__name__}_competing"

    def of_event(y_train, y_test, risk, times=None, *, event_of_interest=1):
        return score(y_train, y_test, risk, times, event_of_interest=event_of_interest)

    of_event.__name__ = of_event.__qualname__ = name
    of_event.__doc__ = f"""`{score.__name__}` of one of several kinds of events.

    Parameters
    ----------
    <<y_train, y_test, risk, times>>
    event_of_interest : int or str, default=1
        Its code or label; all other events compete with it.

    Returns
    -------
    <<returned>>
    """
    [returned] = section(score.__doc__, "Returns").values()
    documented = sharing(_ENTRIES | {"returned": returned})
    return called_as(f"{name}(y_train, y_test, risk, times), {BOTH}")(documented(of_event))


brier_score_competing = _of_competing(brier_score)
integrated_brier_score_competing = _of_competing(integrated_brier_score)
auc_competing = _of_competing(auc)


def _read(y_train, y_test, risk, times, event_of_interest=None, first=-1):
    """Cases and weights by horizon, risks and horizons; there are events by the `first` horizon."""
    is_outcome = [np.asarray(y).dtype.names is not None for y in (y_train, y_test)]
    if is_outcome == [True, False]:
        raise TypeError(
            f"`y_test` is of type {type(y_test).__name__}, must be an outcome: both come first, "
            "then `risk` and `times`; where there is one outcome, pass it twice."
        )
    train, test = (
        read_observed(y, name, event_of_interest, may_be_flags=False, may_start=True)
        for y, name in ((y_train, "y_train"), (y_test, "y_test"))
    )
    is_alone = event_of_interest is None
    check_same_event(risk, event_of_interest, y_test)
    risks, horizons = read_risks(risk, times, len(test.time), "y_test")
    for observed in (train, test):  # before the last time no probability is 0
        observed.check_follow_up(horizons)
    if is_alone:
        train.check_events()
    test.check_events(horizons[first])
    if is_alone:
        test.check_start(horizons)
    censoring = _censoring(train, test, horizons)
    is_over = test.time[:, None] <= horizons
    is_case = is_over & (test.status == 1)[:, None]
    until = np.minimum(test.time, horizons[-1])  # later ones have no part, and may be 0
    is_as_in_sksurv = is_alone and test.start is None
    in_sight = censoring.at(until) if is_as_in_sksurv else censoring.before(until)
    ended = np.where(test.status > 0, 1.0 / in_sight, 0.0)
    weights = np.where(is_over, ended[:, None], 1.0 / censoring.at(horizons))
    if test.start is not None:
        weights[test.start[:, None] > horizons] = 0.0
    return is_case, weights, risks, horizons


def _censoring(train, test, horizons):
    """Who is in sight, by the rows of the fit."""
    if (train.start is None) != (test.start is None):
        with_start, without = (train, test) if test.start is None else (test, train)
        raise ValueError(
            f"`{with_start.name}` has a field 'start', `{without.name}` has none; pass two "
            "outcomes of rows that enter alike, or one of them twice."
        )
    if train.start is None:
        return Censoring.of(train)
    entry = LateEntry.of(train)
    times = np.append(horizons, test.time[(test.status > 0) & (test.time <= horizons[-1])])
    seen = np.append(entry.at(horizons), entry.before(times[len(horizons) :]))
    is_blind = seen <= 0.0
    if is_blind.any():
        raise ValueError(
            f"Of `{train.name}` nobody is at risk at the time {times[is_blind].min():g}, or all "
            "at risk had events before others entered; leave out rows that end before enough "
            "others are at risk, or take other horizons."
        )
    is_at_risk = (test.start[:, None] <= horizons) & (test.time[:, None] > horizons)
    if not is_at_risk.any(axis=0).all():
        raise ValueError(
            f"Of `{test.name}` nobody is at risk at the time "
            f"{horizons[np.argmin(is_at_risk.any(axis=0))]:g}; take other horizons."
        )
    return entry


def _area(is_case, weight, risk):
    """Share of pairs, by weight, in which the case has the higher risk."""
    values, rank = np.unique(risk, return_inverse=True)
    cases = np.bincount(rank, is_case * weight, len(values))
    others = np.bincount(rank, ~is_case * weight, len(values))
    below = np.append(0.0, np.cumsum(others))
    return min(1.0, cases @ (below[:-1] + 0.5 * others) / (cases.sum() * below[-1]))


def _by_horizon(values, horizons, name):
    """Metric at each horizon."""
    return Series(values, index=Index(horizons, name="time"), name=name)


def _mean_over_time(score) -> float:
    """Integral of a metric over its horizons by the trapezoidal rule, over their distance."""
    horizons = score.index.to_numpy()
    if len(horizons) < 2:
        raise ValueError(
            f"`times` has one entry, {horizons[0]:g}; a mean over time takes two horizons or more."
        )
    return float(np.trapezoid(score.to_numpy(), horizons) / (horizons[-1] - horizons[0]))
