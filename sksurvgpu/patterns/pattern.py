"""Patterns: all that the package knows of one way of looping over rows.

A likelihood names its pattern, a class, and nothing outside of the pattern's folder asks which it
is.  Row plans, weights, bounds and contests are of the whole package; how rows are evaluated on a
CPU, on a device and in partitions, and what their information is, are classes of which each is
imported when it is first needed.  A new pattern is a subclass here, in a folder of its own, and the
line of a likelihood that names it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from inspect import getattr_static
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..backends.cpu.pattern import PatternOnCpu
    from .contests import Contests


@dataclass(frozen=True)
class Weighted:
    """Rows of a plan, copies in later pieces included, with the weights of one fit.

    It is what is known of them before any predictor, found once for a vector of weights.
    """

    plan: Any
    weight: np.ndarray | None  # float64 per row; None: all one
    live: np.ndarray  # bool per row: whether its predictor matters

    @property
    def observed(self):
        """Count or measurement of every row."""
        return self.plan.value

    def events(self):
        """Count or measurement of every row, times its weight."""
        return self.observed if self.weight is None else self.observed * self.weight

    def weights(self):
        """Weight of every row."""
        return np.ones(self.plan.n_rows) if self.weight is None else self.weight


class Lazy:
    """A class in a module of its pattern's folder, which is imported when it is first asked for."""

    def __init__(self, module: str, name: str):
        self._module, self._name = module, name

    def __set_name__(self, pattern, attribute):
        self._folder = pattern.__module__

    def __get__(self, instance, pattern):
        return getattr(import_module(self._module, self._folder), self._name)


class Missing:
    """A part that a pattern has not: who asks for it hears how to do without."""

    def __init__(self, without: str):
        self._without = without

    def __set_name__(self, pattern, attribute):
        self._part = attribute

    def __get__(self, instance, pattern):
        raise ValueError(f"This model's {pattern.__name__} has no `{self._part}`; {self._without}.")


_TOGETHER = "pass X and y in memory, and not in partitions"


class Pattern:
    """A way of looping over rows; the class itself is what likelihoods name."""

    # Whether the likelihood is given something of its groups, so that it ignores shifts in them.
    is_conditional = True
    # Whether plans have cells of time (`risk_sets.plan`), and lanes beside them (`carried.plan`).
    has_cells = has_lanes = False
    # Whether a row of weight 0 takes no part, and nothing else depends on its weight.
    weighs_rows = False

    on_cpu: type[PatternOnCpu]  # rows of one fit; no pattern is without
    on_device: Any = Missing('pass backend="cpu"')  # `PatternOnDevice`: all fits of a batch
    in_part: Any = Missing(_TOGETHER)  # `PatternInPart`: rows of a partition, which answer
    joined: Any = Missing(_TOGETHER)  # `Joining`: how a coordinator joins what they answer
    information: Any = Missing("take `bootstrap`")  # `View`: information and scores of a fit

    @classmethod
    def has(cls, part) -> bool:
        """Whether a part is there, by the name of its attribute."""
        return not isinstance(getattr_static(cls, part), Missing)

    @classmethod
    def weigh(cls, plan, weight) -> Weighted:
        """Plan under weights, which are in the order of the caller; None: all one."""
        return cls.weigh_rows(plan, None if weight is None else plan.per_copy(weight[plan.order]))

    @staticmethod
    def weigh_rows(plan, weight) -> Weighted:
        """Plan under weights in the order of its rows."""
        raise NotImplementedError

    @staticmethod
    def largest_loglik(likelihood, weighted) -> float:
        """Upper bound of the log-likelihood under weights, for the duality gap."""
        raise NotImplementedError

    @staticmethod
    def arrays(plan) -> dict[str, np.ndarray]:
        """Flat arrays of a plan, whatever the weights, as machines with many threads read them."""
        return {"order": np.asarray(plan.order, np.int32), "ones": np.ones((1, plan.n_rows))}

    @classmethod
    def contests(cls, problem, weight) -> Contests | None:
        """Contests of a problem under weights in the caller's order; None: it has none."""
        return cls.contests_among(problem, cls.weigh(problem.plan, weight))

    @classmethod
    def contests_among(cls, problem, weighted) -> Contests | None:
        """Contests of a problem's rows of positive weight."""
        raise NotImplementedError


def are_counted(plan, weight):
    """Rows of positive weight."""
    return np.ones(plan.n_rows, bool) if weight is None else weight > 0
