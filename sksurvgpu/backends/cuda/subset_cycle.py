"""Exact steps of the subset pattern on the device: as in `backends.cpu.subsets`.

A worker takes a set at a time, a warp or, where sets are large, a block: the law of the sum, and
its derivatives along the column, for all k at once, from one side of the memory into the other.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numba import int64

from ..._compile import bind
from ..cpu.subsets import split
from ._cuda import cuda, device
from .columns import all_entries, entry
from .exact import Functions, Steps
from .groups import centred
from .products import of_fit
from .subsets import Sets
from .team import barrier, my_team, team_sums
from .workers import WORKERS


class SubsetSteps(NamedTuple):
    """State of exact steps: p and q of `sets` move along with eta."""

    rows: object
    sets: Sets
    eta: np.ndarray  # float64 (fits, rows)
    # float64 (fits, 6, rows + sets), placed as in `sets.law`: P(S = k), its first and its second
    # derivative along the column, two sides of each
    law: np.ndarray


@device
def _start_steps(exchange, X, fit, state, own, turn, scratch):
    """The last evaluation has left what is needed."""
    return turn


@device
def _add_row(law, at, side, has_same, has_less, p, q, x):
    """P(S = k) with one more row, and derivatives; `at` is where k stands.

    From S = k and S = k - 1 before it, where these were possible.
    """
    f0, f1, f2 = 0.0, 0.0, 0.0
    if has_same:
        f0, f1, f2 = q * law[side, at], q * law[side + 2, at], q * law[side + 4, at]
    if has_less:
        g0, g1 = law[side, at - 1], law[side + 2, at - 1]
        f0 += p * g0
        f1 += p * (g1 + x * g0)
        f2 += p * (law[side + 4, at - 1] + 2.0 * x * g1 + x * x * g0)
    law[1 - side, at], law[3 - side, at], law[5 - side, at] = f0, f1, f2


def _derive_set(X, span, fit, s, state):
    """Mean of the column's sum over the cases of one set, and its variance.

    `span` begins at the column's first entry in the set.
    """
    entry_at, high, kind, base = span
    sets, law = state.sets, state.law[fit]
    start, n = sets.ptr[s], sets.ptr[s + 1] - sets.ptr[s]
    m, at = of_fit(sets.cases, fit)[s], start + s
    if lane() == 0:  # noqa: F821 (bound, as below)
        side = n & 1
        law[side, at], law[side + 2, at], law[side + 4, at] = 1.0, 0.0, 0.0
    meet()  # noqa: F821
    for i in range(n):
        x = 0.0
        if entry_at < high:
            row, value = entry(X, entry_at, kind, base)
            if row == start + i:
                x, entry_at = value, entry_at + 1
        p, q = sets.pq[fit, 2 * (start + i)], sets.pq[fit, 2 * (start + i) + 1]
        k = lane()  # noqa: F821 (a range would keep a count of its steps: registers spilled)
        while k <= min(i + 1, m):
            _add_row(law, at + k, (n - i) & 1, k <= i, k > 0, p, q, x)
            k += lanes()  # noqa: F821
        meet()  # noqa: F821
    scale = 1.0 / law[0, at + m]
    return law[2, at + m] * scale, law[4, at + m] * scale


def _derivatives(exchange, X, span, t, state, own, turn, scratch):
    """Slope and curvature; a set is taken at the column's first entry in it."""
    fit = exchange.fits[t]
    _, member = my_team(exchange)
    low, high, kind, base = all_entries(X, span.j)
    per_block = cuda.blockDim.x // lanes()  # noqa: F821
    first = member * per_block + cuda.threadIdx.x // lanes()  # noqa: F821
    slope, curvature = 0.0, 0.0
    q = low + first
    while q < high:
        i, _ = entry(X, q, kind, base)
        before, _ = entry(X, max(q - 1, low), kind, base)
        s = int64(state.sets.idx[i])
        is_first = q == low or before < state.sets.ptr[s]
        if is_first and of_fit(state.sets.cases, fit)[s] > 0:
            mean, square = derive_set(X, (q, high, kind, base), fit, s, state)  # noqa: F821
            if lane() == 0:  # noqa: F821
                weight = of_fit(state.rows.weight, fit)[i]
                slope -= weight * mean
                curvature += weight * centred(square, mean)
        q += exchange.size[0] * per_block
    slope, curvature = team_sums(exchange, slope, curvature, turn, scratch)
    return slope, curvature, 0.0, turn + 1


@device
def _advance(exchange, X, span, t, move, state, own, scratch):
    """Move a member's rows; other members need them, since a set may be anybody's."""
    fit, sets, (step, _, turn) = exchange.fits[t], state.sets, move
    q = span.low + cuda.threadIdx.x
    while q < span.high:
        i, x = entry(X, q, span.kind, span.base)
        state.eta[fit, i] += x * step
        z = state.eta[fit, i] - sets.tau[fit, sets.idx[i]]
        sets.pq[fit, 2 * i], sets.pq[fit, 2 * i + 1] = split(z)
        q += cuda.blockDim.x
    barrier(exchange)
    return turn


@cache
def _derivatives_of(worker):
    names = WORKERS[worker]
    derive_set = device(bind(_derive_set, **names))
    return device(bind(_derivatives, **names, derive_set=derive_set))


def steps_of(worker, state):
    """Exact steps, with a warp or a block a set."""
    label = f"of_subsets_by_{worker}"
    return Steps(label, state, Functions(_start_steps, _derivatives_of(worker), _advance))
