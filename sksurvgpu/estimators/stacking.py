r"""Hazards with coefficients in common: one Cox fit to the rows of all, a stratum for each hazard.

The rows of hazard k follow those of hazard k - 1. A column of X whose coefficient is the same for
all of them is one column of all rows; of another there is a copy for each hazard, which is zero in
the rows of the others. With hazards' weights :math:`W_k` and their sum W the fit minimizes

.. math:: -\frac1W \sum_k \ell_k(\beta_k) + \alpha \Bigl(\sum_{j, k} \frac{W_k}W f_j\,p(\beta_{jk})
          + \sum_{j\ \text{shared}} f_j\,p(\beta_j)\Bigr):

a coefficient is penalized as much as by a fit to the rows that it is of, so that without any in
common the hazards are those of separate fits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from .._memory import available
from ..data.by_column import (
    check_bounds,
    check_l1_ratio,
    check_penalty_factor,
    check_prior_mean,
    check_time_varying,
    find_columns,
)
from ..data.checks import check_sample_weight
from ..data.design.beside import side_by_side, spread_rows
from ..data.design.columns import INDICATOR, Design
from ..data.outcomes.fields import pack
from ..data.vectors import check_labels, check_length, check_row_values, encode
from ..penalties import Fused, GroupLasso, PenaltySpec
from ..routes import Hierarchical
from ._columns import Header, read_columns
from ._composition import penalty_of
from .baseline import Baseline, Timeline
from .fitted import adopt, fitted_of
from .pipelines import join_steps, learn_steps, split_pipeline
from .survival import CoxLassoCCD
from .time_varying import Terms

OF_COLUMNS = (Fused, GroupLasso, Hierarchical)


class Hazard(NamedTuple):
    """One kind of event: its name, the rows that are at risk of it, and their outcome."""

    name: Any
    rows: np.ndarray  # of X
    y: np.ndarray  # of these rows, from `surv`
    strata: np.ndarray | None  # labels of these rows

    @property
    def label(self) -> str:
        return " to ".join(map(str, self.name)) if isinstance(self.name, tuple) else str(self.name)


def read_hazards(hazards, n_rows, strata) -> list[Hazard]:
    """Hazards by name, (rows, outcome) each; rows may be None for all, and have strata in `y`."""
    strata = None if strata is None else check_labels(strata, "strata", n_rows)
    found = []
    for name, (rows, y) in hazards.items():
        if rows is None:
            check_length(y, "y", n_rows)
        rows = np.arange(n_rows) if rows is None else np.arange(n_rows)[rows]
        own = None if strata is None else strata[rows]
        found.append(Hazard(name, rows, y, y["stratum"] if "stratum" in y.dtype.names else own))
    return found


class Places(NamedTuple):
    """Where in a fit to all hazards the coefficients and the strata of each are."""

    coefs: list[np.ndarray]  # of each hazard, in the fit to all of them
    labels: np.ndarray | None  # of strata within hazards

    def strata(self, strata, n_rows):
        """Strata of new rows, once for each hazard, as the fit to all of them has these."""
        n_hazards = len(self.coefs)
        if self.labels is None:
            return np.repeat(np.arange(n_hazards), n_rows)
        codes = np.searchsorted(self.labels, strata)
        return np.add.outer(np.arange(n_hazards) * len(self.labels), codes).ravel()


class Sharing(NamedTuple):
    """Coefficients that several hazards have in common, as users name them."""

    columns: Any = None  # by name or position, or "all"
    between: float | None = None  # of `Hierarchical`
    fused: float | None = None  # strength of `Fused`

    def __bool__(self):
        return any(value is not None for value in self)

    def find(self, n_columns, names):
        """Whether each column has one coefficient for all hazards."""
        found = np.zeros(n_columns, bool)
        if isinstance(self.columns, str) and self.columns == "all":
            return ~found
        if isinstance(self.columns, str) or not (self.columns is None or np.iterable(self.columns)):
            raise ValueError(f'`shared` is {self.columns!r}, must be a list of columns or "all".')
        given = () if self.columns is None else self.columns
        found[[*find_columns(given, "shared", n_columns, names)]] = True
        return found

    def penalty(self, estimator, own):
        """Penalty of the stacked columns; `own` are those of each hazard, (n_hazards, n_own)."""
        given, ratio = penalty_of(estimator), estimator.l1_ratio
        if isinstance(given, OF_COLUMNS):
            raise ValueError(
                f"`penalty` is {type(given).__name__}, which is of columns of X, and does not go "
                "with coefficients that hazards share: fit CoxLassoCCD to `stack` of the rows."
            )
        if self.between is None and self.fused is None:
            return estimator.penalty
        if self.between is not None and self.fused is not None:
            raise ValueError("`between` and `fused` are both given; choose one of them.")
        if type(given) is not PenaltySpec or ratio not in (0.0, 1.0):
            raise ValueError(
                "`between` and `fused` go with a lasso or a ridge: pass an estimator without "
                "`penalty`, whose `l1_ratio` is 1 or 0."
            )
        if not own.size:
            raise ValueError("`shared` leaves no coefficients that `between` or `fused` are of.")
        if self.fused is None:
            kind = "l1" if ratio else "l2"
            classes = {int(j): position for position, j in np.ndenumerate(own.T)}
            classes = {j: column for j, (column, _) in classes.items()}
            return Hierarchical(classes, between=self.between, within=kind, above=kind)
        if not ratio:
            raise ValueError("`fused` goes with a lasso: pass an estimator whose `l1_ratio` is 1.")
        if len(own) == 1:  # which has no neighbour
            return estimator.penalty
        edges = np.stack([own[:-1], own[1:]], axis=-1).reshape(-1, 2)
        return Fused(edges.tolist(), self.fused)


# Of a stacked entry: row numbers in a column, once more while columns are joined, and in a tile.
BYTES, BYTES_OF_VALUE = 10.0, 16.0


@dataclass(frozen=True, eq=False)
class Stack:
    """Columns of X, and what has become of them under several hazards."""

    hazards: list[Hazard]
    header: Header  # of X
    is_shared: np.ndarray  # bool (n_columns,): columns with one coefficient for all hazards
    place: np.ndarray  # int64 (n_hazards, n_columns): the stacked column of each coefficient

    @classmethod
    def of(cls, hazards, header, sharing) -> Stack:
        """Shared columns first, then those of one hazard after another."""
        is_shared = sharing.find(*header)
        place = np.empty((len(hazards), header.n_columns), np.int64)
        n_shared, n_own = np.count_nonzero(is_shared), np.count_nonzero(~is_shared)
        place[:, is_shared] = np.arange(n_shared)
        own = np.arange(len(hazards) * n_own).reshape(len(hazards), n_own)
        place[:, ~is_shared] = n_shared + own
        return cls(hazards, header, is_shared, place)

    @property
    def own(self) -> np.ndarray:
        """The stacked columns of each hazard, (n_hazards, n_own)."""
        return self.place[:, ~self.is_shared]

    @property
    def rows(self) -> np.ndarray:
        """Row of X that each stacked row is."""
        return np.concatenate([hazard.rows for hazard in self.hazards])

    @property
    def source(self) -> np.ndarray:
        """Column of X that each stacked column is."""
        source = np.empty(self.place.max() + 1, np.int64)
        source[self.place] = np.arange(self.header.n_columns)
        return source

    def check_memory(self, X: Design) -> None:
        """Refuse rows that would not fit beside those of X."""
        n_entries = X.n_entries * sum(len(h.rows) for h in self.hazards) / max(1, X.n_rows)
        is_valued = X.kind != INDICATOR
        n_bytes = (BYTES + BYTES_OF_VALUE * bool(is_valued.any())) * n_entries
        if n_bytes > available():
            raise MemoryError(
                f"{len(self.hazards):,} outcomes with coefficients in common are one fit, whose "
                f"rows take about {n_bytes / 2**30:,.1f} GiB, and there is less memory; take fewer "
                "outcomes at a time, or fewer columns."
            )

    def columns(self, X: Design) -> Design:
        """The columns of all hazards' rows."""
        X, is_shared, sizes = X.stored(), self.is_shared, [len(h.rows) for h in self.hazards]
        parts = [X.select(is_shared)[self.rows]] if is_shared.any() else []
        for hazard, first in zip(self.hazards, np.cumsum(sizes) - sizes, strict=True):
            own = X.select(~is_shared)
            if not np.array_equal(hazard.rows, np.arange(X.n_rows)):
                own = own[hazard.rows]
            parts.append(spread_rows(own, int(first), sum(sizes)))
        labels = np.array(self.header.labels(), dtype=object)
        names = [*labels[is_shared]]
        names += [f"{label}: {h.label}" for h in self.hazards for label in labels[~is_shared]]
        if len({*names}) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise ValueError(f"{twice!r} would name two columns; give outcomes other names.")
        return side_by_side(parts).with_names(np.array(names, dtype=object))

    def outcome(self) -> np.ndarray:
        """The outcome of all hazards' rows, whose strata are the hazards, or those of each."""
        (event, time, *_), *_ = given = [hazard.y.dtype.names for hazard in self.hazards]
        fields = [event, time, *(f for f in ("start", "subject") if any(f in g for g in given))]
        y = {name: np.concatenate([_field(h, name) for h in self.hazards]) for name in fields}
        return pack({**y, "stratum": self.strata[0], "subject": y.get("subject", self.rows)})

    @cached_property
    def strata(self) -> tuple:
        """Number of each stacked row's hazard and stratum, and labels of the latter, or None."""
        numbers = np.repeat(np.arange(len(self.hazards)), [len(h.rows) for h in self.hazards])
        if self.hazards[0].strata is None:
            return numbers, None
        codes, labels = encode(np.concatenate([h.strata for h in self.hazards]))
        return numbers * len(labels) + codes, labels

    def estimator(self, estimator, sharing, totals):
        """A copy of an estimator for the stacked columns, given the weight of each hazard."""
        if estimator.standardize:
            raise ValueError(
                "`standardize` does not go with coefficients that hazards share: scale X before."
            )
        n_columns, names = self.header
        source, share = self.source, np.ones(self.place.max() + 1)
        share[self.own] = (totals / totals.sum())[:, None]
        factor = estimator.penalty_factor
        if penalty_of(estimator).has_strength:
            factor = check_penalty_factor(factor, n_columns, names)[source] * share
        mean = check_prior_mean(estimator.prior_mean, n_columns, names)
        bounds = check_bounds(estimator.bounds, n_columns, names, mean)
        ratio = check_l1_ratio(estimator.l1_ratio, n_columns, names)
        cuts = check_time_varying(estimator.time_varying, n_columns, names)
        penalty, rest = sharing.penalty(estimator, self.own), 0.0 if mean is None else mean
        if isinstance(penalty, OF_COLUMNS):
            ratio = 1.0  # is what the penalty says
        return clone(estimator).set_params(
            penalty=penalty,
            penalty_factor=factor,
            prior_mean=None if mean is None else mean[source],
            bounds=None if bounds is None else tuple((end + rest)[source] for end in bounds),
            l1_ratio=ratio[source] if np.ndim(ratio) else ratio,
            time_varying={j: cuts[i] for j, i in enumerate(source.tolist()) if i in cuts} or None,
        )

    def coefs(self, terms):
        """Where among the coefficients of the stacked columns those of each hazard are."""
        stacked = terms.source  # ascending
        ptr = np.searchsorted(stacked, np.arange(stacked[-1] + 2))
        return [_ranges(ptr, own)[0] for own in self.place]

    def part(self, joint, k, coefs, estimator) -> CoxLassoCCD:
        """The model of one hazard, of columns of X, as a fit to all hazards has found it."""
        fitted, (n_columns, names) = fitted_of(joint), self.header
        terms = Terms.of(estimator.time_varying, n_columns, names)
        timeline, cells = self._part_of_times(fitted.baseline, k)
        setting = replace(fitted.setting, header=self.header, terms=terms, timeline=timeline)
        estimate = replace(
            fitted.estimate,
            coef=fitted.estimate.coef[coefs],
            baseline=Baseline(timeline, cells),
            of_route={},
        )
        params = {name: getattr(estimator, name, None) for name in CoxLassoCCD().get_params()}
        model = CoxLassoCCD(**(params | {"alpha": fitted.alpha, "warm_start": False}))
        own = {"factor": fitted.factor[coefs], "infinite": fitted.infinite[coefs]}
        adopt(model, replace(fitted, setting=setting, estimate=estimate, **own))
        return model

    def _part_of_times(self, baseline, k):
        """Times and hazards of a baseline that belong to one hazard."""
        timeline, labels = baseline.timeline, self.strata[1]
        n_each = 1 if labels is None else len(labels)
        own = np.flatnonzero(timeline.labels // n_each == k)
        groups = np.add.outer(
            np.arange(0, len(timeline.cell_ptr) - 1, timeline.n_strata), own
        ).ravel()
        cells, cell_ptr = _ranges(timeline.cell_ptr, groups)
        times, time_ptr = _ranges(timeline.time_ptr, own)
        part = Timeline(
            cell_ptr,
            timeline.cell_time[cells],
            None if labels is None else labels[timeline.labels[own] % n_each],
            timeline.times[times],
            time_ptr,
        )
        return part, baseline.cells[cells]


def _field(hazard, name):
    """Field of an outcome; rows whose start is not told are at risk from the beginning."""
    return hazard.y[name] if name in hazard.y.dtype.names else np.zeros(len(hazard.rows))


def _ranges(ptr, chosen):
    """Positions of some of the ranges between offsets, and their own offsets."""
    found = [np.arange(*ptr[j : j + 2]) for j in chosen]
    return np.concatenate(found), np.append(0, np.cumsum(list(map(len, found))))


def stack_rows(hazards, X, sharing, given):
    """A `Stack` of hazards by name; columns, outcome and other arguments of its rows."""
    design, header = read_columns(X)
    stack = Stack.of(read_hazards(hazards, design.n_rows, given.get("strata")), header, sharing)
    n, rows, given = design.n_rows, stack.rows, {k: v for k, v in given.items() if k != "strata"}
    of_rows = {name: check_row_values(given[name], name, n)[rows] for name in given}
    return stack, stack.columns(design), stack.outcome(), of_rows


def stack_new(names, X, sharing) -> Design:
    """Columns of new rows, once for each hazard."""
    design, header = read_columns(X)
    every = np.arange(design.n_rows)
    hazards = [Hazard(name, every, every, None) for name in names]
    return Stack.of(hazards, header, sharing).columns(design)


def fit_together(estimator, hazards, X, y, given, sharing):
    """Fit hazards with coefficients in common.

    The fit to all rows, an estimator for each hazard, and their places in the former.
    """
    steps, model = split_pipeline(estimator)
    if steps is not None:
        steps, X = learn_steps(steps, X, y, given)
    stack, columns, outcome, of_rows = stack_rows(hazards, X, sharing, given)
    weight = check_sample_weight(given.get("sample_weight"), len(y))
    weight = np.ones(len(y)) if weight is None else weight
    totals = np.array([weight[hazard.rows].sum() for hazard in stack.hazards])
    joint = stack.estimator(model, sharing, totals).fit(columns, outcome, **of_rows)
    places = Places(stack.coefs(fitted_of(joint).terms), stack.strata[1])
    parts = [stack.part(joint, k, coefs, model) for k, coefs in enumerate(places.coefs)]
    if steps is not None:
        parts = [join_steps(steps, part) for part in parts]
    return joint, dict(zip(hazards, parts, strict=True)), places
