"""Problems of the models other than Cox's, drawn without the package; published designs.

Indicators are Bernoulli sequences drawn through their geometric gaps. Coefficients are zero but for
a fifth, which is normal.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from .problems import Data

ZERO_SHARE = 0.8
CELLS_A_BLOCK = 1 << 28
INCIDENCE = 0.5  # of the event of interest at a linear predictor of zero
ERAS_A_SUBJECT, LONGEST_ERA = 25, 60
SHARE_OF_OWN_ERAS = 0.5  # eras in which a subject takes a drug that it ever takes


def draw_fine_gray(n_samples, n_features, *, density=0.05, random_state):
    """Fine and Gray's subdistribution with a competing event of opposite effects.

    Incidence of the event of interest 1 - (1 - p(1 - exp(-t)))^exp(eta), its time by inverting it;
    competing events exponential with rate exp(-eta); censoring uniform on (0, 1).
    """
    rng = np.random.default_rng(random_state)
    data, eta = _design(n_samples, n_features, density, 1.0, rng)
    survivors = np.log1p(-INCIDENCE) * np.exp(eta)  # log P(never the event of interest)
    first = rng.random(n_samples) < -np.expm1(survivors)
    share = -rng.random(n_samples) * np.expm1(survivors)  # of the incidence, at the event
    inner = -np.expm1(np.log1p(-share) * np.exp(-eta)) / INCIDENCE
    of_interest = -np.log1p(-np.minimum(inner, 1.0 - 1e-12))
    time = np.where(first, of_interest, rng.exponential(size=n_samples) * np.exp(eta))
    censored = rng.random(n_samples)
    event = np.where(time <= censored, np.where(first, 1, 2), 0)
    outcome = {"time": np.minimum(time, censored), "event": event.astype(np.int32)}
    return Data(*data, outcome, "fine-gray")


def draw_logistic(n_samples, n_features, *, density=0.05, intercept=True, random_state):
    """Labels with coefficients of variance 2."""
    rng = np.random.default_rng(random_state)
    data, eta = _design(n_samples, n_features, density, np.sqrt(2.0), rng)
    y = (rng.random(n_samples) < expit(eta - 1.0 if intercept else eta)).astype(float)
    return Data(*data, {"y": y}, "logistic", intercept)


def draw_poisson(n_samples, n_features, *, density=0.05, exposure=False, random_state):
    """Counts, with coefficients of standard deviation 0.3; exposures are uniform on (0.5, 2)."""
    rng = np.random.default_rng(random_state)
    data, eta = _design(n_samples, n_features, density, 0.3, rng)
    exposures = rng.uniform(0.5, 2.0, n_samples) if exposure else None
    y = rng.poisson(np.exp(eta - 1.0) * (1.0 if exposures is None else exposures)).astype(float)
    return Data(*data, {"y": y, "exposure": exposures}, "poisson", intercept=True)


def draw_linear(n_samples, n_features, *, density=0.05, random_state):
    """Half of the variance is noise, or about that."""
    rng = np.random.default_rng(random_state)
    data, eta = _design(n_samples, n_features, density, 1.0, rng)
    noise = rng.normal(size=n_samples) * max(eta.std(), 0.1)
    return Data(*data, {"y": 2.0 + eta + noise}, "linear", intercept=True)


def draw_matched(
    n_samples, n_features, *, density=0.05, set_size=5, n_cases=1, ties="exact", random_state
):
    """Sets of `set_size` rows, of which `n_cases` are drawn by their odds without replacement."""
    rng = np.random.default_rng(random_state)
    data, eta = _design(n_samples, n_features, density, 1.0, rng)
    group = np.arange(n_samples, dtype=np.int32) // set_size
    sets = (eta + rng.gumbel(size=n_samples)).reshape(-1, set_size)
    y = np.zeros(sets.shape)
    np.put_along_axis(y, np.argsort(-sets, axis=1)[:, :n_cases], 1.0, axis=1)
    return Data(*data, {"y": y.ravel(), "group": group}, "matched", ties=ties)


def draw_matched_dense(n_samples, n_features, *, set_size=20, n_cases=8, effect=0.3, random_state):
    """Gaussian columns that all have an effect."""
    rng = np.random.default_rng(random_state)
    X = rng.normal(size=(n_samples, n_features))
    eta = X @ (effect * rng.normal(size=n_features))
    sets = (eta + rng.gumbel(size=n_samples)).reshape(-1, set_size)
    y = np.zeros(sets.shape)
    np.put_along_axis(y, np.argsort(-sets, axis=1)[:, :n_cases], 1.0, axis=1)
    indptr = np.arange(n_features + 1, dtype=np.int32) * np.int32(n_samples)
    indices = np.tile(np.arange(n_samples, dtype=np.int32), n_features)
    outcome = {"y": y.ravel(), "group": np.arange(n_samples, dtype=np.int32) // set_size}
    data = X.shape, indptr, indices, X.ravel(order="F")
    return Data(*data, outcome, "matched", ties="exact")


def draw_case_series(n_samples, n_features, *, density=0.005, random_state):
    """Eras of subjects with at least one event; a subject takes few drugs, in half of its eras.

    Drugs differ in popularity, log-uniformly over a factor of 20. A subject's events are
    multinomial over its eras, by length and drugs.
    """
    rng = np.random.default_rng(random_state)
    n_subjects = max(2, n_samples // ERAS_A_SUBJECT)
    inner = np.sort(rng.choice(np.arange(1, n_samples), n_subjects - 1, replace=False))
    edges = np.concatenate([[0], inner, [n_samples]])
    group = np.repeat(np.arange(n_subjects, dtype=np.int32), np.diff(edges))
    popularity = 20.0 ** rng.random(n_features)
    popularity *= density / SHARE_OF_OWN_ERAS / popularity.mean()
    columns = [_eras_of_a_drug(edges, share, rng) for share in np.minimum(popularity, 1.0)]
    indptr = np.cumsum([0, *map(len, columns)]).astype(np.int32)
    indices = np.concatenate(columns)
    length = rng.integers(1, LONGEST_ERA + 1, n_samples).astype(float)
    data = Data((n_samples, n_features), indptr, indices, None, {})
    z = data.times(_coefficients(n_features, 1.0, rng)) + np.log(length)
    # The Gumbel maxima of a subject's eras are multinomial draws; one to a few a subject.
    n_events = 1 + rng.poisson(0.5, n_subjects)
    y = np.zeros(n_samples)
    for k in range(n_events.max()):
        noisy = z + rng.gumbel(size=n_samples)
        highest = np.maximum.reduceat(noisy, edges[:-1])
        y += (noisy == highest[group]) & (n_events[group] > k)
    outcome = {"y": y, "exposure": length, "group": group}
    return Data(data.shape, indptr, indices, None, outcome, "case-series")


def _eras_of_a_drug(edges, share, rng):
    """Rows in which a drug is taken: half of the eras of those who take it."""
    takes = rng.random(len(edges) - 1) < share
    eras = np.flatnonzero(np.repeat(takes, np.diff(edges)))
    return eras[rng.random(len(eras)) < SHARE_OF_OWN_ERAS].astype(np.int32)


def _design(n_samples, n_features, density, spread, rng):
    """Shape, indptr, indices, values of independent indicators; the rows' centred predictor."""
    counts, rows = [np.zeros(1, int)], []
    columns_a_block = max(1, CELLS_A_BLOCK // n_samples)
    for first in range(0, n_features, columns_a_block):
        width = min(columns_a_block, n_features - first)
        ones = _ones(width * n_samples, density, rng)
        rows.append((ones % n_samples).astype(np.int32))
        counts.append(np.bincount(ones // n_samples, minlength=width))
    indptr, indices = np.cumsum(np.concatenate(counts)).astype(np.int32), np.concatenate(rows)
    shape = (n_samples, n_features)
    eta = Data(shape, indptr, indices, None, {}).times(_coefficients(n_features, spread, rng))
    return (shape, indptr, indices, None), eta - eta.mean()


def _ones(n_cells, density, rng):
    """Cells of a Bernoulli sequence that are one."""
    expected = n_cells * density
    gaps = rng.geometric(density, int(expected + 6 * np.sqrt(expected) + 20))
    cells = np.cumsum(gaps) - 1
    while cells[-1] < n_cells:  # hardly ever
        cells = np.append(cells, cells[-1] + rng.geometric(density))
    return cells[: np.searchsorted(cells, n_cells)]


def _coefficients(n_features, spread, rng):
    coef = spread * rng.normal(size=n_features)
    coef[rng.permutation(n_features)[: int(ZERO_SHARE * n_features)]] = 0.0
    return coef
