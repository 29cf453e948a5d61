"""Information of coefficients whose rows are in partitions, exactly.

Over risk sets it is X' diag(h) X less, at every event time, ``dw m m'`` of the means m over the
rows at risk: sums of w x by cell, from which partitions take their own, divided by those of w.
Under Efron's ties it is the mean of that over the shares of the tied deaths that have left.
"""

from __future__ import annotations

import numpy as np

from .messages import Coef

__all__ = ["JumpSums", "information_of"]

MOST_NUMBERS = 2**28  # columns times event times: 2 GiB
SUMS = ("rows", "group_sums", "risk_sets")  # patterns whose information partitions can add up


class JumpSums:
    """Adds up X' diag(h) X, and sums of w x by cell where rows leave or come."""

    def __init__(self, problem, arranged):
        self._arranged, shape = arranged, (problem.n_columns, problem.plan.n_cells)
        self._gram = np.zeros((shape[0], shape[0]))
        self._sums = {"jumps": np.zeros(shape)}
        if problem.likelihood.uses_ties:
            self._sums["tied_jumps"] = np.zeros(shape)
        self._cell_ptr = problem.plan.cell_ptr

    def add(self, part, answer):
        """Take in the answer of a partition."""
        self._gram += answer.tables["gram"]
        for name, sums in self._sums.items():
            sums[:, self._arranged[part].own] += answer.tables[name]

    def information(self, cells, weighed):
        """Information, and its diagonal before means go."""
        at_risk = self._sums["jumps"]
        for first, end in zip(self._cell_ptr[:-1], self._cell_ptr[1:], strict=True):
            at_risk[:, first:end] = np.cumsum(at_risk[:, first:end][:, ::-1], axis=1)[:, ::-1]
        dead, risk, total = np.flatnonzero(weighed.deaths), cells.risk, self._gram.copy()
        if "tied_jumps" not in self._sums:
            means = at_risk[:, dead] * (np.sqrt(weighed.death_weight[dead]) / risk[dead])
            return total - means @ means.T, np.diagonal(self._gram).copy()
        for k in dead:
            deaths = int(weighed.deaths[k])
            gone = np.arange(deaths) / deaths
            sums = at_risk[:, [k]] - gone * self._sums["tied_jumps"][:, [k]]
            means = sums / (risk[k] - gone * cells.tied[k])
            total -= weighed.death_weight[k] / deaths * (means @ means.T)
        return total, np.diagonal(self._gram).copy()


def information_of(session, problem, weighed, arranged):
    """Steps to the information at the last evaluation of a session; it, and its diagonal before.

    ValueError: where partitions cannot add it up.
    """
    pattern, every = problem.likelihood.pattern, np.arange(problem.n_columns)
    if pattern not in SUMS:
        raise ValueError(
            "`X` is in partitions, which cannot add up the information of this model; take "
            "`bootstrap` or `profile_likelihood`."
        )
    if pattern != "risk_sets":
        session.refer()
        loaded = yield from session.load(every)
        return (yield from session.gram(every, 0)), loaded[:, 1]
    point = session.point
    if point.evaluation.cells is None or problem.plan.n_cells * len(every) > MOST_NUMBERS:
        raise ValueError(
            f"the information of {len(every):,} columns over {problem.plan.n_cells:,} event times "
            "in partitions needs too much memory, or predictors are beyond floating point; take "
            "`bootstrap` or `profile_likelihood`, or rescale columns."
        )
    sums = JumpSums(problem, arranged)
    yield [
        session.step_of_slopes(
            sums, Coef.of(point.coef), point.evaluation.fields, ("gram", "jumps"), every
        )
    ]
    return sums.information(point.evaluation.cells, weighed)
