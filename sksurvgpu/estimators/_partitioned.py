"""Fits of rows in partitions, and the folds of these.

The backend of a fit has no row, and neither has anything here: outcomes, weights and offsets stay
in the partitions, which read them by `_partition`. What all rows together must have is checked from
what the partitions tell, and what needs rows is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any
from zlib import crc32

import numpy as np

from ..backends.sums.coordinator import PartitionsBackend
from ..backends.sums.labels import find_owners
from ..backends.sums.opening import check_strata, describe, open_problem
from ..backends.sums.recipes import Recipes
from ..data.design.units import check_largest
from ..data.options import is_whole
from ..data.partitioned import refuse_partitions
from ..data.simulate.draw import generator
from ..partitions.columns import Digests
from ..partitions.dask import as_rows
from ..partitions.handles import open_engine
from ..routes import PLAIN
from ..solver.fits import Fits
from ._columns import Header
from ._composition import batch_of, in_given_units, penalty_of, read_by_column, route_of
from ._partition import model_text, read_rows
from ._prepared import HUGE, Prepared, count_threads, options_of, start_of
from .fitted import Setting
from .models.base import model_of


@dataclass(frozen=True)
class PreparedInPartitions(Prepared):
    """Checked input of a fit whose rows are in partitions."""

    weighed: Any = None  # what is known of the sample weights of all rows
    units: tuple[int, ...] = ()  # of each partition, of which folds and draws keep each whole

    in_partitions = True

    def close(self):
        """Let go of the partitions."""
        self.problem.engine.close()

    @property
    def total_weight(self):
        return self.weighed.total

    @property
    def n_weighted(self):
        return int(self.weighed.rows)

    @property
    def weight(self):
        return refuse_partitions("this needs the weight of every row")

    @property
    def fingerprint(self):
        sums = [part.checksum for part in self.problem.descriptions]
        return crc32(np.array(sums, np.int64).tobytes()) if any(sums) else 0

    @property
    def sizes(self):
        return self.weighed.total, self.weighed.events

    def costs(self):
        counts = self.backend.counts
        return {"n_exchanges_": counts.exchanges, "n_passes_": counts.passes}

    def describe(self):
        parts, engine = self.problem.descriptions, self.problem.engine
        return {
            "data": None if hasattr(engine, "backend") else Digests(engine),  # sites tell none
            "X": np.concatenate([part.columns for part in parts]),
            "rows": np.array([part.rows for part in parts]),
            "y": np.array([part.checksum for part in parts]),
            "backend": self.setting.backend[0],
        }

    def folds(self, kind, n_folds, n_repeats, seed):
        """Weights of the rows to train on, or to test on, of every split."""
        numbers = range(n_folds * n_repeats)
        return Recipes.of(kind, numbers, seed, *self._units, of=n_folds)

    def replicates(self, kind, numbers, seed):
        """Weights of some replicates."""
        return Recipes.of(kind, numbers, seed, *self._units)

    @property
    def _units(self):
        return self.problem.given.n_rows, self.units

    def weigh(self, recipes):
        """Totals of the weights that partitions draw by some recipes."""
        weights = [recipes[:, b] for b in range(len(recipes))]
        return self.backend.weigh(self.problem, weights)

    def lacks(self, known):
        """Whether nothing can be fitted under weights of which this is known."""
        if not known.total > 0:
            return True
        counts = getattr(self.problem.likelihood, "is_quadratic", False)
        is_one_class = self.setting.classes is not None and not known.events < known.total
        return is_one_class or not (counts or known.events > 0)

    def check_subjects(
        self, model, whose="subject", why="folds and draws would make two persons of these"
    ):
        """Refuse subjects with rows in several partitions; the partition of each, if they are."""
        parts = self.problem.descriptions
        if not any(part.tables.get("has_subjects", [False])[0] for part in parts):
            return None
        told = describe(self.problem.engine, model_text(model, {"subjects": True}))
        owner, shared = find_owners([said.tables.get("subjects", np.empty(0)) for said in told])
        if shared:
            refuse_partitions(
                f"{whose} {shared[0]!r} has rows in partitions {shared[1]} and {shared[2]}, and "
                f"{why}",
                f"write the partitions with `group=`, or shuffle the rows by {whose}",
            )
        return owner

    def evaluate_at(self, pairs, weight):
        """Log-likelihoods of solutions, given as pairs (fit, solution), with their intercepts."""
        weights = [None if weight is None else weight[:, b] for b, _ in pairs]
        coefs = [solution.coef for _, solution in pairs]
        shifts = [self.problem.shift_of(coef)[0] for coef in coefs]
        at = [s.baseline + shift for (_, s), shift in zip(pairs, shifts, strict=True)]
        logliks = self.backend.evaluate_at(self.problem, weights, coefs, at)
        return [{"loglik": float(loglik)} for loglik in logliks]

    def find_infinite(self, is_free, coef=None):
        """None: they are not searched for, see `doubts_of`."""
        return np.zeros(self.problem.n_columns, bool)

    def find_directions(self, is_free, coef=None):
        span, source = self.problem.given.span, self.problem.source
        return self.find_infinite(is_free), sum(span(column) == 0.0 for column in source)

    def find_unheld(self, solution):
        return self.find_infinite(None)

    def find_undetermined(self, is_free, weight):
        return refuse_partitions("whether columns determine a fit is found from rows")

    def is_determined(self, is_free, weight):
        return refuse_partitions("whether columns determine a fit is found from rows")

    def doubts_of(self, solution):
        """Name coefficients that may be infinite.

        Those that are have a huge effect when a fit has converged. Whether columns separate the
        events is found by comparing rows with each other, which partitions cannot.
        """
        span, source = self.problem.given.span, self.problem.source
        is_free = self.batch.factor * solution.lam == 0
        if not self.batch.penalty.is_convex:
            is_free = np.ones(len(is_free), bool)
        found = np.flatnonzero(is_free & (solution.coef != 0))
        names = self.setting.names
        huge = [f"`{names[k]}`" for k in found if abs(solution.coef[k]) * span(source[k]) > HUGE]
        if not huge:
            return []
        return [
            f"The effects of columns without a penalty are huge ({', '.join(huge[:5])}"
            f"{', ...' if len(huge) > 5 else ''}), as those of columns that separate the events, "
            "whose coefficients are infinite; this is not decided for rows in partitions: "
            "penalize them, or leave them out."
        ]


def prepare_in_partitions(model, X, y, sample_weight, offset, given) -> PreparedInPartitions:
    """Check what a fit of handles was given, and open the partitions."""
    arguments = {"X": X, "y": y, "sample_weight": sample_weight, "offset": offset, **given}
    rows = {name: as_rows(v, name) for name, v in arguments.items() if v is not None}
    if y is None:
        raise ValueError("`y` is missing; pass the outcome in the same partitions as `X`.")
    check_parameters(model)
    n_threads = count_threads(model.n_jobs)
    engine = open_engine(rows, partial(read_rows, trusted=True), n_threads)
    where = f"X is in {engine.n_parts:,} partition(s), answered by {type(engine).__name__}"
    try:
        return _prepare(model, engine, n_threads, where)
    except BaseException:
        engine.close()
        raise


def _prepare(model, engine, n_threads, where):
    check_parameters(model)
    backend = engine.backend() if hasattr(engine, "backend") else PartitionsBackend()
    problem, of_setting = _open(model, engine)
    columns, penalty = problem.given, penalty_of(model)
    scales = partial(_find_scales, problem)
    given = read_by_column(model, columns.n_columns, columns.names, problem.source, scales)
    batch = batch_of(model, given, coef=start_of(model, problem.n_columns))
    header = Header(columns.n_columns, columns.names)
    if penalty.route(given, PLAIN) is not PLAIN:
        refuse_partitions(f"`penalty`={model.penalty!r} reads rows before it fits them")
    [weighed] = backend.weigh(problem, [None])
    if not weighed.total > 0:
        raise ValueError("`sample_weight` is zero in every row; at least one must be positive.")
    prepared = PreparedInPartitions(
        Fits(problem, batch, backend, options_of(model), n_threads),
        outcome=None,
        setting=Setting(header, backend=("partitions", where), **of_setting),
        given=given,
        route=route_of(model, given),
        plain_route=in_given_units(PLAIN, given),
        gamma=None,
        weighed=weighed,
        units=tuple(int(part.tables["units"][0]) for part in problem.descriptions),
    )
    return prepared.checked_by(penalty)


def _open(estimator, engine):
    """Problem over the partitions, after checks of what they tell, and fields of `Setting`."""
    model, text = model_of(estimator), model_text(estimator)
    descriptions = describe(engine, text)
    check_strata(descriptions)
    told = [part.tables for part in descriptions]
    agreed = model.agree(told, sum(part.rows for part in descriptions))
    if agreed:
        text = model_text(estimator, agreed)
        descriptions = describe(engine, text)
    names = None if descriptions[0].names is None else np.array(descriptions[0].names, object)
    outline = model.outline(len(descriptions[0].columns), names)
    terms = outline.terms
    problem = open_problem(
        engine,
        text,
        outline.likelihood,
        terms.cuts,
        terms.source,
        terms.piece_ptr,
        descriptions,
        events_first=bool(outline.censoring.get("events_first", False)),
    )
    check_largest(np.fmax(abs(problem.given.least), abs(problem.given.largest)), names)
    return problem, {"terms": terms} | model.keeps_of_parts(problem, agreed, told)


def _find_scales(problem):
    """Standard deviations of columns, as all rows have them that weigh the same."""
    told = [part.tables.get("has_weights", [True])[0] for part in problem.descriptions]
    if any(told):
        refuse_partitions(
            "partitions tell no standard deviations under weights, which standardize=True needs "
            "(sites do not say whether rows have weights)",
            "pass them as `penalty_factor` (of a ridge their squares), or no `sample_weight`",
        )
    return problem.given.find_scales()


def check_parameters(model):
    """Refuse what there is not for rows in partitions, with what there is in its place."""
    if model.backend not in ("auto", "cpu"):
        refuse_partitions(
            f"backend={model.backend!r} needs all rows on one device",
            'partitions compute on CPUs: pass backend="auto"',
        )
    if model.precision != "float64":
        refuse_partitions(
            f"precision={model.precision!r} is one of devices", 'pass precision="float64"'
        )
    if model.algorithm != "majorized":
        refuse_partitions(
            f"algorithm={model.algorithm!r} moves one coefficient at a time, an exchange with all "
            "partitions for each",
            'use algorithm="majorized", which has the same optimum',
        )
    if model.relax is not None:
        refuse_partitions(
            "`relax` needs to know whether the columns that are selected determine a fit, which is "
            "found from rows",
            "pass relax=None, and fit the selected columns with alpha=0",
        )


@dataclass(frozen=True, eq=False)
class SplitsInPartitions:
    """Recipes of the weights of every split, with what is known of them."""

    train: Recipes
    test: Recipes
    totals_: np.ndarray  # (n_splits,) weights of the fits
    sizes: np.ndarray  # ... and of what is held out, by which scores are averaged
    repeats: int
    dealing: np.ndarray  # what the folds depend on

    both = None  # the rows of either side are all rows

    def __len__(self):
        return len(self.train)

    def part(self, some: slice) -> SplitsInPartitions:
        """Some of the splits."""
        train, test = self.train[:, some], self.test[:, some]
        totals, sizes = self.totals_[some], self.sizes[some]
        return SplitsInPartitions(train, test, totals, sizes, self.repeats, self.dealing)

    def n_repeats(self):
        """How often a row is held out."""
        return float(self.repeats)

    def totals(self):
        """Sum of the weights of each fit."""
        return self.totals_


def deal_in_partitions(model, prepared) -> SplitsInPartitions:
    """Folds of a cross-validation, each with its share of every partition's events."""
    if not is_whole(model.cv):
        refuse_partitions(
            "splitters and row numbers need rows here", "pass a number of folds as `cv`"
        )
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
    return SplitsInPartitions(recipes[0], recipes[1], totals, np.array(sizes), n_repeats, dealing)
