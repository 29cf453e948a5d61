"""Fits: what is fitted, and by whom, as one value, and all that can be asked of it.

A fit is a *coroutine*: plain sequential code that asks for operations on rows and columns
(`backends.contract`) and is sent their results. Those of a batch run together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..backends.contract import Operations, ask, every_column
from .point import require_finite
from .problem import Batch, Problem
from .solve import find_null_of, fit, fit_and_lend
from .units import in_units

LARGEST_PENALTY = 1e150
FIRST_REACH = 2.0  # of an indicator


@dataclass(frozen=True)
class Options:
    """How to solve: `tol` bounds scores in standard errors, relative to the null model's largest.

    `null.Null` has the details.
    """

    tol: float = 1e-6
    max_iter: int = 1000
    algorithm: str = "majorized"
    verbose: int = 0
    baseline: bool = True  # whether solutions keep their baseline, one number a cell


@dataclass(frozen=True)
class Fits:
    """Fits of a batch: searches for their optima, and values at points that are known.

    Points are columns of `coefs`, (n_columns, n_fits), one a fit.
    """

    problem: Problem
    batch: Batch
    backend: Any  # a module or an object with `run`, see `backends.contract.Backend`
    options: Options = Options()
    n_threads: int = 1
    scale: np.ndarray | None = None  # (n_columns,): coefficients are as many times those of columns

    def with_batch(self, **changes) -> Fits:
        """Fits with other fields of the batch."""
        return replace(self, batch=replace(self.batch, **changes))

    def with_options(self, **changes) -> Fits:
        """Fits with other options."""
        return replace(self, options=replace(self.options, **changes))

    def run(self, coroutines):
        """Results of coroutines; none is left open by an error, whoever keeps its traceback."""
        if self.scale is not None:
            coroutines = [in_units(coroutine, self.scale) for coroutine in coroutines]
        try:
            return self.backend.run(self.problem, self.batch, coroutines, self.n_threads)
        finally:
            for coroutine in coroutines:
                coroutine.close()

    def solve(self, on_fit=None):
        """A list, per fit, of one `Solution` for each of its penalties.

        `on_fit` is called with the position of every fit that is done, in the thread that did it.
        """
        fits = self._checked()

        def report(b):
            solutions, _ = yield from fit(fits, b)
            if on_fit is not None:
                on_fit(b)
            return solutions

        return fits.run([report(b) for b in range(self.batch.n_fits)])

    def solve_and_lend(self, n_borrowers):
        """Solutions of the first fit, and a `Loan` for fits like it, or None."""
        fits = self._checked()
        return fits.run([fit_and_lend(fits, n_borrowers)])[0]

    def null_models(self, n_fits=None):
        """`null.Null` of every fit, or of the first ones; they need no penalties."""
        n_fits = self.batch.n_fits if n_fits is None else n_fits
        return self.run([find_null_of(self, b) for b in range(n_fits)])

    def _checked(self):
        """Fits as a search needs them."""
        batch = self.batch
        factor = 1.0 if batch.factor is None else float(batch.factor.max(initial=0.0))
        # Python's product does not warn
        largest = float(batch.lambdas.max(initial=0.0)) * factor
        if not largest <= LARGEST_PENALTY:
            raise ValueError(
                f"the penalty of a column is {largest:.3g} on the sum scale, more than a fit can "
                "compute with; make `alpha` or `penalty_factor` smaller."
            )
        if self.options.algorithm != "exact":
            return self
        typical = self.problem.design.typical_values()[self.problem.source]
        return self.with_batch(reach=FIRST_REACH / typical)

    def log_likelihoods(self, coefs):
        """Log-likelihood of every fit; not finite where it cannot be computed."""

        def evaluate(coef):
            return (yield from ask(Operations.start, coef))

        return np.array(self.run([evaluate(coef) for coef in coefs.T.copy()]))

    def gradients(self, coefs):
        """Gradient of every fit's log-likelihood, (n_columns, n_fits)."""
        every = every_column(len(coefs))
        return np.stack(self.run([_slopes(coef, every) for coef in coefs.T.copy()]), axis=1)

    def slopes(self, coefs, columns):
        """Slope of every fit's log-likelihood along a column of its own."""
        pairs = zip(coefs.T.copy(), columns, strict=True)
        found = self.run([_slopes(coef, np.array([column])) for coef, column in pairs])
        return np.concatenate(found)

    def curvatures(self, coef, columns):
        """Curvature of minus the log-likelihood along each of some columns, the others held."""

        def evaluate():
            require_finite((yield from ask(Operations.start, coef)))
            curvature, _ = yield from ask(Operations.curvature, columns)
            return curvature[:, 0]

        return self.run([evaluate()])[0]


def _slopes(coef, columns):
    """Coroutine: slopes of a log-likelihood along columns."""
    require_finite((yield from ask(Operations.start, coef)))
    return (yield from ask(Operations.gradient, columns))
