r"""Coefficients that are pulled to means: with :math:`\beta = m + \delta` the penalty is of δ.

The predictor of the means joins the offset, so that no kernel knows of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .base import PLAIN, Route

__all__ = ["Shifted"]


@dataclass(frozen=True)
class Shifted(Route):
    """Fits around means, carried out by another route."""

    mean: np.ndarray  # (n_columns of X,)
    inner: Route = PLAIN

    def solve(self, problem, batch, backend, options, n_threads, on_fit=None):
        batch = self._around_means(problem, batch)
        fits = self.inner.solve(problem, batch, backend, options, n_threads, on_fit)
        return [self._with_means(problem, solutions) for solutions in fits]

    def solve_and_lend(self, problem, batch, backend, options, n_threads, n_borrowers):
        batch = self._around_means(problem, batch)
        given = problem, batch, backend, options, n_threads, n_borrowers
        solutions, loan = self.inner.solve_and_lend(*given)
        return self._with_means(problem, solutions), loan

    def rest(self, problem):
        return self.inner.rest(problem) + self.mean[problem.source]

    def null_model(self, problem, batch, backend, options, n_threads):
        batch = self._around_means(problem, batch)
        return self.inner.null_model(problem, batch, backend, options, n_threads)

    def _around_means(self, problem, batch):
        known = problem.offset_of(self.mean)
        mean, start = self.mean[problem.source][:, None], batch.coef
        if start is not None:
            start = start - mean
        elif batch.fixed is not None:
            start = np.where(batch.fixed, -mean, 0.0)
        offset = known if batch.offset is None else batch.offset + known
        return replace(batch, offset=offset, coef=start)

    def _with_means(self, problem, solutions):
        mean = self.mean[problem.source]
        return [replace(solution, coef=solution.coef + mean) for solution in solutions]
