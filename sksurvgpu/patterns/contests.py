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

from .weighted import weigh

__all__ = ["Contests", "contests_of"]

FAR = 1e300  # a predictor at which scores have reached their limit


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
        first, last = first[rival], last[rival]
        level = np.frexp(last - first)[1] - 1
        levels = [np.flatnonzero(level == t) for t in range(level.max(initial=-1) + 1)]
        event_ptr = np.concatenate([[0], np.cumsum(n_events[n_events > 0])])
        return cls(event, event_ptr, rival, first, last, levels)

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
        least, out = self._least(predictor), np.empty(len(rivals), np.int64)
        for a, i in enumerate(rivals):
            cell = self.first[i] + np.argmin(least[self.first[i] : self.last[i]])
            events = self.event[self.event_ptr[cell] : self.event_ptr[cell + 1]]
            out[a] = events[np.argmin(predictor[events])]
        return out

    def _least(self, predictor):
        """Least event of every cell."""
        if not len(self.event):
            return np.empty(0)
        return np.minimum.reduceat(predictor[self.event], self.event_ptr[:-1])


def contests_of(problem, weight) -> Contests | None:
    """Contests of a problem under row weights in the caller's order; None: it has none."""
    counts = problem.plan.per_copy(weight[problem.plan.order] > 0)
    return _OF_PATTERN[problem.likelihood.pattern](problem, weight, counts)


def _of_rows(problem, weight, counts):
    likelihood, value = problem.likelihood, problem.plan.value
    if likelihood.is_quadratic:
        return None
    values, row = np.unique(value, return_inverse=True)
    falls, rises = (
        np.array([sign * likelihood.row_formula(sign * FAR, y)[1] >= 0 for y in values])[row]
        for sign in (-1.0, 1.0)
    )
    is_zero_row = [not likelihood.intercept]
    is_event = np.append(counts & ~falls, is_zero_row)
    is_rival = np.append(counts & ~rises, is_zero_row)
    everything = np.ones(len(is_event), np.int64)
    return Contests.build(is_event, everything, is_rival, 0 * everything, everything, 2)


def _of_groups(problem, weight, counts):
    plan = problem.plan
    group = plan.group_idx.astype(np.int64)
    is_event = counts & (plan.value > 0)
    return Contests.build(is_event, group + 1, counts, group, group + 1, plan.n_strata + 1)


def _of_subsets(problem, weight, counts):
    plan = problem.plan
    group, is_case = plan.group_idx.astype(np.int64), plan.value > 0
    is_event, is_rival = counts & is_case, counts & ~is_case
    return Contests.build(is_event, group + 1, is_rival, group, group + 1, plan.n_strata + 1)


def _of_risk_sets(problem, weight, counts):
    return _until(problem.plan, counts, problem.plan.exit_idx)


def _of_carried_risk_sets(problem, weight, counts):
    """Rows are carried along their lane while the censoring curve is positive."""
    plan, carrying = problem.plan, problem.plan.carrying
    is_positive = weigh(plan, problem.likelihood.pattern, weight).survival > 0
    end = carrying.lane_cell + np.add.reduceat(is_positive, carrying.lane_ptr[:-1], dtype=int) - 1
    lane = np.searchsorted(carrying.lane_ptr, carrying.carry_idx, side="right") - 1
    exit_ = plan.exit_idx.astype(np.int64)
    return _until(plan, counts, np.where(carrying.competing, np.maximum(end[lane], exit_), exit_))


def _until(plan, counts, exit_):
    """Contests of risk sets that rows leave after a cell."""
    enter = plan.enter_idx
    if enter is None:
        enter = plan.cell_ptr[np.searchsorted(plan.cell_ptr, plan.exit_idx, side="right") - 1]
    is_event = counts & (plan.event > 0)
    return Contests.build(is_event, plan.exit_idx, counts, enter, exit_, plan.n_cells)


_OF_PATTERN = {
    "rows": _of_rows,
    "group_sums": _of_groups,
    "subsets": _of_subsets,
    "risk_sets": _of_risk_sets,
    "carried_risk_sets": _of_carried_risk_sets,
}
