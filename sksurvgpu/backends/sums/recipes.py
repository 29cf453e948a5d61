"""Weights of rows in partitions: made there, from a recipe of a few numbers.

Recipes have no state: a partition that is asked again, or by another engine, makes the same
weights.  Draws of a fixed size are those of one draw from all units: the coordinator draws how many
fall to each partition, by the multinomial or hypergeometric law of such numbers, and each partition
deals its own.  Folds are dealt within partitions, each with its share of the events there.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...data.dealing import deal_folds, kinds_of
from .messages import Recipe

_SIZES = ("multinomial", "half", "complementary")  # draws whose number over all units is fixed
# What random numbers are for; not 0, which NumPy takes for no word of an address.
_TOTALS, _DRAWN, _FOLDS = 1, 2, 3


@dataclass(frozen=True)
class Dealt:
    """A recipe, and how many draws fall to each partition."""

    recipe: Recipe
    draws: np.ndarray


class Recipes(Sequence):
    """Weights of the fits of a batch, like an array (n_rows, n_fits); `units` are those of parts.

    ``recipes[:, b]`` is what `for_part` takes.
    """

    def __init__(self, n_rows, recipes, units):
        self._recipes, self._units = tuple(recipes), tuple(map(int, units))
        self.shape = (n_rows, len(self._recipes))

    @classmethod
    def of(cls, kind, numbers, seed, n_rows, units, of=0):
        """Recipes of one kind by their numbers; `of` folds."""
        total = sum(units)
        if total < of:
            raise ValueError(f"`cv` is {of}, and there are {total:,} units of rows only.")
        return cls(n_rows, [Recipe(kind, seed, int(number), of) for number in numbers], units)

    def __len__(self):
        return self.shape[1]

    def __getitem__(self, key):
        rows, fits = key if isinstance(key, tuple) else (slice(None), key)
        if rows != slice(None):
            raise IndexError("rows are in partitions, which make their weights themselves")
        if isinstance(fits, slice):
            return Recipes(self.shape[0], self._recipes[fits], self._units)
        recipe = self._recipes[fits]
        if recipe.kind not in _SIZES:
            return recipe
        return Dealt(recipe, deal_draws(recipe, self._units))


@dataclass(frozen=True)
class KnownPart:
    """Offset of all fits of a batch: X times coefficients, which partitions add to theirs."""

    n_rows: int
    coef: np.ndarray  # (n_columns,) of the model

    @property
    def shape(self):
        """Shape of an array of such weights: one column stands for all fits."""
        return self.n_rows, 1


def for_part(weight, part):
    """The recipe that a partition is sent; `weight` is a column of `Recipes`, or None."""
    if isinstance(weight, Dealt):
        return replace(weight.recipe, of=int(weight.draws[part]))
    return Recipe() if weight is None else weight


def deal_draws(recipe, units):
    """How many draws fall to each partition, given their numbers of units."""
    units = np.asarray(units, np.int64)
    total = int(units.sum())
    if total == 0:
        return np.zeros(len(units), np.int64)
    random = _random(_TOTALS, recipe, 0)
    if recipe.kind == "multinomial":
        return random.multinomial(total, units / total)
    spread = random.multivariate_hypergeometric
    first = spread(units, total // 2, method="marginals")
    if recipe.kind == "half" or recipe.number % 2 == 0:
        return first
    return spread(units - first, total // 2, method="marginals")


def _random(purpose, recipe, part):
    """Generator of a recipe; numbers 2k and 2k + 1 of complementary halves share one."""
    number = recipe.number // 2 if recipe.kind == "complementary" else recipe.number
    return np.random.default_rng([purpose, number, part, recipe.seed])


def count_units(rows):
    """Units that folds and draws keep whole, of rows or their outcome."""
    return rows.n_rows if rows.unit is None else len(np.unique(rows.unit))


def make_weight(recipe, rows, part, kept=None):
    """Weight of every row of a partition, which has a number; None for ones.

    `kept` is a dict for what takes long to make, while the rows are the same.
    """
    if recipe.kind == "given":
        return rows.weight
    if rows.outcome.n_rows == 0:
        return np.zeros(0)
    kept = {} if kept is None else kept
    if "unit" not in kept:
        kept["unit"] = None if rows.unit is None else np.unique(rows.unit, return_inverse=True)[1]
    unit = kept["unit"]
    n_units = rows.outcome.n_rows if unit is None else int(unit.max()) + 1
    if recipe.kind in ("train", "test"):
        repeat, fold = divmod(recipe.number, recipe.of)
        address = (repeat, recipe.of, part, recipe.seed)
        if address not in kept:
            kept[address] = _deal(address, rows, unit, n_units)
        times = (kept[address] == fold) == (recipe.kind == "test")
    else:
        times = _DRAWS[recipe.kind](recipe, n_units, part)
        times = times if unit is None else times[unit]
    return times * (1.0 if rows.weight is None else rows.weight)


def _deal(address, rows, unit, n_units):
    """Fold of every row."""
    repeat, n_folds, part, seed = address
    sequence = np.random.SeedSequence([_FOLDS, repeat, part, seed])
    random = np.random.RandomState(np.random.MT19937(sequence))
    weight = np.ones(rows.outcome.n_rows) if rows.weight is None else rows.weight
    kinds = kinds_of(rows.outcome, weight)
    return deal_folds(kinds, unit, n_units, n_folds, random).astype(np.uint32)


def _draw_multinomial(recipe, n_units, part):
    drawn = _random(_DRAWN, recipe, part).integers(n_units, size=recipe.of)
    return np.bincount(drawn, minlength=n_units)


def _draw_exponential(recipe, n_units, part):
    return _random(_DRAWN, recipe, part).standard_exponential(n_units)


def _draw_half(recipe, n_units, part):
    order = _random(_DRAWN, recipe, part).permutation(n_units)
    is_second = recipe.kind == "complementary" and recipe.number % 2 == 1
    drawn = np.zeros(n_units)
    drawn[order[n_units - recipe.of :] if is_second else order[: recipe.of]] = 1.0
    return drawn


_DRAWS = {
    "multinomial": _draw_multinomial,
    "exponential": _draw_exponential,
    "half": _draw_half,
    "complementary": _draw_half,
}
