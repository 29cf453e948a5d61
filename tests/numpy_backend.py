"""A slow and obvious backend: dense matrices, loops over columns, no kernels.

It implements `sksurvgpu.backends.contract` from that text alone, and the others are tested against
it.  Its M is the Hessian of minus the log-likelihood in the predictor, whatever the likelihood.
"""

import numpy as np
from numpy_patterns import PATTERNS, centred_square, plain

from sksurvgpu.backends.contract import Counts, Room, serve_in_rounds

LOST = 1e-13  # curvatures are rounding below this share of x' diag(h) x
MOST_PASSES = 1000
ROOM = Room(1e8)


class Session:
    """`contract.Operations` on the rows of one fit."""

    def __init__(self, problem, weight=None, offset=None, formulas=None, room=None):
        plan, source, ptr = problem.plan, problem.source, problem.piece_ptr
        table = problem.design.to_scipy().toarray()
        applies = [(ptr[:, 0] <= b) & (b < ptr[:, 1]) for b in range(plan.n_pieces)]
        pieces = zip(plan.first, applies, strict=True)
        self._X = np.concatenate([table[first:, source] * now for first, now in pieces])
        weight = np.ones(plan.n_base) if weight is None else weight
        offset = np.zeros(plan.n_base) if offset is None else offset
        likelihood, weight = problem.likelihood, plan.per_copy(weight[plan.order])
        self._weight = weight
        self._pattern = PATTERNS[likelihood.pattern](likelihood, plan, weight)
        self._offset = plan.per_copy(offset[plan.order])
        self._minimum, self._room = formulas and plain(formulas.minimum), room

    def _evaluate(self, eta):
        self._evaluated, self._now = eta, self._pattern.evaluate(eta)
        return float(self._now.loglik)

    def start(self, coef):
        self._eta = self._offset + self._X @ coef
        return self.evaluate()

    def _reach(self):
        move, group = self._trial - self._eta, self._pattern.group
        if self._pattern.is_quadratic:
            return 0.0
        if not self._pattern.ignores_shifts:
            return np.abs(move[group >= 0]).max(initial=0.0)
        return max((np.ptp(move[group == g]) for g in set(group) - {-1}), default=0.0)

    def attempt(self, coef, columns, longest):
        self._trial = self._offset + self._X @ coef
        reach = self._reach()
        return reach, np.nan if reach > longest else self.evaluate_trial()

    def shorten(self, share):
        self._trial = self._eta + share * (self._trial - self._eta)

    def evaluate_trial(self):
        return self._evaluate(self._trial)

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

    def _here(self):
        assert self._evaluated is self._eta  # no trial is left
        return self._eta

    def _model(self, eta, columns):
        """X'MX over columns, 0 on its diagonal where that is lost; x' diag(h) x; the sum of h."""
        X, h = self._X[:, columns], self._pattern.evaluate(eta).h
        M, plain_diagonal = self._pattern.hessian(eta, X), h @ X**2
        diagonal = np.diag(M)
        np.fill_diagonal(M, np.where(diagonal > LOST * plain_diagonal, diagonal, 0.0))
        return M, plain_diagonal, float(h.sum())

    def curvature(self, columns):
        M, plain_diagonal, total = self._model(self._here(), columns)
        return np.column_stack([np.diag(M), plain_diagonal]), total

    def matrix(self, columns, known):
        if known == 0:
            self._point = self._here()
        else:
            assert np.array_equal(columns[:known], self._columns)
        self._columns = columns
        return self._model(self._point, columns)[0][known:]

    def factor(self, columns, known):
        if known == 0:
            self._point = self._here()
        M = self._model(self._point, np.arange(self._X.shape[1]))[0]
        values, vectors = np.linalg.eigh(M)
        new, sign = columns[known:], np.where(values < 0.0, -1.0, 1.0)
        return (vectors * np.sqrt(np.abs(values)))[new], sign, np.diag(M)[new]

    def sample(self, columns, n_rows):
        some = slice(None, None, max(1, len(self._X) // n_rows))
        X, h = self._X[some, columns], self._pattern.evaluate(self._here()).h[some]
        return centred_square(h, X) if self._pattern.ignores_shifts else X.T @ (h[:, None] * X)

    def count(self, columns):
        entries = np.count_nonzero(self._X, axis=0)
        products = float(len(self._X) * len(columns) ** 2)
        own = float(entries[columns].sum())
        return Counts(own, own, float(entries.sum()), 0.0, products, True, len(self._X))

    def room(self):
        return self._room

    def cycle(self, columns, coef, penalty, reach):
        coef, reach, eta = coef.copy(), reach.copy(), self._here()
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
    """`contract.Backend`, all fits of a batch in rounds, by the bases that its room allows."""

    batched = True

    def __init__(self, room=ROOM):
        self._room, self.served = room, set()

    def _open(self, problem, batch, formulas=None):
        return [Session(problem, *batch.rows(b), formulas, self._room) for b in range(batch.n_fits)]

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
