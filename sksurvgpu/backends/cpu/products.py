"""Products with X: every column against a row vector, and X times coefficients.

Threads own columns in the first and rows in the second, so the order of every sum is the same
for any number of threads.
"""

from __future__ import annotations

import numpy as np

from ..._compile import kernel
from .columns import add_scaled, column_operation, dot, entry_count, entry_row, entry_value


@kernel
def gradient_of_columns(X, columns, u, out):
    """out_a = x_a'u for the given columns."""
    for a in range(len(columns)):
        out[a] = dot(X, columns[a], 0, X.n_base, u)


@kernel
def add_product(X, columns, coef, low, high, eta):
    """eta += X[:, columns] @ coef on the rows [low, high) of X."""
    for a in range(len(columns)):
        if coef[a] != 0.0:
            add_scaled(X, columns[a], low, high, (eta, coef[a]))


@column_operation
def add_one(rows, values, shift, count):
    for q in range(entry_count(rows, values)):
        count[entry_row(rows, q, shift)] += 1.0
    return 0.0


@kernel
def count_entries(X, columns, low, high, count):
    """Entries of the given columns in every row [low, high)."""
    for a in range(len(columns)):
        add_one(X, columns[a], low, high, count)


@kernel
def largest_range(a, b, live, group_ptr):
    """Largest range of a - b over the live rows of one group."""
    widest = 0.0
    for g in range(len(group_ptr) - 1):
        low, high = np.inf, -np.inf
        for i in range(group_ptr[g], group_ptr[g + 1]):
            if live[i]:
                change = a[i] - b[i]
                low, high = min(low, change), max(high, change)
        widest = max(widest, high - low)
    return widest


@kernel
def largest_difference(a, b, live):
    """Largest |a - b| over the live rows."""
    widest = 0.0
    for i in range(len(a)):
        if live[i]:
            widest = max(widest, abs(a[i] - b[i]))
    return widest


@column_operation
def dot_absolute(rows, values, shift, r):
    """Sum of |x_i| r_i."""
    total = 0.0
    for q in range(entry_count(rows, values)):
        total += abs(entry_value(values, q)) * r[entry_row(rows, q, shift)]
    return total


@kernel
def absolute_products(X, columns, r, out):
    """out_a = |x_a|'r for the given columns."""
    for a in range(len(columns)):
        out[a] = dot_absolute(X, columns[a], 0, X.n_base, r)


@kernel
def centred_square(a, b, rh, is_centred):
    """sum h v^2 with v = a - b, less (sum h v)^2 / sum h where that is centred."""
    total, first, second = 0.0, 0.0, 0.0
    for i in range(len(a)):
        v = a[i] - b[i]
        total += rh[i, 1]
        first += rh[i, 1] * v
        second += rh[i, 1] * v * v
    return second - first * first / total if is_centred and total > 0.0 else second
