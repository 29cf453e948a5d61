"""Where a fit is, and where it is to go."""

from dataclasses import dataclass

import numpy as np

from .._compile import kernel
from ..backends.contract import Operations, ask, every_column
from ..penalties.base import Penalty

ROUNDING = 1e-13  # relative: below it an increase of the objective cannot be told from rounding


@dataclass
class Point:
    """Where a fit is; its rows belong to the backend's session.  No array is written to."""

    coef: np.ndarray
    loglik: float = np.nan
    gradient: np.ndarray | None = None
    objective: float = np.inf
    partial: bool = False  # whether only the gradient of the model's columns is current
    shortened: bool = False  # whether the predictor was interpolated, and so carries rounding

    def go_to(self, coef):
        """Coroutine: be at coefficients, by no way."""
        self.coef = coef
        self.loglik = yield from ask(Operations.start, coef)
        require_finite(self.loglik)
        yield from self.take_gradient()

    def restart(self, penalty):
        """Coroutine: have the predictor computed from the coefficients alone."""
        self.loglik = yield from ask(Operations.start, self.coef)
        self.objective = penalty.value(self.coef) - self.loglik
        self.shortened = False

    def take_gradient(self, columns=None):
        """Coroutine: the gradient, of some columns or (None) of all."""
        self.partial = columns is not None
        if columns is None:
            self.gradient = yield from ask(Operations.gradient, every_column(len(self.coef)))
            return
        gradient = self.gradient.copy()
        gradient[columns] = yield from ask(Operations.gradient, columns)
        self.gradient = gradient


@dataclass(frozen=True)
class Goal:
    """Violations of stationarity under a penalty, in units, that are no more than `tolerance`."""

    penalty: Penalty
    tolerance: float
    unit: np.ndarray  # of violations, see `null.Null.goal`
    noise: np.ndarray  # rounding error of the gradient
    magnitude: float  # size of the null model's log-likelihood, the unit of rounding errors

    def violation(self, point):
        """Violation of every column, in its unit; 0 where that is rounding."""
        violation = self.penalty.violation(point.coef, point.gradient)
        _take_units(violation, self.noise, self.unit)
        return violation

    def rounding(self, point):
        """Difference of objectives that means nothing."""
        return ROUNDING * max(abs(point.objective), self.magnitude)


@kernel
def _take_units(violation, noise, unit):
    """Have violations in their units, and none that is noise."""
    for a in range(len(violation)):
        violation[a] = 0.0 if violation[a] <= noise[a] else violation[a] / unit[a]


def require_finite(loglik):
    """Refuse a point where nothing can be computed."""
    if not np.isfinite(loglik).all():
        raise ValueError(
            "the log-likelihood is not finite: the linear predictor (offset and coefficients) "
            "spans too many orders of magnitude, or `y` does; rescale `offset`, `y` or the columns "
            "of X, refit with `warm_start=False`, or use `algorithm='majorized'`"
        )
