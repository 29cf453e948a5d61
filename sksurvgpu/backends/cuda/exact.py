"""One cycle of exact coordinate steps on the device: one launch, whatever the number of columns.

The method is that of `backends.cpu.exact`: an exact Newton step a column, at the current predictor.
Cox models have it here whose rows are all at risk from the beginning and have no copies
(`patterns.risk_sets.cuda_steps`), for comparison with what was published: the default algorithm is
five to fourteen times as fast.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Steps(NamedTuple):
    """How fits step along columns, and their state."""

    cycle_under: Callable[..., Any]  # kernel of a cycle, by a penalty's `minimum`
    state: NamedTuple


class Work(NamedTuple):
    """Columns to step along, those of one fit after the other, and numbers that go with them."""

    ptr: np.ndarray  # int64 per fit served + 1
    column: np.ndarray  # int64
    coef: np.ndarray  # float64: before, and after
    penalty: NamedTuple  # of arrays
    events_slope: np.ndarray  # the part of the slope that does not depend on eta
    reach: np.ndarray  # largest step allowed: before, and after


def run_cycle(layout, steps, minimum, fits, numbers):
    """Launch a cycle for some fits; new coefficients and reaches of each.

    `numbers` holds those of `Work` after `ptr`, each with what belongs to one fit after the other.
    """
    columns, coefs, penalties, slopes, reaches = numbers
    device, join = layout.device, layout.join
    ptr = np.concatenate([[0], np.cumsum([len(where) for where in columns])])
    work = Work(
        device.upload(ptr),
        join(columns, np.int64),
        join(coefs),
        layout.join_tuples(penalties),
        join(slopes),
        join(reaches),
    )
    kernel, given = steps.cycle_under(minimum), (layout.X, work, steps.state)
    shape = layout.shape_of_teams(kernel, len(fits), given, most=layout.n_ranges)
    layout.launch_teams(kernel, fits, *given, shape=shape)
    coef, reach = (np.split(device.download(a), ptr[1:-1]) for a in (work.coef, work.reach))
    return list(zip(coef, reach, strict=True))


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
