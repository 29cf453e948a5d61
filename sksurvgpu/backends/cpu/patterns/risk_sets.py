"""Cox-type likelihoods on the CPU: the state of one fit over the kernels of `risk_sets`."""

from __future__ import annotations

from functools import cache

import numpy as np

from ...._compile import bind, device, specialize
from .. import risk_sets as kernels
from ..bins import Bins, Centring, centres
from ..exact import Steps
from ..interval_tree import evaluate_on_tree
from ..risk_set_cycle import fill_cells, steps_of
from ._base import Pattern


@cache
def evaluation(template, scan, formula):
    """Kernel of a template with a scan of cells under a likelihood's `jump_formula`."""
    return specialize(template, scan=device(bind(scan, jump_formula=formula)))


class RiskSetPattern(Pattern):
    """Cox-type likelihoods."""

    def __init__(self, problem, weight):
        super().__init__(problem, weight)
        plan, weighted = problem.plan, self.weighted
        self.risk_sets = kernels.RiskSets(
            plan.exit_idx,
            plan.enter_idx,
            plan.event,
            weighted.live,
            plan.cell_ptr,
            weighted.weight,
            weighted.deaths,
            weighted.death_weight,
        )
        risk, hazard = np.zeros((2, plan.n_cells))
        rest = None if plan.enter_idx is None else np.zeros(plan.n_cells)
        ties = np.zeros((2, plan.n_cells)) if problem.likelihood.uses_ties else (None, None)
        self.cells = kernels.Cells(risk, hazard, rest, *ties)
        self._evaluate = self._evaluation(kernels.evaluate, kernels.scan_cells)
        self.top, self._in_logs = 0.0, False
        self.group_ptr = np.array([0, plan.n_rows])
        if plan.n_pieces == 1:  # strata are ranges of rows
            edges = np.arange(plan.n_strata + 1)
            self.group_ptr = np.searchsorted(plan.stratum_of_row(), edges)
        self._start_bins(plan)

    def _evaluation(self, template, scan):
        return evaluation(template, scan, self._likelihood.jump_formula)

    def _start_bins(self, plan):
        bins = self._bins = plan.bins
        self.is_exact = bins.is_exact
        delayed, exit_bin = plan.enter_idx is not None, bins.cell_bin[plan.exit_idx]
        self._row_bins = exit_bin, bins.cell_bin[plan.enter_idx] if delayed else None
        self._bin_ptr = None
        if not delayed and plan.n_pieces == 1 and not np.any(exit_bin[1:] < exit_bin[:-1]):
            self._bin_ptr = np.searchsorted(exit_bin, np.arange(bins.n_bins + 1))

    def evaluate(self, eta, u):
        loglik, self.top = self._evaluate(self.risk_sets, eta, u, self.cells)
        self._in_logs = not np.isfinite(loglik)
        if self._in_logs:
            is_delayed = self.risk_sets.enter_idx is not None
            template = evaluate_on_tree if is_delayed else kernels.evaluate_in_logs
            in_logs = self._evaluation(template, kernels.scan_log_cells)
            loglik, self.top = in_logs(self.risk_sets, eta, u, self.cells)
        return loglik

    def refer(self, eta, u, rh):
        w_row = np.empty(len(eta))
        kernels.curvature(self.risk_sets, eta, self.top, self.cells, rh, w_row)
        hazard, inverse = self.cells.hazard, self.weighted.bin_inverse
        if self._in_logs:
            # w and the hazards have no common scale here; without bins the model is only looser
            rh[:, 1] = np.maximum(self.events() - u, 0.0)
            w_row[:], hazard, inverse = 0.0, np.zeros_like(hazard), np.zeros_like(inverse)
        return self._centre(w_row, hazard, inverse)

    def _centre(self, w_row, hazard, inverse, carried_row=None, back=None):
        """The model's second term; `back` is B where rows are carried."""
        plan, enter = self._bins, self.risk_sets.enter_idx
        bins = Bins(
            *self._row_bins,
            None if enter is None else hazard[enter],
            w_row,
            carried_row,
            plan.last,
            base=hazard[plan.start],
            jump=hazard[plan.end] - hazard[plan.start],
            after=None if back is None else back[plan.end],
            fall=None if back is None else back[plan.start] - back[plan.end],
            inverse=inverse,
            center=centres(inverse),
            row_ptr=self._bin_ptr,
        )
        return Centring(bins, plan.few)

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
