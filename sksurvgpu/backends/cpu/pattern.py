"""The rows of one fit on the CPU: what a pattern answers there."""

from functools import cached_property

import numpy as np

from ..._compile import device, kernel
from ...data import options
from . import tasks


@kernel
def _add_sizes(events, u, out, low, high):
    """Sizes of what was observed and of what the model expects, whose difference u is."""
    for i in tasks.rows_in(low, high):
        out[i] = abs(events[i]) + abs(events[i] - u[i])


# Sizes of a move v = a - b of the predictor.
@device
def _span(a, b, live, low, high):
    """Least and largest v of the live rows [low, high)."""
    least, largest = np.inf, -np.inf
    for i in tasks.rows_in(low, high):
        change = a[i] - b[i]
        # live rows of a replicate follow no pattern, and a branch on them first costs 3 ns
        if change < least and live[i]:
            least = change
        if change > largest and live[i]:
            largest = change
    return least, largest


@kernel
def _span_blocks(a, b, live, edges, out, low, high):
    """Spans of blocks of rows."""
    for block in range(low, high):
        out[block, 0], out[block, 1] = _span(a, b, live, edges[block], edges[block + 1])


@kernel
def _join_spans(spans, is_free):
    """Largest difference within the span of all; largest size where no shift is free."""
    least, largest = np.inf, -np.inf
    for b in range(len(spans)):
        least, largest = min(least, spans[b, 0]), max(largest, spans[b, 1])
    return max(largest - least if is_free else max(largest, -least), 0.0)


def _reach_of_rows(threads, a, b, live, edges, is_free):
    """Range of v over the live rows, which have been cut at edges; largest |v| if not `is_free`."""
    spans = np.empty((len(edges) - 1, 2))
    threads.over_blocks(
        lambda low, high: _span_blocks(a, b, live, edges, spans, low, high), len(spans)
    )
    return _join_spans(spans, is_free)


@kernel
def _span_groups(a, b, live, group_ptr, edges, out, low, high):
    """Widest span of a group in every block of groups."""
    for block in range(low, high):
        out[block] = 0.0
        for g in range(edges[block], edges[block + 1]):
            least, largest = _span(a, b, live, group_ptr[g], group_ptr[g + 1])
            out[block] = max(out[block], largest - least)


def _reach_of_groups(threads, a, b, live, group_ptr, edges):
    """Largest range of v over the live rows of a group, of groups cut at edges."""
    widest = np.empty(len(edges) - 1)
    threads.over_blocks(
        lambda low, high: _span_groups(a, b, live, group_ptr, edges, widest, low, high),
        len(widest),
    )
    return float(widest.max(initial=0.0))


class PatternOnCpu:
    """How a likelihood is evaluated on the rows of one fit, and its quadratic model.

    It knows the row plan under the weights of the fit, and the state of the last evaluation.
    """

    # Whether the model is the Hessian of the log-likelihood where it is taken.
    is_exact = True
    # Whether the log-likelihood ignores shifts of the predictor within the model's groups.
    ignores_shifts = True
    # Offsets of the rows of each such group.
    group_ptr: np.ndarray

    def __init__(self, problem, weight, threads):
        self._threads, self._likelihood = threads, problem.likelihood
        self.weighted = problem.likelihood.pattern.weigh(problem.plan, weight)
        self._row_blocks = tasks.cut(problem.plan.n_rows)

    @cached_property
    def _group_blocks(self):
        return tasks.cut_groups(self.group_ptr)

    def evaluate(self, eta, u):
        """Log-likelihood, not finite where it cannot be computed; writes the score residuals u."""
        raise NotImplementedError

    def refer(self, eta, u, h):
        """Take the quadratic model at the last evaluation: its h is written, its centring returned.

        The result is a `bins.Centring`.
        """
        raise NotImplementedError

    def observe(self, eta, u, h):
        """Minus the second derivative of every row's part of the log-likelihood, written like h.

        With the centring of `refer` it makes minus the Hessian.
        """
        self.refer(eta, u, h)

    def exact_steps(self, eta):
        """`exact.Steps` from a predictor, which they move."""
        name = type(self._likelihood).__name__
        options.refuse("exact", "algorithm", f'{name} has no exact steps, pass "majorized"')

    @property
    def live(self):
        """Rows whose predictor matters."""
        return self.weighted.live

    def events(self):
        """The part of u that does not depend on eta."""
        return self.weighted.events()

    def sizes(self, eta, u):
        """Sizes that the rounding errors of u, of the last evaluation, are relative to."""
        events, out = self.weighted.events(), np.empty(len(u))
        tasks.run_blocks(self._threads, self._row_blocks, _add_sizes, events, u, out)
        return out

    def largest_loglik(self):
        """Upper bound of the log-likelihood, for the duality gap."""
        return self._likelihood.pattern.largest_loglik(self._likelihood, self.weighted)

    def error_weight(self):
        """Sum of the weights of rows whose errors have an unknown variance; 0 where none have."""
        return 0.0

    def baseline(self):
        """Part of the last evaluation that predictions need."""
        return None

    def reach(self, trial_eta, eta):
        """Size of a move of the predictor: the R of the line search.

        The third derivative along the move is at most R times the second.
        """
        threads, live = self._threads, self.live
        if self.ignores_shifts and len(self.group_ptr) > 2:
            groups = self.group_ptr
            return _reach_of_groups(threads, trial_eta, eta, live, groups, self._group_blocks)
        return _reach_of_rows(threads, trial_eta, eta, live, self._row_blocks, self.ignores_shifts)
