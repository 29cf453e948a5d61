"""One cycle of exact coordinate steps on the device: one launch, whatever the number of columns.

The method is that of `backends.cpu.exact`: an exact Newton step a column, at the current predictor.
Cox models have it here whose rows are all at risk from the beginning and have no copies
(`risk_set_steps`), for comparison with what was published: the default algorithm is five to
fourteen times as fast.  `Steps` has three functions of a state, each called by all threads of a
team:

    start(exchange, X, fit, state, own, turn, scratch)            -> turn
    derivatives(exchange, X, j, t, state, own, turn, scratch)     -> slope, curvature, turn
    advance(exchange, X, j, t, step, state, own)

for the t-th fit served and a model column.  They read its number,
``exchange.fits[t]``, anew after each barrier: the arrays of the fit are then found anew, and not
kept in registers all the while; nor are `own`, shared memory for `OWN` integers of a member.

`derivatives` gives the team's totals, the same bits in every thread; so every block computes the
same step, and moves what belongs to its own rows.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import int64, uint64

from ..._compile import BOUND
from ._cuda import cuda, device, inlined, specialize
from .cuts import RESERVED_SHARED
from .team import begin, my_team, n_teams, new_scratch

start = derivatives = minimum = advance = BOUND

OWN = 8


class Functions(NamedTuple):
    """How fits step along columns."""

    start: Any
    derivatives: Any
    advance: Any


class Steps(NamedTuple):
    """Steps with the arrays that members of a team keep in shared memory where that holds them."""

    label: str  # of the kernel
    state: NamedTuple
    far: Functions
    near: Functions
    bytes_of: Callable[[int], int]  # of a member, by the size of the team


class Work(NamedTuple):
    """Columns to step along, those of one fit after the other, and numbers that go with them."""

    ptr: np.ndarray  # int64 per fit served + 1
    column: np.ndarray  # int64
    coef: np.ndarray  # float64: before, and after
    penalty: NamedTuple  # of arrays
    events_slope: np.ndarray  # the part of the slope that does not depend on eta
    reach: np.ndarray  # largest step allowed: before, and after


class BlockState(NamedTuple):
    """Numbers that every block keeps for itself, the same bits in all blocks of a team."""

    coef: np.ndarray  # float64 (blocks, most columns of a fit)
    reach: np.ndarray


@inlined
def new_own():
    """Shared memory for what `start` finds."""
    return cuda.shared.array(8, int64)  # OWN


@device
def clip(step, reach):
    """A step that is no longer than `reach`; nan stays, which a device's `max` would lose."""
    if step > reach:
        return reach
    return -reach if step < -reach else step


def _cycle(exchange, X, work, own, state):
    """Step every column of every fit served once; writes ``work.coef`` and ``work.reach``."""
    begin()
    scratch, mine = new_scratch(), new_own()
    turn, block = 0, uint64(cuda.blockIdx.x)
    team, member = my_team(exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit, low, high = exchange.fits[t], work.ptr[t], work.ptr[t + 1]
        at = low + cuda.threadIdx.x
        while at < high:
            own.coef[block, at - low] = work.coef[at]
            own.reach[block, at - low] = work.reach[at]
            at += cuda.blockDim.x
        turn = start(exchange, X, fit, state, mine, turn, scratch)
        for at in range(low, high):
            a, j = at - low, work.column[at]
            coef, reach = own.coef[block, uint64(a)], own.reach[block, uint64(a)]
            slope, curvature, turn = derivatives(exchange, X, j, t, state, mine, turn, scratch)
            if not curvature > 0.0:
                continue
            z = coef * curvature + (work.events_slope[at] + slope)
            new = minimum(z, curvature, work.penalty, at)
            step = clip(new - coef, reach)
            if cuda.threadIdx.x == 0:
                own.reach[block, uint64(a)] = max(2.0 * abs(step), 0.5 * reach)
                # a step that was not cut short lands on `new` itself, so that zeros are exact
                own.coef[block, uint64(a)] = new if abs(new - coef) <= abs(step) else coef + step
            if step != 0.0:
                advance(exchange, X, work.column[at], t, step, state, mine)
            cuda.syncthreads()
        if member == 0:
            at = low + cuda.threadIdx.x
            while at < high:
                work.coef[at] = own.coef[block, at - low]
                work.reach[at] = own.reach[block, at - low]
                at += cuda.blockDim.x
        # no barrier: a thread copies the next fit's numbers to where it has read these
        t += n_teams(exchange)


@cache
def _make_cycle(label, functions, minimum):
    """Kernel of one cycle over a state, under a penalty's `minimum`."""
    label = f"{label}_{minimum.__name__}"
    return specialize(_cycle, label, **functions._asdict(), minimum=minimum)


def run_cycle(layout, steps, minimum, fits, numbers):
    """Launch a cycle for some fits; new coefficients and reaches of each.

    `numbers` holds those of `Work` after `ptr`, each with what belongs to one fit after the other.
    """
    columns, coefs, penalties, slopes, reaches = numbers
    device, join = layout.device, layout.join
    sizes = [len(where) for where in columns]
    ptr = np.concatenate([[0], np.cumsum(sizes)])
    work = Work(
        device.upload(ptr),
        join(columns, np.int64),
        join(coefs),
        layout.join_tuples(penalties),
        join(slopes),
        join(reaches),
    )

    def arguments(blocks):
        own = BlockState(*(device.empty((blocks, max(sizes)), np.float64) for _ in range(2)))
        return layout.X, work, own, steps.state

    _launch(layout, steps, minimum, fits, arguments)
    coef, reach = (np.split(device.download(a), ptr[1:-1]) for a in (work.coef, work.reach))
    return list(zip(coef, reach, strict=True))


def _launch(layout, steps, minimum, fits, arguments):
    """Launch with what members keep in shared memory, or else in the device's.

    In shared memory as many fits are served at the same time as without, if it holds that much.
    ``arguments(blocks)`` are those of either kernel.
    """
    far = _make_cycle(steps.label, steps.far, minimum)
    near = _make_cycle(f"{steps.label}_near", steps.near, minimum)
    n_fits, probe, size = len(fits), arguments(1), layout.n_ranges
    least = layout.shape_of_teams(far, n_fits, probe, most=size)
    for wanted in (n_fits, size), None:
        shape = wanted or least
        needed = steps.bytes_of(shape[1])
        if needed + RESERVED_SHARED > layout.device.shared_bytes:
            continue
        if layout.shape_of_teams(near, n_fits, probe, needed, shape[1]) == shape:
            full = arguments(shape[0] * shape[1])
            return layout.launch_teams(near, fits, *full, shape=shape, shared_bytes=needed)
    return layout.launch_teams(far, fits, *arguments(least[0] * least[1]), shape=least)


def require_steps(problem):
    """Refuse a problem that has no exact steps, before anything of it is on the device."""
    likelihood, plan = problem.likelihood, problem.plan
    if not likelihood.pattern.on_device.has_exact_steps:
        found = f"the likelihood is {type(likelihood).__name__}"
    elif plan.enter_idx is not None:
        found = "rows enter late"
    elif plan.n_pieces > 1:
        found = "coefficients change over time"
    else:
        return
    raise ValueError(
        'algorithm="exact" with backend="cuda" is there for Cox models whose rows are at risk '
        f"from the beginning and whose coefficients are constant over time, and here {found}; "
        'pass backend="cpu", or the default, algorithm="majorized".'
    )
