"""Cox-type likelihoods on the device."""

import numpy as np

from .. import risk_set_logs as in_logs
from .. import risk_set_steps, shared_steps
from .. import risk_sets as kernels
from ..bins import Bins
from ._base import Pattern


class RiskSetPattern(Pattern):
    """Cox-type likelihoods."""

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        self.is_exact = problem.plan.bins.is_exact
        plan, device = problem.plan, layout.device
        self._is_delayed, self.few = plan.enter_idx is not None, plan.few
        self._uses_ties = self.likelihood.uses_ties
        self._sets, self._exit_idx = self._upload_sets(plan), plan.exit_idx.astype(np.int64)
        self._cells = self._take_cells(plan.n_cells)
        self._top = device.zeros(n_fits, np.float64)
        self._is_in_logs = np.zeros(n_fits, bool)
        self._evaluate = kernels.evaluation(self.likelihood.jump_formula)
        self._bin_cells = kernels.BinCells(
            device.upload(plan.bins.start),
            device.upload(plan.bins.end),
            self._of_weighted("bin_inverse"),
        )
        self.bins = self._take_bins(plan)

    @staticmethod
    def bytes_of_fit(plan):
        """w of rows, its change, c of carried; sums, hazards, deaths, moments of cells; bins."""
        return 24 * plan.n_rows + 8 * 13 * plan.n_cells + 8 * 5 * plan.n_bins

    def _upload_sets(self, plan):
        upload = self.layout.device.upload
        is_first = np.zeros(plan.n_cells, np.uint8)
        is_first[plan.cell_ptr[:-1]] = 1
        enter_idx = plan.enter_idx if self._is_delayed else np.empty(0)
        return kernels.RiskSets(
            upload(plan.exit_idx.astype(np.int32)),
            upload(enter_idx.astype(np.int32)),
            *map(upload, plan_marks(plan)),
            upload(is_first),
            self.live,
            self._of_weighted("deaths"),
            self._of_weighted("death_weight"),
        )

    def _take(self, size, is_there=True):
        """Memory of every fit; (1, 0) for what takes no part."""
        shape = (self.n_fits, size) if is_there else (1, 0)
        return self.layout.device.empty(shape, np.float64)

    def _take_cells(self, n_cells):
        return kernels.Cells(
            *(self._take(n_cells) for _ in range(2)),
            rest=self._take(n_cells, self._is_delayed),
            held=self._take(n_cells, self._uses_ties),
        )

    def _take_bins(self, plan):
        """Memory of the quadratic model; where bins are many, no numbers of bins."""
        upload, bins, few = self.layout.device.upload, plan.bins, self.few
        is_entered, is_carried = few and self._is_delayed, few and self._is_carried(plan)
        enter_bin = bins.cell_bin[plan.enter_idx] if is_entered else np.empty(0)
        return Bins(
            upload(bins.cell_bin[plan.exit_idx].astype(np.int32)),
            upload(enter_bin.astype(np.int32)),
            self._sets.enter_idx,
            self._take(plan.n_cells, is_entered),
            self._take(plan.n_rows, few),
            self._take(plan.n_rows, is_carried),
            upload(bins.last),
            self._take(bins.n_bins, few),
            self._take(bins.n_bins, few),
            self._take(bins.n_bins, is_carried),
            self._take(bins.n_bins, is_carried),
            self._take(bins.n_bins),
        )

    def _is_carried(self, plan):
        """Whether rows have a part in the bins after their exit."""
        return False

    def evaluate(self, fits, eta, loglik):
        numbers = self._sets, self.rows, self._cells, eta, loglik, self._top
        self.layout.launch_teams(self._evaluate, fits, *numbers)
        if not self._is_delayed:
            lost = ~np.isfinite(self.layout.device.download(loglik)[fits])
            self._is_in_logs[fits] = lost
            if lost.any():
                kernel = in_logs.evaluation(self.likelihood.jump_formula)
                self.layout.launch_teams(kernel, fits[lost], *numbers)

    def refer(self, fits, eta, rh):
        lost = self._is_in_logs[fits]
        if lost.any():
            self._launch_rows(in_logs.curvature, fits[lost], self.rows, self.bins, rh)
        if not lost.all():
            self._refer(fits[~lost], eta, rh)

    def _refer(self, fits, eta, rh):
        model = self._bin_cells, self.bins, rh
        numbers = self._sets, self.rows, self._cells, eta, self._top, *model
        self._launch_rows(kernels.curvature, fits, *numbers)

    def _launch_rows(self, kernel, fits, *arguments):
        fits = self.layout.device.upload(fits)
        self.layout.launch_wide(kernel, self.rows.u.shape[1], fits, *arguments)

    def exact_steps(self, fits, eta, rh):
        formula = self.likelihood.coordinate_formula
        if self._is_delayed or not self.layout.is_whole:
            state = self._state_of_steps(eta, 1 + self._uses_ties, 0)
            return shared_steps.steps_of(formula, state)
        # neighbouring members may have a cell in common
        state = self._state_of_steps(eta, 1 + self._uses_ties, self.layout.n_ranges)
        return risk_set_steps.steps_of(formula, state, self._most_cells)

    def _state_of_steps(self, eta, n_sums, n_shared, carry=0, n_lane_cells=0):
        width, n_cells = self.layout.width, self._cells.jump.shape[1] + n_shared
        size = width * (n_sums * n_cells + n_lane_cells)
        moments = self.layout.device.empty((self.n_fits, size), np.float64)
        # only where neighbours may have cells in common, these are members' own
        change = self.layout.device.empty(eta.shape if n_shared else (1, 0), np.float64)
        of_rows = self._sets, self.rows, self._cells, eta
        return risk_set_steps.RiskSteps(*of_rows, carry, change, moments, width, n_sums * width)

    def _most_cells(self, size):
        """Cells in which the rows of a member exit, at most."""
        cut = self.layout.cut[:: self.layout.n_ranges // size]
        low, high = cut[:-1], cut[1:]
        first, last = self._exit_idx[np.minimum(low, high - 1)], self._exit_idx[high - 1]
        return int((last - first)[high > low].max()) + 1

    def baseline(self, fit):
        """Logarithm of the cumulative hazard of a zero predictor, per cell, as on the CPU."""
        download = self.layout.device.download
        hazard = download(self._cells.hazard[int(fit)])
        if self._is_in_logs[fit]:
            return hazard
        with np.errstate(divide="ignore"):
            return np.log(hazard) - download(self._top)[fit]


def plan_marks(plan):
    """Order of the marks (empty where they are the rows), and what they say.

    Marks of cell 0 count in no risk set: they are left out where that costs nothing.
    """
    is_first = np.zeros(plan.n_cells, bool)
    is_first[plan.cell_ptr[:-1]] = True
    cell, order = plan.exit_idx, np.empty(0, np.int32)
    if plan.n_pieces > 1 or plan.enter_idx is not None:
        code = np.arange(plan.n_rows, dtype=np.int32)
        if plan.enter_idx is not None:
            cell, code = np.concatenate([cell, plan.enter_idx]), np.concatenate([code, ~code])
        counts = np.flatnonzero(~is_first[cell])
        counts = counts[np.argsort(cell[counts], kind="stable")]
        cell, order = cell[counts], code[counts]
    group = np.repeat(np.arange(len(plan.cell_ptr) - 1), np.diff(plan.cell_ptr))[cell]
    last = flag_runs(group, kernels.LAST_OF_GROUP) | flag_runs(cell, kernels.LAST_OF_CELL)
    return order, last | flag_runs(cell[::-1], kernels.FIRST_OF_CELL)[::-1]


def flag_runs(labels, flag):
    """A flag at the last of every run of equal labels."""
    is_last = np.ones(len(labels), bool)
    is_last[:-1] = labels[1:] != labels[:-1]
    return is_last * np.uint8(flag)
