"""A backend whose rows are far, made of CPU sessions, which counts exchanges with them.

An exchange is an evaluation, a gradient, or what a quadratic model needs at its reference point:
the curvatures of all columns at once, with the matrix of those that join.  Curvatures come along
with the gradient where a fit starts; a matrix is more only if it is asked for later.
"""

import numpy as np

from sksurvgpu.backends import cpu
from sksurvgpu.backends.contract import Room, serve_in_rounds
from sksurvgpu.backends.cpu.session import Session
from sksurvgpu.backends.cpu.threads import Threads

LEVELS = ("diagonal", "sample", "full")
LOCAL = {"baseline", "error_weight", "largest_loglik", "loosen", "rounding"}
LOCAL |= {"trial_curvature"}
SAMPLED = 0.1  # of the rows
KEPT = 0.9  # of what a sample says that columns have in common


class FarSession:
    """`contract.Operations` of one fit, by a session and one that has a sample of its rows."""

    def __init__(self, session, sampled, backend):
        self._session, self._sampled, self._backend = session, sampled, backend
        self._levels = LEVELS[LEVELS.index(backend.level) :]
        self.exchanges, self._has_asked = 0, False

    # -- exchanges --------------------------------------------------------------------------
    def start(self, coef):
        self.exchanges += 1
        self._at = self._here = coef
        self._measured = coef
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

    def load(self, columns):
        self._have_curvature()
        return self._session.load(columns)

    def measure(self, columns):
        self._have_curvature()
        return self._session.measure(columns)

    def _have_curvature(self):
        self._has_asked = self._measured is not self._reference
        self.exchanges += self._has_asked
        self._measured = self._reference

    def gram(self, columns, known):
        self.exchanges += self._levels[0] != "diagonal" and not self._has_asked
        self._has_asked = False
        curvature = self._session.curvature[self._session.position[columns], 0]
        matrix = np.diag(curvature)
        if self._backend.matrix is not None:
            matrix = self._backend.matrix(matrix)
        elif self._levels[0] == "full":
            matrix = self._session.gram(columns, 0)
        elif self._levels[0] == "sample":
            matrix = self._of_sample(columns, curvature)
        return matrix[known:]

    def _of_sample(self, columns, curvature):
        session = self._sampled
        session.start(self._reference)
        session.refer()
        session.load(columns)
        matrix = session.gram(columns, 0)
        own = np.diagonal(matrix)
        scale = np.sqrt(np.divide(curvature, own, out=np.zeros_like(own), where=own > 0))
        matrix = KEPT * scale[:, None] * matrix * scale
        np.fill_diagonal(matrix, curvature)
        return matrix

    # -- what the coordinator knows --------------------------------------------------------------
    def shorten(self, share):
        self._trial = self._here + share * (self._trial - self._here)
        self._session.shorten(share)

    def accept(self):
        self._here = self._trial
        self._session.accept()

    def evaluate(self):
        self._at = self._here
        return self._session.evaluate()

    def refer(self):
        self._reference = self._at
        self._session.refer()

    def refine(self):
        if len(self._levels) == 1 or not self._backend.refines:
            return False
        self._levels = self._levels[1:]
        self._backend.refined += 1
        return True

    def room(self):
        return Room(self._backend.room, holds=False, far=True)

    def __getattr__(self, name):
        assert name in LOCAL, name
        return getattr(self._session, name)


class FarBackend:
    """`contract.Backend`: fits in rounds, by models of a level, or by what `matrix` makes of one.

    `exchanges` are those of every fit of the last batch.
    """

    batched = True

    def __init__(self, level="full", matrix=None, room=1e8, refines=True):
        self.level, self.matrix, self.room, self.refines = level, matrix, room, refines
        self.exchanges, self.refined = [], 0  # how often a better matrix was there

    def run(self, problem, batch, coroutines, n_threads):
        sessions = [self._open(problem, batch, b) for b in range(batch.n_fits)]

        def serve_round(operation, fits, arguments):
            pairs = zip(fits, arguments, strict=True)
            return [getattr(sessions[fit], operation)(*own) for fit, own in pairs]

        solutions = serve_in_rounds(serve_round, coroutines)
        self.exchanges = [session.exchanges for session in sessions]
        return solutions

    def _open(self, problem, batch, b):
        weight, offset = (
            None if values is None else values[:, b if values.shape[1] > 1 else 0]
            for values in (batch.weight, batch.offset)
        )
        n = problem.plan.n_base
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
