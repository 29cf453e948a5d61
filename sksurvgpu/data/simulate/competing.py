r"""Simulated competing risks (Yang, Schuemie, Ji and Suchard 2023; after Fine and Gray 1999).

With linear predictor :math:`\eta = x^\top\beta` and the probability :math:`q` that a row with
:math:`\eta = 0` has the event of interest, its cumulative incidence is

.. math::
    F_1(t \mid x) = 1 - [1 - q(1 - e^{-t})]^{\exp(\eta)},

whose limit :math:`1 - (1-q)^{\exp(\eta)}` is the probability of cause 1. With :math:`E` standard
exponential and :math:`e = E e^{-\eta}`, the row has cause 1 if :math:`e < -\log(1-q)`, and then
:math:`T = -\log(1 - (1 - e^{-e})/q)`: one draw for cause and time. Otherwise cause 2 comes at
:math:`T \sim \mathrm{Exp}(e^{x^\top\beta_2})`, :math:`\beta_2 = -\beta`. Observation ends at
:math:`U(0, 1)`.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array

from ..outcomes.competing import competing_risks
from . import draw

STRATUM_RATE = (0.5, 1.5)
TICKS = 100  # distinct times where they are tied


@draw.documented
@dataclass(frozen=True)
class SimulatedCompetingRisks:
    """A simulated data set with competing risks and the truth behind it.

    Attributes
    ----------
    X : csc_array of shape (n_samples, n_features)
        Design, float64; ones only, rows sorted within a column.
    y : structured ndarray of shape (n_samples,)
        Fields ``event`` (0 censored, 1 event of interest, 2 competing event) and ``time``.
    coef : ndarray of shape (n_features,)
        True log subdistribution hazard ratios of the event of interest.
    competing_coef : ndarray of shape (n_features,)
        Log hazard ratios of the competing event among the rows that have it.
    <<strata>>
    """

    X: csc_array
    y: np.ndarray
    coef: np.ndarray
    competing_coef: np.ndarray
    strata: np.ndarray | None


@draw.documented
def simulate_fine_gray(
    n_samples: int = 10_000,
    n_features: int = 1_000,
    *,
    density: float = 0.05,
    n_strata: int = 1,
    event_probability: float = 0.5,
    zero_fraction: float = 0.8,
    tie_break: bool = True,
    random_state: draw.Seed = None,
) -> SimulatedCompetingRisks:
    """Simulate independent indicators and proportional subdistribution hazards.

    The published design. Coefficients are N(0, 1) with ``zero_fraction`` of them set to zero,
    those of the competing event are their negatives, and follow-up ends uniformly on 0-1. With
    several strata, times are divided by a rate that is uniform on 0.5-1.5, one a stratum.

    Parameters
    ----------
    <<n_samples, n_features, density, n_strata>>
    event_probability : float, default=0.5
        Probability that a row of zeros has the event of interest rather than the competing one.
    <<zero_fraction>>
    tie_break : bool, default=True
        False rounds times up to hundredths, so that many are tied.
    <<random_state>>

    Returns
    -------
    data : SimulatedCompetingRisks
        Design, outcome, true coefficients and strata.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_fine_gray
    >>> data = simulate_fine_gray(500, 40, random_state=0)
    >>> data.X.shape, sorted(set(data.y["event"].tolist()))
    ((500, 40), [0, 1, 2])
    """
    draw.check_sizes(n_strata=n_strata)
    draw.check_between("event_probability", event_probability, 0, 1)
    shape = (n_samples, n_features)
    X, coef, rng_time = draw.indicators(shape, density, 1.0, zero_fraction, random_state)
    strata = draw.strata(n_samples, n_strata, rng_time)
    rate = 1.0 if strata is None else rng_time.uniform(*STRATUM_RATE, n_strata)[strata]
    cause, time = _draw_causes(X @ coef, event_probability, rng_time)
    with np.errstate(over="ignore"):
        time /= rate
    end = rng_time.random(n_samples)
    cause[time >= end] = 0
    time = np.minimum(time, end)
    if not tie_break:
        time = np.ceil(time * TICKS) / TICKS
    return SimulatedCompetingRisks(X, competing_risks(cause, time), coef, -coef, strata)


def _draw_causes(eta, event_probability, rng):
    """Cause and time of every row, nobody censored; an overflow is an infinite time."""
    with np.errstate(over="ignore"):
        exponential = rng.standard_exponential(eta.size) * np.exp(-eta)
        second = rng.standard_exponential(eta.size) * np.exp(eta)
    is_first = exponential < -np.log1p(-event_probability)
    time = second
    # Below 1 but for rounding, which would be an event after the end of time.
    share = np.minimum(-np.expm1(-exponential[is_first]) / event_probability, 1.0)
    with np.errstate(divide="ignore"):
        time[is_first] = -np.log1p(-share)
    return np.where(is_first, 1, 2), time
