"""Columns of a model: columns of X in some pieces of time, perhaps with their means taken out."""

from typing import Any

import numpy as np


class ModelColumns:
    """Columns of a problem, wherever its rows are: names, pieces, centres.

    Model column j is column ``source[j]`` of X in the pieces of time from ``piece_ptr[j, 0]`` to
    before ``piece_ptr[j, 1]``.  The mean of a centred column times its coefficient belongs to the
    baseline.
    """

    plan: Any
    likelihood: Any
    source: np.ndarray
    piece_ptr: np.ndarray
    center: np.ndarray | None

    @property
    def n_columns(self):
        return len(self.source)

    @property
    def has_intercept(self):
        """Whether an intercept is fitted at every evaluation."""
        return getattr(self.likelihood, "intercept", False)

    @property
    def ignores_shifts(self):
        """Whether the log-likelihood is the same for a predictor that is moved as a whole."""
        return self.likelihood.pattern.is_conditional or self.has_intercept

    def shift_of(self, coef):
        """Constant that centring has taken from the predictor, (n_pieces,)."""
        shift = np.zeros(getattr(self.plan, "n_pieces", 1))
        if self.center is not None:
            for j in np.flatnonzero(coef * self.center[self.source]):
                shift[slice(*self.piece_ptr[j])] += coef[j] * self.center[self.source[j]]
        return shift

    def baseline_of(self, baseline, coef):
        """A baseline as it is for columns that are not centred."""
        shift = self.shift_of(coef)
        if baseline is None or not shift.any():
            return baseline
        if self.has_intercept:
            return baseline - shift[0]
        groups = np.repeat(shift, self.plan.n_strata)
        return baseline - np.repeat(groups, np.diff(self.plan.cell_ptr))
