"""Contests: what all likelihoods have in common when predictors grow without bound.

Minus the log-likelihood is, but for terms that stay finite, a positive combination of

    log(1 + sum over i of exp(eta_i - eta_e)),

each over the rows i that an event e competes with: those at risk at its time, the rows of its
group, the other rows of its matched set. Along a direction d of the coefficients it tends to the
sum of max(0, x_i d - x_e d), so that it never rises exactly where

    x_e d >= x_i d   for every event e and every rival i of e.                                (1)

Events at one time are rivals of each other under Breslow's and Efron's formulas alike: in each of
the sums of Efron's, the weight of a tied death is positive. In an exact conditional likelihood the
cases are the most probable subset where none of them is below a row that is no case; cases of one
set are no rivals. A sum over rows is one contest: rows whose likelihood does not fall towards plus
infinity are events, towards minus infinity rivals, and all others both, as they must not move;
without an intercept, so is a row of zeros.

A cell is the time of an event in a stratum (or a group, or everything); a rival has its place in a
run of cells. (1) says that no rival is above the least event of its run: one pass over the rows,
with minima over runs from minima over runs of lengths 1, 2, 4 and so on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Contests:
    """Events and their rivals, rows numbered as in the plan; one more row is of zeros.

    Only cells with an event of positive weight are here, and only rows of positive weight.
    """

    event: np.ndarray  # (n_events,): rows, by cell
    event_ptr: np.ndarray  # (n_cells + 1,): events of each cell
    rival: np.ndarray  # (n_rivals,): rows
    first: np.ndarray  # (n_rivals,): first cell of the run
    last: np.ndarray  # (n_rivals,): cell after its last
    levels: list[np.ndarray]  # rivals whose run has 1, 2 to 3, 4 to 7, ... cells

    @classmethod
    def build(cls, is_event, cell_of_event, is_rival, enter, exit_, n_cells) -> Contests:
        """Arrange rows; a rival takes part in the cells of ``enter < cell <= exit_``.

        All but `n_cells` have an entry for each row.
        """
        event = np.flatnonzero(is_event)
        cell = cell_of_event[event]
        event = event[np.argsort(cell, kind="stable")]
        n_events = np.bincount(cell, minlength=n_cells)
        up_to = np.cumsum(n_events > 0).astype(np.int32)
        first, last = up_to[enter], up_to[exit_]
        rival = np.flatnonzero(is_rival & (last > first)).astype(np.int32)
        event_ptr = np.concatenate([[0], np.cumsum(n_events[n_events > 0])])
        return cls.of_runs(event, event_ptr, rival, first[rival], last[rival])

    @classmethod
    def of_runs(cls, event, event_ptr, rival, first, last) -> Contests:
        """Arrange rivals by the lengths of their runs."""
        level = np.frexp(last - first)[1] - 1
        levels = [np.flatnonzero(level == t) for t in range(level.max(initial=-1) + 1)]
        return cls(event, event_ptr, rival, first, last, levels)

    def without(self, is_dropped) -> Contests:
        """Contests without some rows as rivals."""
        kept = ~is_dropped[self.rival]
        rival, first, last = self.rival[kept], self.first[kept], self.last[kept]
        return self.of_runs(self.event, self.event_ptr, rival, first, last)

    @property
    def rows(self) -> np.ndarray:
        """Rows that take part, some of them twice."""
        return np.concatenate([self.event, self.rival])

    def draw(self, rng, n_pairs) -> np.ndarray:
        """Random pairs (event, rival)."""
        i = rng.integers(len(self.rival), size=n_pairs)
        cell = rng.integers(self.first[i], self.last[i])
        event = self.event[rng.integers(self.event_ptr[cell], self.event_ptr[cell + 1])]
        return np.column_stack([event, self.rival[i]])

    def excess(self, predictor) -> np.ndarray:
        """How far each rival is above the least event of its run."""
        least, bound = self._least(predictor), np.empty(len(self.rival))
        for t, members in enumerate(self.levels):
            ends = self.first[members], self.last[members] - 2**t
            bound[members] = np.minimum(least[ends[0]], least[ends[1]])
            least = np.minimum(least[: -(2**t)], least[2**t :])
        return predictor[self.rival] - bound

    def least_events(self, rivals, predictor) -> np.ndarray:
        """Row of the least event in the run of some rivals, given by their positions."""
        least, cell = self._least(predictor), np.empty(len(rivals), np.int64)
        at, first, last = np.arange(len(least)), self.first[rivals], self.last[rivals]
        level = np.frexp(last - first)[1] - 1
        for t in range(level.max(initial=-1) + 1):
            members = np.flatnonzero(level == t)
            low, high = first[members], last[members] - 2**t
            cell[members] = np.where(least[low] <= least[high], at[low], at[high])
            is_lower = least[2**t :] < least[: -(2**t)]
            at = np.where(is_lower, at[2**t :], at[: -(2**t)])
            least = np.minimum(least[: -(2**t)], least[2**t :])
        runs = (self.event[self.event_ptr[k] : self.event_ptr[k + 1]] for k in cell)
        return np.array([run[np.argmin(predictor[run])] for run in runs], np.int64)

    def _least(self, predictor):
        """Least event of every cell."""
        if not len(self.event):
            return np.empty(0)
        return np.minimum.reduceat(predictor[self.event], self.event_ptr[:-1])
