"""Curves of hazards over time, of a row or of many: survival, incidence, the hazard itself."""

from itertools import repeat

import numpy as np
from sksurv.functions import StepFunction


def total_hazard(logs, predictors, since=None):
    """Hazard over all pieces (the first axis); infinite where it exceeds floating point."""
    hazard = 0.0
    since = repeat(None, len(predictors)) if since is None else since
    with np.errstate(over="ignore"):
        for log, predictor, gone in zip(logs, predictors, since, strict=True):
            own = log if gone is None else gained(log, gone)
            hazard = hazard + np.exp(own + predictor)
    return hazard


def gained(until, since):
    """Logarithm of the hazard between two times; of none where the first is not the later."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(until > since, until + np.log(-np.expm1(since - until)), -np.inf)


def after_nothing(logs):
    """Logarithms of the hazard with a time before the first one, by which nothing has happened."""
    return np.pad(logs, ((0, 0), (1, 0)), constant_values=-np.inf)


def step_function(times, values, initial, name):
    """Step function from time 0 on; without a first step it would start at the first event."""
    if values[0] != initial and times[0] > 0:
        times, values = np.append(0.0, times), np.append(initial, values)
    return Curve(times, values, rows=name)


class Curve(StepFunction):
    """A step function until the last time of the rows that it was estimated from."""

    def __init__(self, x, y, *, rows="the fit's rows"):
        super().__init__(x, y)
        self.rows = rows

    def __call__(self, x):
        last = self.domain[1]
        if np.max(x) > last:
            raise ValueError(
                f"the curve is asked for at {np.max(x):g}, and {self.rows} end at {last:g}: what "
                "happens later is unknown; ask for earlier times, `domain` has the last."
            )
        return super().__call__(x)


class LongCurve(Curve):
    """The curve of a row at many times, with values that are made where they are asked for.

    Rows share the times and the logarithms of hazards.
    """

    def __init__(self, x, logs, curve, *, predictors, since, rows):
        self.x, self.a, self.b, self.rows = x, 1.0, 0.0, rows
        self._logs, self._curve, self._predictors, self._since = logs, curve, predictors, since

    @property
    def domain(self):
        """First and last time."""
        return 0.0, float(self.x[-1])

    @property
    def y(self):
        """Values at all times."""
        return self._values(slice(None))

    def _values(self, places):
        return self._curve(total_hazard(self._logs[:, places], self._predictors, self._since))

    def __call__(self, x):
        x = np.atleast_1d(x)
        if not ((x >= 0.0) & (x <= self.x[-1])).all() or not x.size:
            return Curve(self.x, self.y, rows=self.rows)(x)  # says why not
        values = self._values(np.searchsorted(self.x, x, side="right") - 1)
        values = self.a * values + self.b
        return values[0] if len(values) == 1 else values


def cumulative_hazard(hazard):
    """Curve of the cumulative hazard, itself."""
    return hazard


def survival(hazard):
    """Curve of the survival probability."""
    return np.exp(-hazard)


def incidence(hazard):
    """Curve of the cumulative incidence."""
    return -np.expm1(-hazard)


AT_ONE_TIME = cumulative_hazard, survival, incidence  # curves of the hazard until that time alone
