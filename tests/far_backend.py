"""A backend whose rows are far, made of CPU sessions, which counts exchanges with them.

An exchange is an evaluation, a gradient, or what a quadratic model needs at a point: the curvatures
of all columns at once, with a matrix that is asked for before them.  Curvatures come along with the
gradient where a fit starts.
"""

from collections import Counter

import numpy as np

from sksurvgpu.backends import cpu
from sksurvgpu.backends.contract import Room, serve_in_rounds
from sksurvgpu.backends.cpu.session import Session
from sksurvgpu.backends.cpu.threads import Threads

BASES = ("diagonal", "sample", "matrix")
LOCAL = {"baseline", "error_weight", "largest_loglik", "rounding"}
SAMPLED = 0.1  # of the rows


class FarSession:
    """`contract.Operations` of one fit, by a session and one that has a sample of its rows."""

    def __init__(self, session, sampled, backend):
        self._session, self._sampled, self._backend = session, sampled, backend
        self.exchanges, self._own = 0, np.empty(0)

    def start(self, coef):
        self.exchanges += 1
        self._at = self._here = self._measured = coef
        return self._session.start(coef)

    def attempt(self, coef, columns, longest):
        self.exchanges += 1
        self._trial = self._at = coef
        return self._session.attempt(coef, columns, longest)

    def evaluate_trial(self):
        self.exchanges += 1
        self._at = self._trial
        return self._session.evaluate_trial()

    def gradient(self, columns):
        assert len(columns) == self._session.n_columns
        self.exchanges += 1
        return self._session.gradient(columns)

    def curvature(self, columns):
        self.exchanges += self._measured is not self._at
        self._measured = self._at
        return self._session.curvature(columns)

    def matrix(self, columns, known):
        self._ask_for("matrix")
        if known == 0:
            self._measured = self._at
        rows = self._session.matrix(columns, known)
        if self._backend.matrix is None:
            return rows
        self._own = np.append(self._own[:known], np.diagonal(rows[:, known:]))
        return self._backend.matrix(np.diag(self._own))[known:]

    def sample(self, columns, n_rows):
        self._ask_for("sample")
        self._measured = self._at
        self._sampled.start(self._at)
        return self._sampled.matrix(columns, 0)

    def _ask_for(self, base):
        self.exchanges += 1
        self._backend.asked[base] += 1

    def shorten(self, share):
        self._trial = self._here + share * (self._trial - self._here)
        self._session.shorten(share)

    def accept(self):
        self._here = self._trial
        self._session.accept()

    def evaluate(self):
        self._at = self._here
        return self._session.evaluate()

    def room(self):
        names = ("diagonal", "sample", "matrix")
        first, best = names.index(self._backend.first), names.index(self._backend.best)
        return Room(self._backend.room, True, names[first : best + 1], counts=False)

    def __getattr__(self, name):
        assert name in LOCAL, name
        return getattr(self._session, name)


class FarBackend:
    """`contract.Backend`: fits in rounds, by bases from `first` to `best`.

    `matrix`, if there is one, makes another matrix of the diagonal of the right one.  `exchanges`
    are those of every fit of the last batch, `asked` counts the matrices of all.
    """

    batched = True

    def __init__(self, first="matrix", best="matrix", matrix=None, room=1e8):
        self.first, self.best, self.matrix, self.room = first, best, matrix, room
        self.exchanges, self.asked = [], Counter()

    def run(self, problem, batch, coroutines, n_threads):
        sessions = [self._open(problem, batch, b) for b in range(batch.n_fits)]

        def serve_round(operation, fits, arguments):
            pairs = zip(fits, arguments, strict=True)
            return [getattr(sessions[fit], operation)(*own) for fit, own in pairs]

        solutions = serve_in_rounds(serve_round, coroutines)
        self.exchanges = [session.exchanges for session in sessions]
        return solutions

    def _open(self, problem, batch, b):
        (weight, offset), n = batch.rows(b), problem.plan.n_base
        sampled = np.zeros(n) if weight is None else 0.0 * weight
        some = slice(0, max(1, int(SAMPLED * n)))
        sampled[some] = 1.0 if weight is None else weight[some]
        formulas = batch.penalty.formulas
        whole, part = (
            Session(problem, own, offset, Threads(1), formulas) for own in (weight, sampled)
        )
        return FarSession(whole, part, self)

    def open_evaluator(self, problem, batch):
        return cpu.open_evaluator(problem, batch)
