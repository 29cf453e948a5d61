r"""Net benefit of decisions by predicted risks, as decision curves show it.

Whoever treats above a risk p holds the harm of treating one without an event for p / (1 - p) times
what treating one with an event gains. With F the observed risk of those above p, a share s of all,

.. math:: \text{net benefit}(p) = s \Bigl( F - (1 - F) \frac{p}{1 - p} \Bigr)

(Vickers and Elkin 2006; Vickers, Cronin, Elkin and Gonen 2008 with censoring and competing events).
"""

from collections.abc import Mapping

import numpy as np
from pandas import DataFrame, Index

from ..data.vectors import check_numbers, check_order
from ..nonparametric.risk import observed_risk
from .calibration import check_horizon, read_at_horizon

THRESHOLDS = np.arange(1, 100) / 100
RESERVED = "all", "none"


def net_benefit(y, risk, horizon=None, *, thresholds=None, event_of_interest=1):
    """Net benefit of treating rows whose predicted risk is at least a threshold.

    Parameters
    ----------
    y : structured ndarray of shape (n_samples,)
        Outcome of rows that the fit has not seen, from `sksurvgpu.surv` or
        `sksurvgpu.competing_risks`, or a binary one without a `horizon`; see `calibration`.
    risk : DataFrame, array-like of shape (n_samples,), or dict of these
        Predicted risks by `horizon`, as of ``predict_risk``; of several models by name.
    horizon : float, optional
        Time of the risks, before the last time of `y`; None for a binary outcome.
    thresholds : array-like of float, optional
        Risks between 0 and 1, increasing; by default 1% to 99%.
    event_of_interest : int or str, default=1
        Code or label of the event; all others compete with it.

    Returns
    -------
    table : pandas.DataFrame
        A line for each threshold: the net benefit of the ``model``, or of each by its name, of
        treating ``all``, and ``none``, which is 0. It is a share of all rows: 0.05 are five more
        persons with the event treated among a hundred, and nobody without it. NaN where rows above
        a threshold are all censored before the horizon.

    See Also
    --------
    calibration : Whether risks are as high as they say, which decisions by thresholds rest on.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.metrics import net_benefit
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.005).fit(data.X[:500], data.y[:500])
    >>> risk = model.predict_risk(data.X[500:], 20)
    >>> net_benefit(data.y[500:], risk, 20, thresholds=[0.1, 0.3, 0.5]).round(3)
               model    all  none
    threshold
    0.1        0.332  0.325   0.0
    0.3        0.177  0.132   0.0
    0.5        0.062 -0.216   0.0
    """
    check_horizon(horizon)
    given = dict(risk) if isinstance(risk, Mapping) else {"model": risk}
    if not given or not set(given).isdisjoint(RESERVED):
        raise ValueError(
            f"`risk` has the names {list(given)}; pass risks under other names than 'all' and "
            "'none', those of at least one model."
        )
    check_order(**{f"risk[{name!r}]": one for name, one in given.items()})
    thresholds = _check_thresholds(thresholds)
    read = {k: read_at_horizon(y, one, horizon, event_of_interest) for k, one in given.items()}
    columns = {name: _benefits(*found, thresholds) for name, found in read.items()}
    outcome, risks, until = next(iter(read.values()))
    columns["all"] = _benefits(outcome, np.ones_like(risks), until, thresholds)
    columns["none"] = np.zeros(len(thresholds))
    return DataFrame(columns, index=Index(thresholds, name="threshold"))


def _check_thresholds(thresholds):
    given = THRESHOLDS if thresholds is None else np.atleast_1d(thresholds)
    values = check_numbers(given, "thresholds")
    if not len(values) or values[0] <= 0 or values[-1] >= 1 or (np.diff(values) <= 0).any():
        raise ValueError(
            f"`thresholds` is {thresholds!r:.60}, must be increasing numbers between 0 and 1."
        )
    return values


def _benefits(outcome, risk, until, thresholds):
    """Net benefit at each threshold."""
    found, n_before = np.zeros(len(thresholds)), 0
    time = np.minimum(outcome.time, np.nextafter(until, np.inf))  # what comes later is all one
    for k, threshold in enumerate(thresholds):
        above = np.flatnonzero(risk >= threshold)
        if len(above):
            if len(above) != n_before:  # else the rows are those of the threshold before
                observed, _ = observed_risk(outcome.status[above], time[above], until)
            odds, n_before = threshold / (1.0 - threshold), len(above)
            found[k] = len(above) / len(risk) * (observed - (1.0 - observed) * odds)
    return found
