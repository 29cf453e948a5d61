r"""Calibration intercept and slope of risks by a horizon: how outcomes follow what was predicted.

With predicted risks p, what is expected of a row is taken for

.. math:: g^{-1}(a + b \, g(p)), \quad g(p) = \log(-\log(1 - p)) .

The slope b is 1 and the intercept a, with b fixed at 1, is 0 where risks are right. Pseudo-values
n F - (n - 1) F_{-i} of the observed risk F (Andersen, Klein and Rosthoj 2003; Perme and Andersen
2008) stand for outcomes that censoring hides; least squares and a sandwich error are those of van
Geloven et al. (2022). A binary outcome has g = logit, and logistic regression (Cox 1958).

F without row i has one row less at risk at all times until that of i, and the events of i less
there; what follows is as it was. One pass over times with a row less serves all rows.
"""

import numpy as np
from pandas import DataFrame
from scipy.optimize import minimize
from scipy.special import expit, logit

from ..nonparametric.counts import count
from ..nonparametric.limits import normal_bound

BELOW_ONE = np.nextafter(1.0, 0.0)
LONGEST_STEP, SINGULAR = 1e-5, 1e12  # of a Newton step at an optimum; condition of a matrix


def pseudo_values(outcome, horizon):
    """Pseudo-value of each row for the risk by a horizon that some rows outlive."""
    counts = count(outcome.time, outcome.status, 2)
    until = np.searchsorted(counts.time, horizon, side="right")
    own, every = counts.events[0, :until], counts.events[:, :until].sum(axis=0)
    at_risk, n = counts.at_risk[:until], len(outcome.time)
    surviving, risk = _follow(own, every, at_risk)
    surviving_less, risk_less = _follow(own, every, at_risk - 1.0)
    without = np.full(n, risk_less[-1])
    ended = np.flatnonzero(counts.exit < until)
    end, status = counts.exit[ended], outcome.status[ended]
    others = at_risk[end] - 1.0
    left = surviving_less[end] * (1.0 - (every[end] - (status > 0)) / others)
    without[ended] = risk_less[end] + surviving_less[end] * (own[end] - (status == 1)) / others
    without[ended] += left * (risk[-1] - risk[end + 1]) / surviving[end + 1]
    return n * risk[-1] - (n - 1) * without


def _follow(own, every, at_risk):
    """Survival and risk of the event of interest before each time, and at the end."""
    surviving = np.append(1.0, np.cumprod(1.0 - every / at_risk))
    return surviving, np.append(0.0, np.cumsum(surviving[:-1] * own / at_risk))


def recalibrate(values, risk, is_binary, level):
    """Table of the intercept, with a slope of 1, and of the slope; NaN with risks of 0."""
    with np.errstate(divide="ignore"):
        # a risk that rounding has made 1 is less
        x = logit(risk) if is_binary else np.log(-np.log1p(-np.minimum(risk, BELOW_ONE)))
    one, loss = np.ones((len(x), 1)), _loss_of_logit if is_binary else _loss_of_cloglog
    rows = np.full((2, 2), np.nan)
    if np.isfinite(x).all() and np.ptp(values) > 0.0:
        rows[0] = _fit(values, one, x, loss)[0]
        if np.ptp(x) > 0.0:
            rows[1] = _fit(values, np.column_stack([one, x]), 0.0, loss)[1]
    bound = normal_bound(level) * rows[:, 1]
    columns = {"estimate": rows[:, 0], "standard_error": rows[:, 1]}
    columns |= {"lower": rows[:, 0] - bound, "upper": rows[:, 0] + bound}
    return DataFrame(columns, index=["intercept", "slope"])


def _loss_of_cloglog(eta, values):
    """Derivatives of the loss of rows by the predictor, expected second ones, and the loss."""
    rate = np.exp(np.minimum(eta, 500.0))
    mean = -np.expm1(-rate)
    slope = rate * np.exp(-rate)
    return slope * (mean - values), slope**2, 0.5 * (values - mean) ** 2


def _loss_of_logit(eta, values):
    mean = expit(eta)
    return mean - values, mean * (1.0 - mean), np.logaddexp(0.0, eta) - values * eta


def _fit(values, columns, offset, loss_of):
    """Coefficients and sandwich errors, (n_columns, 2); NaN where there is no optimum."""
    n, n_columns = columns.shape

    def parts(coef):
        return loss_of(columns @ coef + offset, values)

    def loss(coef):
        slope, _, losses = parts(coef)
        return losses.mean() / unit, columns.T @ slope / (n * unit)

    def curvature(coef):
        return columns.T @ (parts(coef)[1][:, None] * columns) / (n * unit)

    start = np.arange(n_columns, dtype=np.float64)  # as predicted: intercept 0, slope 1
    unit = parts(start)[1].mean()  # next to nothing where events are rare
    if not unit > 0.0:
        return np.full((n_columns, 2), np.nan)
    options = {"gtol": 1e-9, "maxiter": 200}
    coef = minimize(loss, start, method="trust-exact", jac=True, hess=curvature, options=options).x
    bread = curvature(coef)
    if not np.linalg.cond(bread) < SINGULAR:
        return np.full((n_columns, 2), np.nan)
    influence = np.linalg.solve(bread, (columns * parts(coef)[0][:, None]).T) / unit
    if np.abs(influence.mean(axis=1)).max() > LONGEST_STEP:  # as where all cases have higher risks
        return np.full((n_columns, 2), np.nan)
    return np.column_stack([coef, np.sqrt((influence**2).sum(axis=1)) / n])
