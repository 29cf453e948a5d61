"""The CPU backend: Numba kernels on threads."""

from __future__ import annotations

from .session import Session
from .threads import Threads, one_blas_thread

FEWEST_ENTRIES = 500_000  # of X: below, threads cost more than they bring


def run(problem, batch, coroutines, n_threads):
    """Serve the requests of every fit: fits over threads, or threads within a single fit."""
    entries = len(problem.design.indices) + len(problem.design.values)
    if entries < FEWEST_ENTRIES:
        n_threads = 1
    outer = min(n_threads, len(coroutines))
    with (
        one_blas_thread(),
        Threads(outer) as fits,
        Threads(n_threads if outer == 1 else 1) as inner,
    ):

        def serve(index):
            session = Session(
                problem, _column(batch.weight, index), _column(batch.offset, index), inner
            )
            coroutine, result = coroutines[index], None
            try:
                while True:
                    name, *arguments = coroutine.send(result)
                    result = getattr(session, name)(*arguments)
            except StopIteration as finished:
                return finished.value

        return fits.map(serve, range(len(coroutines)))


def _column(values, index):
    """Column of a fit; one column stands for all fits."""
    return None if values is None else values[:, index if values.shape[1] > 1 else 0]
