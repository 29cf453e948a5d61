"""Threads whose work ends soon after their caller does: after Ctrl-C, or where one of them fails.

Ctrl-C reaches the main thread alone, and Python's pools wait for what their threads have begun,
which may be a path of penalties on all rows.  So long work in threads asks between its steps
(`go_on`) whether its caller, or a caller of its caller, still waits for it.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

LOOK_UP = 0.5  # seconds

_of_thread = threading.local()


def usable_cpus() -> int:
    """CPUs that this process may use, which a container or a job scheduler limits."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Abandoned(BaseException):
    """Nobody waits for this work any more: no failure, which would be told or kept."""


class Pool(ThreadPoolExecutor):
    """Threads within a context; where it ends by an error, so does what they are at.

    Parameters
    ----------
    n_threads : int
        How many threads there are at most.
    """

    def __init__(self, n_threads):
        super().__init__(n_threads, initializer=self._enter)
        self.caller = getattr(_of_thread, "pool", None)  # pool whose thread makes this one
        self.is_left = False

    def map(self, function, items):
        """Results of a function of each item, a list."""
        futures = [self.submit(function, item) for item in items]
        try:
            return [_result_of(future) for future in futures]
        finally:
            for future in futures:
                future.cancel()

    def _enter(self):
        _of_thread.pool = self

    def __exit__(self, kind, *error):
        self.is_left = kind is not None
        self.shutdown(cancel_futures=self.is_left)


def _result_of(future):
    """Result of a future, with a look up now and then: Python sees a signal that comes right before
    a wait without end only after it."""
    while True:
        try:
            return future.result(LOOK_UP)
        except TimeoutError:
            if future.done():
                raise


def go_on():
    """Raise `Abandoned` in a thread of a pool that was left, or within such a thread's pools."""
    pool = getattr(_of_thread, "pool", None)
    while pool is not None:
        if pool.is_left:
            raise Abandoned
        pool = pool.caller


def over_columns(function, cost, n_threads):
    """Call ``function(first, last)`` on ranges of columns of about the same total cost."""
    total = np.cumsum(cost)
    cuts = np.searchsorted(total, total[-1] * np.arange(1, n_threads) / n_threads)
    bounds = np.unique(np.concatenate([[0], cuts, [len(cost)]])).tolist()
    if len(bounds) == 2:
        function(*bounds)
        return
    with Pool(len(bounds) - 1) as pool:
        pool.map(lambda part: function(*part), pairwise(bounds))
