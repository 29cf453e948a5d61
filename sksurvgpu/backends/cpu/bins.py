"""The quadratic model's second term: sum_k h_k h_k' / N_k over event-time bins k of every stratum.

With D, A of `risk_sets`, the part of h_i that belongs to bin k of the row's stratum is

    h_ik = w_i (A[end_k] - A[start_k])      where the row's exit lies in a later bin
    h_ik = h_i - w_i A[start_k]             in the bin of its exit (less the same at its entry)

so nothing is stored per row and bin.  A row that is carried beyond its exit (`carried`) has a
mirrored part there, c_i (B[start_k] - B[end_k]) in later bins and c_i B[exit_i] - c_i B[end_k] in
its own.  Groups without time, such as all rows under one intercept, are bins with A = 0.

Few bins: the loads c_jk = x_j'h_k are kept for the columns in use and a coordinate costs its
entries and one short dot product.  Many groups: one bin each, so that a row has one, and a
coordinate costs its entries.  (Several bins a stratum halved the iterations there but made each of
them five times as long.)
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from ..._compile import PART, device, kernel, specialize
from ...data.design.columns import DENSE
from .columns import (
    column_operation,
    dot_residual,
    entry_count,
    entry_row,
    entry_value,
    move_residual,
)
from .optional import read
from .sweep import sweep

# Below this share of sum x^2 h the curvature is rounding: the column is constant within bins.
CONSTANT = 1e-13


class Bins(NamedTuple):
    """Bins of rows, and the model's numbers per bin."""

    exit_bin: np.ndarray  # per row: uint16 (few) or uint32
    enter_bin: np.ndarray  # per row, or None
    enter_hazard: np.ndarray  # A[enter] per row, or None
    w_row: np.ndarray  # None without time
    carried_row: np.ndarray  # c_i, 0 where the row is not carried; None where no row is
    last: np.ndarray  # int64 per bin: last bin of its stratum
    base: np.ndarray  # A[start]
    jump: np.ndarray  # A[end] - A[start]
    after: np.ndarray  # B[end], or None
    fall: np.ndarray  # B[start] - B[end], or None
    inverse: np.ndarray  # 1 / N, 0 where nobody died
    center: np.ndarray  # U_k = h_k'v / N_k, moved by sweeps, and 1 / N_k beside it
    row_ptr: np.ndarray  # int64 per bin + 1: its rows; None where rows are in another order


def bins_of_groups(group_idx, inverse, ptr):
    """Bins of rows whose groups know no time: one a group, `inverse` is 1 / sum h of each."""
    zeros, last, center = np.zeros(len(inverse)), np.arange(len(inverse)), centres(inverse)
    without_time = group_idx, None, None, None, None, last, zeros, zeros, None, None
    return Bins(*without_time, inverse, center, ptr)


def centres(inverse):
    """Centres at rest, each beside its 1 / N: a move needs both."""
    return np.column_stack([np.zeros(len(inverse)), inverse])


def add_entry(bins, i, own, x, load, later):
    """Take the time before the row's entry out of its loads."""


@overload(add_entry, jit_options=PART)
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
    """Per bin of exit: sums of x h, x w and x c.  Rows of a bin come in runs: sum in registers."""
    rh, bins, load, later, carried = state
    total, sum_h, sum_w, sum_c, own = 0.0, 0.0, 0.0, 0.0, 0
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        x, h = entry_value(values, q), rh[i, 1]
        if bins.exit_bin[i] != own:
            load[own] += sum_h
            later[own] += sum_w
            carried[own] += sum_c
            sum_h, sum_w, sum_c, own = 0.0, 0.0, 0.0, bins.exit_bin[i]
        sum_h += x * h
        sum_w += x * read(bins.w_row, i, 0.0)
        sum_c += x * read(bins.carried_row, i, 0.0)
        total += x * x * h
        add_entry(bins, i, own, x, load, later)
    load[own] += sum_h
    later[own] += sum_w
    carried[own] += sum_c
    return total


@column_operation
def _load_in_order(rows, values, shift, state):
    """`_load` where bins are ranges of rows: no bin is looked up, and sums come in pairs."""
    rh, bins, load, later, carried = state
    n, q, total = entry_count(rows, values), 0, 0.0
    for k in range(len(load)):
        end = np.uint64(bins.row_ptr[k + 1])
        h0, w0, c0, t0, h1, w1, c1, t1 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        while q + 1 < n and entry_row(rows, q + 1, shift) < end:
            i, j = entry_row(rows, q, shift), entry_row(rows, q + 1, shift)
            x, z = entry_value(values, q), entry_value(values, q + 1)
            h0 += x * rh[i, 1]
            h1 += z * rh[j, 1]
            t0 += x * x * rh[i, 1]
            t1 += z * z * rh[j, 1]
            w0 += x * read(bins.w_row, i, 0.0)
            w1 += z * read(bins.w_row, j, 0.0)
            c0 += x * read(bins.carried_row, i, 0.0)
            c1 += z * read(bins.carried_row, j, 0.0)
            q += 2
        while q < n and entry_row(rows, q, shift) < end:
            i, x = entry_row(rows, q, shift), entry_value(values, q)
            h0 += x * rh[i, 1]
            t0 += x * x * rh[i, 1]
            w0 += x * read(bins.w_row, i, 0.0)
            c0 += x * read(bins.carried_row, i, 0.0)
            q += 1
        load[k], later[k], carried[k] = h0 + h1, w0 + w1, c0 + c1
        total += t0 + t1
    return total


def load_column(X, j, bins, state):
    """Sums of a column in every bin; the sum of x^2 h."""


@overload(load_column, jit_options=PART)
def _load_column(X, j, bins, state):
    if isinstance(bins.types[-1], types.NoneType):
        return lambda X, j, bins, state: _load(X, j, 0, X.n_base, state)
    return lambda X, j, bins, state: _load_in_order(X, j, 0, X.n_base, state)


@device
def _spread_carried(bins, load, carried):
    """Give later bins the part of rows that are carried into them."""
    before = 0.0
    for k in range(len(load)):
        load[k] += read(bins.fall, k, 0.0) * before - read(bins.after, k, 0.0) * carried[k]
        before = before + carried[k] if k < bins.last[k] else 0.0


@kernel
def load_few(X, columns, rh, bins, loads, curvature):
    """Loads of the given columns in all bins; their curvature in the model, and without bins."""
    later, carried = np.zeros(len(bins.base)), np.zeros(len(bins.base))
    for a in range(len(columns)):
        load = loads[a]
        load[:] = 0.0
        later[:] = 0.0
        carried[:] = 0.0
        total = load_column(X, columns[a], bins, (rh, bins, load, later, carried))
        _spread_carried(bins, load, carried)
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
        total += loads[a, k] * bins.center[k, 0]
    return total


@device
def _move_few(X, j, a, rh, step, centring):
    bins, loads = centring
    move_residual(X, j, 0, X.n_base, (rh, step))
    for k in range(len(bins.center)):
        bins.center[k, 0] += loads[a, k] * bins.center[k, 1] * step


# -- one bin a stratum ------------------------------------------------------------------------


@device
def _centred(rh, bins, i):
    """r_i + h_i U_k, k the row's stratum."""
    return rh[i, 0] + rh[i, 1] * bins.center[bins.exit_bin[i], 0]


@column_operation
def _dot_centred(rows, values, shift, state):
    """Sum of x_i (r_i + h_i U_k), in four partial sums as in `columns.dot`."""
    rh, bins = state
    n = entry_count(rows, values)
    s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
    whole = n - n % 4
    for q in range(0, whole, 4):
        s0 += entry_value(values, q) * _centred(rh, bins, entry_row(rows, q, shift))
        s1 += entry_value(values, q + 1) * _centred(rh, bins, entry_row(rows, q + 1, shift))
        s2 += entry_value(values, q + 2) * _centred(rh, bins, entry_row(rows, q + 2, shift))
        s3 += entry_value(values, q + 3) * _centred(rh, bins, entry_row(rows, q + 3, shift))
    for q in range(whole, n):
        s0 += entry_value(values, q) * _centred(rh, bins, entry_row(rows, q, shift))
    return (s0 + s1) + (s2 + s3)


@column_operation
def _move_centred(rows, values, shift, state):
    """Move the residual and the centres: a stratum's load is the sum of its rows' shares."""
    rh, step, bins = state
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        k = bins.exit_bin[i]
        change = rh[i, 1] * entry_value(values, q) * step
        rh[i, 0] -= change
        bins.center[k, 0] += change * bins.center[k, 1]
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


@column_operation
def _list_loads(rows, values, shift, state):
    """Loads of the column's strata, one after the other: rows are in the order of strata."""
    rh, bins, stratum, load, count = state
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        own = bins.exit_bin[i]
        if count[0] == count[1] or stratum[count[0] - 1] != own:
            stratum[count[0]] = own
            load[count[0]] = 0.0
            count[0] += 1
        load[count[0] - 1] += entry_value(values, q) * rh[i, 1]
    return 0.0


@kernel
def _list_all_loads(X, columns, rh, bins, indptr, stratum, load):
    """Loads of columns by strata; `indptr` takes where those of each column begin."""
    count = np.zeros(2, np.int64)
    for a in range(len(columns)):
        indptr[a] = count[1] = count[0]
        _list_loads(X, columns[a], 0, X.n_base, (rh, bins, stratum, load, count))
    indptr[len(columns)] = count[0]


def loads_of_strata(X, columns, rh, bins):
    """Loads of columns as sparse columns over strata: offsets, strata, loads."""
    source = X.source[columns]
    entries = np.where(X.kind[source] == DENSE, X.n_base, X.indptr[source + 1] - X.indptr[source])
    room = int(np.minimum(entries, len(bins.inverse)).sum())
    indptr, stratum = np.empty(len(columns) + 1, np.int64), np.empty(room, np.uint32)
    load = np.empty(room)
    _list_all_loads(X, columns, rh, bins, indptr, stratum, load)
    return indptr, stratum[: indptr[-1]], load[: indptr[-1]]


@device
def _slope_strata(X, j, a, rh, centring):
    return _dot_centred(X, j, 0, X.n_base, (rh, centring[0]))


@device
def _move_strata(X, j, a, rh, step, centring):
    _move_centred(X, j, 0, X.n_base, (rh, step, centring[0]))


@cache
def sweep_of(few, minimum):
    """Sweep kernel for few bins or one a stratum, under a penalty's `minimum`."""
    return specialize(sweep, **moves(few), minimum=minimum)


def moves(few):
    """What kernels bind that move columns of the model."""
    if few:
        return {"slope": _slope_few, "move": _move_few}
    return {"slope": _slope_strata, "move": _move_strata}


# -- either -----------------------------------------------------------------------------------


class Centring:
    """The model's second term in the form that its number of bins allows."""

    def __init__(self, bins, few):
        self.bins, self.few = bins, few

    @property
    def n_bins(self):
        return len(self.bins.base)

    def load(self, X, columns, rh, threads):
        """Curvature of columns (centred, and not), and their loads where bins are few."""
        curvature = np.empty((len(columns), 2))
        loads = np.empty((len(columns), self.n_bins)) if self.few else None

        def part(low, high):
            where, out = columns[low:high], curvature[low:high]
            if loads is None:
                load_strata(X, where, rh, self.bins, np.zeros(self.n_bins), out)
            else:
                load_few(X, where, rh, self.bins, loads[low:high], out)

        threads.over_ranges(part, len(columns))
        return curvature, loads

    def at_rest(self, loads):
        """What `sweep` takes, at v = 0."""
        self.bins.center[:, 0] = 0.0
        return (self.bins,) if loads is None else (self.bins, loads)
