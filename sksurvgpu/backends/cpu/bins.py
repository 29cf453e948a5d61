"""The quadratic model's second term: sum_k h_k h_k' / N_k over event-time bins k of every stratum.

With D, A of `risk_sets`, the part of h_i that belongs to bin k of the row's stratum is

    h_ik = w_i (A[end_k] - A[start_k])      where the row's exit lies in a later bin
    h_ik = h_i - w_i A[start_k]             in the bin of its exit (less the same at its entry)

so nothing is stored per row and bin.  Few bins: the loads c_jk = x_j'h_k are kept for the columns
in use and a coordinate costs its entries and one short dot product.  Many strata: one bin each, so
that a row has one, and a coordinate costs its entries.  (Several bins a stratum halved the
iterations there but made each of them five times as long.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from ..._compile import device, kernel, specialize
from .columns import (
    column_operation,
    dot_residual,
    entry_count,
    entry_row,
    entry_value,
    move_residual,
)
from .sweep import sweep

# Below this share of sum x^2 h the curvature is rounding: the column is constant within bins.
CONSTANT = 1e-13


class Bins(NamedTuple):
    """Bins of rows, and the model's numbers per bin."""

    exit_bin: np.ndarray  # per row: uint16 (few) or uint32
    enter_bin: np.ndarray  # per row, or None
    enter_hazard: np.ndarray  # A[enter] per row, or None
    w_row: np.ndarray
    last: np.ndarray  # int64 per bin: last bin of its stratum
    base: np.ndarray  # A[start]
    jump: np.ndarray  # A[end] - A[start]
    inverse: np.ndarray  # 1 / N, 0 where nobody died
    center: np.ndarray  # U_k = h_k'v / N_k, moved by sweeps


def add_entry(bins, i, own, x, load, later):
    """Take the time before the row's entry out of its loads."""


@overload(add_entry)
def _add_entry(bins, i, own, x, load, later):
    if isinstance(bins.types[1], types.NoneType):
        return lambda bins, i, own, x, load, later: None

    def subtract(bins, i, own, x, load, later):
        enter, part = bins.enter_bin[i], x * bins.w_row[i] * bins.enter_hazard[i]
        load[own] += part
        load[enter] -= part
        later[enter] -= x * bins.w_row[i]

    return subtract


# -- few bins ---------------------------------------------------------------------------------


@column_operation
def _load(rows, values, shift, state):
    """Per bin of exit: sums of x h and x w.  Rows of a bin come in runs: sum them in registers."""
    rh, bins, load, later = state
    total, sum_h, sum_w, own = 0.0, 0.0, 0.0, 0
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        x, h = entry_value(values, q), rh[i, 1]
        if bins.exit_bin[i] != own:
            load[own] += sum_h
            later[own] += sum_w
            sum_h, sum_w, own = 0.0, 0.0, bins.exit_bin[i]
        sum_h += x * h
        sum_w += x * bins.w_row[i]
        total += x * x * h
        add_entry(bins, i, own, x, load, later)
    load[own] += sum_h
    later[own] += sum_w
    return total


@kernel
def load_few(X, columns, rh, bins, loads, curvature):
    """Loads of the given columns in all bins; their curvature in the model, and without bins."""
    later = np.zeros(len(bins.base))
    for a in range(len(columns)):
        load = loads[a]
        load[:] = 0.0
        later[:] = 0.0
        total = _load(X, columns[a], 0, X.n_base, (rh, bins, load, later))
        centred = total
        for k in range(len(load) - 1, -1, -1):
            load[k] -= bins.base[k] * later[k]
            if k < bins.last[k]:
                load[k] += bins.jump[k] * later[k + 1]
                later[k] += later[k + 1]
            centred -= load[k] * load[k] * bins.inverse[k]
        curvature[a, 0] = centred if centred > CONSTANT * total else 0.0
        curvature[a, 1] = total


@device
def _slope_few(X, j, a, rh, centring):
    bins, loads = centring
    total = dot_residual(X, j, 0, X.n_base, rh)
    for k in range(len(bins.center)):
        total += loads[a, k] * bins.center[k]
    return total


@device
def _move_few(X, j, a, rh, step, centring):
    bins, loads = centring
    move_residual(X, j, 0, X.n_base, (rh, step))
    for k in range(len(bins.center)):
        bins.center[k] += loads[a, k] * bins.inverse[k] * step


# -- one bin a stratum ------------------------------------------------------------------------


@column_operation
def _dot_centred(rows, values, shift, state):
    """Sum of x_i (r_i + h_i U_k), k the row's stratum."""
    rh, bins = state
    total = 0.0
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        total += entry_value(values, q) * (rh[i, 0] + rh[i, 1] * bins.center[bins.exit_bin[i]])
    return total


@column_operation
def _move_centred(rows, values, shift, state):
    """Move the residual and the centres: a stratum's load is the sum of its rows' shares."""
    rh, step, bins = state
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        k = bins.exit_bin[i]
        change = rh[i, 1] * entry_value(values, q) * step
        rh[i, 0] -= change
        bins.center[k] += change * bins.inverse[k]
    return 0.0


@column_operation
def _collect(rows, values, shift, state):
    """Loads of the column's strata; returns sum x^2 h."""
    rh, bins, load = state
    total = 0.0
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        x = entry_value(values, q)
        load[bins.exit_bin[i]] += x * rh[i, 1]
        total += x * x * rh[i, 1]
    return total


@column_operation
def _spend(rows, values, shift, state):
    """Sum of c_k^2 / N_k over the column's strata; clears the loads."""
    bins, load = state
    total = 0.0
    for q in range(entry_count(rows, values)):
        k = bins.exit_bin[entry_row(rows, q, shift)]
        total += load[k] * load[k] * bins.inverse[k]
        load[k] = 0.0
    return total


@kernel
def load_strata(X, columns, rh, bins, load, curvature):
    """Curvature of the given columns, and without bins; `load` is zero scratch per stratum."""
    for a in range(len(columns)):
        total = _collect(X, columns[a], 0, X.n_base, (rh, bins, load))
        centred = total - _spend(X, columns[a], 0, X.n_base, (bins, load))
        curvature[a, 0] = centred if centred > CONSTANT * total else 0.0
        curvature[a, 1] = total


@device
def _slope_strata(X, j, a, rh, centring):
    return _dot_centred(X, j, 0, X.n_base, (rh, centring[0]))


@device
def _move_strata(X, j, a, rh, step, centring):
    _move_centred(X, j, 0, X.n_base, (rh, step, centring[0]))


sweep_few = specialize(sweep, slope=_slope_few, move=_move_few)
sweep_strata = specialize(sweep, slope=_slope_strata, move=_move_strata)
