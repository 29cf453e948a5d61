"""The matrix of the quadratic model at three levels, all of which lead to the same optimum.

full       G = X'hX - L diag(1/N) L', L being the loads by bin, of all partitions
sample     R, the same of the rows of some whole partitions, with N of these rows alone, so that
           it is positive semidefinite however they were drawn; scaled to the curvatures C of
           all rows: G_ij = 0.9 R_ij sqrt(C_i C_j / (R_ii R_jj)), G_ii = C_i
diagonal   diag(C)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...data.plans.weighted import inverse_of
from ..cpu.bins import CONSTANT
from ..cpu.gram import subtract_loads

LEVELS = ("diagonal", "sample", "full")
ROWS_A_COLUMN = 10  # of a sample; with 3, fits took twice as many exchanges
KEPT = 0.9  # of what columns of a sample have in common: 0.95 and 1 did the same


@dataclass(frozen=True)
class Curvatures:
    """Curvature of every column in the model, 0 where rounding has lost it, and without bins."""

    centred: np.ndarray
    plain: np.ndarray
    of_part: dict[int, np.ndarray]  # sums of h by bin

    @property
    def total(self):
        """Sum of h."""
        return float(sum(total.sum() for total in self.of_part.values()))

    def inverse_of(self, parts):
        """1 / N of every bin in some partitions."""
        return inverse_of(sum(self.of_part[part] for part in parts))


def find_curvatures(sums, of_part, inverse):
    """Curvatures from sums over rows; `inverse` is 1 / N of every bin, None: of the sums of h."""
    curvature = sums["curvature"]
    if curvature.ndim == 2:  # partitions have taken the second term
        return Curvatures(*np.ascontiguousarray(curvature.T), of_part)
    if inverse is None:
        inverse = inverse_of(sums["total"])
    centred = curvature - sums["loads"] ** 2 @ inverse
    return Curvatures(np.where(centred > CONSTANT * curvature, centred, 0.0), curvature, of_part)


def choose_sample(rows, n_columns):
    """Partitions whose numbers are evenly spread, and that have rows enough for a matrix."""
    rows = np.asarray(rows)
    for count in range(1, len(rows)):
        parts = (np.arange(count) + 0.5) * len(rows) / count
        if rows[parts.astype(int)].sum() >= ROWS_A_COLUMN * n_columns:
            return parts.astype(int).tolist()
    return list(range(len(rows)))


def centre(gram, loads, inverse):
    """Take the second term from X'hX; loads are None where partitions have done it."""
    if loads is not None:
        subtract_loads(gram, loads, inverse, 0)
    return gram


def scale_to(matrix, plain, curvature):
    """Make the matrix of a sample one of all rows; `plain` is what its diagonal was uncentred."""
    own = np.diagonal(matrix)
    is_known = (own > CONSTANT * plain) & (curvature > 0.0)
    ratio = np.divide(curvature, own, out=np.zeros(len(own)), where=is_known)
    scale = np.sqrt(KEPT * ratio)
    matrix *= scale
    matrix *= scale[:, None]
    np.fill_diagonal(matrix, curvature)
