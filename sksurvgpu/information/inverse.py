"""Inverse of an information, where columns may be collinear.

Where columns are collinear within the groups whose mean is free, their coefficients are not
identified, but those of the other columns are: the generalized inverse has their covariance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["COLLINEAR", "CONSTANT", "Inverse", "invert"]

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

    def determines(self, contrasts, information, is_lost=False) -> np.ndarray:
        """Whether the data determine sums of coefficients, (n_contrasts, n_coef).

        These are sums of rows of the information; coefficients that are lost have no part in them.
        """
        is_lost = is_lost | (np.diagonal(self.matrix) == 0)
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
    return Inverse(matrix, identified, int(np.count_nonzero(has_information)))
