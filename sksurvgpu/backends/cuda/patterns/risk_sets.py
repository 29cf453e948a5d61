"""Cox-type likelihoods on the device."""

import numpy as np

from .. import risk_set_logs as in_logs
from .. import risk_set_steps
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
        self._sets = device.pack(self._upload_sets(plan))
        self._cells = device.pack(self._take_cells(plan.n_cells))
        self._top = device.zeros(n_fits, np.float64)
        self._is_in_logs = np.zeros(n_fits, bool)
        self._evaluate = kernels.evaluation(self.likelihood.jump_formula)
        ends = map(device.upload, (plan.bins.start, plan.bins.end))
        bin_cells = kernels.BinCells(*ends, self._of_weighted("bin_inverse"))
        self._bin_cells = device.pack(bin_cells)
        self.bins = device.pack(self._take_bins(plan))

    @staticmethod
    def bytes_of_fit(plan):
        """w of rows, and c of carried ones; sums, hazards, deaths, moments of cells; bins."""
        return 16 * plan.n_rows + 8 * 14 * plan.n_cells + 8 * 5 * plan.n_bins

    def _upload_sets(self, plan):
        upload = self.layout.device.upload
        is_first = np.zeros(plan.n_cells, np.uint8)
        is_first[plan.cell_ptr[:-1]] = 1
        enter_idx = plan.enter_idx if self._is_delayed else np.empty(0)
        deaths = _group_deaths(plan) if self._uses_ties else np.empty((2, 0))
        return kernels.RiskSets(
            upload(plan.exit_idx.astype(np.int32)),
            upload(enter_idx.astype(np.int32)),
            *map(upload, plan_marks(plan)),
            upload(is_first),
            upload(deaths[0].astype(np.int64)),
            upload(deaths[1].astype(np.int32)),
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
            *(self._take(n_cells) for _ in range(3)),
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
        self._is_in_logs[fits] = False
        self._launch_evaluation(self._evaluate, fits, eta, loglik)

    def _launch_evaluation(self, kernel, fits, eta, loglik):
        numbers = self._sets, self.rows, self._cells, eta, loglik, self._top
        self.layout.launch_teams(kernel, fits, *numbers)

    def evaluate_again(self, fits, eta, loglik):
        if self._is_delayed:
            return False
        self._is_in_logs[fits] = True
        kernel = in_logs.evaluation(self.likelihood.jump_formula)
        self._launch_evaluation(kernel, fits, eta, loglik)
        return True

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
        fits = self.layout.served(fits)
        self.layout.launch_wide(kernel, self.rows.u.shape[1], fits, *arguments)

    def exact_steps(self, fits, eta, rh):
        moments = self.layout.device.empty((*self._cells.risk.shape, 6), np.float64)
        state = risk_set_steps.RiskSteps(self._sets, self.rows, self._cells, eta, moments)
        return risk_set_steps.steps_of(self.likelihood.coordinate_formula, state)

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
    last = flag_runs(group, kernels.LAST_OF_GROUP)
    return order, last | flag_runs(cell[::-1], kernels.FIRST_OF_CELL)[::-1]


def flag_runs(labels, flag):
    """A flag at the last of every run of equal labels."""
    is_last = np.ones(len(labels), bool)
    is_last[:-1] = labels[1:] != labels[:-1]
    return is_last * np.uint8(flag)


def _group_deaths(plan):
    """Offsets of every cell's deaths, and their rows."""
    row = np.flatnonzero(plan.event)
    cell = plan.exit_idx[row]
    order = np.argsort(cell, kind="stable")
    return np.searchsorted(cell[order], np.arange(plan.n_cells + 1)), row[order]
