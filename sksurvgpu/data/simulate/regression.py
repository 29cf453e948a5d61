r"""Simulated cases and counts: logistic, Poisson, matched sets, self-controlled case series.

All have a linear predictor :math:`\eta_i = a_{g(i)} + x_i^\top\beta` with one intercept, or one a
group.

- Logistic: :math:`P(y_i = 1) = 1/(1 + e^{-\eta_i})`.
- Poisson: :math:`y_i \sim \mathrm{Poisson}(L_i e^{\eta_i})`, exposure
  :math:`L_i = 1 + \mathrm{round}(U(0, 499))`.
- Matched sets: logistic within every set, or drawn given the set's number of cases
  :math:`m`, for which :math:`P(y) \propto \prod_i e^{\eta_i y_i}` over the choices of m rows.
- Case series: :math:`y_i \sim \mathrm{Poisson}(L_i e^{\eta_i})` given that the subject has an
  event. Its total is a Poisson number above 0; given that, eras are multinomial.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array
from scipy.special import expit

from ..outcomes.counts import case_series, matched
from . import draw

MEAN_ERA = 29.0
LARGEST_MEAN = 1e9  # of a count; NumPy draws up to 9e18
TABLE_ENTRIES = 1 << 23  # of the recursion over matched sets, at once


@draw.documented
@dataclass(frozen=True)
class SimulatedRegression:
    """A simulated data set of cases or counts and the truth behind it.

    Attributes
    ----------
    <<X>>
    y : ndarray of shape (n_samples,)
        0/1 or counts, int64; structured for matched sets and case series.
    coef : ndarray of shape (n_features,)
        True log odds ratios or log rate ratios.
    intercept : ndarray of shape (n_groups,)
        Log odds or log rate of a row of zeros, by stratum or subject; one entry without groups.
    exposure : ndarray of shape (n_samples,) or None
        Exposure of each row of a Poisson design.
    strata : ndarray of shape (n_samples,) or None
        Stratum label of each row of a Poisson design, int32; None with a single stratum.
    """

    X: csc_array | np.ndarray
    y: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    exposure: np.ndarray | None = None
    strata: np.ndarray | None = None


@draw.documented
def simulate_logistic(
    n_samples: int = 10_000,
    n_features: int = 1_000,
    *,
    density: float = 0.05,
    intercept: float = 0.0,
    zero_fraction: float = 0.8,
    random_state: draw.Seed = None,
) -> SimulatedRegression:
    """Simulate independent indicators and a logistic model, the published design.

    Coefficients are N(0, 2), of variance 2, with ``zero_fraction`` of them set to zero.

    Parameters
    ----------
    <<n_samples, n_features, density>>
    intercept : float, default=0.0
        Log odds of a row of zeros.
    <<zero_fraction, random_state>>

    Returns
    -------
    data : SimulatedRegression
        Design, 0/1 outcome, true coefficients and intercept.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_logistic
    >>> data = simulate_logistic(500, 40, random_state=0)
    >>> data.X.shape, sorted(set(data.y.tolist()))
    ((500, 40), [0, 1])
    """
    shape = (n_samples, n_features)
    X, coef, rng = draw.indicators(shape, density, np.sqrt(2.0), zero_fraction, random_state)
    y = (rng.random(n_samples) < expit(X @ coef + intercept)).astype(np.int64)
    return SimulatedRegression(X, y, coef, np.array([float(intercept)]))


@draw.documented
def simulate_poisson(
    n_samples: int = 10_000,
    n_features: int = 1_000,
    *,
    density: float = 0.05,
    n_strata: int = 1,
    zero_fraction: float = 0.8,
    random_state: draw.Seed = None,
) -> SimulatedRegression:
    """Simulate independent indicators and counts of events during different exposures.

    Coefficients are N(0, 0.5^2) with ``zero_fraction`` of them set to zero; the rate of a row of
    zeros is uniform on 0.01-0.03, one a stratum; exposures are whole numbers, uniform on 1-500.

    Parameters
    ----------
    <<n_samples, n_features, density, n_strata, zero_fraction, random_state>>

    Returns
    -------
    data : SimulatedRegression
        Design, counts, true coefficients, log rates, exposure and strata.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_poisson
    >>> data = simulate_poisson(500, 40, n_strata=5, random_state=0)
    >>> data.X.shape, data.intercept.shape, bool(data.exposure.min() >= 1)
    ((500, 40), (5,), True)
    """
    draw.check_sizes(n_strata=n_strata)
    shape = (n_samples, n_features)
    X, coef, rng = draw.indicators(shape, density, 0.5, zero_fraction, random_state)
    intercept = np.log(rng.uniform(*draw.RATE, n_strata))
    strata = draw.strata(n_samples, n_strata, rng)
    exposure = 1.0 + np.round(rng.uniform(0.0, draw.FOLLOW_UP, n_samples))
    eta = X @ coef + draw.of_rows(intercept, strata)
    with np.errstate(over="ignore"):
        mean = np.minimum(exposure * np.exp(eta), LARGEST_MEAN)
    return SimulatedRegression(X, rng.poisson(mean), coef, intercept, exposure, strata)


@draw.documented
def simulate_matched(
    n_strata: int = 1_000,
    n_features: int = 100,
    *,
    stratum_size: int = 20,
    n_cases: int | None = None,
    density: float | None = 0.05,
    zero_fraction: float = 0.8,
    random_state: draw.Seed = None,
) -> SimulatedRegression:
    """Simulate matched sets of equal size for conditional logistic regression.

    Coefficients are N(0, 2), of variance 2, with ``zero_fraction`` of them set to zero, and
    intercepts of the sets N(0, 0.25), of variance 0.25. The published design is dense and has no
    zeros: ``density=None, zero_fraction=0``.

    Parameters
    ----------
    n_strata : int, default=1_000
        Number of matched sets.
    n_features : int, default=100
        Number of columns.
    stratum_size : int, default=20
        Rows of a set, which follow each other.
    n_cases : int, optional
        Cases of every set, matched with ``stratum_size - n_cases`` controls. By default the model
        draws them, and some sets may have cases or controls only.
    density : float or None, default=0.05
        Probability of a one; every cell is drawn independently. None makes a dense design,
        uniform on 0-1.
    <<zero_fraction, random_state>>

    Returns
    -------
    data : SimulatedRegression
        Design, outcome with the fields ``case`` and ``stratum``, true coefficients, intercepts.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_matched
    >>> data = simulate_matched(100, 40, stratum_size=5, n_cases=2, random_state=0)
    >>> data.X.shape, int(data.y["case"].sum())
    ((500, 40), 200)
    """
    n_samples = n_strata * stratum_size
    draw.check_sizes(n_strata=n_strata, stratum_size=stratum_size, n_features=n_features)
    draw.check_sizes(n_samples=n_samples)
    if n_cases is not None and not 0 < n_cases < stratum_size:
        raise ValueError(
            f"`n_cases` is {n_cases}; it must lie between 1 and {stratum_size - 1}, so that a set "
            "of stratum_size rows has cases and controls"
        )
    *rngs, rng_outcome = draw.generator(random_state).spawn(3)
    scale = np.sqrt(2.0)
    if density is None:
        draw.check_share("zero_fraction", zero_fraction)
        X = rngs[0].random((n_features, n_samples)).T  # Fortran order
        coef = draw.sparse_normal(n_features, scale, zero_fraction, rngs[1])
    else:
        shape = (n_samples, n_features)
        X, coef = draw.indicators_and_coef(shape, density, scale, zero_fraction, rngs)
    intercept = rng_outcome.normal(0.0, 0.5, n_strata)
    eta = (X @ coef).reshape(n_strata, stratum_size) + intercept[:, None]
    if n_cases is None:
        case = rng_outcome.random(eta.shape) < expit(eta)
    else:
        case = _draw_cases(eta, n_cases, rng_outcome)
    stratum = np.repeat(np.arange(n_strata), stratum_size)
    return SimulatedRegression(X, matched(case.ravel(), stratum), coef, intercept)


@draw.documented
def simulate_case_series(
    n_subjects: int = 1_000,
    n_features: int = 1_000,
    *,
    mean_eras: float = 20.0,
    mean_events: float = 1.0,
    density: float = 0.005,
    zero_fraction: float = 0.8,
    random_state: draw.Seed = None,
) -> SimulatedRegression:
    """Simulate eras of drug use of subjects that had an event, for a case series.

    A subject has 1 + Poisson eras of 1 + Exp(29) days, rounded, which are neighbouring rows. Drugs
    are independent indicators with coefficients N(0, 0.5^2), ``zero_fraction`` of them zero.
    Without drugs a subject expects ``mean_events`` times a standard exponential number of events.
    Only subjects with an event are drawn; some have a single era and tell nothing.

    Parameters
    ----------
    n_subjects : int, default=1_000
        Number of subjects.
    n_features : int, default=1_000
        Number of columns, the drugs.
    mean_eras : float, default=20.0
        Mean number of eras of a subject, at least 1.
    mean_events : float, default=1.0
        Mean number of events of a subject without drugs, before those without events are left out.
    density : float, default=0.005
        Probability that a drug is used in an era.
    <<zero_fraction, random_state>>

    Returns
    -------
    data : SimulatedRegression
        Design, outcome with the fields ``count``, ``length`` and ``subject``, true coefficients,
        and log rates of the subjects as intercepts.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_case_series
    >>> data = simulate_case_series(100, 40, random_state=0)
    >>> data.y.dtype.names, data.intercept.shape, bool(data.y["count"].sum() >= 100)
    (('count', 'length', 'subject'), (100,), True)
    """
    draw.check_sizes(n_subjects=n_subjects, n_features=n_features)
    if not 1.0 <= mean_eras < np.inf:
        raise ValueError(f"`mean_eras` is {mean_eras}; it must be finite and at least 1")
    if not 0.0 < mean_events < np.inf:
        raise ValueError(f"`mean_events` is {mean_events}; it must be finite and positive")
    *rngs, rng_outcome = draw.generator(random_state).spawn(3)
    n_eras = 1 + rng_outcome.poisson(mean_eras - 1.0, n_subjects)
    n_samples = int(n_eras.sum())
    draw.check_sizes(n_samples=n_samples)
    shape = (n_samples, n_features)
    X, coef = draw.indicators_and_coef(shape, density, 0.5, zero_fraction, rngs)
    length = 1.0 + np.round(MEAN_ERA * rng_outcome.standard_exponential(n_samples))
    frailty = mean_events * rng_outcome.standard_exponential(n_subjects)
    first = np.cumsum(n_eras) - n_eras
    intercept = np.log(frailty / np.add.reduceat(length, first))
    count = _draw_eras(X @ coef, length, intercept, first, rng_outcome)
    y = case_series(count, length, np.repeat(np.arange(n_subjects), n_eras))
    return SimulatedRegression(X, y, coef, intercept)


def _draw_cases(eta, n_cases, rng):
    """Draw exactly `n_cases` rows of every set, a row of the array `eta`, by their odds."""
    n_sets, size = eta.shape
    is_case = np.empty(eta.shape, dtype=np.bool_)
    sets_a_chunk = max(1, TABLE_ENTRIES // ((size + 1) * (n_cases + 1)))
    for start in range(0, n_sets, sets_a_chunk):
        chunk = eta[start : start + sets_a_chunk]
        # Row j, entry k: log of the sum over the choices of k among the first j rows.
        table = np.full((size + 1, len(chunk), n_cases + 1), -np.inf)
        table[0, :, 0] = 0.0
        for j in range(size):
            table[j + 1, :, 0] = 0.0
            with_row = chunk[:, j, None] + table[j, :, :-1]
            np.logaddexp(table[j, :, 1:], with_row, out=table[j + 1, :, 1:])
        uniform, sets = rng.random(chunk.shape), np.arange(len(chunk))
        left = np.full(len(chunk), n_cases)
        for j in reversed(range(size)):
            with_row = chunk[:, j] + table[j, sets, np.maximum(left - 1, 0)]
            probability = np.exp(with_row - table[j + 1, sets, left])
            chosen = (left > 0) & (uniform[:, j] < probability)
            is_case[start : start + sets_a_chunk, j] = chosen
            left -= chosen
    return is_case


def _draw_eras(eta, length, intercept, first, rng):
    """Events in every era, of subjects that have at least one; `first` are their first eras."""
    n_eras = np.diff(np.append(first, eta.size))
    largest = np.maximum.reduceat(eta, first)
    share = length * np.exp(eta - np.repeat(largest, n_eras))
    total = np.add.reduceat(share, first)
    share /= np.repeat(total, n_eras)
    with np.errstate(over="ignore"):
        mean = np.minimum(np.exp(intercept + largest + np.log(total)), LARGEST_MEAN)
    # The first event of a Poisson process on (0, mean), given that there is one, and the rest.
    arrival = -np.log1p(rng.random(mean.size) * np.expm1(-mean))
    events = 1 + rng.poisson(np.maximum(mean - arrival, 0.0))
    # Multinomial as a sequence of binomials: the k-th eras of all subjects at once.
    count, left = np.zeros(eta.size, dtype=np.int64), np.ones(mean.size)
    subject = np.arange(mean.size)
    for k in range(n_eras.max()):
        subject = subject[n_eras[subject] > k]
        row = first[subject] + k
        is_last = n_eras[subject] == k + 1
        chance = np.divide(share[row], left[subject], out=np.ones(row.size), where=~is_last)
        count[row] = rng.binomial(events[subject], np.clip(chance, 0.0, 1.0))
        events[subject] -= count[row]
        left[subject] -= share[row]
    return count
