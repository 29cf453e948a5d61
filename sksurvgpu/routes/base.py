"""Routes, the ways from fits, as users see them, to solutions, as users see them.

Between, a route may solve others: of another problem or other coordinates, with columns of its own,
or one after another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["PLAIN", "Detour", "Route"]


@dataclass(frozen=True)
class Route:
    """The straight one: fits are solved as they are."""

    def serves(self, asked):
        """Name of the backend that serves these fits, and why, where `asked` would others."""
        return asked

    def rest(self, problem):
        """Where coefficients rest, (n_columns,)."""
        return np.zeros(problem.n_columns)

    def solve(self, fits, on_fit=None):
        """A list, per fit, of one `Solution` for each of its penalties, as `Fits.solve`."""
        return fits.solve(on_fit)

    def solve_and_lend(self, fits, n_borrowers):
        """Solutions of the first fit, and a `Loan` for fits on this route, or None."""
        return fits.solve_and_lend(n_borrowers)

    def null_model(self, fits):
        """The `Null` of the first fit."""
        return fits.null_models(1)[0]


PLAIN: Route = Route()


@dataclass(frozen=True)
class Detour(Route):
    """Other fits in place of those that are asked for, carried out by another route."""

    inner: Route

    def leave(self, fits):
        """Fits in place of `fits`, and the way back from a solution of one, by its number."""
        raise NotImplementedError

    def solve(self, fits, on_fit=None):
        others, back = self.leave(fits)
        found = self.inner.solve(others, on_fit)
        return [[back(s, b) for s in solutions] for b, solutions in enumerate(found)]

    def solve_and_lend(self, fits, n_borrowers):
        others, back = self.leave(fits)
        solutions, loan = self.inner.solve_and_lend(others, n_borrowers)
        return [back(s, 0) for s in solutions], loan

    def null_model(self, fits):
        return self.inner.null_model(self.leave(fits)[0])
