"""Calibration: observed beside predicted risks, in groups of like risk and in all rows."""

from dataclasses import dataclass

import numpy as np
from pandas import DataFrame, RangeIndex, Series

from .._calls import called_as, renamed, renamed_attribute
from .._tables import Result
from ..data import options
from ..data.vectors import as_array, check_order
from ..nonparametric.risk import observed_risk, risk_interval
from .observed import (
    ObservedOutcome,
    check_rising,
    check_same_event,
    has_horizons,
    is_competing,
    nearest_horizon,
    read_observed,
    read_risks,
)
from .recalibration import pseudo_values, recalibrate

N_BINS, TINY = 50, 1e-12  # of the histogram, and its end where all risks are 0
ESTIMATES = ["observed", "lower", "upper"]


@dataclass(frozen=True, eq=False, repr=False)
class Calibration(Result):
    """Predicted and observed risks by one horizon; made by `calibration`.

    Attributes
    ----------
    groups : pandas.DataFrame
        A row for each group of like risk, from the lowest on, indexed by ``group`` from 1 on: its
        rows ``n``, their events of interest by the horizon ``events``, the mean of the risks
        ``predicted``, the ``observed`` risk and its confidence limits ``lower`` and ``upper``.
    expected : float
        Mean of all predicted risks.
    observed : float
        Observed risk of all rows.
    lower, upper : float
        Its confidence limits.
    horizon : float or None
        By which the risks are; None of a binary outcome, which has none.
    level : float
        Of the confidence intervals.
    distribution : pandas.DataFrame or None
        Histogram of the predicted risks: a row for each of 50 bins from 0 to the largest, with its
        ends ``lower`` and ``upper`` and its number of rows ``n``.
    recalibration : pandas.DataFrame or None
        Calibration ``intercept`` and ``slope``: ``estimate``, ``standard_error``, ``lower`` and
        ``upper``. They are 0 and 1 where risks are right; a slope below 1 is that of risks too
        far apart, as of a model that has learnt too much of its own rows. NaN with a risk of 0, of
        a binary outcome also of 1, and a slope where none is best, as of cases with all high risks.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD
    >>> from sksurvgpu.datasets import simulate_cox
    >>> from sksurvgpu.metrics import calibration
    >>> data = simulate_cox(1_000, 50, random_state=0)
    >>> model = CoxLassoCCD(alpha=0.005).fit(data.X[:500], data.y[:500])
    >>> risk = model.predict_risk(data.X[500:], 20)
    >>> result = calibration(data.y[500:], risk, 20, n_groups=3)
    >>> result.groups.round(2)
             n  events  predicted  observed  lower  upper
    group
    1      166      35       0.22      0.22   0.16   0.29
    2      167      57       0.36      0.34   0.28   0.42
    3      167     101       0.62      0.61   0.54   0.69
    >>> result.summary().round(2)
    expected       0.40
    observed       0.39
    lower          0.35
    upper          0.44
    ratio          0.97
    ratio_lower    0.87
    ratio_upper    1.08
    dtype: float64
    >>> result.recalibration.round(2)
               estimate  standard_error  lower  upper
    intercept     -0.04            0.08  -0.20   0.11
    slope          0.85            0.12   0.62   1.08
    """

    groups: DataFrame
    expected: float
    observed: float
    lower: float
    upper: float
    horizon: float | None
    level: float
    distribution: DataFrame | None = None
    recalibration: DataFrame | None = None
    time = renamed_attribute("time", "horizon")

    def _title(self) -> str:
        by = "" if self.horizon is None else f" by {self.horizon:g}"
        return (
            f"Calibration of {self.groups['n'].sum():,} rows{by}: expected {self.expected:.3g}, "
            f"observed {self.observed:.3g} ({self.lower:.3g}, {self.upper:.3g})"
        )

    @property
    def curve(self) -> DataFrame:
        """Points of a calibration plot: the groups whose observed risk is known."""
        return self.groups[["predicted", *ESTIMATES]].dropna(subset=["observed"])

    def summary(self) -> Series:
        """Calibration in the large: observed and expected risk of all rows, and their ratio.

        Returns
        -------
        summary : pandas.Series
            ``expected``, ``observed`` with its limits ``lower`` and ``upper``, and the three
            divided by ``expected``: ``ratio``, ``ratio_lower`` and ``ratio_upper``. A ratio above
            1 means more events than predicted. The limits say how well the observed risk is
            known; the predicted ones are taken as they are.
        """
        found = np.array([self.observed, self.lower, self.upper])
        with np.errstate(divide="ignore"):
            ratios = found / np.float64(self.expected)
        names = ["expected", *ESTIMATES, "ratio", "ratio_lower", "ratio_upper"]
        return Series([self.expected, *found, *ratios], index=names)


@renamed(time="horizon")
@called_as("calibration(y, risk, horizon), with y = surv(event, time)")
def calibration(
    y, risk, horizon=None, *, n_groups=10, event_of_interest=1, level=0.95
) -> Calibration:
    """Compare predicted with observed risks, in groups of similar risk.

    Parameters
    ----------
    y : structured ndarray of shape (n_samples,)
        Outcome of rows that the fit has not seen, from `sksurvgpu.surv` or
        `sksurvgpu.competing_risks`; from the latter for risks of a model of competing risks. Or a
        binary outcome, booleans or 0 and 1, without a `horizon`.
    risk : DataFrame or array-like of shape (n_samples,)
        Predicted risks by `horizon`; a table as of ``predict_risk`` has a column for it. Of a
        binary outcome, its probabilities, or both columns of ``predict_proba``.
    horizon : float, optional
        Time of the risks, before the last time of `y`; None for a binary outcome.
    n_groups : int, default=10
        Number of groups. Bounds are quantiles of the risks; rows of equal risk stay together, so
        that there may be fewer groups.
    event_of_interest : int or str, default=1
        Code or label of the event; all others compete with it.
    level : float, default=0.95
        Of the confidence intervals.

    Returns
    -------
    calibration : Calibration
        The table of groups, and observed and expected risk of all rows.

    See Also
    --------
    brier_score : Calibration and discrimination in one number.

    Notes
    -----
    The observed risk is one minus the Kaplan-Meier estimate, with competing events that of Aalen
    and Johansen, which takes censoring for independent of the risk inside a group. Its variance is
    Greenwood's, by the delta method also with competing events, as in R's ``survfit``. The
    intervals are symmetric in log(-log(1 - risk)); with competing events ``survfit`` has
    log(-log(risk)). They are NaN where the observed risk is 0 or 1, and the observed risk is NaN
    where the last row of a group is censored before the horizon. Of a binary outcome the observed
    risk is a share, with the variance of a binomial one.

    Intercept and slope are those of a regression of pseudo-values on log(-log(1 - risk)), for the
    intercept with a slope of 1, by least squares with sandwich errors, as van Geloven et al. (BMJ
    377, 2022, e069249) have them by R's ``geese``; they take censoring for independent of the
    risk. Of a binary outcome they are those of logistic regression on the logit of the risk.

    Examples
    --------
    >>> from sksurvgpu import FineGrayCCD
    >>> from sksurvgpu.datasets import simulate_fine_gray
    >>> from sksurvgpu.metrics import calibration
    >>> data = simulate_fine_gray(1_000, 50, random_state=0)
    >>> model = FineGrayCCD(alpha=0.005).fit(data.X[:500], data.y[:500])
    >>> risk = model.predict_risk(data.X[500:], [0.2, 0.5])
    >>> calibration(data.y[500:], risk, 0.5, n_groups=2).groups.round(2)
             n  events  predicted  observed  lower  upper
    group
    1      334      41       0.17      0.16   0.12   0.21
    2      166      42       0.34      0.32   0.24   0.41
    """
    check_horizon(horizon)
    options.whole(n_groups, "n_groups", 1)
    options.number(level, "level", "must lie between 0 and 1, e.g. 0.95", above=0, below=1)
    outcome, risk, until = read_at_horizon(y, risk, horizon, event_of_interest)
    observed, *limits = _observe(outcome, slice(None), until, level)
    values = 1.0 * (outcome.status == 1) if horizon is None else pseudo_values(outcome, until)
    return Calibration(
        groups=_groups(outcome, risk, (until, n_groups, level)),
        expected=float(risk.mean()),
        observed=observed,
        lower=limits[0],
        upper=limits[1],
        horizon=None if horizon is None else until,
        level=level,
        distribution=_distribution(risk),
        recalibration=recalibrate(values, risk, horizon is None, level),
    )


def read_at_horizon(y, risk, horizon, event_of_interest):
    """Outcome, risks and horizon, which of a binary outcome is a made one."""
    if horizon is None:
        return *_read_binary(y, risk), 1.0
    if np.ndim(y) == 1 and np.asarray(y).dtype.names is None and np.isin(y, (0, 1)).all():
        raise TypeError(
            f"`horizon` is {horizon!r}, and `y` has no times: leave `horizon` out if the outcome "
            "is binary, or pass an outcome with times, sksurvgpu.surv(event, time)."
        )
    outcome = read_observed(y, "y", event_of_interest, may_be_flags=not is_competing(risk))
    check_same_event(risk, event_of_interest, y)
    [risk] = read_risks(_at(risk, horizon), horizon, len(outcome.time), "y")[0].T
    outcome.check_follow_up(np.array([float(horizon)]), "horizon")
    outcome.check_events(horizon)
    return outcome, risk, float(horizon)


def _distribution(risk):
    """Histogram of risks as a table."""
    number, ends = np.histogram(risk, N_BINS, range=(0.0, max(float(risk.max()), TINY)))
    return DataFrame({"lower": ends[:-1], "upper": ends[1:], "n": number})


def _read_binary(y, risk):
    """A binary outcome as one with a horizon of 1, which all others outlive, and its risks."""
    check_order(y=y, risk=risk)
    y = as_array(y, "y")
    if y.dtype.names is not None:
        raise ValueError("`horizon` is missing, the time of `risk`; an outcome with times has one.")
    if y.ndim != 1 or not np.isin(y, (0, 1)).all():
        raise ValueError("`y` has values other than 0 and 1; pass booleans or 0/1, one a row.")
    values = as_array(risk, "risk")
    values = values[:, 1] if values.shape[1:] == (2,) else values  # of both classes
    [values] = read_risks(values, [1.0], len(y), "y")[0].T
    status = (y == 1).astype(np.uint8)
    return ObservedOutcome(status, np.where(status == 1, 1.0, 2.0), "y"), values


def check_horizon(horizon):
    """Check one horizon, which a binary outcome has none of."""
    if horizon is not None and not (options.is_number(horizon) and 0 <= horizon < np.inf):
        raise ValueError(f"`horizon` is {horizon!r:.40}, must be one finite number of at least 0.")


def _at(risk, horizon):
    """Risks by one horizon out of a table with a column for each."""
    if not has_horizons(risk):
        return risk
    if horizon not in risk.columns:
        raise ValueError(
            f"`risk` has the horizons {risk.columns.tolist()}, `horizon` is {horizon!r}"
            f"{nearest_horizon(risk, [horizon])}; predict the risk by this time."
        )
    check_rising(risk.to_numpy())
    return risk[[horizon]]


def _groups(outcome, risk, options):
    """Table of the groups between quantiles of risk."""
    time, n_groups, level = options
    last_ranks = np.arange(1, n_groups) * len(risk) // n_groups - 1
    bounds = np.sort(risk)[last_ranks[last_ranks >= 0]]
    group = np.unique(np.searchsorted(bounds, risk, side="left"), return_inverse=True)[1]
    is_case = (outcome.status == 1) & (outcome.time <= time)
    n = np.bincount(group)
    rows = [np.flatnonzero(group == g) for g in range(len(n))]
    columns = {
        "n": n,
        "events": np.bincount(group[is_case], minlength=len(n)),
        "predicted": [risk[own].mean() for own in rows],
    }
    estimates = zip(*(_observe(outcome, own, time, level) for own in rows), strict=True)
    columns.update(zip(ESTIMATES, estimates, strict=True))
    return DataFrame(columns, index=RangeIndex(1, len(n) + 1, name="group"))


def _observe(outcome, rows, time, level):
    """Observed risk of some rows and its confidence limits."""
    risk, error = observed_risk(outcome.status[rows], outcome.time[rows], time)
    return risk, *risk_interval(risk, error, level)
