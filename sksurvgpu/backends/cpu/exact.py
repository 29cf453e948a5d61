"""One cycle of the textbook method: an exact Newton step per coordinate, at the current predictor.

A pattern supplies `Steps`: two functions of its state, ``derivatives(X, j, state)``, slope (without
the part that does not depend on eta) and curvature along column j, and
``advance(X, j, step, state)``.
Steps obey a trust region: |step| <= reach, then reach <- max(2 |step|, reach / 2).
"""

from functools import cache
from typing import Any, NamedTuple

from ..._compile import BOUND, specialize

derivatives = minimum = advance = BOUND


class Steps(NamedTuple):
    """How a pattern steps along columns."""

    derivatives: Any
    advance: Any
    state: Any


def _cycle(X, columns, coef, penalty, events_slope, reach, state):
    """Step every column once; owns coef, reach and the arrays of the state."""
    for a in range(len(columns)):
        slope, curvature = derivatives(X, columns[a], state)
        if not curvature > 0.0:
            continue
        z = coef[a] * curvature + (events_slope[a] + slope)
        new = minimum(z, curvature, penalty, a)
        step = min(max(new - coef[a], -reach[a]), reach[a])
        reach[a] = max(2.0 * abs(step), 0.5 * reach[a])
        if step != 0.0:
            # a step that was not cut short lands on `new` itself, so that zeros are exact
            coef[a] = new if abs(new - coef[a]) <= abs(step) else coef[a] + step
            advance(X, columns[a], step, state)


@cache
def make_cycle(derivatives, advance, minimum):
    """Kernel ``(X, columns, coef, penalty, events_slope, reach, state)`` of one cycle."""
    return specialize(_cycle, derivatives=derivatives, advance=advance, minimum=minimum)
