"""Sums over rows in partitions.

An intercept couples all rows: the coordinator finds it from sums at `messages.nodes` (`intercept`),
and then it is a part of the offset.
"""

from dataclasses import replace
from functools import cache

import numpy as np

from ..._compile import BOUND, specialize
from ...backends.cpu.optional import row_weight
from ...backends.sums.joined import JoinedEvaluation, Totals
from ...backends.sums.messages import MIDDLE, NODES, Evaluated, nodes
from ..groups.part import GroupsInPart, JoinedGroups
from .cpu import RowOutcomes, observed_row
from .intercept import InterceptSearch, QuadraticSearch, first_intercept

row_formula = BOUND


class RowsInPart(GroupsInPart):
    """A sum over rows; with an intercept, at what the coordinator has found."""

    def __init__(self, arranged, weight):
        super().__init__(arranged, weight)
        # the intercept's group goes beyond the partition
        self.joins = arranged.rows.likelihood.intercept
        self._rows = RowOutcomes(self.plan.value, self.pattern.weighted.weight)

    def _likelihood(self, likelihood):
        return replace(likelihood, intercept=False)

    def evaluate(self, request):
        if not self.joins:
            return super().evaluate(request)
        likelihood = self.arranged.rows.likelihood
        formula = observed_row(likelihood.row_formula, likelihood.observed_formula)
        loglik, (scores, curvatures) = np.zeros(1), np.zeros((2, NODES))
        eta, intercepts = self.predictor(request.coef), nodes(request.center)
        _sum_of(formula)(self._rows, eta, intercepts, loglik, scores, curvatures)
        low, high = self._span(request)
        tables = {"loglik": loglik, "score": scores, "curvature": curvatures}
        return Evaluated(np.nan, low=low, high=high, tables=tables)

    def _span(self, request):
        if not self.joins or self.arranged.rows.likelihood.is_quadratic:
            return super()._span(request)
        return self.move(request, self.predictor(request.coef), self.pattern.live)

    def settle(self, eta, request):
        self._tables = request.tables
        return self._evaluate(eta + request.intercept if self.joins else eta)

    def scores(self, x, places):
        if self.joins:
            x = x - self._tables["means"][places]
        return x * self._u[:, None]

    @staticmethod
    def describe(rows):
        return {}


@cache
def _sum_of(row_formula):
    return specialize(_sum_profile, row_formula=row_formula)


def _sum_profile(rows, eta, intercepts, loglik, scores, curvatures):
    """Sums of score and observed curvature at every intercept, of log-likelihood at the middle."""
    for i in range(len(eta)):
        c = row_weight(rows.weight, i)
        if c > 0.0:
            y = rows.value[i]
            term, _, _ = row_formula(eta[i] + intercepts[MIDDLE], y)
            loglik[0] += c * term
            # what nobody asks for, as a logarithm, is not compiled: a quarter of the time
            for k in range(len(intercepts)):
                _, score, curvature = row_formula(eta[i] + intercepts[k], y)
                scores[k] += c * score
                curvatures[k] += c * curvature


class RowTotals(Totals):
    """Adds up evaluations without an intercept."""

    baseline = 0.0


class InterceptTotals(Totals):
    """Rows under one intercept, whose profile is known from a few of its values."""

    is_sum = False

    def __init__(self, problem, weighed, arranged, start):
        super().__init__(problem, weighed, arranged, start)
        if start is None:
            start = first_intercept(problem.likelihood, weighed.mean)
        is_line = problem.likelihood.is_quadratic
        self._search = QuadraticSearch(start) if is_line else InterceptSearch(start)

    def clear(self):
        super().clear()
        self._loglik, (self._scores, self._curvatures) = np.zeros(1), np.zeros((2, NODES))

    def fields(self, part):
        return {"center": self._search.center}

    def add(self, part, answer):
        super().add(part, answer)
        self._loglik += answer.tables["loglik"]
        self._scores += answer.tables["score"]
        self._curvatures += answer.tables["curvature"]

    def join(self):
        search = self._search
        search.read(self._loglik[0], self._scores, self._curvatures)
        if not search.found:
            return None
        where = {"intercept": search.intercept}
        # `inverse` is known once partitions have summed h: one bin
        return JoinedEvaluation(search.loglik, lambda: search.intercept, lambda part: where)


class JoinedRows(JoinedGroups):
    """Joins sums over rows, with or without an intercept."""

    @staticmethod
    def check(descriptions):
        """Accept any rows: nothing couples them but an intercept."""

    @staticmethod
    def totals(problem):
        return InterceptTotals if problem.has_intercept else RowTotals

    @staticmethod
    def information(session, robust):
        information, diagonal, tables_of = yield from JoinedGroups.information(session, robust)
        if robust and session.link.problem.has_intercept:
            found = yield from session.ask_slopes(session.point, ("curvature",))
            means = {"means": found["loads"][:, 0] / found["total"][0]}
            return information, diagonal, lambda part: means
        return information, diagonal, tables_of
