"""The subset pattern on the device: formulas as in `cpu`.

Everything that a set needs one after the other (its shift, the law of its sum, its quadratic
model) is done by one worker a set, as wide as suits the size of the set; a row of the recursion
f_k <- q f_k + p f_{k-1} is done for all k at once, from one side of `Sets.law` into the other.
What the rows of a set need of its law is the same work for each, so the leave-one-out is done a
thread a row, whatever the sets: neighbours read the same entries of the same law.
"""

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..._compile import bind
from ...backends.cuda._cuda import cuda, device, kernel
from ...backends.cuda.pattern import PatternOnDevice, make_evaluation
from ...backends.cuda.products import of_fit
from ...backends.cuda.team import WARP, larger, my_team, new_scratch, team_sum
from ...backends.cuda.workers import Worker, largest, meet, my_worker, total
from .cpu import DEVIATIONS, MARGIN
from .formulas import find_tilt, h_of_row, leave_out, matching, smaller_root, split, variance_of


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


@device
def _extremes(rows):
    """Least and largest predictor."""
    (eta, _, worker), down, up = rows, -np.inf, -np.inf
    for i in range(worker.lane, eta.shape[0], worker.width):
        down, up = max(down, -eta[i]), max(up, eta[i])
    return -largest(down, worker), largest(up, worker)


@device
def _fill(rows, tau):
    """Fill p and q; the mean and the variance of the sum."""
    (eta, pq, worker), mean, variance = rows, 0.0, 0.0
    for i in range(worker.lane, eta.shape[0], worker.width):
        p, q = split(eta[i] - tau)
        pq[2 * i], pq[2 * i + 1] = p, q
        mean += p
        variance += p * q
    return total(mean, worker), total(variance, worker)


_tilt = device(bind(find_tilt, extremes=_extremes, fill=_fill))


@device
def _fill_law(pq, law, at, worker):
    """Law of the sum, on side 0; its band, outside of which nothing is written.

    A row reads what the row before has written, on the other side.  The first barrier is for p and
    q, too.
    """
    n = pq.shape[0] // 2
    mean, variance, low, high = 0.0, 0.0, 0, 0
    if worker.lane == 0:
        law[n & 1, at] = 1.0
    meet(worker)
    for i in range(n):
        before, after = (n - i) & 1, (n - i - 1) & 1
        p, q = pq[2 * i], pq[2 * i + 1]
        mean += p
        variance += p * q
        width = DEVIATIONS * math.sqrt(variance) + MARGIN
        # a nan, of predictors that overflow, fails these comparisons and becomes no index
        first = math.ceil(mean - width) if mean - width > low else low
        last = int(mean + width) if mean + width < high + 1 else high + 1
        for k in range(first + worker.lane, last + 1, worker.width):
            f = q * law[before, at + k] if k <= high else 0.0
            if k > low:
                f += p * law[before, at + k - 1]
            law[after, at + k] = f
        meet(worker)
        low, high = first, last
    return low, high


@kernel
def find_laws(fits, sets, which, width, eta_of_fits):
    """Shift and law of the given sets, for all fits, by workers of so many threads."""
    worker, n_sets = Worker(cuda.threadIdx.x % width, width, new_scratch()), which.shape[0]
    first, step = my_worker(width)
    for task in range(first, fits.shape[0] * n_sets, step):
        fit, s = fits[task // n_sets], which[task % n_sets]
        start, end, m = sets.ptr[s], sets.ptr[s + 1], of_fit(sets.cases, fit)[s]
        if m > 0:
            eta, pq = eta_of_fits[fit, start:end], sets.pq[fit, 2 * start : 2 * end]
            tau = _tilt((eta, pq, worker), end - start, m, sets.tau[fit, s])
            low, high = _fill_law(pq, sets.law[fit], start + s, worker)
            if worker.lane == 0:
                sets.tau[fit, s] = tau
                sets.band[fit, s, 0], sets.band[fit, s, 1] = low, high


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
    share = p * leave_out(p, q, m, law[at:], low, high) / law[at + m]
    weight = of_fit(rows.weight, fit)[i]
    sets.share[fit, i] = share
    rows.u[fit, i] = weight * (rows.value[i] - share)
    term = -max(z, 0.0) - math.log1p(math.exp(-abs(z)))
    if rows.value[i] > 0.0:
        term += z
    if i == sets.ptr[s]:
        term -= math.log(law[at + m])
    return weight * term


@device
def _evaluate(exchange, state, fit, eta, turn, scratch):
    """Log-likelihood from the laws of sets; writes u and shares.

    Members take rows in turn, since those of large sets are much work.
    """
    (rows, sets), loglik = state, 0.0
    first = my_team(exchange)[1] * cuda.blockDim.x + cuda.threadIdx.x
    for i in range(first, eta.shape[0], exchange.size[0] * cuda.blockDim.x):
        loglik += _set_residual(rows, sets, fit, eta, i)
    return team_sum(exchange, loglik, turn, scratch), turn + 1


@device
def _sum_roots(rows, size):
    (share, worker), summed, slope = rows, 0.0, 0.0
    for i in range(worker.lane, share.shape[0], worker.width):
        h, change = smaller_root(variance_of(share[i]), size)
        summed += h
        slope += change
    return total(summed, worker), total(slope, worker)


@device
def _peak(rows):
    (share, worker), top, row, summed = rows, 0.0, -np.inf, 0.0
    for i in range(worker.lane, share.shape[0], worker.width):
        top = larger(top, variance_of(share[i]))
        summed += variance_of(share[i])
    top = largest(top, worker)
    for i in range(worker.lane, share.shape[0], worker.width):
        if variance_of(share[i]) == top:
            row = max(row, -float(i))
    return top, -largest(row, worker), total(summed, worker)


_match_diagonal = matching(device, _sum_roots, _peak)


@kernel
def curvature(fits, sets, which, width, rows, h_of_fits, inverse):
    """h of every row of the given sets, and 1 / sum h of every set, at the last evaluation."""
    worker, n_sets = Worker(cuda.threadIdx.x % width, width, new_scratch()), which.shape[0]
    first, step = my_worker(width)
    for task in range(first, fits.shape[0] * n_sets, step):
        fit, s = fits[task // n_sets], which[task % n_sets]
        start, m = sets.ptr[s], of_fit(sets.cases, fit)[s]
        n, size, top, summed = sets.ptr[s + 1] - start, 0.0, -1.0, 0.0
        share = sets.share[fit, start : start + n]
        if 1 < m < n - 1:
            size, top = _match_diagonal((share, worker))
        for i in range(worker.lane, n, worker.width):
            h = 0.0
            if m > 0:
                h = of_fit(rows.weight, fit)[start] * h_of_row(share[i], m, n, size, i == top)
            h_of_fits[fit, start + i] = h
            summed += h
        summed = total(summed, worker)
        if worker.lane == 0:
            inverse[fit, s] = 1.0 / summed if summed > 0.0 else 0.0


# Rows of the largest set that a worker of so many threads works on; blocks work on larger ones.
MOST_ROWS = {1: 32, WARP: 512}


class SubsetsOnDevice(PatternOnDevice):
    """The exact conditional likelihood of matched sets."""

    is_exact = False
    _evaluate = make_evaluation("subsets", _evaluate)

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
        shares = _share_work(np.diff(plan.ptr), layout.threads)
        self._state = self.rows, self._sets
        self._workers = {width: device.upload(which) for width, which in shares}

    @cached_property
    def _largest(self):
        return np.zeros(self.n_weights)  # where every case is certain

    @staticmethod
    def bytes_of_fit(plan):
        """Probabilities, laws and shares of rows; numbers of sets."""
        return 8 * 5 * plan.n_rows + 8 * 7 * plan.n_strata

    def evaluate(self, fits, eta, loglik):
        self._launch_sets(find_laws, self.layout.served(fits), eta)
        super().evaluate(fits, eta, loglik)

    def new_model(self, row_type):
        return self._make_model(row_type, inverse=self._take(self._plan.n_strata))

    def refer(self, fits, eta, model):
        self._launch_sets(curvature, self.layout.served(fits), self.rows, model.h, model.inverse)

    def _launch_sets(self, kernel, fits, *arguments):
        """Launch a kernel over all sets of some fits, with workers that suit the size of each."""
        for width, which in self._workers.items():
            n_threads, given = width * len(fits) * len(which), (self._sets, which, width)
            self.layout.launch_wide(kernel, n_threads, fits, *given, *arguments)


def _share_work(sizes, threads):
    """Pairs of a worker's width and the sets that it works on, by their sizes."""
    widths, most = np.array([*MOST_ROWS, threads]), list(MOST_ROWS.values())
    width = widths[np.searchsorted(most, sizes)]
    return [(int(own), np.flatnonzero(width == own).astype(np.int32)) for own in np.unique(width)]
