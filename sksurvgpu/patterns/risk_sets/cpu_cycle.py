"""Exact coordinate steps over risk sets.

A coordinate needs the scan of (w, w x, w x^2) over all cells: three suffix sums fused into one
pass, transformed and reduced to slope and curvature on the way (a formula of the likelihood).
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..._compile import bind, device, kernel
from ...backends.cpu.columns import (
    add_scaled,
    column_operation,
    entry_count,
    entry_row,
    entry_value,
)
from ...backends.cpu.optional import row_weight
from .cpu_cells import enter_cell


@column_operation
def _scatter(rows, values, shift, state):
    """Put w x and w x^2 of the column's rows into the cells where they exit and enter."""
    risk_sets, w_row, moments, _ = state
    for q in range(entry_count(rows, values)):
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
    for q in range(entry_count(rows, values)):
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
                g, h = coordinate_formula(  # noqa: F821 (bound by specialize)
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
    _scatter(X, j, 0, X.n_base, state)
    slope, curvature = scan_cells(risk_sets, moments)  # noqa: F821 (bound by specialize)
    _clear(moments)
    return slope, curvature


@device
def _advance(X, j, step, state):
    add_scaled(X, j, 0, X.n_base, (state[3], step))
    _refresh_rows(X, j, 0, X.n_base, state)


@cache
def steps_of(formula):
    """Functions of exact steps under a likelihood's `coordinate_formula`."""
    scan = device(bind(_scan_cells, coordinate_formula=formula))
    return device(bind(_derivatives, scan_cells=scan)), _advance
