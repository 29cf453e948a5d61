r"""Test whether groups have one survival: the log-rank test and its weighted family.

At every time s of a stratum with n(s) rows at risk, n_g(s) of the group g, and d(s) events, shares
p_g = n_g / n of the events are expected in each group. With S the survival of the whole stratum,
and Harrington and Fleming's (1982) weights w(s) = S(s-)^rho,

.. math::
    O_g - E_g = \sum_s w(s) [d_g(s) - p_g(s) d(s)], \quad
    V = \sum_s w(s)^2 d(s) \frac{n(s) - d(s)}{n(s) - 1} [\mathrm{diag}(p) - p p^\top],

the mean and variance of events dealt out at random, and chi-square is (O - E)' V^- (O - E). The
expected events are a sum over rows, of the hazard of their stratum while they are at risk. In place
of V a robust test has the sum over subjects of the squares of their parts of O - E, as the score
test of Lin and Wei (1989).
"""

from dataclasses import dataclass

import numpy as np
from pandas import DataFrame, Index
from scipy.stats import chi2

from .._calls import called_as, renamed_attribute
from .._tables import Result, counted
from ..data.options import number
from .counts import count
from .groups import ALL, documented, is_robust, read_rows
from .jackknife import row_influence

ROUNDING = 1e-10  # eigenvalues of a covariance that are 0, in units of the largest
BLOCK = 1 << 22  # entries of a table of times and groups that is held at once


@documented
@dataclass(frozen=True, eq=False, repr=False)
class LogRank(Result):
    """Log-rank test whether groups have the same survival; made by `log_rank`.

    Attributes
    ----------
    <<statistic, df, p_value>>
    table : pandas.DataFrame
        A row for each group: ``n_rows``, ``observed`` and ``expected`` events, times the weights
        of the test, and ``ratio``, the one over the other.
    covariance : ndarray of shape (n_groups, n_groups)
        Of observed less expected.
    rho : float
        Power of the survival that events are weighted by.
    robust : bool
        Whether the covariance is that of subjects or rows with any weights.

    Examples
    --------
    >>> from sksurvgpu import surv
    >>> from sksurvgpu.nonparametric import log_rank
    >>> y = surv([1, 0, 1, 1, 0], [2.0, 3.0, 3.0, 5.0, 6.0])
    >>> log_rank(y, ["a", "a", "b", "b", "b"])
    <LogRank of 2 groups: chi-square 0.287 on 1 df, p = 0.592>
      n_rows observed expected   ratio
    a      2        1     0.65   1.538
    b      3        2     2.35  0.8511
    """

    statistic: float
    df: int
    p_value: float
    table: DataFrame
    covariance: np.ndarray
    rho: float
    robust: bool
    chi_square = renamed_attribute("chi_square", "statistic")

    def _title(self) -> str:
        robust = ", robust" if self.robust else ""
        groups, found = counted(len(self.table), "groups"), f"chi-square {self.statistic:.3g}"
        return (
            f"{type(self).__name__} of {groups}: {found} on {self.df:,} df, "
            f"p = {self.p_value:.3g}{robust}"
        )


@called_as("log_rank(surv(event, time), groups)")
@documented
def log_rank(y, groups, *, strata=None, rho=0.0, sample_weight=None, robust=None) -> LogRank:
    """Log-rank test whether groups have the same survival.

    Parameters
    ----------
    y : structured ndarray of shape (n_rows,)
        Outcome from `sksurvgpu.surv`. Rows with a ``start`` are at risk in (start, time].
    groups : array-like of shape (n_rows,)
        Label of the group of each row, such as its treatment.
    strata : array-like of shape (n_rows,), optional
        Rows are compared only within a stratum, such as a matched set; by default the strata of
        `y`, where it has a field ``stratum``.
    rho : float, default=0.0
        Events are weighted by the survival before them to this power: 0 for the log-rank test, 1
        for Peto and Peto's modification of Gehan and Wilcoxon's, which early events decide.
    <<sample_weight>>
    robust : bool, optional
        Take the covariance from the parts that subjects, or rows, have in the statistic; a weight
        of 2 is two rows in the other one. By default where weights are not whole numbers, or
        where a subject has two events.

    Returns
    -------
    test : LogRank
        Statistic, and observed and expected events.

    See Also
    --------
    kaplan_meier : The curves.
    restricted_mean : How much groups differ, whatever their hazards.

    Notes
    -----
    Equal to R's ``survdiff``. With late entry it is the score test of a Cox model with exact ties,
    robust ones are those of ``coxph(..., robust=TRUE, ties="breslow")``.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.nonparametric import log_rank
    >>> data = simulate_cox(500, 2, density=0.5, random_state=0)
    >>> test = log_rank(data.y, data.X[:, [0]].toarray().ravel() > 0)
    >>> test.table.round(1)
           n_rows  observed  expected  ratio
    group
    False     254     234.0     244.6    1.0
    True      246     233.0     222.4    1.0
    """
    number(rho, "rho", "must be a finite number, such as 0 or 1")
    strata = False if strata is None else strata
    rows = read_rows(y, groups, sample_weight, strata=strata).weighted()
    require_comparable(rows, rows.event > 0)
    counts = count(rows.time, rows.event, start=rows.start, weight=rows.weight, group=rows.stratum)
    [events] = counts.events
    hazard = counts.divide(events)
    surviving = counts.multiply_up(np.where(counts.is_last, 0.0, 1.0 - hazard))
    with np.errstate(divide="ignore"):
        tilt = np.where(events > 0.0, counts.before(surviving, 1.0) ** float(rho), 0.0)
    weight = np.ones(len(rows.time)) if rows.weight is None else rows.weight
    observed = tilt[counts.exit] * rows.event
    expected = observed - row_influence(counts, observed, tilt * hazard)
    robust = is_robust(rows, robust)
    covariance = (
        _robust(counts, rows, tilt * hazard, tilt) if robust else _dealt(counts, rows, tilt)
    )
    sums = [np.bincount(rows.group, weight * v) for v in (observed, expected)]
    return LogRank(*judge(rows, sums, covariance), covariance, float(rho), robust)


def require_comparable(rows, is_counted):
    """Check that there are groups, and events among the rows that are counted as such."""
    if len(rows.labels) < 2:
        found = "is missing" if rows.labels == [ALL] else f"has one value, {rows.labels[0]!r}"
        where = "" if rows.weight is None else " in rows of positive weight"
        raise ValueError(f"`groups` {found}{where}; pass labels of two groups or more.")
    if not is_counted.any():
        raise ValueError(
            f"`y` has no event ({len(rows.time):,} rows, of positive weight), so that there is "
            "nothing to test; take more rows."
        )


def judge(rows, sums, covariance):
    """Statistic of the groups of which events are expected, its df and p-value; their table."""
    observed, expected = sums
    kept = np.flatnonzero(expected > 0.0)[1:]  # all sum up to 0
    values, vectors = np.linalg.eigh(covariance[np.ix_(kept, kept)])
    is_known = values > ROUNDING * values.max(initial=0.0)
    df = int(np.count_nonzero(is_known))
    if df == 0:
        raise ValueError(
            "rows of different `groups` are never at risk at the time of one event that not all of "
            "them have, so that there is nothing to compare; take groups that overlap in time"
            f"{' and in `strata`' if rows.stratum is not None else ''}."
        )
    apart = (observed - expected)[kept] @ vectors[:, is_known]
    statistic = float(np.sum(apart**2 / values[is_known]))
    with np.errstate(divide="ignore", invalid="ignore"):
        table = DataFrame(
            {
                "n_rows": np.bincount(rows.group),
                "observed": observed,
                "expected": expected,
                "ratio": observed / expected,
            },
            index=Index(rows.labels, name="group"),
        )
    return statistic, df, float(chi2.sf(statistic, df)), table


def _dealt(counts, rows, tilt):
    """Covariance of events that are dealt out at random among those at risk."""
    events = counts.events[0]
    # Alone, a row has all events of a time for certain.
    rest = np.divide(
        counts.at_risk - events,
        counts.at_risk - 1.0,
        out=np.zeros_like(events),
        where=counts.at_risk > 1.0,
    )
    scale = tilt**2 * events * rest
    lines = np.flatnonzero(scale > 0.0)
    n_groups = len(rows.labels)
    covariance = np.zeros((n_groups, n_groups))
    for part, at_risk in _at_risk(counts, rows, lines):
        share = at_risk / counts.at_risk[part, None]
        weighted = scale[part, None] * share
        covariance += np.diag(weighted.sum(axis=0)) - weighted.T @ share
    return covariance


def _at_risk(counts, rows, lines):
    """Blocks of lines with the weight at risk in each group, (n_lines, n_groups)."""
    n_groups = len(rows.labels)
    weight = np.ones(len(rows.group)) if rows.weight is None else rows.weight
    come = np.searchsorted(lines, counts.entry)
    go = np.searchsorted(lines, counts.exit, side="right")
    place = np.concatenate([come, go]) * n_groups + np.tile(rows.group, 2)
    change = np.concatenate([weight, -weight])
    order = np.argsort(place, kind="stable")
    place, change = place[order], change[order]
    size = max(BLOCK // n_groups, 1)
    carried = np.zeros(n_groups)
    for first in range(0, len(lines), size):
        part = lines[first : first + size]
        own = slice(*np.searchsorted(place, [first * n_groups, (first + len(part)) * n_groups]))
        changes = np.bincount(
            place[own] - first * n_groups, change[own], len(part) * n_groups
        ).reshape(len(part), n_groups)
        changes[0] += carried
        at_risk = np.cumsum(changes, axis=0)
        carried = at_risk[-1]
        yield part, at_risk


def _robust(counts, rows, hazard, tilt):
    """Sum over subjects of the squares of their parts of observed less expected."""
    n_groups, n_rows = len(rows.labels), len(rows.group)
    share = np.zeros((n_groups, len(counts.time)))
    lines = np.flatnonzero(tilt > 0.0)
    for part, at_risk in _at_risk(counts, rows, lines):
        share[:, part] = np.divide(at_risk, counts.at_risk[part, None]).T
    subject = np.arange(n_rows) if rows.subject is None else rows.subject
    jump = tilt[counts.exit] * rows.event
    common = row_influence(counts, jump, hazard)
    parts = []
    for g, own in enumerate(share):
        part = (rows.group == g) * common - row_influence(
            counts, jump * own[counts.exit], hazard * own
        )
        part = part if rows.weight is None else rows.weight * part
        parts.append(np.bincount(subject, part))
    return np.array(parts) @ np.array(parts).T
