"""The group pattern on the device: formulas as in `cpu`.

A group is anything from one row to all of them, so nobody works on "a group": one segmented scan
over the rows takes each group's largest predictor together with the sum of w on that scale, and
leaves both at the group; then rows compute their own terms.  Time follows the number of rows
alone.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import int64

from ...backends.cuda._cuda import cuda, device, kernel
from ...backends.cuda.pattern import PatternOnDevice, make_evaluation
from ...backends.cuda.products import of_fit
from ...backends.cuda.rake import add_scaled, make_rake
from ...backends.cuda.team import barrier, part_of, team_sum
from ...backends.cuda.weights import add_all, add_runs, number_of


class Groups(NamedTuple):
    """Groups of rows, and the numbers that fits keep for each."""

    idx: np.ndarray  # int32 per row: its group; rows of a group are neighbours
    total: np.ndarray  # float64 (1 or fits, groups): N
    top: np.ndarray  # float64 (fits, groups): largest predictor of rows of positive weight
    risk: np.ndarray  # float64 (fits, groups): S on the scale of `top`


@device
def largest_term(context, fit, i):
    """Term of a row in the log-likelihood where its group's events are in their shares."""
    rows, groups = context
    events = rows.value[i] * of_fit(rows.weight, fit)[i]
    if not events > 0.0:
        return 0.0
    return events * math.log(events / of_fit(groups.total, fit)[groups.idx[i]])


@device
def _load(context, i):
    idx, weight, eta, _, _ = context
    return eta[i], weight[i], 0.0, int64(i == 0 or idx[i - 1] != idx[i])


@device
def _take(context, i, before, after):
    """Keep what a group's last row has: all of the group."""
    idx, _, _, top, risk = context
    if i + 1 == idx.shape[0] or idx[i + 1] != idx[i]:
        top[idx[i]], risk[idx[i]] = after[0], after[1]
    return 0.0, 0.0


_scan_groups = make_rake(_load, _take, combine=add_scaled)


@device
def _share(rows, groups, fit, eta, i):
    """h of a row: N p."""
    c, g = of_fit(rows.weight, fit)[i], groups.idx[i]
    total = of_fit(groups.total, fit)[g]
    if not (c > 0.0 and total > 0.0):
        return 0.0
    return c * math.exp(eta[i] - groups.top[fit, g]) * (total / groups.risk[fit, g])


@device
def _set_residual(rows, groups, fit, eta, i):
    """Write u of a row; its term of the log-likelihood, a group's own being its last row's."""
    c, g = of_fit(rows.weight, fit)[i], groups.idx[i]
    mass, term = c * rows.value[i], 0.0
    total = of_fit(groups.total, fit)[g]
    if not total > 0.0:
        rows.u[fit, i] = 0.0
        return 0.0
    if mass > 0.0:
        term = mass * (eta[i] - groups.top[fit, g] + math.log(c))
    if i + 1 == groups.idx.shape[0] or groups.idx[i + 1] != g:
        term -= total * math.log(groups.risk[fit, g])
    rows.u[fit, i] = mass - _share(rows, groups, fit, eta, i)
    return term


@device
def _evaluate(exchange, state, fit, eta, turn, scratch):
    """Log-likelihood; writes u, and the groups' `top` and `risk`.

    A member owns a contiguous part of the rows.
    """
    (rows, groups), loglik = state, 0.0
    context = groups.idx, of_fit(rows.weight, fit), eta, groups.top[fit], groups.risk[fit]
    _scan_groups(exchange, eta.shape[0], context, turn, scratch)
    barrier(exchange)  # all members see all groups
    low, high = part_of(eta.shape[0], exchange)
    i = low + cuda.threadIdx.x
    while i < high:
        loglik += _set_residual(rows, groups, fit, eta, i)
        i += cuda.blockDim.x
    return team_sum(exchange, loglik, turn + 1, scratch), turn + 2


@kernel
def curvature(fits, state, eta_of_fits, h_of_fits):
    """h of every row at the last evaluation; as c y - u a small one would be lost to rounding."""
    rows, groups = state
    for t in range(fits.shape[0]):
        fit = fits[t]
        eta = eta_of_fits[fit]
        i = cuda.grid(1)
        while i < eta.shape[0]:
            h_of_fits[fit, i] = _share(rows, groups, fit, eta, i)
            i += cuda.gridsize(1)


class GroupsOnDevice(PatternOnDevice):
    """Conditional Poisson regression: events of a group distributed over its rows."""

    _evaluate = make_evaluation("groups", _evaluate)

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        plan, device = problem.plan, layout.device
        self.few = plan.few
        runs = layout.plan.ptr[:-1], layout.plan.ptr[1:]
        events = self.rows.weight, device.empty(0, np.int32), self.rows.value
        totals, self._inverse, _ = add_runs(layout, number_of, runs, events, n_fits, plan.few)
        own = layout.plan.own
        self.live = self._keep_counted(layout.plan.may_count, run=own, total=totals)
        top, risk = (device.empty((n_fits, plan.n_strata), np.float64) for _ in range(2))
        self._groups = Groups(own, totals, top, risk)
        self._state = device.pack((self.rows, self._groups))

    @staticmethod
    def bytes_of_fit(plan):
        """Numbers of groups."""
        return 8 * 4 * plan.n_strata

    @cached_property
    def _largest(self):
        n_rows = self._plan.n_rows
        return add_all(self.layout, largest_term, n_rows, self._state, self.n_weights)

    def new_model(self, row_type):
        return self._make_model(row_type, inverse=self._inverse)

    def refer(self, fits, eta, model):
        served, n_rows = self.layout.served(fits), eta.shape[1]
        self.layout.launch_wide(curvature, n_rows, served, self._state, eta, model.h)
