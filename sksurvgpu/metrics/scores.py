"""Brier score and AUC of predicted risks of one kind of event, by scikit-survival."""

from __future__ import annotations

import numpy as np

from .observed import read_observed, read_risks

__all__ = ["auc", "brier_score", "integrated_brier_score"]


def brier_score(y_train, y_test, risk, times=None):
    """Mean squared error of predicted risks at horizons, weighted for censoring.

    Parameters
    ----------
    y_train : structured ndarray
        Outcome, from `sksurvgpu.surv`, whose censoring is estimated; as a rule that of the fit.
    y_test : structured ndarray of shape (n_samples,)
        Outcome of the rows whose risk was predicted.
    risk : DataFrame or array-like of shape (n_samples, n_times)
        Predicted risks, as from ``predict_risk``.
    times : float or array-like of shape (n_times,), optional
        Horizons, increasing; by default the columns of `risk`. They must lie within the follow-up
        of `y_test` and before the last time of `y_train`.

    Returns
    -------
    score : pandas.Series of shape (n_times,)
        By horizon; 0 is best, 0.25 is that of a risk of one half for everybody.

    See Also
    --------
    brier_score_competing : With competing events.
    integrated_brier_score : Its mean over time.

    Notes
    -----
    Computed by ``sksurv.metrics.brier_score``. Strata of the outcomes are not used; outcomes with
    a field ``start`` are refused.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.metrics import brier_score
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.02).fit(data.X[:500], data.y[:500])
    >>> risk = model.predict_risk(data.X[500:], [10, 20, 40])
    >>> brier_score(data.y[:500], data.y[500:], risk).round(3).tolist()
    [0.157, 0.215, 0.203]
    """
    from sksurv.metrics import brier_score

    *outcomes, risks, horizons = _read(y_train, y_test, risk, times)
    _, score = brier_score(*outcomes, 1.0 - risks, horizons)
    return by_horizon(score, horizons, "brier_score")


def integrated_brier_score(y_train, y_test, risk, times=None):
    """Brier score, averaged over the time between the first and the last horizon.

    Parameters
    ----------
    y_train : structured ndarray
        Outcome, from `sksurvgpu.surv`, whose censoring is estimated.
    y_test : structured ndarray of shape (n_samples,)
        Outcome of the rows whose risk was predicted.
    risk : DataFrame or array-like of shape (n_samples, n_times)
        Predicted risks, as from ``predict_risk``.
    times : array-like of shape (n_times,), optional
        Two horizons or more; see `brier_score`.

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
    return mean_over_time(brier_score(y_train, y_test, risk, times))


def auc(y_train, y_test, risk, times=None):
    """Area under the cumulative/dynamic ROC curve at horizons, weighted for censoring.

    The probability that a row with the event by the horizon has a higher predicted risk than one
    that is free of it then; ties count one half.

    Parameters
    ----------
    y_train : structured ndarray
        Outcome, from `sksurvgpu.surv`, whose censoring is estimated.
    y_test : structured ndarray of shape (n_samples,)
        Outcome of the rows whose risk was predicted.
    risk : DataFrame or array-like of shape (n_samples, n_times)
        Predicted risks, as from ``predict_risk``.
    times : float or array-like of shape (n_times,), optional
        Horizons; see `brier_score`.

    Returns
    -------
    area : pandas.Series of shape (n_times,)
        By horizon; 0.5 for risks that say nothing.

    See Also
    --------
    auc_competing : With competing events.
    concordance : One number for all times.

    Notes
    -----
    Computed by ``sksurv.metrics.cumulative_dynamic_auc``. Strata of the outcomes are not used;
    outcomes with a field ``start`` are refused.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.metrics import auc
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.02).fit(data.X[:500], data.y[:500])
    >>> risk = model.predict_risk(data.X[500:], [10, 20, 40])
    >>> auc(data.y[:500], data.y[500:], risk).round(3).tolist()
    [0.679, 0.685, 0.691]
    """
    from sksurv.metrics import cumulative_dynamic_auc

    *outcomes, risks, horizons = _read(y_train, y_test, risk, times, first=0)
    area, _ = cumulative_dynamic_auc(*outcomes, risks, horizons, tied_tol=0.0)
    return by_horizon(area, horizons, "auc")


def _read(y_train, y_test, risk, times, first=-1):
    """Outcomes as scikit-survival has them, risks and horizons; with events from `first` on."""
    from sksurv.util import Surv

    train, test = read_observed(y_train, "y_train"), read_observed(y_test, "y_test")
    risks, horizons = read_risks(risk, times, len(test.time), "y_test")
    for observed in (train, test):
        observed.check_follow_up(horizons)
    train.check_events()  # which scikit-survival wants
    test.check_events(horizons[first])
    if horizons[0] < test.time.min():
        raise ValueError(
            f"`times` has {horizons[0]:g}, before the first time of `y_test`, "
            f"{test.time.min():g}; nothing has happened by then, take later horizons."
        )
    # What follows the last horizon plays no part, but has to be within the times of training.
    time = np.minimum(test.time, np.nextafter(horizons[-1], np.inf))
    train_and_test = ((train.status, train.time), (test.status, time))
    outcomes = [Surv.from_arrays(status == 1, time) for status, time in train_and_test]
    return *outcomes, risks, horizons


def by_horizon(values, horizons, name):
    """Metric at each horizon."""
    from pandas import Index, Series

    return Series(values, index=Index(horizons, name="time"), name=name)


def mean_over_time(score) -> float:
    """Integral of a metric over its horizons by the trapezoidal rule, over their distance."""
    horizons = score.index.to_numpy()
    if len(horizons) < 2:
        raise ValueError(
            f"`times` has one entry, {horizons[0]:g}; a mean over time takes two horizons or more."
        )
    return float(np.trapezoid(score.to_numpy(), horizons) / (horizons[-1] - horizons[0]))
