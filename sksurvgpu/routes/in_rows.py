r"""Ridges with more columns than rows, in as many unknowns as rows.

The optimum lies in the span of the rows: with the penalty factors D and
:math:`X D^{-1/2} = L Q^T`, L square and Q with orthonormal columns, it is
:math:`\beta = D^{-1/2} Q \gamma`, and :math:`\gamma` is the ridge of the columns of L.  That fit is
found first; the one of X starts there, where its own conditions hold already, and are checked.
"""

from dataclasses import dataclass, replace

import numpy as np

from ..data.design.columns import build_design
from ..penalties import ElasticNet
from .base import Route

FEWEST_COLUMNS, MOST_ROWS = 500, 8_000  # where columns are few, or rows many, X itself is as well
BLOCK = 2**24  # numbers of a dense block of columns
SMALLEST = 1e-13  # of the largest eigenvalue of the rows' products: less is rounding
CLOSER = 1e-2  # of the tolerance, so that the fit of X has converged where it starts


@dataclass(frozen=True)
class InRows(Route):
    """The straight route, but for ridges with fewer rows than columns."""

    def solve(self, fits, on_fit=None):
        if not _is_wide_ridge(fits):
            return super().solve(fits, on_fit)
        batch = fits.batch
        scale = np.ones(fits.problem.n_columns) if fits.scale is None else fits.scale
        factor = scale**2 if batch.factor is None else scale**2 * batch.factor
        rows = _RowSpan.of(fits.problem, factor)
        closer = fits.with_options(tol=CLOSER * fits.options.tol, baseline=False, verbose=0)
        found = replace(closer, problem=rows.problem, batch=rows.batch(batch), scale=None).solve()
        ends = [[] for _ in found]
        for k in range(len(batch.lambdas)):
            start = rows.coef_of(np.column_stack([solutions[k].coef for solutions in found]))
            start *= scale[:, None]
            one = fits.with_batch(lambdas=batch.lambdas[k : k + 1], coef=start)
            for b, [solution] in enumerate(one.solve()):
                n_iter = solution.n_iter + found[b][k].n_iter
                ends[b].append(replace(solution, n_iter=n_iter))
        for b in range(len(ends)):
            if on_fit is not None:
                on_fit(b)
        return ends

    def solve_and_lend(self, fits, n_borrowers):
        if _is_wide_ridge(fits):
            return self.solve(fits)[0], None
        return super().solve_and_lend(fits, n_borrowers)


IN_ROWS = InRows()


def _is_wide_ridge(fits):
    """Whether fits are ridges alone, of columns that outnumber the rows."""
    problem, batch = fits.problem, fits.batch
    n_rows, n_columns = problem.given.n_rows, problem.n_columns
    return (
        max(n_rows, FEWEST_COLUMNS) < n_columns
        and n_rows <= MOST_ROWS
        and type(batch.penalty) is ElasticNet
        and not np.any(batch.penalty.l1_ratio)
        and (batch.factor is None or batch.factor.ndim == 1)
        and batch.lambdas.min(initial=np.inf) > 0.0
        and batch.fixed is None
        and batch.loan is None
        and fits.options.algorithm == "majorized"
        and bool(np.all(problem.piece_ptr == [0, problem.plan.n_pieces]))
    )


@dataclass(frozen=True)
class _RowSpan:
    """A problem in the span of its rows: penalized columns, and after them the free ones."""

    whole: object
    factor: np.ndarray
    to_rows: np.ndarray  # (n_rows, rank): coefficients of rows from those of L
    problem: object

    @classmethod
    def of(cls, problem, factor):
        products = sum(
            (x / factor[columns]) @ x.T for columns, x in _blocks(problem, np.flatnonzero(factor))
        )
        values, vectors = np.linalg.eigh(products)
        is_there = values > SMALLEST * values[-1]
        root, vectors = np.sqrt(values[is_there]), vectors[:, is_there]
        free = [x for _, x in _blocks(problem, np.flatnonzero(factor == 0))]
        columns = np.hstack([vectors * root, *free])
        n_columns = columns.shape[1]
        piece_ptr = np.tile([[0, problem.plan.n_pieces]], (n_columns, 1))
        small = problem.with_design(build_design(columns), np.arange(n_columns), piece_ptr)
        return cls(problem, factor, vectors / root, small)

    def batch(self, batch):
        """Batch of the same fits in the span of the rows."""
        factor = np.zeros(self.problem.n_columns)
        factor[: self.to_rows.shape[1]] = 1.0
        nothing = dict.fromkeys(("coef", "null", "share", "reach"))
        return replace(batch, penalty=ElasticNet(0.0), factor=factor, **nothing)

    def coef_of(self, found):
        """Coefficients of all columns from those in the span of the rows, (n_columns, n_fits)."""
        rank, out = self.to_rows.shape[1], np.zeros((self.whole.n_columns, found.shape[1]))
        of_rows = self.to_rows @ found[:rank]
        for columns, x in _blocks(self.whole, np.flatnonzero(self.factor)):
            out[columns] = (x.T @ of_rows) / self.factor[columns, None]
        out[self.factor == 0] = found[rank:]
        return out


def _blocks(problem, columns):
    """Columns in dense blocks, with their numbers."""
    width = max(1, BLOCK // max(problem.given.n_rows, 1))
    for low in range(0, len(columns), width):
        some = columns[low : low + width]
        yield some, problem.X.select(problem.source[some]).to_scipy().toarray()
