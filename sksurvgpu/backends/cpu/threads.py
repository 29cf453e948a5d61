"""Threads for kernels that release the interpreter lock."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from ..._threads import Pool


@cache
def _libraries():
    return ThreadpoolController()


@contextmanager
def one_blas_thread():
    """Keep BLAS to one thread: its waiting threads would spin against ours.

    The limit belongs to the process.  Two overlapping fits would each put back what they found, the
    later one the limit of the earlier, so only fits of the main thread set it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _libraries().limit(limits=1, user_api="blas"):
        yield


class Threads:
    """Calls a function over parts of an index range; with one thread, plainly."""

    def __init__(self, n_threads):
        self.n_threads = n_threads
        self._pool = Pool(n_threads) if n_threads > 1 else None

    def map(self, function, items):
        if self._pool is None:
            return [function(item) for item in items]
        return list(self._pool.map(function, items))

    def over_ranges(self, function, size, smallest=1):
        """Call ``function(low, high)`` on parts of ``range(size)``, none below `smallest`."""
        parts = max(1, min(self.n_threads * (4 if self.n_threads > 1 else 1), size // smallest))
        if self.n_threads == 1 or parts == 1:
            return function(0, size)
        edges = [size * k // parts for k in range(parts + 1)]
        return self.map(lambda k: function(edges[k], edges[k + 1]), range(parts))

    def over_triangle(self, function, low, high):
        """Call ``function(low, high)`` on rows of a lower triangle, equal areas of it."""
        areas = np.linspace(low**2, high**2, self.n_threads + 1)
        edges = np.round(np.sqrt(areas)).astype(int)
        self.map(lambda k: function(edges[k], edges[k + 1]), range(self.n_threads))

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self._pool is not None:
            self._pool.__exit__(*error)
