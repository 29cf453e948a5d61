"""Threads for kernels that release the interpreter lock, and how many there is work for.

An iteration of a fit has t seconds in kernels and s in Python, one thread at a time.  Fits side by
side then take max(s, (s + t) / n) an iteration with n threads: more than 1 + t / s find nothing to
do, and hand the lock to each other at a cost.  Both are counted and not timed, so that a call does
the same on every machine.
"""

import threading
from contextlib import contextmanager
from functools import cache
from itertools import count

import numpy as np
from threadpoolctl import ThreadpoolController

from ..._threads import Pool

PARTS = 4  # of a range for every thread, so that one that comes late leaves its share to others
FEWEST_ENTRIES = 500_000  # of X: below, threads within a fit cost more than they bring
# Nanoseconds of an iteration: of its kernels, a row and an entry; of Python with what it costs to
# hand over the lock.  Two threads were 0.7 times as fast as one at 1,000 rows x 50 columns, 1.2
# times at 10,000 x 50, 1.5 at 30,000 x 50 and 1.7 at 30,000 x 300 (Python 3.11, 5 % ones).
ROW, ENTRY, LOCKED = 25.0, 3.0, 250_000.0


def fits_at_once(design):
    """How many fits there is work for, side by side."""
    return 1 + int((ROW * design.n_rows + ENTRY * design.n_entries) / LOCKED)


def share_out(design, n_fits, n_threads):
    """Threads that share the fits of a batch, and threads within each of them."""
    outer = min(n_threads, n_fits, fits_at_once(design))
    within = outer == 1 and design.n_entries >= FEWEST_ENTRIES
    return outer, n_threads if within else 1


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
        return self._pool.map(function, items)

    def over_ranges(self, function, size, smallest=1):
        """Call ``function(low, high)`` on parts of ``range(size)``, none below `smallest`."""
        parts = max(1, min(self.n_threads * (4 if self.n_threads > 1 else 1), size // smallest))
        if self.n_threads == 1 or parts == 1:
            return function(0, size)
        edges = [size * k // parts for k in range(parts + 1)]
        return self.map(lambda k: function(edges[k], edges[k + 1]), range(parts))

    def over_blocks(self, function, n_blocks):
        """Call ``function(low, high)`` on ranges of blocks, the caller being one of the threads.

        It asks the others for help and begins: work of a tenth of a millisecond is not held up by
        theirs, which may be done before they are awake.
        """
        parts = min(PARTS * self.n_threads, n_blocks)
        if self._pool is None or parts < 2:
            function(0, n_blocks)
            return
        edges = [n_blocks * k // parts for k in range(parts + 1)]
        numbers = count()

        def work():
            while (k := next(numbers)) < parts:
                function(edges[k], edges[k + 1])

        others = [self._pool.submit(work) for _ in range(min(self.n_threads, parts) - 1)]
        work()
        for other in others:
            if not other.cancel():
                other.result()

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
