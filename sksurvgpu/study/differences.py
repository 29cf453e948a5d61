r"""Differences between the arms before and after, and whether they are beyond a threshold.

A standardized difference d of weighted means with the pooled standard deviation s has the variance

    n / (n1 n0) + d^2 / (2 (n - 2))                        where all rows weigh 1,
    sum_k (N_k / N)^2 (v_k1 / n_k1 + v_k0 / n_k0) / s^2    of strata k of N_k rows,
    sum_i w_i^2 (x_i - m_i)^2 / s^2                        of weights, which add up to 1 in an arm,

and the test of |d| <= t has the p-value Phi((t - |d|)' / sd) of both tails, as in CohortMethod 6.
Strata are taken by the second form up to `MOST_STRATA` of them, matched sets by the third.
"""

from __future__ import annotations

import numpy as np
from pandas import DataFrame
from scipy.special import ndtr

from ..cohort import balance
from ..cohort.adjustment import weights_after
from ..data.design.columns import build_design
from ..data.design.sums import sum_by_group
from ..estimators._prepared import count_threads

__all__ = ["describe_differences", "difference_p_values"]

MOST_STRATA = 50
ARMS = {"target": "treated", "comparator": "comparator"}


def describe_differences(X, treated, *, rows, strata=None, weights=None, estimand, n_jobs=None):
    """Means and standardized differences of all columns before and after, and their variances.

    Parameters
    ----------
    X : Design
        Covariates of all persons before the adjustment.
    treated : ndarray of bool
        Their arms.
    rows : ndarray of bool
        Who is in the population after.
    strata, weights : ndarray, optional
        Of all persons: numbers of strata, and weights.
    estimand : str
        Whom strata stand for.
    n_jobs : int, optional
        Threads.

    Returns
    -------
    table : pandas.DataFrame
        A line for each column of X, by the names of CohortMethod's results.
    """
    weight = rows.astype(float) if weights is None else np.where(rows, weights, 0.0)
    if strata is not None:
        strata = np.where(rows, strata, -1)
        weight, _ = weights_after(treated, None, strata, None, estimand)
    threads = {"n_jobs": n_jobs}
    found = balance(X, treated, weights=weight, scale_of="each", suspect=2.0, **threads).table
    sizes = {"before": np.ones(len(treated)), "after": weight}
    table = {}
    for when, w in sizes.items():
        arms = {arm: found[[f"mean_{of}_{when}", f"sd_{of}_{when}"]] for arm, of in ARMS.items()}
        share = w[treated].sum() / w.sum()
        table |= {f"{arm}_mean_{when}": pair.iloc[:, 0] for arm, pair in arms.items()}
        table[f"mean_{when}"], table[f"sd_{when}"] = _of_all(arms, share)
        table[f"std_diff_{when}"] = found[f"std_diff_{when}"].where(np.isfinite)
        table |= {f"{arm}_sd_{when}": pair.iloc[:, 1] for arm, pair in arms.items()}
    table["std_diff_var_before"] = _plain(treated, np.isfinite(weight), table["std_diff_before"])
    table["std_diff_var_after"] = _variance(X, treated, weight, strata, table, n_jobs)
    for name, prefix in (("target", "target_"), ("comparator", "comparator_")):
        table[f"{name}_std_diff"] = _moved(table, prefix)
    table["target_comparator_std_diff"] = _moved(table, "")
    return DataFrame(table)


def difference_p_values(difference, variance, threshold):
    """P-values of the hypothesis that absolute differences are within the threshold, if any."""
    threshold = np.inf if threshold is None else threshold
    size, error = np.abs(difference), np.sqrt(variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        return ndtr((threshold - size) / error) + ndtr((-size - threshold) / error)


def _of_all(arms, share):
    """Mean and standard deviation of both arms together."""
    parts = [(share, arms["target"]), (1.0 - share, arms["comparator"])]
    mean = sum(part * pair.iloc[:, 0] for part, pair in parts)
    square = sum(part * (pair.iloc[:, 1] ** 2 + pair.iloc[:, 0] ** 2) for part, pair in parts)
    return mean, np.sqrt((square - mean**2).clip(lower=0.0))


def _moved(table, prefix):
    """Standardized difference of the same persons before and after."""
    scale = (table[f"{prefix}sd_before"] ** 2 + table[f"{prefix}sd_after"] ** 2) / 2.0
    moved = table[f"{prefix}mean_before"] - table[f"{prefix}mean_after"]
    moved = moved.where(moved.abs() > 1e-12, 0.0)  # of rounding
    return (moved / np.sqrt(scale)).where(scale > 0.0)


def _plain(treated, is_there, difference):
    n1, n0 = (np.count_nonzero(is_there & arm) for arm in (treated, ~treated))
    return (n1 + n0) / (n1 * n0) + difference**2 / (2.0 * max(n1 + n0 - 2, 1))


def _variance(X, treated, weight, strata, table, n_jobs):
    if np.isin(weight, (0.0, 1.0)).all():
        return _plain(treated, weight > 0.0, table["std_diff_after"])
    scale = (table["target_sd_after"] ** 2 + table["comparator_sd_after"] ** 2) / 2.0
    design, threads = build_design(X), count_threads(n_jobs)
    arm = treated.astype(np.int64)
    if strata is not None and len(np.unique(strata)) <= MOST_STRATA:
        _, code = np.unique(strata, return_inverse=True)
        group = np.where(weight > 0.0, 2 * code + arm, -1)
        n_groups = 2 * (int(code.max()) + 1)
        moments = sum_by_group(design, group, n_groups, n_threads=threads).moments()
        of_stratum = moments.size.reshape(-1, 2).sum(axis=1).repeat(2) / (weight > 0.0).sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            parts = moments.unbiased / moments.size * of_stratum**2
        found = np.nan_to_num(parts, posinf=0.0).sum(axis=1)
    else:
        for is_here in (treated, ~treated):
            weight = np.where(is_here, weight / weight[is_here].sum(), weight)
        sums = sum_by_group(design, arm, 2, weight**2, n_threads=threads)
        moments = sums.moments(weighted=True)
        means = np.column_stack([table["comparator_mean_after"], table["target_mean_after"]])
        spread = moments.variance + (moments.mean - means) ** 2
        found = (spread * moments.size).sum(axis=1)
    return (found / scale).where(scale > 0.0)
