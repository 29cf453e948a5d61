"""An evaluation of all rows, joined from what partitions say of theirs.

`Joining` says how, for one pattern.  Its classes add up the answers to one request each: `add`
takes the answer of a partition, in the order of partitions, and `join` makes what is known of all
rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

REMEDY = "take `bootstrap` or `profile_likelihood`"


@dataclass(frozen=True)
class Weighed:
    """All rows under one vector of weights: sums over them."""

    total: float
    rows: int
    mean: float  # weighted mean of what was counted or measured
    largest_loglik: float
    error_weight: float

    @property
    def events(self):
        """Weighted sum of what was counted or measured."""
        return self.mean * self.total


class Weighing:
    """Adds up `Weights`."""

    def __init__(self, problem, arranged):
        self._problem, self._arranged = problem, arranged
        self._sums = dict.fromkeys(("total", "rows", "events", "largest", "error_weight"), 0.0)

    def add(self, part, weights):
        """Take in the answer of a partition."""
        for name in self._sums:
            self._sums[name] += getattr(weights, name)

    def join(self):
        """All that is known."""
        sums = self._sums
        return Weighed(
            sums["total"],
            sums["rows"],
            sums["events"] / sums["total"] if sums["total"] > 0 else 0.0,
            sums["largest"],
            sums["error_weight"],
        )


@dataclass(frozen=True)
class JoinedEvaluation:
    """An evaluation of all rows, and what partitions need for sums over columns there."""

    loglik: float
    baseline: Callable[[], Any]
    fields: Callable[[int], dict]  # of `Slopes`, by partition
    # 1 / N of every bin of the quadratic model; None where partitions have centred it, or nothing
    # is centred
    inverse: np.ndarray | None = None
    cells: Any = None  # of risk sets, where they are not in logarithms


class Totals:
    """Adds up evaluations that are sums, which partitions make by themselves.

    `fields` are those of the `Evaluate` that goes to a partition.
    """

    baseline: Any = None
    is_sum = True  # whether partitions need nothing of each other

    def __init__(self, problem, weighed, arranged, start):
        self._problem, self._weighed, self._arranged = problem, weighed, arranged
        self.clear()

    def clear(self):
        """Begin to add up."""
        self.loglik, self._low, self._high = 0.0, np.inf, -np.inf

    def fields(self, part):
        """Fields of `Evaluate` beside coefficients and weights, by partition."""
        return {}

    def add(self, part, answer):
        """Take in the answer of a partition."""
        self.loglik += answer.loglik
        self._low = np.minimum(self._low, answer.low)  # NaN, where it is not told, stays
        self._high = np.maximum(self._high, answer.high)

    def join(self):
        """The evaluation; None where all have to be asked again, with other fields."""
        return JoinedEvaluation(self.loglik, lambda: self.baseline, lambda part: {})

    def reach(self):
        """R of the line search; 0 where partitions do not tell how far their rows moved."""
        if getattr(self._problem.likelihood, "is_quadratic", False):
            return 0.0
        if self._problem.ignores_shifts:
            reach = self._high - self._low
        else:
            reach = max(abs(self._low), abs(self._high))
        return float(reach) if np.isfinite(reach) and reach > 0.0 else 0.0


class SlopeSums:
    """Adds up `Sums`."""

    def __init__(self):
        self.sums = {}

    def add(self, part, answer):
        """Take in the answer of a partition."""
        for name, table in answer.tables.items():
            if name in self.sums:
                self.sums[name] += table
            else:
                self.sums[name] = table.copy()


class Joining:
    """How a coordinator joins the answers of partitions, for one pattern."""

    weighing: type[Weighing] = Weighing

    @staticmethod
    def open(descriptions, n_rows, cuts, events_first):
        """Plan of all rows, and tables that tell a partition of it (`messages.Arrange`)."""
        raise NotImplementedError

    @staticmethod
    def totals(problem) -> type[Totals]:
        """Class that adds up evaluations."""
        return Totals

    @staticmethod
    def information(session, robust):
        """Steps to the information at the last evaluation of a session, and its diagonal before.

        And to a function: what partitions take for the scores of their rows, by partition.
        ValueError: where partitions cannot add it up.
        """
        raise ValueError(
            f"`X` is in partitions, which cannot add up the information of this model; {REMEDY}."
        )
        yield


def information_of(session, robust):
    """Steps to the information at the last evaluation of a session; it, and its diagonal before.

    And the meat of a sandwich, None unless it is `robust`.
    """
    problem = session.link.problem
    joining = problem.likelihood.pattern.joined
    information, diagonal, tables_of = yield from joining.information(session, robust)
    meat = None
    if robust:
        sums, point = SlopeSums(), session.point

        def fields(part):
            own = point.evaluation.fields(part)
            return own | {"tables": own.get("tables", {}) | tables_of(part)}

        every = np.arange(problem.n_columns)
        yield [session.step_of_slopes(sums, session.sparse(point.coef), fields, ("meat",), every)]
        meat = sums.sums["meat"]
    return information, diagonal, meat
