r"""Coefficients that are pulled to means: with :math:`\beta = m + \delta` the penalty is of δ.

The predictor of the means joins the offset, so that no kernel knows of it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .base import Detour

__all__ = ["Shifted"]


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
