"""Seconds that a process waited beside its work, and whether a user reads messages about it.

Apart from `_progress`, because kernels come from disk before scikit-learn is imported.
"""

import sys

NOTICEABLE = 1.0  # seconds of compiling that are told
_compiling = [0.0]


def set_aside(seconds):
    """Count time of compiling: it tells nothing about the steps of work that are left."""
    _compiling[0] += seconds


def seconds_of_compiling():
    """Of this process, so far."""
    return _compiling[0]


def in_worker():
    """Whether this is a process of a pool, whose parent's user would read a line from each."""
    pool = sys.modules.get("multiprocessing")  # which a worker's process has imported
    return pool is not None and pool.current_process().name != "MainProcess"
