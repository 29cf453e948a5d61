r"""Mean time without the event by a horizon, and how much of it groups lose or gain.

The mean of min(T, tau) is the area below the survival curve until tau,

.. math::
    \mu = \int_0^\tau S(u) du, \quad
    \mathrm{Var}(\mu) = \sum_{s \le \tau} R(s)^2 \frac{d(s)}{n(s) (n(s) - d(s))}, \quad
    R(s) = \int_s^\tau S(u) du,

or the sum of squared influences, R(time) event q(time) less the sum of R q h while at risk (see
`jackknife`). It has a meaning whether or not hazards are proportional (Royston and Parmar 2013).
"""

from dataclasses import dataclass

import numpy as np
from pandas import DataFrame, Index
from scipy.special import ndtr

from .._calls import called_as
from .._tables import Result, counted
from ..data.intervals import check_level
from ..data.options import number
from .counts import count
from .groups import against, documented, is_robust, read_rows
from .incidence import without_event
from .jackknife import row_influence
from .limits import normal_bound


@documented
@dataclass(frozen=True, eq=False, repr=False)
class RestrictedMean(Result):
    """Restricted mean survival times of groups; made by `restricted_mean`.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each group: its ``mean``, the ``standard_error`` and the limits ``lower`` and
        ``upper``, and the time ``lost``, the horizon less the mean.
    horizon : float
        Time at which follow-up is cut off.
    level : float
        Of the limits.
    robust : bool
        Whether errors are those of the infinitesimal jackknife.

    Examples
    --------
    >>> from sksurvgpu import surv
    >>> from sksurvgpu.nonparametric import restricted_mean
    >>> y = surv([1, 0, 1, 1, 0], [2.0, 5.0, 3.0, 5.0, 6.0])
    >>> means = restricted_mean(y, 5, groups=["a", "a", "b", "b", "b"])
    >>> means
    <RestrictedMean of 2 groups by 5, 95% intervals>
        mean standard_error  lower  upper    lost
    a    3.5          1.061  1.421  5.579     1.5
    b  4.333         0.5443  3.266    5.4  0.6667
    >>> means.differences().round(2)
           difference  standard_error  lower  upper    z  p_value
    group
    b            0.83            1.19   -1.5   3.17  0.7     0.48
    """

    table: DataFrame
    horizon: float
    level: float
    robust: bool

    def _title(self) -> str:
        robust = ", robust" if self.robust else ""
        return (
            f"RestrictedMean of {counted(len(self.table), 'groups')} by {self.horizon:g}, "
            f"{100 * self.level:g}% intervals{robust}"
        )

    def differences(self, reference=None) -> DataFrame:
        """Compare the means of groups with that of one by their differences.

        <<by_reference>>
            A row for each other group: ``difference``, mean less that of the reference, with its
            ``standard_error``, the limits ``lower`` and ``upper``, ``z`` and ``p_value``.
        """
        base, others = against(self.table, reference)
        table = others[["mean"]].rename(columns={"mean": "difference"}) - base["mean"]
        error = np.hypot(others["standard_error"], base["standard_error"])
        table["standard_error"] = error
        half = normal_bound(self.level) * error
        table["lower"], table["upper"] = table["difference"] - half, table["difference"] + half
        return _with_tests(table, table["difference"] / error)

    def ratios(self, reference=None, *, of="mean") -> DataFrame:
        """Compare the means of groups, or the times lost, with that of one by their ratios.

        Parameters
        ----------
        <<reference>>
        of : {"mean", "lost"}, default="mean"
            What is divided.

        Returns
        -------
        table : pandas.DataFrame
            A row for each other group: ``ratio``, the ``standard_error`` of its logarithm, the
            limits ``lower`` and ``upper``, symmetric on that scale, ``z`` and ``p_value``.
        """
        if of not in ("mean", "lost"):
            raise ValueError(f"`of` is {of!r}; pass 'mean' or 'lost'.")
        base, others = against(self.table, reference)
        with np.errstate(divide="ignore", invalid="ignore"):
            table = others[[of]].rename(columns={of: "ratio"}) / base[of]
            error = np.hypot(
                others["standard_error"] / others[of], base["standard_error"] / base[of]
            )
            table["standard_error"] = error
            for name, sign in (("lower", -1.0), ("upper", 1.0)):
                table[name] = table["ratio"] * np.exp(sign * normal_bound(self.level) * error)
            return _with_tests(table, np.log(table["ratio"]) / error)


@called_as("restricted_mean(surv(event, time), horizon, groups=...)")
@documented
def restricted_mean(
    y, horizon, *, groups=None, sample_weight=None, robust=None, level=0.95
) -> RestrictedMean:
    """Restricted mean survival time: mean time without the event until a horizon.

    Parameters
    ----------
    y : structured ndarray of shape (n_rows,)
        Outcome from `sksurvgpu.surv`, read as in `kaplan_meier`.
    horizon : float
        Time at which follow-up is cut off. In each group, rows must go on until then, or all have
        had the event: beyond the last time nothing is known of the survival.
    <<groups, sample_weight>>
    robust : bool, optional
        Take errors from the infinitesimal jackknife, as in `kaplan_meier`, by the same default.
    <<level>>

    Returns
    -------
    means : RestrictedMean
        Means of the groups, their differences and ratios.

    See Also
    --------
    kaplan_meier : The curves.

    Notes
    -----
    Means are those that R's ``survfit`` prints for ``rmean``, and so are errors that are not
    robust; differences and ratios are those of survRM2. Beyond the last time of a group,
    ``survfit`` draws its curve on; survRM2 and this function refuse to.

    Examples
    --------
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.nonparametric import restricted_mean
    >>> data = simulate_cox(500, 2, density=0.5, random_state=0)
    >>> means = restricted_mean(data.y, 20, groups=data.X[:, [0]].toarray().ravel() > 0)
    >>> means.table.round(2)
            mean  standard_error  lower  upper  lost
    group
    False  16.19            0.36  15.49  16.90  3.81
    True   16.04            0.40  15.27  16.82  3.96
    """
    check_level(level)
    rows = read_rows(y, groups, sample_weight).weighted()
    horizon = number(horizon, "horizon", "must be one positive, finite number", above=0)
    counts = count(rows.time, rows.event, start=rows.start, weight=rows.weight, group=rows.group)
    _check_follow_up(counts, rows, horizon)
    hazard = counts.divide(counts.events[0])
    survival = counts.multiply_up(np.where(counts.is_last, 0.0, 1.0 - hazard))
    time = np.minimum(counts.time, horizon)
    until = np.append(time[1:], 0.0)
    until[counts.bounds[1:] - 1] = horizon
    area = survival * (until - time)
    total = counts.sum_up(area)
    whole = total[counts.bounds[1:] - 1]
    rest = whole[counts.group] - total + area
    robust = is_robust(rows, robust)
    variance = (_jackknife if robust else _greenwood)(counts, rows, rest, hazard)
    mean, error = time[counts.bounds[:-1]] + whole, np.sqrt(variance)
    half = normal_bound(level) * error
    columns = [mean, error, mean - half, mean + half, horizon - mean]
    names = ["mean", "standard_error", "lower", "upper", "lost"]
    index = Index(rows.labels, name="group")
    table = DataFrame(dict(zip(names, columns, strict=True)), index)
    return RestrictedMean(table, horizon, level, robust)


def _greenwood(counts, rows, rest, hazard):
    return np.bincount(counts.group, rest**2 * hazard * without_event(counts))


def _jackknife(counts, rows, rest, hazard):
    """Sum of the squared influences of subjects, or of rows, in each group."""
    q = without_event(counts)
    jumps = rows.event * (rest * q)[counts.exit]
    influence = row_influence(counts, jumps, rest * q * hazard, rows.weight)
    if rows.subject is None:
        return np.bincount(rows.group, influence**2)
    owner, subject = np.unique(rows.subject * counts.n_groups + rows.group, return_inverse=True)
    return np.bincount(owner % counts.n_groups, np.bincount(subject, influence) ** 2)


def _with_tests(table, z):
    return table.assign(z=z, p_value=2.0 * ndtr(-np.abs(z)))


def _check_follow_up(counts, rows, horizon):
    """Refuse horizons at which nothing is known of the survival of a group."""
    last = counts.bounds[1:] - 1
    is_short = (counts.time[last] < horizon) & ~counts.is_last[last]
    if is_short.any():
        g = int(np.argmin(np.where(is_short, counts.time[last], np.inf)))
        whose = "" if len(rows.labels) == 1 else f" of group {rows.labels[g]!r}"
        raise ValueError(
            f"`horizon` is {horizon:g}, but the last row{whose} is censored at "
            f"{counts.time[last[g]]:g}, and nothing is known of the survival from then on; take "
            "a horizon until that time."
        )
