"""What an answer is worth, recomputed without the package: objective and KKT residual."""

from __future__ import annotations

import numpy as np

from .likelihoods import likelihood_of


class Certificate:
    """Judge of coefficients for one data set."""

    def __init__(self, data):
        self.data = data
        self._likelihood = likelihood_of(data)
        intercept = self._likelihood.null_intercept() if data.intercept else 0.0
        _, u = self._likelihood.evaluate(np.full(data.shape[0], intercept))
        self.penalty_max = float(np.abs(data.transposed_times(u)).max())

    def judge(self, coef, penalty, intercept=0.0):
        """Objective, KKT residual relative to the largest penalty of use, and nonzeros.

        The residual of an intercept is the sum of the derivatives of all rows.
        """
        loglik, u = self._likelihood.evaluate(self.data.times(coef) + intercept)
        gradient = self.data.transposed_times(u)
        free = np.abs(gradient - penalty * np.sign(coef))
        violation = np.where(coef != 0, free, np.maximum(np.abs(gradient) - penalty, 0.0)).max()
        if self.data.intercept:
            violation = max(violation, abs(u.sum()))
        return {
            "objective": penalty * float(np.abs(coef).sum()) - loglik,
            "kkt": float(violation) / self.penalty_max,
            "nonzeros": int(np.count_nonzero(coef)),
        }
