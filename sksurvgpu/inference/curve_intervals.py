r"""Confidence intervals of predicted curves, at single times and for whole curves.

Every curve is a function of the cumulative hazard :math:`\Lambda(t|x)`, whose standard error
relative to it, :math:`\tau`, is from `information.hazards`. With the normal quantile z the bounds
of the survival :math:`S = e^{-\Lambda}` are

.. math:: \text{plain: } S \pm z S \Lambda \tau, \quad \text{log: } e^{-\Lambda \pm z\Lambda\tau},
          \quad \text{log-log: } \exp(-\Lambda e^{\pm z\tau})

and those of other curves follow from them. A band replaces z by the quantile of the largest
:math:`|W(t)| / \tau(t)`, W being the normal process that the error of :math:`\log \Lambda` tends to
(Lin, Fleming and Wei 1994, with equal precision).

With a penalty, bounds are quantiles of a bootstrap's curves; those of a band are so far out that a
share `level` of the replicates lies between them as a whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from pandas import DataFrame, MultiIndex, RangeIndex

from .._tables import Result, counted
from ..data.checks import check_horizons, check_sample_weight
from ..data.intervals import check_level
from ..data.options import choice, is_flag, is_number, refuse
from ..data.simulate.draw import generator
from ..data.vectors import check_numbers, check_order
from ..estimators._columns import check_columns
from ..estimators.fitted import fitted_of
from ..estimators.hazard_curves import cumulative_hazard, incidence, survival
from ..information.views import view_of
from ..patterns.risk_sets.hazards import HazardSpread
from ._covariance import clusters_of, invert_of
from ._curves import Lines, Variation, by_information, by_replicates
from ._rows import documented, open_rows, require_unpenalized
from .bootstrap import BootstrapResult
from .residuals import open_survival_fit

INSTEAD = "Pass `bootstrap`, a result of sksurvgpu.bootstrap for the same fit."
TRANSFORMS = ("log", "log-log", "plain")


@documented
def curve_intervals(
    estimator,
    X,
    y,
    X_new,
    *,
    what=None,
    times=None,
    strata_new=None,
    start=0.0,
    level=0.95,
    interval=None,
    band=False,
    robust=None,
    cluster=None,
    bootstrap=None,
    random_state=None,
    **fit_params,
) -> CurveIntervals:
    """Confidence intervals and bands of the curves that a Cox or Fine-Gray fit predicts.

    Parameters
    ----------
    estimator : CoxLassoCCD or FineGrayCCD, or pipeline
        Fitted estimator; without a penalty, unless there is a `bootstrap`. That of a pipeline
        knows that transformers learn from rows, too; else these are taken as known.
    <<rows_of_fit>>
    X_new : scipy sparse matrix or array, ndarray or DataFrame of shape (n_rows, n_features)
        Rows whose curves are predicted, at an offset of 0.
    what : {"survival", "cumulative_incidence", "risk", "cumulative_hazard"}, optional
        The curve: by default the survival of a Cox model, and the cumulative incidence of a
        Fine-Gray model. The risk is one minus the survival, or the cumulative incidence.
    times : float or array-like of shape (n_times,), optional
        Increasing times; by default those of the events, 500 of them where there are more, and
        the ends of follow-up.
    strata_new : array-like of shape (n_rows,), optional
        Stratum of each new row; required if and only if the model was fitted with strata.
    start : float, default=0.0
        Time until which the rows are known to be free of the event; Cox models only.
    level : float, default=0.95
        Confidence level of intervals and bands.
    interval : {"log", "log-log", "plain"}, optional
        Scale on which intervals are symmetric: log S, which is the cumulative hazard; log(-log S),
        its logarithm; or S. By default "log" for Cox models, as R's ``survfit``, and "log-log" for
        Fine-Gray models, in which S is one minus the incidence. A bootstrap has quantiles, which
        depend on no scale.
    band : bool or pair of float, default=False
        Whether to add bands that contain a whole curve with probability `level`: True over the
        middle 90% of the event times of a row's stratum, or between two times.
    robust : bool, optional
        Whether standard errors are those of the rows' influence, as in `wald`; by default for
        Fine-Gray models only, whose censoring curve is estimated, too.
    cluster : array-like of shape (n_samples,), optional
        Labels of rows of the fit that are not independent; implies `robust`.
    bootstrap : BootstrapResult, optional
        Replicates of the same fit, whose curves are taken instead.
    random_state : int, RandomState instance or None, default=None
        Seed of the numbers that the width of an analytic band is simulated with.
    <<more_of_fit>>

    Returns
    -------
    result : CurveIntervals
        Curves, their standard errors and bounds.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, curve_intervals
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 4, density=0.3, random_state=0)
    >>> model = CoxLassoCCD(alpha=0).fit(data.X, data.y)
    >>> result = curve_intervals(model, data.X, data.y, data.X[:2], times=[10, 20], what="risk")
    >>> result
    <CurveIntervals of the risk of 2 rows at 2 times, 95% log intervals>
                risk standard_error   lower  upper
    row time
    0   10    0.1816        0.01578  0.1501  0.212
    ...
    >>> result.to_frame().columns.tolist()
    ['risk', 'standard_error', 'lower', 'upper']
    """
    index, refits = getattr(X_new, "index", None), None
    if getattr(bootstrap, "_columns", None):
        refits = replace(bootstrap._columns[0], X=X, y=y, fit_params=fit_params)
        refits = partial(refits.reopen, X_new=X_new)
    estimator, X, X_new = open_survival_fit(estimator, "predicted curves", X, X_new)
    what = _check_what(estimator, what)
    level = check_level(level)
    horizons = None if times is None else check_horizons(times)
    band = _check_band(band)
    options = {"interval": interval, "robust": robust, "cluster": cluster}
    _check_ways(estimator, bootstrap, options)
    rows = open_rows(estimator, X, y, fit_params)
    lines = replace(lines_of(rows, X_new, strata_new, start), refit=refits)
    if horizons is None:
        horizons = lines.all_times()
    else:
        unknown = np.isnan(lines.hazards(horizons).sum(axis=0))
        risks = np.where(unknown, np.nan, 0.0)
        lines.timeline.warn_of_unknown(risks, horizons, lines.strata)
    if bootstrap is None:
        variation = _variation(lines, robust, cluster)
        interval = interval or ("log" if _is_cox(estimator) else "log-log")
        random, curve = generator(random_state), CURVES[what]
        found = by_information(variation, lines, horizons, level, interval, band, random, curve)
    else:
        check_replicates(estimator, bootstrap)
        interval = "percentile"
        base = check_sample_weight(fit_params.get("sample_weight"), rows.outcome.n_rows)
        found = by_replicates(bootstrap, lines, horizons, level, band, base, CURVES[what])
    return CurveIntervals.of(found, what, horizons, index, level, interval)


def _is_cox(estimator) -> bool:
    """Whether events do not compete, so that a survival and a later start have a meaning."""
    return hasattr(estimator, "predict_survival_function")


def _check_what(estimator, what):
    own = "survival" if _is_cox(estimator) else "cumulative_incidence"
    known = (own, "risk", "cumulative_hazard")
    return choice(
        own if what is None else what, "what", known, f" for a {type(estimator).__name__}"
    )


def _check_band(band):
    """The ends of a band as a pair, NaN for those to be chosen; None without one."""
    if is_flag(band):
        return (np.nan, np.nan) if band else None
    if np.shape(band) != (2,):
        raise ValueError(f"`band` is {band!r}; pass True, False, or two times between which it is.")
    low, high = check_numbers(band, "band", minimum=0)
    if not low < high:
        raise ValueError(f"`band` is {band!r}; the first time must be before the second.")
    return low, high


def _check_ways(estimator, bootstrap, options):
    """Check what belongs to analytic intervals, or to those of a bootstrap."""
    interval, robust = options["interval"], options["robust"]
    if interval is not None:
        choice(interval, "interval", TRANSFORMS)
    if robust is not None and not is_flag(robust):
        refuse(robust, "robust", "must be True, False or None", TypeError)
    if bootstrap is None:
        require_unpenalized(estimator, "an analytic interval of a curve", INSTEAD)
        return
    for name, value in options.items():
        if value is not None:
            raise ValueError(
                f"`{name}` is for analytic intervals, and `bootstrap` was passed, too; leave one "
                "of them out."
            )


def check_replicates(estimator, bootstrap):
    """Check that replicates are those of this fit, and that their weights can be made again."""
    if not isinstance(bootstrap, BootstrapResult):
        raise TypeError(
            f"`bootstrap` is of type {type(bootstrap).__name__}; pass a result of "
            "sksurvgpu.bootstrap for the same fit."
        )
    if bootstrap._draw is None:
        raise ValueError(
            "`bootstrap` is of rows in partitions, or of an earlier version, and does not know its "
            "weights; bootstrap rows that are here."
        )
    names, coef = bootstrap.feature_names.tolist(), estimator.coef_
    same = names == fitted_of(estimator).names.tolist()
    if not same or np.abs(bootstrap.coef - coef).max() > 1e-3 * max(1.0, np.abs(coef).max()):
        raise ValueError(
            "`bootstrap` is of another fit: its columns or coefficients differ from those of "
            "`estimator`; bootstrap an estimator with the same parameters on the same rows."
        )


def lines_of(rows, X_new, strata_new, start):
    """New rows, checked against the fit."""
    model = rows.estimator
    check_order(X_new=X_new, strata_new=strata_new)
    design, baseline = check_columns(model, X_new), fitted_of(model).baseline
    strata = baseline.strata_of(strata_new, design.n_rows, "strata_new")
    if not is_number(start):
        refuse(start, "start", "pass one number, the same for all rows", TypeError)
    if start != 0 and not _is_cox(model):
        raise ValueError(
            f"`start` is {start:g}, but the risk of those who are free of all events at a later "
            f"time does not follow from a {type(model).__name__}; pass start=0."
        )
    baseline.timeline.check_start(start, strata)
    # from the beginning, also events at time 0 count
    start, setting = float(start) if start > 0 else -np.inf, fitted_of(model).setting
    return Lines(rows, design, strata, start, setting)


def _variation(lines, robust, cluster):
    """Variance of curves by the information, or by the influence of the rows."""
    rows, model = lines.rows, lines.rows.estimator
    if robust is None:
        robust = not _is_cox(model)
    view = view_of(rows)
    information = view.information()
    inverse = invert_of(model, information)
    if not robust and cluster is None:
        spread = HazardSpread(view, lines.start)
        return Variation(spread, inverse.matrix, inverse, information[0])
    if rows.plan.n_pieces > 1:
        raise ValueError(
            "robust intervals of curves are not offered for coefficients that change over time "
            "(time_varying); pass robust=False without `cluster`, or a `bootstrap`."
        )
    collect = view.collector(clusters_of(view, cluster))
    influence = collect(view.scores(view.centred(np.arange(rows.n_coef)))) @ inverse.matrix
    spread = HazardSpread(view, lines.start, influence, collect)
    return Variation(spread, influence.T @ influence, inverse, information[0])


CURVES = {
    "survival": survival,
    "cumulative_incidence": incidence,
    "risk": incidence,
    "cumulative_hazard": cumulative_hazard,
}


@dataclass(frozen=True, eq=False, repr=False)
class CurveIntervals(Result):
    """Predicted curves with confidence intervals and bands; made by `curve_intervals`.

    All arrays are NaN after the end of follow-up of a row's stratum. Bounds are NaN, too, if the
    fit does not determine the coefficients of columns in which a row differs from its rows.

    Attributes
    ----------
    what : str
        The curve: "survival", "cumulative_incidence", "risk" or "cumulative_hazard"; "probability"
        of a state, or "expected_time" there.
    times : ndarray of shape (n_times,)
        Times at which it is evaluated.
    estimate : ndarray of shape (n_rows, n_times)
        The curves that the estimator predicts.
    standard_errors : ndarray of shape (n_rows, n_times)
        Their standard errors.
    lower, upper : ndarray of shape (n_rows, n_times)
        Bounds at single times.
    band_lower, band_upper : ndarray of shape (n_rows, n_times) or None
        Bounds of whole curves; NaN outside of the range of the band.
    level : float
        Confidence level of both.
    interval : str
        Scale of the intervals: "log", "log-log" or "plain"; "percentile" of a bootstrap.
    index : pandas.Index
        Labels of the rows: the index of a DataFrame, or their positions.

    Examples
    --------
    >>> from sksurvgpu import CoxLassoCCD, curve_intervals
    >>> from sksurvgpu.datasets import simulate_cox
    >>> data = simulate_cox(1_000, 4, density=0.3, random_state=0)
    >>> model = CoxLassoCCD(alpha=0).fit(data.X, data.y)
    >>> result = curve_intervals(model, data.X, data.y, data.X[:3], band=True, random_state=0)
    >>> result
    <CurveIntervals of the survival of 3 rows at ... times, 95% log intervals and bands>
               survival standard_error   lower   upper band_lower band_upper
    row time
    0   0.9991   0.9986       0.001378  0.9959       1        nan        nan
    ...
    >>> bool((result.lower <= result.estimate).all())
    True
    """

    what: str
    times: np.ndarray
    estimate: np.ndarray
    standard_errors: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    band_lower: np.ndarray | None
    band_upper: np.ndarray | None
    level: float
    interval: str
    index: Any

    @classmethod
    def of(cls, bounds, what, times, index, level, interval) -> CurveIntervals:
        """Curves of cumulative hazards and their bounds."""

        def curves(pair):
            found = [None if hazard is None else CURVES[what](hazard) for hazard in pair]
            return found[::-1] if what == "survival" else found

        index = RangeIndex(len(bounds.hazard)) if index is None or callable(index) else index
        estimate = CURVES[what](bounds.hazard)
        (lower, upper), band = curves(bounds.interval), curves(bounds.band or (None, None))
        error = bounds.error
        return cls(what, times, estimate, error, lower, upper, *band, level, interval, index)

    def _title(self) -> str:
        bands = "" if self.band_lower is None else " and bands"
        return (
            f"CurveIntervals of the {self.what.replace('_', ' ')} of "
            f"{counted(len(self.estimate), 'rows')} at {counted(len(self.times), 'times')}, "
            f"{100 * self.level:g}% {self.interval} intervals{bands}"
        )

    def _head(self, n):
        arrays = ("estimate", "standard_errors", "lower", "upper", "band_lower", "band_upper")
        part = {name: getattr(self, name) for name in arrays}
        n_curves = -(-n // max(1, min(n, len(self.times))))
        part = {name: None if of is None else of[:n_curves, :n] for name, of in part.items()}
        part = replace(self, times=self.times[:n], index=self.index[:n_curves], **part)
        return part.to_frame().head(n), self.estimate.size

    def to_frame(self):
        """Table of all curves.

        Returns
        -------
        table : pandas.DataFrame
            A line for each row and time, indexed by both: the curve, by its name,
            ``standard_error``, ``lower`` and ``upper``, and with bands ``band_lower`` and
            ``band_upper``.
        """
        name = self.index.name or "row"
        index = MultiIndex.from_product([self.index, self.times], names=[name, "time"])
        columns = {self.what: self.estimate, "standard_error": self.standard_errors}
        columns |= {"lower": self.lower, "upper": self.upper}
        if self.band_lower is not None:
            columns |= {"band_lower": self.band_lower, "band_upper": self.band_upper}
        return DataFrame({key: values.ravel() for key, values in columns.items()}, index=index)
