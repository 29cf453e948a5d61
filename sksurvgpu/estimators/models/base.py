"""A model apart from a fit of it: how rows are read, wherever they lie.

A model knows nothing of penalties, solvers and estimators. In memory and in partitions alike rows
go

    read_outcome, check_weight -> tell -> agree (all parts together) -> join -> outline

An estimator has a model, whose parameters are some of its own; a message to a partition names one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from ...data.checks import check_offset, check_sample_weight, count_events, refuse_weightless
from ..time_varying import Terms

Parameters = dict[str, tuple[Any, list]]  # name -> default, and scikit-learn's constraints
Tables = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Outline:
    """Likelihood, columns and, where there are rows, the outcome as a plan reads it."""

    likelihood: Any
    terms: Terms
    outcome: Any = None
    censoring: dict[str, Any] = field(default_factory=dict)  # what `plan_competing` needs

    @classmethod
    def plain(cls, likelihood, n_columns, names, outcome, **censoring) -> Outline:
        """One coefficient a column, at all times."""
        return cls(likelihood, Terms.of(None, n_columns, names), outcome, censoring)


@dataclass(frozen=True, eq=False)
class BaseModel:
    """How rows are read; `may_lack` are some of a fit's, which may have no event, say."""

    parameters: ClassVar[Parameters] = {}  # those of the estimator that are the model's
    effect: ClassVar[str | None] = None  # what exp(coef) is called, where it is a ratio
    has_dispersion: ClassVar[bool] = False  # whether the variance of the outcome is a parameter
    counts_rows: ClassVar[bool] = False  # whether a mean of scores is over rows, and not events
    clusters: ClassVar[str] = "subject"  # field of the outcome: rows that are not independent
    concordance: ClassVar[Callable[..., float] | None] = None
    agreed_apart: ClassVar[tuple[str, ...]] = ()  # parameters that parts get with what is agreed

    may_lack: bool = field(default=False, kw_only=True)

    def read_outcome(self, y, n_rows: int, **given) -> Any:
        """Check the outcome, and what else `fit` was given that belongs to it."""
        raise NotImplementedError

    def check_weight(self, sample_weight, outcome) -> np.ndarray | None:
        """Check the weights of rows."""
        return check_sample_weight(sample_weight, outcome.n_rows, outcome.event, self.may_lack)

    def read(self, y, n_rows: int, sample_weight, offset, given) -> tuple:
        """Outcome, weights and offsets of rows, checked, with exposures among the offsets."""
        outcome = self.read_outcome(y, n_rows, **given)
        weight = self.check_weight(sample_weight, outcome)
        offset = check_offset(offset, n_rows)
        exposure = getattr(outcome, "offset", None)
        if exposure is not None:
            offset = exposure if offset is None else exposure + offset
        return outcome, weight, offset

    def tell(self, outcome, weight) -> Tables:
        """Facts that a part of the rows tells of itself, for `agree`."""
        return {"events": count_events(outcome.event, weight)}

    def agree(self, told: list[Tables], n_rows: int) -> dict[str, Any]:
        """Facts that parts must know of each other, from all that they tell; or an error."""
        n_events, n_counted = np.sum([part["events"] for part in told], axis=0)
        if n_events and not n_counted:
            refuse_weightless(n_events)
        return {}

    def join(self, outcome, weight, agreed: dict[str, Any]) -> tuple[Any, np.ndarray | None]:
        """Outcome and weights of a part, given what the parts agreed on."""
        return outcome, weight

    def outline(self, n_columns: int, names, outcome=None) -> Outline:
        """Problem without its rows, as partitions are told it."""
        raise NotImplementedError

    def plan(self, outline: Outline, reorders: bool) -> Any:
        """Order and groups of rows in memory; `reorders` says whether X has to follow."""
        raise NotImplementedError

    def keeps(self, plan, outcome, weight) -> dict[str, Any]:
        """Fields of `Setting` that follow from rows in memory."""
        return {}

    def keeps_of_parts(self, problem, agreed, told) -> dict[str, Any]:
        """Fields of `Setting` that follow from rows in partitions."""
        return {}


def model_of(estimator, may_lack=False) -> BaseModel:
    """The model that an estimator has, fitted or not, of all rows of a fit or of some."""
    kind = estimator._model
    parameters = {name: getattr(estimator, name) for name in kind.parameters}
    return kind(**parameters, may_lack=may_lack)
