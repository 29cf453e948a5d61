"""What generalized linear models share: an implicit intercept."""

from __future__ import annotations

from ..patterns.groups.plan import plan_groups
from ..solver.problem import Problem
from ._base import PenalizedModel
from ._outline import Outline
from ._prepared import count_threads

__all__ = ["LinearModel"]


class LinearModel(PenalizedModel):
    """A linear predictor with an intercept, which is penalized in no model."""

    _likelihood: type
    _parameter_constraints: dict = {  # noqa: RUF012 (scikit-learn's convention)
        **PenalizedModel._parameter_constraints,
        "fit_intercept": ["boolean"],
    }

    def __init__(
        self,
        *,
        alpha=0.01,
        l1_ratio=1.0,
        penalty_factor=None,
        bounds=None,
        prior_mean=None,
        penalty=None,
        relax=None,
        fit_intercept=True,
        algorithm="majorized",
        tol=1e-6,
        max_iter=1000,
        warm_start=False,
        backend="auto",
        precision="float64",
        device=0,
        n_jobs=None,
        verbose=0,
    ):
        self._keep(locals())

    def _outline(self, n_columns, names, outcome=None):
        return Outline.plain(self._likelihood(bool(self.fit_intercept)), n_columns, names, outcome)

    def _build(self, design, outcome, weight):
        likelihood = self._likelihood(bool(self.fit_intercept))
        threads = count_threads(self.n_jobs)
        return Problem.build(design, plan_groups(outcome.value), likelihood, n_threads=threads), {}

    def _adopt_solution(self, solution):
        super()._adopt_solution(solution)
        self.intercept_ = float(solution.baseline)

    def _predict_linear(self, X):
        return super()._predict_linear(X) + self.intercept_
