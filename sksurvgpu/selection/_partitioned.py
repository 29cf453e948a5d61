"""Folds of rows in partitions: dealt where the rows are, known here by their sums of weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.options import is_whole
from ..data.simulate.draw import generator
from ..estimators._columns import refuse
from ..estimators.models.base import model_of

__all__ = ["FarSplits", "deal"]


@dataclass(frozen=True, eq=False)
class FarSplits:
    """Recipes of the weights of every split, with what is known of them."""

    train: Any  # `backends.sums.recipes.Recipes`
    test: Any
    totals_: np.ndarray  # (n_splits,) weights of the fits
    sizes: np.ndarray  # ... and of what is held out, by which scores are averaged
    repeats: int
    dealing: np.ndarray  # what the folds depend on

    both = None  # the rows of either side are all rows

    def __len__(self):
        return len(self.train)

    def part(self, some: slice) -> FarSplits:
        """Some of the splits."""
        train, test = self.train[:, some], self.test[:, some]
        totals, sizes = self.totals_[some], self.sizes[some]
        return FarSplits(train, test, totals, sizes, self.repeats, self.dealing)

    def n_repeats(self):
        """How often a row is held out."""
        return float(self.repeats)

    def totals(self):
        """Sum of the weights of each fit."""
        return self.totals_


def deal(model, prepared) -> FarSplits:
    """Folds of a cross-validation, each with its share of every partition's events."""
    if not is_whole(model.cv):
        refuse("splitters and row numbers need rows here", "pass a number of folds as `cv`")
    prepared.check_subjects(model)
    seed = int(generator(model.random_state).integers(2**63))
    n_folds, n_repeats = int(model.cv), int(model.n_repeats)
    recipes = [prepared.folds(kind, n_folds, n_repeats, seed) for kind in ("train", "test")]
    train, test = (prepared.weigh(some) for some in recipes)
    for b, known in enumerate(train):
        if prepared.lacks(known):
            raise ValueError(
                f"split {b} of `cv` leaves nothing to fit; use fewer folds. Of its rows, none has "
                "an event and a positive weight, or all that have are of one class."
            )
    sizes = [known.total if model_of(model).counts_rows else known.events for known in test]
    totals = np.array([known.total for known in train])
    dealing = np.array([n_folds, n_repeats, seed, *prepared.units])
    return FarSplits(recipes[0], recipes[1], totals, np.array(sizes), n_repeats, dealing)
