r"""Simulated survival data, drawn column by column.

Times, all designs (Yang, Schuemie, Ji and Suchard 2023, section 4): with linear predictor
:math:`\eta_i = x_i^\top\beta` and one baseline rate :math:`r_s` a stratum,

.. math::
    T_i = 1 + \mathrm{round}(\mathrm{Exp}(r_{s(i)} e^{\eta_i})), \quad
    C_i = 1 + \mathrm{round}(U(0, 499)), \quad
    t_i = \min(T_i, C_i), \quad \delta_i = [T_i < C_i].

No n x p array is ever formed for a sparse design: cost O(nnz) in time and memory.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csc_array
from sksurv.util import Surv

from . import draw

TIE_NOISE = 1e-3

# Health-record design. A cluster is a set of codes that one condition brings.
EHR_PREVALENCE = (0.001, 0.3)
EHR_RATE = (0.0005, 0.002)
EHR_MEMBER_SHARE = 0.1
EHR_ONES_IN_MEMBERS = 0.8
EHR_MAX_PROBABILITY = 0.9
# Gamma(2)/2: mean 1, so that severity leaves the mean membership at EHR_MEMBER_SHARE.
EHR_SEVERITY_SHAPE = 2.0


@draw.documented
@dataclass(frozen=True)
class SimulatedSurvival:
    """A simulated data set and the truth behind it.

    Attributes
    ----------
    <<X>>
    y : structured ndarray of shape (n_samples,)
        Fields ``event`` (bool) and ``time`` (float64), as scikit-survival reads them.
    coef : ndarray of shape (n_features,)
        True log hazard ratios.
    <<strata>>
    """

    X: csc_array | np.ndarray
    y: np.ndarray
    coef: np.ndarray
    strata: np.ndarray | None


@draw.documented
def simulate_cox(
    n_samples: int = 10_000,
    n_features: int = 1_000,
    *,
    density: float = 0.05,
    n_strata: int = 1,
    zero_fraction: float = 0.8,
    tie_break: bool = True,
    random_state: draw.Seed = None,
) -> SimulatedSurvival:
    """Simulate independent indicators and proportional hazards, the published design.

    Coefficients are N(0, 1) with ``zero_fraction`` of them set to zero; the baseline rate is
    uniform on 0.01-0.03, one a stratum; follow-up ends uniformly on 1-500.

    Parameters
    ----------
    <<n_samples, n_features, density, n_strata, zero_fraction, tie_break, random_state>>

    Returns
    -------
    data : SimulatedSurvival
        Design, outcome, true coefficients and strata. ``X`` takes 12 bytes a nonzero; its row
        indices are int32 as long as there are fewer than 2^31 nonzeros.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(500, 40, n_strata=5, random_state=0)
    >>> data.X.shape, data.y.dtype.names, int((data.coef != 0).sum())
    ((500, 40), ('event', 'time'), 8)
    """
    draw.check_sizes(n_strata=n_strata)
    shape = (n_samples, n_features)
    X, coef, rng = draw.indicators(shape, density, 1.0, zero_fraction, random_state)
    y, strata = _draw_outcome(X @ coef, draw.RATE, n_strata, tie_break, rng)
    return SimulatedSurvival(X, y, coef, strata)


@draw.documented
def simulate_ehr(
    n_samples: int = 10_000,
    n_features: int = 1_000,
    *,
    n_strata: int = 1,
    cluster_size: int = 20,
    duplicate_fraction: float = 0.1,
    flip_fraction: float = 0.05,
    zero_fraction: float = 0.8,
    tie_break: bool = True,
    random_state: draw.Seed = None,
) -> SimulatedSurvival:
    """Simulate indicators that look like coded health records: clustered and near-duplicated.

    Prevalences are log-uniform on 0.001-0.3 (mean 0.052, so about 5 % ones). Codes form
    clusters of about ``cluster_size`` columns in random positions. About 10 % of the rows, more
    of them among the severely ill, belong to a cluster's condition and carry 80 % of the ones
    of its columns (at most 90 % of the members have a code). Severity is shared by all
    clusters, so that columns correlate strongly within a cluster and weakly between clusters.
    A share of the columns are near copies of others. Every column has at least one one.

    Coefficients are N(0, 0.5^2) with ``zero_fraction`` of them zero, the linear predictor is
    centred, and the baseline rate is uniform on 0.0005-0.002, one a stratum, which gives
    10-50 % events.

    Parameters
    ----------
    <<n_samples, n_features, n_strata>>
    cluster_size : int, default=20
        Mean number of columns in a cluster, near copies not counted.
    duplicate_fraction : float, default=0.1
        Share of the columns that are near copies of another column.
    flip_fraction : float, default=0.05
        Share of a copied column's ones that moves to random rows; at least one, unless 0.
    <<zero_fraction, tie_break, random_state>>

    Returns
    -------
    data : SimulatedSurvival
        Design, outcome, true coefficients and strata.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_ehr
    >>> data = simulate_ehr(2_000, 100, random_state=0)
    >>> bool(0.1 < data.y["event"].mean() < 0.5)
    True
    """
    draw.check_sizes(n_samples=n_samples, n_features=n_features, n_strata=n_strata)
    if cluster_size < 1:
        raise ValueError(f"`cluster_size` is {cluster_size}; it must be at least 1")
    draw.check_share("duplicate_fraction", duplicate_fraction, include_one=False)
    draw.check_share("flip_fraction", flip_fraction)
    draw.check_share("zero_fraction", zero_fraction)
    rng_design, rng_copy, rng_coef, rng_time = draw.generator(random_state).spawn(4)
    coef = draw.sparse_normal(n_features, 0.5, zero_fraction, rng_coef)

    n_copies = int(duplicate_fraction * n_features)
    order = rng_copy.permutation(n_features)
    copies, originals = order[:n_copies], order[n_copies:]
    columns = _clustered_columns(n_samples, n_features, originals, cluster_size, rng_design)
    for j, source in zip(copies, rng_copy.choice(originals, n_copies), strict=True):
        columns[j] = _near_copy(columns[source], n_samples, flip_fraction, rng_copy)
    counts = np.array([rows.size for rows in columns], dtype=np.int64)
    X = draw.indicator_csc(np.concatenate(columns), counts, n_samples)

    eta = X @ coef
    y, strata = _draw_outcome(eta - eta.mean(), EHR_RATE, n_strata, tie_break, rng_time)
    return SimulatedSurvival(X, y, coef, strata)


@draw.documented
def simulate_dense(
    n_samples: int = 300,
    n_features: int = 20_000,
    *,
    n_informative: int = 20,
    correlation: float = 0.5,
    n_strata: int = 1,
    tie_break: bool = True,
    random_state: draw.Seed = None,
) -> SimulatedSurvival:
    """Simulate a dense Gaussian design with many more columns than rows.

    Columns are standard normal, an AR(1) sequence: columns j and k have correlation
    ``correlation ** abs(j - k)``. ``n_informative`` random columns have coefficients
    N(0, 0.5^2); times follow the published design (baseline rate uniform on 0.01-0.03).

    Parameters
    ----------
    n_samples : int, default=300
        Number of rows.
    n_features : int, default=20_000
        Number of columns.
    n_informative : int, default=20
        Number of columns with an effect; all columns where there are fewer.
    correlation : float, default=0.5
        Correlation of neighbouring columns, between -1 and 1.
    <<n_strata, tie_break, random_state>>

    Returns
    -------
    data : SimulatedSurvival
        Design (float64, Fortran order), outcome, true coefficients and strata.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_dense
    >>> data = simulate_dense(50, 200, random_state=0)
    >>> data.X.shape, int((data.coef != 0).sum())
    ((50, 200), 20)
    """
    draw.check_sizes(n_samples=n_samples, n_features=n_features, n_strata=n_strata)
    draw.check_between("correlation", correlation, -1, 1)
    if n_informative < 0:
        raise ValueError(f"`n_informative` is {n_informative}; it must not be negative")
    rng_design, rng_coef, rng_time = draw.generator(random_state).spawn(3)
    coef = np.zeros(n_features)
    informative = rng_coef.permutation(n_features)[:n_informative]
    coef[informative] = rng_coef.normal(0.0, 0.5, informative.size)

    # One row of the transpose is one column of X: contiguous writes, Fortran-ordered result.
    X = rng_design.standard_normal((n_features, n_samples)).T
    innovation = np.sqrt(1.0 - correlation**2)
    for j in range(1, n_features):
        X[:, j] = correlation * X[:, j - 1] + innovation * X[:, j]
    y, strata = _draw_outcome(X @ coef, draw.RATE, n_strata, tie_break, rng_time)
    return SimulatedSurvival(X, y, coef, strata)


def _clustered_columns(n_samples, n_features, originals, cluster_size, rng):
    """Row indices of the columns ``originals``, cluster by cluster; other entries are None."""
    low, high = np.log(EHR_PREVALENCE)
    prevalence = np.exp(rng.uniform(low, high, n_features))
    severity = rng.standard_gamma(EHR_SEVERITY_SHAPE, n_samples, dtype=np.float32)
    severity *= np.float32(EHR_MEMBER_SHARE / EHR_SEVERITY_SHAPE)
    columns = [None] * n_features
    n_clusters = max(1, round(originals.size / cluster_size))
    for cluster in np.array_split(originals, n_clusters):
        is_member = rng.random(n_samples, dtype=np.float32) < severity
        members = np.flatnonzero(is_member).astype(np.int32)
        others = np.flatnonzero(~is_member).astype(np.int32)
        for j in cluster:
            columns[j] = _clustered_column(members, others, prevalence[j], rng)
    return columns


def _clustered_column(members, others, prevalence, rng):
    """Draw one code: most of its ones among the members, the rest among the others."""
    n_samples = members.size + others.size
    ones = prevalence * n_samples
    within = min(EHR_MAX_PROBABILITY, EHR_ONES_IN_MEMBERS * ones / max(members.size, 1))
    outside = min(1.0, (ones - within * members.size) / max(others.size, 1))
    carriers = members[draw.bernoulli_positions(members.size, within, rng)]
    background = others[draw.bernoulli_positions(others.size, outside, rng)]
    rows = np.concatenate([carriers, background])
    if rows.size == 0:
        rows = rng.integers(n_samples, size=1, dtype=np.int32)
    rows.sort()
    return rows


def _near_copy(rows, n_samples, flip_fraction, rng):
    """Move a share of a column's ones, at least one of them, to random rows."""
    is_kept = rng.random(rows.size) >= flip_fraction
    if flip_fraction > 0.0:
        is_kept[rng.integers(rows.size)] = False
    moved = rng.integers(n_samples, size=rows.size - is_kept.sum(), dtype=np.int32)
    return np.unique(np.concatenate([rows[is_kept], moved]))


def _draw_outcome(eta, rate_range, n_strata, tie_break, rng):
    """Times and events of the module docstring; strata are None where there is one."""
    n_samples = eta.size
    rates = rng.uniform(*rate_range, n_strata)
    strata = draw.strata(n_samples, n_strata, rng)
    with np.errstate(over="ignore"):
        # An infinite event time is a row that is censored.
        event_time = 1.0 + np.round(
            rng.standard_exponential(n_samples) * np.exp(-eta) / draw.of_rows(rates, strata)
        )
    censoring = 1.0 + np.round(rng.uniform(0.0, draw.FOLLOW_UP, n_samples))
    event = event_time < censoring
    time = np.minimum(event_time, censoring)
    if tie_break:
        # Times are at least 1 and the noise is 1000 standard deviations away from 0.
        time += rng.normal(0.0, TIE_NOISE, n_samples)
    return Surv.from_arrays(event, time), strata
