"""Cumulative incidence of all kinds of event without a model: Aalen and Johansen's estimate.

Who has had an event of one kind can have no other, and does not leave those at risk by censoring:
one minus Kaplan-Meier, which takes it for censoring, is larger. The estimate and its variance are
those of `incidence`.
"""

from dataclasses import dataclass

import numpy as np
from pandas import DataFrame, concat

from .._calls import called_as
from .._tables import Result, counted
from ..data.checks import check_horizons
from ..data.intervals import check_level
from .counts import count
from .curves import counts_table, describe, entries_of, look_up, step_functions
from .groups import documented, read_rows
from .incidence import delta_variance, incidence, jackknife_variance
from .limits import check_interval, limits, normal_bound

KEYS = ["group", "event"]


@documented
@dataclass(frozen=True, eq=False, repr=False)
class AalenJohansen(Result):
    """Cumulative incidence curves of groups; made by `aalen_johansen`.

    Attributes
    ----------
    table : pandas.DataFrame
        A line for each group, kind of event, and time at which one of the group's rows ends:
        ``group``, ``event``, its code or label, ``time``, ``n_at_risk``, ``n_events`` of the kind
        and ``n_censored``, sums of weights where there are such, ``incidence``, its
        ``standard_error`` and its limits ``lower`` and ``upper``, NaN where it is 0.
    groups : list
        Labels of the groups; "all" where there is one group.
    events : list of int or str
        Codes or labels of the kinds of event.
    level : float
        Of the limits.
    interval : str
        Scale on which they are symmetric.
    robust : bool
        Whether rows have weights, late entry or subjects, so that variances are those of the
        infinitesimal jackknife over subjects or rows.

    Examples
    --------
    >>> from sksurvgpu import competing_risks
    >>> from sksurvgpu.nonparametric import aalen_johansen
    >>> curves = aalen_johansen(competing_risks([1, 0, 2, 1, 0], [2.0, 3.0, 3.0, 5.0, 6.0]))
    >>> curves
    <AalenJohansen of 1 group, 2 kinds of event, 4 times, 95% intervals>
                n_events time incidence    lower upper
    group event
    all   1            2    6       0.5   0.1841     1
    ...
    >>> curves.functions["all", 1](4.0)
    np.float64(0.2)
    """

    table: DataFrame
    groups: list
    events: list
    level: float
    interval: str
    robust: bool
    _entries: dict | None

    def _title(self) -> str:
        n_kinds = len(self.events)
        times = counted(len(self.table) // n_kinds, "times")
        return describe(self, f"{counted(n_kinds, 'kinds')} of event, {times}")

    def _head(self, n):
        lines = self.table.groupby(KEYS, observed=True, sort=False)
        table = (
            lines[["n_events"]].sum().join(lines.last()[["time", "incidence", "lower", "upper"]])
        )
        return table.head(n), len(table)

    @property
    def functions(self) -> dict:
        """Incidence functions by (group, event), ``StepFunction`` from time 0 on."""
        return step_functions(self.table, KEYS, "incidence", 0.0)

    def at(self, times) -> DataFrame:
        """Cumulative incidence at given times.

        <<by_time>>
            A row for each group, event and time: those at risk just before it, ``n_at_risk``, and
            the columns ``incidence`` to ``upper``. NaN after the last time of a group, unless
            everybody has had an event by then.
        """
        initial = {"incidence": 0.0, "standard_error": 0.0}
        if self.interval == "plain":
            initial |= {"lower": 0.0, "upper": 0.0}
        times = check_horizons(times)
        return look_up(self.table, KEYS, times, initial, self._is_open(), self._entries)

    def _is_open(self):
        """Tell of each line whether some rows are left without an event."""
        lines = self.table.groupby(["group", "time"], observed=True)["n_events"]
        return (self.table["n_at_risk"] > lines.transform("sum")).to_numpy()


@called_as("aalen_johansen(competing_risks(event, time), groups=...)")
@documented
def aalen_johansen(
    y, *, groups=None, sample_weight=None, level=0.95, interval="log"
) -> AalenJohansen:
    """Aalen-Johansen estimate of the cumulative incidence of all kinds of events.

    Parameters
    ----------
    y : structured ndarray of shape (n_rows,)
        Outcome from `sksurvgpu.competing_risks`. A field ``start`` is read as in `surv`, and rows
        of one ``subject`` count as one person.
    <<groups, sample_weight, level>>
    interval : {"log", "log-log", "plain", "logit", "arcsin"}, default="log"
        Scale on which limits are symmetric, with F the incidence: that of log F, log(-log F), F,
        log(F / (1 - F)), or arcsin of the root of F.

    Returns
    -------
    curves : AalenJohansen
        Tables and functions of all groups and kinds.

    See Also
    --------
    kaplan_meier : With a single kind of event.
    sksurvgpu.FineGrayCCD : How the incidence depends on covariates.

    Notes
    -----
    Equal to R's ``survfit`` of a factor, of which the first level is censoring; those variances
    are the infinitesimal jackknife's. Without weights, late entry and subjects they come from the
    delta method, which then has the same ones. The estimates, not the variances, of ``cuminc`` in
    cmprsk are these, too.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_fine_gray
    >>> from sksurvgpu.nonparametric import aalen_johansen
    >>> data = simulate_fine_gray(500, 2, density=0.5, random_state=0)
    >>> aalen_johansen(data.y).at([0.2, 0.5]).round(2)
                      n_at_risk  incidence  standard_error  lower  upper
    group event time
    all   1     0.2       335.0       0.08            0.01   0.05   0.10
                0.5       166.0       0.16            0.02   0.13   0.20
          2     0.2       335.0       0.08            0.01   0.06   0.11
                0.5       166.0       0.20            0.02   0.16   0.25
    """
    check_level(level), check_interval(interval)
    rows = read_rows(y, groups, sample_weight, is_competing=True).weighted()
    counts = count(
        rows.time,
        rows.event,
        len(rows.codes),
        start=rows.start,
        weight=rows.weight,
        group=rows.group,
    )
    robust = any(given is not None for given in (rows.start, rows.weight, rows.subject))
    risks, before = incidence(counts)
    tables = []
    for kind, code in enumerate(rows.codes):
        risk = np.minimum(risks[kind], 1.0)
        if robust:
            variance = jackknife_variance(counts, kind, risk, before, rows)
        else:
            variance = delta_variance(counts, kind, risk, before)
        error = np.sqrt(variance)
        with np.errstate(divide="ignore", invalid="ignore"):
            spread = normal_bound(level) * error / risk
        columns = {"incidence": risk, "standard_error": error}
        columns |= dict(zip(["lower", "upper"], limits(risk, spread, interval), strict=True))
        table = counts_table(counts, rows, counts.events[kind]).assign(**columns)
        table.insert(1, "event", code)
        tables.append(table)
    table = _interleave(tables)
    return AalenJohansen(table, rows.labels, rows.codes, level, interval, robust, entries_of(rows))


def _interleave(tables):
    """Lines of all kinds by group, then kind, then time."""
    table = concat(tables, ignore_index=True)
    order = np.argsort(table["group"].cat.codes.to_numpy(), kind="stable")
    return table.iloc[order].reset_index(drop=True)
