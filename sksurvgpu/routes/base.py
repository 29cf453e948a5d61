r"""Routes, the ways from fits, as users see them, to solutions, as users see them.

Between, a route may solve others: of another problem or other coordinates, with columns of its own,
or one after another.

With coefficients that are pulled to means, :math:`\beta = m + \delta`, the penalty is of δ. The
predictor of the means joins the offset, so that no kernel knows of it.

Under a penalty of columns that are divided by their standard deviations s it is of :math:`s\beta`.
No column is divided: fits are solved in other units (`solver.units`).
"""

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Route:
    """The straight one: fits are solved as they are."""

    def serves(self, asked):
        """Name of the backend that serves these fits, and why, where `asked` would others."""
        return asked

    def rest(self, problem):
        """Where coefficients rest, (n_columns,)."""
        return np.zeros(problem.n_columns)

    def scale(self, problem):
        """Numbers (n_columns,) that columns are divided by where they are penalized."""
        return np.ones(problem.n_columns)

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

    def scale(self, problem):
        return self.inner.scale(problem)

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


@dataclass(frozen=True)
class Shifted(Detour):
    """Fits around means."""

    mean: np.ndarray  # (n_columns of X,)

    def rest(self, problem):
        return self.inner.rest(problem) + self.mean[problem.source]

    def leave(self, fits):
        problem, batch = fits.problem, fits.batch
        known, mean, start = problem.offset_of(self.mean), self.mean[problem.source], batch.coef
        if start is not None:
            start = start - mean[:, None]
        elif batch.fixed is not None:
            start = np.where(batch.fixed, -mean[:, None], 0.0)
        offset = known if batch.offset is None else batch.offset + known

        def back(solution, _):
            return replace(solution, coef=solution.coef + mean)

        return fits.with_batch(offset=offset, coef=start), back


@dataclass(frozen=True)
class Standardized(Detour):
    """Fits whose penalty is of columns that are divided by numbers."""

    deviation: np.ndarray  # (n_columns of X,)

    def scale(self, problem):
        return self.deviation[problem.source]

    def leave(self, fits):
        scale, batch = self.scale(fits.problem), fits.batch
        coef = None if batch.coef is None else batch.coef * scale[:, None]
        fits = fits.with_batch(coef=coef, penalty=batch.penalty.in_units(scale))

        def back(solution, _):
            coef, of_route = batch.penalty.from_units(solution.coef, scale), solution.of_route
            pilot = {name: of_route[name] / scale for name in of_route if name == "pilot_coef_"}
            return replace(solution, coef=coef, of_route=of_route | pilot)

        return replace(fits, scale=scale), back
