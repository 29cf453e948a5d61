"""Matrices of the quadratic model, and its curvatures, from sums over partitions.

full       G = X'hX - L diag(1/N) L', L being the loads by bin, of all partitions
sample     the same of the rows of some whole partitions, with N of these rows alone, so that it is
           positive semidefinite however they were drawn
diagonal   no matrix: the diagonal of G, which is all that comes with the other two as well
"""

from dataclasses import dataclass

import numpy as np

from ...data.vectors import inverse_of
from ..cpu.bins import CONSTANT
from ..cpu.tile_gram import subtract_loads

BASES = {"diagonal": "diagonal", "sample": "sample", "full": "matrix"}  # as `contract.Room` has it
LEVELS = tuple(BASES)
# Times as many rows as are asked for: fits cost exchanges, of which a sample is one whatever its
# size, and with half or a quarter as many rows they took 15 or 40 % more.
AMPLE = 4


@dataclass(frozen=True)
class ColumnCurvatures:
    """Curvature of every column in the model, 0 where rounding has lost it, and without bins."""

    centred: np.ndarray
    plain: np.ndarray
    total: float  # sum of h


def find_curvatures(sums, inverse):
    """Curvatures from sums over rows; `inverse` is 1 / N of every bin, None: of the sums of h."""
    curvature, total = sums["curvature"], float(sums["total"].sum())
    if curvature.ndim == 2:  # partitions have taken the second term
        return ColumnCurvatures(*np.ascontiguousarray(curvature.T), total)
    inverse = inverse_of(sums["total"]) if inverse is None else inverse
    centred = curvature - sums["loads"] ** 2 @ inverse
    return ColumnCurvatures(
        np.where(centred > CONSTANT * curvature, centred, 0.0), curvature, total
    )


def choose_sample(rows, n_rows):
    """Partitions whose numbers are evenly spread, and that have rows enough; None: all."""
    rows, n_rows = np.asarray(rows), AMPLE * n_rows
    for count in range(1, len(rows)):
        parts = (np.arange(count) + 0.5) * len(rows) / count
        if rows[parts.astype(int)].sum() >= n_rows:
            return parts.astype(int).tolist()
    return None


def find_matrix(sums, inverse):
    """Matrix from sums over all rows, but for what rounding has done to its diagonal."""
    inverse = inverse_of(sums["total"]) if inverse is None else inverse
    return _centred(sums, inverse)


def find_sample(sums, inverse, plain):
    """Matrix from sums over the rows of a sample, without columns that are constant in its bins.

    `plain` is the curvature of columns without bins, of all rows: its rounding is no curvature.
    """
    # one without bins, of no N, stays so
    if inverse is None or inverse.any():
        inverse = inverse_of(sums["total"])
    matrix = _centred(sums, inverse)
    lost = np.diagonal(matrix) <= CONSTANT * plain
    matrix[lost] = matrix[:, lost] = 0.0
    return matrix


def _centred(sums, inverse):
    """X'hX without the second term; partitions that send no loads have taken it."""
    if "loads" in sums:
        subtract_loads(sums["gram"], sums["loads"], inverse, 0)
    return sums["gram"]
