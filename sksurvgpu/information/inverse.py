"""Inverse of an information, where columns may be collinear.

Where columns are collinear within the groups whose mean is free, their coefficients are not
identified, but those of the other columns are: the generalized inverse has their covariance.

With G that inverse and P the projection along the directions without information onto the
coefficients of which some are 0, PGP' is the covariance in the model without their columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

# Share of a column's variance that means within groups leave, and eigenvalue of the information of
# columns scaled to 1, below which they are rounding.
CONSTANT, COLLINEAR = 1e-12, 1e-11
IN_NULL_SPACE = 1e-5  # entry of a unit vector without information that is not rounding


@dataclass(frozen=True, eq=False)
class Inverse:
    """Generalized inverse of an information."""

    matrix: np.ndarray
    identified: np.ndarray  # bool per column: whether the data determine its coefficient
    rank: int
    varies: np.ndarray  # bool per column: whether there is information of it by itself
    null: np.ndarray  # directions without information as columns, where each has the length 1
    unit: np.ndarray  # ... in these units of the columns that vary
    projection: np.ndarray | None = None  # P, where columns may have been left out

    def without_dependent(self, is_first) -> Inverse:
        """The inverse without columns that depend on those before them.

        Columns that `is_first` names are never left out, and others depend on them.
        """
        if self.identified.all():
            return self
        null, P = self.null, np.eye(len(self.varies))
        P[~self.varies & ~is_first] = 0.0
        varies, is_left_out = np.flatnonzero(self.varies), ~self.varies
        for a in reversed(np.flatnonzero(~is_first[varies])):
            square = null[a] @ null[a]
            if square <= IN_NULL_SPACE**2:
                continue
            direction, j = null @ null[a] / square, varies[a]
            null = null - np.outer(direction, null[a])
            P[varies] -= np.outer(self.unit * direction / self.unit[a], P[j])
            is_left_out[j], null[a], P[j] = True, 0.0, 0.0
        identified = ~is_left_out
        identified[varies] &= np.all(np.abs(null) < IN_NULL_SPACE, axis=1)
        matrix = P @ self.matrix @ P.T
        return replace(self, matrix=matrix, identified=identified, projection=P)

    def move(self, coef) -> np.ndarray:
        """Coefficients of the same fit without the columns that were left out, theirs 0."""
        return coef if self.projection is None else self.projection @ coef

    def determines(self, contrasts, information, is_lost=False) -> np.ndarray:
        """Whether the data determine sums of coefficients, (n_contrasts, n_coef).

        These are sums of rows of the information; coefficients that are lost have no part in them.
        """
        is_lost = is_lost | ~self.varies
        scale = np.where(is_lost, 1.0, np.sqrt(np.maximum(np.diagonal(information), 0.0)))
        projected = np.where(is_lost, 0.0, contrasts @ self.matrix @ information)
        rest, size = np.abs(contrasts - projected) * scale, np.abs(contrasts) * scale
        return (rest <= IN_NULL_SPACE * (1.0 + size)).all(axis=1)

    @property
    def covariance(self) -> np.ndarray:
        """The inverse, NaN for coefficients that the data do not determine."""
        return self.mask(self.matrix)

    def mask(self, matrix) -> np.ndarray:
        """Copy of a matrix over the columns that is NaN where a coefficient is not determined."""
        return np.where(self.identified & self.identified[:, None], matrix, np.nan)


def invert(information, size) -> Inverse:
    """Invert an information; `size` is its diagonal before means within groups were taken out."""
    diagonal = np.diagonal(information)
    varies = np.flatnonzero(diagonal > CONSTANT * size)
    unit = 1.0 / np.sqrt(diagonal[varies])
    values, vectors = np.linalg.eigh(information[np.ix_(varies, varies)] * np.outer(unit, unit))
    has_information = values > COLLINEAR
    null, vectors = vectors[:, ~has_information], unit[:, None] * vectors[:, has_information]
    identified, matrix = np.zeros(len(size), bool), np.zeros_like(information)
    identified[varies] = np.all(np.abs(null) < IN_NULL_SPACE, axis=1)
    matrix[np.ix_(varies, varies)] = (vectors / values[has_information]) @ vectors.T
    has_own = np.isin(np.arange(len(size)), varies)
    return Inverse(matrix, identified, int(has_information.sum()), has_own, null, unit)
