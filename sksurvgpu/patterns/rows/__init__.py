"""A sum over rows, with or without an intercept: logistic, Poisson and linear regression.

Plans are those of `groups` with all rows in one.
"""

import numpy as np

from ..contests import Contests
from ..groups import GroupPattern
from ..pattern import Lazy, Weighted, are_counted

FAR = 1e300  # a predictor at which scores have reached their limit


class RowPattern(GroupPattern):
    """A sum over rows, which are one group."""

    is_conditional = False
    weighs_rows = True
    on_cpu = Lazy(".cpu", "RowsOnCpu")
    on_device = Lazy(".cuda", "RowsOnDevice")
    in_part = Lazy(".part", "RowsInPart")
    joined = Lazy(".part", "JoinedRows")
    information = Lazy(".information", "RowView")

    @staticmethod
    def weigh_rows(plan, weight):
        return Weighted(plan, weight, are_counted(plan, weight))

    @staticmethod
    def largest_loglik(likelihood, weighted):
        terms, weights = likelihood.largest_terms(weighted.observed), weighted.weights()
        return float(weights @ terms if np.ndim(terms) else weights.sum() * terms)

    @classmethod
    def contests_among(cls, problem, weighted):
        """One contest: rows whose likelihood falls towards one side only are on the other."""
        likelihood, value, counts = problem.likelihood, problem.plan.value, weighted.live
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
