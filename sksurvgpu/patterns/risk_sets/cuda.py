"""Cox-type likelihoods on a device: all fits of a batch, and predictors of any range.

Where these differ by more than exponentials can hold, and nobody enters late, every sum is a
logarithm, as in `cpu_cells.evaluate_in_logs` and in the phases of `cuda_cells`.  Sums are scanned
on their own scales (`rake.add_scaled`).  The cells hold log a, log A and the logarithm of `held`; u
holds log w until the last phase.
"""

import math
from functools import cache, cached_property

import numpy as np
from numba import int64

from ..._compile import BOUND, bind
from ...backends.cuda._cuda import cuda, device, kernel
from ...backends.cuda.model import Model
from ...backends.cuda.pattern import PatternOnDevice
from ...backends.cuda.products import of_fit
from ...backends.cuda.rake import add_scaled, make_rake
from ...backends.cuda.team import part_of
from ...backends.cuda.weights import add_all, add_runs, number_of
from . import cuda_cells as kernels
from . import cuda_steps as risk_set_steps
from .cuda_cells import (
    FIRST_OF_CELL,
    cell_of,
    is_death,
    make_evaluation,
    mark_at,
    part_of_cells,
    part_of_marks,
)

jump_formula = raise_hazard = BOUND


@device
def _no_top(exchange, part, turn, scratch):
    return 0.0


@device
def _load_mark(context, q):
    sets, part, _, _ = context
    m, code = mark_at(sets, q)
    flag, log_w = int64(sets.flags[m]), part.u[code]
    if not log_w > -np.inf:
        return 0.0, 0.0, 0.0, flag
    return log_w, 1.0, 1.0 if is_death(part, code) else 0.0, flag


@device
def _weigh_mark(context, q):
    """As `_load_mark`, which reads what is written here."""
    sets, part, _, _ = context
    _, i = mark_at(sets, q)
    part.u[i] = math.log(part.weight[i]) + part.eta[i] if part.live[i] != 0 else -np.inf
    return _load_mark(context, q)


def _raise_hazard(part, k, high, total, tied):
    """Jump of a cell; its term of the log-likelihood.

    Formulas are homogeneous: at D they are those at D = 1 shifted by log D.
    """
    log_term, log_jump, log_held = 0.0, -np.inf, -np.inf
    if part.deaths[k] > 0.0:
        weight, log_risk = part.death_weight[k], high + math.log(total)
        log_term, jump, held = jump_formula(1.0, tied / total, weight, part.deaths[k])
        log_term += weight * log_risk
        log_jump, log_held = math.log(jump) - log_risk, math.log(held) - log_risk
    part.jump[k] = log_jump
    if part.held.shape[0] > 0:
        part.held[k] = log_held
    return -log_term


def _take_mark(context, q, before, after):
    """Terms of the log-likelihood: a death's own, that of a cell at its first mark."""
    sets, part, _, _ = context
    m, i = mark_at(sets, q)
    loglik = part.weight[i] * part.eta[i] if is_death(part, i) else 0.0
    if int64(sets.flags[m]) & FIRST_OF_CELL:
        loglik += raise_hazard(part, cell_of(sets, i), *after[:3])
    return loglik, 0.0


@device
def _load_jump(context, k):
    sets, part = context
    flag = int64(sets.is_first[k])
    if part.deaths[k] > 0.0:
        return part.jump[k], 1.0, 0.0, flag
    return 0.0, 0.0, 0.0, flag


@device
def _take_hazard(context, k, before, after):
    _, part = context
    part.hazard[k] = after[0] + math.log(after[1]) if after[1] > 0.0 else -np.inf
    return 0.0, 0.0


_scan_hazard = make_rake(_load_jump, _take_hazard, combine=add_scaled, part=part_of_cells)


@device
def _take_expected(exchange, sets, part):
    """u from log w: observed minus expected events."""
    low, high = part_of(part.eta.shape[0], exchange)
    i = low + cuda.threadIdx.x
    while i < high:
        log_w, k, u = part.u[i], sets.exit_idx[i], 0.0
        if part.live[i] != 0:
            u = -math.exp(log_w + part.hazard[k])
            if part.value[i] > 0.0:
                u += part.weight[i]
                if part.held.shape[0] > 0:
                    u += math.exp(log_w + part.held[k])
        part.u[i] = u
        i += cuda.blockDim.x


@cache
def evaluation_in_logs(jump_formula):
    """Kernel of the evaluation under a likelihood's `jump_formula`."""
    raise_hazard = device(bind(_raise_hazard, jump_formula=jump_formula))
    take = device(bind(_take_mark, raise_hazard=raise_hazard))
    marks = make_rake(_weigh_mark, take, _load_mark, add_scaled, part_of_marks)
    label = f"in_logs_{jump_formula.__name__}"
    return make_evaluation(label, _no_top, marks, _scan_hazard, _take_expected)


@kernel
def curvature_in_logs(fits, rows, model):
    """h of every row; w and the hazards have no common scale, so the model is that without bins."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    for t in range(fits.shape[0]):
        fit = fits[t]
        weight = of_fit(rows.weight, fit)
        i = first
        while i < rows.u.shape[1]:
            model.h[fit, i] = max(weight[i] * rows.value[i] - rows.u[fit, i], 0.0)
            if model.w.shape[1] > 0:
                model.w[fit, i] = 0.0
            i += step
        k = first
        while k < model.last.shape[0]:
            model.inverse[fit, k] = 0.0
            if model.w.shape[1] > 0:
                model.base[fit, k] = model.jump[fit, k] = 0.0
            k += step


class RiskSetsOnDevice(PatternOnDevice):
    """Cox-type likelihoods."""

    has_exact_steps = True

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        self.is_exact = problem.plan.bins.is_exact
        plan, device = problem.plan, layout.device
        self._is_delayed, self.few = plan.enter_idx is not None, plan.few
        self._uses_ties = self.likelihood.uses_ties
        self._sets = device.pack(self._find_sets(layout.plan))
        self._cells = device.pack(self._take_cells(plan.n_cells))
        self._top = device.zeros(n_fits, np.float64)
        self._evaluate = kernels.evaluation(self.likelihood.jump_formula)
        runs = layout.plan.begin, layout.plan.stop
        [inverse] = self._add_weights(runs, self._sets.death_weight, ["inverse"], few=plan.few)
        bin_cells = kernels.BinCells(layout.plan.start, layout.plan.end, inverse)
        self._bin_cells = device.pack(bin_cells)

    @staticmethod
    def bytes_of_fit(plan):
        """w of rows; hazards, deaths, sums of exact steps of cells; bins: models are two."""
        return 16 * plan.n_rows + 8 * 11 * plan.n_cells + 8 * 10 * plan.n_bins

    def _find_sets(self, plan):
        """Risk sets of the plan on the device, and the deaths that count in every cell."""
        ptr, row = plan.death_ptr, plan.death_row
        self.live = self._keep_counted(plan.may_count)
        runs, wanted = (ptr[:-1], ptr[1:]), ("total", "count")
        weight, deaths = self._add_weights(runs, self.rows.weight, wanted, row)
        return kernels.RiskSets(
            plan.exit_idx,
            plan.enter_idx,
            plan.marks,
            plan.flags,
            plan.is_first,
            self.live,
            deaths,
            weight,
        )

    def _add_weights(self, runs, numbers, wanted, row=None, few=False):
        """Numbers of rows, or of positions, added up in runs."""
        empty = self.layout.device.empty
        context = numbers, empty(0, np.int32) if row is None else row, empty(0, np.float64)
        return add_runs(self.layout, number_of, runs, context, self.n_weights, wanted, few)

    @cached_property
    def _largest(self):
        term = kernels.largest_term_of(self.likelihood.jump_formula)
        return add_all(self.layout, term, self._plan.n_cells, self._sets, self.n_weights)

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

    def new_model(self, row_type):
        """Where bins are many, it has no numbers of bins."""
        plan, described, few = self._plan, self.layout.plan, self.few
        is_entered, is_carried = few and self._is_delayed, few and self._is_carried(plan)
        model = Model(
            described.own,
            described.enter,
            described.enter_idx,
            self._take(plan.n_cells, is_entered),
            self._new_h(row_type),
            self._take(plan.n_rows, few),
            self._take(plan.n_rows, is_carried),
            described.last,
            self._take(plan.n_bins, few),
            self._take(plan.n_bins, few),
            self._take(plan.n_bins, is_carried),
            self._take(plan.n_bins, is_carried),
            self._take(plan.n_bins),
        )
        return self.layout.device.pack(model)

    def _is_carried(self, plan):
        """Whether rows have a part in the bins after their exit."""
        return False

    def evaluate(self, fits, eta, loglik):
        self._launch_evaluation(self._evaluate, fits, eta, loglik)

    def _launch_evaluation(self, kernel, fits, eta, loglik):
        self.layout.launch_teams(
            kernel, fits, self._sets, self.rows, self._cells, eta, loglik, self._top
        )

    @property
    def has_other_way(self):
        return not self._is_delayed

    def evaluate_again(self, fits, eta, loglik):
        kernel = evaluation_in_logs(self.likelihood.jump_formula)
        self._launch_evaluation(kernel, fits, eta, loglik)

    def refer(self, fits, eta, model):
        lost = self.is_again[fits]
        if lost.any():
            self._launch_rows(curvature_in_logs, fits[lost], self.rows, model)
        if not lost.all():
            self._refer(fits[~lost], eta, model)

    def _refer(self, fits, eta, model):
        self._launch_rows(
            kernels.curvature,
            fits,
            self._sets,
            self.rows,
            self._cells,
            eta,
            self._top,
            self._bin_cells,
            model,
        )

    def _launch_rows(self, kernel, fits, *arguments):
        fits = self.layout.served(fits)
        self.layout.launch_wide(kernel, self.rows.u.shape[1], fits, *arguments)

    def exact_steps(self, eta):
        """`exact.Steps` from the predictors, which they move."""
        layout, n_sums = self.layout, 1 + self._uses_ties
        # neighbouring members may have a cell in common
        size = n_sums * layout.width * (self._cells.jump.shape[1] + layout.n_ranges)
        moments = layout.device.empty((self.n_fits, size), np.float64)
        state = risk_set_steps.RiskSteps(
            self._sets, self.rows, self._cells, eta, moments, layout.width, n_sums * layout.width
        )
        return risk_set_steps.steps_of(self.likelihood.coordinate_formula, state, self._most_cells)

    def _most_cells(self, size):
        """Cells in which the rows of a member exit, at most."""
        cuts, step = self.layout.cuts, self.layout.n_ranges // size
        cut = cuts.rows[cuts.ranges[::step]]
        (low, high), exits = (cut[:-1], cut[1:]), self._plan.exit_idx
        first, last = exits[np.minimum(low, high - 1)], exits[high - 1]
        return int((last - first)[high > low].max()) + 1

    def baseline(self, fit):
        """Logarithm of the cumulative hazard of a zero predictor, per cell, as on the CPU."""
        download = self.layout.device.download
        hazard = download(self._cells.hazard[int(fit)])
        if self.is_again[fit]:
            return hazard
        with np.errstate(divide="ignore"):
            return np.log(hazard) - download(self._top)[fit]
