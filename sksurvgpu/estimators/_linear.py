"""What generalized linear models share: an implicit intercept."""

from __future__ import annotations

from ..patterns.groups.plan import plan_groups
from ._base import OF_PENALTY, OF_SOLVER, PenalizedModel
from ._outline import Outline

__all__ = ["LinearModel"]


class LinearModel(PenalizedModel):
    """A linear predictor with an intercept, which is penalized in no model."""

    _likelihood: type
    _parameters = OF_PENALTY | {"fit_intercept": (True, ["boolean"])} | OF_SOLVER

    def _outline(self, n_columns, names, outcome=None):
        return Outline.plain(self._likelihood(bool(self.fit_intercept)), n_columns, names, outcome)

    def _plan(self, outline, reorders):
        return plan_groups(outline.outcome.value)

    def _predict_linear(self, X):
        return super()._predict_linear(X) + self.intercept_
