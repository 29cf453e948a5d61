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
from .columns import all_entries, entry
from .exact import Functions, Steps
from .products import of_fit
from .rake import add_scaled, make_rake
from .runs import make_runs
from .team import barrier, begin, my_team, n_teams, new_scratch, part_of, team_sum, team_sums


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


@device
def largest_term(context, fit, i):
    """What a row adds to the log-likelihood where its group's events are in their shares."""
    rows, groups = context
    events = rows.value[i] * of_fit(rows.weight, fit)[i]
    if not events > 0.0:
        return 0.0
    return events * math.log(events / of_fit(groups.total, fit)[groups.idx[i]])


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
def curvature(fits, rows, groups, eta_of_fits, h_of_fits):
    """h of every row at the last evaluation; as c y - u a small one would be lost to rounding."""
    for t in range(fits.shape[0]):
        fit = fits[t]
        eta = eta_of_fits[fit]
        i = cuda.grid(1)
        while i < eta.shape[0]:
            h_of_fits[fit, i] = _share(rows, groups, fit, eta, i)
            i += cuda.gridsize(1)


# -- exact steps ------------------------------------------------------------------------------


class GroupSteps(NamedTuple):
    """State of exact steps: `groups.top` stays, `groups.risk` and eta move; u is not in use."""

    rows: object
    groups: Groups
    eta: np.ndarray  # float64 (fits, rows)


class Entries(NamedTuple):
    """What sums over a column's entries see; `low` and `high` are those of all members."""

    X: object
    span: object
    low: int
    high: int
    state: GroupSteps
    fit: int
    step: float


@device
def centred(square, mean):
    """Variance; 0 where it is rounding, of a column that is constant within a group."""
    variance = square - mean * mean
    return variance if variance > CONSTANT * square else 0.0


@device
def _start_steps(exchange, X, fit, state, own, turn, scratch):
    """The last evaluation has left what is needed."""
    return turn


@device
def _w(seen, i):
    state, fit = seen.state, seen.fit
    c = of_fit(state.rows.weight, fit)[i]
    if not c > 0.0:  # the predictor may be anything above the group's top
        return 0.0
    return c * math.exp(state.eta[fit, i] - state.groups.top[fit, state.groups.idx[i]])


@device
def _entry_of(seen, q):
    return entry(seen.X, q, seen.span.kind, seen.span.base)


@device
def _group_of(seen, q):
    return int64(seen.state.groups.idx[_entry_of(seen, q)[0]])


@device
def _derive_group(seen, g, first, second):
    """Slope and curvature of a group."""
    groups, fit = seen.state.groups, seen.fit
    total, risk = of_fit(groups.total, fit)[g], groups.risk[fit, g]
    if not total > 0.0:
        return 0.0, 0.0
    mean = first / risk
    return -total * mean, total * centred(second / risk, mean)


@device
def _move_risk(seen, g, change, none):
    seen.state.groups.risk[seen.fit, g] += change
    return 0.0, 0.0


# -- exact steps where several members may have rows of a group ---------------------------------


@device
def _weigh_entries(seen, as_change):
    """w of a member's entries after a step into u, or how it has changed, w being there."""
    u, eta, q = seen.state.rows.u, seen.state.eta, seen.span.low + cuda.threadIdx.x
    while q < seen.span.high:
        i, x = _entry_of(seen, q)
        eta[seen.fit, i] += x * seen.step
        w = _w(seen, i)
        u[seen.fit, i] = w - u[seen.fit, i] if as_change else w
        q += cuda.blockDim.x
    cuda.syncthreads()


@device
def _leaves(seen, q, g):
    """Whether a position is not of a group."""
    return q < seen.low or q >= seen.high or seen.state.groups.idx[_entry_of(seen, q)[0]] != g


@device
def _load_entry(seen, q):
    i, x = _entry_of(seen, q)
    first = seen.state.rows.u[seen.fit, i] * x
    return first, first * x, 0.0, int64(_leaves(seen, q - 1, seen.state.groups.idx[i]))


@device
def _take_entry(seen, q, before, after):
    """Slope and curvature of a group, at the column's last entry in it."""
    g = _group_of(seen, q)
    return _derive_group(seen, g, after[0], after[1]) if _leaves(seen, q + 1, g) else (0.0, 0.0)


@device
def _load_change(seen, q):
    i, _ = _entry_of(seen, q)
    change = seen.state.rows.u[seen.fit, i]
    return change, 0.0, 0.0, int64(_leaves(seen, q - 1, seen.state.groups.idx[i]))


@device
def _take_change(seen, q, before, after):
    """Move the sum of a group with its last entry."""
    g = _group_of(seen, q)
    return _move_risk(seen, g, after[0], 0.0) if _leaves(seen, q + 1, g) else (0.0, 0.0)


@device
def _part_of_team(exchange, n, seen):
    return seen.span.low, seen.span.high, my_team(exchange)[1]


_rake_entries = make_rake(_load_entry, _take_entry, part=_part_of_team)
_rake_changes = make_rake(_load_change, _take_change, part=_part_of_team)


@device
def _see(exchange, X, span, t, state, step):
    low, high, _, _ = all_entries(X, span.j)
    return Entries(X, span, low, high, state, int64(exchange.fits[t]), step)


@device
def _few_derivatives(exchange, X, span, t, state, own, turn, scratch):
    seen = _see(exchange, X, span, t, state, 0.0)
    _weigh_entries(seen, False)
    slope, curvature = _rake_entries(exchange, 0, seen, turn, scratch)
    slope, curvature = team_sums(exchange, slope, curvature, turn + 1, scratch)
    return slope, curvature, 0.0, turn + 2


@device
def _few_advance(exchange, X, span, t, move, state, own, scratch):
    """Move a member's rows, and the sums of their groups, which the next column reads later."""
    step, _, turn = move
    seen = _see(exchange, X, span, t, state, step)
    _weigh_entries(seen, True)
    _rake_changes(exchange, 0, seen, turn, scratch)
    return turn + 1


# -- exact steps where groups, being many, are a member's ---------------------------------------


@device
def _weigh_entry(seen, q):
    """w x and w x^2, w standing in u from now on."""
    i, x = _entry_of(seen, q)
    w = _w(seen, i)
    seen.state.rows.u[seen.fit, i] = w
    return w * x, w * x * x


@device
def _move_entry(seen, q):
    """Move a row by a step; how far its w moves, which stands in u."""
    i, x = _entry_of(seen, q)
    seen.state.eta[seen.fit, i] += x * seen.step
    return _w(seen, i) - seen.state.rows.u[seen.fit, i], 0.0


_derive_runs = make_runs(_group_of, _weigh_entry, _derive_group)
_move_runs = make_runs(_group_of, _move_entry, _move_risk)


@device
def _derivatives(exchange, X, span, t, state, own, turn, scratch):
    seen = _see(exchange, X, span, t, state, 0.0)
    slope, curvature = _derive_runs(span.low, span.high, seen)
    slope, curvature = team_sums(exchange, slope, curvature, turn, scratch)
    return slope, curvature, 0.0, turn + 1


@device
def _advance(exchange, X, span, t, move, state, own, scratch):
    step, _, turn = move
    _move_runs(span.low, span.high, _see(exchange, X, span, t, state, step))
    return turn


def steps_of(state, few):
    """Exact steps."""
    if few:
        functions = Functions(_start_steps, _few_derivatives, _few_advance)
        return Steps("of_few_groups", state, functions)
    return Steps("of_groups", state, Functions(_start_steps, _derivatives, _advance))
