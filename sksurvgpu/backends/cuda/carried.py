"""Risk sets that keep rows beyond their exit, on the device: formulas as in `backends.cpu.carried`.

What lanes bring to a risk set needs no scan over their cells: the carried rows are scanned in the
order of their lane cells, and every lane cell knows how many of them lie before it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numba import int64

from ...data.plans.described import FIRST_OF_LANE, LAST_OF_LANE
from ._cuda import cuda, device, inlined, kernel, specialize
from .products import of_fit
from .risk_sets import (
    hazard_of_row,
    keep_row,
    largest_predictor,
    part_of_fit,
    raising,
    refer_bin,
    risk_weight,
    scan_hazard,
    scan_risk,
    weigh_rows,
)
from .scan import make_scan
from .team import barrier, begin, my_team, n_teams, new_scratch, part_of, team_sum


class Carry(NamedTuple):
    """Lanes, and the rows that are carried along them."""

    idx: np.ndarray  # int32 per row: lane cell of its exit
    inverse: np.ndarray  # float64 (1 or fits, rows): 1 / G(T_i-), 0 where the row is not carried
    row: np.ndarray  # int32 per carried row, in the order of their lane cells
    is_first: np.ndarray  # uint8 per carried row: whether it is the first of its lane
    before: np.ndarray  # int32 per lane cell: rows carried from lane cells before it, of any lane
    cell: np.ndarray  # int32 per lane cell
    flags: np.ndarray  # uint8 per lane cell
    survival: np.ndarray  # float64 (1 or fits, lane cells): G_k
    lane_ptr: np.ndarray  # int64
    lane_cell: np.ndarray  # int64 per lane: first cell of its stratum
    stratum_lanes: np.ndarray  # int64
    stratum: np.ndarray  # int32 per cell
    sums: np.ndarray  # float64 (fits, carried rows): sums of v along the lane, up to the row
    back: np.ndarray  # float64 (fits, lane cells): B


class Lanes(NamedTuple):
    """What of it is one fit's own."""

    inverse: np.ndarray
    survival: np.ndarray
    sums: np.ndarray
    back: np.ndarray


@inlined
def lanes_of_fit(carry, fit):
    return Lanes(
        of_fit(carry.inverse, fit),
        of_fit(carry.survival, fit),
        carry.sums[fit],
        carry.back[fit],
    )


@device
def _load_carried(context, m):
    carry, part, lanes = context
    i = carry.row[m]
    return part.u[i] * lanes.inverse[i], 0.0, int64(carry.is_first[m])


@device
def _emit_carried(context, m, value, low):
    _, _, lanes = context
    lanes.sums[m] = value + low


@device
def _load_back(context, position):
    carry, part, lanes = context
    q = carry.flags.shape[0] - 1 - position
    jump = part.jump[carry.cell[q]] * lanes.survival[q]
    return jump, 0.0, int64(carry.flags[q]) & LAST_OF_LANE


@device
def _emit_back(context, position, value, low):
    """What is summed up from a cell on is B of the cell before it."""
    carry, _, lanes = context
    q = carry.flags.shape[0] - 1 - position
    if int64(carry.flags[q]) & LAST_OF_LANE:
        lanes.back[q] = 0.0
    if not int64(carry.flags[q]) & FIRST_OF_LANE:
        lanes.back[q - 1] = value + low


_scan_carried = make_scan(_load_carried, _emit_carried)
_scan_back = make_scan(_load_back, _emit_back)


@device
def _late_risk(carry, lanes, k):
    """What the lanes of its stratum bring to the risk set of a cell."""
    late, s = 0.0, carry.stratum[k]
    for lane in range(carry.stratum_lanes[s], carry.stratum_lanes[s + 1]):
        first = carry.lane_ptr[lane]
        q = first + k - carry.lane_cell[lane]
        if carry.before[q] > carry.before[first]:
            late += lanes.survival[q] * lanes.sums[carry.before[q] - 1]
    return late


@device
def _carry_forward(exchange, part, carry, lanes):
    """Add the carried rows to the risk sets of a member's cells."""
    low, high = part_of(part.risk.shape[0], exchange)
    k = low + cuda.threadIdx.x
    while k < high:
        if part.deaths[k] > 0.0:
            part.risk[k] += _late_risk(carry, lanes, k)
        k += cuda.blockDim.x


@device
def _take_expected(exchange, sets, part, carry, lanes):
    """u from w: observed minus expected events."""
    low, high = part_of(part.eta.shape[0], exchange)
    i = low + cuda.threadIdx.x
    while i < high:
        total = hazard_of_row(sets, part, i)
        if lanes.inverse[i] > 0.0:
            total += lanes.inverse[i] * lanes.back[carry.idx[i]]
        part.u[i] = part.weight[i] * part.value[i] - part.u[i] * total
        i += cuda.blockDim.x


def _evaluate(exchange, sets, carry, rows, cells, eta_of_fits, loglik_of_fits, tops):
    """Log-likelihood and shift of eta per fit; writes u, the cells and B.  NaN if D underflows."""
    begin()
    scratch, turn = new_scratch(), 0
    team, member = my_team(exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit = exchange.fits[t]
        part, lanes = part_of_fit(sets, rows, cells, eta_of_fits, fit), lanes_of_fit(carry, fit)
        context = carry, part, lanes
        top = largest_predictor(exchange, part, turn, scratch)
        loglik = weigh_rows(exchange, part, top)
        barrier(exchange)
        scan_risk(exchange, sets.flags.shape[0], (sets, part), turn + 1, scratch)
        _scan_carried(exchange, carry.row.shape[0], context, turn + 2, scratch)
        barrier(exchange)
        _carry_forward(exchange, part, carry, lanes)
        loglik += raise_hazard(exchange, sets, part)  # noqa: F821 (bound)
        # a thread scans the cells that it has raised, and all meet in that scan before the other
        scan_hazard(exchange, part.jump.shape[0], (sets, part), turn + 3, scratch)
        _scan_back(exchange, carry.flags.shape[0], context, turn + 4, scratch)
        barrier(exchange)
        _take_expected(exchange, sets, part, carry, lanes)
        loglik = team_sum(exchange, loglik, turn + 5, scratch)
        turn += 6
        if member == 0 and cuda.threadIdx.x == 0:
            loglik_of_fits[fit] = loglik if math.isfinite(top) else np.nan
            tops[fit] = top
        t += n_teams(exchange)


@cache
def evaluation(jump_formula):
    """Kernel of the evaluation under a likelihood's `jump_formula`."""
    return specialize(_evaluate, jump_formula.__name__, raise_hazard=raising(jump_formula))


@device
def _refer_row(sets, part, carry, lanes, i, top):
    """h, w and c = w / G(T-) of a row."""
    w = risk_weight(part, i, top)
    h, c = max(w * hazard_of_row(sets, part, i), 0.0), w * lanes.inverse[i]
    return h + c * lanes.back[carry.idx[i]], w, c


@kernel
def curvature(fits, sets, carry, rows, cells, eta_of_fits, tops, bin_cells, bins, rh):
    """h of every row, and the bins' numbers."""
    first, step = cuda.grid(1), cuda.gridsize(1)
    is_carried = bins.carried.shape[1] > 0
    for t in range(fits.shape[0]):
        fit = fits[t]
        part, lanes = part_of_fit(sets, rows, cells, eta_of_fits, fit), lanes_of_fit(carry, fit)
        i = first
        while i < part.eta.shape[0]:
            h, w, c = _refer_row(sets, part, carry, lanes, i, tops[fit])
            keep_row(bins, rh, fit, i, h, w)
            if is_carried:
                bins.carried[fit, i] = c
            i += step
        k = first
        while k < bins.last.shape[0]:
            refer_bin(part, bins, bin_cells, fit, k)
            if is_carried:  # one lane a stratum: its cells are the stratum's
                bins.after[fit, k] = lanes.back[bin_cells.end[k]]
                bins.fall[fit, k] = lanes.back[bin_cells.start[k]] - bins.after[fit, k]
            k += step
