r"""Survival of groups without a model: Kaplan and Meier's estimate.

With n(s) at risk and d(s) events at the times s, S(t) is the product of 1 - d / n until t. The
variance of log S is Greenwood's, the sum of d / (n (n - d)), where weights count rows; where they
do not, or a person has several events, it is the infinitesimal jackknife's. R's ``survfit`` has
both, and the same rule for which.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from pandas import DataFrame, MultiIndex

from .._calls import called_as
from .._tables import Result, counted
from ..data.checks import check_horizons
from ..data.intervals import check_level
from ..data.vectors import check_numbers
from .counts import count
from .curves import counts_table, describe, entries_of, look_up, step_functions
from .groups import documented, is_robust, read_rows
from .incidence import without_event
from .jackknife import running_products, without_noise
from .limits import bridge_bound, check_interval, limits, normal_bound

BOUNDS = ["lower", "upper"]
EQUAL = np.sqrt(np.finfo(np.float64).eps)  # two probabilities, as survfit compares them


@documented
@dataclass(frozen=True, eq=False, repr=False)
class KaplanMeier(Result):
    """Survival curves of groups; made by `kaplan_meier`.

    Attributes
    ----------
    table : pandas.DataFrame
        A line for each group and each time at which one of its rows ends: ``group``, ``time``,
        ``n_at_risk``, ``n_events`` and ``n_censored``, sums of weights where there are such,
        ``survival``, its ``standard_error`` and its limits ``lower`` and ``upper``; with a band
        also ``band_lower`` and ``band_upper``. NaN for what is not defined, such as limits of a
        survival of 0.
    groups : list
        Labels of the groups; "all" where there is one group.
    level : float
        Of the limits.
    interval : str
        Scale on which they are symmetric.
    robust : bool
        Whether variances are those of the infinitesimal jackknife.
    band : str or None
        Kind of the band.

    Examples
    --------
    >>> from sksurvgpu import surv
    >>> from sksurvgpu.nonparametric import kaplan_meier
    >>> y = surv([1, 0, 1, 1, 0], [2.0, 3.0, 3.0, 5.0, 6.0])
    >>> curves = kaplan_meier(y, groups=["a", "a", "b", "b", "b"])
    >>> curves
    <KaplanMeier of 2 groups, 5 times, 95% intervals>
      n_events n_censored median lower upper
    a        1          1    2.5     2   nan
    b        2          1      5     3   nan
    >>> curves.functions["b"](4.0).round(3)
    np.float64(0.667)
    """

    table: DataFrame
    groups: list
    level: float
    interval: str
    robust: bool
    band: str | None
    _entries: dict | None
    _is_stratified: bool = False

    def _title(self) -> str:
        return describe(self, counted(len(self.table), "times"))

    def _head(self, n):
        counts = self.table.groupby("group", observed=True)[["n_events", "n_censored"]].sum()
        medians = self.median.rename(columns={"quantile": "median"})
        return counts.join(medians).head(n), len(counts)

    @property
    def has_all_rows(self) -> bool:
        """True where the table counts all that is known of the rows: no late entry, no strata."""
        return self._entries is None and not self._is_stratified

    @property
    def functions(self) -> dict:
        """Survival functions by group, scikit-survival's ``StepFunction`` from time 0 on."""
        return step_functions(self.table, ["group"], "survival", 1.0)

    @property
    def median(self) -> DataFrame:
        """Median survival times with their limits, a row for each group."""
        return self.quantiles(0.5).droplevel("probability")

    def at(self, times) -> DataFrame:
        """Survival at given times.

        <<by_time>>
            A row for each group and time: those at risk just before it, ``n_at_risk``, and the
            columns ``survival`` to the last one of `table`. NaN after the last time of a group,
            unless its survival is 0.
        """
        initial = {"survival": 1.0, "standard_error": 0.0}
        if self.interval in ("log", "plain"):
            initial |= dict.fromkeys(BOUNDS, 1.0)
        times, is_open = check_horizons(times), self.table["survival"] > 0.0
        return look_up(self.table, ["group"], times, initial, is_open, self._entries)

    def quantiles(self, probabilities) -> DataFrame:
        """Times by which given shares of a group have met the event.

        Parameters
        ----------
        probabilities : float or array-like of shape (n_probabilities,)
            Shares between 0 and 1.

        Returns
        -------
        table : pandas.DataFrame
            A row for each group and probability: ``quantile``, ``lower`` and ``upper``, the first
            time at which the curve, its lower and its upper limits are down to 1 - p; NaN where
            they never are. Where one of them is equal to 1 - p for a while, the middle of that
            while. As in R's ``survfit``, except where limits rise again (robust, or late entry).
        """
        probabilities = check_probabilities(probabilities)
        curves = [self.table.columns.get_loc(c) for c in ("survival", *BOUNDS)]
        lines = self.table.groupby("group", sort=False, observed=True)
        found = [
            [_first_below(own["time"].to_numpy(), own.iloc[:, c].to_numpy(), p) for c in curves]
            for _, own in lines
            for p in probabilities
        ]
        index = MultiIndex.from_product(
            [self.groups, probabilities], names=["group", "probability"]
        )
        return DataFrame(found, index, ["quantile", *BOUNDS])


@called_as("kaplan_meier(surv(event, time), groups=...)")
@documented
def kaplan_meier(
    y, *, groups=None, sample_weight=None, robust=None, level=0.95, interval="log", band=None
) -> KaplanMeier:
    """Kaplan-Meier estimate of the survival of groups.

    Parameters
    ----------
    y : structured ndarray of shape (n_rows,)
        Outcome from `sksurvgpu.surv`. Rows with a ``start`` are at risk in (start, time]; rows of
        one ``subject`` count as one person in robust variances, and as censored only when the
        last of them ends.
    <<groups, sample_weight>>
    robust : bool, optional
        Take variances from the infinitesimal jackknife, which hold for any weights, in place of
        Greenwood's, where a weight of 2 is two rows. By default where weights are not whole
        numbers, or where a subject has two events.
    level : float, default=0.95
        Of the intervals, and of the band.
    interval : {"log", "log-log", "plain", "logit", "arcsin"}, default="log"
        Scale on which limits are symmetric: that of log S, log(-log S), S, log(S / (1 - S)), or
        arcsin of the root of S. Small groups are best served by "log-log" and "arcsin".
    band : {"hall-wellner"}, optional
        Also give limits within which the whole curve lies with the probability `level`, until the
        last event that leaves somebody at risk. On the same scale; not with robust variances.

    Returns
    -------
    curves : KaplanMeier
        Tables, functions and quantiles of all groups.

    See Also
    --------
    aalen_johansen : With several kinds of event.
    log_rank : Test whether groups differ.
    restricted_mean : Mean time without the event by a horizon.

    Notes
    -----
    Equal to R's ``survfit``, whose default is "log", too. A group without events has a curve at 1.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.nonparametric import kaplan_meier
    >>> data = simulate_cox(500, 2, density=0.5, random_state=0)
    >>> is_exposed = data.X[:, [0]].toarray().ravel() > 0
    >>> curves = kaplan_meier(data.y, groups=is_exposed)
    >>> curves.at([5, 10]).round(2)
                n_at_risk  survival  standard_error  lower  upper
    group time
    False 5.0       235.0      0.93            0.02   0.90   0.96
          10.0      200.0      0.80            0.03   0.75   0.85
    True  5.0       215.0      0.88            0.02   0.84   0.92
          10.0      191.0      0.79            0.03   0.74   0.84
    """
    check_level(level), check_interval(interval)
    if band not in (None, "hall-wellner"):
        raise ValueError(f"`band` is {band!r}; pass 'hall-wellner', or None for no band.")
    rows = read_rows(y, groups, sample_weight).weighted()
    counts = count(rows.time, rows.event, start=rows.start, weight=rows.weight, group=rows.group)
    [events] = counts.events
    survival = counts.multiply_up(np.where(counts.is_last, 0.0, 1.0 - counts.divide(events)))
    robust = is_robust(rows, robust)
    variance = _jackknife(counts, rows) if robust else _greenwood(counts)
    spread = np.sqrt(variance)
    bounds = limits(survival, normal_bound(level) * spread, interval)
    with np.errstate(invalid="ignore"):  # Greenwood's is not defined where nobody is left
        columns = {"survival": survival, "standard_error": survival * spread}
    columns |= dict(zip(BOUNDS, bounds, strict=True))
    if band is not None:
        bounds = limits(survival, _band_spread(counts, rows, variance, level, robust), interval)
        columns |= dict(zip(["band_lower", "band_upper"], bounds, strict=True))
    table = counts_table(counts, rows, events).assign(**columns)
    is_stratified = groups is not None and rows.stratum is not None
    return KaplanMeier(
        table=table,
        groups=rows.labels,
        level=level,
        interval=interval,
        robust=robust,
        band=band,
        _entries=entries_of(rows),
        _is_stratified=is_stratified,
    )


def _greenwood(counts):
    """Variance of log S; infinite where everybody at risk has had the event."""
    with np.errstate(divide="ignore", invalid="ignore"):
        [events] = counts.events
        shares = counts.divide(events) / (counts.at_risk - events)
    shares = np.where(counts.is_last, np.inf, np.where(events > 0.0, shares, 0.0))
    return counts.sum_up(shares)


def _jackknife(counts, rows):
    """Variance of log S by the squared influence of subjects, or of rows."""
    [events] = counts.events
    q = without_event(counts)
    total = counts.sum_up(q * counts.divide(events))
    jumps = np.where(rows.event > 0, q[counts.exit], 0.0)
    products = running_products(counts, [(jumps, total)], rows.weight, rows.subject)
    return without_noise((products[1, 1], -2.0 * total * products[0, 1], total**2 * products[0, 0]))


def _band_spread(counts, rows, variance, level, robust):
    """Half-width of the band on the scale of log S; NaN after its end."""
    if robust:
        raise ValueError(
            f"`band` is {'hall-wellner'!r}, which needs Greenwood's variance, but the rows have "
            "weights or subjects with several events; leave out `band`, or pass robust=False where "
            "weights count rows."
        )
    n_rows = np.bincount(rows.group, rows.weight).astype(np.float64)
    spread = np.full(len(variance), np.nan)
    for g, (first, stop) in enumerate(pairwise(counts.bounds)):
        own = slice(first, stop)
        # to where the curve reaches 0: with late entry perhaps before its last time
        is_known = np.logical_and.accumulate(np.isfinite(variance[own]))
        is_within = np.flatnonzero((counts.events[0, own] > 0) & ~counts.is_last[own] & is_known)
        last = first + is_within[-1] + 1 if is_within.size else first
        scaled = n_rows[g] * variance[first:last]
        bound = bridge_bound(scaled[-1] / (1.0 + scaled[-1]) if is_within.size else 0.0, level)
        spread[first:last] = bound * (1.0 + scaled) / np.sqrt(n_rows[g])
    return spread


def _first_below(time, curve, probability):
    """First time at which a curve is down to 1 - p, the middle of a piece that is equal to it."""
    with np.errstate(invalid="ignore"):
        is_below = curve < 1.0 - probability + EQUAL
    if probability < EQUAL:
        return 0.0
    if not is_below.any():
        return np.nan
    first = int(np.argmax(is_below))
    if abs(curve[first] - (1.0 - probability)) >= EQUAL:
        return time[first]
    lower = np.flatnonzero(curve < curve[first] - EQUAL)
    return (time[first] + time[lower[0] if lower.size else -1]) / 2.0


def check_probabilities(probabilities):
    """Shares between 0 and 1 as a vector."""
    scalar = np.ndim(probabilities) == 0
    values = check_numbers([probabilities] if scalar else probabilities, "probabilities", minimum=0)
    if (values > 1.0).any():
        raise ValueError(
            f"`probabilities` has {values.max():g}, must lie between 0 and 1, such as 0.5."
        )
    return values
