"""Columns without a penalty, and those that separate the events by themselves.

Such are drugs without an event among those who took them. Where all events have one value of a
column, and no rival is beyond it, the likelihood rises for ever along the column, as long as a
rival has another value. Far along it such rivals cost nothing: what other columns can do is up to
the rows without them, among which further columns may separate by themselves. Linear programs over
all columns find the same (`_separation`), in minutes where there are many.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import lstsq, qr

SLACK = 1e-9  # of a column's range; rounding errors, unless a column is far from 0, are below 1e-13
CONSTANT = 1e-12  # share of a column's square, or of an eigenvalue, that is rounding
DEPENDENT = 1e-8  # part of a column's size that is rounding: it follows from others


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

    def like(self, others, coef, rows) -> np.ndarray:
        """Coefficients whose predictor in some rows is that of `others`, but for a constant."""
        values, predictor = self.rows(rows), others.dot(coef[others.idx] * others._range)[rows]
        values -= values.mean(axis=0)
        out = np.zeros_like(coef)
        out[self.idx] = lstsq(values, predictor - predictor.mean())[0] / self._range
        return out

    def independent(self, rows) -> np.ndarray:
        """Columns of which, but for constants, all are sums in some rows; mostly the first ones."""
        values, found = self.rows(rows), [self.idx[:0]]
        values -= values.mean(axis=0)
        basis = np.empty((len(rows), 0))
        for low in range(0, len(self.idx), len(rows)):
            block = values[:, low : low + len(rows)]
            for _ in range(2):  # the second time takes what rounding has left
                block = block - basis @ (basis.T @ block)
            q, r, order = qr(block, mode="economic", pivoting=True)
            rank = np.count_nonzero(np.abs(np.diagonal(r)) > DEPENDENT * np.sqrt(len(rows)))
            found.append(self.idx[low + np.sort(order[:rank])])
            basis = np.hstack([basis, q[:, :rank]])
        return np.concatenate(found)

    def _in(self, piece):
        """Columns whose coefficient applies in a piece of the time axis."""
        return (self._applies[:, 0] <= piece) & (piece < self._applies[:, 1])


def few_of(problem, contests, is_free, point):
    """Columns of which the others are sums in the rows that count, and as good a point in these."""
    few, rows = np.zeros_like(is_free), np.unique(contests.rows)
    if len(rows):
        columns = FreeColumns(problem, np.flatnonzero(is_free), rows)
        few[columns.independent(rows)] = True
        if point is not None and few.any():
            own = FreeColumns(problem, np.flatnonzero(few), rows)
            others = np.where(is_free, 0.0, point[1])
            point = point[0], others + own.like(columns, point[1], rows)
    return few, point


def flat_of(problem, is_free):
    """Columns of a linear model without an effect, by themselves."""
    columns = problem.X.select(problem.source[is_free])
    flat = [j for j in range(columns.n_columns) if columns.span(j) == 0.0]
    if problem.has_intercept:
        return flat
    # a constant takes its place
    return [j for j in flat if not columns.select(np.array([j])).to_scipy().sum()]


def is_collinear(problem, weight, idx):
    """Which of some columns of a linear model take part in a direction without an effect."""
    x = problem.X.select(problem.source[idx]).to_scipy().tocsr()
    x = x[weight[problem.plan.order] > 0]
    gram = (x.T @ x).toarray()
    size = np.diagonal(gram).copy()
    if problem.has_intercept:
        mean = x.sum(axis=0)
        gram -= np.outer(mean, mean / x.shape[0])
    varies = np.flatnonzero(np.diagonal(gram) > CONSTANT * size)
    unit = 1.0 / np.sqrt(np.diagonal(gram)[varies])
    values, vectors = np.linalg.eigh(gram[np.ix_(varies, varies)] * np.outer(unit, unit))
    null, out = vectors[:, values < CONSTANT * len(varies)], np.zeros(len(idx), bool)
    out[varies] = np.abs(null).max(axis=1, initial=0.0) > np.sqrt(CONSTANT)
    return out


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
