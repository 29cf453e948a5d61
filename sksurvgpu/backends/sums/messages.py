"""Messages between the coordinator of a fit and partitions of its rows.

The coordinator holds no row.  A partition is a pure function of a message: it keeps nothing that it
could not compute again, so that a lost one is simply asked once more, and the coordinator adds
answers in the order of partitions, whatever the order of their arrival: a partitioning of the rows
gives the same bits on any engine.

Messages are data: scalars, strings, arrays, tuples and dicts of these.  A message goes to one
partition; an *exchange* is one message to every partition and the answers.  One `Ask` carries the
requests of all fits of a batch.

    Describe   ->  Description      once: what the partition has
    Apply      ->  what its function makes of the arguments; none of a fit
    Arrange    ->  Arranged         once a problem: times and labels become integers, see `Arrange`
    Ask        ->  Answers, one for each request; or Unarranged, by one that has lost its plan
        Weigh     ->  Weights       once a vector of weights
        Evaluate  ->  Evaluated     at coefficients: what the coordinator needs for a log-likelihood
        Slopes    ->  Sums          there again, with what the coordinator has made of that

Where groups of rows (strata, subjects, matched sets) are whole in partitions, or nothing couples
rows, an evaluation is a sum: the pattern is *local*.  Else the coordinator joins tables over
*cells* (`patterns.risk_sets.plan`), of which a partition has its *own*: those where a row of it
begins or ends.  With ``w = c exp(eta - top)``, `top` being the largest live eta of the partition:

    pattern            Evaluated.tables                              Slopes.tables
    local              -                                             -
    rows, intercept    score, curvature: (NODES,) at `nodes(center)` - (`intercept`)
                       loglik: (1,) at the one in the middle
    risk_sets          risk: sum of w by cell of exit, or pairs      hazard: A by own cell, or pairs
                       (high, low) with delayed entry, (2, own),     (2, own); held (Efron);
                       entries taken out; tied (Efron)               edges: A at start and end of
                                                                     every bin, (n_bins, 2)
    carried_risk_sets  + carried: sum of w / G by own lane cell      + back: B by own lane cell;
                                                                     back_edges (n_bins, 2)

`Evaluated.loglik` of risk sets is the sum of ``c delta (eta - top)``.  In logarithms (`in_logs`),
tables are those of `patterns.risk_sets.cpu_cells.evaluate_in_logs` and `top` is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

Tables = dict[str, np.ndarray]

NODES = 8  # Chebyshev nodes of an intercept within one of a center: sums over rows to 1e-14
MIDDLE = NODES // 2


@dataclass(frozen=True)
class Coef:
    """Coefficients of the model's columns that are not zero."""

    columns: np.ndarray  # int64, ascending
    values: np.ndarray

    @classmethod
    def of(cls, coef: np.ndarray) -> Coef:
        """Coefficients of a vector that are not zero."""
        columns = np.flatnonzero(coef)
        return cls(columns, coef[columns])

    def vector(self, n_columns: int) -> np.ndarray:
        """All of them."""
        coef = np.zeros(n_columns)
        coef[self.columns] = self.values
        return coef


@dataclass(frozen=True)
class Recipe:
    """Weights of the rows of a fit: those that were given, times what every partition can make.

    given          nothing else
    train, test    0 or 1: fold ``number % of`` of `of` is held out, or is what is left; folds are
                   dealt anew for every ``number // of``
    multinomial    how often each unit is drawn in replicate `number`
    exponential    standard exponential numbers of replicate `number`
    half           0 or 1: the half of the units that is drawn in replicate `number`
    complementary  of numbers 2k and 2k + 1, two halves without a common unit

    Of draws of a fixed size, `of` is how many fall to this partition: the coordinator deals them.
    """

    kind: str = "given"
    seed: int = 0
    number: int = 0
    of: int = 0


@dataclass(frozen=True)
class Describe:
    """Ask what a partition has."""

    model: str  # JSON: how its rows are read, see `estimators._partition`


@dataclass(frozen=True)
class Arrange:
    """Give a partition the problem: it may be sent again at any time.

    tables    part: its number, by which its draws are addressed
              labels_strata, labels_censoring, labels_groups: those of the problem, ascending
              event_time, event_ptr: event times of every stratum
              bin_end: last cell of every bin; few: whether columns keep loads of them, (1,)
              center: what is taken from columns of X
              table_time, table_ptr: distinct times of every censoring group
              lane_stratum, lane_group: every lane, in ascending order of both
    """

    model: str
    tables: Tables
    digest: str  # of all this, by which `Ask` names it


@dataclass(frozen=True)
class Ask:
    """Requests of the fits of a batch, all under one plan."""

    plan: str  # `Arrange.digest`
    requests: tuple[Request, ...]


@dataclass(frozen=True)
class Weigh:
    """Ask for what is known of weights before any predictor."""

    weight: Recipe


@dataclass(frozen=True)
class Evaluate:
    """Ask for the evaluation of a predictor."""

    weight: Recipe
    coef: Coef
    origin: Coef | None = None  # where a move to `coef` begins, whose size is asked for
    center: float = np.nan  # of the intercept's nodes
    in_logs: bool = False
    shift: float = np.nan  # taken for `top`, where a partition must not tell its own
    tables: Tables = field(default_factory=dict)  # censoring: G at own entries; also of `Slopes`


@dataclass(frozen=True)
class Slopes:
    """Ask for sums over columns, at coefficients whose evaluation the coordinator has joined.

    want      gradient    x_j'u of all columns
              size        sum |x_ij| size_i of all columns, of rounding errors
              curvature   x_j' diag(h) x_j of all columns, and `total` and `loads` beside it
              gram        X'diag(h)X over `columns`, `total`, and `loads` of these (with curvature:
                          of all); local: less the second term of the partition's groups, no loads
              jumps       sums of x w of `columns` by own cell of exit, less those by entry, on the
                          scale of `top`: (len(columns), own); of deaths alone: `tied_jumps` (Efron)
              meat        sum over clusters of the products of their scores along `columns`; tables:
                          means (intercept: (len(columns),); risk sets: (len(columns), own)),
                          hazard_means and, with Efron's ties, held_means, see `scores`

    Bins that are many (a stratum each: `few` is 0) are as local patterns: the second term is that
    of the partition's rows alone, with their own sums of h.  A sum of such over partitions is
    positive semidefinite and no more than the model's matrix, and only the rate depends on it.
    """

    weight: Recipe
    coef: Coef
    tables: Tables
    top: float = 0.0  # that of all partitions, the scale of the tables
    intercept: float = 0.0
    in_logs: bool = False
    want: tuple[str, ...] = ("gradient",)
    columns: np.ndarray | None = None


@dataclass(frozen=True)
class Apply:
    """Ask for what a function makes of the arguments of a partition, of which nothing is kept.

    It is called with these, by name, and with `given`. Sites take no functions.
    """

    function: Callable[..., Any]  # of a module, so that it can be pickled
    given: tuple[Any, ...]


Request = Weigh | Evaluate | Slopes
Message = Describe | Arrange | Ask | Apply


@dataclass(frozen=True)
class Description:
    """Rows of a partition, described.

    columns   (n_columns of X, 5): stored entries, their sum, and their sum of squares about their
              mean here; least and largest value, zeros that are not stored included (NaN where
              they are not told, or there is no row)
    tables    of models with time: labels, ascending (0 alone without strata); stratum, time,
              deaths: its distinct event times, by number of label; last: end of follow-up of
              every label.  Of competing risks: censor_labels; censor_group, censor_time: distinct
              times of its rows; lane_stratum, lane_group: pairs of numbers that occur.
              Of groups: labels of those that it has.
              Of all models: units, of which folds and draws keep each whole; events, groups,
              classes, class_totals, of which all rows together need some (`tell` of models).
    """

    rows: int
    names: tuple[str, ...] | None
    columns: np.ndarray
    tables: Tables
    checksum: int  # of outcome, weights and offsets, `data.outcomes.checksum`


@dataclass(frozen=True)
class Arranged:
    """Which cells are the partition's own, int64 and ascending; of lanes and curves, too.

    Cells count as in a `patterns.risk_sets.plan.RowPlan` of all rows.  Entries of a censoring
    group's curve begin at ``table_ptr[g] + g``, the first being before its first time, as in
    `patterns.carried.plan`; those that are own are G(T-) of some row.
    """

    own: np.ndarray
    own_lanes: np.ndarray | None = None
    own_entries: np.ndarray | None = None


@dataclass(frozen=True)
class Unarranged:
    """The partition does not know the plan (any more): arrange it, and ask once more."""


@dataclass(frozen=True)
class Answers:
    """One answer a request, in their order."""

    of: tuple[Answer, ...]


@dataclass(frozen=True)
class Weights:
    """Sums over rows under weights.

    tables    deaths, death_weight by own cell; lost, failed by own entry of censoring tables
    """

    total: float
    rows: int  # of positive weight
    events: float  # weighted
    largest: float  # part of the largest log-likelihood; NaN for risk sets, found from deaths
    error_weight: float
    tables: Tables


@dataclass(frozen=True)
class Evaluated:
    """An evaluation, as far as a partition can have it; `low` and `high` bound the move.

    Without a live row `top` is -inf, `low` inf and `high` -inf, so that they decide nothing.  Where
    `top` is not finite otherwise, `loglik` and tables are NaN.
    """

    loglik: float
    top: float = 0.0
    low: float = 0.0
    high: float = 0.0
    tables: Tables = field(default_factory=dict)


@dataclass(frozen=True)
class Sums:
    """Sums over rows, by the names that were wanted.

    total     sum of h by bin, and loads (columns, n_bins) those of x h; local patterns: curvature
              (n_columns, 2) as `contract.Operations.curvature` has it, `total` (1,), no loads
    """

    loglik: float  # with intercept or local: at the point; else nan
    tables: Tables


Answer = Weights | Evaluated | Sums


def nodes(center: float) -> np.ndarray:
    """Intercepts at which a profile is asked for."""
    k = np.arange(NODES)
    return center + np.cos(np.pi * (k + 0.5) / NODES)


def around(intercept: float) -> float:
    """Center of nodes one of which is the intercept."""
    return intercept - nodes(0.0)[MIDDLE]


class Engine(Protocol):
    """Where partitions live, and how they are asked: threads, a cluster, files, other sites.

    One whose answers have a form that follows from the problem has ``serve(problem)``, too, which
    comes before it is asked about that; and one that fits are not free to ask anything has
    ``backend()``, the coordinator of fits over it.
    """

    n_parts: int

    def ask(self, messages: Mapping[int, Message]) -> Iterator[tuple[int, Any]]:
        """Answers of partitions, in any order, each as soon as it is there.

        What a partition raises is raised here, with its number before the text.
        """

    def cancel(self) -> None:
        """Drop what is under way."""

    def close(self) -> None:
        """Let go of the partitions."""
