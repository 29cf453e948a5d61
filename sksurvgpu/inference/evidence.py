"""Log-likelihoods of one coefficient as tables without persons: the forms of EvidenceSynthesis.

====================== ============================= ============================================
form                   columns                       log-likelihood, up to a constant
====================== ============================= ============================================
grid with gradients    point, value, derivative      cubic between the points, by Hermite
adaptive grid          point, value                  straight lines between the points
grid                   the points, one row a site    the same
normal                 logRr, seLogRr                ``-z^2 / 2`` with ``z = (x - logRr) / seLogRr``
custom                 mu, sigma, gamma              ``-exp(gamma (x - mu)) z^2 / 2``
skew normal            mu, sigma, alpha              ``-z^2 / 2 + log Phi(alpha z)``
====================== ============================= ============================================

Beyond the points a curve goes on as a straight line, or stays level where that would rise. Where
the log-likelihood is concave the line lies above it, so that an interval that ends there is too
wide rather than too narrow. The custom form turns at ``mu - 2 / gamma`` and would rise again; it
stays level from there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from pandas import DataFrame
from scipy.interpolate import CubicHermiteSpline
from scipy.optimize import least_squares
from scipy.special import log_ndtr, ndtri

from ..data import options

FORMS = ("grid with gradients", "adaptive grid", "grid", "normal", "custom", "skew normal")
COLUMNS = {
    "grid with gradients": ("point", "value", "derivative"),
    "adaptive grid": ("point", "value"),
    "normal": ("logRr", "seLogRr"),
    "custom": ("mu", "sigma", "gamma"),
    "skew normal": ("mu", "sigma", "alpha"),
}
ROW_EACH = ("grid", "normal", "custom", "skew normal")  # forms with one row a site
FARTHEST = 1e4  # logarithm of a ratio, of a likelihood that never falls
LEAST_WEIGHT = 1e-3  # of a point in the fit of a parametric form, relative to the maximum's
N_FITTED = 100  # values to which a parametric form is fitted
FAR = 10.0  # standard deviations within which a parametric form is looked at


@dataclass(frozen=True)
class Approximation:
    """Log-likelihood of one site as a function, with the values between which it is known."""

    log_likelihood: Callable[[np.ndarray], np.ndarray]
    low: float
    high: float
    nodes: np.ndarray  # where pieces meet: a maximum of straight lines is one of them


def lines(point, value, slopes):
    """Function that is straight beyond the points, and does not rise outwards there."""
    left, right = max(slopes[0], 0.0), min(slopes[-1], 0.0)

    def outside(x, inside):
        below = value[0] + left * (x - point[0])
        above = value[-1] + right * (x - point[-1])
        return np.where(x < point[0], below, np.where(x > point[-1], above, inside))

    return outside


def straight(point, value):
    """Log-likelihood by straight lines between points."""
    outside = lines(point, value, np.diff(value) / np.diff(point) if len(point) > 1 else [0.0])
    return lambda x: outside(x, np.interp(x, point, value))


def cubic(point, value, derivative):
    """Log-likelihood by cubics with these values and slopes at the points."""
    outside = lines(point, value, derivative)
    if len(point) < 2:
        return lambda x: outside(x, value[0])
    spline = CubicHermiteSpline(point, value, derivative)
    return lambda x: outside(x, spline(x))


def normal(mean, error):
    """Log-likelihood of an estimate that is normal."""
    return lambda x: -0.5 * ((x - mean) / error) ** 2


def custom(mu, sigma, gamma):
    """Log-likelihood that bends more on one side, level beyond where it would turn."""

    def log_likelihood(x):
        z = gamma * (np.asarray(x, dtype=np.float64) - mu)
        z = np.maximum(z, -2.0)
        off = z / gamma if gamma != 0.0 else x - mu
        return -0.5 * np.exp(np.minimum(z, 700.0)) * (off / sigma) ** 2

    return log_likelihood


def skew_normal(mu, sigma, alpha):
    """Log-density of a skew normal distribution, less its constant."""
    if np.isinf(sigma):
        return lambda x: np.zeros(np.shape(x))
    return lambda x: -0.5 * ((x - mu) / sigma) ** 2 + log_ndtr(alpha * (x - mu) / sigma)


PARAMETRIC = {"normal": normal, "custom": custom, "skew normal": skew_normal}


def form_of(table, name) -> str:
    """Form of a table, by the names of its columns."""
    names = [str(name) for name in table.columns]
    marks = {"logRr": "normal", "gamma": "custom", "alpha": "skew normal"}
    marks |= {"derivative": "grid with gradients", "point": "adaptive grid"}
    for mark, form in marks.items():
        if mark in names:
            missing = [name for name in COLUMNS[form] if name not in names]
            if missing:
                raise ValueError(
                    f"{name} has a column {mark!r} and none {missing[0]!r}: the form {form!r} has "
                    f"{', '.join(COLUMNS[form])}."
                )
            return form
    try:
        [float(name) for name in names]
    except ValueError:
        raise ValueError(
            f"{name} has the columns {', '.join(names[:6])}, which no form of a profile has: "
            "point, value and perhaps derivative; logRr and seLogRr; mu, sigma and gamma or alpha; "
            "or numbers."
        ) from None
    return "grid"


def read_row(form, table, name) -> Approximation:
    """Log-likelihood of one site: of all rows of a grid, or of the one row of another form."""
    if form in ROW_EACH and len(table) != 1:
        raise ValueError(f"{name} has {len(table):,} rows of the form {form!r}; a site has one.")
    try:
        table = table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} has something other than numbers: {error}.") from None
    if form == "grid":
        point = np.array([float(column) for column in table.columns])
        return _of_points(form, [point, table.to_numpy()[0]], name)
    columns = [table[column].to_numpy() for column in COLUMNS[form]]
    if form not in PARAMETRIC:
        return _of_points(form, columns, name)
    _check_near(columns[0], name)
    centre, scale, *rest = (float(column[0]) for column in columns)
    is_known = np.isfinite([centre, *rest]).all() and scale > 0
    if not is_known or (np.isinf(scale) and form == "normal"):
        raise ValueError(f"{name} has {_shown(COLUMNS[form], columns)}, which is no likelihood.")
    reach = FAR * (scale if np.isfinite(scale) else 1.0)
    function = PARAMETRIC[form](centre, scale, *rest)
    return Approximation(function, centre - reach, centre + reach, np.array([centre]))


def _check_near(values, name):
    far = np.abs(values) > FARTHEST
    if far.any():
        raise ValueError(
            f"{name} has an effect of {values[far][0]:g}; effects are logarithms of ratios, of at "
            f"most {FARTHEST:,.0f}: change the unit of the column."
        )


def _shown(names, columns):
    return ", ".join(f"{name} {column[0]:g}" for name, column in zip(names, columns, strict=True))


def _of_points(form, columns, name):
    if not len(columns[0]):
        raise ValueError(f"{name} has no points; give at least one.")
    order = np.argsort(columns[0], kind="stable")
    columns = [column[order] for column in columns]
    unknown = ~np.isfinite(columns).all(axis=0)
    if unknown.any():
        raise ValueError(
            f"{name} has a number that is not finite at the point "
            f"{columns[0][np.argmax(unknown)]:g}; leave out the point."
        )
    if (np.diff(columns[0]) == 0).any():
        twice = columns[0][:-1][np.diff(columns[0]) == 0][0]
        raise ValueError(f"{name} has the point {twice:g} more than once; leave out one of them.")
    _check_near(columns[0], name)
    point, value, *rest = columns
    function = (cubic if rest else straight)(point, value - value.max(), *rest)
    return Approximation(function, point[0], point[-1], point)


def table_of(result, feature, approximation):
    """Table of one profile in a form of EvidenceSynthesis."""
    options.choice(approximation, "approximation", FORMS)
    name = _choose(result.intervals.index, feature)
    points = points_of(result, name)
    if approximation == "grid with gradients":
        if "derivative" not in points:
            raise ValueError(
                "the curves have no `gradient`, which the form 'grid with gradients' has; call "
                "profile_likelihood with derivatives=True, or take 'adaptive grid'."
            )
        return points
    if approximation == "adaptive grid":
        return points[["point", "value"]]
    if approximation == "grid":
        value = points["value"].to_numpy()
        return DataFrame([value - value.max()], columns=points["point"].to_numpy())
    if approximation == "normal":
        return _normal_table(result, name)
    return _fitted(approximation, read_row(form_of(points, name), points, name), len(points))


def points_of(result, feature):
    """Points of one curve, by the names that the forms give them."""
    name = _choose(result.intervals.index, feature)
    curve = result.curves[result.curves["feature"] == name]
    names = {"value": "point", "log_likelihood": "value", "gradient": "derivative"}
    known = [column for column in names if column in curve]
    return curve[known].rename(columns=names).reset_index(drop=True)


def _choose(names, feature):
    """Name of the one coefficient that is meant."""
    if feature is None and len(names) != 1:
        raise ValueError(
            f"the result has {len(names)} coefficients ({', '.join(map(str, names[:5]))}"
            f"{', ...' if len(names) > 5 else ''}); name one in `feature`."
        )
    if feature is not None and feature not in names:
        raise ValueError(
            f"`feature` is {feature!r}; the result has {', '.join(map(repr, names[:5]))}."
        )
    return names[0] if feature is None else feature


def _normal_table(result, name):
    coef, lower, upper = result.intervals.loc[name, ["coef", "lower", "upper"]]
    if not np.isfinite([lower, upper]).all():
        raise ValueError(
            f"the interval of {name!r} is ({lower:g}, {upper:g}), so that its likelihood is not "
            "normal; take 'grid with gradients' or another grid."
        )
    error = (upper - lower) / (2.0 * ndtri(0.5 + 0.5 * result.level))
    if result.level != 0.95:
        lower, upper = coef + np.array([-1.0, 1.0]) * ndtri(0.975) * error
    numbers = {"rr": np.exp(coef), "ci95Lb": np.exp(lower), "ci95Ub": np.exp(upper)}
    return DataFrame([numbers | {"logRr": coef, "seLogRr": error}])


def _fitted(form, curve, n_points):
    """Parameters of a form by least squares, in which values count as their likelihood."""
    names, point = COLUMNS[form], np.linspace(curve.low, curve.high, N_FITTED)
    value = curve.log_likelihood(point)
    value -= value.max()
    if np.ptp(value) < 1e-6:
        return DataFrame([dict(zip(names, (0.0, np.inf, 0.0), strict=True))])
    if n_points < len(names) + 1:
        raise ValueError(
            f"the curve has {n_points} points, too few for the form {form!r}; give "
            "`values` or `bounds` to profile_likelihood."
        )
    root_weight = np.sqrt(np.maximum(np.exp(value), LEAST_WEIGHT))

    def misfit(theta):
        mu, log_sigma, skew = theta
        curve = PARAMETRIC[form](mu, np.exp(log_sigma), skew)(point)
        return root_weight * (curve - curve.max() - value)

    start = point[np.argmax(value)]
    scale = max(0.1 * np.ptp(point), 1e-3)
    starts = [(start, np.log(s), skew) for s in (scale, 5 * scale) for skew in (0.0, 0.5, -0.5)]
    fits = [least_squares(misfit, x0) for x0 in starts]
    mu, log_sigma, skew = min(fits, key=lambda fit: fit.cost).x
    return DataFrame([dict(zip(names, (mu, np.exp(log_sigma), skew), strict=True))])
