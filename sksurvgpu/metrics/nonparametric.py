r"""Estimates without a model: how many are not censored, how many have met the event.

With events before censorings at tied times, R(t) rows beyond t and C(t) rows censored at t, the
Kaplan-Meier estimate of the probability not to be censored is

    G(t) = prod_{s <= t} R(s) / (R(s) + C(s)).

With n(s) rows at risk, d(s) events of any kind and d1(s) of the kind of interest, h = d / n and
h1 = d1 / n, the Aalen-Johansen estimate of the risk by t is

    F(t) = sum_{s <= t} S(s-) h1(s),    S(s) = prod_{u <= s} (1 - h(u)),

which without competing events is 1 - S(t), Kaplan-Meier. At every time the hazards (h1, h - h1) are
shares of n rows, uncorrelated from time to time, and F has the derivatives

    dF/dh1(s) = S(s-) - r(s),    dF/d(h - h1)(s) = -r(s),    r(s) = (F(t) - F(s)) / (1 - h(s)) .

The variance by the delta method with multinomial shares is Greenwood's formula without competing
events, and else the infinitesimal jackknife (Dinse and Larson 1986, Therneau and Grambsch 2000).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

__all__ = ["Censoring", "observed_risk", "risk_interval"]

ROUNDING = 1e-12  # an error of 0; that of a risk between 0 and 1 is about 1 / n or more


@dataclass(frozen=True, eq=False)
class Censoring:
    """Kaplan-Meier curve of the censoring: at each of `times` it falls to the next of `values`."""

    times: np.ndarray
    values: np.ndarray  # (n_times + 1,), from 1 on

    @classmethod
    def of(cls, observed) -> Censoring:
        """Estimate it in the rows of an outcome."""
        times, (censored, total) = _count(observed.time, observed.status == 0)
        beyond = total[::-1].cumsum()[::-1] - total
        stay = np.divide(beyond, beyond + censored, out=np.ones(len(times)), where=censored > 0)
        return cls(times, np.append(1.0, np.cumprod(stay)))

    def at(self, times):
        """Probability not to be censored by each time."""
        return self.values[np.searchsorted(self.times, times, side="right")]

    def before(self, times):
        """Probability not to be censored before each time."""
        return self.values[np.searchsorted(self.times, times, side="left")]


def observed_risk(status, time, horizon):
    """Aalen-Johansen estimate of the risk by a horizon, and its standard error.

    Both are NaN where the rows end by censoring before the horizon.
    """
    times, (interest, events, total) = _count(time, status == 1, status > 0)
    at_risk = total[::-1].cumsum()[::-1]
    hazard, hazard_of_interest = events / at_risk, interest / at_risk
    if times[-1] < horizon and hazard[-1] < 1.0:
        return np.nan, np.nan
    surviving = np.cumprod(1.0 - hazard)
    until = np.append(1.0, surviving[:-1])
    incidence = np.cumsum(until * hazard_of_interest)
    n = np.count_nonzero(times <= horizon)
    if n == 0:
        return 0.0, 0.0
    risk = incidence[n - 1]
    hazard, hazard_of_interest, until = hazard[:n], hazard_of_interest[:n], until[:n]
    rest = np.divide(risk - incidence[:n], 1.0 - hazard, out=np.zeros(n), where=hazard < 1.0)
    of_interest, of_others = until - rest, -rest
    mean = of_interest * hazard_of_interest + of_others * (hazard - hazard_of_interest)
    square = of_interest**2 * hazard_of_interest + of_others**2 * (hazard - hazard_of_interest)
    variance = np.sum((square - mean**2) / at_risk[:n])
    return min(float(risk), 1.0), float(np.sqrt(max(variance, 0.0)))


def risk_interval(risk, error, level):
    """Confidence interval of a risk, symmetric in log(-log(1 - risk)); NaN for risks of 0 and 1."""
    if not error > ROUNDING:
        return np.nan, np.nan
    hazard = -np.log1p(-risk)
    spread = -ndtri(0.5 * (1.0 - level)) * error / ((1.0 - risk) * hazard)
    with np.errstate(over="ignore"):
        lower, upper = -np.expm1(-hazard * np.exp([-spread, spread]))
    return float(lower), float(upper)


def _count(time, *kinds):
    """Distinct times, and how many rows of each kind, then of all, end at each."""
    times, place = np.unique(time, return_inverse=True)
    kinds = (*kinds, np.ones(len(time), bool))
    return times, [np.bincount(place[kind], minlength=len(times)) for kind in kinds]
