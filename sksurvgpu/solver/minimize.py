"""Minimizing a quadratic model under a penalty: passes over its columns, and Newton's steps."""

from contextlib import suppress
from functools import cache, partial
from typing import NamedTuple

import numpy as np

from .._compile import device, kernel, specialize
from ..penalties.blocks import blocks_of_size, move_block_of, with_matrices
from .systems import HELD, REGULAR, by_matrix, by_terms

# Passes of a round: as many as cost about what Newton's step does, by the products of a small one
# and by what those of a factor cost.  A round is quick if its moves shrink that much.
LEAST_PASSES, MOST_PASSES, PRODUCTS_OF_STEP, IN_A_FACTOR, QUICK = 5, 40, 1e6, 0.05, 0.1
LEFT = 3.0  # times the largest move that is small enough: slopes on the support
# Of rounds, and of the products that they take, once there were some of Newton's steps.
MOST_ROUNDS, MOST_WORK, FEWEST_STEPS = 100, 1e10, 2
# Of the coefficients that Newton's step would take beyond their ends, the share that stops at a
# time (or one, which always gains), and of all, the share that may: they cost as much as a factor.
FIRST_TO_STOP, MOST_STOPPED = (0.1, 0.0), 0.5


class Quadratic(NamedTuple):
    """``weight * matrix + diag(alone) + rows diag(sign) rows'``, over some columns.

    The matrix, which may be none, is that of the first columns.  The diagonal of the sum is
    `curvature`, and columns where that is 0 stay.
    """

    matrix: np.ndarray  # (n_coupled, n_coupled)
    weight: float
    alone: np.ndarray  # (n_columns,)
    rows: np.ndarray  # (n_columns, n_terms), or more that do not count
    sign: np.ndarray  # (n_terms,)
    curvature: np.ndarray  # (n_columns,)

    @classmethod
    def of_matrix(cls, matrix, curvature=None):
        """A plain matrix, perhaps with another diagonal."""
        diagonal = np.diagonal(matrix).copy()
        curvature = diagonal if curvature is None else curvature
        alone, terms = curvature - diagonal, np.empty((len(matrix), 0))
        return cls(matrix, 1.0, alone, terms, np.empty(0), curvature)

    @property
    def terms(self):
        """The rows that count."""
        return self.rows[:, : len(self.sign)]

    def times(self, move):
        """Product with a vector."""
        coupled = len(self.matrix)
        rows = self.terms
        product = self.alone * move + rows @ (self.sign * (move @ rows))
        product[:coupled] += self.weight * (self.matrix @ move[:coupled])
        return product

    def sums(self, sets):
        """Rows of the matrix added up over sets, which are rows of a sparse matrix of ones."""
        coupled, terms = len(self.matrix), self.terms
        rows = sets.multiply(self.alone).toarray() + ((sets @ terms) * self.sign) @ terms.T
        rows[:, :coupled] += self.weight * (sets[:, :coupled] @ self.matrix)
        return rows

    def block(self, columns):
        """The matrix over some of the columns."""
        coupled = columns < len(self.matrix)
        if coupled.all():
            block = self.matrix[np.ix_(columns, columns)]
            block *= self.weight
        else:
            inside = columns[coupled]
            block = np.zeros((len(columns), len(columns)))
            block[np.ix_(coupled, coupled)] = self.weight * self.matrix[np.ix_(inside, inside)]
        if len(self.sign):
            rows = self.terms[columns]
            block += (rows * self.sign) @ rows.T
        block.ravel()[:: len(columns) + 1] += self.alone[columns]
        return block


@device
def _slope(rows, moved, a):
    """Change of a column's gradient by the moves so far, by way of the terms."""
    n, s0, s1, s2, s3 = len(moved), 0.0, 0.0, 0.0, 0.0
    whole = n - n % 4
    for k in range(0, whole, 4):
        s0 += rows[a, k] * moved[k]
        s1 += rows[a, k + 1] * moved[k + 1]
        s2 += rows[a, k + 2] * moved[k + 2]
        s3 += rows[a, k + 3] * moved[k + 3]
    for k in range(whole, n):
        s0 += rows[a, k] * moved[k]
    return (s0 + s1) + (s2 + s3)


@device
def _subtract(scale, row, gradient):
    """Take a multiple of a row of the matrix from the gradient."""
    for b in range(len(row)):
        gradient[b] -= row[b] * scale


@device
def _move_terms(step, row, sign, moved):
    for k in range(len(sign)):
        moved[k] += sign[k] * row[k] * step


@device
def _finish(rows, moved, gradient):
    """Let the terms change the gradient of all columns."""
    if len(moved):
        for a in range(len(gradient)):
            gradient[a] -= _slope(rows, moved, a)


def _passes(model, coef, gradient, penalty, unit, enough, passes):
    """Cyclic passes until moves are small `enough`; the largest move of the last one.

    Keeps ``gradient`` of the model at `coef`.
    """
    matrix, weight, alone, rows, sign, curvature = model
    coupled, n_terms = len(matrix), len(sign)
    largest, moved = 0.0, np.zeros(n_terms)
    for _ in range(passes):
        largest = 0.0
        for a in range(len(coef)):
            if curvature[a] <= 0.0:
                continue
            z = coef[a] * curvature[a] + gradient[a]
            if n_terms:
                z -= _slope(rows, moved, a)
            new = minimum(z, curvature[a], penalty, a)  # noqa: F821 (bound)
            step = new - coef[a]
            if step == 0.0:
                continue
            coef[a] = new
            largest = max(largest, curvature[a] * abs(step) / unit[a])
            gradient[a] -= alone[a] * step
            if a < coupled:
                _subtract(weight * step, matrix[a], gradient)
            if n_terms:
                _move_terms(step, rows[a], sign, moved)
        if largest <= enough:
            break
    _finish(rows, moved, gradient)
    return largest


def _block_passes(model, coef, gradient, penalty, unit, enough, passes):
    """`_passes` over blocks, whose columns move together."""
    matrix, weight, alone, rows, sign, curvature = model
    coupled, n_terms, widest = len(matrix), len(sign), penalty.size.max()
    largest, moved = 0.0, np.zeros(n_terms)
    slope, new, work = np.empty(widest), np.empty(widest), np.empty(widest)
    for _ in range(passes):
        largest = 0.0
        for i in range(len(coef)):
            for s in range(penalty.size[i]):
                a = penalty.member[i + s]
                new[s], slope[s] = coef[a], 0.0
                if curvature[a] > 0.0:
                    slope[s] = gradient[a] - _slope(rows, moved, a)
            steepest = move_block(slope, new, curvature, penalty, i, work)  # noqa: F821 (bound)
            for s in range(penalty.size[i]):
                a = penalty.member[i + s]
                step = new[s] - coef[a]
                if step == 0.0:
                    continue
                coef[a] = new[s]
                largest = max(largest, max(steepest, curvature[a]) * abs(step) / unit[a])
                gradient[a] -= alone[a] * step
                if a < coupled:
                    _subtract(weight * step, matrix[a], gradient)
                if n_terms:
                    _move_terms(step, rows[a], sign, moved)
        if largest <= enough:
            break
    _finish(rows, moved, gradient)
    return largest


@cache
def passes_of(formulas):
    if formulas.block is None:
        return specialize(_passes, minimum=formulas.minimum)
    return specialize(_block_passes, move_block=move_block_of(formulas))


def minimize_on_model(model, penalty, columns, coef, gradient, unit, tolerance):
    """Coefficients of `columns` that minimize the model: passes while they are quick, else Newton.

    `coef`, `gradient` and `unit` are those of the columns; the first two are written to.
    """
    passes, own, largest = passes_of(penalty.formulas), penalty.of_columns(columns), np.inf
    if penalty.formulas.block is not None:
        own = with_matrices(own, _blocks(model, own), partial(_bound, model))
    work, steps = 0.0, 0
    for _ in range(MOST_ROUNDS):
        products, of_step = _costs(model, max(1, np.count_nonzero(coef)))
        n_passes = min(max(int(of_step / products), LEAST_PASSES), MOST_PASSES)
        previous = largest
        largest = passes(model, coef, gradient, own, unit, tolerance, n_passes)
        work += n_passes * products
        is_small = largest <= tolerance
        if is_small and _left(model, penalty, own, coef, gradient, unit) <= LEFT * tolerance:
            break
        if work > MOST_WORK and steps >= FEWEST_STEPS:
            break
        if is_small or largest > QUICK * previous:
            work, steps = work + _support_step(model, penalty, own, coef, gradient), steps + 1
    return coef


def _costs(model, n_moving):
    """Products of a pass, and passes of about what Newton's step costs."""
    n_terms, n_coupled = len(model.sign), len(model.matrix)
    of_terms = 2 * n_moving if n_coupled else len(model.curvature) + n_moving
    of_pass = n_coupled * n_moving + n_terms * of_terms
    of_step = n_moving * n_terms**2 if _is_low(model, n_moving) else n_moving**3
    return max(1, of_pass), PRODUCTS_OF_STEP + IN_A_FACTOR * of_step


def _is_low(model, n_support):
    """Whether Newton's step on a support is that of a diagonal with a few terms."""
    return not len(model.matrix) and len(model.sign) < n_support


def _left(model, penalty, own, coef, gradient, unit):
    """Largest slope that is left on the support: together, small moves may go far."""
    return _largest_slope(penalty.pieces(coef, own), model.curvature, coef, gradient, unit)


@kernel
def _largest_slope(pieces, curvature, coef, gradient, unit):
    largest = 0.0
    for a in range(len(coef)):
        if pieces.low[a] < coef[a] < pieces.high[a] and curvature[a] > 0:
            slope = abs(gradient[a] - pieces.right[a]) / unit[a]
            if np.isnan(slope):
                return slope
            largest = max(largest, slope)
    return largest


def _bound(model, where):
    """Bound of a block's eigenvalues: their sum, and the largest sum of sizes in a row."""
    trace = model.curvature[where].sum()
    if where.max() >= len(model.matrix) or len(model.sign):
        return trace
    rows = (np.abs(model.matrix[a, where]).sum() for a in where)
    return min(trace, model.weight * max(rows))


def _blocks(model, own):
    """Matrices of the blocks, of all of one size together."""
    coupled = len(model.matrix)
    for size, _, where in blocks_of_size(own):
        terms = model.terms[where]
        block = np.einsum("gik,k,gjk->gij", terms, model.sign, terms, optimize=True)
        if coupled:
            inside, known = where < coupled, np.minimum(where, coupled - 1)
            own_part = model.weight * model.matrix[known[:, :, None], known[:, None, :]]
            block += own_part * (inside[:, :, None] & inside[:, None, :])
        s = np.arange(size)
        block[:, s, s] = model.curvature[where]
        lost = model.curvature[where] <= 0.0
        block *= ~(lost[:, :, None] | lost[:, None, :])
        yield block


def _support_step(model, penalty, own, coef, gradient):
    """Solve the model where every coefficient keeps to its quadratic piece, and stops at its end.

    Coefficients between two pieces, such as zeros of the lasso, stay.  The products that it took.
    """
    pieces = penalty.pieces(coef, own)
    keeps = (pieces.low < coef) & (coef < pieces.high)
    support = np.flatnonzero(keeps & (model.curvature > 0))
    if not len(support):
        return 0.0
    old, slope = coef[support], gradient[support] - pieces.right[support]
    solve, cost = _solver(model, penalty, own, coef, support, pieces)
    reach = penalty.reach(coef, own)[support]
    low = np.maximum(pieces.low[support] - old, -reach)
    high = np.minimum(pieces.high[support] - old, reach)
    for share in FIRST_TO_STOP:
        step = _step(solve, slope, low, high, share)
        if step is None:
            break
        change = np.zeros(len(coef))
        change[support] = step
        change = model.times(change)
        rise = penalty.rise(support, step, pieces, coef, own)
        if step @ slope - 0.5 * step @ change[support] - rise > 0:
            coef[support] = old + step
            gradient -= change
            break
    return cost


def _solver(model, penalty, own, coef, support, pieces):
    """Function that solves the model on a support, None where a step has no end; its products."""
    size = len(support)
    if _is_low(model, size):
        own_part, terms, sign = penalty.bends(support, pieces, coef, own)
        terms, sign = np.hstack([model.terms[support], terms]), np.append(model.sign, sign)
        scale = model.curvature[support]
        share = (model.alone[support] + own_part) / scale
        n_terms = len(sign) + np.count_nonzero(share < HELD)
        if n_terms < size:
            return by_terms(share, scale, terms, sign), float(size) * n_terms**2
        if share.min() < -REGULAR:
            return None, 0.0
    block = model.block(support)
    penalty.add_curvature(block, support, pieces, coef, own)
    return by_matrix(block), size**3 / 3


def _step(solve, slope, low, high, first):
    """Newton's step between ends; None where there is none that is finite."""
    with suppress(np.linalg.LinAlgError):
        step = None if solve is None else _within(solve, slope, low, high, first)
        return step if step is None or np.isfinite(step).all() else None


def _within(solve, slope, low, high, first):
    """Newton's step, on whose way coefficients stop that come to their ends, the first ones first.

    Whenever some have stopped, the others go on from there to where the model has its minimum
    beside them.  Where columns are nearly the same, or more than rows can tell apart, the step is
    long and nothing gained by it but that some of them end at zero.  With E the columns of the unit
    matrix of what has stopped, and r how far the free step is beyond them,
    ``B^-1 E (E'B^-1 E)^-1 r`` is taken from it.
    """
    free = step = solve(slope)
    at, stopped, columns = np.zeros(len(slope)), np.empty(0, np.int64), np.empty((len(slope), 0))
    while True:
        beyond = (step < low) | (step > high)
        beyond[stopped] = False
        new = np.flatnonzero(beyond)
        if not len(new):
            return step
        end = np.where(step[new] < at[new], low[new], high[new])
        share = (end - at[new]) / (step[new] - at[new])
        far = np.quantile(share, first)
        at = np.clip(at + far * (step - at), low, high)
        new, end = new[share <= far], end[share <= far]
        at[new] = end
        if len(stopped) + len(new) > MOST_STOPPED * len(slope):
            return at
        unit = np.zeros((len(slope), len(new)))
        unit[new, np.arange(len(new))] = 1.0
        stopped = np.concatenate([stopped, new])
        columns = np.hstack([columns, solve(unit)])
        step = free - columns @ np.linalg.solve(columns[stopped], free[stopped] - at[stopped])
        step[stopped] = at[stopped]
