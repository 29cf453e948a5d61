"""Columns without a penalty, and those that separate the events by themselves.

Such are drugs without an event among those who took them. Where all events have one value of a
column, and no rival is beyond it, the likelihood rises for ever along the column, as long as a
rival has another value. Far along it such rivals cost nothing: what other columns can do is up to
the rows without them, among which further columns may separate by themselves. Linear programs over
all columns find the same (`_separation`), in minutes where there are many.
"""

from __future__ import annotations

import numpy as np

SLACK = 1e-9  # of a column's range; rounding errors, unless a column is far from 0, are below 1e-13


class FreeColumns:
    """Columns that vary and have no penalty, in units of their range."""

    def __init__(self, problem, idx, rows):
        self._plan, self._design = problem.plan, problem.X.select(problem.source[idx])
        self._applies, self._range = problem.piece_ptr[idx], np.ones(len(idx))
        largest, span = np.empty((2, len(idx)))
        for j, unit in enumerate(np.eye(len(idx))):
            values = self.dot(unit)[rows]
            largest[j], span[j] = np.abs(values).max(), np.ptp(values)
        varies = np.flatnonzero(span > 0)
        self.idx, self._applies, self._range = idx[varies], self._applies[varies], span[varies]
        self._design = self._design.select(varies)
        rounding = np.finfo(float).eps * (largest[varies] / self._range).sum()
        self.slack = max(SLACK, 4.0 * rounding)

    def dot(self, z) -> np.ndarray:
        """Predictor of every row, and of one of zeros."""
        coef, parts = z / self._range, []
        for b, start in enumerate(self._plan.first):
            parts.append(self._design.dot(np.where(self._in(b), coef, 0.0))[start:])
        return np.concatenate([*parts, [0.0]])

    def direction(self, coef) -> np.ndarray:
        """Coefficients of a model as a direction, whose largest entry is 1 or -1."""
        z = coef[self.idx] * self._range
        return z / max(np.abs(z).max(initial=0.0), 1e-300)

    def rows(self, rows) -> np.ndarray:
        """Dense rows, in units of the columns' ranges."""
        plan, out = self._plan, np.zeros((len(rows), len(self.idx)))
        starts = np.append(plan.first + plan.shift, plan.n_rows)
        piece = np.searchsorted(starts, rows, side="right") - 1
        for b in range(plan.n_pieces):
            here = np.flatnonzero(piece == b)
            part = self._design[rows[here] - plan.shift[b]].to_scipy().toarray()
            out[here] = np.where(self._in(b), part, 0.0)
        return out / self._range

    def _in(self, piece):
        """Columns whose coefficient applies in a piece of the time axis."""
        return (self._applies[:, 0] <= piece) & (piece < self._applies[:, 1])


def set_aside(problem, contests, is_free) -> tuple[np.ndarray, np.ndarray]:
    """Columns that separate, and the rows that are no rivals in what they leave to the others."""
    is_lone, is_gone = np.zeros_like(is_free), np.zeros(problem.plan.n_rows + 1, bool)
    while problem.plan.n_pieces == 1 and len(contests.rival):
        is_dropped = np.zeros_like(is_gone)
        for j in np.flatnonzero(is_free & ~is_lone):
            value = _column(problem, j)
            value -= value[contests.event[0]]
            if value[contests.event].any() or not _is_beyond(value[contests.rival]):
                continue
            is_moved = np.zeros_like(is_dropped)
            is_moved[contests.rival] = value[contests.rival] != 0.0
            if not is_moved[-1]:  # the row of zeros is no one's to drop
                is_lone[j], is_dropped = True, is_dropped | is_moved
        if not is_dropped.any():
            break
        is_gone |= is_dropped
        contests = contests.without(is_dropped)
    return is_lone, is_gone


def _column(problem, j):
    """Values of a column, and of a row of zeros."""
    return np.append(problem.X.select(problem.source[[j]]).dot(np.ones(1)), 0.0)


def _is_beyond(value):
    """Whether some values differ from 0, and all of these to one side."""
    low, high = value.min(), value.max()
    return (low < high and 0.0 in (low, high)) or low == high != 0.0
