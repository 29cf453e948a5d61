"""What models with a baseline hazard share: the curves of rows."""

from __future__ import annotations

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._base import PenalizedModel
from ._docs import documented
from .baseline import Baseline, cumulative_hazard

__all__ = ["CurveModel"]


@documented
class CurveModel(PenalizedModel):
    """A model of hazards over time; `_build` leaves their times in ``_timeline``."""

    def _adopt_solution(self, solution):
        super()._adopt_solution(solution)
        self._baseline = Baseline(self._timeline, solution.baseline)

    def _fitted_baseline(self) -> Baseline:
        check_is_fitted(self)
        return self._baseline

    def _predictors(self, X) -> np.ndarray:
        """Linear predictor of every row in each piece of the time axis."""
        design = self._read_features(X)
        return self._predictors_of(design, self.coef_)

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

    def predict_cumulative_hazard_function(self, X, strata=None, return_array=False):
        """Cumulative hazard until each time, for every row.

        Parameters
        ----------
        <<X>>
        <<strata_of_fit>>
        <<return_array>>

        Returns
        -------
        hazard : ndarray
            <<curves>>
        """
        return self._curves(X, strata, return_array, cumulative_hazard)

    def _curves(self, X, strata, return_array, curve):
        predictors = self._predictors(X)
        return self._baseline.curves(predictors, strata, return_array, curve)
