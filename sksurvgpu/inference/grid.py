"""Where a curve is wanted: at given values, or as densely as straight lines between points need.

A concave curve lies above the chord of two neighbouring points, and below the lines through either
of them and the next point outwards. With slopes a >= m >= c of the line before, the chord and the
line after, these lines meet (a - m) (m - c) / (a - c) times the distance of the points above the
chord: no more than that is lost by a straight line. An interval where it is above the tolerance is
halved, as ``getCyclopsProfileLogLikelihood`` does. Beyond the ends, slopes are assumed to go on
changing as they did.

Where slopes at the points are known, cubics replace the lines: an interval is halved, and its
halves again where the middle was not where the cubic had it. A tenth of the points is enough then.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ..data.options import number

FIRST = 10  # points of an adaptive grid
NARROWEST = 1e-4  # of an interval that is halved, in widths of the grid
LEAST_TOLERANCE = 1e-6  # log-likelihoods are not known much better
FARTHEST = 1e6  # range of the linear predictor, beyond which values have no meaning


@dataclass(frozen=True)
class EvenGrid:
    """Values over an interval and beyond it, with all points of the search for its bounds."""

    n_points: int

    @property
    def n_expected(self):
        return self.n_points

    def next(self, profile):
        """Values that are wanted and not yet there."""
        return profile.missing(profile.grid(self.n_points))

    def shown(self, profile):
        """Values of the curve."""
        return np.array(profile.curve.values)


@dataclass(frozen=True)
class GivenGrid:
    """Values that a user gives, for all coefficients or by coefficient."""

    values: Any

    @property
    def n_expected(self):
        by_column = isinstance(self.values, dict)
        return max(map(len, self.values.values())) if by_column else len(self.values)

    def next(self, profile):
        """Values that are wanted and not yet there."""
        return profile.missing(self.shown(profile))

    def shown(self, profile):
        """Values of the curve."""
        return self.of(profile.column)

    def of(self, column):
        """Values of one of the coefficients."""
        return self.values[column] if isinstance(self.values, dict) else self.values


@dataclass
class Window:
    """Values between two, with the maximum if that is among them; those who inherit add more."""

    low: float
    high: float
    tolerance: float
    _shown: dict[int, np.ndarray] = field(default_factory=dict)

    n_expected: ClassVar[int]

    def next(self, profile):
        """Values that join the curve."""
        if profile.column in self._shown:
            values = self._shown[profile.column]
            more = self.more(profile, values)
        else:
            top, values = profile.curve.maximum, np.empty(0)
            more = np.linspace(self.low, self.high, FIRST)
            more = np.append(more, top) if self.low < top < self.high else more
        self._shown[profile.column] = np.union1d(values, more)
        return more.tolist()

    def shown(self, profile):
        """Values of the curve."""
        return self._shown[profile.column]


class LineGrid(Window):
    """As dense as straight lines between the points need."""

    n_expected = 800

    def more(self, profile, values):
        """Middles of the intervals where a line may be too far off."""
        heights = -0.5 * profile.curve.ratios()[profile.positions(values)]
        narrowest = NARROWEST * (self.high - self.low)
        return find_halves(values, heights, self.tolerance, narrowest)


@dataclass
class CubicGrid(Window):
    """As dense as cubics between the points need, which know the slopes there."""

    _open: dict[int, np.ndarray] = field(default_factory=dict)

    n_expected = 40

    def more(self, profile, values):
        """Middles of the intervals in which the cubic missed the last middle, or has none yet."""
        if profile.column not in self._open:
            ends = np.stack([values[:-1], values[1:]], axis=1)
        else:
            ends = self._open[profile.column]
            middles = ends.mean(axis=1)
            known, unit = profile.heights, profile.curve.dispersion
            (left, right), (rise, fall) = (
                [of(e) for e in ends.T] for of in (known, profile.slopes_at)
            )
            step = ends[:, 1] - ends[:, 0]
            guess = 0.5 * (left + right) + 0.125 * step * (rise - fall)
            missed = np.abs(guess - known(middles)) > self.tolerance * unit
            missed &= step > NARROWEST * (self.high - self.low)
            ends, middles = ends[missed], middles[missed]
            ends = np.stack([ends[:, 0], middles, middles, ends[:, 1]], axis=1).reshape(-1, 2)
        self._open[profile.column] = ends
        return ends.mean(axis=1)


def find_halves(values, heights, tolerance, narrowest):
    """Middles of the intervals in which a straight line may be off by more than a tolerance."""
    widths = np.diff(values)
    slopes = np.diff(heights) / widths
    before = np.append(2.0 * slopes[0] - slopes[1], slopes[:-1])
    after = np.append(slopes[1:], 2.0 * slopes[-1] - slopes[-2])
    left, right = np.maximum(before - slopes, 0.0), np.maximum(slopes - after, 0.0)
    lost = np.divide(left * right, left + right, out=np.zeros_like(left), where=left + right > 0)
    coarse = (lost * widths > tolerance) & (widths > narrowest)
    return (0.5 * (values[1:] + values[:-1]))[coarse]


def check_window(bounds, tolerance, by_cubics) -> Window:
    """Check between which values, and how closely, a curve is wanted."""
    try:
        low, high = (float(bound) for bound in bounds)
    except (TypeError, ValueError):
        raise ValueError(
            f"`bounds` is {bounds!r}; give two numbers, such as (-2.3, 2.3)."
        ) from None
    if not -np.inf < low < high < np.inf:
        raise ValueError(
            f"`bounds` is ({low:g}, {high:g}); the first must be less than the second, and both "
            "finite and on the scale of the coefficient, such as (-2.3, 2.3)."
        )
    rule = f"must be at least {LEAST_TOLERANCE:g}, to which log-likelihoods are known"
    tolerance = number(tolerance, "tolerance", rule, least=LEAST_TOLERANCE)
    return (CubicGrid if by_cubics else LineGrid)(low, high, tolerance)


def check_grid_of_values(values, name="values") -> np.ndarray:
    """Check values of a coefficient; sorted, each once."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu" or array.ndim != 1:
        raise TypeError(
            f"`{name}` is of dtype {array.dtype} with {array.ndim} dimension(s); give numbers in "
            "one dimension."
        )
    if not array.size:
        raise ValueError(f"`{name}` is empty; give one value of the coefficient or more.")
    known = np.isfinite(array)
    if not known.all():
        place = int(np.argmin(known))
        raise ValueError(
            f"`{name}` has {array[place]:g} in position {place:,}; give finite values of the "
            "coefficient."
        )
    return np.unique(array.astype(np.float64))


def check_reach(grid, columns, names, problem) -> None:
    """Check that values have a meaning for columns, whatever the units of these are."""
    if isinstance(grid, EvenGrid):
        return
    for column in columns:
        values = (grid.low, grid.high) if isinstance(grid, Window) else grid.of(column)
        farthest = np.abs(values).max()
        reach = farthest * problem.given.span(problem.source[column])
        if reach > FARTHEST:
            raise ValueError(
                f"the curve of {names[column]!r} is asked for at {farthest:g}, where the linear "
                f"predictors of rows differ by {reach:g}, beyond {FARTHEST:g}; give values on the "
                "scale of the coefficient, which changes with the unit of the column."
            )
