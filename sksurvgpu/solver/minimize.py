"""Minimizing a quadratic model that is a matrix, under a penalty: passes, and Newton's steps."""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

from .._compile import specialize
from ..penalties.blocks import blocks_of_size, move_block_of, with_matrices

# Passes of a round: as many as cost about what Newton's step does.  A round is quick if its moves
# shrink that much.
LEAST_PASSES, MOST_PASSES, PRODUCTS_OF_STEP, QUICK = 5, 40, 1e6, 0.1
# Of rounds, and of the products that they take, once there were some of Newton's steps.
MOST_ROUNDS, MOST_WORK, FEWEST_STEPS = 100, 1e10, 2


class Quadratic(NamedTuple):
    """``weight * matrix``, and every column's curvature; those beyond the matrix stand alone."""

    matrix: np.ndarray
    weight: float
    curvature: np.ndarray

    def times(self, move):
        """Product with a vector."""
        coupled = len(self.matrix)
        product = self.curvature * move
        product[:coupled] = self.weight * (self.matrix @ move[:coupled])
        return product


def _passes(model, coef, gradient, penalty, unit, enough, passes):
    """Cyclic passes until moves are small `enough`; the largest move of the last one.

    Keeps ``gradient`` of the model at `coef`.
    """
    matrix, weight, curvature = model
    largest, coupled = 0.0, len(matrix)
    for _ in range(passes):
        largest = 0.0
        for a in range(len(coef)):
            if curvature[a] <= 0.0:
                continue
            z = coef[a] * curvature[a] + gradient[a]
            new = minimum(z, curvature[a], penalty, a)  # noqa: F821 (bound)
            step = new - coef[a]
            if step == 0.0:
                continue
            coef[a] = new
            largest = max(largest, curvature[a] * abs(step) / unit[a])
            if a < coupled:
                row, scaled = matrix[a], weight * step
                for b in range(coupled):
                    gradient[b] -= row[b] * scaled
            else:
                gradient[a] -= curvature[a] * step
        if largest <= enough:
            break
    return largest


def _block_passes(model, coef, gradient, penalty, unit, enough, passes):
    """`_passes` over blocks, whose columns move together."""
    matrix, weight, curvature = model
    largest, coupled, widest = 0.0, len(matrix), penalty.size.max()
    slope, new, work = np.empty(widest), np.empty(widest), np.empty(widest)
    for _ in range(passes):
        largest = 0.0
        for i in range(len(coef)):
            for s in range(penalty.size[i]):
                a = penalty.member[i + s]
                new[s] = coef[a]
                slope[s] = gradient[a] if curvature[a] > 0.0 else 0.0
            move_block(slope, new, curvature, penalty, i, work)  # noqa: F821 (bound)
            for s in range(penalty.size[i]):
                a = penalty.member[i + s]
                step = new[s] - coef[a]
                if step == 0.0:
                    continue
                coef[a] = new[s]
                largest = max(largest, curvature[a] * abs(step) / unit[a])
                if a < coupled:
                    row, scaled = matrix[a], weight * step
                    for b in range(coupled):
                        gradient[b] -= row[b] * scaled
                else:
                    gradient[a] -= curvature[a] * step
        if largest <= enough:
            break
    return largest


@cache
def passes_of(formulas):
    if formulas.block is None:
        return specialize(_passes, minimum=formulas.minimum)
    return specialize(_block_passes, move_block=move_block_of(formulas))


def minimize_on_matrix(model, penalty, columns, coef, gradient, unit, tolerance):
    """Coefficients of `columns` that minimize the model: passes while they are quick, else Newton.

    `coef`, `gradient` and `unit` are those of the columns; the first two are written to.
    """
    passes, own, largest = passes_of(penalty.formulas), penalty.of_columns(columns), np.inf
    if penalty.formulas.block is not None:
        own = with_matrices(own, _blocks(model, own), partial(_bound, model))
    size, work, steps = max(1, len(model.matrix)), 0.0, 0
    for _ in range(MOST_ROUNDS):
        products = size * max(1, np.count_nonzero(coef))
        n_passes = int(np.clip(PRODUCTS_OF_STEP / products, LEAST_PASSES, MOST_PASSES))
        previous = largest
        largest = passes(model, coef, gradient, own, unit, tolerance, n_passes)
        work += n_passes * products
        if largest <= tolerance or (work > MOST_WORK and steps >= FEWEST_STEPS):
            break
        if largest > QUICK * previous:
            _support_step(model, penalty, own, coef, gradient)
            work, steps = work + np.count_nonzero(coef) ** 3 / 3, steps + 1
    return coef


def _bound(model, where):
    """Bound of a block's eigenvalues: their sum, and the largest sum of sizes in a row."""
    trace = model.curvature[where].sum()
    if where.max() >= len(model.matrix):
        return trace
    rows = (np.abs(model.matrix[a, where]).sum() for a in where)
    return min(trace, model.weight * max(rows))


def _blocks(model, own):
    """Matrices of the blocks, of all of one size together."""
    coupled = len(model.matrix)
    for size, _, where in blocks_of_size(own):
        inside, known = where < coupled, np.minimum(where, max(0, coupled - 1))
        block = np.zeros((len(where), size, size))
        if coupled:
            block = model.weight * model.matrix[known[:, :, None], known[:, None, :]]
            block *= inside[:, :, None] & inside[:, None, :]
        s = np.arange(size)
        block[:, s, s] = model.curvature[where]
        lost = model.curvature[where] <= 0.0
        block *= ~(lost[:, :, None] | lost[:, None, :])
        yield block


def _support_step(model, penalty, own, coef, gradient):
    """Solve the model where every coefficient keeps to its quadratic piece, and stops at its end.

    Coefficients between two pieces, such as zeros of the lasso, stay.
    """
    matrix, weight, curvature = model
    pieces = penalty.pieces(coef, own)
    inside = (pieces.low < coef) & (coef < pieces.high) & (curvature > 0)
    support = np.flatnonzero(inside[: len(matrix)])
    if not len(support):
        return
    old, slope = coef[support], gradient[support] - pieces.right[support]
    block = matrix[np.ix_(support, support)]
    block *= weight
    penalty.add_curvature(block, support, pieces, coef, own)
    step = _solve(block, slope)
    if step is None:
        return
    step = np.clip(old + step, pieces.low[support], pieces.high[support]) - old
    change = np.zeros(len(matrix))
    change[support] = step
    change = weight * (matrix @ change)
    rise = penalty.rise(support, step, pieces, coef, own)
    decrease = step @ slope - 0.5 * step @ change[support] - rise
    if decrease > 0:
        coef[support] = old + step
        gradient[: len(matrix)] -= change


def _solve(block, slope):
    """Newton's step; None where the matrix is singular, which is overwritten.

    Duplicate columns are one reason: the passes alone converge.
    """
    # of a symmetric matrix, rows are columns: LAPACK works in place
    _, step, failed = dposv(block.T, slope, lower=0, overwrite_a=1)
    return None if failed or not np.isfinite(step).all() else step
