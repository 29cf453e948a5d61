"""One cycle of exact coordinate steps on the device: one launch, whatever the number of columns.

The method is that of `backends.cpu.exact`: an exact Newton step a column, at the current predictor.
A pattern supplies three functions over its state, each called by all threads of a team:

    start(exchange, fit, state, turn, scratch)                  -> turn
    derivatives(exchange, X, j, t, state, turn, scratch)        -> slope, curvature, extra, turn
    advance(exchange, X, j, t, step, extra, state)

for column j and the t-th fit served.  They read its number, ``exchange.fits[t]``, anew after each
barrier: the arrays of the fit are then found anew, and not kept in registers all the while.

`derivatives` gives the team's totals, the same bits in every thread (`extra` is whatever `advance`
wants to know); so every block computes the same step, and moves what belongs to its own rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..formulas import coordinate_minimum
from ._cuda import cuda, specialize
from .team import begin, my_team, n_teams, new_scratch


class Steps(NamedTuple):
    """Columns to step along, those of one fit after the other, and numbers that go with them."""

    ptr: np.ndarray  # int64 per fit served + 1
    column: np.ndarray  # int64
    coef: np.ndarray  # float64: before, and after
    l1: np.ndarray
    l2: np.ndarray
    events_slope: np.ndarray  # the part of the slope that does not depend on eta
    reach: np.ndarray  # largest step allowed: before, and after


class Own(NamedTuple):
    """What every block keeps for itself, the same bits in all blocks of a team."""

    coef: np.ndarray  # float64 (blocks, most columns of a fit)
    reach: np.ndarray


def _cycle(exchange, X, steps, own, state):
    """Step every column of every fit served once; writes ``steps.coef`` and ``steps.reach``."""
    begin()
    scratch, turn, block = new_scratch(), 0, cuda.blockIdx.x
    team, member = my_team(exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit, low, high = exchange.fits[t], steps.ptr[t], steps.ptr[t + 1]
        at = low + cuda.threadIdx.x
        while at < high:
            own.coef[block, at - low] = steps.coef[at]
            own.reach[block, at - low] = steps.reach[at]
            at += cuda.blockDim.x
        turn = start(exchange, fit, state, turn, scratch)  # noqa: F821 (bound)
        cuda.syncthreads()
        for at in range(low, high):
            j, a = steps.column[at], at - low
            coef, reach = own.coef[block, a], own.reach[block, a]
            slope, curvature, extra, turn = derivatives(  # noqa: F821 (bound)
                exchange, X, j, t, state, turn, scratch
            )
            if not curvature > 0.0:
                continue
            slope += steps.events_slope[at]
            new = coordinate_minimum(coef, slope, curvature, steps.l1[at], steps.l2[at])
            step = min(max(new - coef, -reach), reach)
            if cuda.threadIdx.x == 0:
                own.reach[block, a] = max(2.0 * abs(step), 0.5 * reach)
                # a step that was not cut short lands on `new` itself, so that zeros are exact
                own.coef[block, a] = new if abs(new - coef) <= abs(step) else coef + step
            if step != 0.0:
                advance(exchange, X, j, t, step, extra, state)  # noqa: F821
            cuda.syncthreads()
        if member == 0:
            at = low + cuda.threadIdx.x
            while at < high:
                steps.coef[at] = own.coef[block, at - low]
                steps.reach[at] = own.reach[block, at - low]
                at += cuda.blockDim.x
        # no barrier: a thread copies the next fit's numbers to where it has read these
        t += n_teams(exchange)


def make_cycle(label, start, derivatives, advance):
    """Kernel of one cycle over a pattern's state."""
    return specialize(_cycle, label, start=start, derivatives=derivatives, advance=advance)


def run_cycle(layout, kernel, fits, numbers, state_of):
    """Launch a cycle for some fits; new coefficients and reaches of each.

    `numbers` holds, each with an array a fit: columns, coefficients, l1, l2, slopes, reaches.
    ``state_of(blocks)`` makes the pattern's state for a launch of so many blocks.
    """
    sizes = [len(columns) for columns in numbers[0]]
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    device, dtypes = layout.device, (np.int64, *5 * (np.float64,))
    parts = [np.concatenate(n).astype(d) for n, d in zip(numbers, dtypes, strict=True)]
    steps = Steps(*map(device.upload, (ptr, *parts)))

    def arguments(blocks):
        own = Own(*(device.empty((blocks, max(sizes)), np.float64) for _ in range(2)))
        return layout.X, steps, own, state_of(blocks)

    shape = layout.shape_of_teams(kernel, len(fits), arguments(1))
    layout.launch_teams(kernel, fits, *arguments(shape[0] * shape[1]), shape=shape)
    coef, reach = (np.split(device.download(a), ptr[1:-1]) for a in (steps.coef, steps.reach))
    return list(zip(coef, reach, strict=True))
