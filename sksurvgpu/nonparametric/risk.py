r"""Estimates of metrics without a model: the share not censored, and the risk by a horizon.

With events before censorings at tied times, R(t) rows beyond t and C(t) rows censored at t, the
Kaplan-Meier estimate of the probability not to be censored is

    G(t) = prod_{s <= t} R(s) / (R(s) + C(s)).

With Y(t) rows at risk just after t, of n in all, and S the Kaplan-Meier curve of any event this is
Y(t) / (n S(t)), and G(t-) is Y(t) / (n S(t-)) of those at risk at t. Where rows enter late, and
entry depends on nothing else, these still are, up to one factor for all times, how many of those
free of events are seen: an event at t weighs S(t-) / Y(t), its jump in 1 - S, and who is at risk
after t weighs S(t) / Y(t) (Sanchez-Sellero et al. 2005).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .counts import count
from .incidence import delta_variance, incidence
from .limits import limits, normal_bound

ROUNDING = 1e-12  # an error of 0; that of a risk between 0 and 1 is about 1 / n or more


@dataclass(frozen=True, eq=False)
class Censoring:
    """Kaplan-Meier curve of the censoring: at each of `times` it falls to the next of `values`."""

    times: np.ndarray
    values: np.ndarray  # (n_times + 1,), from 1 on

    @classmethod
    def of(cls, observed) -> Censoring:
        """Estimate it in the rows of an outcome."""
        counts = count(observed.time, observed.status == 0)
        beyond = counts.at_risk - counts.ended
        [censored] = counts.events
        stay = np.divide(beyond, beyond + censored, out=np.ones_like(beyond), where=censored > 0)
        return cls(counts.time, np.append(1.0, np.cumprod(stay)))

    def at(self, times):
        """Probability not to be censored by each time."""
        return self.values[np.searchsorted(self.times, times, side="right")]

    def before(self, times):
        """Probability not to be censored before each time."""
        return self.values[np.searchsorted(self.times, times, side="left")]


@dataclass(frozen=True, eq=False)
class LateEntry:
    """Share of those free of events that is at risk, by rows that may enter late."""

    start: np.ndarray  # (n_rows,), sorted
    end: np.ndarray  # (n_rows,), sorted
    times: np.ndarray
    surviving: np.ndarray  # (n_times + 1,), from 1 on

    @classmethod
    def of(cls, observed) -> LateEntry:
        """Estimate it in the rows of an outcome."""
        counts = count(observed.time, observed.status, 2, start=observed.start)
        surviving = np.append(incidence(counts)[1], np.nan)  # nobody asks for the last
        return cls(np.sort(observed.start), np.sort(observed.time), counts.time, surviving)

    def at(self, times):
        """Seen among those free of events at each time; not finite above 0 where there are none."""
        return self._seen(times, "right")

    def before(self, times):
        """Seen among those free of events before each time."""
        return self._seen(times, "left")

    def _seen(self, times, side):
        seen = np.searchsorted(self.start, times, side) - np.searchsorted(self.end, times, side)
        free = self.surviving[np.searchsorted(self.times, times, side)]
        return np.divide(seen, len(self.end) * free, out=np.zeros(len(seen)), where=free > 0)


def in_sight(status, time, start, weight, group):
    """`LateEntry.before` the time of each row, in its group; refused where it is not defined."""
    counts = count(time, status, 2, start=start, weight=weight, group=group)
    free = incidence(counts)[1][counts.exit]
    is_beyond = free <= 0.0
    if (is_beyond & (status > 0) & (weight > 0.0)).any():
        first = np.min(time[is_beyond])
        raise ValueError(
            f"Before the time {first:g} all rows at risk had events, and others entered later: "
            "what their risks were from the beginning is unknown; leave out rows that end before "
            "enough others are at risk."
        )
    seen = counts.at_risk[counts.exit]
    share = np.bincount(group, weight)[group] * free
    return np.divide(seen, share, where=share > 0.0, out=seen)


def observed_risk(status, time, horizon):
    """Aalen-Johansen estimate of the risk by a horizon, and its standard error.

    Both are NaN where the rows end by censoring before the horizon.
    """
    counts = count(time, status, 2)
    if counts.time[-1] < horizon and not counts.is_last[-1]:
        return np.nan, np.nan
    line = np.searchsorted(counts.time, horizon, side="right") - 1
    if line < 0:
        return 0.0, 0.0
    (risk, _), before = incidence(counts)
    error = np.sqrt(delta_variance(counts, 0, risk, before)[line])
    return min(float(risk[line]), 1.0), float(error)


def risk_interval(risk, error, level):
    """Confidence interval of a risk, symmetric in log(-log(1 - risk)); NaN for risks of 0 and 1."""
    if not error > ROUNDING:
        return np.nan, np.nan
    surviving = np.float64(1.0 - risk)
    with np.errstate(divide="ignore"):
        spread = normal_bound(level) * error / surviving
    lower, upper = limits(surviving, spread, "log-log")
    return 1.0 - float(upper), 1.0 - float(lower)
