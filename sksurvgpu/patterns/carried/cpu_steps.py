"""Exact coordinate steps over risk sets that keep rows beyond their exit."""

from functools import cache
from typing import NamedTuple

import numpy as np

from ..._compile import BOUND, bind, device, kernel
from ...backends.cpu.columns import add_scaled, column_operation, entry_row, entry_value, n_entries
from ...backends.cpu.optional import row_weight

coordinate_formula = scan = BOUND


class LaneMoments(NamedTuple):
    """Sums of w, w x and w x^2 by exit: per cell, and of v per lane cell; scratch per cell."""

    left: np.ndarray  # (n_cells, 3)
    carried: np.ndarray  # (n_lane_cells, 3)
    late: np.ndarray  # (n_cells, 3): what lanes bring to the risk set


@kernel
def fill_moments(risk_sets, carry, eta, w_row, moments):
    """w of every row, and its sums; those of w x and w x^2 are 0 between coordinates."""
    moments.left[:] = 0.0
    moments.carried[:] = 0.0
    for i in range(len(eta)):
        c = row_weight(risk_sets.weight, i)
        w_row[i] = c * np.exp(eta[i]) if risk_sets.live[i] else 0.0
        moments.left[risk_sets.exit_idx[i], 0] += w_row[i]
        moments.carried[carry.idx[i], 0] += w_row[i] * carry.inverse[i]


@column_operation
def _scatter(rows, values, shift, state):
    risk_sets, carry, w_row, moments, _ = state
    for q in range(n_entries(rows, values)):
        i = entry_row(rows, q, shift)
        x = entry_value(values, q)
        first, second = w_row[i] * x, w_row[i] * x * x
        k = risk_sets.exit_idx[i]
        moments.left[k, 1] += first
        moments.left[k, 2] += second
        if carry.inverse[i] > 0.0:
            moments.carried[carry.idx[i], 1] += first * carry.inverse[i]
            moments.carried[carry.idx[i], 2] += second * carry.inverse[i]
    return 0.0


@column_operation
def _refresh(rows, values, shift, state):
    """New w of the column's rows, and its change in the sums."""
    risk_sets, carry, w_row, moments, eta = state
    for q in range(n_entries(rows, values)):
        i = entry_row(rows, q, shift)
        c = row_weight(risk_sets.weight, i)
        w = c * np.exp(eta[i]) if risk_sets.live[i] else 0.0
        moments.left[risk_sets.exit_idx[i], 0] += w - w_row[i]
        moments.carried[carry.idx[i], 0] += (w - w_row[i]) * carry.inverse[i]
        w_row[i] = w
    return 0.0


@device
def _sum_late(carry, lane, moments):
    """Prefix sums of a lane, at the cells of its stratum; clears what belongs to the column."""
    shift = carry.lane_cell[lane] - carry.lane_ptr[lane]
    s0, s1, s2 = 0.0, 0.0, 0.0
    for q in range(carry.lane_ptr[lane], carry.lane_ptr[lane + 1]):
        late, survival = moments.late[q + shift], carry.survival[q]
        late[0] += survival * s0
        late[1] += survival * s1
        late[2] += survival * s2
        s0 += moments.carried[q, 0]
        s1 += moments.carried[q, 1]
        s2 += moments.carried[q, 2]
        moments.carried[q, 1] = moments.carried[q, 2] = 0.0


def _scan(risk_sets, carry, moments):
    """Slope (without the events' part) and curvature along the scattered column."""
    slope, curvature = 0.0, 0.0
    for s in range(len(risk_sets.cell_ptr) - 1):
        first, end = risk_sets.cell_ptr[s], risk_sets.cell_ptr[s + 1]
        moments.late[first:end] = 0.0
        for lane in range(carry.stratum_lanes[s], carry.stratum_lanes[s + 1]):
            _sum_late(carry, lane, moments)
        s0, s1, s2 = 0.0, 0.0, 0.0
        for k in range(end - 1, first - 1, -1):
            left, late = moments.left[k], moments.late[k]
            s0 += left[0]
            s1 += left[1]
            s2 += left[2]
            left[1] = left[2] = 0.0
            deaths = risk_sets.deaths[k]
            if deaths > 0.0:
                g, h = coordinate_formula(
                    s0 + late[0],
                    s1 + late[1],
                    s2 + late[2],
                    0.0,
                    0.0,
                    0.0,
                    risk_sets.death_weight[k],
                    deaths,
                )
                slope -= g
                curvature += h
    return slope, curvature


def _carried_derivatives(X, j, state):
    risk_sets, carry, _, moments, _ = state
    _scatter(X, j, state)
    return scan(risk_sets, carry, moments)


@device
def _carried_advance(X, j, step, state):
    add_scaled(X, j, (state[4], step))
    _refresh(X, j, state)


@cache
def steps_of(formula):
    """Functions of exact steps under a likelihood's `coordinate_formula`."""
    scan = device(bind(_scan, coordinate_formula=formula))
    return device(bind(_carried_derivatives, scan=scan)), _carried_advance
