r"""Residuals of models without time: generalized linear models, and rows within groups.

With the mean :math:`\mu`, its variance and slope v in the predictor (one and the same for the links
here) and the weight c of a row, r = y - :math:`\mu` is

    response r,   working r / v,   Pearson sqrt(c / v) r,   deviance sign(r) sqrt(c d)

d being twice what the row's log-likelihood lacks to the largest. With the row's columns x less
their mean where the intercept of its group is free, V the inverse of the information and H the sum
of c v over the group, its leverage is c v (x'Vx + 1 / H), and leaving it out changes the
coefficients by V x c r / (1 - leverage), up to sign: exactly in a linear model, by one step of
Newton's method in others.

Counts within groups are those of a Poisson model with an intercept for each group.
"""

from collections.abc import Callable

import numpy as np

from ..data import options
from ..information.inverse import Inverse
from ..patterns.groups.information import GroupView


def _parts(view: GroupView):
    """Residuals, slopes and weights of rows in the order of the plan; rows of weight 0 are NaN."""
    weight = np.where(view.rows.weight > 0, view.rows.weight, np.nan)
    return view.rows.session.u / weight, view.h / weight, weight


def _over(numerator, denominator):
    """Ratio; 0 for rows whose group has no event, and says nothing of them."""
    some = denominator != 0
    return np.where(some, numerator / np.where(some, denominator, 1.0), 0.0)


def _response(view: GroupView) -> np.ndarray:
    return view.rows.per_row(_parts(view)[0])


def _working(view: GroupView) -> np.ndarray:
    residual, slope, _ = _parts(view)
    return view.rows.per_row(_over(residual, slope))


def _pearson(view: GroupView) -> np.ndarray:
    residual, slope, weight = _parts(view)
    return view.rows.per_row(_over(residual * np.sqrt(weight), np.sqrt(slope)))


def _deviance(view: GroupView) -> np.ndarray:
    residual, slope, weight = _parts(view)
    likelihood = view.rows.problem.likelihood
    if not hasattr(likelihood, "unit_deviance"):
        name = type(likelihood).__name__
        options.refuse("deviance", "kind", f'{name} has no `unit_deviance`, pass kind="response"')
    unit = likelihood.unit_deviance(view.rows.plan.value, residual, slope)
    return view.rows.per_row(np.sign(residual) * np.sqrt(np.maximum(weight * unit, 0.0)))


def _scores(view: GroupView) -> np.ndarray:
    residual, _, _ = _parts(view)
    return view.rows.per_row(_deviations(view) * residual[:, None])


def _deviations(view: GroupView) -> np.ndarray:
    """Columns less their means where an intercept is free."""
    x = view.centred(np.arange(view.rows.n_coef))
    return x - view.means(x)[view.rows.plan.group_idx]


def _dfbeta(view: GroupView, inverse: Inverse) -> np.ndarray:
    x, group = _deviations(view), view.rows.plan.group_idx
    change = x @ inverse.matrix
    leverage = np.einsum("ij,ij->i", x, change)
    if view.is_free:
        leverage += _over(1.0, view.atom_weight)[group]
    residual, slope, weight = _parts(view)
    change *= (residual * weight / (1.0 - weight * slope * leverage))[:, None]
    change[:, ~inverse.identified] = np.nan
    return view.rows.per_row(change)


def deviance_of(martingale, event) -> np.ndarray:
    """Deviance residuals of martingale residuals."""
    logarithm = np.log(np.where(event > 0, event - martingale, 1.0))
    return np.sign(martingale) * np.sqrt(np.maximum(-2.0 * (martingale + logarithm), 0.0))


# Kind -> (its function, whether it takes the inverse of the information).
KINDS_OF_ROWS: dict[str, tuple[Callable[..., np.ndarray], bool]] = {
    "deviance": (_deviance, False),
    "pearson": (_pearson, False),
    "response": (_response, False),
    "working": (_working, False),
    "score": (_scores, False),
    "dfbeta": (_dfbeta, True),
}
