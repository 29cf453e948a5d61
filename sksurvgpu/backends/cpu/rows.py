"""The row pattern: a sum of one term a row, with or without an implicit intercept.

A likelihood of this pattern is a canonical exponential family; its ``row_formula(eta, y)`` returns
``(log-likelihood, mean, variance)`` of one row.  With theta_i = eta_i + b

    l = sum c_i l(theta_i, y_i),   u_i = c_i (y_i - mean(theta_i)),   h_i = c_i variance(theta_i)

The intercept b is not a column.  Every evaluation moves it to its optimum, sum u = 0, so that the
solver sees the profile log-likelihood max_b l: it ignores shifts of eta, u is its gradient, and
diag(h) - h h'/sum h is its Hessian, exactly.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..._compile import device
from .bins import CONSTANT
from .columns import add_scaled, entry_count, entry_row, entry_value
from .optional import row_weight

MOST_STEPS = 200
SMALL_STEP = 1e-8  # relative: Newton's error after such a step is its square, rounding


class Rows(NamedTuple):
    """Outcomes of one fit's rows, and their case weights (None: all one)."""

    value: np.ndarray
    weight: np.ndarray


def _sum_means(rows, eta, intercept):
    """Weighted sums of mean and variance at an intercept."""
    mean, variance = 0.0, 0.0
    for i in range(len(eta)):
        c = row_weight(rows.weight, i)
        if c > 0.0:
            _, m, v = row_formula(eta[i] + intercept, rows.value[i])  # noqa: F821 (bound)
            mean += c * m
            variance += c * v
    return mean, variance


def _profile(rows, eta, start):
    """Intercept at which the means sum to the outcomes.

    Newton steps on the link of the mean of means, which is nearly linear in the intercept (and
    linear for the identity and log links: one step is exact), kept inside a bracket: means increase
    with eta, so the root lies within the range of eta below the link of the mean outcome.
    """
    count, total, low, high = 0.0, 0.0, np.inf, -np.inf
    for i in range(len(eta)):
        c = row_weight(rows.weight, i)
        if c > 0.0:
            count += c
            total += c * rows.value[i]
            low, high = min(low, eta[i]), max(high, eta[i])
    target, _ = link_formula(total / count)  # noqa: F821
    low, high = target - high, target - low
    intercept = min(max(start, low), high)
    for _ in range(MOST_STEPS):
        mean, variance = sum_means(rows, eta, intercept)  # noqa: F821
        if mean < total:
            low = intercept
        else:
            high = intercept
        value, slope = link_formula(mean / count)  # noqa: F821
        moved = intercept + (target - value) / (slope * variance / count)
        if not low <= moved <= high:
            moved = 0.5 * (low + high)
        step, intercept = abs(moved - intercept), moved
        if step <= SMALL_STEP * (1.0 + abs(intercept)):
            break
    return intercept


def _evaluate(rows, eta, intercept, u):
    """Log-likelihood; writes u."""
    loglik = 0.0
    for i in range(len(eta)):
        c = row_weight(rows.weight, i)
        u[i] = 0.0
        if c > 0.0:
            term, mean, _ = row_formula(eta[i] + intercept, rows.value[i])  # noqa: F821
            loglik += c * term
            u[i] = c * (rows.value[i] - mean)
    return loglik


def _curvature(rows, eta, intercept, rh):
    """h into the second column of `rh`."""
    for i in range(len(eta)):
        c = row_weight(rows.weight, i)
        rh[i, 1] = 0.0
        if c > 0.0:
            _, _, variance = row_formula(eta[i] + intercept, rows.value[i])  # noqa: F821
            rh[i, 1] = c * variance


# -- exact steps ------------------------------------------------------------------------------


def _collect(rows, values, shift, state):
    outcomes, eta, intercept, sums, _ = state
    for q in range(entry_count(rows, values)):
        i = entry_row(rows, q, shift)
        x, c = entry_value(values, q), row_weight(outcomes.weight, i)
        if c > 0.0:
            _, mean, variance = row_formula(eta[i] + intercept[0], outcomes.value[i])  # noqa: F821
            sums[0] -= c * x * mean
            sums[1] += c * x * x * variance
            sums[2] += c * x * variance
    return 0.0


def _row_derivatives(X, j, state):
    """Slope, and the curvature that is left when the intercept moves along."""
    sums, inverse = state[3], state[4]
    sums[:] = 0.0
    collect(X, j, 0, X.n_base, state)  # noqa: F821
    centred = sums[1] - sums[2] * sums[2] * inverse
    return sums[0], centred if centred > CONSTANT * sums[1] else 0.0


@device
def _row_advance(X, j, step, state):
    _, eta, intercept, sums, inverse = state
    add_scaled(X, j, 0, X.n_base, (eta, step))
    intercept[0] -= sums[2] * inverse * step
