"""Passes of coordinate descent over the columns of the centred quadratic model.

The model of the objective around the reference point, in the move d of the coefficients, is
``-u'v + v'Mv/2`` with v = Xd and M = diag(h) - sum_k h_k h_k'/N_k.  A pass keeps the residual
r = u - h*v in the first column of `rh` (h is the second: a move needs both, and side by side they
share a cache line) and, for the second term of M, one number a bin or a group:

* bins (few): U_k = h_k'v / N_k, and the loads c_jk = x_j'h_k are stored a column;
  slope = x_j'r + sum_k c_jk U_k
* groups (many, a row in exactly one): T_g = 1'r_g / 1'h_g, and nothing is stored a column;
  slope = sum_i x_i (r_i - h_i T_g(i))
"""

from __future__ import annotations

from ..formulas import coordinate_minimum
from ._compile import device, specialize
from .columns import column_operation, dot_residual, entry_count, entry_row, entry_value, move_residual


@device
def slope_binned(X, j, a, rh, centring):
    loads, center, _ = centring
    total = dot_residual(X, j, 0, X.n_base, rh)
    for k in range(len(center)):
        total += loads[a, k] * center[k]
    return total


@device
def move_binned(X, j, a, rh, step, centring):
    loads, center, inverse = centring
    move_residual(X, j, 0, X.n_base, (rh, step))
    for k in range(len(center)):
        center[k] += loads[a, k] * inverse[k] * step


@column_operation
def dot_grouped(rows, values, shift, state):
    rh, group, center = state
    total = 0.0
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        total += entry_value(values, q) * (rh[i, 0] - rh[i, 1] * center[group[i]])
    return total


@column_operation
def move_residual_grouped(rows, values, shift, state):
    rh, step, group, center, inverse = state
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        change = rh[i, 1] * entry_value(values, q) * step
        rh[i, 0] -= change
        center[group[i]] -= change * inverse[group[i]]
    return 0.0


@device
def slope_grouped(X, j, a, rh, centring):
    group, center, _ = centring
    return dot_grouped(X, j, 0, X.n_base, (rh, group, center))


@device
def move_grouped(X, j, a, rh, step, centring):
    group, center, inverse = centring
    move_residual_grouped(X, j, 0, X.n_base, (rh, step, group, center, inverse))


def sweep(X, columns, coef, l1, l2, curvature, centring, rh, max_passes, shrink):
    """Cyclic passes until the largest move of a pass is below `shrink` of the first pass's.

    Owns `coef`, `rh` and the centres; moves are measured as ``curvature * abs(step)``, the unit of
    the gradient.  Passes after the first touch nonzero coefficients only.  Columns of zero
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
                largest = max(largest, curvature[a] * abs(step))
        if count == 0:
            first = largest
        if largest <= shrink * first:
            break
    return visits


sweep_binned = specialize(sweep, slope=slope_binned, move=move_binned)
sweep_grouped = specialize(sweep, slope=slope_grouped, move=move_grouped)
