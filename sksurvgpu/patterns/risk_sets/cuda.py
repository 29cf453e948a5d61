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
from ...backends.cuda.pattern import PatternOnDevice
from ...backends.cuda.products import of_fit
from ...backends.cuda.rake import add_scaled, make_rake
from ...backends.cuda.weights import add_all, add_runs, number_of
from . import cuda_cells as kernels
from .cuda_cells import hazard_of_row, is_death, mark_at, part_of_fit, risk_weight
from .cuda_steps import RiskSteps, steps_of

jump_formula = raise_hazard = add_late = BOUND


@device
def _no_top(exchange, part, turn, scratch):
    return 0.0


@device
def _load_mark(context, q):
    sets, _, part, _ = context
    m, code = mark_at(sets, q)
    flag, log_w = int64(sets.flags[m]), part.u[code]
    if not log_w > -np.inf:
        return 0.0, 0.0, 0.0, flag
    return log_w, 1.0, 1.0 if is_death(part, code) else 0.0, flag


@device
def log_weight(part, i, top):
    """Logarithm of w of a row."""
    return math.log(part.weight[i]) + part.eta[i] if part.live[i] != 0 else -np.inf


def _raise_hazard(lanes, part, k, sums):
    """Jump of a cell; its term of the log-likelihood.

    Formulas are homogeneous: at D they are those at D = 1 shifted by log D.
    """
    log_term, log_jump, log_held = 0.0, -np.inf, -np.inf
    if part.deaths[k] > 0.0:
        sums = add_late(lanes, part, k, (sums[0], sums[1], sums[2]))
        weight, log_risk = part.death_weight[k], sums[0] + math.log(sums[1])
        log_term, jump, held = jump_formula(1.0, sums[2] / sums[1], weight, part.deaths[k])
        log_term += weight * log_risk
        log_jump, log_held = math.log(jump) - log_risk, math.log(held) - log_risk
    part.jump[k] = log_jump
    if part.held.shape[0] > 0:
        part.held[k] = log_held
    return -log_term


@device
def _load_jump(context, k):
    sets, _, part, _ = context
    flag = int64(sets.is_first[k])
    if part.deaths[k] > 0.0:
        return part.jump[k], 1.0, 0.0, flag
    return 0.0, 0.0, 0.0, flag


@device
def _take_hazard(context, k, before, after):
    _, _, part, _ = context
    part.hazard[k] = after[0] + math.log(after[1]) if after[1] > 0.0 else -np.inf
    return 0.0, 0.0


_scan_hazard = make_rake(_load_jump, _take_hazard, combine=add_scaled)


@device
def _expected(sets, part, i, log_w):
    """Expected events of a row, and of them what tied deaths do not carry."""
    k = sets.exit_idx[i]
    expected, held = math.exp(log_w + part.hazard[k]), 0.0
    if part.inverse.shape[0] > 0 and part.inverse[i] > 0.0:
        log_c = log_w + math.log(part.inverse[i])
        expected += math.exp(log_c + part.back[sets.lane_idx[i]])
    if part.held.shape[0] > 0 and part.value[i] > 0.0:
        held = math.exp(log_w + part.held[k])
    return expected, held


@device
def _residual(sets, part, i):
    """Observed minus expected events of a row, from log w."""
    if part.live[i] == 0:
        return 0.0
    expected, held = _expected(sets, part, i, part.u[i])
    return (part.weight[i] if part.value[i] > 0.0 else 0.0) - expected + held


@device
def _mark_of_logarithms(top):
    return np.inf


@device
def _add_nothing(lanes, part, k, sums):
    return sums


@cache
def evaluation_in_logs(jump_formula):
    """Kernel of the evaluation under a likelihood's `jump_formula`."""
    return make_phases_in_logs(f"risk_sets_in_logs_{jump_formula.__name__}", jump_formula)


def make_phases_in_logs(label, jump_formula, add_late=_add_nothing, **phases):
    """Kernel; ``add_late(lanes, part, k, sums)`` adds what else is at risk at a cell."""
    formulas = {"jump_formula": jump_formula, "add_late": add_late}
    raise_hazard = device(bind(_raise_hazard, **formulas))
    return kernels.make_phases(
        label,
        find_top=_no_top,
        scan_marks=kernels.make_mark_scan(_load_mark, log_weight, raise_hazard, add_scaled),
        scan_cells=_scan_hazard,
        residual=_residual,
        shift_of=_mark_of_logarithms,
        **phases,
    )


@device
def hazard_at(part, k):
    return part.hazard[k] + part.rest[k] if part.rest.shape[0] > 0 else part.hazard[k]


@device
def _weight_in_logs(sets, part, model, i):
    """h of a row; w A[start] and c B[end] of its bin, as these have no common scale."""
    if part.live[i] == 0:
        return 0.0, 0.0, 0.0
    log_w, w, carried = math.log(part.weight[i]) + part.eta[i], 0.0, 0.0
    expected, held = _expected(sets, part, i, log_w)
    if model.w.shape[1] > 0:
        w = math.exp(log_w + part.hazard[sets.bin_start[model.own[i]]])
    if model.carried.shape[1] > 0 and part.inverse[i] > 0.0:
        log_c = log_w + math.log(part.inverse[i])
        carried = math.exp(log_c + part.back[sets.bin_end[model.own[i]]])
    return expected - held, w, carried


@device
def _refer_row(sets, part, model, fit, i, top):
    """h of a row, and what bins need of it.  As weight*event - u a small h would be lost."""
    if top == np.inf:
        h, w, carried = _weight_in_logs(sets, part, model, i)
    else:
        w, carried = risk_weight(part, i, top), 0.0
        h = w * hazard_of_row(sets, part, i)
        if model.carried.shape[1] > 0:
            carried = w * part.inverse[i]
    model.h[fit, i] = max(h, 0.0)
    if model.w.shape[1] > 0:
        model.w[fit, i] = w
    if model.carried.shape[1] > 0:
        model.carried[fit, i] = carried


@device
def _ratio_of_logs(low, high):
    return math.exp(low - high) if high > -np.inf else 0.0


@device
def _refer_bin(sets, part, model, fit, k, top):
    """A bin's numbers; where bins are many, one a group, there is but one."""
    model.inverse[fit, k] = of_fit(sets.bin_inverse, fit)[k]
    if model.w.shape[1] > 0:
        base, end = hazard_at(part, sets.bin_start[k]), hazard_at(part, sets.bin_end[k])
        jump, decay = end - base, 1.0
        if top == np.inf:
            decay = _ratio_of_logs(base, end)
            base, jump = 1.0, 1.0 - decay
        model.base[fit, k], model.jump[fit, k], model.decay[fit, k] = base, jump, decay
    if model.carried.shape[1] > 0:  # one lane a stratum: its cells are the stratum's
        start, after, fade = part.back[sets.bin_start[k]], part.back[sets.bin_end[k]], 1.0
        fall = start - after
        if top == np.inf:
            fade = _ratio_of_logs(after, start)
            after, fall = 1.0, 1.0 - fade
        model.after[fit, k], model.fall[fit, k], model.fade[fit, k] = after, fall, fade


@kernel
def curvature(fits, state, eta_of_fits, model):
    """h of every row, and the bins' numbers."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    for t in range(fits.shape[0]):
        fit, top = fits[t], state.tops[fits[t]]
        part, i = part_of_fit(state, eta_of_fits[fit], fit), first
        while i < part.eta.shape[0]:
            _refer_row(state.sets, part, model, fit, i, top)
            i += step
        k = first
        while k < model.last.shape[0]:
            _refer_bin(state.sets, part, model, fit, k, top)
            k += step
        k = first
        while k < model.hazard.shape[1]:
            model.hazard[fit, k] = hazard_at(part, k)
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
        lanes, carried = self._find_lanes(layout.plan)
        sets = self._find_sets(layout.plan, carried)
        cells = self._take_cells(plan.n_cells, lanes)
        tops = device.zeros(n_fits, np.float64)
        self._state = device.pack(kernels.RiskState(sets, lanes, self.rows, cells, tops))
        self._evaluate = self._make_evaluation(self.likelihood.jump_formula)

    _make_evaluation = staticmethod(kernels.evaluation)
    _make_evaluation_in_logs = staticmethod(evaluation_in_logs)

    @staticmethod
    def bytes_of_fit(plan):
        """w of rows; hazards, deaths, sums of exact steps of cells; bins: models are two."""
        return 16 * plan.n_rows + 8 * 12 * plan.n_cells + 8 * 12 * plan.n_bins

    def _find_lanes(self, plan):
        """Integers of lanes, and ``lane_idx``, ``inverse`` and ``survival`` of `RiskSets`."""
        return (), (self.layout.device.empty(0, np.int32), self._nothing, self._nothing)

    def _find_sets(self, plan, carried):
        """Risk sets of the plan on the device, and the deaths that count in every cell."""
        ptr, row = plan.death_ptr, plan.death_row
        self.live = self._keep_counted(plan.may_count)
        weight, _, deaths = self._add_weights((ptr[:-1], ptr[1:]), self.rows.weight, row)
        _, inverse, _ = self._add_weights((plan.begin, plan.stop), weight, few=self.few)
        return kernels.RiskSets(
            plan.exit_idx,
            plan.enter_idx,
            plan.marks,
            plan.flags,
            plan.is_first,
            self.live,
            deaths,
            weight,
            plan.start,
            plan.end,
            inverse,
            *carried,
        )

    def _add_weights(self, runs, numbers, row=None, few=False):
        """Numbers of rows, or of positions, added up in runs."""
        empty = self.layout.device.empty
        context = numbers, empty(0, np.int32) if row is None else row, empty(0, np.float64)
        return add_runs(self.layout, number_of, runs, context, self.n_weights, few)

    @cached_property
    def _largest(self):
        term = kernels.largest_term_of(self.likelihood.jump_formula)
        return add_all(self.layout, term, self._plan.n_cells, self._state.sets, self.n_weights)

    def _take_cells(self, n_cells, lanes):
        """Numbers of cells; (1, 0) for what takes no part."""
        nothing = self._nothing
        return kernels.Cells(
            jump=self._take(n_cells),
            hazard=self._take(n_cells),
            rest=self._take(n_cells) if self._is_delayed else nothing,
            held=self._take(n_cells) if self._uses_ties else nothing,
            carried=self._take(len(lanes.row)) if lanes else nothing,
            back=self._take(len(lanes.cell)) if lanes else nothing,
        )

    def new_model(self, row_type):
        """Where bins are many, it has no numbers of bins."""
        plan, described = self._plan, self.layout.plan
        of_bins = {"inverse": self._take(plan.n_bins)}
        of_rows = {"enter": described.enter, "enter_idx": described.enter_idx}
        if self.few:
            of_bins |= {name: self._take(plan.n_bins) for name in ("base", "jump", "decay")}
            of_rows["w"] = self._take(plan.n_rows)
        if self.few and self._is_delayed:
            of_rows["hazard"] = self._take(plan.n_cells)
        if self.few and self._is_carried(plan):
            of_bins |= {name: self._take(plan.n_bins) for name in ("after", "fall", "fade")}
            of_rows["carried"] = self._take(plan.n_rows)
        return self._make_model(row_type, **of_bins, **of_rows)

    def _is_carried(self, plan):
        """Whether rows have a part in the bins after their exit."""
        return False

    @property
    def has_other_way(self):
        return not self._is_delayed

    def evaluate_again(self, fits, eta, loglik):
        kernel = self._make_evaluation_in_logs(self.likelihood.jump_formula)
        self.layout.launch_teams(kernel, fits, self._state, eta, loglik)

    def refer(self, fits, eta, model):
        served, n_rows = self.layout.served(fits), eta.shape[1]
        self.layout.launch_wide(curvature, n_rows, served, self._state, eta, model)

    def exact_steps(self, eta):
        """`exact.Steps` from the predictors, which they move."""
        layout, n_sums = self.layout, 1 + self._uses_ties
        # neighbouring members may have a cell in common
        places = self._plan.n_cells + layout.n_ranges
        shape = self.n_fits, n_sums * layout.width, places
        moments = layout.device.empty(shape, np.float64)
        state = RiskSteps(self._state, eta, moments, layout.width)
        return steps_of(self.likelihood.coordinate_formula, state)

    def baseline(self, fit):
        """Logarithm of the cumulative hazard of a zero predictor, per cell, as on the CPU."""
        download = self.layout.device.download
        hazard, top = download(self._state.cells.hazard[int(fit)]), download(self._state.tops)[fit]
        if top == np.inf:
            return hazard
        with np.errstate(divide="ignore"):
            return np.log(hazard) - top
