"""What models with a baseline hazard share: the curves of rows."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data.checks import check_horizons
from ..data.vectors import check_row_values
from ..nonparametric.kaplan_meier import check_probabilities
from ..partitions.handles import is_far
from ._base import PenalizedModel
from ._by_parts import by_parts, predict_here
from ._docs import documented
from ._report import is_called_by
from ._strata import check_strata_as_in_fit
from .baseline import Baseline, Timeline, cumulative_hazard

__all__ = ["CurveModel", "refuse_scorer"]


def _like_predictors(model, given):
    timeline = model._timeline
    return np.empty((0, (len(timeline.cell_ptr) - 1) // timeline.n_strata))


def like_curves(model, given):
    """Curves of no row."""
    if not given.get("return_array", False):
        return np.empty(0, object)
    return np.empty((0, len(model.unique_times_)))


def like_risks(model, given):
    """Risks, or quantiles, of no row."""
    return np.empty((0, np.size(given.get("times", given.get("probabilities")))))


def refuse_scorer(what) -> None:
    """Say what to take instead, if it is a scorer of scikit-survival that asks."""
    if is_called_by("sksurv.metrics"):
        raise ValueError(
            f"scikit-survival's scorers {what}. Take the estimator without a scorer around it: its "
            "own `score` is a concordance that knows strata, entry times, competing events and "
            "coefficients that change over time."
        )


@documented
class CurveModel(PenalizedModel):
    """A model of hazards over time; `_build` leaves their times in ``_timeline``."""

    def _prepare(self, X, y, *args, **given):
        fields = getattr(getattr(y, "dtype", None), "names", None) or ()
        if len(fields) > 2:
            refuse_scorer(f"read event and time alone, and `y` has a field {fields[2]!r}, too")
        if fields and y.dtype[0].kind in "iu":
            refuse_scorer(f"read one kind of event, and `y` has codes of several in {fields[0]!r}")
        return super()._prepare(X, y, *args, **given)

    def _tell(self, outcome, weight):
        has_strata = np.array([outcome.stratum is not None])
        return super()._tell(outcome, weight) | {"has_strata": has_strata}

    def _of_parts(self, problem, terms, agreed, told):
        has_strata = all(part["has_strata"][0] for part in told)
        labels = np.asarray(problem.plan.events.labels) if has_strata else None
        return {"_timeline": Timeline.of_cells(problem.plan, labels)}

    def _adopt_solution(self, solution):
        super()._adopt_solution(solution)
        self._baseline = Baseline(self._timeline, solution.baseline)

    def _fitted_baseline(self) -> Baseline:
        check_is_fitted(self)
        return self._baseline

    def _predictors(self, X) -> np.ndarray:
        """Linear predictor of every row in each piece of the time axis."""
        if is_far(X):
            return predict_here(self, CurveModel._predictors, X, _like_predictors)
        design = self._read_features(X)
        return self._predictors_of(design, self.coef_)

    def _read_scored(self, y, n_rows, strata):
        """Outcome of rows that a score compares as the fit did."""
        outcome = self._read_outcome(y, n_rows, strata)
        check_strata_as_in_fit(
            self._timeline.n_labels,
            outcome.stratum is not None,
            found="`y` has a field 'stratum'" if strata is None else "`strata` was passed",
        )
        return outcome

    @property
    def unique_times_(self):
        """Distinct times of the rows of the fit, where curves are evaluated."""
        return self._fitted_baseline().unique_times.copy()

    @property
    def cum_baseline_hazard_(self):
        """Cumulative hazard at a linear predictor of 0: a step function, or one per stratum.

        Stratified models have a dictionary {label: step function}.
        """
        return self._fitted_baseline().functions(cumulative_hazard)

    @by_parts(like_curves)
    def predict_cumulative_hazard_function(self, X, strata=None, return_array=False):
        """Cumulative hazard until each time, for every row.

        Parameters
        ----------
        <<X, strata_of_fit, return_array>>

        Returns
        -------
        hazard : ndarray
            <<curves>>
        """
        return self._curves(X, strata, return_array, cumulative_hazard)

    @by_parts(like_risks)
    def predict_quantile(self, X, probabilities, *, strata=None):
        """Time by which the event (of interest) has happened with given probabilities.

        Parameters
        ----------
        <<X>>
        probabilities : float or array-like of shape (n_probabilities,)
            Shares between 0 and 1.
        <<strata_of_fit>>

        Returns
        -------
        times : pandas.DataFrame of shape (n_samples, n_probabilities)
            A row for each one of X, with the index of a pandas DataFrame, and a column for each
            probability: the first time at which the row's risk is as large, or the middle of the
            time for which it is equal to it, as R's ``quantile`` of ``survfit``. NaN where the risk
            stays below it until the last time of the fit's rows in the row's stratum.
        """
        from pandas import DataFrame, Index

        shares, predictors = check_probabilities(probabilities), self._predictors(X)
        codes = self._baseline.strata_of(strata, len(predictors))
        times = self._baseline.quantiles(predictors, codes, shares)
        index = X.index if isinstance(X, DataFrame) else None
        return DataFrame(times, index=index, columns=Index(shares, name="probability"))

    @by_parts()
    def predict_median(self, X, *, strata=None):
        """Median time of the event of every row, such as its median survival.

        Parameters
        ----------
        <<X, strata_of_fit>>

        Returns
        -------
        median : ndarray of shape (n_samples,)
            The quantile at 0.5 of `predict_quantile`; NaN where it is not reached.
        """
        return self.predict_quantile(X, 0.5, strata=strata).to_numpy()[:, 0]

    def _curves(self, X, strata, return_array, curve, start=None):
        predictors = self._predictors(X)
        if strata is None and self._baseline.timeline.labels is not None:
            refuse_scorer("cannot pass `strata`, which the curves of a stratified model need")
        codes = self._baseline.strata_of(strata, len(predictors))
        start = self._check_start(start, codes)
        return self._baseline.curves(predictors, codes, return_array, curve, start)

    def _risks(self, X, times, strata, start=None):
        from pandas import DataFrame, Index

        horizons = check_horizons(times)
        predictors = self._predictors(X)
        codes = self._baseline.strata_of(strata, len(predictors))
        start = self._check_start(start, codes)
        risks = self._baseline.risks(predictors, codes, horizons, start)
        self._warn_of_unknown(risks, horizons, codes)
        index = X.index if isinstance(X, DataFrame) else None
        return DataFrame(risks, index=index, columns=Index(horizons, name="time"))

    def _check_start(self, start, codes):
        """Start of every row as a vector; None where rows start at 0."""
        if start is None:
            return None
        values = np.full(len(codes), start) if np.ndim(start) == 0 else start
        vector = check_row_values(values, "start", len(codes), minimum=0)
        last = self._baseline.timeline.last_times()[codes]
        if (vector > last).any():
            row = int(np.argmax(vector > last))
            raise ValueError(
                f"`start` is {vector[row]:g} in row {row:,}, after the last time of the fit's rows "
                f"in its stratum, {last[row]:g}; nothing is known of what follows, drop such rows."
            )
        return vector

    def _warn_of_unknown(self, risks, horizons, codes, stacklevel=5):
        is_unknown = np.isnan(risks)
        if not is_unknown.any():
            return
        horizon = int(np.argmax(is_unknown.any(axis=0)))
        row = int(np.argmax(is_unknown[:, horizon]))
        timeline = self._baseline.timeline
        where = "" if timeline.labels is None else f" in the stratum of row {row:,}"
        warnings.warn(
            f"The risk by {horizons[horizon]:g} is NaN in {is_unknown[:, horizon].sum():,} of "
            f"{len(risks):,} rows: the fit's rows{where} end at "
            f"{timeline.last_times()[codes[row]]:g}, and what happens later is unknown; take an "
            "earlier horizon.",
            stacklevel=stacklevel,
        )
