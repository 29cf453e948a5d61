"""A slow and obvious backend: dense matrices, loops over columns, no kernels.

It implements `sksurvgpu.backends.contract` from that text alone, and the others are tested against
it.  Its quadratic model is the Hessian of minus the log-likelihood, whatever the likelihood.
"""

import numpy as np
from numpy_patterns import PATTERNS, plain

from sksurvgpu.backends.contract import Counts, Room, serve_in_rounds
from sksurvgpu.penalties.blocks import move_block_of

LOST = 1e-13  # curvatures are rounding below this share of x' diag(h) x
MOST_PASSES = 1000


def descend(M, coef, slope, minimize, unit, shrink=0.0, enough=0.0):
    """Coordinate descent on a matrix; `minimize(z, curvature, a)`.

    Coefficients, passes, and the largest move of the last.
    """
    coef, slope, first = coef.copy(), slope.copy(), np.inf
    for count in range(MOST_PASSES):
        largest = 0.0
        for a in np.flatnonzero(np.diag(M) > 0):
            new = minimize(coef[a] * M[a, a] + slope[a], M[a, a], a)
            slope -= M[:, a] * (new - coef[a])
            largest = max(largest, M[a, a] * abs(new - coef[a]) / unit[a])
            coef[a] = new
        first = largest if count == 0 else first
        if largest <= max(shrink * first, enough):
            break
    return coef, float(count + 1), largest


def descend_blocks(M, coef, slope, move_block, c, unit, shrink):
    """The same over blocks, the columns of each moving together."""
    coef, slope, first = coef.copy(), slope.copy(), np.inf
    for count in range(MOST_PASSES):
        largest = 0.0
        for i in np.flatnonzero(c.size):
            a = c.member[i : i + c.size[i]]
            new, own = coef[a], np.where(np.diag(M)[a] > 0, slope[a], 0.0)
            move_block(own, new, np.diag(M), c, i, np.empty(len(a)))
            slope -= M[:, a] @ (new - coef[a])
            largest = max(largest, (np.diag(M)[a] * abs(new - coef[a]) / unit[a]).max())
            coef[a] = new
        first = largest if count == 0 else first
        if largest <= shrink * first:
            break
    return coef, float(count + 1)


class Session:
    """`contract.Operations` on the rows of one fit."""

    def __init__(self, problem, weight=None, offset=None, formulas=None, room=None, loan=None):
        plan, source, ptr = problem.plan, problem.source, problem.piece_ptr
        table = problem.design.to_scipy().toarray()
        applies = [(ptr[:, 0] <= b) & (b < ptr[:, 1]) for b in range(plan.n_pieces)]
        pieces = zip(plan.first, applies, strict=True)
        self._X = np.concatenate([table[first:, source] * now for first, now in pieces])
        weight = np.ones(plan.n_base) if weight is None else weight
        offset = np.zeros(plan.n_base) if offset is None else offset
        likelihood, weight = problem.likelihood, plan.per_copy(weight[plan.order])
        self._weight, self._reference = weight, None
        self._pattern = PATTERNS[likelihood.pattern](likelihood, plan, weight)
        self._offset = plan.per_copy(offset[plan.order])
        self._minimum, self._room = formulas and plain(formulas.minimum), room
        self._lent = None if loan is None else loan.matrix
        self._move_block = formulas and formulas.block and move_block_of(formulas)

    def _evaluate(self, eta):
        self._evaluated, self._now = eta, self._pattern.evaluate(eta)
        return float(self._now.loglik)

    def start(self, coef):
        self._eta = self._offset + self._X @ coef
        return self.evaluate()

    def step(self, coef):
        self._trial = self._offset + self._X @ coef
        move, group = self._trial - self._eta, self._pattern.group
        if self._pattern.is_quadratic:
            return 0.0
        if not self._pattern.ignores_shifts:
            return np.abs(move[group >= 0]).max(initial=0.0)
        return max((np.ptp(move[group == g]) for g in set(group) - {-1}), default=0.0)

    def shorten(self, share):
        self._trial = self._eta + share * (self._trial - self._eta)

    def evaluate_trial(self):
        return self._evaluate(self._trial)

    def attempt(self, coef, columns, longest):
        reach = self.step(coef)
        return reach, np.nan if reach > longest else self.evaluate_trial()

    def accept(self):
        assert self._evaluated is self._trial
        self._eta = self._trial

    def evaluate(self):
        return self._evaluate(self._eta)

    def gradient(self, columns):
        return self._X[:, columns].T @ self._now.u

    def rounding(self):
        size = np.abs(self._pattern.events) + np.abs(self._pattern.events - self._now.u)
        return 4.0 * np.finfo(float).eps * (size @ np.abs(self._X))

    def baseline(self):
        return np.copy(self._now.baseline) if np.ndim(self._now.baseline) else self._now.baseline

    def largest_loglik(self):
        return float(self._pattern.largest_loglik())

    def error_weight(self):
        return float(self._weight.sum()) if self._pattern.is_quadratic else 0.0

    def refer(self):
        assert self._evaluated is self._eta
        self._reference, self._h = self._eta, self._now.h
        self._has, self._is_loose = np.zeros((2, self._X.shape[1]), bool)

    def _matrix(self, columns):
        """X'MX over columns; x' diag(h) x where one of a pair is loose, 0 where x'Mx is lost."""
        X, loose = self._X[:, columns], self._is_loose[columns]
        without = X.T @ (self._h[:, None] * X)
        M = np.where(loose | loose[:, None], without, self._pattern.hessian(self._reference, X))
        lost = np.diag(M) <= LOST * np.diag(without)
        M[np.diag_indices_from(M)] = np.where(lost, 0.0, np.diag(M))
        return M, np.diag(without)

    def load(self, columns):
        self._has[columns] = True
        M, without = self._matrix(columns)
        return np.column_stack([np.diag(M), without])

    def measure(self, columns):
        M, without = self._matrix(columns)
        return np.where(np.diag(M) > 0, np.diag(M), LOST * without), float(self._h.sum())

    def loosen(self, columns):
        assert self._has[columns].all()
        self._is_loose[columns] = True

    def count(self, columns):
        entries = np.count_nonzero(self._X, axis=0)
        products = float(len(self._X) * len(columns) ** 2)
        own = float(entries[columns].sum())
        return Counts(own, own, float(entries.sum()), 0.0, products, True, len(self._X))

    def room(self):
        return self._room

    def sweep(self, columns, coef, penalty, unit, shrink):
        assert self._has[columns].all()
        M, _ = self._matrix(columns)
        if self._move_block:
            slope = self.gradient(columns)
            return descend_blocks(M, coef, slope, self._move_block, penalty, unit, shrink)

        def minimize(z, curvature, a):
            return self._minimum(z, curvature, penalty, a)

        return descend(M, coef, self.gradient(columns), minimize, unit, shrink)[:2]

    def gram(self, columns, known):
        assert self._has[columns].all()
        return self._matrix(columns)[0][known:]

    def hold(self, columns, known):
        if known:
            assert np.array_equal(columns[:known], self._held_columns)
        self._held_columns, self._held = columns, self._matrix(columns)[0]

    def descend(self, where, coef, gradient, curvature, weight, penalty, unit, enough, lent):
        M = weight * (self._lent if lent else self._held)[np.ix_(where, where)]
        M[(where < 0) | (where < 0)[:, None]] = 0.0
        M[np.diag_indices_from(M)] = curvature

        def minimize(z, curvature, a):
            return self._minimum(z, curvature, penalty, a)

        found, _, largest = descend(M, coef, gradient, minimize, unit, enough=enough)
        return found, largest

    def blocks(self, columns, sizes):
        M, ends = self.gram(columns, 0), np.cumsum(sizes)
        edges = zip(ends - sizes, ends, strict=True)
        return np.concatenate([M[low:high, low:high].ravel() for low, high in edges])

    def trial_curvature(self):
        if self._reference is None:
            return 0.0
        return self._pattern.hessian(self._reference, (self._trial - self._eta)[:, None])[0, 0]

    def cycle(self, columns, coef, penalty, reach):
        assert self._evaluated is self._eta
        coef, reach, eta = coef.copy(), reach.copy(), self._eta
        for a, j in enumerate(columns):
            now, x = self._pattern.evaluate(eta), self._X[:, [j]]
            curvature = self._pattern.hessian(eta, x)[0, 0]
            if curvature <= LOST * (now.h @ x[:, 0] ** 2):
                continue
            new = self._minimum(coef[a] * curvature + x[:, 0] @ now.u, curvature, penalty, a)
            step = np.clip(new - coef[a], -reach[a], reach[a])
            coef[a] = new if step == new - coef[a] else coef[a] + step
            reach[a] = max(2.0 * abs(step), 0.5 * reach[a])
            eta = eta + step * x[:, 0]
        return coef, reach


class NumpyBackend:
    """`contract.Backend`, all fits of a batch in rounds; by sweeps where it has no `room`."""

    batched = True

    def __init__(self, room=1e8, holds=False):
        self._room, self.served = Room(room, holds), set()

    def _open(self, problem, batch, formulas=None):
        def column(values, b):
            return None if values is None else values[:, b if values.shape[1] > 1 else 0]

        rows = [(column(batch.weight, b), column(batch.offset, b)) for b in range(batch.n_fits)]
        return [Session(problem, *each, formulas, self._room, batch.loan) for each in rows]

    def run(self, problem, batch, coroutines, n_threads):
        sessions = self._open(problem, batch, batch.penalty.formulas)

        def serve_round(operation, fits, arguments):
            self.served.add(operation)
            pairs = zip(fits, arguments, strict=True)
            return [getattr(sessions[fit], operation)(*own) for fit, own in pairs]

        return serve_in_rounds(serve_round, coroutines)

    def open_evaluator(self, problem, batch):
        return Evaluator(self._open(problem, batch))


class Evaluator:
    """`contract.Evaluator`."""

    def __init__(self, sessions):
        self._sessions = sessions

    def evaluate(self, coefs):
        logliks = [session.start(coef) for session, coef in zip(self._sessions, coefs, strict=True)]
        every = np.arange(coefs.shape[1])
        return np.array(logliks), np.array([session.gradient(every) for session in self._sessions])
