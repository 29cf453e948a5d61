r"""Whether the assumptions of a case series hold, as R's SelfControlledCaseSeries 6 tests them.

Stability in time compares events of each month m with those expected, :math:`e_m`, were each case's
rate constant but for the effects of season and calendar time in the model: with the ratio r of the
two in one direction or the other, alike in all months, the log-likelihood is

.. math:: \sum_m \log\left(p(o_m \mid r e_m) + p(o_m \mid e_m / r)\right)

of Poisson probabilities p, and the test is that of r being at most 1.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from pandas import DataFrame, Index
from scipy.optimize import minimize_scalar
from scipy.special import chdtrc, gammaln, ndtr, xlogy

from .._tables import Result
from ..data import options
from ..inference.wald import WaldResult
from .case_series_data import CaseSeriesData
from .intervals import END_OF_OBSERVATION
from .splines import month_starts, months_of, season_basis, spline_basis

# The limits of SelfControlledCaseSeries.
BEFORE, END = (0.8, 1.25), (0.5, 2.0)
MOST_RATIO, MOST_PREVALENCE, MOST_ERROR = 1.1, 0.1, 0.25
SIZE = 0.05
LARGEST = 10.0  # ratio that is looked at
LEAST = 1e-16  # events expected


@dataclass(frozen=True, eq=False, repr=False)
class CaseSeriesDiagnostics(Result):
    """Diagnostics of a case series; made by `case_series_diagnostics`.

    Attributes
    ----------
    table : pandas.DataFrame
        By diagnostic: the ``estimate`` and its limits ``lower`` and ``upper``, from which value
        ``at_least`` to which ``at_most`` it may be, the ``p_value`` of its being there, and whether
        it ``passes``; missing where that was not evaluated.
    months : pandas.DataFrame
        By month, its first day: the number of events ``observed`` and ``expected``, the latter
        also with rates that are ``constant``, without splines, and the ``subjects`` observed, of
        whom those of a part of the month count for that part.
    """

    table: Any
    months: Any

    def _title(self) -> str:
        known = self.table["passes"].dropna()
        return (
            f"CaseSeriesDiagnostics: {int(known.sum())} of {len(known)} passed, "
            f"{len(self.table) - len(known)} not evaluated"
        )


def case_series_diagnostics(data, result, *, before=None, prevalence=None, calibrated=None):
    """Test the assumptions of a self-controlled case series.

    Parameters
    ----------
    data : CaseSeriesData
        What `eras_to_intervals` made.
    result : WaldResult
        Of a model of these data without a penalty.
    before : str or list of str, optional
        Names of columns of windows before an exposure: does the event lead to it, or keep from it?
    prevalence : float, optional
        Share of the population with the outcome: where only first ones are taken, it must be rare.
    calibrated : CalibratedEffects, optional
        Of negative controls, for the expected absolute systematic error.

    Returns
    -------
    diagnostics : CaseSeriesDiagnostics
        Event-dependent exposure, for every one of `before`; event-dependent observation, if there
        is a column of the `end_of_observation`; stability in time; rare outcome; systematic error.

    Notes
    -----
    Limits and tests are those of R's SelfControlledCaseSeries 6: rates before exposure from 0.8 to
    1.25 and at the end of observation from 0.5 to 2, within which their interval must reach; the
    p-value here is that of the nearest limit, and below 0.05 where a 95% interval does not. Stable
    rates differ by a ratio of at most 1.1, at most 10% have the outcome, and the systematic error
    is below 0.25. Expected events are by days observed in a month and add up to the events; those
    of the package are by months, of which it counts one too many in each period.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from sksurvgpu import CaseSeriesCCD, wald
    >>> from sksurvgpu.cohort import RiskWindow, case_series_diagnostics, eras_to_intervals
    >>> rng = np.random.default_rng(0)
    >>> periods = pd.DataFrame({"id": range(400), "start": 0, "end": 999})
    >>> eras = periods[["id"]].assign(era="drug", start=rng.integers(100, 800, 400))
    >>> events = periods[["id"]].assign(day=rng.integers(0, 1000, 400))
    >>> windows = {"before": RiskWindow(-30, -1, end_anchor="start"), "on": RiskWindow(0, 29)}
    >>> data = eras_to_intervals(
    ...     periods, eras.assign(end=eras["start"]), events, windows=windows, end_of_observation=60
    ... )
    >>> result = wald(CaseSeriesCCD(alpha=0).fit(data.X, data.y), data.X, data.y)
    >>> case_series_diagnostics(data, result, before="before")
    <CaseSeriesDiagnostics: 3 of 3 passed, 2 not evaluated>
                                     estimate   lower  upper at_least at_most p_value passes
    event-dependent exposure: before   0.7437  0.3838  1.441      0.8    1.25  0.8287   True
    event-dependent observation         1.074  0.7213    1.6      0.5       2       1   True
    stability in time                   1.161     nan    nan        1     1.1  0.6179   True
    rare outcome                          nan     nan    nan        0     0.1     nan   <NA>
    systematic error                      nan     nan    nan        0    0.25     nan   <NA>
    """
    if not isinstance(data, CaseSeriesData):
        raise TypeError(f"`data` is {type(data).__name__}; pass what eras_to_intervals returns.")
    if not isinstance(result, WaldResult):
        raise TypeError(f"`result` is {type(result).__name__}; pass what wald returns.")
    if prevalence is not None:
        options.number(prevalence, "prevalence", "must be a share from 0 to 1", least=0, most=1)
    found = _windows(result, [before] if isinstance(before, str) else before or [])
    months = _months(data, result)
    ratio, p_value = _stability(months["observed"].to_numpy(), months["expected"].to_numpy())
    found["stability in time"] = (ratio, *NONE, 1.0, MOST_RATIO, p_value, p_value > SIZE)
    is_first = "first outcome only" in data.attrition.index
    rare = None if prevalence is None else not is_first or prevalence <= MOST_PREVALENCE
    share = np.nan if prevalence is None else prevalence
    found["rare outcome"] = (share, *NONE, 0.0, MOST_PREVALENCE, np.nan, rare)
    error = np.nan if calibrated is None else calibrated.expected_absolute_systematic_error
    small = None if calibrated is None else bool(error < MOST_ERROR)
    found["systematic error"] = (error, *NONE, 0.0, MOST_ERROR, np.nan, small)
    table = DataFrame([*found.values()], Index([*found], name="diagnostic"), COLUMNS)
    return CaseSeriesDiagnostics(table.astype({"passes": "boolean"}), months)


NONE = np.nan, np.nan
COLUMNS = ["estimate", "lower", "upper", "at_least", "at_most", "p_value", "passes"]


def _windows(result, before):
    """Rates before exposures and at the end of observation, and whether they may be those."""
    table = result.summary()
    absent = [name for name in before if name not in table.index]
    if absent:
        raise ValueError(f"`before` names {absent[0]!r}, which is no column of `result`.")
    asked = {f"exposure: {name}": (name, BEFORE) for name in before}
    asked = asked or {"exposure": (None, BEFORE)}
    asked["observation"] = END_OF_OBSERVATION, END
    found = {}
    for title, (name, limits) in asked.items():
        line = (np.nan, *NONE, *limits, np.nan, None)
        if name in table.index and np.isfinite(table.loc[name, "standard_error"]):
            coef, error = table.loc[name, ["coef", "standard_error"]]
            lower, upper = table.loc[name, ["lower", "upper"]]
            low, high = np.log(limits)
            p_value = min(2.0 * ndtr(-max(coef - high, low - coef, 0.0) / error), 1.0)
            line = (*np.exp([coef, lower, upper]), *limits, p_value, upper >= low and lower <= high)
        found[f"event-dependent {title}"] = line
    return found


def _months(data, result):
    """Events of months, and those expected of cases whose rates are constant but for splines."""
    days = data.days
    first, last = days.start.min(), days.end.max()
    starts, numbers = month_starts(first, last, days.is_date)
    following, _ = month_starts(first, last + 31, days.is_date)
    stops = following[1 : starts.size + 1]
    effect = np.zeros(starts.size)
    coef = result.summary()["coef"]
    for variable, basis, at in (
        ("season", season_basis, numbers % 12 + 1.0),
        ("calendar", spline_basis, numbers),
    ):
        if variable in data.knots:
            table = basis(data.knots[variable], at)
            names = [f"{variable} spline {j + 1}" for j in range(table.shape[1])]
            effect += table @ coef.reindex(names).fillna(0.0).to_numpy()
    rates = np.column_stack([np.exp(effect), np.ones(starts.size)])
    events = np.bincount(days.unit, minlength=days.start.size)

    def observed(k):
        return np.maximum(np.minimum(days.end + 1, stops[k]) - np.maximum(days.start, starts[k]), 0)

    whole = sum(rates[k][:, None] * observed(k) for k in range(starts.size))
    share = [np.sum(events * observed(k) / whole, axis=1) for k in range(starts.size)]
    expected, constant = (rates * share).T
    count = np.bincount(months_of(days.day, days.is_date) - numbers[0], minlength=starts.size)
    there = [observed(k).sum() / (stops[k] - starts[k]) for k in range(starts.size)]
    table = {"observed": count, "expected": expected, "constant": constant, "subjects": there}
    index = starts.astype("datetime64[D]") if days.is_date else starts
    return DataFrame(table, Index(index, name="month"))


def _stability(observed, expected):
    """Ratio by which months differ from what was expected, and the test of its being small."""
    expected = np.maximum(expected, LEAST)

    def misfit(log_ratio):
        found = []
        for mean in (expected * np.exp(log_ratio), expected * np.exp(-log_ratio)):
            found.append(xlogy(observed, mean) - mean - gammaln(observed + 1.0))
        return -np.logaddexp(*found).sum()

    grid = np.linspace(0.0, np.log(LARGEST), 231)
    best = grid[np.argmin([misfit(x) for x in grid])]
    around = max(best - grid[1], 0.0), min(best + grid[1], grid[-1])
    found = float(minimize_scalar(misfit, bounds=around, options={"xatol": 1e-10}).x)
    limit = np.log(MOST_RATIO)
    statistic = 2.0 * (misfit(limit) - misfit(found))
    return np.exp(found), float(chdtrc(1.0, max(statistic, 0.0))) if found > limit else 1.0
