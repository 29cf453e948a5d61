"""Groups of rows in partitions that have them as a whole, and evaluate them alone.

The CPU backend's rows serve as they are, on those of the partition as if these were all.
"""

from types import SimpleNamespace

import numpy as np
from scipy.sparse import csr_array

from ...backends.sums.joined import Joining
from ...backends.sums.labels import check_groups, numbered
from ...backends.sums.messages import Arranged, Evaluated, Weights
from ...backends.sums.pattern import PatternInPart
from ...backends.sums.problem import SumPlan
from ...data.vectors import inverse_of
from .plan import plan_groups

NO_CELLS = np.zeros(0, np.int64)


class GroupsInPart(PatternInPart):
    """The CPU backend's pattern of a likelihood, on the rows of a partition."""

    joins = False

    @staticmethod
    def describe(rows):
        outcome = rows.outcome
        _, labels = numbered(outcome.group, outcome.group_labels, rows.n_rows)
        return {"labels": np.zeros(1, np.int64) if labels is None else labels}

    @staticmethod
    def plan_of(rows, tables):
        outcome = rows.outcome
        return plan_groups(outcome.value, getattr(outcome, "group", None)), Arranged(NO_CELLS)

    def __init__(self, arranged, weight):
        super().__init__(arranged, weight)
        likelihood = self._likelihood(arranged.rows.likelihood)
        problem = SimpleNamespace(likelihood=likelihood, plan=self.plan)
        self.pattern = likelihood.pattern.on_cpu(problem, weight, arranged.products.threads)
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


class JoinedGroups(Joining):
    """Joins what partitions say of whole groups: sums of theirs."""

    @staticmethod
    def check(descriptions):
        """Refuse groups whose rows are in several partitions."""
        check_groups([description.tables for description in descriptions])

    @classmethod
    def open(cls, descriptions, n_rows, cuts, events_first):
        cls.check(descriptions)
        return SumPlan(n_rows), {}

    @staticmethod
    def information(session, robust):
        every = np.arange(session.link.problem.n_columns)
        information = yield from session.matrix(every, 0)
        curvature, _ = yield from session.curvature(every)
        return information, curvature[:, 1], lambda part: {}
