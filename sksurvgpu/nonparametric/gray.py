r"""Test whether groups have one cumulative incidence of an event among competing ones.

At every time s of an event, with n_g rows at risk in a group, its Kaplan-Meier curve S_g of no
event and its incidence F_g of the event of interest,

.. math::
    q_g = n_g / S_g(s-), \quad R_g = q_g (1 - F_g(s-)),

R being rows that might still meet the event if nobody were censored.  The statistic (Gray 1988) is
that of a log-rank test with R in place of n.  Its variance has two sources: events of interest, d,
under the pooled incidence F with dF = d / sum(q), and competing ones, d', which change what is left
of a group.  With w = (1 - F(s-))^rho,

.. math::
    a_{gh} = w (\delta_{gh} q_g - q_g q_h / \textstyle\sum q), \quad
    C_{gh}(s) = \sum_{u > s} a_{gh} dF / (1 - F(u-)), \quad k_h = (1 - F) / S_h,

    V = \sum_{s, h} [a_{\cdot h} + (1 - k_h) C_{\cdot h}]^{\otimes 2} dF / q_h
      + \sum_{s, h} [k_h C_{\cdot h}]^{\otimes 2} d'_h / q_h^2,

with factors for events that are tied.
"""

from dataclasses import dataclass

import numpy as np

from ..data.options import number
from ..data.outcomes.fields import check_event_of_interest, status_of
from .groups import documented, read_rows
from .log_rank import ROUNDING, LogRank, judge, require_comparable


@documented
@dataclass(frozen=True, eq=False, repr=False)
class GrayTest(LogRank):
    """Gray's test of the cumulative incidence of groups; made by `gray_test`.

    Attributes
    ----------
    <<statistic, df, p_value>>
    table : pandas.DataFrame
        A row for each group: ``n_rows``, ``observed`` and ``expected`` events of interest, times
        the weights of the test, and ``ratio``, the one over the other.
    covariance : ndarray of shape (n_groups, n_groups)
        Of observed less expected.
    rho : float
        Power of one minus the incidence that events are weighted by.

    Examples
    --------
    See `gray_test`.
    """


@documented
def gray_test(y, groups, *, event_of_interest=1, strata=None, rho=0.0) -> GrayTest:
    """Gray's test whether groups have the same cumulative incidence of an event.

    Parameters
    ----------
    y : structured ndarray of shape (n_rows,)
        Outcome from `sksurvgpu.competing_risks`, of rows that are at risk from the beginning.
    groups : array-like of shape (n_rows,)
        Label of the group of each row, such as its treatment.
    event_of_interest : int or str, default=1
        Code or label of the event; all others compete with it.
    strata : array-like of shape (n_rows,), optional
        Rows are compared only within a stratum; by default the strata of `y`, where it has a field
        ``stratum``.
    rho : float, default=0.0
        Events are weighted by one minus the incidence before them to this power.

    Returns
    -------
    test : GrayTest
        Statistic, and observed and expected events of interest.

    See Also
    --------
    aalen_johansen : The curves.
    log_rank : Whether groups have one hazard of the event, competing events being censored.

    Notes
    -----
    Equal to the tests of ``cuminc`` in R's cmprsk.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_fine_gray
    >>> from sksurvgpu.nonparametric import gray_test
    >>> data = simulate_fine_gray(500, 2, density=0.5, random_state=0)
    >>> gray_test(data.y, data.X[:, [0]].toarray().ravel() > 0).table.round(1)
           n_rows  observed  expected  ratio
    group
    False     254      37.0      42.7    0.9
    True      246      44.0      38.3    1.1
    """
    number(rho, "rho", "must be a finite number, such as 0 or 1")
    rows = read_rows(y, groups, strata=False if strata is None else strata, is_competing=True)
    if rows.start is not None:
        raise ValueError(
            "`y` has a field 'start', and this test is for rows at risk from the beginning; leave "
            "rows that enter late out, then the field, as by y[['event', 'time']], or test the "
            "hazard by log_rank."
        )
    if rows.subject is not None and np.bincount(rows.subject).max() > 1:
        raise ValueError(
            "`y` has several rows of a subject, and this test counts each as one; join them."
        )
    event = y[y.dtype.names[0]]
    kind = status_of(event, check_event_of_interest(event_of_interest, event))
    require_comparable(rows, kind == 1)
    n_groups, sums, covariance = len(rows.labels), 0.0, 0.0
    stratum = np.zeros(len(kind), np.int64) if rows.stratum is None else rows.stratum
    has_events = np.bincount(stratum, kind == 1) > 0
    order = np.argsort(stratum, kind="stable")
    each = np.split(order, np.cumsum(np.bincount(stratum))[:-1])
    for s in np.flatnonzero(has_events).tolist():
        own = each[s]
        tables = _count(rows.time[own], kind[own], rows.group[own], n_groups)
        more, of_more = _compare(*tables, float(rho))
        sums, covariance = sums + more, covariance + of_more
    return GrayTest(*judge(rows, sums, covariance), covariance, float(rho), False)


def _count(time, kind, group, n_groups):
    """Rows at risk, and events of interest and competing ones, by event time and group."""
    times = np.unique(time[kind > 0])
    last = np.searchsorted(times, time, side="right")  # event times until which a row is at risk
    size = len(times), n_groups

    def table(rows, place):
        cells = np.bincount(place * n_groups + group[rows], minlength=(size[0] + 1) * n_groups)
        return cells.reshape(-1, n_groups)[: size[0] + 1].astype(np.float64)

    at_risk = np.cumsum(table(slice(None), last)[::-1], axis=0)[::-1][1:]
    events = (table(kind == k, np.searchsorted(times, time[kind == k]))[:-1] for k in (1, 2))
    return at_risk, *events


def _compare(at_risk, of_interest, competing, rho):
    """Observed and expected events of groups, and the covariance of their difference.

    Axes of tables are times and groups.
    """
    hazard = _divide(of_interest + competing, at_risk)
    after = np.cumprod(1.0 - hazard, axis=0)
    before = _shifted(after, 1.0)
    risk = np.cumsum(before * _divide(of_interest, at_risk), axis=0)
    able = _divide(at_risk, before)  # q
    rest = able * (1.0 - _shifted(risk, 0.0))  # R
    events, all_able = of_interest.sum(axis=1), able.sum(axis=1)
    step = _divide(events, all_able)
    pooled = np.cumsum(step)
    left = 1.0 - _shifted(pooled, 0.0)
    weight, by_left = _weigh(left, np.where(events > 0, np.count_nonzero(at_risk, axis=1), 0), rho)
    expected = _divide(rest, rest.sum(axis=1, keepdims=True)) * events[:, None]
    sums = weight @ of_interest, weight @ expected

    alone = 1.0 - _divide(np.maximum(events - 1.0, 0.0)[:, None], all_able[:, None] * before - 1.0)
    scale = alone * _divide(step[:, None], able)
    tied = 1.0 - _divide(np.maximum(competing - 1.0, 0.0), at_risk - 1.0)
    other = tied * _divide(competing, able**2)
    share = _divide(able, all_able[:, None])
    gone = _divide((1.0 - pooled)[:, None], after)  # (1 - F) / S
    own = np.where(after > 0, 1.0 - gone, 1.0)
    covariance = np.zeros((able.shape[1], able.shape[1]))
    for h in range(able.shape[1]):  # one at a time: tables of all would be large
        shift = -share * able[:, [h]]
        shift[:, h] += able[:, h]
        grown = np.cumsum(shift * (step * by_left)[:, None], axis=0)
        later = grown[-1] - grown
        of_own, of_others = shift * weight[:, None] + own[:, [h]] * later, gone[:, [h]] * later
        covariance += of_own.T @ (of_own * scale[:, [h]])
        covariance += of_others.T @ (of_others * other[:, [h]])
    return np.array(sums), covariance


def _weigh(left, n_at_risk, rho):
    """Weights of times, at whose events so many groups are at risk, and these over what is left.

    Of all groups together less than nothing may be left, where some end early.
    """
    left, is_alone = np.where(np.abs(left) < ROUNDING, 0.0, left), n_at_risk < 2
    with np.errstate(divide="ignore", invalid="ignore"):
        weight, by_left = left**rho, left ** (rho - 1.0)
    weight[is_alone & (left <= 0.0)] = by_left[is_alone] = 0.0  # what is not compared
    unknown = np.flatnonzero(~np.isfinite(weight + by_left))
    if unknown.size:
        raise ValueError(
            f"`rho` is {rho:g}, and one minus the incidence of all groups is "
            f"{left[unknown[0]]:.3g} before some events, as it may be where groups end early: "
            "their weights are not finite; take rho=1, or groups that are followed as long."
        )
    return weight, by_left


def _divide(values, by):
    """Quotients; 0 where the divisor is."""
    values, by = np.broadcast_arrays(values, by)
    return np.divide(values, by, out=np.zeros(by.shape), where=by > 0.0)


def _shifted(values, first):
    """Values of the time before."""
    return np.concatenate([np.full_like(values[:1], first), values[:-1]])
