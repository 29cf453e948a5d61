"""Problem: what all fits of a batch share.  Batch: what may differ between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..data.by_fit import ColumnsOnDemand, columns_of, of_fit
from ..data.design.tiles import OrderedDesign
from ..data.design.units import find_centers
from ..data.model_columns import ModelColumns
from ..patterns.groups.plan import GroupPlan
from ..patterns.risk_sets.plan import RowPlan
from ..penalties import ElasticNet
from ..penalties.base import Family


@dataclass(frozen=True)
class Problem(ModelColumns):
    """One design and outcome under one likelihood, rows in the order of the plan.

    The design stays as it was given; what reads its rows in the plan's order takes `tiles`, or
    `design` where it needs columns as a whole, which are made when they are first asked for.

    ``source`` and ``piece_ptr`` map the model's columns to columns of X: a column whose coefficient
    changes over time appears once per interval of its own cut points: `patterns.risk_sets.plan`.

    Columns far from zero are centred where the likelihood does not mind: the mean of a column times
    its coefficient then belongs to the baseline (`shift_of`).
    """

    X: OrderedDesign
    plan: RowPlan | GroupPlan
    likelihood: object
    source: np.ndarray  # int64 per model column: its column of X
    piece_ptr: np.ndarray  # int64 (n_columns, 2): pieces where the coefficient applies
    center: np.ndarray | None = None  # (n_columns of X,) what was taken from columns of X

    @classmethod
    def build(cls, design, plan, likelihood, source=None, piece_ptr=None, n_threads=1):
        """Lay the design's rows out in the plan's order; columns constant over time by default."""
        if source is None:
            source = np.arange(design.n_columns)
            piece_ptr = np.tile([[0, plan.n_pieces]], (design.n_columns, 1))
        source, piece_ptr = source.astype(np.int64), piece_ptr.astype(np.int64)
        X = OrderedDesign(design, plan.order, n_threads=n_threads)
        return cls(X, plan.beside(len(source)), likelihood, source, piece_ptr).centred()

    @property
    def given(self):
        """The design as it was given: rows in the caller's order, columns not centred."""
        return self.X.given

    @property
    def design(self):
        """The design with its rows in the order of the plan."""
        return self.X.whole

    @property
    def tiles(self):
        """The rows in the order of the plan, in tiles."""
        return self.X.tiles

    def with_design(self, design, source, piece_ptr):
        """Problem of this outcome with other columns, whose rows are in the order of the plan."""
        X = OrderedDesign(design, np.arange(design.n_rows, dtype=np.int32))
        return replace(self, X=X, source=source, piece_ptr=piece_ptr, center=None)

    def centred(self):
        """Problem whose columns far from zero are centred, if none is yet."""
        if not self.ignores_shifts or not (center := find_centers(self.given)).any():
            return self
        # their sums in the order of the plan: the caller's is to change no bit
        far = np.flatnonzero(center)
        center[far] = find_centers(self.X.select(far))
        return replace(self, X=self.X.centred(center), center=center)

    def offset_of(self, mean):
        """X times numbers by column of X, (n_rows, 1), rows as the caller has them."""
        if self.X.center is None:
            return self.given.dot(mean)[:, None]
        offset = np.empty((self.given.n_rows, 1))
        offset[self.plan.order, 0] = self.design.dot(mean)
        return offset

    def uncentred(self):
        """Problem whose columns are as they were given."""
        if self.center is None:
            return self
        return replace(self, X=self.X.centred(None), center=None)

    def without_intercept(self):
        """Problem where the intercept is known, and part of the offset."""
        return replace(self, likelihood=replace(self.likelihood, intercept=False))

    def with_own_intercept(self):
        """Problem with the intercept as the coefficient of a last column, of ones.

        Columns stay centred if they are: the coefficient is that of `baseline_of` this problem.
        """
        given, center = self.given, self.X.center
        ones = np.ones((given.n_rows, 1))
        center = None if center is None else np.append(center, 0.0)
        return replace(
            self.without_intercept(),
            center=None,
            X=OrderedDesign(replace(given, names=None).with_columns(ones), self.plan.order, center),
            source=np.append(self.source, given.n_columns),
            piece_ptr=np.vstack([self.piece_ptr, [[0, self.plan.n_pieces]]]),
        )

    def pieces(self):
        return {
            "source": self.source,
            "piece_ptr": self.piece_ptr,
            "first": self.plan.first,
            "shift": self.plan.shift,
        }


@dataclass(frozen=True)
class Loan:
    """The quadratic model at the optimum of one fit, for fits that are like it.

    That is ``matrix`` over the first columns, ``curvature`` of the others, and
    ``rows diag(sign) rows'``.  Its age and its weights change the rate of their convergence and not
    their limit.
    """

    columns: np.ndarray  # int64 (n_lent,)
    curvature: np.ndarray  # (n_lent,), of the matrix, too
    matrix: np.ndarray  # (n_coupled, n_coupled)
    rows: np.ndarray  # (n_lent, n_terms)
    sign: np.ndarray  # (n_terms,)
    level: int = 0  # of its base, where these are not counted


@dataclass(frozen=True)
class Batch:
    """Fits that share a problem.  Batch axis last; None means: the same plain value for all.

    Each fit descends its penalties in the given order, every one started from the one before:
    a path is a fit with many penalties, a cross-validation a batch of paths with fold weights.
    """

    lambdas: np.ndarray  # (n_penalties, n_fits), on the sum scale
    penalty: Family = field(default_factory=ElasticNet)
    factor: np.ndarray | None = None  # (n_columns,) or (n_columns, n_fits) penalty factors
    # case weights (n_rows, n_fits), rows as the caller has them
    weight: np.ndarray | ColumnsOnDemand | None = None
    offset: np.ndarray | ColumnsOnDemand | None = None  # (n_rows, n_fits)
    coef: np.ndarray | None = None  # (n_columns, n_fits) starts
    fixed: np.ndarray | None = None  # bool (n_columns, n_fits): columns held at their start
    null: tuple | None = None  # (n_fits,) or one for all: null models, where fits before have them
    loan: Loan | None = None  # with `null`: a model to start with, for fits that have a start
    share: np.ndarray | None = None  # (n_fits,) of the weight behind `null` that a fit has
    total: np.ndarray | None = None  # (n_fits,) sums of weights: lambdas over alphas
    reach: np.ndarray | None = None  # (n_columns,) longest first step of the exact algorithm

    @property
    def n_fits(self):
        return self.lambdas.shape[1]

    def of(self, which) -> Batch:
        """Some fits by their numbers, one of which may be there several times."""

        def own(values):
            is_of_all = values is None or values.ndim == 1 or values.shape[1] == 1
            return values if is_of_all else values[:, which]

        null, share, total = self.null, self.share, self.total
        return replace(
            self,
            lambdas=self.lambdas[:, which],
            factor=own(self.factor),
            weight=columns_of(self.weight, which),
            offset=columns_of(self.offset, which),
            coef=own(self.coef),
            fixed=own(self.fixed),
            null=null if null is None or len(null) == 1 else tuple(null[b] for b in which),
            share=None if share is None else share[which],
            total=None if total is None else total[which],
        )

    def rows(self, index):
        """Weight and offset of the rows of one fit, (n_rows,) or None."""
        return of_fit(self.weight, index), of_fit(self.offset, index)

    def share_of(self, index):
        """Share of the weight behind `null` that one fit has."""
        return 1.0 if self.share is None else float(self.share[index])

    def null_of(self, index):
        """The null model of one fit, from fits before; None where it is not known."""
        if self.null is None:
            return None
        return self.null[index if len(self.null) > 1 else 0].of_share(self.share_of(index))

    def family(self, index):
        """Penalties of one fit, of every strength."""
        return self.penalty if self.total is None else self.penalty.of_total(self.total[index])
