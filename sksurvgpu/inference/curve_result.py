"""Predicted curves with their confidence intervals and bands."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._tables import Result, counted
from ..estimators.baseline import cumulative_hazard, incidence, survival

__all__ = ["CURVES", "CurveIntervals"]

CURVES = {
    "survival": survival,
    "cumulative_incidence": incidence,
    "risk": incidence,
    "cumulative_hazard": cumulative_hazard,
}


@dataclass(frozen=True, eq=False, repr=False)
class CurveIntervals(Result):
    """Predicted curves with confidence intervals and bands; made by `curve_intervals`.

    All arrays are NaN after the end of follow-up of a row's stratum, and bounds where a row differs
    from those of the fit in columns whose coefficients these do not determine.

    Attributes
    ----------
    what : str
        The curve: "survival", "cumulative_incidence", "risk" or "cumulative_hazard".
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
        from pandas import RangeIndex

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
        from pandas import DataFrame, MultiIndex

        name = self.index.name or "row"
        index = MultiIndex.from_product([self.index, self.times], names=[name, "time"])
        columns = {self.what: self.estimate, "standard_error": self.standard_errors}
        columns |= {"lower": self.lower, "upper": self.upper}
        if self.band_lower is not None:
            columns |= {"band_lower": self.band_lower, "band_upper": self.band_upper}
        return DataFrame({key: values.ravel() for key, values in columns.items()}, index=index)
