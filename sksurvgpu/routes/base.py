"""What a route is: the way from a batch, as users see it, to solutions, as users see them.

Between, a route may solve another problem: of other coordinates, with columns of its own, or one
after another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..solver.solve import null_model, solve, solve_and_lend

__all__ = ["PLAIN", "Route"]


@dataclass(frozen=True)
class Route:
    """The straight one: the batch is solved as it is."""

    def solve(self, problem, batch, backend, options, n_threads, on_fit=None):
        """A list, per fit, of one `Solution` for each of its penalties, as `solver.solve`."""
        return solve(problem, batch, backend, options, n_threads, on_fit)

    def serves(self, asked):
        """Name of the backend that serves these fits, and why, where `asked` would others."""
        return asked

    def solve_and_lend(self, problem, batch, backend, options, n_threads, n_borrowers):
        """Solutions of the first fit, and a `Loan` for fits on this route, or None."""
        return solve_and_lend(problem, batch, backend, options, n_threads, n_borrowers)

    def rest(self, problem):
        """Where coefficients rest, (n_columns,)."""
        return np.zeros(problem.n_columns)

    def null_model(self, problem, batch, backend, options, n_threads):
        """The `Null` of the first fit."""
        return null_model(problem, batch, backend, options, n_threads)


PLAIN: Route = Route()
