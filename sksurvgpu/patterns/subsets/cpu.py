"""The subset pattern: m cases among the n rows of a set, given that they are m.

Independent Z_i with P(Z_i = 1) = p_i = expit(eta_i - tau) and their sum S have, for every tau,

    log B(m, n) = log P(S = m) + m tau + sum_i log(1 + exp(eta_i - tau))
    u_i = c (case_i - pi_i),   pi_i = P(Z_i = 1 | S = m) = p_i P(S - Z_i = m - 1) / P(S = m)

With tau such that sum p is about m, P(S = m) is near 1 / sqrt(2 pi sum p q): nothing over- or
underflows.  The law of S comes from f_k <- q_i f_k + p_i f_{k-1}, all terms positive; only k within
nine standard deviations of the running mean matter.  Leaving one row out of it is division by
(q_i + p_i z), upwards for p_i <= 1/2 and downwards for others, so that errors shrink.  (The known
recursion of pi over m explodes: errors of 1e2 at m = 500.)

Cost: rows x deviations of S.  The quadratic model has h with h_i - h_i^2 / sum h = pi_i (1 - pi_i):
its diagonal is the Hessian's.  It is no bound; twice the model is.
"""

from typing import NamedTuple

import numpy as np

from ..._compile import bind, device, kernel
from ...backends.cpu import tasks
from ...backends.cpu.bins import Centring, bins_of_groups
from ...backends.cpu.columns import add_scaled, column_operation, entry_row, entry_value, n_entries
from ...backends.cpu.exact import Steps
from ...backends.cpu.optional import row_weight
from ...backends.cpu.pattern import PatternOnCpu
from ...backends.cpu.tasks import adder
from ...backends.formulas import two_sum
from .formulas import find_tilt, h_of_row, leave_out, matching, smaller_root, split, variance_of

DEVIATIONS, MARGIN = 9.0, 9.0  # half width of the band around the mean of a sum


class Sets(NamedTuple):
    """Matched sets of one fit; neighbours, of one weight each."""

    ptr: np.ndarray
    idx: np.ndarray  # set of every row
    case: np.ndarray  # float64 per row, 0 or 1
    weight: np.ndarray  # per row, or None
    cases: np.ndarray  # int64 per set; 0 where the set contributes nothing
    tau: np.ndarray  # per set, kept from one evaluation to the next
    share: np.ndarray  # pi of the last evaluation, per row; from u a small one would be rounded off
    largest: int  # rows of the largest set


@device
def _extremes(rows):
    """Least and largest predictor."""
    eta, _, _ = rows
    low, high = np.inf, -np.inf
    for i in range(len(eta)):
        low, high = min(low, eta[i]), max(high, eta[i])
    return low, high


@device
def _fill(rows, tau):
    """Fill p and q; the mean and the variance of the sum."""
    eta, p, q = rows
    mean, variance = 0.0, 0.0
    for i in range(len(eta)):
        p[i], q[i] = split(eta[i] - tau)
        mean += p[i]
        variance += p[i] * q[i]
    return mean, variance


_tilt = device(bind(find_tilt, extremes=_extremes, fill=_fill))


@device
def _fill_law(p, q, n, law):
    """Law of the sum of n variables; its band.  Entries outside of it are 0."""
    law[: n + 1] = 0.0
    law[0] = 1.0
    mean, variance, low, high = 0.0, 0.0, 0, 0
    for i in range(n):
        mean += p[i]
        variance += p[i] * q[i]
        width = DEVIATIONS * np.sqrt(variance) + MARGIN
        # a nan, of predictors that overflow, fails these comparisons and becomes no index
        first = int(np.ceil(mean - width)) if mean - width > low else low
        high = int(mean + width) if mean + width < high + 1 else high + 1
        for k in range(high, max(first, 1) - 1, -1):
            law[k] = q[i] * law[k] + p[i] * law[k - 1]
        if first == 0:
            law[0] *= q[i]
        for k in range(low, first):
            law[k] = 0.0
        low = first
    return low, high


@device
def _add_terms(sets, eta, u, first, end):
    """Log-likelihood of sets, and what its sum has lost; writes their u and shifts tau."""
    loglik, lost = 0.0, 0.0  # sets alike have terms alike, whose errors would not cancel
    p, q, law = np.empty(sets.largest), np.empty(sets.largest), np.empty(sets.largest + 1)
    for s in range(first, end):
        begin, m = sets.ptr[s], sets.cases[s]
        n = sets.ptr[s + 1] - begin
        if m == 0:
            u[begin : begin + n] = 0.0
            continue
        tau = _tilt((eta[begin : begin + n], p, q), n, m, sets.tau[s])
        low, high = _fill_law(p, q, n, law)
        sets.tau[s], c = tau, row_weight(sets.weight, begin)
        term = -np.log(law[m])
        for i in range(n):
            z = eta[begin + i] - tau
            term -= max(z, 0.0) + np.log1p(np.exp(-abs(z)))
            if sets.case[begin + i] > 0.0:
                term += z
            share = p[i] * leave_out(p[i], q[i], m, law, low, high) / law[m]
            sets.share[begin + i] = share
            u[begin + i] = c * (sets.case[begin + i] - share)
        loglik, error = two_sum(loglik, c * term)
        lost += error
    return loglik, lost


evaluate = adder(_add_terms)


@device
def _sum_roots(share, size):
    summed, slope = 0.0, 0.0
    for i in range(len(share)):
        h, change = smaller_root(variance_of(share[i]), size)
        summed += h
        slope += change
    return summed, slope


@device
def _peak(share):
    top, row, summed = -1.0, -1.0, 0.0
    for i in range(len(share)):
        v = variance_of(share[i])
        if v > top:
            top, row = v, float(i)
        summed += v
    return top, row, summed


_matched = matching(device, _sum_roots, _peak)


@kernel
def curvature(sets, h, inverse, first, end):
    """h of sets, and 1 / sum h of each."""
    for s in range(first, end):
        begin, m = sets.ptr[s], sets.cases[s]
        n = sets.ptr[s + 1] - begin
        inverse[s] = 0.0
        h[begin : begin + n] = 0.0
        if m == 0:
            continue
        c, share = row_weight(sets.weight, begin), sets.share[begin : begin + n]
        size, top = _matched(share) if 1 < m < n - 1 else (0.0, -1.0)
        total = 0.0
        for i in range(n):
            h[begin + i] = c * h_of_row(share[i], m, n, size, i == top)
            total += h[begin + i]
        inverse[s] = 1.0 / total if total > 0.0 else 0.0


class SetSteps(NamedTuple):
    """State of exact steps: the probabilities of all rows, and working memory for one set."""

    sets: Sets
    eta: np.ndarray
    p: np.ndarray  # per row
    q: np.ndarray
    x: np.ndarray  # (size of the largest set,): the column within a set, 0 between
    law: np.ndarray  # (size of the largest set + 1, 3): P(S = k), and its derivatives along x
    sums: np.ndarray  # slope and curvature


@kernel
def fill_steps(steps):
    """Probabilities of every row at the shifts of the last evaluation."""
    for i in range(len(steps.eta)):
        steps.p[i], steps.q[i] = split(steps.eta[i] - steps.sets.tau[steps.sets.idx[i]])


@device
def _reduce(steps, s):
    """Add slope and curvature of one set; clears x."""
    begin, m = steps.sets.ptr[s], steps.sets.cases[s]
    n = steps.sets.ptr[s + 1] - begin
    if m > 0:
        law = steps.law
        law[: m + 1] = 0.0
        law[0, 0] = 1.0
        for i in range(n):
            p, q, x = steps.p[begin + i], steps.q[begin + i], steps.x[i]
            for k in range(min(i + 1, m), 0, -1):
                f0, f1, f2 = law[k - 1, 0], law[k - 1, 1], law[k - 1, 2]
                law[k, 0] = q * law[k, 0] + p * f0
                law[k, 1] = q * law[k, 1] + p * (f1 + x * f0)
                law[k, 2] = q * law[k, 2] + p * (f2 + 2.0 * x * f1 + x * x * f0)
            law[0] *= q
        c, mean = row_weight(steps.sets.weight, begin), law[m, 1] / law[m, 0]
        steps.sums[0] -= c * mean
        steps.sums[1] += c * (law[m, 2] / law[m, 0] - mean * mean)
    steps.x[:n] = 0.0


@column_operation
def _sum_sets(rows, values, shift, steps):
    """The column's entries of a set are neighbours."""
    own = -1
    for q in range(n_entries(rows, values)):
        i = entry_row(rows, q, shift)
        s = np.int64(steps.sets.idx[i])
        if s != own:
            if own >= 0:
                _reduce(steps, own)
            own = s
        steps.x[np.int64(i) - steps.sets.ptr[s]] = entry_value(values, q)
    if own >= 0:
        _reduce(steps, own)
    return 0.0


@column_operation
def _refresh_sets(rows, values, shift, steps):
    for q in range(n_entries(rows, values)):
        i = entry_row(rows, q, shift)
        steps.p[i], steps.q[i] = split(steps.eta[i] - steps.sets.tau[steps.sets.idx[i]])
    return 0.0


@device
def subset_derivatives(X, j, steps):
    steps.sums[:] = 0.0
    _sum_sets(X, j, steps)
    return steps.sums[0], steps.sums[1]


@device
def subset_advance(X, j, step, steps):
    add_scaled(X, j, (steps.eta, step))
    _refresh_sets(X, j, steps)


class SubsetsOnCpu(PatternOnCpu):
    """The exact conditional likelihood of matched sets."""

    is_exact = False

    def __init__(self, problem, weight, threads):
        super().__init__(problem, weight, threads)
        plan, weighted = problem.plan, self.weighted
        self.sets = Sets(
            plan.ptr,
            plan.group_idx,
            plan.value,
            weighted.weight,
            weighted.cases,
            np.zeros(plan.n_strata),
            np.zeros(plan.n_rows),
            int(np.diff(plan.ptr).max(initial=0)),
        )
        self._few, self.group_ptr = plan.few, plan.ptr

    def evaluate(self, eta, u):
        return tasks.add_up(self._threads, evaluate, self.sets, eta, u, self._group_blocks)

    def refer(self, eta, u, h):
        inverse = np.empty(len(self.sets.cases))
        tasks.run_blocks(self._threads, self._group_blocks, curvature, self.sets, h, inverse)
        return Centring(bins_of_groups(self.sets.idx, inverse, self.sets.ptr), self._few)

    def exact_steps(self, eta):
        largest = self.sets.largest
        p, q = np.empty((2, len(eta)))
        law = np.empty((largest + 1, 3))
        steps = SetSteps(self.sets, eta, p, q, np.zeros(largest), law, np.zeros(2))
        fill_steps(steps)
        return Steps(subset_derivatives, subset_advance, steps)
