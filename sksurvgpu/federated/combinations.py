"""Combinations of covariates that can be listed: how many rows have each follows from exact sums.

A sum of exp(linear predictor) over the rows of a cell is that of a whole number of rows for each
combination of covariates.  Where there are few, sums at a few points have as many digits as all
these numbers together, and whoever searches finds them.  So each combination has none, or enough,
in each cell, unless there are so many that nobody can list them, or most rows have their own, as
where some column has measured values.
"""

import numpy as np

from ..data.design.entries import entries_of
from .differences import mixed
from .grid import find_rare

ENOUGH = 0.05  # of a blur, with which sums are of no whole numbers


def number_combinations(design) -> np.ndarray:
    """Number of every row's combination of values, from 0 on."""
    random = np.random.default_rng(0)
    code = np.zeros(design.n_rows, np.uint64)
    for j in range(design.n_columns):
        factor = random.integers(1, 2**64, dtype=np.uint64) | np.uint64(1)
        rows, values = entries_of(design, j)
        code[rows] += mixed(np.ascontiguousarray(values).view(np.uint64) * factor)
    return np.unique(code, return_inverse=True)[1]


def tell_rare_combinations(rows, rules) -> str | None:
    """Why sums tell of combinations that few rows have in some cell; None where they do not."""
    if rules.min_rows <= 1 or rules.blur >= ENOUGH:
        return None
    number = number_combinations(rows.design)
    n_combinations = int(number.max(initial=-1)) + 1
    if n_combinations > min(rules.max_listed, rows.n_rows / 2):
        return None
    labels = [number, *_cells_of(rows.outcome)]
    if not find_rare(labels, rows.unit, rules.min_rows):
        return None
    return (
        f"its columns have {n_combinations:,} combinations of values (up to `max_listed` can be "
        f"listed), of which some have fewer than {rules.min_rows} rows at some time: how "
        "many these are can be worked out from exact sums; ask for coarser times "
        "(`rows_per_time` of the coordinator), fewer columns, a column of measured values, or "
        f"noise, or have the site blur its sums (`Rules(blur={ENOUGH})`)"
    )


def _cells_of(outcome):
    """Labels of what sums are told apart by: time, stratum and whether there is an event."""
    names = "stratum", "time", "start", "event", "status"
    found = [getattr(outcome, name, None) for name in names]
    if not hasattr(outcome, "time"):
        value = np.asarray(outcome.value)
        is_class = len(np.unique(value)) == 2
        found = [value if is_class else np.zeros(len(value))]
    return [np.asarray(label, np.float64) for label in found if label is not None]
