"""Information and scores of likelihoods at their coefficients: what their views have in common.

A *view* reads the state of a likelihood for blocks of dense columns. With its h and its atoms (the
event times or tied deaths of risk sets; the groups of a model without time, or all rows under an
intercept), the information is X' diag(h) X - M' diag(N) M, exactly, with M the means over the
atoms. Only the exact conditional logistic likelihood is another sum.

The slope of log det(information) is tr(A dI), A the inverse. An atom has the distribution p over
its rows with means m, and dI is the sum of N times third moments about m, so that, with
q_i = x_i'Ax_i and without what is constant within an atom,

    tr(A dI) = sum over atoms of N X'(diag(p) - pp')(q - 2 X A m)
"""

from collections.abc import Iterator
from itertools import combinations_with_replacement

import numpy as np

from ..backends.cpu.tile_gram import rows_of_gram
from ..backends.meat import clusters_in, collector_of, meat_of
from ..data.design.kernels import INDICATOR
from .entry_scores import EntryScores
from .rows import FittedRows

MOST_ONES = 0.5  # share of the rows that an indicator may have for its entries to keep their digits
MOST_LINES = 0.5  # ... that tables may have in lines for entries to be worth it


class View:
    """Information and scores of a fit's likelihood at its coefficients."""

    is_free = True  # whether shifts of a column within groups change nothing
    n_atoms = 0
    widest: int | None = None  # most columns of a block, None for as many as memory allows

    def __init__(self, rows: FittedRows):
        self.rows = rows

    def centred(self, columns) -> np.ndarray:
        """Dense columns less their means, which would cost digits."""
        x = self.rows.block(columns)
        if self.is_free:
            x -= x.mean(axis=0)
        return x

    def information(self, columns=None) -> tuple[np.ndarray, np.ndarray]:
        """Information of coefficients, and its diagonal before means within groups go."""
        columns = np.arange(self.rows.n_coef) if columns is None else columns
        p = len(columns)
        total, size = np.zeros((p, p)), np.zeros(p)
        blocks = self._pair_blocks(p)
        for first, second in combinations_with_replacement(range(len(blocks)), 2):
            J, K = blocks[first], blocks[second]
            x = self.centred(columns[J])
            z = x if first == second else self.centred(columns[K])
            part, own = self.cross(x, z)
            total[np.ix_(J, K)], total[np.ix_(K, J)] = part, part.T
            if first == second:
                size[J] = own
        return total, size

    def _pair_blocks(self, n_columns=None):
        """Columns in runs of which two are dense at a time."""
        return self.rows.blocks(self.rows.plan.n_rows + self.n_atoms, self.widest, n_columns)

    def diagonal(self) -> np.ndarray:
        """Information of every coefficient, the others held."""
        total = np.empty(self.rows.n_coef)
        for columns in self.rows.blocks(2 * self.rows.plan.n_rows + self.n_atoms, self.widest):
            total[columns] = self.own(self.centred(columns))
        return total

    def own(self, x) -> np.ndarray:
        """Diagonal of the information of dense columns."""
        return np.diagonal(self.cross(x, x)[0])

    def cross(self, x, z) -> tuple[np.ndarray, np.ndarray]:
        """Information of two blocks of columns, and the diagonal of x' diag(h) z."""
        raise NotImplementedError

    def traces(self, inverse) -> np.ndarray:
        """Slopes of log det(information), whose inverse is given, along all coefficients."""
        raise NotImplementedError

    def scores(self, x) -> np.ndarray:
        """Contribution of every row to the gradient along dense columns."""
        raise NotImplementedError

    def meat(self, cluster) -> np.ndarray:
        """Sum over clusters of the squares of their scores; None: every row by itself."""
        collect = self.collector(cluster)
        blocks = self.rows.blocks(3 * self.rows.plan.n_rows)
        return meat_of(blocks, lambda J: collect(self.scores(self.centred(J))))

    def collector(self, cluster):
        """Function from numbers of rows to their sums over clusters; None: every row by itself."""
        return self.rows.per_row if cluster is None else collector_of(cluster, self.rows.plan)


class MeanView(View):
    """Likelihoods whose information is X' diag(h) X - M' diag(N) M."""

    h: np.ndarray
    atom_weight: np.ndarray
    adds_entries = False  # whether there are `entry_runs` and `entry_scores`

    def means(self, x) -> np.ndarray:
        """Means of dense columns over every atom."""
        raise NotImplementedError

    def entry_runs(self, columns) -> Iterator[tuple[int, int, slice, np.ndarray]]:
        """Runs of lines, (first, end), their atoms, and means of columns, (columns, atoms)."""
        raise NotImplementedError

    def entry_scores(self) -> EntryScores:
        """Scores as sums over entries."""
        raise NotImplementedError

    def h_of(self, factor) -> np.ndarray:
        """Curvature h of rows if the weights of the atoms were multiplied by a factor."""
        raise NotImplementedError

    def information(self, columns=None):
        """As of any view; products of sparse indicators, which lose no digits, by their entries."""
        columns = np.arange(self.rows.n_coef) if columns is None else np.asarray(columns)
        n_columns, is_sparse = len(columns), self._are_sparse(columns)
        others = np.flatnonzero(~is_sparse)
        if len(others) > len(self._pair_blocks(n_columns)[0]) or not is_sparse.any():
            return super().information(columns)
        z = self.centred(columns[others])
        total, size = self._products(columns, is_sparse, z)
        if self.adds_entries:
            for own, mean in self._runs_of_means(columns, is_sparse, self.means(z)):
                total -= _by_sign(self.atom_weight[own], _square, mean)
        else:
            total -= _by_sign(self.atom_weight, self._squares_of_means, columns, is_sparse)
        return total, size

    def _squares_of_means(self, some, root, columns, is_sparse):
        """Sums over some atoms of products of means, times the squares of a root."""

        def roots(J):
            return (self.means_of(columns[J], is_sparse[J])[:, some] * root).T

        return meat_of(self.rows.blocks(self.n_atoms, None, len(columns)), roots)

    def _runs_of_means(self, columns, is_sparse, of_others):
        """Runs of atoms, and means over these; of columns that are not sparse they are given."""
        for _, _, atoms, of_sparse in self.entry_runs(columns[is_sparse]):
            mean = np.empty((len(columns), of_sparse.shape[1]))
            mean[is_sparse], mean[~is_sparse] = of_sparse, of_others[atoms].T
            yield atoms, mean

    def _are_sparse(self, columns):
        X = self.rows.session.products
        return X.whole[columns] & (X.kind[X.source[columns]] == INDICATOR)

    def meat(self, cluster):
        """As of any view; of many sparse columns, which lose no digits, by their entries."""
        rows, X, n_rows = self.rows, self.rows.session.products, self.rows.plan.n_rows
        columns, width = np.arange(rows.n_coef), len(rows.blocks(3 * n_rows)[0])
        is_sparse = self._are_sparse(columns)
        # those of most rows would be what is left of large numbers
        is_sparse[is_sparse] = (
            X.of_columns(columns[is_sparse], np.ones(n_rows)) <= MOST_ONES * n_rows
        )
        own, others = np.flatnonzero(is_sparse), np.flatnonzero(~is_sparse)
        if not (self.adds_entries and X.n_pieces == 1 and len(own) > width >= len(others)):
            return super().meat(cluster)
        scores, dense = self.entry_scores(), np.empty((n_rows, 0))
        if cluster is None and scores.n_lines > MOST_LINES * n_rows:
            return super().meat(cluster)
        if len(others):
            dense = self.scores(self.centred(others))
        if cluster is None:
            part, mixed = scores.of_rows(X, own, dense)
        else:
            collect = clusters_in(cluster, rows.plan)
            sparse = rows.problem.design.select(X.source[own]).to_scipy()
            dense = collect @ dense
            blocks = rows.blocks(3 * (scores.n_lines + len(dense)), None, len(own))
            part, mixed = scores.of_clusters(collect, sparse, own, blocks, dense)
        total = np.empty((rows.n_coef, rows.n_coef))
        total[np.ix_(own, own)], total[np.ix_(others, others)] = part, dense.T @ dense
        total[np.ix_(own, others)], total[np.ix_(others, own)] = mixed, mixed.T
        return total

    def _products(self, columns, is_sparse, z):
        """X' diag(h) X, the columns that are not sparse being those of z; its diagonal if all
        columns had a mean of 0."""
        X, total = self.rows.session.products, np.empty((len(columns), len(columns)))
        own, others = np.flatnonzero(is_sparse), np.flatnonzero(~is_sparse)
        total[np.ix_(own, own)] = rows_of_gram(X, columns[own], 0, self.h)
        weighted = z * self.h[:, None]
        total[np.ix_(others, others)] = weighted.T @ z
        for k, numbers in zip(others, weighted.T, strict=True):
            total[own, k] = total[k, own] = X.of_columns(columns[own], numbers)
        size = np.diagonal(total).copy()
        if self.is_free:
            mean = X.of_columns(columns[own], np.ones(len(self.h))) / len(self.h)
            size[own] += mean * (mean * self.h.sum() - 2.0 * size[own])
        return total, size

    def means_of(self, columns, is_sparse):
        """Means over atoms, (columns, atoms): sparse columns as they are, the others centred."""
        means = np.empty((len(columns), self.n_atoms))
        for J in self.rows.blocks(self.rows.plan.n_rows, None, len(columns)):
            x = self.rows.block(columns[J])
            if self.is_free:
                x -= np.where(is_sparse[J], 0.0, x.mean(axis=0))
            means[J] = self.means(x).T
        return means

    def traces(self, inverse):
        blocks, n_rows = self._pair_blocks(), self.rows.plan.n_rows
        leverage, along, inner = np.zeros(n_rows), np.zeros(n_rows), np.zeros(self.n_atoms)
        for J in blocks:
            x = self.centred(J)
            across, centre = np.zeros_like(x), np.zeros((self.n_atoms, len(J)))
            for K in blocks:
                z = x if K is J else self.centred(K)
                across += z @ inverse[np.ix_(K, J)]
                centre += self.means(z) @ inverse[np.ix_(K, J)]
            leverage += np.einsum("ij,ij->i", x, across)
            inner += np.einsum("ij,ij->i", self.means(x), centre)
            for a in range(len(J)):
                along += x[:, a] * self.h_of(centre[:, a])
        mean = self.means(leverage[:, None])[:, 0] - 2.0 * inner
        of_row = leverage * self.h - 2.0 * along - self.h_of(mean)
        return self.rows.slopes(of_row)

    def cross(self, x, z):
        mean = self.means(x)
        other = mean if z is x else self.means(z)
        weighted = (x * self.h[:, None]).T @ z
        part = weighted - (mean * self.atom_weight[:, None]).T @ other
        return part, np.diagonal(weighted)

    def own(self, x):
        return self.h @ x**2 - self.atom_weight @ self.means(x) ** 2


def _by_sign(weight, squares, *args):
    """Sum of squares times weights of any sign: a matrix times its own transpose is half the work.

    ``squares(some, root, *args)`` has the sum over some of them, of what is multiplied by a root.
    """
    total = 0.0
    for sign in (1.0, -1.0):
        some = np.flatnonzero(sign * weight > 0)
        if len(some):
            total = total + sign * squares(some, np.sqrt(np.abs(weight[some])), *args)
    return total


def _square(some, root, mean):
    part = mean[:, some]
    part *= root
    return part @ part.T


def view_of(rows: FittedRows) -> View:
    """View of a fit's likelihood."""
    return rows.problem.likelihood.pattern.information(rows)
