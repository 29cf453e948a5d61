"""Means over risk sets, and score residuals, for blocks of dense columns.

The second derivative of a Cox-type log-likelihood is a sum over *atoms*: one for each event time
under Breslow, one for each tied death under Efron. Atom a at cell k(a) spares a fraction f_a of the
tied deaths' w = c exp(eta), so that with D, T the sums of w over the rows at risk and over the
deaths of a cell, and S, R those of w x,

    den_a = D - f_a T,   mean_a = (S - f_a R) / den_a,   g_a = N_a / den_a

    information = X' diag(h) X - sum_a N_a mean_a mean_a'
    score of row i, per unit of its weight, with e = exp(eta):
        delta (x - average of mean_a at its cell) - e sum over atoms at risk of g_a (x - mean_a)
        + delta e sum over atoms of its cell of g_a f_a (x - mean_a)

N_a being the weight of the deaths at the cell over its number of atoms. Sums over cells are scans;
a block costs O((rows + cells) * columns). Rows with a competing event stay (`carried.cpu`)
and add v = w / G(T-) times G_k to later cells, in a scan of their own.
"""

from __future__ import annotations

import copy
from functools import cached_property

import numpy as np

from ...information.entry_scores import EntryScores, runs_of, sums_by_line
from ...information.views import MeanView
from .scans import (
    Atoms,
    CarriedRows,
    CellScores,
    RiskSetRows,
    add_later,
    atoms_of,
    scale_risk,
    scan_expected,
    scan_means,
    scan_scores,
    sum_cells,
)

SMALLEST_RISK = 1e-280  # below, a sum over a risk set has lost its digits


class RiskSetView(MeanView):
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

    def _take_lanes(self) -> CarriedRows:
        none, numbers = np.empty(0, np.uint32), np.empty(0)
        return CarriedRows(none, numbers, np.zeros(1, np.int64), np.empty(0, np.int64), numbers)

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
    def adds_entries(self):
        return not (len(self.state.enter_idx) or len(self._lanes.idx))

    def entry_runs(self, columns):
        """Runs of cells; rows that leave after a run add to one line behind it."""
        X, plan = self.rows.session.products, self.rows.plan
        k, _, event, risk, weight, _ = self.state
        for low, high in runs_of(plan.n_cells, len(columns)):
            end = plan.cell_ptr[np.searchsorted(plan.cell_ptr, high - 1, side="right")]
            w, ptr = risk * weight * ((k >= low) & (k < end)), np.clip(plan.cell_ptr, low, high + 1)
            total = sums_by_line(X, columns, w, k, low, high + 1)
            add_later(total, ptr - low)
            atoms = slice(*np.searchsorted(self.atoms.cell, [low, high]))
            cell = self.atoms.cell[atoms] - low
            sums = total[:, cell]
            if self.rows.problem.likelihood.uses_ties:
                tied = sums_by_line(X, columns, w * event, k, low, high + 1)
                sums -= self.atoms.fraction[atoms] * tied[:, cell]
            sums /= self.den[atoms]
            yield low, high, atoms, sums

    def entry_scores(self):
        (k, _, event, risk, weight, _), n = self.state, self.rows.plan.n_cells
        expected = self.expected(self.atoms.weight)
        weights = [-weight * event, weight * risk]
        if self.rows.problem.likelihood.uses_ties:
            weights.append(-weight * risk * event)
        return EntryScores(weight * (event - expected), k, weights, n, self._tables)

    def _tables(self, columns):
        """Means at cells, and sums of hazards times means, of all deaths and held back by ties.

        A run has one more cell, the one before it, of which the sums go on.
        """
        ptr, sums = self.rows.plan.cell_ptr, 0.0
        for low, high, own, mean in self.entry_runs(columns):
            cells, base = self.cells(len(columns), high - low + 1), low - 1
            cells.hazard_x[0] = sums
            atoms = Atoms(self.atoms.cell[own] - base, *(part[own] for part in self.atoms[1:]))
            state = self.state._replace(cell_ptr=np.clip(ptr - base, 0, high - base))
            scan_means(state, atoms, self.slope[own], np.ascontiguousarray(mean.T), cells)
            held = [cells.held_x[1:]] if self.rows.problem.likelihood.uses_ties else []
            yield low, high, np.concatenate([cells.mean[1:], cells.hazard_x[1:], *held])
            sums = cells.hazard_x[-1]

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

    def cells(self, width, n_cells=None) -> CellScores:
        """Room for the scans of some columns."""
        n_cells, n_lanes = n_cells or self.rows.plan.n_cells, len(self._lanes.survival)
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
