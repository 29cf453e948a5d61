"""The CPU backend: Numba kernels on threads."""

import numpy as np

from ..._memory import available
from ..contract import serve as serve_fit
from .session import Session
from .threads import Threads, one_blas_thread, share_out

batched = False  # each fit has a session, and threads share the fits

# For matrices: of what is free, and as much as X twice, but at least so much.
SHARE_OF_MEMORY, BYTES_OF_SMALL = 0.5, 2.0**29
# A matrix of all columns that is smaller is not worth a look at how much is free.
BYTES_OF_ELEMENT, BYTES_OF_TINY = 24.0, 2.0**22


def run(problem, batch, coroutines, n_threads):
    """Serve the requests of every fit: fits over threads, or threads within a single fit."""
    design = problem.given
    outer, within = share_out(design, len(coroutines), n_threads)
    room = _room_of_fit(design, problem.n_columns, outer)
    with one_blas_thread(), Threads(outer) as fits, Threads(within) as inner:

        def serve(index):
            weight, offset = batch.rows(index)
            session = Session(problem, weight, offset, inner, batch.penalty.formulas, room)
            return serve_fit(session, coroutines[index])

        return fits.map(serve, range(len(coroutines)))


def _room_of_fit(design, n_columns, n_at_once):
    """Bytes that the matrix of a fit may take."""
    size = max(BYTES_OF_SMALL, 2.0 * (design.indices.nbytes + design.values.nbytes))
    if BYTES_OF_ELEMENT * n_columns**2 <= BYTES_OF_TINY:
        return size
    return min(SHARE_OF_MEMORY * available() / n_at_once, size)


def open_evaluator(problem, batch):
    """Keep the rows of a batch of fits ready for evaluations, in one thread."""
    return CpuEvaluator(problem, batch)


class CpuEvaluator:
    """Log-likelihoods and their gradients, of fits whose rows are set up once."""

    def __init__(self, problem, batch):
        fits = range(batch.n_fits)
        self._sessions = [Session(problem, *batch.rows(b), Threads(1)) for b in fits]
        self._columns = np.arange(problem.n_columns)

    def evaluate(self, coefs):
        """Log-likelihood (n_fits,) and gradient (n_fits, n_columns) at coefficients like it."""
        logliks, gradients = np.empty(len(coefs)), np.empty(coefs.shape)
        for b, (session, coef) in enumerate(zip(self._sessions, coefs, strict=True)):
            logliks[b] = session.start(coef)
            gradients[b] = session.gradient(self._columns)
        return logliks, gradients
