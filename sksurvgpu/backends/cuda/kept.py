"""The problem that lies on a device, kept there for its next run.

A fit runs more than once: its null model, paths, folds, scores.  Each thread keeps its last problem
until another one comes or nothing else refers to it.  A problem is known by its parts themselves,
which are never written to.
"""

import threading
from weakref import ref


class _Last(threading.local):
    def __init__(self):
        self.entries = []  # at most one: references to a problem's parts, and its layout


_last = _Last()


def layout_of(make, device, problem):
    """Layout of a problem, by ``make(device, problem)`` if it is not the one that is kept."""
    layout = _find(device, problem)
    if layout is None:
        forget()  # before the next one takes its memory
        layout, entries = make(device, problem), _last.entries
        parts = [ref(part, lambda _: entries.clear()) for part in _parts(problem)]
        entries.append((parts, _reading(problem), layout))
    return layout


def held_bytes(device, problem):
    """Bytes that the problem has on the device already; others give theirs back."""
    layout = _find(device, problem)
    if layout is None:
        forget()
        return 0
    return sum(array.nbytes for array in (*layout.X, *layout.X_rows, *vars(layout.plan).values()))


def forget():
    """Give the memory of the kept problem back."""
    _last.entries.clear()


def _parts(problem):
    return problem.X, problem.plan, problem.source, problem.piece_ptr


def _reading(problem):
    """Parts of the likelihood that a layout depends on."""
    likelihood = problem.likelihood
    return likelihood.pattern, getattr(likelihood, "uses_ties", False)


def _find(device, problem):
    for parts, reading, layout in _last.entries:
        is_same = all(own() is part for own, part in zip(parts, _parts(problem), strict=True))
        if is_same and layout.device is device and reading == _reading(problem):
            return layout
    return None
