"""Replicates of a fit: weights of all rows, made anew from a seed and a number when asked for.

What is drawn are units (rows, subjects, matched sets or groups), so that results depend on neither
threads nor order.

Transformers of a pipeline learn from the rows that were drawn, as often as they were; to the model
weights say the same. A row that was not drawn has none, and the columns of one that was:
transformers may not know its own, as where only it has some level of a factor.

Replicates that choose their penalties by cross-validation, and those of a pipeline, with columns of
their own, are fitted one after the other. They weight rows, so that all that is drawn of a row is
in one fold.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from scipy.sparse import csc_array

from .._journal import check_folder
from ..data.by_fit import ColumnsOnDemand, Marks
from ..data.checks import check_sample_weight
from ..data.design.columns import build_design
from ..data.partitioned import refuse_partitions
from ..data.simulate.draw import generator
from ..data.vectors import check_labels
from ..estimators._preparing import prepare
from ..estimators.models.base import model_of
from ..estimators.pipelines import learn_steps, named, split_pipeline
from ..selection.cv import CrossValidated
from ..selection.grid import copy_of
from ..selection.progress import Progress


def check_seeded(folder, random_state):
    """Check a folder, in which the same call goes on: that there is such a call."""
    check_folder(folder)
    if folder is not None and random_state is None:
        raise ValueError(
            "`folder` is where the same call goes on, and without a seed no call is the same; pass "
            "random_state=0, say."
        )


def units_of(groups, outcome, weight):
    """Number of the unit of every row; None where rows are units.

    Units without a weight are not drawn, as if they were not there. Their rows, from which
    transformers may learn, come with the next unit.
    """
    own = unit = outcome.unit
    if groups is not None:
        unit = np.unique(check_labels(groups, "groups", outcome.n_rows), return_inverse=True)[1]
        if own is not None:
            _check_whole(own, unit)
    if weight is None or weight.all():
        return unit
    unit = np.arange(outcome.n_rows) if unit is None else unit
    drawn = np.unique(unit[weight > 0])
    return np.minimum(np.searchsorted(drawn, unit), len(drawn) - 1)


def _check_whole(own, unit):
    first = np.zeros(own.max() + 1, unit.dtype)
    first[own] = unit
    if (torn := unit != first[own]).any():
        raise ValueError(
            f"`groups` tears rows apart that belong together: row {int(np.argmax(torn)):,} is in "
            "another group than a row of the same subject, stratum or matched set; give them one "
            "label."
        )


def _draw_multinomial(seed, number, n_units):
    random = np.random.default_rng([seed, number])
    return np.bincount(random.integers(n_units, size=n_units), minlength=n_units)


def _draw_exponential(seed, number, n_units):
    return np.random.default_rng([seed, number]).standard_exponential(n_units)


def _draw_half(seed, number, n_units):
    return _draw_complementary(seed, 2 * number, n_units)


def _draw_complementary(seed, number, n_units):
    """Of numbers 2k and 2k + 1, two halves without a common unit."""
    order = np.random.default_rng([seed, number // 2]).permutation(n_units)
    size, drawn = n_units // 2, np.zeros(n_units)
    drawn[order[:size] if number % 2 == 0 else order[size : 2 * size]] = 1.0
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
        drawn = DRAWS[self.kind](self.seed, number, self.n_units).astype(dtype)
        return drawn if self.unit is None else drawn[self.unit]

    @property
    def n_units(self):
        """How many units there are to draw from."""
        return self.outcome.n_rows if self.unit is None else int(self.unit.max()) + 1

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
        units = units_of(groups, outcome, base)
        replicates = Replicates(model, outcome, base, units, kind, seed)
    if replicates.n_units < 2:
        raise ValueError(
            "all rows of positive weight belong to one unit (subject, matched set or group), so "
            "that every replicate is the same; pass data of several, or, of rows in memory, other "
            "`groups`."
        )
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

    @property
    def n_units(self):
        """How many units there are to draw from."""
        return sum(self.prepared.units)

    def totals(self, n_replicates):
        """Sum of the weights of each replicate, 0 where ``fit`` would refuse them."""
        totals = np.zeros(n_replicates)
        for first in range(0, n_replicates, AT_ONCE):
            some = np.arange(first, min(first + AT_ONCE, n_replicates))
            known = self.prepared.weigh(self.columns(some))
            totals[some] = [0.0 if self.prepared.lacks(k) else k.total for k in known]
        return totals


@dataclass(frozen=True, eq=False)
class PipelineRefits:
    """Transformers that replicates fit anew, the columns of all rows, and the data."""

    steps: Any
    names: np.ndarray | None
    n_columns: int
    X: Any = None
    y: Any = None
    fit_params: Any = None

    @classmethod
    def open(cls, estimator, X, y, caller, fit_params, **options) -> tuple:
        """As `copy_of`; those of a pipeline with transformers, or None; X as its model takes it."""
        copied = copy_of(estimator, caller, fit_params, **options)
        steps, _ = split_pipeline(estimator)
        if steps is None:
            return copied, None, X
        design = build_design(learn_steps(steps, X, y, fit_params)[1])
        return copied, cls(steps, design.names, design.n_columns, X, y, fit_params), design

    def prepare(self, replicates, number):
        """Fitted transformers, checked input of a fit, and its coefficients of missing columns."""
        drawn = replicates.draw(number, np.int64)
        rows = np.repeat(np.arange(len(drawn)), drawn)
        steps, table = learn_steps(self.steps, self.X, self.y, self.fit_params, rows)
        design, missing = self.align(table)
        place = np.where(drawn > 0, np.searchsorted(rows, np.arange(len(drawn))), 0)
        given = self.fit_params | {"sample_weight": replicates.given_weight(number)}
        own = prepare(replicates.model, design[place], self.y, **given)
        return steps, own, np.isin(own.problem.source, np.flatnonzero(missing))

    def align(self, table):
        """Columns of all rows, 0 where a table has not got them, then its own; which it lacks."""
        design = build_design(table)
        if self.names is None or design.names is None:
            if design.n_columns != self.n_columns:
                raise ValueError(
                    f"transformers made {design.n_columns:,} columns of a replicate, and of all "
                    f"rows {self.n_columns:,}; take some that say which (get_feature_names_out)."
                )
            return design, np.zeros(self.n_columns, bool)
        names, missing = design.names.tolist(), ~np.isin(self.names, design.names)
        if missing.any():
            zeros = build_design(csc_array((design.n_rows, np.count_nonzero(missing))))
            design = design.with_columns(zeros.with_names(self.names[missing]))
        at = {name: j for j, name in enumerate(design.names)}
        order = dict.fromkeys([*self.names, *names])
        return design.select(np.array([at[name] for name in order])), missing

    def reopen(self, replicates, number, X_new):
        """Setting and problem of a replicate, and new rows as it has them."""
        steps, own, _ = self.prepare(replicates, number)
        return own.setting, own.problem, self.align(named(steps.transform(X_new), steps))[0]


def fit_in_turn(model, prepared, replicates, totals, journal, *, X, y, refits):
    """Solution of all rows; of replicates coefficients, whether they converged, what they chose.

    NaN where no split of a replicate can be fitted, and of a column that it has not where there is
    no penalty. Coefficients of columns that only replicates have are in ``more``.
    """
    if prepared.in_partitions:
        refuse_partitions(
            "the choice of a penalty in every replicate takes a cross-validation each",
            "pass `refit_model()` of a fitted estimator, whose replicates share its penalty",
        )
    quiet = prepared.with_options(verbose=0)
    progress, numbers = Progress(model), np.flatnonzero(totals).tolist()
    full, of_all = _solve(model, X, y, quiet, progress)
    n_coef = len(full.coef)

    def fit(number):
        if refits is None:
            weight = replicates.weight(number)
            own = quiet.with_batch(weight=weight[:, None])
            is_missing = np.zeros(n_coef, bool)
        else:
            _, own, is_missing = refits.prepare(replicates, number)
            fits = replace(own.fits, options=quiet.options, backend=quiet.backend)
            own = replace(own, fits=fits)
        try:
            solution, chosen = _solve(model, X, y, own, progress)
        except ValueError:  # no event in a split, or no score
            coef, converged = np.full(len(is_missing), np.nan), np.nan
            chosen = dict.fromkeys(of_all, np.nan)
        else:
            is_free = solution.lam * own.batch.factor == 0
            coef = np.where(is_missing & is_free, np.nan, solution.coef)
            converged = np.nan if np.isnan(coef).any() else solution.converged
        found = {"coef": coef[:n_coef], "more": coef[n_coef:], "converged": converged}
        return found | chosen

    with progress.batch("bootstrap", len(numbers)) as done:
        parts = {}
        for number in numbers:
            parts[number] = journal.keep(f"replicate-{number}", partial(fit, number))
            done(number)
    progress.end()
    more = {number: part.pop("more") for number, part in parts.items()}
    first, *_ = each = list(parts.values())
    found = {name: np.stack([part[name] for part in each], axis=-1) for name in first}
    return full, found | {"more": more}


def _solve(model, X, y, prepared, progress):
    """Solution, and the penalty that was chosen where the model chooses it."""
    if isinstance(model, CrossValidated):
        choice = model._choose(X, y, prepared, progress, None)
        return choice.refit(), {"alpha": choice.point.alpha}
    return prepared.solve([model.alpha])[0][0], {}
