"""The group pattern: a multinomial distribution within each group of rows.

With w = c exp(eta), S_g = sum of w over group g and N_g = sum of c y over it,

    l = sum c y log p,   p_i = w_i / S_g,   u_i = c_i y_i - h_i,   h_i = N_g p_i

and diag(h) - sum_g h_g h_g'/N_g is the Hessian, exactly.  Rows of a group are neighbours.
"""

from typing import NamedTuple

import numpy as np

from ..._compile import device, kernel
from ...backends.cpu import tasks
from ...backends.cpu.bins import Centring, bins_of_groups
from ...backends.cpu.columns import add_scaled, column_operation, entry_row, entry_value, n_entries
from ...backends.cpu.exact import Steps
from ...backends.cpu.optional import row_weight
from ...backends.cpu.pattern import PatternOnCpu
from ...backends.cpu.tasks import adder
from ...backends.formulas import two_sum
from ...data.vectors import inverse_of


class Groups(NamedTuple):
    """Outcomes of one fit's rows in groups, and their case weights (None: all one)."""

    ptr: np.ndarray
    idx: np.ndarray  # group of every row
    value: np.ndarray
    weight: np.ndarray
    total: np.ndarray  # N, per group


@device
def _largest(groups, eta, g):
    """Largest predictor of a group's rows of positive weight."""
    top = -np.inf
    for i in range(groups.ptr[g], groups.ptr[g + 1]):
        if row_weight(groups.weight, i) > 0.0 and not eta[i] <= top:
            top = eta[i]
    return top


@device
def _weigh(groups, eta, g, w):
    """w of a group's rows, on the scale of the largest predictor; that one, and their sum."""
    top, risk = _largest(groups, eta, g), 0.0
    for i in range(groups.ptr[g], groups.ptr[g + 1]):
        c = row_weight(groups.weight, i)
        w[i] = c * np.exp(eta[i] - top) if c > 0.0 else 0.0
        risk += w[i]
    return top, risk


@device
def _add_terms(groups, eta, u, first, end):
    """Log-likelihood of groups, and what its sum has lost; writes their u."""
    loglik, lost = 0.0, 0.0  # groups alike have terms alike, whose errors would not cancel
    for g in range(first, end):
        low, high, total = groups.ptr[g], groups.ptr[g + 1], groups.total[g]
        if not total > 0.0:
            u[low:high] = 0.0
            continue
        top, risk = _weigh(groups, eta, g, u)
        term = -total * np.log(risk)
        share = total / risk
        for i in range(low, high):
            c = row_weight(groups.weight, i)
            mass = c * groups.value[i]
            if mass > 0.0:
                term += mass * (eta[i] - top + np.log(c))
            u[i] = mass - u[i] * share
        loglik, error = two_sum(loglik, term)
        lost += error
    return loglik, lost


evaluate = adder(_add_terms)


@kernel
def curvature(groups, eta, h, first, end):
    """h of groups; as c y - u a small one would be rounded off."""
    for g in range(first, end):
        _, risk = _weigh(groups, eta, g, h)
        share = groups.total[g] / risk if risk > 0.0 else 0.0
        for i in range(groups.ptr[g], groups.ptr[g + 1]):
            h[i] *= share


@kernel
def fill_groups(groups, eta, w_row, risk):
    """w of every row, each group on its own scale, and its sums per group; eta on that scale."""
    for g in range(len(risk)):
        top, risk[g] = _weigh(groups, eta, g, w_row)
        eta[groups.ptr[g] : groups.ptr[g + 1]] -= top


@device
def _reduce(groups, risk, g, first, second, sums):
    if groups.total[g] > 0.0:
        mean = first / risk[g]
        sums[0] -= groups.total[g] * mean
        sums[1] += groups.total[g] * (second / risk[g] - mean * mean)


@column_operation
def _sum_runs(rows, values, shift, state):
    """Slope and curvature: the column's entries of a group are neighbours."""
    groups, w_row, risk, _, sums = state
    first, second, own = 0.0, 0.0, 0
    for q in range(n_entries(rows, values)):
        i = entry_row(rows, q, shift)
        if groups.idx[i] != own:
            _reduce(groups, risk, own, first, second, sums)
            first, second, own = 0.0, 0.0, groups.idx[i]
        x = entry_value(values, q)
        first += w_row[i] * x
        second += w_row[i] * x * x
    _reduce(groups, risk, own, first, second, sums)
    return 0.0


@column_operation
def _refresh_runs(rows, values, shift, state):
    """New w of the column's rows, and its change in their groups' sums."""
    groups, w_row, risk, eta, _ = state
    for q in range(n_entries(rows, values)):
        i = entry_row(rows, q, shift)
        c = row_weight(groups.weight, i)
        w = c * np.exp(eta[i]) if c > 0.0 else 0.0
        risk[groups.idx[i]] += w - w_row[i]
        w_row[i] = w
    return 0.0


@device
def group_derivatives(X, j, state):
    sums = state[4]
    sums[:] = 0.0
    _sum_runs(X, j, state)
    return sums[0], sums[1]


@device
def group_advance(X, j, step, state):
    add_scaled(X, j, (state[3], step))
    _refresh_runs(X, j, state)


class GroupsOnCpu(PatternOnCpu):
    """Conditional Poisson regression: events of a group distributed over its rows."""

    def __init__(self, problem, weight, threads):
        super().__init__(problem, weight, threads)
        plan, weighted = problem.plan, self.weighted
        self._groups = Groups(plan.ptr, plan.group_idx, plan.value, weighted.weight, weighted.total)
        bins = bins_of_groups(plan.group_idx, inverse_of(weighted.total), plan.ptr)
        self._centring, self.group_ptr = Centring(bins, plan.few), plan.ptr

    def evaluate(self, eta, u):
        return tasks.add_up(self._threads, evaluate, self._groups, eta, u, self._group_blocks)

    def refer(self, eta, u, h):
        tasks.run_blocks(self._threads, self._group_blocks, curvature, self._groups, eta, h)
        return self._centring

    def exact_steps(self, eta):
        w_row, risk = np.empty(len(eta)), np.empty(len(self._groups.total))
        fill_groups(self._groups, eta, w_row, risk)
        state = self._groups, w_row, risk, eta, np.zeros(2)
        return Steps(group_derivatives, group_advance, state)
