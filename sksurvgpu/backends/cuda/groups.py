"""The group pattern on the device: formulas as in `backends.cpu.groups`.

A group is anything from one row to all of them, so nobody works on "a group": one segmented scan
over the rows takes each group's largest predictor together with the sum of w on that scale, and
leaves both at the group; then rows compute their own terms.  Time follows the number of rows
alone.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import int64

from ..cpu.bins import CONSTANT
from ._cuda import cuda, device, kernel
from .bins import add_uniform
from .columns import all_entries, entries, entry, my_ranges
from .exact import Steps
from .products import of_fit
from .rake import add_scaled, make_rake
from .team import (
    FULL,
    barrier,
    begin,
    my_team,
    n_teams,
    new_scratch,
    part_of,
    team_sum,
    team_sums,
)


class Groups(NamedTuple):
    """Groups of rows, and the numbers that fits keep for each."""

    idx: np.ndarray  # int32 per row: its group; rows of a group are neighbours
    total: np.ndarray  # float64 (1 or fits, groups): N
    top: np.ndarray  # float64 (fits, groups): largest predictor of rows of positive weight
    risk: np.ndarray  # float64 (fits, groups): S on the scale of `top`


class Span(NamedTuple):
    """What the scan sees of one fit."""

    idx: np.ndarray
    weight: np.ndarray
    eta: np.ndarray
    top: np.ndarray
    risk: np.ndarray


# -- S of every group -------------------------------------------------------------------------


@device
def _load(span, i):
    begins = int64(i == 0 or span.idx[i - 1] != span.idx[i])
    return span.eta[i], span.weight[i], 0.0, begins


@device
def _take(span, i, before, after):
    """Keep what a group's last row has: all of the group."""
    if i + 1 == span.idx.shape[0] or span.idx[i + 1] != span.idx[i]:
        span.top[span.idx[i]] = after[0]
        span.risk[span.idx[i]] = after[1]
    return 0.0, 0.0


_scan_groups = make_rake(_load, _take, combine=add_scaled)


@device
def weigh_groups(exchange, rows, groups, fit, eta, turn, scratch):
    """Fill `top` and `risk` of a fit, as all members see them; takes a turn."""
    weight = of_fit(rows.weight, fit)
    span = Span(groups.idx, weight, eta, groups.top[fit], groups.risk[fit])
    _scan_groups(exchange, eta.shape[0], span, turn, scratch)
    barrier(exchange)


# -- rows -------------------------------------------------------------------------------------


@device
def _share(rows, groups, fit, eta, i):
    """h of a row: N p."""
    c, g = of_fit(rows.weight, fit)[i], groups.idx[i]
    total = of_fit(groups.total, fit)[g]
    if not (c > 0.0 and total > 0.0):
        return 0.0
    return c * math.exp(eta[i] - groups.top[fit, g]) * (total / groups.risk[fit, g])


@device
def _set_residual(rows, groups, fit, eta, i):
    """Write u of a row; its term of the log-likelihood, a group's own being its last row's."""
    c, g = of_fit(rows.weight, fit)[i], groups.idx[i]
    mass, term = c * rows.value[i], 0.0
    total = of_fit(groups.total, fit)[g]
    if not total > 0.0:
        rows.u[fit, i] = 0.0
        return 0.0
    if mass > 0.0:
        term = mass * (eta[i] - groups.top[fit, g] + math.log(c))
    if i + 1 == groups.idx.shape[0] or groups.idx[i + 1] != g:
        term -= total * math.log(groups.risk[fit, g])
    rows.u[fit, i] = mass - _share(rows, groups, fit, eta, i)
    return term


@kernel
def evaluate(exchange, rows, groups, eta_of_fits, loglik_of_fits):
    """Log-likelihood per fit; writes u, and the groups' `top` and `risk`.

    A member owns a contiguous part of the rows.
    """
    begin()
    scratch, turn = new_scratch(), 0
    team, member = my_team(exchange)
    low, high = part_of(eta_of_fits.shape[1], exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit, loglik = exchange.fits[t], 0.0
        eta = eta_of_fits[fit]
        weigh_groups(exchange, rows, groups, fit, eta, turn, scratch)
        i = low + cuda.threadIdx.x
        while i < high:
            loglik += _set_residual(rows, groups, fit, eta, i)
            i += cuda.blockDim.x
        loglik = team_sum(exchange, loglik, turn + 1, scratch)
        turn += 2
        if member == 0 and cuda.threadIdx.x == 0:
            loglik_of_fits[fit] = loglik
        t += n_teams(exchange)


@kernel
def curvature(fits, rows, groups, eta_of_fits, rh):
    """h of every row at the last evaluation; as c y - u a small one would be lost to rounding."""
    for t in range(fits.shape[0]):
        fit = fits[t]
        eta = eta_of_fits[fit]
        i = cuda.grid(1)
        while i < eta.shape[0]:
            rh[fit, 2 * i + 1] = _share(rows, groups, fit, eta, i)
            i += cuda.gridsize(1)


# -- exact steps ------------------------------------------------------------------------------


class GroupSteps(NamedTuple):
    """State of exact steps: `groups.top` stays, `groups.risk` and eta move."""

    rows: object
    groups: Groups
    eta: np.ndarray  # float64 (fits, rows)
    first: np.ndarray  # float64 (fits, groups): sums of w x, 0 between columns
    second: np.ndarray  # ... and of w x^2


@device
def centred(square, mean):
    """Variance; 0 where it is rounding, of a column that is constant within a group."""
    variance = square - mean * mean
    return variance if variance > CONSTANT * square else 0.0


@device
def _start_steps(exchange, fit, state, turn, scratch):
    """The last evaluation has left what is needed."""
    return turn


@device
def _w(state, fit, i):
    c = of_fit(state.rows.weight, fit)[i]
    if not c > 0.0:  # the predictor may be anything above the group's top
        return 0.0
    return c * math.exp(state.eta[fit, i] - state.groups.top[fit, state.groups.idx[i]])


@device
def _deposit(sums, g, value):
    """Add every lane's value to the sum of its group g (-1: none)."""
    leader = cuda.shfl_sync(FULL, g, 0)
    if leader >= 0 and cuda.all_sync(FULL, g == leader or g < 0):
        add_uniform(sums, leader, value if g >= 0 else 0.0)
    elif g >= 0:
        cuda.atomic.add(sums, g, value)


@device
def _add_entries(exchange, X, j, fit, state):
    """Sums of w x and w x^2 by group over a member's rows.

    A thread adds up while its entries stay in one group: a large group costs few atomics.
    """
    ranges, idx = my_ranges(X, exchange), state.groups.idx
    low, high, kind, base = entries(X, j, ranges[0], ranges[1])
    sums_first, sums_second = state.first[fit], state.second[fit]
    own, first, second = int64(-1), 0.0, 0.0
    q = low + cuda.threadIdx.x
    while q < high:
        i, x = entry(X, q, kind, base)
        if idx[i] != own:
            if own >= 0:
                cuda.atomic.add(sums_first, own, first)
                cuda.atomic.add(sums_second, own, second)
            own, first, second = int64(idx[i]), 0.0, 0.0
        w = _w(state, fit, i)
        first += w * x
        second += w * x * x
        q += cuda.blockDim.x
    _deposit(sums_first, own, first)
    _deposit(sums_second, own, second)


@device
def _take_sums(exchange, X, j, fit, state):
    """Slope and curvature; clears the sums.

    A group is taken at the column's first entry in it, by the member that owns that row.
    """
    ranges, groups = my_ranges(X, exchange), state.groups
    low, high, kind, base = entries(X, j, ranges[0], ranges[1])
    column, _, _, _ = all_entries(X, j)
    slope, curvature = 0.0, 0.0
    q = low + cuda.threadIdx.x
    while q < high:
        i, _ = entry(X, q, kind, base)
        before, _ = entry(X, max(q - 1, column), kind, base)
        g = groups.idx[i]
        if q == column or groups.idx[before] != g:
            total, risk = of_fit(groups.total, fit)[g], groups.risk[fit, g]
            if total > 0.0:
                mean, square = state.first[fit, g] / risk, state.second[fit, g] / risk
                slope -= total * mean
                curvature += total * centred(square, mean)
            state.first[fit, g] = 0.0
            state.second[fit, g] = 0.0
        q += cuda.blockDim.x
    return slope, curvature


@device
def _group_derivatives(exchange, X, j, t, state, turn, scratch):
    _add_entries(exchange, X, j, exchange.fits[t], state)
    barrier(exchange)
    slope, curvature = _take_sums(exchange, X, j, exchange.fits[t], state)
    slope, curvature = team_sums(exchange, slope, curvature, turn, scratch)
    return slope, curvature, 0.0, turn + 1


@device
def _group_advance(exchange, X, j, t, step, extra, state):
    """Move a member's rows, and the sums of their groups, which the next column reads later."""
    fit = exchange.fits[t]
    ranges, idx, risk = my_ranges(X, exchange), state.groups.idx, state.groups.risk[fit]
    low, high, kind, base = entries(X, j, ranges[0], ranges[1])
    own, change = int64(-1), 0.0
    q = low + cuda.threadIdx.x
    while q < high:
        i, x = entry(X, q, kind, base)
        if idx[i] != own:
            if own >= 0:
                cuda.atomic.add(risk, own, change)
            own, change = int64(idx[i]), 0.0
        before = _w(state, fit, i)
        state.eta[fit, i] += x * step
        change += _w(state, fit, i) - before
        q += cuda.blockDim.x
    _deposit(risk, own, change)


def steps_of(state):
    """Exact steps."""
    return Steps("of_groups", _start_steps, _group_derivatives, _group_advance, state)
