"""Passes of coordinate descent over the columns of the centred quadratic model.

The model of the objective around the reference point, in the move d of the coefficients, is
``-u'v + v'Mv/2`` with v = Xd and M = diag(h) - sum_k h_k h_k'/N_k.  A pass keeps the residual
r = u - h*v in the first column of `rh` (h is the second: a move needs both, and side by side they
share a cache line).  The second term of M is kept by the pattern's ``slope`` and ``move``.
"""

from __future__ import annotations

import numpy as np

SETTLED = 0.05  # of the moves that end a sweep: columns that moved less sit out its other passes


def sweep(X, columns, coef, penalty, unit, curvature, centring, rh, max_passes, shrink):
    """Cyclic passes until the largest move of a pass is below `shrink` of the first pass's.

    Owns `coef`, `rh` and the centres; a move is ``curvature * abs(step) / unit``, measured as the
    gradient is.  Passes after the first touch nonzero coefficients only, of these the ones that
    still move.  Columns of zero curvature (constant within every bin) are left alone.  Returns
    how often a column was due, settled or not.
    """
    first, due, moved = 0.0, 0, np.full(len(columns), np.inf)
    for count in range(max_passes):
        largest = 0.0
        for a in range(len(columns)):
            if curvature[a] <= 0.0 or (count > 0 and coef[a] == 0.0):
                continue
            due += 1
            if count > 0 and moved[a] <= SETTLED * shrink * first:
                continue
            gradient = slope(X, columns[a], a, rh, centring)  # noqa: F821 (bound by specialize)
            z = coef[a] * curvature[a] + gradient
            new = minimum(z, curvature[a], penalty, a)  # noqa: F821
            step = new - coef[a]
            moved[a] = curvature[a] * abs(step) / unit[a]
            largest = max(largest, moved[a])
            if step != 0.0:
                coef[a] = new
                move(X, columns[a], a, rh, step, centring)  # noqa: F821
        if count == 0:
            first = largest
        if largest <= shrink * first:
            break
    return due
