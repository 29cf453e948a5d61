"""What the likelihoods have in common at their coefficients: information and scores.

A *view* reads the state of a likelihood for blocks of dense columns. With its h and its atoms (see
`risk_sets`; the groups of a model without time, or all rows under an intercept, are atoms too),
the information is X' diag(h) X - M' diag(N) M, exactly, with M the means over the atoms. Only the
exact conditional logistic likelihood is another sum (`subsets`).

The slope of log det(information) is tr(A dI), A the inverse. An atom has the distribution p over
its rows with means m, and dI is the sum of N times third moments about m, so that, with
q_i = x_i'Ax_i and without what is constant within an atom,

    tr(A dI) = sum over atoms of N X'(diag(p) - pp')(q - 2 X A m)
"""

from __future__ import annotations

import copy
from functools import cached_property
from itertools import combinations_with_replacement

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.sparse import csr_array

from ..patterns.carried.censoring import add_censoring_scores, plan_schedule
from ..patterns.risk_sets.information import (
    CellScores,
    Lanes,
    RiskSetRows,
    atoms_of,
    scale_risk,
    scan_expected,
    scan_scores,
    sum_cells,
)
from ..patterns.subsets.information import SubsetMoments
from .rows import FittedRows

__all__ = ["RiskSetView", "View", "view_of"]

SMALLEST_RISK = 1e-280  # below, a sum over a risk set has lost its digits


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

    def default_clusters(self) -> np.ndarray | None:
        """Rows that belong together unless a user says otherwise, in the caller's order."""
        return getattr(self.rows.outcome, self.rows.estimator._clusters, None)

    def meat(self, cluster) -> np.ndarray:
        """Sum over clusters of the squares of their scores; None: every row by itself."""
        p, collect = self.rows.n_coef, self.collector(cluster)

        def sums(columns):
            return collect(self.scores(self.centred(columns)))

        blocks = self.rows.blocks(3 * self.rows.plan.n_rows)
        total = np.zeros((p, p))
        for first, second in combinations_with_replacement(range(len(blocks)), 2):
            J, K = blocks[first], blocks[second]
            left = sums(J)
            part = left.T @ (left if first == second else sums(K))
            total[np.ix_(J, K)], total[np.ix_(K, J)] = part, part.T
        return total

    def collector(self, cluster):
        """Function from numbers of rows to their sums over clusters; None: every row by itself."""
        if cluster is None:
            return self.rows.per_row
        plan = self.rows.plan
        of_row = plan.per_copy(cluster[plan.order])
        n = len(of_row)
        collect = csr_array((np.ones(n), (of_row, np.arange(n))), shape=(cluster.max() + 1, n))
        return lambda numbers: collect @ numbers


class _MeanView(View):
    """Likelihoods whose information is X' diag(h) X - M' diag(N) M."""

    h: np.ndarray
    atom_weight: np.ndarray

    def means(self, x) -> np.ndarray:
        """Means of dense columns over every atom."""
        raise NotImplementedError

    def h_of(self, factor) -> np.ndarray:
        """What h were if the weights of the atoms were multiplied by a factor."""
        raise NotImplementedError

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


class GroupView(_MeanView):
    """Models without time: rows in groups, within which the mean is free."""

    def __init__(self, rows):
        super().__init__(rows)
        session, plan = rows.session, rows.plan
        self.h = np.empty(len(session.eta))
        session.pattern.observe(session.eta, session.u, self.h)
        self._member = csr_array((self.h, np.arange(plan.n_rows), plan.ptr))
        self.atom_weight = self._member.sum(axis=1)
        self._some = self.atom_weight > 0
        self.n_atoms = len(self.atom_weight)

    def means(self, x):
        sums = self._member @ x
        sums[self._some] /= self.atom_weight[self._some, None]
        sums[~self._some] = 0.0
        return sums

    def h_of(self, factor):
        return self.h * factor[self.rows.plan.group_idx]

    def scores(self, x):
        return (x - self.means(x)[self.rows.plan.group_idx]) * self.rows.session.u[:, None]


class RowView(GroupView):
    """Generalized linear models; all rows are one group where there is an intercept."""

    def __init__(self, rows):
        super().__init__(rows)
        self.is_free = rows.problem.likelihood.intercept

    def means(self, x):
        return super().means(x) if self.is_free else np.zeros((1, x.shape[1]))

    def traces(self, inverse):
        """Without an intercept, or with one that is a column, of which h is a function."""
        blocks, leverage = self._pair_blocks(), np.zeros(self.rows.plan.n_rows)
        for J in blocks:
            x = self.rows.block(J)
            for K in blocks:
                z = x if K is J else self.rows.block(K)
                leverage += np.einsum("ij,ij->i", z @ inverse[np.ix_(K, J)], x)
        slope = self.rows.problem.likelihood.curvature_slope(self.rows.session.eta)
        return self.rows.slopes(leverage * slope * self.rows.weight)


class SubsetView(View):
    """Exact conditional logistic regression."""

    widest = 32  # moments take a number for each pair of columns and number of cases

    def __init__(self, rows):
        super().__init__(rows)
        self._moments = SubsetMoments(rows)

    def cross(self, x, z):
        return self._moments.cross(x, z)

    def traces(self, inverse):
        root = cholesky(inverse, lower=True)
        z = self.centred(np.arange(self.rows.n_coef)) @ root
        return solve_triangular(root, self._moments.third(z), lower=True, trans="T")

    def scores(self, x):
        return x * self.rows.session.u[:, None]  # which sums to 0 within a set


class RiskSetView(_MeanView):
    """Cox-type likelihoods, with rows that are carried beyond their exit or without."""

    def __init__(self, rows):
        super().__init__(rows)
        plan, counts = rows.plan, rows.session.pattern.weighted
        self._lanes = self._take_lanes()
        group_idx = np.searchsorted(plan.cell_ptr, plan.exit_idx, side="right") - 1
        risk = np.empty(plan.n_rows)
        scale_risk(rows.session.eta, counts.live, plan.cell_ptr, group_idx, risk)
        self.state = RiskSetRows(
            plan.exit_idx,
            np.empty(0, np.uint32) if plan.enter_idx is None else plan.enter_idx,
            (plan.event > 0) & (rows.weight > 0),
            risk,
            rows.weight,
            plan.cell_ptr,
        )
        self.atoms = atoms_of(counts.deaths, counts.death_weight, rows.problem.likelihood.uses_ties)
        self.n_atoms = len(self.atoms.cell)
        den = self._sums(np.ones((plan.n_rows, 1)))[:, 0]
        if not (den > SMALLEST_RISK).all():
            raise ValueError(
                "the linear predictor spans too wide a range within a risk set for its means to "
                "be computed; rescale columns with huge coefficients, or leave them out."
            )
        self.den = den

    def _take_lanes(self) -> Lanes:
        none, numbers = np.empty(0, np.uint32), np.empty(0)
        return Lanes(none, numbers, np.zeros(1, np.int64), np.empty(0, np.int64), numbers)

    def _sums(self, x):
        """Sums over the risk sets of the atoms."""
        n_cells, width = self.rows.plan.n_cells, x.shape[1]
        total = np.zeros((n_cells, width))
        tied = np.zeros((n_cells if self.rows.problem.likelihood.uses_ties else 0, width))
        sum_cells(self.state, self._lanes, x, total, tied)
        cell, fraction, _ = self.atoms
        return total[cell] - fraction[:, None] * tied[cell] if len(tied) else total[cell]

    def means(self, x):
        return self._sums(x) / self.den[:, None]

    @property
    def atom_weight(self):
        return self.atoms.weight

    @cached_property
    def h(self):
        return self.h_of(1.0)

    def h_of(self, factor):
        return self.expected(self.atoms.weight * factor) * self.rows.weight

    def expected(self, atom_weight) -> np.ndarray:
        """Expected events of every row per unit of weight, if atoms had these weights."""
        out = np.empty(self.rows.plan.n_rows)
        slope = atom_weight / self.den
        scan_expected(self.state, self._lanes, self.atoms, slope, self.cells(0), out)
        return out

    def cells(self, width) -> CellScores:
        """Room for the scans of some columns."""
        n_cells, n_lanes = self.rows.plan.n_cells, len(self._lanes.survival)
        numbers, columns = np.zeros((2, n_cells)), np.zeros((3, n_cells, width))
        return CellScores(
            numbers[0],
            columns[0],
            numbers[1],
            columns[1],
            columns[2],
            np.zeros(n_lanes),
            np.zeros((n_lanes, width)),
        )

    def unit_scores(self, x) -> np.ndarray:
        """Score residuals of every row per unit of its weight."""
        return self._scan(x, self.means(x))[0]

    @property
    def slope(self) -> np.ndarray:
        """Hazard of every atom at a zero predictor, on the scale of its group."""
        return self.atoms.weight / self.den

    def _scan(self, x, mean) -> tuple[np.ndarray, CellScores]:
        out, cells = np.empty_like(x), self.cells(x.shape[1])
        scan_scores(self.state, self._lanes, x, self.atoms, self.slope, mean, cells, out)
        return out, cells

    def scores(self, x):
        return self.scores_of(x, self.means(x))

    def scores_of(self, x, mean) -> np.ndarray:
        """Scores along columns with given means over the atoms."""
        return self._scan(x, mean)[0] * self.rows.weight[:, None]

    def schoenfeld(self, x) -> np.ndarray:
        """Columns of every event less their average mean over the atoms of its cell."""
        cell, starts, counts = np.unique(self.atoms.cell, return_index=True, return_counts=True)
        mean = np.add.reduceat(self.means(x), starts) / counts[:, None]
        own = np.searchsorted(cell, self.state.exit_idx[self.state.event])
        return x[self.state.event] - mean[own]

    def reweighted(self, factor) -> RiskSetView:
        """View in which the atoms' weights are multiplied by a factor, which may be negative."""
        view = copy.copy(self)
        vars(view).pop("h", None)
        view.atoms = self.atoms._replace(weight=self.atoms.weight * factor)
        return view


class CarriedView(RiskSetView):
    """Fine and Gray's model, whose robust scores know that the censoring curve is an estimate."""

    def _take_lanes(self):
        carrying, weighted = self.rows.plan.carrying, self.rows.session.pattern.weighted
        of_plan = carrying.lane_ptr, carrying.lane_cell
        return Lanes(carrying.carry_idx, weighted.inverse, *of_plan, weighted.survival)

    def scores_of(self, x, mean):
        out, cells = self._scan(x, mean)
        schedule = plan_schedule(
            self.rows.plan, self.rows.outcome.time[self.rows.plan.order], self.rows.weight
        )
        add_censoring_scores(schedule, self.state, self._lanes, x, cells, out)
        return out * self.rows.weight[:, None]


_VIEWS = {
    "rows": RowView,
    "group_sums": GroupView,
    "subsets": SubsetView,
    "risk_sets": RiskSetView,
    "carried_risk_sets": CarriedView,
}


def view_of(rows: FittedRows) -> View:
    """View of a fit's likelihood."""
    return _VIEWS[rows.problem.likelihood.pattern](rows)
