"""Information of coefficients whose rows are in partitions, exactly, and the meat of a sandwich.

Over risk sets the information is X' diag(h) X less, at every event time, ``dw m m'`` of the means m
over the rows at risk: sums of w x by cell, from which partitions take their own, divided by those
of w.  Under Efron's ties it is the mean of that over the shares of the tied deaths that have left.
The scores of rows need these means, and what they add up to with the slopes of the hazard.
"""

from __future__ import annotations

import numpy as np

__all__ = ["JumpSums", "information_of"]

MOST_NUMBERS = 2**28  # columns times event times: 2 GiB
TABLES = 4  # of so many numbers, where scores are asked for
SUMS = ("rows", "group_sums", "risk_sets")  # patterns whose information partitions can add up


class JumpSums:
    """Adds up X' diag(h) X, and sums of w x by cell where rows leave or come."""

    def __init__(self, problem, arranged):
        self._arranged, self._shape = arranged, (problem.n_columns, problem.plan.n_cells)
        self._gram = np.zeros((problem.n_columns, problem.n_columns))
        self._sums = {"jumps": np.zeros(self._shape)}
        self._uses_ties = problem.likelihood.uses_ties
        if self._uses_ties:
            self._sums["tied_jumps"] = np.zeros(self._shape)
        self._cell_ptr = problem.plan.cell_ptr

    def add(self, part, answer):
        """Take in the answer of a partition."""
        self._gram += answer.tables["gram"]
        for name, sums in self._sums.items():
            sums[:, self._arranged[part].own] += answer.tables[name]

    def join(self, cells, weighed):
        """Make sums over the rows at risk of those of rows that leave; all partitions are in."""
        self._cells, self._weighed, at_risk = cells, weighed, self._sums["jumps"]
        for first, end in zip(self._cell_ptr[:-1], self._cell_ptr[1:], strict=True):
            at_risk[:, first:end] = np.cumsum(at_risk[:, first:end][:, ::-1], axis=1)[:, ::-1]

    def _factors(self):
        """Event times, or tied deaths of one: cells, their weights, slopes, shares left, means."""
        at_risk, cells, weighed = self._sums["jumps"], self._cells, self._weighed
        dead = np.flatnonzero(weighed.deaths)
        if not self._uses_ties:
            weight, risk = weighed.death_weight[dead], cells.risk[dead]
            yield dead, weight, weight / risk, 0.0, at_risk[:, dead] / risk
            return
        for k in dead:
            deaths = int(weighed.deaths[k])
            gone = np.arange(deaths) / deaths
            weight, risk = weighed.death_weight[k] / deaths, cells.risk[k] - gone * cells.tied[k]
            sums = at_risk[:, [k]] - gone * self._sums["tied_jumps"][:, [k]]
            yield [k], np.full(deaths, weight), weight / risk, gone, sums / risk

    def information(self):
        """Information, and its diagonal before means go."""
        total = self._gram.copy()
        for _, weight, *_, means in self._factors():
            rooted = means * np.sqrt(weight)
            total -= rooted @ rooted.T
        return total, np.diagonal(self._gram).copy()

    def score_tables(self):
        """What scores of rows take from all cells, see `scores`."""
        names = ("means", "hazard_means", *(("held_means",) if self._uses_ties else ()))
        tables = {name: np.zeros(self._shape) for name in names}
        for where, _, slope, gone, means in self._factors():
            if not self._uses_ties:
                tables["means"][:, where] = means
                tables["hazard_means"][:, where] = means * slope
                continue
            tables["means"][:, where] = means.mean(axis=1, keepdims=True)
            tables["hazard_means"][:, where] = (means @ slope)[:, None]
            tables["held_means"][:, where] = (means @ (slope * gone))[:, None]
        hazard = tables["hazard_means"]
        for first, end in zip(self._cell_ptr[:-1], self._cell_ptr[1:], strict=True):
            hazard[:, first:end] = np.cumsum(hazard[:, first:end], axis=1)
        return tables


class MeatSums:
    """Adds up the products of scores."""

    meat = 0.0

    def add(self, part, answer):
        """Take in the answer of a partition."""
        self.meat = self.meat + answer.tables["meat"]


def information_of(session, problem, weighed, arranged, robust=False):
    """Steps to the information at the last evaluation of a session; it, and its diagonal before.

    And the meat of a sandwich, None unless it is `robust`.  ValueError: where partitions cannot add
    it up.
    """
    pattern, every = problem.likelihood.pattern, np.arange(problem.n_columns)
    if pattern not in SUMS:
        raise ValueError(
            "`X` is in partitions, which cannot add up the information of this model; take "
            "`bootstrap` or `profile_likelihood`."
        )
    of_pattern = _of_risk_sets if pattern == "risk_sets" else _of_rows
    *found, tables_of = yield from of_pattern(session, problem, weighed, arranged, every, robust)
    meat = None
    if robust:
        sums, coef = MeatSums(), session.sparse(session.point.coef)
        evaluation = session.point.evaluation

        def fields(part):
            fields = evaluation.fields(part)
            return fields | {"tables": fields.get("tables", {}) | tables_of(part)}

        yield [session._step_of_slopes(sums, coef, fields, ("meat",), every)]
        meat = sums.meat
    return *found, meat


def _of_rows(session, problem, weighed, arranged, every, robust):
    information, tables = (yield from session.matrix(every, 0)), {}
    curvature, _ = yield from session.curvature(every)
    if robust and problem.has_intercept:
        found = yield from session._ask_slopes(session.point, ("curvature",))
        tables = {"means": found["loads"][:, 0] / found["total"][0]}
    return information, curvature[:, 1], lambda part: tables


def _of_risk_sets(session, problem, weighed, arranged, every, robust):
    point, n_cells = session.point, problem.plan.n_cells
    if robust:
        n_cells = TABLES * max(n_cells, sum(len(part.own) for part in arranged.values()))
    if point.evaluation.cells is None or n_cells * len(every) > MOST_NUMBERS:
        raise ValueError(
            f"the information of {len(every):,} columns over {problem.plan.n_cells:,} event times "
            "in partitions needs too much memory, or predictors are beyond floating point; take "
            "`bootstrap` or `profile_likelihood`, or rescale columns."
        )
    sums = JumpSums(problem, arranged)
    coef, fields = session.sparse(point.coef), point.evaluation.fields
    yield [session._step_of_slopes(sums, coef, fields, ("gram", "jumps"), every)]
    sums.join(point.evaluation.cells, weighed)
    tables = sums.score_tables() if robust else {}

    def tables_of(part):
        return {name: table[:, arranged[part].own] for name, table in tables.items()}

    return *sums.information(), tables_of
