r"""Looks at data that accrue, with boundaries under which all of them together err rarely.

*maxSPRT* (Kulldorff 2011): signal once the log-likelihood ratio of the best rate that is not below
the expected one exceeds a critical value c, with n events of :math:`\mu` expected or, given N
events, n of them exposed, which each is with probability p,

.. math:: n \log(n / \mu) - (n - \mu), \qquad
          n \log\frac{n}{N p} + (N - n) \log\frac{N - n}{N (1 - p)} .

*Group sequential*: the z-statistics of a log hazard ratio at growing information t, relative to the
last, are :math:`B(t) / \sqrt t` of a Brownian motion B (Tsiatis 1982). A spending function says how
much of alpha is used by t (Lan and DeMets 1983), and the boundaries follow by integration, one
after the other (Armitage, McPherson and Rowe 1969).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from pandas import DataFrame, RangeIndex
from scipy.special import erfc, ndtr, ndtri

from .._tables import Result
from ..data import options
from ..data.vectors import check_numbers, check_whole
from .watches import Watch, at_looks, log_ratio, normal_bounds, ratios_of, steadily

PROBABILITY = "must be a probability between 0 and 1"
NO_SIGNAL = 1e-6  # share of alpha that is spent where none is to be expected
SPENDING = {
    "obrien-fleming": lambda t, alpha: erfc(ndtri(1.0 - alpha / 2.0) / np.sqrt(2.0 * t)),
    "pocock": lambda t, alpha: alpha * np.log1p((np.e - 1.0) * t),
}


@dataclass(frozen=True, eq=False, repr=False)
class SequentialBoundary(Result):
    """Boundaries of a sequential test; made by `max_sprt` and `group_sequential`.

    Attributes
    ----------
    table : pandas.DataFrame
        A row for each look. Of `max_sprt`: how many events are ``expected``, or how many there are
        in ``all``, the smallest number of ``events`` that signals, infinite where none can, and
        ``spent``, the probability of a signal by then if there is no effect. Of
        `group_sequential`: ``information`` relative to the last look, ``z`` and the one-sided or
        two-sided ``p_value`` that signal, and ``spent``.
    critical_value : float or None
        Of the log-likelihood ratio: the same at all looks. None of `group_sequential`.
    alpha : float
        What was asked for; the last ``spent`` is what it came to.
    share : float or None
        Probability that an event is an exposed one, of counts among all events.

    Examples
    --------
    >>> from sksurvgpu.cohort import max_sprt
    >>> boundary = max_sprt([1, 2, 3, 4])
    >>> boundary
    <SequentialBoundary of 4 looks: signal at a log-likelihood ratio of 1.931>
      expected events    spent
    1        1      4  0.01899
    2        2      6  0.02897
    3        3      8  0.03378
    4        4      9  0.04356
    >>> boundary.statistic(5, 1.8).round(2)
    np.float64(1.91)
    """

    table: Any
    critical_value: float | None
    alpha: float
    share: float | None = None

    def _title(self) -> str:
        how = "" if self.critical_value is None else " at a log-likelihood ratio of "
        how += "" if self.critical_value is None else f"{self.critical_value:.4g}"
        return f"SequentialBoundary of {len(self.table):,} looks: signal{how or ' beyond z'}"

    def statistic(self, events, of):
        """Log-likelihood ratio at a look, to compare with the critical value.

        Parameters
        ----------
        events : array-like
            How many events there are, or how many of all are exposed.
        of : array-like
            How many are expected, or how many there are in all.

        Returns
        -------
        statistic : ndarray
            0 where there are no more than expected.
        """
        if self.critical_value is None:
            raise ValueError("a boundary of `group_sequential` is one of z; compare z-statistics.")
        events, of = (np.asarray(given, dtype=np.float64) for given in (events, of))
        if not (of > 0).all() or not (events >= 0).all():
            raise ValueError("`of` must be positive, and `events` at least 0.")
        if self.share is not None and (events > of).any():
            raise ValueError("there are more `events` than there are in all, `of`.")
        return log_ratio(events, of, self.share)


def max_sprt(looks, *, share=None, alpha=0.05, min_events=1, first=0, null=None):
    """Critical value of repeated tests of counts (maximized sequential probability ratio test).

    Parameters
    ----------
    looks : array-like or number
        Events that are expected by each look if there is no effect, ascending; of `share`, how many
        there are by then in all. One number is that of the end of a watch which looks all the time.
    share : float, optional
        Probability that an event is an exposed one if there is no effect: of a self-controlled
        design time at risk as a share of all time, of matched sets 1 / (1 + controls). By default
        counts are compared with expected numbers.
    alpha : float, default=0.05
        Probability of a signal at any look if there is no effect.
    min_events : int, default=1
        No signal before so many events.
    first : float, default=0
        Of a watch that looks all the time: no signal before so many are expected.
    null : (float, float), CalibratedEffects, optional
        Mean and standard deviation of the systematic error that negative controls show, for a
        calibrated critical value.

    Returns
    -------
    boundary : SequentialBoundary
        The smallest critical value under which signals are no more probable than `alpha`.

    Raises
    ------
    ValueError
        Where no signal is possible, such as with more `min_events` than can be expected.

    Notes
    -----
    Values are those of ``CV.Poisson`` and ``CV.Binomial`` of the R package Sequential, up to their
    precision of about 1e-6; of looks the least that is above the largest statistic which may not
    signal. With a null they are what ``computeCvPoisson`` and ``computeCvBinomial`` of
    EmpiricalCalibration find by simulation.

    References
    ----------
    Kulldorff, M., Davis, R. L., Kolczak, M., Lewis, E., Lieu, T. and Platt, R. (2011). A maximized
    sequential probability ratio test for drug and vaccine safety surveillance. Sequential Analysis
    30, 58-78.

    Examples
    --------
    >>> from sksurvgpu.cohort import max_sprt
    >>> round(max_sprt(10).critical_value, 6)
    3.467952
    >>> round(max_sprt(50, share=0.5).critical_value, 5)
    3.46574
    >>> round(max_sprt(range(1, 11), null=(0.1, 0.2)).critical_value, 6)
    3.862944
    """
    alpha = options.number(alpha, "alpha", PROBABILITY, above=0, below=1)
    min_events = options.whole(min_events, "min_events", 1)
    if share is not None:
        options.number(share, "share", PROBABILITY, above=0, below=1)
    of = _ascending(looks, "looks")
    is_steady = np.ndim(looks) == 0
    rule = "must be at least 0 and no more than the last look"
    options.number(first, "first", rule, least=0, most=of[-1])
    if first and (share is not None or not is_steady):
        raise ValueError("`first` is of expected events looked at all the time; drop early looks.")
    if share is not None:
        of = check_whole(of, "looks", "whole numbers of events")
        of = np.arange(1, of[0] + 1) if is_steady else of
    watch = Watch(share, min_events, *ratios_of(null, of[-1]))
    if is_steady and share is None:
        critical, *plan = steadily(watch, of[0], alpha, first)
    else:
        critical, *plan = at_looks(watch, of.astype(np.float64), alpha)
    spent = watch.spent(*plan)
    if not spent[-1] > NO_SIGNAL * alpha:
        raise ValueError(
            f"no signal is possible: {min_events:,} or more events (`min_events`) are not to be "
            "expected by the last of `looks`."
        )
    columns = {"expected" if share is None else "all": plan[0], "events": plan[1]}
    table = _table_of_looks(columns | {"spent": spent})
    return SequentialBoundary(table, float(critical), alpha, share)


def _ascending(values, name):
    """Positive numbers by look."""
    values = check_numbers(np.atleast_1d(values), name)
    if not values.size or values[0] <= 0 or (np.diff(values) <= 0).any():
        raise ValueError(
            f"`{name}` must be positive and ascend from look to look: all so far, and not those "
            "since the look before."
        )
    return values


def _table_of_looks(columns):
    n_looks = len(columns["spent"])
    return DataFrame(columns, RangeIndex(1, n_looks + 1, name="look"))


def group_sequential(information, *, spending="obrien-fleming", alpha=0.05, two_sided=False):
    """Group sequential boundaries of z-statistics, such as that of a Cox model's coefficient.

    Parameters
    ----------
    information : array-like
        Information at each look, ascending: numbers of events, or inverse squared standard errors.
        The last is that of the end of the watch, when all of alpha is spent: what was planned,
        until it comes. Boundaries do not depend on later looks.
    spending : {"obrien-fleming", "pocock"}, default="obrien-fleming"
        Whether little of alpha is spent early, as by O'Brien and Fleming's boundaries, or about
        alike at all looks, as by Pocock's.
    alpha : float, default=0.05
        Probability of a signal at any look if there is no effect.
    two_sided : bool, default=False
        Whether effects on both sides signal; by default positive ones alone.

    Returns
    -------
    boundary : SequentialBoundary
        Boundaries by look.

    Notes
    -----
    Equal to ``ldBounds`` of the R package ldbounds and to the designs "asOF" and "asP" of rpact, up
    to their precision.

    References
    ----------
    Lan, K. K. G. and DeMets, D. L. (1983). Discrete sequential boundaries for clinical trials.
    Biometrika 70, 659-663.

    Examples
    --------
    >>> from sksurvgpu.cohort import group_sequential
    >>> group_sequential([50, 100, 150])
    <SequentialBoundary of 3 looks: signal beyond z>
      information      z    p_value      spent
    1      0.3333    3.2  0.0006869  0.0006869
    2      0.6667  2.141    0.01614    0.01637
    3           1  1.695    0.04506       0.05
    """
    options.choice(spending, "spending", SPENDING)
    options.number(alpha, "alpha", PROBABILITY, above=0, below=1)
    sides = 2.0 if options.flag(two_sided, "two_sided") else 1.0
    time = _ascending(information, "information")
    time = time / time[-1]
    spent = sides * SPENDING[spending](time, alpha / sides)
    z = normal_bounds(time, np.diff(spent, prepend=0.0) / sides, two_sided)
    columns = {"information": time, "z": z, "p_value": sides * ndtr(-z), "spent": spent}
    return SequentialBoundary(_table_of_looks(columns), None, alpha)
