r"""The adaptive lasso: columns with large coefficients in a first fit, the pilot, are spared.

The penalty factor of a column is multiplied by :math:`|\hat\beta_j|^{-\kappa}`, with its
coefficient in the pilot (Zou 2006); where that is zero, the column leaves the model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ..data import options
from ..data.by_column import check_by_column
from ..penalties import Given, PenaltySpec
from .base import Detour
from .pilots import LARGEST_FACTOR, Pilots, by_fit

RATIOS = {"ridge": 0.0, "lasso": 1.0, "mle": 0.0}


class Adaptive(PenaltySpec):
    r"""Adaptive lasso: penalty factors from a pilot fit.

    The penalty factor of a column is ``penalty_factor * abs(b) ** -power``, with its coefficient
    ``b`` in a pilot fit to the same rows; columns whose ``b`` is 0 get the coefficient 0. Columns
    with large coefficients in the pilot are shrunk less than by the lasso, others more.

    Parameters
    ----------
    pilot : {"ridge", "lasso", "mle"}, array-like of shape (n_features,) or dict, default="ridge"
        The first fit, which has the estimator's `penalty_factor`, `bounds` and `prior_mean`: with
        ``l1_ratio`` 0 or 1, or without a penalty, for few columns. Or coefficients from elsewhere,
        of columns or, shape (n_coef,), as in `coef_`; a dictionary gives those of some columns, by
        name or position, the others get 0.
    power : float, default=1.0
        The exponent, positive.
    pilot_alpha : float or None, default=None
        ``alpha`` of the pilot, which a lasso needs. None, for a ridge, is the strength of normal
        priors under which the linear predictor has variance 1.

    Notes
    -----
    The pilot is fitted inside every fold of a cross-validation and every replicate of a
    `bootstrap`, with the weights of that fit; one from elsewhere is the same in all. Around
    `prior_mean`, ``b`` is its distance from that. Columns with a `penalty_factor` of 0 stay without
    a penalty. Factors are not rescaled; `penalty_factor_` of a fit has them, `pilot_coef_` what
    they were made from.

    References
    ----------
    Zou, H. (2006). The adaptive lasso and its oracle properties. Journal of the American
    Statistical Association 101, 1418-1429.

    Examples
    --------
    >>> from sksurvgpu import Adaptive, CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.002, penalty=Adaptive()).fit(data.X, data.y)
    >>> bool((model.penalty_factor_ == 1 / abs(model.pilot_coef_)).all())
    True
    """

    def __init__(self, pilot="ridge", *, power=1.0, pilot_alpha=None):
        self.pilot = pilot
        self.power = power
        self.pilot_alpha = pilot_alpha

    def route(self, given, inner):
        """Fits after a pilot."""
        self._check()
        power = float(self.power)
        if not isinstance(self.pilot, str):
            return Adapted(inner, power, given=_read_pilot(self.pilot, given))
        ratio, alpha = RATIOS[self.pilot], self.pilot_alpha
        family = PenaltySpec().family(replace(given, l1_ratio=ratio))
        if self.pilot == "mle":
            alpha = 0.0
        pilots = Pilots(inner, family, None if alpha is None else float(alpha))
        return Adapted(inner, power, pilots)

    def check(self, prepared):
        """Refuse a pilot without a finite maximum."""
        if not isinstance(self.pilot, str) or self.pilot != "mle":
            return
        infinite = prepared.find_infinite(np.ones(prepared.problem.n_columns, bool))
        if infinite.any():
            column = prepared.problem.source[np.argmax(infinite)]
            raise ValueError(
                f"`penalty` is {self!r}, but {np.count_nonzero(infinite):,} coefficients are "
                "infinite without a penalty, because the columns separate the events, the first "
                f'of them that of column {column:,} of `X`; take pilot="ridge".'
            )

    def _check(self):
        options.number(self.power, "power", "must be a positive number", above=0)
        if isinstance(self.pilot, str):
            options.choice(self.pilot, "pilot", RATIOS, ", or have coefficients")
        alpha = self.pilot_alpha
        if alpha is None:
            if isinstance(self.pilot, str) and self.pilot == "lasso":
                raise ValueError('pilot="lasso" needs `pilot_alpha`, its penalty.')
            return
        if not isinstance(self.pilot, str) or self.pilot == "mle":
            raise ValueError(
                f'`pilot_alpha` is {alpha!r}, which is for pilot="ridge" and "lasso" only.'
            )
        rule = 'must be a positive number; pilot="mle" is the fit without a penalty'
        options.number(alpha, "pilot_alpha", rule, above=0)


def _read_pilot(pilot, given: Given):
    """Coefficients from elsewhere as distances from the means, one for every column of a fit."""
    n_columns, source = len(given.factor), given.source
    if not isinstance(pilot, Mapping) and np.shape(pilot) == source.shape != (n_columns,):
        coef = check_by_column(pilot, "pilot", len(source), default=0.0)
    else:
        coef = check_by_column(pilot, "pilot", n_columns, given.names, default=0.0)[source]
    coef = coef if given.prior_mean is None else coef - given.prior_mean[source]
    return coef if given.scale is None else coef * given.scale[source]


@dataclass(frozen=True)
class Adapted(Detour):
    """Fits with factors from a pilot."""

    power: float
    pilots: Pilots | None = None
    given: np.ndarray | None = None  # or (n_columns,) coefficients from elsewhere

    def leave(self, fits):
        # Null models and quadratic models of fits before serve on: neither has a factor in it but
        # the least penalty that selects nothing, and null models come from fits of this route.
        batch, shape = fits.batch, (fits.problem.n_columns, fits.batch.n_fits)
        if self.pilots is None:
            pilot = np.broadcast_to(self.given[:, None], shape)
        else:
            pilot = np.stack([fit.coef for fit in self.pilots.fit(fits)], axis=1)
        base = by_fit(batch.factor, shape)
        size = np.abs(pilot)
        with np.errstate(divide="ignore", over="ignore"):
            weight = np.where(base > 0, size**-self.power, 1.0)
        leaves = ~(weight * base <= LARGEST_FACTOR)
        factor = np.where(leaves, 1.0, weight) * base
        fixed = leaves if batch.fixed is None else leaves | batch.fixed
        start = batch.coef
        if start is not None:
            start = np.where(leaves, 0.0, by_fit(start, shape))

        def back(solution, b):
            own = np.where(fixed[:, b], np.inf, factor[:, b])
            of_route = {"penalty_factor_": own, "pilot_coef_": pilot[:, b].copy()}
            return replace(solution, of_route=solution.of_route | of_route)

        return fits.with_batch(factor=factor, fixed=fixed, coef=start), back
