"""Passes of coordinate descent over blocks of columns, as those over columns (`sweep`).

A block's gradients are taken at one residual, its coefficients move to the minimum over the block,
and then the residual moves, column by column.  Its part of the model's matrix comes with the
penalty.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from ..._compile import bind, device, specialize
from ...penalties.blocks import move_block_of
from .bins import moves
from .sweep import SETTLED


def _find_slopes(X, columns, coef, curvature, penalty, i, centring, rh, slopes, new):
    """Gradients of a block, 0 where there is no curvature; whether any column has some."""
    is_seen = False
    for s in range(penalty.size[i]):
        a = penalty.member[i + s]
        new[s], slopes[s] = coef[a], 0.0
        if curvature[a] > 0.0:
            is_seen = True
            slopes[s] = slope(X, columns[a], a, rh, centring)  # noqa: F821 (bound)
    return is_seen


def _take_steps(X, columns, coef, new, curvature, unit, penalty, i, centring, rh):
    """Move the coefficients and the residual; the largest move, as `sweep` measures it."""
    largest = 0.0
    for s in range(penalty.size[i]):
        a = penalty.member[i + s]
        step = new[s] - coef[a]
        if step != 0.0:
            largest = max(largest, curvature[a] * abs(step) / unit[a])
            coef[a] = new[s]
            move(X, columns[a], a, rh, step, centring)  # noqa: F821 (bound)
    return largest


@device
def _is_zero(coef, penalty, i):
    is_zero = True
    for s in range(penalty.size[i]):
        is_zero &= coef[penalty.member[i + s]] == 0.0
    return is_zero


def group_sweep(X, columns, coef, penalty, unit, curvature, centring, rh, max_passes, shrink):
    """Cyclic passes, with the arguments and by the rules of `sweep`; a block counts as one."""
    first, due, moved = 0.0, 0, np.full(len(columns), np.inf)
    slopes, new, work = np.empty((3, max(1, penalty.size.max())))
    for count in range(max_passes):
        largest = 0.0
        for i in range(len(columns)):
            if penalty.size[i] == 0 or (count > 0 and is_zero(coef, penalty, i)):  # noqa: F821
                continue
            due += penalty.size[i]
            if count > 0 and moved[i] <= SETTLED * shrink * first:
                continue
            if find_slopes(  # noqa: F821 (bound)
                X, columns, coef, curvature, penalty, i, centring, rh, slopes, new
            ):
                move_block(slopes, new, curvature, penalty, i, work)  # noqa: F821
            moved[i] = take_steps(  # noqa: F821
                X, columns, coef, new, curvature, unit, penalty, i, centring, rh
            )
            largest = max(largest, moved[i])
        if count == 0:
            first = largest
        if largest <= shrink * first:
            break
    return due


@cache
def group_sweep_of(few, formulas):
    """Sweep kernel for few bins or one a stratum, under a penalty of blocks."""
    of_bins, move_block = moves(few), move_block_of(formulas)
    parts = {
        "find_slopes": device(bind(_find_slopes, slope=of_bins["slope"])),
        "take_steps": device(bind(_take_steps, move=of_bins["move"])),
    }
    return specialize(group_sweep, move_block=move_block, is_zero=_is_zero, **parts)


def form_blocks(X, columns, sizes, wanted, centring, rh, out):
    """Diagonal blocks of the model's matrix, for the groups that are wanted.

    The residual is zero before and after: where one column moves by 1, the gradients of the others
    become minus their products with it.
    """
    begin, at = 0, 0
    for g in range(len(sizes)):
        size = sizes[g]
        if wanted[g]:
            for s in range(size):
                move(X, columns[begin + s], begin + s, rh, 1.0, centring)  # noqa: F821 (bound)
                for q in range(s + 1):
                    found = slope(X, columns[begin + q], begin + q, rh, centring)  # noqa: F821
                    out[at + s * size + q] = out[at + q * size + s] = -found
                move(X, columns[begin + s], begin + s, rh, -1.0, centring)  # noqa: F821
        begin += size
        at += size * size


@cache
def blocks_of(few):
    """Kernel that forms blocks, for few bins or one a stratum."""
    return specialize(form_blocks, **moves(few))
