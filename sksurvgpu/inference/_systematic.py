r"""Models of systematic error, by maximum likelihood, and what they leave of an estimate.

An estimate y of a true effect x is normal with mean :math:`a + b x` and variance
:math:`(c + d |x|)^2 + s^2`: its standard error s knows nothing of confounding and mismeasurement,
which a, b, c and d describe. Negative controls have x = 0 and tell a and c, the *empirical null*;
then b = 1 and d = 0. Positive controls, with other x, tell all four.

The calibrated interval holds every x that y does not reject: with z the quantile of its level, its
ends solve :math:`a + b x - y = \pm z \sqrt{(c + d |x|)^2 + s^2}`.
"""

from itertools import product

import numpy as np
from scipy.optimize import brentq, minimize, minimize_scalar

N_STARTS = 20  # of the search for spreads
FARTHEST = 100.0  # true effects that are looked at


def fit_null(coef, error, _):
    """Model of an error that is the same for all effects, by maximum likelihood."""

    def weigh(sd):
        variance = error**2 + sd**2
        mean = np.average(coef, weights=1.0 / variance)
        return mean, np.sum(np.log(variance) + (coef - mean) ** 2 / variance)

    most = np.ptp(coef) + error.min()
    grid = np.append(0.0, np.geomspace(1e-4, 1.0, 100) * most)
    best = int(np.argmin([weigh(sd)[1] for sd in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = minimize_scalar(lambda sd: weigh(sd)[1], bounds=around, options={"xatol": 1e-12})
    sd = float(found.x) if found.fun < weigh(0.0)[1] else 0.0
    return float(weigh(sd)[0]), 1.0, sd, 0.0


def fit_error_model(coef, error, true_coef):
    """Model of an error that depends on the effect, by maximum likelihood.

    The spreads at no effect and at the largest one are searched for, from the best places of a
    grid, as the slope is 0 where both are; a line through the controls, weighted by them, has the
    means.
    """
    size = np.abs(true_coef)
    share, x = size / size.max(), np.column_stack([np.ones_like(coef), true_coef])

    def weigh(spreads):
        variance = error**2 + ((1.0 - share) * spreads[0] + share * spreads[1]) ** 2
        root = 1.0 / np.sqrt(variance)
        line = np.linalg.lstsq(x * root[:, None], coef * root, rcond=None)[0]
        return line, np.sum(np.log(variance) + ((coef - x @ line) * root) ** 2)

    limits, options = [(0.0, None)] * 2, {"ftol": 1e-15, "gtol": 1e-9}
    far = np.append(0.0, np.geomspace(1e-3, 1.0, 20)) * np.ptp(coef - weigh((0.0, 0.0))[0] @ x.T)
    starts = sorted(product(far, far), key=lambda s: weigh(s)[1])[:N_STARTS]
    found = [
        minimize(lambda s: weigh(s)[1], start, bounds=limits, method="L-BFGS-B", options=options).x
        for start in starts
    ]
    spreads = min([*found, starts[0]], key=lambda s: weigh(s)[1])
    intercept, slope = weigh(spreads)[0]
    sd, last = (float(spread) for spread in spreads)
    return float(intercept), float(slope), sd, (last - sd) / float(size.max())


def fit_likelihood_null(marginals):
    """Model of an error that is the same for all effects, of controls known by likelihoods."""
    tops = np.array([marginal.top for marginal in marginals])
    widths = np.array([marginal.width for marginal in marginals])

    def misfit(theta):
        mean, spread = np.array(theta[:1]), float(theta[1])
        return -sum(float(marginal.log(mean, spread)[0]) for marginal in marginals)

    start = np.average(tops, weights=widths**-2.0)
    limits, options = [(-FARTHEST, FARTHEST), (0.0, FARTHEST)], {"ftol": 1e-13}
    found = [
        minimize(misfit, (start, spread), bounds=limits, method="L-BFGS-B", options=options)
        for spread in (0.1, float(np.median(widths)))
    ]
    mean, spread = min(found, key=lambda fit: fit.fun).x
    return float(mean), 1.0, float(spread), 0.0


def true_interval(coef, error, model, z):
    """True effects that an estimate does not reject; infinite where it never does on a side."""
    centre, slope, sd, more = model
    if np.isnan(coef):
        return np.nan, np.nan
    if (slope, more) == (1.0, 0.0):
        half = z * np.hypot(sd, error)
        return coef - centre - half, coef - centre + half

    def excess(x, side):
        off = side * (centre + slope * x - coef)
        return off - z * np.hypot(sd + more * abs(x), error)

    ends = []
    for side in (-1.0, 1.0):
        signs = [excess(side * FARTHEST, side), excess(-side * FARTHEST, side)]
        if signs[0] < 0:
            ends.append(side * np.inf)
        elif signs[1] > 0:
            ends.append(np.nan)
        else:
            ends.append(brentq(excess, -FARTHEST, FARTHEST, args=(side,), xtol=1e-12))
    return tuple(ends)
