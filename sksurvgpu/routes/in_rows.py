r"""Ridges with more columns than rows, in as many unknowns as rows.

The optimum lies in the span of the rows: with the penalty factors D and
:math:`X D^{-1/2} = L Q^T`, L square and Q with orthonormal columns, it is
:math:`\beta = D^{-1/2} Q \gamma`, and :math:`\gamma` is the ridge of the columns of L.  That fit is
found first; the one of X starts there, where its own conditions hold already, and are checked.
Columns without a penalty or with a lasso stand beside those of L as they are.
"""

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np

from ..data.by_fit import of_fit
from ..data.design.columns import build_design
from ..penalties import ElasticNet
from ..penalties.parts import Parts
from .base import Route

FEWEST_COLUMNS, MOST_ROWS = 500, 8_000  # where columns are few, or rows many, X itself is as well
BLOCK = 2**24  # numbers of a dense block of columns
SMALLEST = 1e-13  # of the largest eigenvalue of the rows' products: less is rounding
CLOSER = 1e-2  # of the tolerance, so that the fit of X has converged where it starts


@dataclass(frozen=True)
class InRows(Route):
    """The straight route, but for ridges with fewer rows than columns."""

    def solve(self, fits, on_fit=None):
        alike = _wide_ridges(fits)
        if not alike:
            return super().solve(fits, on_fit)
        batch, ends = fits.batch, {}
        others = sorted(set(range(batch.n_fits)).difference(*alike))
        for which, solve in ((others, super().solve), *((b, _solve_in_rows) for b in alike)):
            if which:
                some = replace(fits, batch=batch.of(which))
                ends |= zip(which, solve(some), strict=True)
        if on_fit is not None:
            for b in range(batch.n_fits):
                on_fit(b)
        return [ends[b] for b in range(batch.n_fits)]

    def solve_and_lend(self, fits, n_borrowers):
        first = replace(fits, batch=fits.batch.of([0]))
        if _wide_ridges(first):
            return self.solve(first)[0], None
        return super().solve_and_lend(fits, n_borrowers)

    def null_model(self, fits):
        first = replace(fits, batch=fits.batch.of([0]))
        if not _wide_ridges(first) or not np.any(fits.batch.penalty.l1_ratio):
            return super().null_model(fits)
        least = _RowSpan.of(first).fits(first).null_models()[0].lam_max
        return _null_models(first, [least])[0]


IN_ROWS = InRows()


def _wide_ridges(fits):
    """Fits with ridges that outnumber the rows, and all other columns; lists of those alike.

    These have the same penalty factors, and hold the same columns.
    """
    if not _may_be_wide(fits):
        return []
    batch, n_rows, alike = fits.batch, fits.problem.given.n_rows, {}
    for b in range(batch.n_fits):
        factor, held = of_fit(batch.factor, b), _held(fits, b)
        n_ridges = np.count_nonzero(~held & _are_ridges(fits, factor))
        others = np.count_nonzero(~held) - n_ridges
        if n_ridges > max(n_rows, FEWEST_COLUMNS, others) and others * n_rows <= BLOCK:
            digest = blake2b(held.tobytes(), digest_size=16)
            digest.update(b"" if factor is None else np.ascontiguousarray(factor).tobytes())
            alike.setdefault(digest.digest(), []).append(b)
    return list(alike.values())


def _are_ridges(fits, factor):
    is_ridge = np.broadcast_to(fits.batch.penalty.l1_ratio, fits.problem.n_columns) == 0
    return is_ridge if factor is None else is_ridge & (factor > 0)


def _may_be_wide(fits):
    problem, batch = fits.problem, fits.batch
    return (
        max(problem.given.n_rows, FEWEST_COLUMNS) < problem.n_columns
        and problem.given.n_rows <= MOST_ROWS
        and type(batch.penalty) in (ElasticNet, Parts)
        and batch.lambdas.min(initial=np.inf) > 0.0
        and batch.loan is None
        and fits.options.algorithm == "majorized"
        and bool(np.all(problem.piece_ptr == [0, problem.plan.n_pieces]))
    )


def _held(fits, index):
    fixed = of_fit(fits.batch.fixed, index)
    return np.zeros(fits.problem.n_columns, bool) if fixed is None else fixed


def _solve_in_rows(fits):
    """Solutions of wide ridges that are alike, which start at what is found in their rows' span."""
    batch, rows = fits.batch, _RowSpan.of(fits)
    closer = fits.with_options(tol=CLOSER * fits.options.tol, baseline=False, verbose=0)
    found = rows.fits(closer).solve()
    coefs = rows.coef_of(np.column_stack([s.coef for solutions in found for s in solutions]))
    starts = coefs.reshape(len(coefs), len(found), -1)
    ends, null = [[] for _ in found], batch.null
    if null is None:
        null = _null_models(fits, [solutions[0].lam_max for solutions in found])
    for k in range(len(batch.lambdas)):
        start = starts[:, :, k] + rows.still
        own = {"lambdas": batch.lambdas[k : k + 1], "coef": start, "null": null}
        for b, [solution] in enumerate(fits.with_batch(**own).solve()):
            n_iter = solution.n_iter + found[b][k].n_iter
            ends[b].append(replace(solution, n_iter=n_iter))
    return ends


def _null_models(fits, largest):
    """Null models of fits whose largest penalties are known, if a lasso stands beside ridges."""
    if not np.any(fits.batch.penalty.l1_ratio):
        return tuple(fits.null_models())
    found = fits.with_batch(penalty=ElasticNet()).null_models()
    return tuple(replace(null, lam_max=lam) for null, lam in zip(found, largest, strict=True))


@dataclass(frozen=True)
class _RowSpan:
    """A problem in the span of the rows of its ridges; after these columns come the others."""

    whole: object
    scale: np.ndarray
    factor: np.ndarray  # of columns, whatever their scale, as the ratio is
    ratio: np.ndarray
    ridges: np.ndarray  # numbers of columns
    others: np.ndarray
    still: np.ndarray  # (n_columns, n_fits): coefficients that are held
    to_rows: np.ndarray  # (n_rows, rank): coefficients of rows from those of L
    problem: object

    @classmethod
    def of(cls, fits):
        problem, batch, held = fits.problem, fits.batch, _held(fits, 0)
        scale = np.ones(problem.n_columns) if fits.scale is None else fits.scale
        factor = of_fit(batch.factor, 0)
        ridges = np.flatnonzero(~held & _are_ridges(fits, factor))
        others = np.setdiff1d(np.flatnonzero(~held), ridges)
        ratio = np.broadcast_to(batch.penalty.l1_ratio, problem.n_columns)
        unit = ratio + (1.0 - ratio) * scale
        factor = scale * unit if factor is None else factor * scale * unit
        scaled = (x / np.sqrt(factor[columns]) for columns, x in _blocks(problem, ridges))
        values, vectors = np.linalg.eigh(sum(x @ x.T for x in scaled))
        is_there = values > SMALLEST * values[-1]
        is_there[-1] = True  # a design has columns, where those of X are zero
        root, vectors = np.sqrt(np.maximum(values[is_there], 0.0)), vectors[:, is_there]
        columns = np.hstack([vectors * root, *(x for _, x in _blocks(problem, others))])
        n_columns = columns.shape[1]
        piece_ptr = np.tile([[0, problem.plan.n_pieces]], (n_columns, 1))
        small = problem.with_design(build_design(columns), np.arange(n_columns), piece_ptr)
        still = np.zeros((problem.n_columns, batch.n_fits))
        if batch.coef is not None:
            still[held] = batch.coef[held]
        to_rows = vectors / np.where(root > 0, root, 1.0)
        return cls(problem, scale, factor, ratio / unit, ridges, others, still, to_rows, small)

    def fits(self, fits):
        """Fits in the span of the rows, beside coefficients that are held."""
        batch, of_rows = fits.batch, np.ones(self.to_rows.shape[1])
        offset, still = batch.offset, np.flatnonzero(self.still.any(axis=1))
        if len(still):
            known = np.empty((len(self.to_rows), batch.n_fits))
            known[self.whole.plan.order] = self._predict(self.still, still)
            offset = known if offset is None else offset[:, :] + known
        own = replace(
            batch,
            penalty=ElasticNet(np.append(0.0 * of_rows, self.ratio[self.others])),
            factor=np.append(of_rows, self.factor[self.others]),
            offset=offset,
            coef=None if batch.coef is None else self._starts(batch.coef),
            **dict.fromkeys(("fixed", "null", "share", "reach")),
        )
        small = replace(fits, problem=self.problem, batch=own, scale=None)
        if batch.null is None:
            return small
        largest = [batch.null_of(b).lam_max for b in range(batch.n_fits)]
        return small.with_batch(null=_null_models(small, largest))

    def _predict(self, coef, columns):
        """Predictors of some columns, rows in the order of the plan."""
        coef = coef / self.scale[:, None]
        return sum(x @ coef[some] for some, x in _blocks(self.whole, columns))

    def _starts(self, coef):
        """Coefficients of the small problem that are nearest to those of all columns."""
        others = coef[self.others] / self.scale[self.others, None]
        return np.vstack([self.to_rows.T @ self._predict(coef, self.ridges), others])

    def coef_of(self, found):
        """Coefficients of all columns from those in the span of the rows, (n_columns, n_fits)."""
        rank, out = self.to_rows.shape[1], np.zeros((self.whole.n_columns, found.shape[1]))
        of_rows = self.to_rows @ found[:rank]
        for columns, x in _blocks(self.whole, self.ridges):
            out[columns] = (x.T @ of_rows) / self.factor[columns, None]
        out[self.others] = found[rank:]
        return out * self.scale[:, None]


def _blocks(problem, columns):
    """Columns in dense blocks, with their numbers."""
    width = max(1, BLOCK // max(problem.given.n_rows, 1))
    for low in range(0, len(columns), width):
        some = columns[low : low + width]
        yield some, problem.X.select(problem.source[some]).to_scipy().toarray()
