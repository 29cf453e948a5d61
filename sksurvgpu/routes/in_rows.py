r"""Ridges with more columns than rows, in as many unknowns as rows.

The optimum lies in the span of the rows: with the penalty factors D and
:math:`X D^{-1/2} = L Q^T`, L square and Q with orthonormal columns, it is
:math:`\beta = D^{-1/2} Q \gamma`, and :math:`\gamma` is the ridge of the columns of L.  That fit is
found first; the one of X starts there, where its own conditions hold already, and are checked.
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
        ends = {}
        if len(fits.batch.lambdas) == 1 and fits.batch.coef is not None and fits.batch.coef.any():
            at_start = fits.with_options(max_iter=0, verbose=0).solve()
            ends = {b: [s] for b, [s] in enumerate(at_start) if s.converged}
        others = sorted(set(range(fits.batch.n_fits)).difference(*alike))
        ways = [(others, super().solve), *((which, _solve_in_rows) for which in alike)]
        for which, solve in ways:
            left = [b for b in which if b not in ends]
            if left:
                some = replace(fits, batch=fits.batch.of(left))
                ends |= zip(left, solve(some), strict=True)
        if on_fit is not None:
            for b in range(fits.batch.n_fits):
                on_fit(b)
        return [ends[b] for b in range(fits.batch.n_fits)]

    def solve_and_lend(self, fits, n_borrowers):
        first = replace(fits, batch=fits.batch.of([0]))
        if _wide_ridges(first):
            return self.solve(first)[0], None
        return super().solve_and_lend(fits, n_borrowers)


IN_ROWS = InRows()


def _wide_ridges(fits):
    """Fits whose penalized columns are ridges and outnumber the rows; lists of those alike.

    These have the same penalty factors, and hold the same columns.
    """
    if not _are_ridges(fits):
        return []
    batch, problem, alike = fits.batch, fits.problem, {}
    for b in range(batch.n_fits):
        factor, held = of_fit(batch.factor, b), _held(fits, b)
        pulled = ~held if factor is None else ~held & (factor > 0)
        if np.count_nonzero(pulled) > max(problem.given.n_rows, FEWEST_COLUMNS):
            digest = blake2b(held.tobytes(), digest_size=16)
            digest.update(b"" if factor is None else np.ascontiguousarray(factor).tobytes())
            alike.setdefault(digest.digest(), []).append(b)
    return list(alike.values())


def _are_ridges(fits):
    problem, batch = fits.problem, fits.batch
    return (
        max(problem.given.n_rows, FEWEST_COLUMNS) < problem.n_columns
        and problem.given.n_rows <= MOST_ROWS
        and type(batch.penalty) in (ElasticNet, Parts)
        and not np.any(batch.penalty.l1_ratio)
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
    batch, problem, held = fits.batch, fits.problem, _held(fits, 0)
    scale = np.ones(problem.n_columns) if fits.scale is None else fits.scale
    factor = of_fit(batch.factor, 0)
    rows = _RowSpan.of(problem, scale**2 if factor is None else scale**2 * factor, ~held)
    still = np.zeros((problem.n_columns, batch.n_fits))
    if batch.coef is not None:
        still[held] = batch.coef[held]
    closer = fits.with_options(tol=CLOSER * fits.options.tol, baseline=False, verbose=0)
    small = rows.batch(batch, still / scale[:, None])
    found = replace(closer, problem=rows.problem, batch=small, scale=None).solve()
    coefs = rows.coef_of(np.column_stack([s.coef for solutions in found for s in solutions]))
    starts = (coefs * scale[:, None]).reshape(problem.n_columns, len(found), -1)
    ends, null = [[] for _ in found], batch.null or tuple(fits.null_models())
    for k in range(len(batch.lambdas)):
        own = {"lambdas": batch.lambdas[k : k + 1], "coef": starts[:, :, k] + still, "null": null}
        for b, [solution] in enumerate(fits.with_batch(**own).solve()):
            n_iter = solution.n_iter + found[b][k].n_iter
            ends[b].append(replace(solution, n_iter=n_iter))
    return ends


@dataclass(frozen=True)
class _RowSpan:
    """A problem in the span of its rows: penalized columns, and after them the free ones."""

    whole: object
    factor: np.ndarray
    moves: np.ndarray  # bool: the others are held
    to_rows: np.ndarray  # (n_rows, rank): coefficients of rows from those of L
    problem: object

    @classmethod
    def of(cls, problem, factor, moves):
        pulled = np.flatnonzero(moves & (factor > 0))
        products = sum((x / factor[columns]) @ x.T for columns, x in _blocks(problem, pulled))
        values, vectors = np.linalg.eigh(products)
        is_there = values > SMALLEST * values[-1]
        is_there[-1] = True  # a design has columns, where those of X are zero
        root, vectors = np.sqrt(np.maximum(values[is_there], 0.0)), vectors[:, is_there]
        free = [x for _, x in _blocks(problem, np.flatnonzero(moves & (factor == 0)))]
        columns = np.hstack([vectors * root, *free])
        n_columns = columns.shape[1]
        piece_ptr = np.tile([[0, problem.plan.n_pieces]], (n_columns, 1))
        small = problem.with_design(build_design(columns), np.arange(n_columns), piece_ptr)
        return cls(problem, factor, moves, vectors / np.where(root > 0, root, 1.0), small)

    def batch(self, batch, still):
        """Batch of the same fits in the span of the rows, beside coefficients that are held."""
        factor = np.zeros(self.problem.n_columns)
        factor[: self.to_rows.shape[1]] = 1.0
        offset = batch.offset
        if still.any():
            known = np.zeros((len(self.to_rows), batch.n_fits))
            for columns, x in _blocks(self.whole, np.flatnonzero(still.any(axis=1))):
                known[self.whole.plan.order] += x @ still[columns]
            offset = known if offset is None else offset[:, :] + known
        nothing = dict.fromkeys(("coef", "fixed", "null", "share", "reach"))
        return replace(batch, penalty=ElasticNet(0.0), factor=factor, offset=offset, **nothing)

    def coef_of(self, found):
        """Coefficients of all columns from those in the span of the rows, (n_columns, n_fits)."""
        rank, out = self.to_rows.shape[1], np.zeros((self.whole.n_columns, found.shape[1]))
        of_rows = self.to_rows @ found[:rank]
        for columns, x in _blocks(self.whole, np.flatnonzero(self.moves & (self.factor > 0))):
            out[columns] = (x.T @ of_rows) / self.factor[columns, None]
        out[self.moves & (self.factor == 0)] = found[rank:]
        return out


def _blocks(problem, columns):
    """Columns in dense blocks, with their numbers."""
    width = max(1, BLOCK // max(problem.given.n_rows, 1))
    for low in range(0, len(columns), width):
        some = columns[low : low + width]
        yield some, problem.X.select(problem.source[some]).to_scipy().toarray()
