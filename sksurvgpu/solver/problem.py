"""Problem: what all fits of a batch share.  Batch: what may differ between them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..data.by_fit import ColumnsOnDemand, columns_of
from ..data.design.columns import Design
from ..data.design.units import find_centers, moved
from ..data.model_columns import ModelColumns
from ..data.plans.groups import GroupPlan
from ..data.plans.rows import RowPlan
from ..penalties import ElasticNet
from ..penalties.base import Family


@dataclass(frozen=True)
class Problem(ModelColumns):
    """One design and outcome under one likelihood, rows in the order of the plan.

    ``source`` and ``piece_ptr`` map the model's columns to columns of X: a column whose coefficient
    changes over time appears once per interval of its own cut points (see `data.plans.rows`).

    Columns far from zero are centred where the likelihood does not mind: the mean of a column times
    its coefficient then belongs to the baseline (`shift_of`).
    """

    design: Design
    plan: RowPlan | GroupPlan
    likelihood: object
    source: np.ndarray  # int64 per model column: its column of X
    piece_ptr: np.ndarray  # int64 (n_columns, 2): pieces where the coefficient applies
    center: np.ndarray | None = None  # (n_columns of X,) what was taken from columns of X

    @classmethod
    def build(cls, design, plan, likelihood, source=None, piece_ptr=None, n_threads=1):
        """Put the design's rows into the plan's order; columns constant over time by default."""
        if source is None:
            source = np.arange(design.n_columns)
            piece_ptr = np.tile([[0, plan.n_pieces]], (design.n_columns, 1))
        given, design = design, design.reordered(plan.order, n_threads=n_threads)
        maps = source.astype(np.int64), piece_ptr.astype(np.int64)
        problem = cls(design, plan, likelihood, *maps)
        return problem.centred(in_place=design is not given)

    def centred(self, *, in_place=False):
        """The same problem with columns far from zero centred, if none is yet."""
        if not self.ignores_shifts or not (center := find_centers(self.design)).any():
            return self
        return replace(self, design=moved(self.design, -center, in_place=in_place), center=center)

    def offset_of(self, mean):
        """X times numbers by column of X, (n_rows, 1), rows as the caller has them."""
        offset = np.empty((self.design.n_rows, 1))
        offset[self.plan.order, 0] = self.design.dot(mean)
        return offset

    def uncentred(self):
        """The same problem with the columns as they were given."""
        if self.center is None:
            return self
        return replace(self, design=moved(self.design, self.center), center=None)

    def without_intercept(self):
        """The same problem where the intercept is known, and part of the offset."""
        return replace(self, likelihood=replace(self.likelihood, intercept=False))

    def with_own_intercept(self):
        """The same problem with the intercept as the coefficient of a last column, of ones.

        Columns stay centred if they are: the coefficient is that of `baseline_of` this problem.
        """
        design = replace(self.design, names=None).with_columns(np.ones((self.design.n_rows, 1)))
        return replace(
            self.without_intercept(),
            center=None,
            design=design,
            source=np.append(self.source, self.design.n_columns),
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
    """The quadratic model at the optimum of one fit, as a matrix, for fits that are like it.

    Its age and its weights change the rate of their convergence and not their limit.
    """

    columns: np.ndarray  # int64 (n_lent,)
    matrix: np.ndarray  # (n_lent, n_lent)


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

    def part(self, fits: slice) -> Batch:
        """Some neighbouring fits, as far as backends read them; the rest is their coroutines'."""
        some = np.arange(self.n_fits)[fits]
        weight, offset = (columns_of(values, some) for values in (self.weight, self.offset))
        return replace(self, lambdas=self.lambdas[:, fits], weight=weight, offset=offset)

    def family(self, index):
        """Penalties of one fit, of every strength."""
        return self.penalty if self.total is None else self.penalty.of_total(self.total[index])
