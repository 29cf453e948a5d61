"""Risk sets of predictors of any range, without delayed entry: every sum is a logarithm.

As `backends.cpu.risk_sets.evaluate_in_logs`.  A sum is scanned as a pair (m, s), which stands for
s exp(m).  The cells hold log D, log a, log A and the logarithm of `held`; u holds log w until the
last phase.
"""

import math
from functools import cache

import numpy as np
from numba import int64

from ..._compile import bind
from ._cuda import cuda, device, kernel, specialize
from .products import of_fit
from .risk_sets import FIRST_OF_CELL, LAST_OF_GROUP, cell_of_mark, code_of_mark, part_of_fit
from .scan import make_scan
from .team import barrier, begin, my_team, n_teams, new_scratch, part_of, team_sum


@device
def _add_logs(first, second):
    """Sum of two pairs; s = 0 is the empty sum."""
    if second[1] == 0.0:
        return first[0], first[1]
    if first[1] == 0.0:
        return second[0], second[1]
    top = max(first[0], second[0])
    return top, first[1] * math.exp(first[0] - top) + second[1] * math.exp(second[0] - top)


@device
def _as_pair(log):
    return (log, 1.0) if log > -np.inf else (0.0, 0.0)


@device
def _as_log(high, share):
    return high + math.log(share) if share > 0.0 else -np.inf


@device
def _load_mark(context, q):
    sets, part = context
    m = sets.flags.shape[0] - 1 - q
    high, share = _as_pair(part.u[code_of_mark(sets, m)])
    return high, share, int64(sets.flags[m]) & LAST_OF_GROUP


@device
def _emit_risk(context, q, high, share):
    sets, part = context
    m = sets.flags.shape[0] - 1 - q
    if int64(sets.flags[m]) & FIRST_OF_CELL:
        part.risk[cell_of_mark(sets, m)] = _as_log(high, share)


@device
def _load_jump(context, k):
    sets, part = context
    high, share = _as_pair(part.jump[k])
    return high, share, int64(sets.is_first[k])


@device
def _emit_hazard(context, k, high, share):
    _, part = context
    part.hazard[k] = _as_log(high, share)


_scan_risk = make_scan(_load_mark, _emit_risk, _add_logs)
_scan_hazard = make_scan(_load_jump, _emit_hazard, _add_logs)


@device
def _weigh_rows(exchange, part):
    """log w of a member's rows into u; the thread's part of the events' log-likelihood."""
    low, high = part_of(part.eta.shape[0], exchange)
    loglik = 0.0
    i = low + cuda.threadIdx.x
    while i < high:
        part.u[i] = -np.inf
        if part.live[i] != 0:
            part.u[i] = math.log(part.weight[i]) + part.eta[i]
            if part.value[i] > 0.0:
                loglik += part.weight[i] * part.eta[i]
        i += cuda.blockDim.x
    return loglik


@device
def _share_tied(sets, part, k):
    """T / D of a cell, where the formula looks at it."""
    total = 0.0
    if sets.death_ptr.shape[0] > 0:
        for q in range(sets.death_ptr[k], sets.death_ptr[k + 1]):
            total += math.exp(part.u[sets.death_row[q]] - part.risk[k])
    return total


def _raise_hazard(exchange, sets, part):
    """Jumps of a member's cells; the thread's part of the log-likelihood.

    Formulas are homogeneous: at D they are those at D = 1 shifted by log D.
    """
    low, high = part_of(part.jump.shape[0], exchange)
    loglik = 0.0
    k = low + cuda.threadIdx.x
    while k < high:
        log_jump, log_held = -np.inf, -np.inf
        if part.deaths[k] > 0.0:
            weight = part.death_weight[k]
            log_term, jump, held = jump_formula(  # noqa: F821 (bound)
                1.0, _share_tied(sets, part, k), weight, part.deaths[k]
            )
            loglik -= log_term + weight * part.risk[k]
            log_jump, log_held = math.log(jump) - part.risk[k], math.log(held) - part.risk[k]
        part.jump[k] = log_jump
        if part.held.shape[0] > 0:
            part.held[k] = log_held
        k += cuda.blockDim.x
    return loglik


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


def _evaluate(exchange, sets, rows, cells, eta_of_fits, loglik_of_fits, tops):
    """Log-likelihood per fit; writes u and the cells, whose shift is 0."""
    begin()
    scratch, turn = new_scratch(), 0
    team, member = my_team(exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit = exchange.fits[t]
        part = part_of_fit(sets, rows, cells, eta_of_fits, fit)
        loglik = _weigh_rows(exchange, part)
        barrier(exchange)
        _scan_risk(exchange, sets.flags.shape[0], (sets, part), turn, scratch)
        barrier(exchange)
        loglik += raise_hazard(exchange, sets, part)  # noqa: F821 (bound)
        # no barrier: a thread scans the cells that it has raised
        _scan_hazard(exchange, part.jump.shape[0], (sets, part), turn + 1, scratch)
        barrier(exchange)
        _take_expected(exchange, sets, part)
        loglik = team_sum(exchange, loglik, turn + 2, scratch)
        turn += 3
        if member == 0 and cuda.threadIdx.x == 0:
            loglik_of_fits[fit] = loglik
            tops[fit] = 0.0
        t += n_teams(exchange)


@cache
def evaluation(jump_formula):
    """Kernel of the evaluation under a likelihood's `jump_formula`."""
    raise_hazard = device(bind(_raise_hazard, jump_formula=jump_formula))
    return specialize(_evaluate, jump_formula.__name__, raise_hazard=raise_hazard)


@kernel
def curvature(fits, rows, bins, rh):
    """h of every row; w and the hazards have no common scale, so the model is that without bins."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    for t in range(fits.shape[0]):
        fit = fits[t]
        weight = of_fit(rows.weight, fit)
        i = first
        while i < rows.u.shape[1]:
            rh[fit, 2 * i + 1] = max(weight[i] * rows.value[i] - rows.u[fit, i], 0.0)
            if bins.w.shape[1] > 0:
                bins.w[fit, i] = 0.0
            i += step
        k = first
        while k < bins.last.shape[0]:
            bins.inverse[fit, k] = 0.0
            if bins.w.shape[1] > 0:
                bins.base[fit, k] = bins.jump[fit, k] = 0.0
            k += step
