"""Cox-type likelihoods on the CPU: the state of one fit, and its exact coordinate steps.

A coordinate needs the scan of (w, w x, w x^2) over all cells: three suffix sums fused into one
pass, transformed and reduced to slope and curvature on the way (a formula of the likelihood).
"""

from functools import cache

import numpy as np

from ..._compile import BOUND, bind, device, kernel, specialize
from ...backends.cpu import tasks
from ...backends.cpu.bins import Bins, Centring, TreeParts
from ...backends.cpu.columns import add_scaled, column_operation, entry_row, entry_value, n_entries
from ...backends.cpu.exact import Steps
from ...backends.cpu.optional import row_weight
from ...backends.cpu.pattern import PatternOnCpu
from . import cpu_cells as kernels
from . import cpu_tasks as risk_set_tasks
from .cpu_cells import enter_cell
from .cpu_tree import evaluate_on_tree, spread_over_bins, trees_of_jumps

coordinate_formula = scan_cells = BOUND


@column_operation
def _scatter(rows, values, shift, state):
    """Put w x and w x^2 of the column's rows into the cells where they exit and enter."""
    risk_sets, w_row, moments, _ = state
    for q in range(n_entries(rows, values)):
        i = entry_row(rows, q, shift)
        x = entry_value(values, q)
        k, e = risk_sets.exit_idx[i], enter_cell(risk_sets.enter_idx, i)
        first, second = w_row[i] * x, w_row[i] * x * x
        moments[k, 1] += first
        moments[k, 2] += second
        moments[e, 1] -= first
        moments[e, 2] -= second
        if risk_sets.event[i]:
            moments[k, 4] += first
            moments[k, 5] += second
    return 0.0


@column_operation
def _refresh_rows(rows, values, shift, state):
    """New w of the column's rows, and its change in the cells' sums."""
    risk_sets, w_row, moments, eta = state
    for q in range(n_entries(rows, values)):
        i = entry_row(rows, q, shift)
        c = row_weight(risk_sets.weight, i)
        w = c * np.exp(eta[i]) if risk_sets.live[i] else 0.0
        k, e = risk_sets.exit_idx[i], enter_cell(risk_sets.enter_idx, i)
        change = w - w_row[i]
        w_row[i] = w
        moments[k, 0] += change
        moments[e, 0] -= change
        if risk_sets.event[i]:
            moments[k, 3] += change
    return 0.0


@kernel
def fill_cells(risk_sets, eta, w_row, moments):
    """w of every row and its sums per cell: columns of `moments` are sums of w, w x and w x^2
    over exits minus entries, then the same over deaths."""
    moments[:] = 0.0
    for i in range(len(eta)):
        c = row_weight(risk_sets.weight, i)
        w = c * np.exp(eta[i]) if risk_sets.live[i] else 0.0
        w_row[i] = w
        k = risk_sets.exit_idx[i]
        moments[k, 0] += w
        moments[enter_cell(risk_sets.enter_idx, i), 0] -= w
        if risk_sets.event[i]:
            moments[k, 3] += w


def _scan_cells(risk_sets, moments):
    """Slope (without the events' part) and curvature along the scattered column."""
    slope, curvature = 0.0, 0.0
    for s in range(len(risk_sets.cell_ptr) - 1):
        s0, s1, s2 = 0.0, 0.0, 0.0
        for k in range(risk_sets.cell_ptr[s + 1] - 1, risk_sets.cell_ptr[s], -1):
            s0 += moments[k, 0]
            s1 += moments[k, 1]
            s2 += moments[k, 2]
            deaths = risk_sets.deaths[k]
            if deaths > 0.0:
                g, h = coordinate_formula(
                    s0,
                    s1,
                    s2,
                    moments[k, 3],
                    moments[k, 4],
                    moments[k, 5],
                    risk_sets.death_weight[k],
                    deaths,
                )
                slope -= g
                curvature += h
    return slope, curvature


@device
def _clear(moments):
    for k in range(len(moments)):
        moments[k, 1] = moments[k, 2] = moments[k, 4] = moments[k, 5] = 0.0


def _derivatives(X, j, state):
    risk_sets, _, moments, _ = state
    _scatter(X, j, state)
    slope, curvature = scan_cells(risk_sets, moments)
    _clear(moments)
    return slope, curvature


@device
def _advance(X, j, step, state):
    add_scaled(X, j, (state[3], step))
    _refresh_rows(X, j, state)


@cache
def steps_of(formula):
    """Functions of exact steps under a likelihood's `coordinate_formula`."""
    scan = device(bind(_scan_cells, coordinate_formula=formula))
    return device(bind(_derivatives, scan_cells=scan)), _advance


@cache
def _evaluation_in_logs(template, formula):
    """Kernel of an evaluation in logarithms under a likelihood's `jump_formula`."""
    return specialize(template, scan=device(bind(kernels.scan_log_cells, jump_formula=formula)))


def risk_sets_of(plan, live, weight, deaths, death_weight):
    """`RiskSets` of a row plan, whose `live` rows have weights (None: all one)."""
    return kernels.RiskSets(
        plan.exit_idx,
        plan.enter_idx,
        plan.event,
        live,
        plan.cell_ptr,
        weight,
        deaths,
        death_weight,
    )


def new_cells(n_cells, has_entries, uses_ties):
    """Memory of scans over cells."""
    risk, hazard = np.zeros((2, n_cells))
    ties = np.zeros((2, n_cells)) if uses_ties else (None, None)
    return kernels.Cells(risk, hazard, np.zeros(n_cells) if has_entries else None, *ties)


def centre(of_rows, w_row, enter_hazard, edges, inverse, carried_row=None, back_edges=None):
    """The model's second term, by A (and B, where rows are carried) at both edges of every bin."""
    (base, end), (before, after) = edges, (None, None) if back_edges is None else back_edges
    bins = Bins(
        of_rows.exit_bin,
        of_rows.last,
        np.ascontiguousarray(base),
        end - base,
        inverse,
        of_rows.row_ptr,
        w_row,
        of_rows.enter_bin,
        enter_hazard,
        carried_row,
        None if after is None else np.ascontiguousarray(after),
        None if after is None else before - after,
    )
    return Centring(bins, of_rows.few)


def ratio_of_logs(low, high):
    """Ratio of numbers given by logarithms, 0 where both are 0."""
    return np.exp(low - np.where(high > -np.inf, high, 0.0))


class RiskSetsOnCpu(PatternOnCpu):
    """Cox-type likelihoods."""

    _kernel_of = staticmethod(risk_set_tasks.kernel_of)

    def __init__(self, problem, weight, threads):
        super().__init__(problem, weight, threads)
        plan, weighted = problem.plan, self.weighted
        self.risk_sets = risk_sets_of(
            plan, weighted.live, weighted.weight, weighted.deaths, weighted.death_weight
        )
        has_entries, uses_ties = plan.enter_idx is not None, problem.likelihood.uses_ties
        self.cells = new_cells(plan.n_cells, has_entries, uses_ties)
        self._blocks = risk_set_tasks.blocks_of(plan, self._row_blocks, self._is_in_order())
        self.top, self._in_logs = 0.0, False
        self._state = (self.risk_sets,)  # what kernels are given first
        self._template_in_logs = evaluate_on_tree if has_entries else kernels.evaluate_in_logs
        self.group_ptr, self.is_exact = plan.stratum_ptr, plan.bins.is_exact

    def _is_in_order(self):
        return self.weighted.plan.is_in_order

    def evaluate(self, eta, u):
        formula = self._likelihood.jump_formula
        given, compiled = (*self._state, eta, u, self.cells), self._kernel_of(formula)
        loglik, self.top = risk_set_tasks.run(self._threads, compiled, given, self._blocks)
        self._in_logs = not np.isfinite(loglik)
        if self._in_logs:
            loglik, self.top = _evaluation_in_logs(self._template_in_logs, formula)(*given)
        return loglik

    def refer(self, eta, u, h):
        if self._in_logs:
            is_delayed = self.risk_sets.enter_idx is not None
            bins_of = self._bins_by_span if is_delayed else self._bins_in_logs
            return Centring(bins_of(eta, h), self.weighted.plan.few)
        w_row = np.empty(len(eta))
        self._write_curvature(eta, h, w_row)
        return self._centre(w_row, self.cells.hazard, self.weighted.bin_inverse)

    def _bins_in_logs(self, eta, h):
        """Bins of rows without delayed entry, and h."""
        bins, of_rows = self.weighted.plan.bins, self.weighted.plan.row_bins
        start, end = self.cells.hazard[bins.start], self.cells.hazard[bins.end]
        w_row = np.empty(len(h))
        kernels.curvature_in_logs(
            self.risk_sets, eta, self.cells, start[of_rows.exit_bin], h, w_row
        )
        decay = ratio_of_logs(start, end)
        return Bins(
            of_rows.exit_bin,
            of_rows.last,
            np.ones(len(decay)),
            1.0 - decay,
            self.weighted.bin_inverse,
            of_rows.row_ptr,
            w_row,
            decay=decay,
        )

    def _bins_by_span(self, eta, h):
        """Bins of rows with delayed entry, whose sums no entry is taken out of, and h."""
        bins, of_rows = self.weighted.plan.bins, self.weighted.plan.row_bins
        trees = trees_of_jumps(self.cells.rest, bins.start, bins.end)
        shape = 2 + 2 * int(bins.n_bins).bit_length(), len(h)
        nodes, parts = np.zeros(shape, of_rows.exit_bin.dtype), np.zeros(shape)
        held, enter, leave = self.cells.held, of_rows.enter_bin, of_rows.exit_bin
        most = spread_over_bins(self.risk_sets, eta, held, enter, leave, trees, nodes, parts)
        h[:] = parts[:most].sum(axis=0)
        parent, zeros = np.maximum(np.arange(2 * bins.n_bins) >> 1, 1), np.zeros(bins.n_bins)
        share = ratio_of_logs(trees.bins, trees.bins[parent])
        parts = TreeParts(nodes[:most], parts[:most], share)
        inverse = self.weighted.bin_inverse
        return Bins(leave, of_rows.last, zeros, zeros, inverse, None, parts=parts)

    def _write_curvature(self, eta, h, w_row):
        tasks.run_blocks(
            self._threads,
            self._blocks.rows,
            kernels.curvature,
            self.risk_sets,
            eta,
            self.top,
            self.cells,
            h,
            w_row,
        )

    def _centre(self, w_row, hazard, inverse, carried_row=None, back=None):
        """The model's second term; `back` is B where rows are carried."""
        bins, of_rows = self.weighted.plan.bins, self.weighted.plan.row_bins
        at_entry = None if of_rows.enter_bin is None else hazard[self.risk_sets.enter_idx]
        edges = hazard[bins.start], hazard[bins.end]
        back_edges = None if back is None else (back[bins.start], back[bins.end])
        return centre(of_rows, w_row, at_entry, edges, inverse, carried_row, back_edges)

    def baseline(self):
        """Logarithm of the cumulative hazard of a zero predictor, per cell.

        A hazard itself may overflow where rows lie far from zero, and their curves would not.
        """
        if self._in_logs:
            return self.cells.hazard.copy()
        with np.errstate(divide="ignore"):
            logs = np.log(self.cells.hazard)
        logs -= self.top
        return logs

    def exact_steps(self, eta):
        w_row, moments = np.empty(len(eta)), np.empty((len(self.cells.risk), 6))
        eta -= np.max(eta[self.risk_sets.live])
        fill_cells(self.risk_sets, eta, w_row, moments)
        state = self.risk_sets, w_row, moments, eta
        return Steps(*steps_of(self._likelihood.coordinate_formula), state)
