r"""Events per time at risk, and the smallest effect that as many events would show.

Events in a time T are taken for Poisson with mean rate times T. Limits of a rate are exact (Garwood
1936); those of a ratio, too: given the events of both groups together, those of one are binomial
with the probability T_1 ratio / (T_1 ratio + T_0). Of a difference they are normal, with the
variance d_1 / T_1^2 + d_0 / T_0^2.

Where a share p of the rows is treated, and d have the event, the logarithm of the hazard ratio has
the variance 1 / (d p (1 - p)) (Schoenfeld 1983). A test of size alpha finds one with a given power
that is as far from 0 as z_{1 - alpha / 2} + z_power standard errors.
"""

from dataclasses import dataclass

import numpy as np
from pandas import DataFrame, Index, Series
from scipy.special import ndtri
from scipy.stats import binomtest, chi2

from .._calls import called_as
from .._tables import Result
from ..data import options
from ..data.intervals import check_level
from ..data.vectors import check_flags, check_length, check_order, check_row_values
from ..nonparametric.groups import against, documented, read_groups
from .checks import check_treatment


@documented
@dataclass(frozen=True, eq=False, repr=False)
class IncidenceRate(Result):
    """Incidence rates of groups; made by `incidence_rate`.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each group: ``n_rows``, ``events``, ``time``, ``rate`` and its limits ``lower``
        and ``upper``.
    per : float
        Time that rates are for.
    level : float
        Of the limits.

    Examples
    --------
    >>> from sksurvgpu.cohort import incidence_rate
    >>> rates = incidence_rate([1, 0, 1, 1, 0], [20, 35, 10, 15, 50], groups=[0, 0, 1, 1, 1])
    >>> rates
    <IncidenceRate of 2 groups, 95% intervals>
      n_rows events time     rate      lower    upper
    0      2      1   55  0.01818  0.0004603   0.1013
    1      3      2   75  0.02667   0.003229  0.09633
    >>> rates.ratios().round(2)
           ratio  lower  upper  p_value
    group
    1       1.47   0.08  86.53      1.0
    """

    table: DataFrame
    per: float
    level: float

    def _title(self) -> str:
        many = "s" if len(self.table) > 1 else ""
        return f"IncidenceRate of {len(self.table):,} group{many}, {100 * self.level:g}% intervals"

    def ratios(self, reference=None) -> DataFrame:
        """Compare the rates of groups with that of one by their ratios.

        <<by_reference>>
            A row for each other group: ``ratio``, its exact limits ``lower`` and ``upper``, and
            ``p_value`` of an exact test that it is 1. Equal to R's ``poisson.test``.
        """
        base, others = against(self.table, reference)
        rows = []
        for events, time in zip(others["events"], others["time"], strict=True):
            n = int(events + base["events"])
            if n == 0:
                rows.append([np.nan, 0.0, np.inf, 1.0])
                continue
            test = binomtest(int(events), n, time / (time + base["time"]))
            shares = np.array([events / n, *test.proportion_ci(self.level)])
            with np.errstate(divide="ignore"):
                ratios = shares / (1.0 - shares) * base["time"] / time
            rows.append([*ratios, test.pvalue])
        return DataFrame(rows, others.index, ["ratio", "lower", "upper", "p_value"])

    def differences(self, reference=None) -> DataFrame:
        """Compare the rates of groups with that of one by their differences.

        <<by_reference>>
            A row for each other group: ``difference``, its ``standard_error``, and the limits
            ``lower`` and ``upper`` of a normal distribution.
        """
        base, others = against(self.table, reference)
        found = others["rate"] - base["rate"]
        error = self.per * np.hypot(
            np.sqrt(others["events"]) / others["time"], np.sqrt(base["events"]) / base["time"]
        )
        half = -ndtri(0.5 * (1.0 - self.level)) * error
        columns = np.column_stack([found, error, found - half, found + half])
        return DataFrame(columns, others.index, ["difference", "standard_error", "lower", "upper"])


@called_as("incidence_rate(y['event'], y['time'], groups=...)")
def incidence_rate(event, time, *, groups=None, per=1.0, level=0.95) -> IncidenceRate:
    """Incidence rates: events per time at risk, with exact limits.

    Parameters
    ----------
    event : array-like of shape (n_rows,), bool
        Whether the row has the event; of codes of several kinds pass ``code == 1``.
    time : array-like of shape (n_rows,)
        Time at risk, such as the days of `time_at_risk`.
    groups : array-like of shape (n_rows,), optional
        Label of the group of each row, such as its treatment. Categories keep their order, numbers
        ascend, other labels come as they appear.
    per : float, default=1.0
        Time that rates are for: 365_250 for events in 1,000 person-years, where times are in days.
    level : float, default=0.95
        Of the intervals.

    Returns
    -------
    rates : IncidenceRate
        Rates of the groups with exact limits, their ratios and differences.

    See Also
    --------
    time_at_risk : Makes both columns.

    Examples
    --------
    >>> from sksurvgpu.cohort import incidence_rate
    >>> incidence_rate([1, 0, 1, 1], [200, 350, 100, 150], per=365.25).table.round(2)
           n_rows  events   time  rate  lower  upper
    group
    all         4       3  800.0  1.37   0.28    4.0
    """
    check_level(level)
    rule = "must be a positive number, such as 365_250 for 1,000 person-years of days"
    options.number(per, "per", rule, above=0)
    check_order(event=event, time=time, groups=groups)
    event = check_flags(event, "event", "; of several kinds of event pass those of one, code == 1.")
    time = check_row_values(time, "time", minimum=0)
    check_length(event, "event", time.size, "time")
    if not time.size:
        raise ValueError("`time` has no rows; pass at least one.")
    group, labels = read_groups(groups, time.size)
    total, events = np.bincount(group, time), np.bincount(group[event], minlength=len(labels))
    if not total.all():
        raise ValueError(
            f"`time` is 0 in all rows of group {labels[int(np.argmin(total))]!r}, of which there "
            "is no rate; leave out the group."
        )
    tail = 0.5 * (1.0 - level)
    lower = np.where(events > 0, chi2.ppf(tail, 2.0 * np.maximum(events, 1)) / 2.0, 0.0)
    upper = chi2.isf(tail, 2.0 * (events + 1)) / 2.0
    rates = {
        name: float(per) * counted / total
        for name, counted in (("rate", events), ("lower", lower), ("upper", upper))
    }
    columns = {"n_rows": np.bincount(group), "events": events, "time": total, **rates}
    return IncidenceRate(DataFrame(columns, Index(labels, name="group")), float(per), level)


def minimal_detectable_effect(event, treatment, *, level=0.95, power=0.8, two_sided=True) -> Series:
    """Smallest hazard ratio that a study would detect with a given power.

    Parameters
    ----------
    event : array-like of shape (n_rows,), bool, or int
        Whether each row has the event, or how many rows have it.
    treatment : array-like of shape (n_rows,), bool, or float
        Whether each row is treated, or the share of the treated.
    level : float, default=0.95
        Of the interval that is to exclude a ratio of 1: one less the size of the test.
    power : float, default=0.8
        Probability that it does.
    two_sided : bool, default=True
        Whether ratios above and below 1 are of interest.

    Returns
    -------
    effect : pandas.Series
        ``events``, ``treated``, the share, the ``standard_error`` of the log hazard ratio, and
        ``hazard_ratio``, the smallest above 1 that is found; one over it is the largest below 1.
        Infinite without events.

    See Also
    --------
    time_at_risk : Makes the events.

    Notes
    -----
    Equal to CohortMethod's ``computeMdrr`` for Cox models. Adjusted effects have larger errors.

    Examples
    --------
    >>> from sksurvgpu.cohort import minimal_detectable_effect
    >>> minimal_detectable_effect(120, 0.4).round(3)
    events            120.000
    treated             0.400
    standard_error      0.186
    hazard_ratio        1.685
    dtype: float64
    """
    check_level(level)
    options.number(power, "power", "must lie between 0 and 1, such as 0.8", above=0, below=1)
    events, share = _count_events(event), _share(treatment)
    if np.ndim(event) and np.ndim(treatment):
        check_length(np.asarray(event), "event", np.size(treatment), "treatment")
    size = (1.0 - level) * (0.5 if two_sided else 1.0)
    with np.errstate(divide="ignore"):
        error = 1.0 / np.sqrt(np.float64(events) * share * (1.0 - share))
    ratio = np.exp((ndtri(power) - ndtri(size)) * error)
    names = ["events", "treated", "standard_error", "hazard_ratio"]
    return Series([events, share, error, ratio], names)


def _count_events(event):
    if np.ndim(event):
        return int(np.count_nonzero(check_flags(event, "event")))
    return options.whole(event, "event", 0, "pass a whole number of events, or a flag for each row")


def _share(treatment):
    if np.ndim(treatment):
        return float(check_treatment(treatment).mean())
    rule = "pass the share of the treated, between 0 and 1, or a flag for each row"
    return options.number(treatment, "treatment", rule, above=0, below=1)
