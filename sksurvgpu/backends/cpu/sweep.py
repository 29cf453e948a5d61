"""Passes of coordinate descent over the columns of the centred quadratic model.

The model of the objective around the reference point, in the move d of the coefficients, is
``-u'v + v'Mv/2`` with v = Xd and M = diag(h) - sum_k h_k h_k'/N_k.  A pass keeps the residual
r = u - h*v in the first column of `rh` (h is the second: a move needs both, and side by side they
share a cache line).  The second term of M is kept by the pattern's ``slope`` and ``move``.
"""

from __future__ import annotations

from ..formulas import coordinate_minimum


def sweep(X, columns, coef, l1, l2, unit, curvature, centring, rh, max_passes, shrink):
    """Cyclic passes until the largest move of a pass is below `shrink` of the first pass's.

    Owns `coef`, `rh` and the centres; a move is ``curvature * abs(step) / unit``, measured as the
    gradient is.  Passes after the first touch nonzero coefficients only.  Columns of zero
    curvature (constant within every bin) are left alone.  Returns the number of column visits.
    """
    first, visits = 0.0, 0
    for count in range(max_passes):
        largest = 0.0
        for a in range(len(columns)):
            if curvature[a] <= 0.0 or (count > 0 and coef[a] == 0.0):
                continue
            visits += 1
            gradient = slope(X, columns[a], a, rh, centring)  # noqa: F821 (bound by specialize)
            new = coordinate_minimum(coef[a], gradient, curvature[a], l1[a], l2[a])
            step = new - coef[a]
            if step != 0.0:
                coef[a] = new
                move(X, columns[a], a, rh, step, centring)  # noqa: F821
                largest = max(largest, curvature[a] * abs(step) / unit[a])
        if count == 0:
            first = largest
        if largest <= shrink * first:
            break
    return visits
