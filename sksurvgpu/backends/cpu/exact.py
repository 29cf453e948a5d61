"""One cycle of the textbook method: an exact Newton step per coordinate, at the current predictor.

A pattern supplies two functions of its state: ``derivatives(X, j, state)``, slope (without the part
that does not depend on eta) and curvature along column j, and ``advance(X, j, step, state)``.
Steps obey a trust region: |step| <= reach, then reach <- max(2 |step|, reach / 2).
"""

from __future__ import annotations

from ..._compile import specialize
from ..formulas import coordinate_minimum


def _cycle(X, columns, coef, l1, l2, events_slope, reach, state):
    """Step every column once; owns coef, reach and the arrays of the state."""
    for a in range(len(columns)):
        slope, curvature = derivatives(X, columns[a], state)  # noqa: F821 (bound by specialize)
        if not curvature > 0.0:
            continue
        new = coordinate_minimum(coef[a], events_slope[a] + slope, curvature, l1[a], l2[a])
        step = min(max(new - coef[a], -reach[a]), reach[a])
        reach[a] = max(2.0 * abs(step), 0.5 * reach[a])
        if step != 0.0:
            # a step that was not cut short lands on `new` itself, so that zeros are exact
            coef[a] = new if abs(new - coef[a]) <= abs(step) else coef[a] + step
            advance(X, columns[a], step, state)  # noqa: F821


def make_cycle(derivatives, advance):
    """Kernel ``(X, columns, coef, l1, l2, events_slope, reach, state)`` of one cycle."""
    return specialize(_cycle, derivatives=derivatives, advance=advance)
