"""Risk sets of predictors of any range, without delayed entry: every sum is a logarithm.

As `backends.cpu.risk_sets.evaluate_in_logs`, in the phases of `risk_sets`.  Sums are scanned on
their own scales (`rake.add_scaled`).  The cells hold log a, log A and the logarithm of `held`; u
holds log w until the last phase.
"""

import math
from functools import cache

import numpy as np
from numba import int64

from ..._compile import bind
from ...backends.cuda._cuda import cuda, device, kernel
from ...backends.cuda.products import of_fit
from ...backends.cuda.rake import add_scaled, make_rake
from ...backends.cuda.team import part_of
from .cuda_cells import (
    FIRST_OF_CELL,
    cell_of,
    is_death,
    make_evaluation,
    mark_at,
    part_of_cells,
    part_of_marks,
)


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
        log_term, jump, held = jump_formula(  # noqa: F821 (bound)
            1.0, tied / total, weight, part.deaths[k]
        )
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
        loglik += raise_hazard(part, cell_of(sets, i), *after[:3])  # noqa: F821 (bound)
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
def evaluation(jump_formula):
    """Kernel of the evaluation under a likelihood's `jump_formula`."""
    raise_hazard = device(bind(_raise_hazard, jump_formula=jump_formula))
    take = device(bind(_take_mark, raise_hazard=raise_hazard))
    marks = make_rake(_weigh_mark, take, _load_mark, add_scaled, part_of_marks)
    label = f"in_logs_{jump_formula.__name__}"
    return make_evaluation(label, _no_top, marks, _scan_hazard, _take_expected)


@kernel
def curvature(fits, rows, model):
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
