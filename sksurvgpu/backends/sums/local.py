"""Partitions that evaluate their rows alone: whole groups, or rows that nothing couples.

The CPU backend's patterns serve as they are, on the rows of the partition as if these were all.
An intercept couples all rows: the coordinator finds it from sums at `messages.nodes` (`intercept`),
and then it is a part of the offset.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
from scipy.sparse import csr_array

from ..._compile import specialize
from ...patterns.groups.plan import plan_groups
from ...patterns.on_cpu import PATTERNS as CPU_PATTERNS
from ...patterns.rows.cpu import observed_row
from ...patterns.rows.cpu_kernels import Rows
from ...patterns.weighted import inverse_of
from ..cpu.optional import row_weight
from .messages import MIDDLE, NODES, Arranged, Evaluated, Weights, nodes
from .pattern import Pattern

NO_CELLS = np.zeros(0, np.int64)


class LocalPattern(Pattern):
    """The CPU backend's pattern of a likelihood, on the rows of a partition."""

    joins = False

    @staticmethod
    def plan_of(rows, tables):
        outcome = rows.outcome
        return plan_groups(outcome.value, getattr(outcome, "group", None)), Arranged(NO_CELLS)

    def __init__(self, arranged, weight):
        super().__init__(arranged, weight)
        likelihood = self._likelihood(arranged.rows.likelihood)
        problem = SimpleNamespace(likelihood=likelihood, plan=self.plan)
        self.pattern = CPU_PATTERNS[likelihood.pattern](problem, weight, arranged.products.threads)
        self._eta, self._u, self._loglik = None, np.zeros(self.plan.n_rows), np.nan

    def _likelihood(self, likelihood):
        return likelihood

    def weigh(self):
        weighted = self.pattern.weighted
        weights = weighted.weights()
        return Weights(
            total=float(weights.sum()),
            rows=int(np.count_nonzero(weights)),
            events=float(weighted.events().sum()),
            largest=self.pattern.largest_loglik(),
            error_weight=self.pattern.error_weight(),
            tables={},
        )

    def evaluate(self, request):
        loglik = self._evaluate(self.predictor(request.coef))
        low, high = self._span(request)
        return Evaluated(loglik, low=low, high=high)

    def _span(self, request):
        """Bounds of the move: their difference is what the pattern measures it by."""
        if request.origin is None:
            return 0.0, 0.0
        eta = self.predictor(request.coef)
        return 0.0, self.pattern.reach(eta, self.predictor(request.origin))

    def _evaluate(self, eta):
        if self._eta is not eta:
            self._loglik, self._eta = self.pattern.evaluate(eta, self._u), eta
        return self._loglik

    def settle(self, eta, request):
        return self._evaluate(eta)

    def scores(self, x, places):
        return (x - self._means(x)[self.plan.group_idx]) * self._u[:, None]

    def _means(self, x):
        """Means of columns over groups of rows, weighted by h."""
        h, plan = np.zeros(self.plan.n_rows), self.plan
        self.pattern.observe(self._eta, self._u, h)

        member = csr_array((h, np.arange(plan.n_rows), plan.ptr), shape=(len(plan.ptr) - 1, len(h)))
        return (member @ x) * inverse_of(member.sum(axis=1))[:, None]

    def residuals(self):
        return self._u

    def sizes(self):
        return self.pattern.sizes(self._eta, self._u)

    def refer(self, h):
        return self.pattern.refer(self._eta, self._u, h)


class LocalSets(LocalPattern):
    """Matched sets, whose kernels begin where the evaluation before has ended."""

    def _evaluate(self, eta):
        self.pattern.sets.tau[:] = 0.0  # answers depend on messages alone
        return super()._evaluate(eta)


class LocalRows(LocalPattern):
    """A sum over rows; with an intercept, at what the coordinator has found."""

    def __init__(self, arranged, weight):
        super().__init__(arranged, weight)
        # the intercept's group goes beyond the partition
        self.joins = arranged.rows.likelihood.intercept
        self._rows = Rows(self.plan.value, self.pattern.weighted.weight)

    def _likelihood(self, likelihood):
        return replace(likelihood, intercept=False)

    def evaluate(self, request):
        if not self.joins:
            return super().evaluate(request)
        likelihood = self.arranged.rows.likelihood
        formula = observed_row(likelihood.row_formula, likelihood.observed_formula)
        loglik, (scores, curvatures) = np.zeros(1), np.zeros((2, NODES))
        sums = loglik, scores, curvatures
        eta, intercepts = self.predictor(request.coef), nodes(request.center)
        _sum_of(formula)(self._rows, eta, intercepts, *sums)
        low, high = self._span(request)
        names = ("loglik", "score", "curvature")
        return Evaluated(np.nan, low=low, high=high, tables=dict(zip(names, sums, strict=True)))

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


@cache
def _sum_of(row_formula):
    return specialize(_sum_profile, row_formula=row_formula)


def _sum_profile(rows, eta, intercepts, loglik, scores, curvatures):
    """Sums of score and observed curvature at every intercept, of log-likelihood at the middle."""
    for i in range(len(eta)):
        c = row_weight(rows.weight, i)
        if c > 0.0:
            y = rows.value[i]
            term, _, _ = row_formula(eta[i] + intercepts[MIDDLE], y)  # noqa: F821 (bound)
            loglik[0] += c * term
            # what nobody asks for, as a logarithm, is not compiled: a quarter of the time
            for k in range(len(intercepts)):
                _, score, curvature = row_formula(eta[i] + intercepts[k], y)  # noqa: F821
                scores[k] += c * score
                curvatures[k] += c * curvature
