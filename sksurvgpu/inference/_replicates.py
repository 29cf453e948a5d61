"""Replicates of a fit: weights of all rows, made anew from a seed and a number when asked for.

What is drawn are units (rows, subjects, matched sets or groups), so that results depend on neither
threads nor order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from .._journal import check_folder
from ..data.by_fit import ColumnsOnDemand, Marks
from ..data.checks import check_sample_weight
from ..data.partitioned import refuse_partitions
from ..data.simulate.draw import generator
from ..data.vectors import check_labels
from ..estimators.models.base import model_of

__all__ = ["check_seeded", "replicates_of"]


def check_seeded(folder, random_state):
    """Check a folder, in which the same call goes on: that there is such a call."""
    check_folder(folder)
    if folder is not None and random_state is None:
        raise ValueError(
            "`folder` is where the same call goes on, and without a seed no call is the same; pass "
            "random_state=0, say."
        )


def units_of(groups, outcome):
    """Number of the unit of every row; None where rows are units."""
    own = outcome.unit
    if groups is None:
        return own
    unit = np.unique(check_labels(groups, "groups", outcome.n_rows), return_inverse=True)[1]
    if own is not None:
        first = np.zeros(own.max() + 1, unit.dtype)
        first[own] = unit
        torn = unit != first[own]
        if torn.any():
            row = int(np.argmax(torn))
            raise ValueError(
                f"`groups` tears rows apart that belong together: row {row:,} is in another group "
                "than a row of the same subject, stratum or matched set; give them one label."
            )
    return unit


def _draw_multinomial(seed, number, n_units):
    random = np.random.default_rng([seed, number])
    return np.bincount(random.integers(n_units, size=n_units), minlength=n_units)


def _draw_exponential(seed, number, n_units):
    return np.random.default_rng([seed, number]).standard_exponential(n_units)


def _draw_half(seed, number, n_units):
    order = np.random.default_rng([seed, number]).permutation(n_units)
    return _mark(order[: n_units // 2], n_units)


def _draw_complementary(seed, number, n_units):
    """Of numbers 2k and 2k + 1, two halves without a common unit."""
    order = np.random.default_rng([seed, number // 2]).permutation(n_units)
    size = n_units // 2
    return _mark(order[:size] if number % 2 == 0 else order[size : 2 * size], n_units)


def _mark(chosen, n_units):
    drawn = np.zeros(n_units)
    drawn[chosen] = 1.0
    return drawn


DRAWS = {
    "multinomial": _draw_multinomial,
    "exponential": _draw_exponential,
    "half": _draw_half,
    "complementary": _draw_complementary,
}
# Kinds that draw small numbers: with as many draws as units, none is near 256 (p < 1e-500).
COUNTS = ("multinomial", "half", "complementary")


@dataclass(frozen=True)
class Replicates:
    """Weights of replicates, each from the seed and its number."""

    model: object
    outcome: object
    base: np.ndarray | None  # of the rows, as the caller gave them
    unit: np.ndarray | None
    kind: str  # a key of `DRAWS`
    seed: int

    def weight(self, number):
        """Weights of the rows in a replicate, as ``fit`` makes them of `sample_weight`."""
        checked = model_of(self.model).check_weight(self.given_weight(number), self.outcome)
        return np.ones(self.outcome.n_rows) if checked is None else checked

    def given_weight(self, number):
        """Weights of the rows of a replicate, as ``fit`` would be given them in `sample_weight`."""
        weight = self.draw(number, np.float64)
        return weight if self.base is None else weight * self.base

    def columns(self, numbers):
        """Weights of some replicates, (n_rows, len(numbers))."""
        shape = self.outcome.n_rows, len(numbers)
        # counts are marks, unless the model makes other weights of them
        has_marks = self.kind in COUNTS and getattr(self.model, "class_weight", None) is None
        marks = partial(self._marks_of, np.asarray(numbers)) if has_marks else None
        return ColumnsOnDemand(shape, lambda k: self.weight(int(numbers[k])), marks)

    def _marks_of(self, numbers):
        base = np.ones(self.outcome.n_rows) if self.base is None else self.base
        times = np.broadcast_to(np.arange(256.0), (len(numbers), 256))
        return Marks(base, lambda number: self.draw(int(number), np.uint8), numbers, times)

    def draw(self, number, dtype):
        """How often the unit of every row is drawn in a replicate."""
        n_units = self.outcome.n_rows if self.unit is None else int(self.unit.max()) + 1
        drawn = DRAWS[self.kind](self.seed, number, n_units).astype(dtype)
        return drawn if self.unit is None else drawn[self.unit]

    def check_units(self):
        """There must be something to draw from."""
        unit = np.arange(self.outcome.n_rows) if self.unit is None else self.unit
        if self.base is not None:
            unit = unit[self.base > 0]
        if len(unit) == 0 or (unit == unit[0]).all():
            raise ValueError(
                "all rows of positive weight belong to one unit (subject, matched set or group), "
                "so that every replicate is the same; pass data of several, or other `groups`."
            )

    def totals(self, n_replicates):
        """Sum of the weights of each replicate, 0 where ``fit`` would refuse them."""
        totals = np.zeros(n_replicates)
        for number in range(n_replicates):
            try:
                totals[number] = self.weight(number).sum()
            except ValueError:  # no event, one class, or nothing to compare
                continue
        return totals


def replicates_of(model, prepared, sample_weight, groups, kind, random_state):
    """Replicates of rows, which are here or in partitions, with something to draw from."""
    seed = int(generator(random_state).integers(2**63))
    if prepared.in_partitions:
        replicates = FarReplicates.of(model, prepared, groups, kind, seed)
    else:
        outcome = prepared.outcome
        base = check_sample_weight(sample_weight, outcome.n_rows)
        units = units_of(groups, outcome)
        replicates = Replicates(model, outcome, base, units, kind, seed)
    replicates.check_units()
    return replicates


AT_ONCE = 16  # replicates that are weighed in an exchange: each has tables by event time


@dataclass(frozen=True)
class FarReplicates:
    """Replicates of rows in partitions, which draw from their own units."""

    prepared: Any
    kind: str
    seed: int

    unit = None

    @classmethod
    def of(cls, model, prepared, groups, kind, seed) -> FarReplicates:
        """Replicates of what is drawn whole where it is."""
        if groups is not None:
            refuse_partitions(
                "`groups` are drawn whole",
                "give them as `subject` of the outcome, or as partitions written with `group=`",
            )
        if getattr(model, "class_weight", None) == "balanced":
            refuse_partitions(
                "class_weight='balanced' is found anew in every replicate",
                "pass the weights of the classes as a dict",
            )
        prepared.check_subjects(model)
        return cls(prepared, kind, seed)

    def columns(self, numbers):
        """Weights of some replicates."""
        return self.prepared.replicates(self.kind, numbers, self.seed)

    def check_units(self):
        """There must be something to draw from."""
        if sum(self.prepared.units) < 2:
            raise ValueError(
                "all rows belong to one unit (subject, matched set or group), so that every "
                "replicate is the same; pass data of several."
            )

    def totals(self, n_replicates):
        """Sum of the weights of each replicate, 0 where ``fit`` would refuse them."""
        totals = np.zeros(n_replicates)
        for first in range(0, n_replicates, AT_ONCE):
            some = np.arange(first, min(first + AT_ONCE, n_replicates))
            known = self.prepared.weigh(self.columns(some))
            totals[some] = [0.0 if self.prepared.lacks(k) else k.total for k in known]
        return totals
