"""Models with a baseline hazard: the curves that they predict for rows."""

import numpy as np
from pandas import DataFrame, Index

from ..data.checks import check_horizons
from ..data.partitioned import in_partitions
from ..data.vectors import check_order
from ..nonparametric.kaplan_meier import check_probabilities
from ._base import PenalizedModel
from ._columns import check_columns, check_strata_as_in_fit
from ._docs import documented
from ._partition import by_partition, predict_to_memory
from ._report import is_called_by
from .fitted import fitted_of
from .hazard_curves import cumulative_hazard
from .models.base import model_of


def _like_predictors(model, given):
    return np.empty((0, fitted_of(model).terms.n_pieces))


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
    """A model of hazards over time, whose times are in the `Setting` of its fits."""

    def _check_caller(self, y):
        fields = getattr(getattr(y, "dtype", None), "names", None) or ()
        if len(fields) > 2:
            refuse_scorer(f"read event and time alone, and `y` has a field {fields[2]!r}, too")
        if fields and y.dtype[0].kind in "iu":
            refuse_scorer(f"read one kind of event, and `y` has codes of several in {fields[0]!r}")

    def _predictors(self, X) -> np.ndarray:
        """Linear predictor of every row in each piece of the time axis."""
        if in_partitions(X):
            return predict_to_memory(self, CurveModel._predictors, X, _like_predictors)
        design = check_columns(self, X)
        return fitted_of(self).terms.predictors(design, self.coef_)

    def _read_scored(self, y, n_rows, strata):
        """Outcome of rows that a score compares as the fit did."""
        outcome = model_of(self).read_outcome(y, n_rows, strata)
        check_strata_as_in_fit(
            fitted_of(self).setting.timeline.n_labels,
            outcome.stratum is not None,
            found="`y` has a field 'stratum'" if strata is None else "`strata` was passed",
        )
        return outcome

    @property
    def unique_times_(self):
        """Distinct times of the rows of the fit, where curves are evaluated."""
        return fitted_of(self).baseline.unique_times.copy()

    @property
    def cum_baseline_hazard_(self):
        """Cumulative hazard at a linear predictor of 0: a step function, or one per stratum.

        Stratified models have a dictionary {label: step function}.
        """
        return fitted_of(self).baseline.functions(cumulative_hazard)

    @by_partition(like_curves)
    def predict_cumulative_hazard_function(self, X, strata=None, return_array=False):
        """Cumulative hazard until each time, for every row.

        Parameters
        ----------
        <<X, strata_of_fit, return_array>>

        <<curves>>
        """
        return self._curves(X, strata, return_array, cumulative_hazard)

    @by_partition(like_risks)
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
        check_order(X=X, strata=strata)
        shares, predictors = check_probabilities(probabilities), self._predictors(X)
        baseline = fitted_of(self).baseline
        codes = baseline.strata_of(strata, len(predictors))
        times = baseline.quantiles(predictors, codes, shares)
        index = X.index if isinstance(X, DataFrame) else None
        return DataFrame(times, index=index, columns=Index(shares, name="probability"))

    @by_partition()
    def predict_median(self, X, *, strata=None):
        """Median survival time, or time of the event of interest, of every row.

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
        check_order(X=X, strata=strata, start=start)
        predictors, baseline = self._predictors(X), fitted_of(self).baseline
        if strata is None and baseline.timeline.labels is not None:
            refuse_scorer("cannot pass `strata`, which the curves of a stratified model need")
        codes = baseline.strata_of(strata, len(predictors))
        start = baseline.timeline.check_start(start, codes)
        return baseline.curves(predictors, codes, return_array, curve, start)

    def _risks(self, X, times, strata, start=None, offset=0.0):
        horizons = check_horizons(times)
        check_order(X=X, strata=strata, start=start)
        predictors, baseline = self._predictors(X) + offset, fitted_of(self).baseline
        codes = baseline.strata_of(strata, len(predictors))
        start = baseline.timeline.check_start(start, codes)
        risks = baseline.risks(predictors, codes, horizons, start)
        baseline.timeline.warn_of_unknown(risks, horizons, codes)
        index = X.index if isinstance(X, DataFrame) else None
        return DataFrame(risks, index=index, columns=Index(horizons, name="time"))
