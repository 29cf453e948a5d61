"""Rows of a Gaussian model, reduced once to what every iteration needs.

The intercept has a flat prior and is integrated out: with weights w, columns and outcome are
centred at their weighted means and multiplied by the roots of the weights, which leaves X and y.
Of n > p rows, only R and z with

    ||y - X b||^2 = residual + ||z - R b||^2   for every b,   R (p, p),

are kept, so that an iteration costs the same for any n, and no sum of squares is a difference.
They are factored block by block (QR), sparse rows made dense within their block: the Gram matrix
would have the square of their condition. Of n <= p rows, dense ones lose the direction that
centring empties, the unit vector s of the roots of weights, and sparse ones stay sparse: what
centring subtracts is then a matrix of rank one, s (s'X).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

BLOCK_ENTRIES = 2**21  # of dense rows that are factored at a time


class GaussianRows(NamedTuple):
    """Reduced rows of some outcomes: one for all chains, or one a chain."""

    matrix: Any  # (m, p), R or rotated centred rows; sparse rows are not centred
    target: np.ndarray  # (n_outcomes, m)
    residual: np.ndarray  # (n_outcomes,)
    direction: np.ndarray | None  # (m,): s, of sparse rows with an intercept
    degrees: int  # rows, less the intercept
    precision: float  # sum of the weights; 0 without an intercept
    column_mean: np.ndarray  # (p,)
    column_square: np.ndarray  # (p,): sums of squares of centred columns
    outcome_mean: np.ndarray  # (n_outcomes,)

    @property
    def square(self):
        """Sum of squares of every outcome."""
        return self.residual + (self.target**2).sum(axis=1)


def reduce_rows(X, y, weight=None, *, fit_intercept=True):
    """Reduce a matrix (n, p), dense or sparse, and outcomes (n_outcomes, n)."""
    weight = np.ones(X.shape[0]) if weight is None else weight
    if not weight.all():
        rows = np.flatnonzero(weight)
        X, y, weight = X[rows], y[:, rows], weight[rows]
    root, precision = np.sqrt(weight), float(weight.sum()) if fit_intercept else 0.0
    column_mean, outcome_mean = np.zeros(X.shape[1]), np.zeros(len(y))
    if fit_intercept:
        column_mean, outcome_mean = _means(X, weight), y @ weight / precision
        outcome_mean = outcome_mean + (y - outcome_mean[:, None]) @ weight / precision
    outcome = (y - outcome_mean[:, None]) * root
    direction = root / np.sqrt(precision) if fit_intercept else None
    if X.shape[0] > X.shape[1]:
        (matrix, outcome, rest), direction = _factor_blocks(X, column_mean, root, outcome), None
    elif sparse.issparse(X):
        matrix = sparse.diags_array(root) @ _shift_full_columns(X, column_mean)
        rest = np.zeros(len(outcome))
    else:
        rows = np.hstack([(X - column_mean) * root[:, None], outcome.T])
        rows = rows if direction is None else _rotate_away(rows, direction)
        matrix, outcome, direction = rows[:, : X.shape[1]], rows[:, X.shape[1] :].T, None
        rest = np.zeros(len(outcome))
    degrees = X.shape[0] - int(fit_intercept)
    return GaussianRows(
        matrix,
        outcome,
        rest,
        direction,
        degrees,
        precision,
        column_mean,
        _column_squares(matrix, direction),
        outcome_mean,
    )


def _column_squares(matrix, direction):
    if not sparse.issparse(matrix):
        return (matrix**2).sum(axis=0)
    square = matrix.power(2).sum(axis=0)
    return square if direction is None else np.maximum(square - (direction @ matrix) ** 2, 0.0)


def _means(X, weight):
    """Weighted means of columns, with a second pass for their last digits where rows are dense."""
    total = weight.sum()
    mean = weight @ X / total
    if sparse.issparse(X) and X.shape[0] <= X.shape[1]:
        return mean
    left = np.zeros(len(mean))
    for rows, block in _blocks(X):
        left += weight[rows] @ (block - mean)
    return mean + left / total


def _shift_full_columns(X, mean):
    """Subtract their means from columns without zeros: Gram matrices of long ones would cancel."""
    X = sparse.csc_array(X, copy=True)
    n_stored = np.diff(X.indptr)
    X.data -= np.repeat(np.where(n_stored == X.shape[0], mean, 0.0), n_stored)
    return X


def _blocks(X):
    """Slices of rows whose entries fit a block, and these rows, dense."""
    X = X.tocsr() if sparse.issparse(X) else X
    size = max(BLOCK_ENTRIES // X.shape[1], 2 * X.shape[1])
    for start in range(0, X.shape[0], size):
        rows = slice(start, start + size)
        yield rows, X[rows].toarray() if sparse.issparse(X) else X[rows]


def _factor_blocks(X, mean, root, outcome):
    """R, z and residual by QR, block by block."""
    n_columns = X.shape[1]
    factor = np.empty((0, n_columns + len(outcome)))
    for rows, block in _blocks(X):
        block = np.hstack([(block - mean) * root[rows, None], outcome[:, rows].T])
        factor = np.linalg.qr(np.vstack([factor, block]), mode="r")
    top, rest = factor[:n_columns], factor[n_columns:, n_columns:]
    return top[:, :n_columns], top[:, n_columns:].T, (rest**2).sum(axis=0)


def _rotate_away(rows, direction):
    """One row less, by the reflection that turns s into a unit vector: s'X = 0 of centred rows.

    As rounding would have it, that eigenvalue of I + X D X' may be far from 1.
    """
    along = (rows[0] + direction @ rows) / (1.0 + direction[0])
    return rows[1:] - np.outer(direction[1:], along)
