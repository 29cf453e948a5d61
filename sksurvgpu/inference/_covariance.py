"""Covariance of coefficients: the inverse of their information, or a sandwich around it.

Where columns are collinear within the groups whose mean is free, their coefficients are not
identified, but those of the other columns are: the generalized inverse has their covariance. R's
fits leave out the later columns of a collinear set; here the coefficients of all are NaN, because
the fit shares the effect among them in no particular way.
"""

from __future__ import annotations

import warnings

import numpy as np

from ..data._fields import encode
from ..data.checks import check_labels
from ..estimators._base import MOST_NAMES
from ._views import SubsetView, View

__all__ = ["clusters_of", "invert", "model_covariance", "robust_covariance"]

# Share of a column's variance that means within groups leave, and eigenvalue of the information of
# columns scaled to 1, below which they are rounding.
CONSTANT, COLLINEAR = 1e-12, 1e-11
IN_NULL_SPACE = 1e-5  # entry of a unit vector without information that is not rounding


def invert(information, size) -> tuple[np.ndarray, int]:
    """Inverse of an information, NaN for columns that have none, and its rank.

    `size` is its diagonal before the means within groups were taken out.
    """
    diagonal, p = np.diagonal(information), len(information)
    covariance = np.full((p, p), np.nan)
    varies = diagonal > CONSTANT * size
    unit = 1.0 / np.sqrt(diagonal[varies])
    values, vectors = np.linalg.eigh(information[np.ix_(varies, varies)] * np.outer(unit, unit))
    is_null = values <= COLLINEAR
    identified = np.all(np.abs(vectors[:, is_null]) < IN_NULL_SPACE, axis=1)
    kept, vectors = np.flatnonzero(varies)[identified], vectors[np.ix_(identified, ~is_null)]
    inverse = (vectors / values[~is_null]) @ vectors.T
    covariance[np.ix_(kept, kept)] = inverse * np.outer(unit[identified], unit[identified])
    return covariance, int(np.count_nonzero(~is_null))


def model_covariance(view: View) -> tuple[np.ndarray, int]:
    """Inverse of the information and its rank; warns of columns that have no information."""
    covariance, rank = invert(*view.information())
    lost = np.flatnonzero(np.isnan(np.diagonal(covariance)))
    if len(lost):
        names = np.array(view.rows.estimator._coef_names(), dtype=object)[lost[:MOST_NAMES]]
        more = f" and {len(lost) - MOST_NAMES:,} more" if len(lost) > MOST_NAMES else ""
        warnings.warn(
            f"the data do not determine the coefficients of "
            f"{', '.join(f'`{name}`' for name in names)}{more}: constant or collinear columns, "
            "or columns without an event; their standard errors are NaN. Leave some of them out.",
            UserWarning,
            stacklevel=3,
        )
    return covariance, rank


def robust_covariance(view: View, covariance, cluster) -> np.ndarray:
    """Sandwich of the scores summed over clusters."""
    kept = np.flatnonzero(~np.isnan(np.diagonal(covariance)))
    bread, out = covariance[np.ix_(kept, kept)], np.full_like(covariance, np.nan)
    out[np.ix_(kept, kept)] = bread @ view.meat(cluster)[np.ix_(kept, kept)] @ bread
    return out


def clusters_of(view: View, cluster) -> np.ndarray | None:
    """Numbers from 0 of the rows' clusters, in the caller's order; None: every row is one."""
    n_rows, given = view.rows.plan.n_base, cluster is not None
    if not given:
        cluster = view.default_clusters()
        if cluster is None:
            return None
    codes, labels = encode(check_labels(cluster, "cluster", n_rows))
    if len(labels) < 2:
        raise ValueError(
            f"`cluster` has one label ({labels[0]!r}) for all {n_rows:,} rows; robust standard "
            "errors need several clusters that are independent of each other."
        )
    if given and isinstance(view, SubsetView):
        _check_whole_sets(codes, view.rows.outcome)
    return codes


def _check_whole_sets(codes, outcome) -> None:
    group = outcome.group
    first = np.zeros(int(group.max()) + 1, np.int64)
    first[group[::-1]] = codes[::-1]
    differs = codes != first[group]
    if differs.any():
        row = int(np.argmax(differs))
        raise ValueError(
            f"`cluster` divides the matched set {outcome.group_labels[group[row]]!r} (row "
            f"{row:,}), but the exact likelihood has no terms for parts of a set; give all rows "
            'of a set one label, or fit with ties="efron" or "breslow".'
        )
