"""Problems of any size, drawn batch by batch: no more than a batch is ever in memory."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csc_array

import sksurvgpu

DENSITY = 0.05
NONZERO = 0.1  # share of the columns that have an effect
SPREAD = 0.2  # of these effects
FOLLOW_UP = 500  # days


def batches(n_rows, n_columns, rows=65_536, seed=20_240):
    """Batches (X, y) of survival times in whole days under exponential hazards."""
    effects = np.random.default_rng(seed)
    coef = effects.normal(0.0, SPREAD, n_columns) * (effects.random(n_columns) < NONZERO)
    for number, first in enumerate(range(0, n_rows, rows)):
        random = np.random.default_rng([seed, number])
        X = _draw_ones(random, min(rows, n_rows - first), n_columns)
        rate = np.exp(X @ coef - DENSITY * coef.sum()) / (2.0 * FOLLOW_UP)
        failed = random.exponential(1.0 / rate)
        lost = random.uniform(0.0, 2.0 * FOLLOW_UP, len(rate))
        end = np.minimum(lost, FOLLOW_UP)
        time = np.ceil(np.minimum(failed, end))
        yield X, sksurvgpu.surv(failed <= end, time)


def _draw_ones(random, n_rows, n_columns):
    """Independent indicators, by the gaps between their ones."""
    total = n_rows * n_columns
    gaps = random.geometric(DENSITY, int(total * DENSITY + 10.0 * np.sqrt(total)))
    places = np.cumsum(gaps) - 1
    places = places[: np.searchsorted(places, total)]
    column, row = np.divmod(places, n_rows)
    indptr = np.searchsorted(column, np.arange(n_columns + 1))
    ones = np.ones(len(row), np.int8)
    return csc_array((ones, row.astype(np.int32), indptr), shape=(n_rows, n_columns))
