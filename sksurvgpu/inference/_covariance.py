"""Covariance of coefficients: the inverse of their information, or a sandwich around it.

Where columns are collinear within the groups whose mean is free, the fit shares their effect among
them in no particular way. What is told of a fit is that of the model without the later columns of
such a set, whose fit is the same (`Inverse.without_dependent`).
"""

from dataclasses import replace

import numpy as np

from .._warnings import warn
from ..data.options import quoted
from ..data.partitioned import in_partitions, refuse_partitions
from ..data.vectors import check_labels, encode
from ..estimators.fitted import fitted_of
from ..estimators.models.base import model_of
from ..information.inverse import Inverse, invert
from ..information.views import View
from ..patterns.subsets.information import SubsetView

ONE_CLUSTER = (
    "`cluster` has one label ({}) for all {:,} rows; robust standard errors need several clusters "
    "that are independent of each other."
)
FEW_CLUSTERS = 20
FEW = (
    "robust standard errors are of {} clusters, and too small where these are few (about 20 and "
    "below): judge tests by far fewer degrees of freedom, or cluster more finely."
)
UNKNOWN = (
    "the data do not determine the coefficients of {}: constant columns, or collinear with columns "
    "before them, as the last indicator of a factor is. They are left out: what is computed of "
    "them is NaN, and of all others what a fit without them gives. Leave them out of X, or in "
    "their place the level of a factor that others are to be compared with."
)


def invert_information(view: View) -> Inverse:
    """Invert the information of a fit; warns of columns that have none."""
    return invert_of(view.rows.estimator, view.information())


def invert_of(estimator, information) -> Inverse:
    """Invert an information of a fit, given as `information.inverse.invert` takes it.

    Columns that depend on others are left out. The information of infinite coefficients vanishes
    as they grow, so that what is left of it where a fit stopped says nothing.
    """
    is_infinite = estimator.infinite_
    inverse = invert(*information).without_dependent(is_infinite)
    warn_of(estimator, ~inverse.identified & ~is_infinite, UNKNOWN)
    warn_of(
        estimator,
        is_infinite,
        "the coefficients of {} are infinite, because the columns separate the events; standard "
        "errors and what is computed of them are NaN. Take `profile_likelihood`, one of whose "
        "bounds is finite, or `likelihood_ratio_test`.",
    )
    return replace(inverse, identified=inverse.identified & ~is_infinite)


def warn_of(estimator, which, message) -> None:
    """Warn the caller of a public function that inverts an information of some coefficients."""
    found = np.flatnonzero(which)
    if len(found):
        warn(message.format(quoted(fitted_of(estimator).names[found])))


def add_intercept(coef, known, view, fit, cluster) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and covariance with the intercept first.

    The one at the weighted means m of the columns is independent of the coefficients by the
    information, whose part of it is the sum of h; the intercept is that less m times coefficients.
    """
    rows, covariance, inverse = view.rows, fit.covariance, fit.inverse
    total, p = view.atom_weight[0], rows.n_coef
    mean, cross, variance = np.empty(p), np.zeros(p), fit.dispersion / total
    if fit.meat is not None:
        collect = view.collector(cluster)
        own = collect(rows.session.u[:, None])[:, 0] / total
        variance = own @ own
    for columns in rows.blocks(3 * rows.plan.n_rows):
        mean[columns] = view.means(rows.block(columns))[0]
        if fit.meat is not None:
            cross[columns] = own @ collect(view.scores(view.centred(columns)))
    if rows.problem.center is not None:
        mean += rows.problem.center[rows.problem.source]
    given, is_left_out = fit.estimator.coef_, np.isnan(coef)
    coef = np.append(fit.estimator.intercept_ + mean @ (given - inverse.move(given)), coef)
    mean[is_left_out], cross = 0.0, cross @ inverse.matrix
    out = np.full((p + 1, p + 1), np.nan)
    out[1:, 1:] = known
    is_lost = fit.estimator.infinite_ | is_left_out
    if inverse.determines(mean[None], fit.information, is_lost)[0]:
        out[0, 0] = variance - 2.0 * cross @ mean + mean @ covariance @ mean
        out[0, 1:] = np.where(inverse.identified, cross - covariance @ mean, np.nan)
        out[1:, 0] = out[0, 1:]
    return coef, out


def clusters_of(view: View, cluster) -> np.ndarray | None:
    """Numbers from 0 of the rows' clusters, in the caller's order; None: every row is one."""
    n_rows, given = view.rows.plan.n_base, cluster is not None
    if not given:
        field = model_of(view.rows.estimator).clusters
        cluster = getattr(view.rows.outcome, field, None)
        if cluster is None:
            return None
    codes, labels = encode(check_labels(cluster, "cluster", n_rows))
    if len(labels) < 2:
        raise ValueError(ONE_CLUSTER.format(labels[0], n_rows))
    if len(labels) < FEW_CLUSTERS:
        warn(FEW.format(len(labels)))
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
            f"`cluster` divides the matched set {outcome.group_labels[group[row]]} (row "
            f"{row:,}), but the exact likelihood has no terms for parts of a set; give all rows "
            'of a set one label, or fit with ties="efron" or "breslow".'
        )


def require_intercept(estimator, X) -> None:
    if not getattr(estimator, "fit_intercept", False):
        raise ValueError(
            f"`intercept` is True, but `estimator`, a {type(estimator).__name__}, was fitted "
            "without one; pass intercept=False."
        )
    if in_partitions(X):
        refuse_partitions(
            "the error of the intercept is computed from rows", "pass intercept=False"
        )


def check_whole_clusters(prepared, estimator):
    """Refuse clusters that are divided among partitions, or a single one."""
    owner = prepared.check_subjects(
        estimator, "cluster", "scores are added up by cluster where the rows are"
    )
    if owner is not None and len(owner) < 2:
        raise ValueError(ONE_CLUSTER.format(next(iter(owner)), prepared.problem.given.n_rows))


def residual_df(n_rows, rank, has_intercept) -> int:
    """Rows of positive weight less the number of estimated means."""
    df = n_rows - rank - int(has_intercept)
    if df < 1:
        raise ValueError(
            f"the linear model has {rank} coefficients and an intercept for "
            f"{n_rows:,} rows, so that nothing is left to estimate the "
            "variance of its errors from; take fewer columns, or robust=True."
        )
    return df
