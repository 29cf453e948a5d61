"""Weights of rows after an adjustment: given weights, or strata and matched sets as weights.

Of n1 treated rows and n0 comparators in a stratum, with n = n1 + n0,

    treated rows weigh 1 and comparators n1 / n0          average effect in the treated (att)
    treated rows weigh n0 / n1 and comparators 1          average effect in comparators (atc)
    treated rows weigh n / n1 and comparators n / n0      average effect in all (ate).
"""

import narwhals as nw
import numpy as np
from pandas import Series, factorize

from ..backends import to_host
from ..data.vectors import (
    as_vector,
    check_length,
    check_row_values,
    check_whole,
    in_native_order,
)

ARMS = ("comparator", "treated")  # by number
ESTIMANDS = ("att", "atc", "ate")


def weights_after(treated, weights, strata, rows, estimand):
    """Weight of every row after the adjustment, and rows without one by reason; None without."""
    left_out = Series(dtype=np.int64, name="rows")
    if weights is not None and strata is not None:
        raise ValueError("`weights` and `strata` were both passed; give the adjustment once.")
    if weights is None and strata is None and rows is None:
        return None, left_out
    n_rows = len(treated)
    chosen = np.arange(n_rows) if rows is None else _check_rows(rows, n_rows)
    weight, other = np.zeros(n_rows), "X" if rows is None else "rows"
    left_out["not in rows"] = n_rows - len(chosen)
    if weights is not None:
        given = check_row_values(weights, "weights", len(chosen), minimum=0, other=other)
        left_out["weight 0"] = np.count_nonzero(given == 0)
    elif strata is not None:
        code, n_strata = read_strata(strata, len(chosen), other)
        given = weigh_strata(code, n_strata, treated[chosen], estimand)
        left_out["no stratum"] = np.count_nonzero(code < 0)
        left_out["stratum of one arm"] = np.count_nonzero((code >= 0) & (given == 0))
    else:
        given = np.ones(len(chosen))
    weight[chosen] = given
    for arm, is_here in zip(ARMS, (~treated, treated), strict=True):
        if not weight[is_here].any():
            raise ValueError(
                f"no {arm} row is left after the adjustment: all {np.count_nonzero(is_here):,} "
                "have weight 0, or no stratum with a row of the other arm."
            )
    return weight, left_out[left_out > 0]


def _check_rows(rows, n_rows):
    rows = as_vector(rows, "rows")
    if rows.dtype.kind == "b":
        check_length(rows, "rows", n_rows)
        return np.flatnonzero(rows)
    chosen = check_whole(rows, "rows", f"row numbers from 0 to {n_rows - 1:,}")
    if len(chosen) and chosen.max() >= n_rows:
        raise ValueError(
            f"`rows` has {chosen.max():,}, `X` has {n_rows:,} rows, counted from 0. Rows of a "
            "cohort are those of the table it began with: pass the covariates of all its lines, or "
            "begin anew by Cohort.of(cohort.table)."
        )
    if np.bincount(chosen, minlength=n_rows).max() > 1:
        twice = int(np.argmax(np.bincount(chosen)))
        raise ValueError(f"`rows` names row {twice:,} more than once; pass each row once.")
    return chosen


def read_strata(strata, n_rows, other="X") -> tuple[np.ndarray, int]:
    """Number of each row's stratum, -1 where the label is missing, and how many there are."""
    series = nw.from_native(to_host(strata), allow_series=True, pass_through=True)
    values = series.to_numpy() if isinstance(series, nw.Series) else series
    if np.ma.isMaskedArray(values):
        values = np.where(np.ma.getmaskarray(values), None, values.data.astype(object))
    labels = np.asarray(values, dtype=None if hasattr(values, "dtype") else object)
    if labels.ndim != 1:
        raise ValueError(f"`strata` has shape {labels.shape}, must be one-dimensional.")
    check_length(labels, "strata", n_rows, other)
    code, found = factorize(in_native_order(labels))
    is_missing = np.append(np.asarray(found, dtype=object) == -1, True)  # the last is code -1
    return np.where(is_missing[code], -1, code), len(found)


def weigh_strata(stratum, n_strata, treated, estimand="att") -> np.ndarray:
    """Weights that make arms comparable within strata; 0 outside, and where one arm is missing."""
    n = [  # of each arm; the last stratum, which is -1, is empty
        np.bincount(stratum[(stratum >= 0) & is_here], minlength=n_strata + 1)
        for is_here in (~treated, treated)
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        by_arm = {"att": (n[1] / n[0], n[1] / n[1]), "atc": (n[0] / n[0], n[0] / n[1])}
        by_arm["ate"] = tuple((n[0] + n[1]) / n[arm] for arm in (0, 1))
    of_stratum = np.where((n[0] > 0) & (n[1] > 0), by_arm[estimand], 0.0)
    return of_stratum[treated.astype(int), stratum]
