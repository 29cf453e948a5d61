"""The rows of a fit with the likelihood's state at its coefficients, columns as dense blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..backends.cpu.session import Session
from ..backends.cpu.threads import Threads

MOST_NUMBERS = 2**25  # in a dense block of columns: 256 MiB


@dataclass(frozen=True, eq=False)
class FittedRows:
    """Rows of a fit in the order of their plan, and the likelihood at the coefficients.

    Rows of a model whose coefficients change over time have a copy in every piece of the time axis
    that they reach; the copies are rows of their own here.
    """

    estimator: Any
    outcome: Any  # checked, in the caller's order
    problem: Any
    session: Session
    given_weight: np.ndarray | None  # per row of the caller
    batch: Any = None  # the fit's, without its penalty's strength
    route: Any = None  # by which it was carried out

    @property
    def plan(self):
        return self.problem.plan

    @property
    def n_coef(self) -> int:
        return self.problem.n_columns

    @cached_property
    def weight(self) -> np.ndarray:
        """Case weight of every row."""
        return self.session.pattern.weighted.weights()

    def at(self, coef) -> FittedRows:
        """Rows of the fit at other coefficients."""
        session = Session(self.problem, *self.batch.rows(0), Threads(1))
        session.start(coef)
        return replace(self, session=session)

    def blocks(
        self, n_numbers: int, widest: int | None = None, n_columns: int | None = None
    ) -> list[np.ndarray]:
        """Columns in runs that are small enough to be dense, with so many numbers a column."""
        n_columns = self.n_coef if n_columns is None else n_columns
        most = n_columns if widest is None else min(widest, n_columns)
        width = int(np.clip(MOST_NUMBERS // n_numbers, 1, max(most, 1)))
        return [np.arange(low, min(low + width, n_columns)) for low in range(0, n_columns, width)]

    def block(self, columns) -> np.ndarray:
        """Dense columns, (n_rows, len(columns)), rows contiguous."""
        return np.ascontiguousarray(self.session.products.dense(columns).T)

    def slopes(self, per_row) -> np.ndarray:
        """Sum of every column times a number per row."""
        return self.session.products.of_columns(np.arange(self.n_coef), per_row)

    def per_row(self, per_copy) -> np.ndarray:
        """Sum the copies of every row, and return to the caller's order."""
        plan, out = self.plan, np.zeros((self.plan.n_base, *per_copy.shape[1:]))
        summed = per_copy[: plan.n_base].copy()
        for first, shift in zip(plan.first[1:], plan.shift[1:], strict=True):
            summed[first:] += per_copy[first + shift : plan.n_base + shift]
        out[plan.order] = summed
        return out
