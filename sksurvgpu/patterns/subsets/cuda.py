"""The subset pattern on the device: formulas as in `cpu`.

Everything that a set needs one after the other (its shift, the law of its sum, its quadratic
model) is done by one worker a set, a thread, a warp or a block by the size of the set; a row of
the recursion f_k <- q f_k + p f_{k-1} is done for all k at once, from one side of `Sets.law` into
the other.  What the rows of a set need of its law is the same work for each, so the leave-one-out
is done a thread a row, whatever the sets: neighbours read the same entries of the same law.
"""

import math
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np

from ..._compile import BOUND, bind
from ...backends.cuda._cuda import cuda, device, kernel, specialize
from ...backends.cuda.pattern import PatternOnDevice
from ...backends.cuda.products import of_fit
from ...backends.cuda.team import (
    WARP,
    begin,
    larger,
    my_team,
    n_teams,
    new_scratch,
    team_sum,
)
from ...backends.cuda.workers import WORKERS
from .cpu import DEVIATIONS, MARGIN, MOST_BISECTIONS, MOST_STEPS, smaller_root, split

lane = lanes = largest = total = meet = worker = workers = tilt = fill_law = sum_roots = BOUND
sum_larger = peak = match_sum = match_larger = match_diagonal = BOUND


class Sets(NamedTuple):
    """Matched sets, and the numbers that fits keep for each."""

    ptr: np.ndarray  # int64 per set + 1: its rows
    idx: np.ndarray  # int32 per row: its set
    cases: np.ndarray  # int32 (1 or fits, sets); 0 where the set contributes nothing
    tau: np.ndarray  # float64 (fits, sets), kept from one evaluation to the next
    band: np.ndarray  # int32 (fits, sets, 2): first and last entry of the law
    pq: np.ndarray  # float64 (fits, 2 rows): p and q side by side, at the shifts
    share: np.ndarray  # float64 (fits, rows): pi of the last evaluation
    law: np.ndarray  # float64 (fits, 2, rows + sets): P(S = k) at `ptr[s] + s + k`, side 0


# -- the law of every set ---------------------------------------------------------------------


def _tilt(eta, pq, m, start, scratch):
    """Shift tau at which the probabilities sum to about m; fills p and q."""
    n, down, up = eta.shape[0], -np.inf, -np.inf
    target = math.log(m / (n - m))
    for i in range(lane(), n, lanes()):
        down, up = max(down, -eta[i]), max(up, eta[i])
    low, high = -largest(down, scratch) - target, largest(up, scratch) - target
    tau = min(max(start, low), high)
    for _ in range(MOST_STEPS):
        mean, variance = 0.0, 0.0
        for i in range(lane(), n, lanes()):
            p, q = split(eta[i] - tau)
            pq[2 * i], pq[2 * i + 1] = p, q
            mean += p
            variance += p * q
        mean, variance = total(mean, scratch), total(variance, scratch)
        if not abs(mean - m) > 0.1 * math.sqrt(variance) or not low < high:
            break
        if mean > m:
            low = tau
        else:
            high = tau
        slope = variance * n / (mean * (n - mean))
        moved = tau + (math.log(mean / (n - mean)) - target) / slope
        tau = moved if low < moved < high else 0.5 * (low + high)
    return tau


def _fill_law(pq, law, at):
    """Law of the sum, on side 0; its band, outside of which nothing is written.

    A row reads what the row before has written, on the other side.  The first barrier is for p and
    q, too.
    """
    n = pq.shape[0] // 2
    mean, variance, low, high = 0.0, 0.0, 0, 0
    if lane() == 0:
        law[n & 1, at] = 1.0
    meet()
    for i in range(n):
        before, after = (n - i) & 1, (n - i - 1) & 1
        p, q = pq[2 * i], pq[2 * i + 1]
        mean += p
        variance += p * q
        width = DEVIATIONS * math.sqrt(variance) + MARGIN
        # a nan, of predictors that overflow, fails these comparisons and becomes no index
        first = math.ceil(mean - width) if mean - width > low else low
        last = int(mean + width) if mean + width < high + 1 else high + 1
        for k in range(first + lane(), last + 1, lanes()):
            f = q * law[before, at + k] if k <= high else 0.0
            if k > low:
                f += p * law[before, at + k - 1]
            law[after, at + k] = f
        meet()
        low, high = first, last
    return low, high


def _find_laws(fits, sets, which, eta_of_fits):
    """Shift and law of the given sets, for all fits."""
    scratch, n_sets = new_scratch(), which.shape[0]
    for task in range(worker(), fits.shape[0] * n_sets, workers()):
        fit, s = fits[task // n_sets], which[task % n_sets]
        start, end, m = sets.ptr[s], sets.ptr[s + 1], of_fit(sets.cases, fit)[s]
        if m > 0:
            eta, pq = eta_of_fits[fit, start:end], sets.pq[fit, 2 * start : 2 * end]
            tau = tilt(eta, pq, m, sets.tau[fit, s], scratch)
            low, high = fill_law(pq, sets.law[fit], start + s)
            if lane() == 0:
                sets.tau[fit, s] = tau
                sets.band[fit, s, 0], sets.band[fit, s, 1] = low, high


# -- rows -------------------------------------------------------------------------------------


@device
def _leave_out(p, q, m, law, at, low, high):
    """P(S - Z = m - 1) for one variable of the sum."""
    v = 0.0
    if p <= 0.5:
        inverse = 1.0 / q
        for k in range(low, m):
            v = (law[at + k] - p * v) * inverse
    else:
        inverse = 1.0 / p
        for k in range(high, m - 1, -1):
            v = (law[at + k] - q * v) * inverse
    return v


@device
def _set_residual(rows, sets, fit, eta, i):
    """Write u and the share of a row; its term of the log-likelihood.

    The set's own term is its first row's.
    """
    s = sets.idx[i]
    m, at = of_fit(sets.cases, fit)[s], sets.ptr[s] + s
    if m == 0:
        rows.u[fit, i] = 0.0
        return 0.0
    law, low, high = sets.law[fit, 0], sets.band[fit, s, 0], sets.band[fit, s, 1]
    p, q, z = sets.pq[fit, 2 * i], sets.pq[fit, 2 * i + 1], eta[i] - sets.tau[fit, s]
    share = p * _leave_out(p, q, m, law, at, low, high) / law[at + m]
    weight = of_fit(rows.weight, fit)[i]
    sets.share[fit, i] = share
    rows.u[fit, i] = weight * (rows.value[i] - share)
    term = -max(z, 0.0) - math.log1p(math.exp(-abs(z)))
    if rows.value[i] > 0.0:
        term += z
    if i == sets.ptr[s]:
        term -= math.log(law[at + m])
    return weight * term


@kernel
def evaluate(exchange, rows, sets, eta_of_fits, loglik_of_fits):
    """Log-likelihood per fit, from the laws of its sets; writes u and shares.

    Members take rows in turn, since those of large sets are much work.
    """
    begin()
    scratch, turn = new_scratch(), 0
    team, member = my_team(exchange)
    first = member * cuda.blockDim.x + cuda.threadIdx.x
    for t in range(team, exchange.fits.shape[0], n_teams(exchange)):
        fit, loglik = exchange.fits[t], 0.0
        for i in range(first, eta_of_fits.shape[1], exchange.size[0] * cuda.blockDim.x):
            loglik += _set_residual(rows, sets, fit, eta_of_fits[fit], i)
        loglik = team_sum(exchange, loglik, turn, scratch)
        turn += 1
        if member == 0 and cuda.threadIdx.x == 0:
            loglik_of_fits[fit] = loglik


# -- the quadratic model ----------------------------------------------------------------------


@device
def _variance(share):
    share = min(share, 1.0)
    return share * (1.0 - share)


def _sum_roots(share, size, scratch):
    """Sum of the smaller roots of all rows at a sum `size` of h, and its slope."""
    summed, slope = 0.0, 0.0
    for i in range(lane(), share.shape[0], lanes()):
        h, change = smaller_root(_variance(share[i]), size)
        summed += h
        slope += change
    return total(summed, scratch), total(slope, scratch)


def _peak(share, scratch):
    """Largest variance of a row, the first such row, and the sum of all variances."""
    n, top, summed = share.shape[0], 0.0, 0.0
    for i in range(lane(), n, lanes()):
        top = larger(top, _variance(share[i]))
        summed += _variance(share[i])
    top, row = largest(top, scratch), -np.inf
    for i in range(lane(), n, lanes()):
        if _variance(share[i]) == top:
            row = max(row, -float(i))
    return top, -largest(row, scratch), total(summed, scratch)


def _match_sum(share, low, high, scratch):
    """Sum of h that its smaller roots have."""
    size = low
    for _ in range(MOST_BISECTIONS):
        summed, slope = sum_roots(share, size, scratch)
        if abs(summed - size) <= 1e-13 * size:
            break
        if summed > size:
            low = size
        else:
            high = size
        moved = size - (summed - size) / (slope - 1.0)
        size = moved if low < moved < high else 0.5 * (low + high)
    return size


def _sum_larger(share, top, size, scratch):
    """Sum of h with the larger root for the row of the largest variance."""
    summed, _ = sum_roots(share, size, scratch)
    h, _ = smaller_root(top, size)
    return summed - h + (size - h)


def _match_larger(share, top, scratch):
    """Sum of h that its roots have, one of them being the larger one."""
    least = 4.0 * top
    high = 2.0 * least
    while sum_larger(share, top, high, scratch) < high and high < 1e6 * least:
        high *= 2.0
    low = 0.5 * high
    for _ in range(MOST_BISECTIONS):
        size = 0.5 * (low + high)
        if not low < size < high:
            break
        if sum_larger(share, top, size, scratch) < size:
            low = size
        else:
            high = size
    return 0.5 * (low + high)


def _match_diagonal(share, scratch):
    """Sum of the h with h_i - h_i^2 / sum h = v_i; the row whose h is above half of it, or -1."""
    top, row, summed = peak(share, scratch)
    low = 4.0 * top
    if not low > 0.0:
        return 0.0, -1.0
    smaller, _ = sum_roots(share, low, scratch)
    if smaller >= low:
        return match_sum(share, low, max(2.0 * summed, low), scratch), -1.0
    return match_larger(share, top, scratch), row


@device
def _h_of_row(share, m, n, size, is_top):
    if m == 1:  # a multinomial, whose h is known
        return min(share, 1.0)
    if m == n - 1:
        return 1.0 - min(share, 1.0)
    if not size > 0.0:
        return 0.0
    h, _ = smaller_root(_variance(share), size)
    return size - h if is_top else h


def _curvature(fits, sets, which, rows, h_of_fits, inverse):
    """h of every row of the given sets, and 1 / sum h of every set, at the last evaluation."""
    scratch, n_sets = new_scratch(), which.shape[0]
    for task in range(worker(), fits.shape[0] * n_sets, workers()):
        fit, s = fits[task // n_sets], which[task % n_sets]
        start, m = sets.ptr[s], of_fit(sets.cases, fit)[s]
        n, size, top, summed = sets.ptr[s + 1] - start, 0.0, -1.0, 0.0
        share = sets.share[fit, start : start + n]
        if 1 < m < n - 1:
            size, top = match_diagonal(share, scratch)
        for i in range(lane(), n, lanes()):
            h = 0.0
            if m > 0:
                h = of_fit(rows.weight, fit)[start] * _h_of_row(share[i], m, n, size, i == top)
            h_of_fits[fit, start + i] = h
            summed += h
        summed = total(summed, scratch)
        if lane() == 0:
            inverse[fit, s] = 1.0 / summed if summed > 0.0 else 0.0


# -- kernels by worker ------------------------------------------------------------------------


@cache
def laws(worker):
    """Kernel of the laws of sets, one of `WORKERS` a set."""
    names = WORKERS[worker]
    tilt, fill_law = (device(bind(f, **names)) for f in (_tilt, _fill_law))
    return specialize(_find_laws, f"by_{worker}", **names, tilt=tilt, fill_law=fill_law)


@cache
def curvature(worker):
    """Kernel of the quadratic model of sets."""
    names = WORKERS[worker]
    parts = {"peak": device(bind(_peak, **names)), "sum_roots": device(bind(_sum_roots, **names))}
    parts["sum_larger"] = device(bind(_sum_larger, **parts))
    parts["match_sum"] = device(bind(_match_sum, **parts))
    parts["match_larger"] = device(bind(_match_larger, **parts))
    match = device(bind(_match_diagonal, **parts))
    return specialize(_curvature, f"by_{worker}", **names, match_diagonal=match)


# Rows of the largest set that one thread works on, and that one warp works on.
MOST_ROWS = {"thread": 32, "warp": 512}


class SubsetsOnDevice(PatternOnDevice):
    """The exact conditional likelihood of matched sets."""

    is_exact = False

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        plan, device = problem.plan, layout.device
        n_rows, n_sets, self.few = plan.n_rows, plan.n_strata, plan.few
        own = layout.plan.own
        cases = self._keep_counted(layout.plan.cases, row=layout.plan.first)
        self.live = self._keep_counted(layout.plan.may_count, run=own, total=cases)
        self._sets = Sets(
            layout.plan.ptr,
            own,
            cases,
            device.zeros((n_fits, n_sets), np.float64),
            device.empty((n_fits, n_sets, 2), np.int32),
            device.empty((n_fits, 2 * n_rows), np.float64),
            device.empty((n_fits, n_rows), np.float64),
            device.empty((n_fits, 2, n_rows + n_sets), np.float64),
        )
        self._workers = {
            worker: device.upload(which) for worker, which in _share_work(np.diff(plan.ptr))
        }

    @cached_property
    def _largest(self):
        return np.zeros(self.n_weights)  # where every case is certain

    @staticmethod
    def bytes_of_fit(plan):
        """Probabilities, laws and shares of rows; numbers of sets."""
        return 8 * 5 * plan.n_rows + 8 * 7 * plan.n_strata

    def evaluate(self, fits, eta, loglik):
        self._launch_sets(laws, self.layout.served(fits), eta)
        self.layout.launch_teams(evaluate, fits, self.rows, self._sets, eta, loglik)

    def new_model(self, row_type):
        shape = self.n_fits, self._plan.n_strata
        return self._model_of_groups(row_type, self.layout.device.empty(shape, np.float64))

    def refer(self, fits, eta, model):
        self._launch_sets(curvature, self.layout.served(fits), self.rows, model.h, model.inverse)

    def _launch_sets(self, kernel_of, fits, *arguments):
        """Launch a kernel over all sets of some fits, with a worker that suits the size of each."""
        for worker, which in self._workers.items():
            n_tasks = fits.shape[0] * which.shape[0]
            lanes = {"thread": 1, "warp": WARP, "block": self.layout.threads}[worker]
            kernel, n_threads = kernel_of(worker), n_tasks * lanes
            self.layout.launch_wide(kernel, n_threads, fits, self._sets, which, *arguments)


def _share_work(sizes):
    """Pairs of a worker and the sets that it works on, by their sizes."""
    is_small, is_large = sizes <= MOST_ROWS["thread"], sizes > MOST_ROWS["warp"]
    parts = {"thread": is_small, "warp": ~is_small & ~is_large, "block": is_large}
    chosen = ((worker, np.flatnonzero(part)) for worker, part in parts.items())
    return [(worker, which.astype(np.int32)) for worker, which in chosen if len(which)]
