"""What a pattern answers to on the device, for all fits of a batch at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...cpu.patterns import PATTERNS
from ..bins import Bins
from ..products import multiply_sizes


class RowData(NamedTuple):
    """What rows were observed to be; row arrays of one fit stand for all that share them."""

    value: np.ndarray  # float64 (rows,): outcome; its product with the weight is the events' part
    weight: np.ndarray  # float64 (1 or fits, rows)
    u: np.ndarray  # float64 (fits, rows): score residuals of the last evaluation


class Pattern:
    """How a likelihood is evaluated on the rows of fits, and its quadratic model.

    What depends on the plan and the weights alone is found by the CPU's pattern, on the host.
    Methods take the fits that they are for; arrays have one row for each fit of the batch.
    """

    # Whether the log-likelihood ignores shifts of the predictor within the model's groups.
    ignores_shifts = True
    # Whether bins are few, so that a column keeps a load for each.
    few: bool
    bins: Bins

    def __init__(self, layout, problem, weights, n_fits):
        self.layout, self.likelihood, self.n_fits = layout, problem.likelihood, n_fits
        make, plan = PATTERNS[problem.likelihood.pattern], problem.plan
        every = [None] if weights is None else weights.T
        self.hosts = [make(problem, weight) for weight in every]
        self.majorant = self.hosts[0].majorant
        upload = layout.device.upload
        self.live = upload(np.array([host.live for host in self.hosts], np.uint8))
        unweighted = self.hosts[0] if weights is None else make(problem, None)
        rows = np.ones((1, plan.n_rows))
        if weights is not None:
            rows = np.array([plan.per_copy(weight[plan.order]) for weight in weights.T])
        self.rows = RowData(
            upload(np.asarray(unweighted.events(), np.float64)),
            upload(rows),
            layout.device.empty((n_fits, plan.n_rows), np.float64),
        )

    @staticmethod
    def bytes_of_fit(plan):
        """Memory that the pattern takes for every fit, exact steps included."""
        return 0

    def host(self, fit):
        return self.hosts[fit if len(self.hosts) > 1 else 0]

    def evaluate(self, fits, eta, loglik):
        """Write u, and the log-likelihood per fit: not finite where it cannot be computed."""
        raise NotImplementedError

    def refer(self, fits, eta, rh):
        """Take the quadratic model at the last evaluation: h into `rh`, and the numbers of bins."""
        raise NotImplementedError

    def cycle(self, fits, numbers, eta, rh):
        """One cycle of exact coordinate steps for every fit: new coefficients and reaches.

        `numbers` holds, each with an array a fit: columns, coefficients, l1, l2, the events' part
        of the slopes, reaches.  `eta` is moved in place; `rh` may be used.
        """
        raise NotImplementedError

    def sizes(self, eta):
        """Kernel of products of columns with what rounding errors of u follow, and its rows."""
        return multiply_sizes, self.rows

    def baseline(self, fit):
        return None

    def largest_loglik(self, fit):
        return self.host(fit).largest_loglik()

    def error_weight(self, fit):
        return self.host(fit).error_weight()

    def reach(self, span, size):
        """The line search's R from the range and the size of a step."""
        return span if self.ignores_shifts else size


def bins_of_groups(layout, group_idx, inverse):
    """Bins of rows whose groups know no time; ``inverse`` (fits, groups) is on the device."""
    device, n_groups = layout.device, inverse.shape[1]
    no_idx, no_rows = device.empty(0, np.int32), device.empty((1, 0), np.float64)
    last = device.upload(np.arange(n_groups, dtype=np.int64))
    own = device.upload(np.asarray(group_idx, np.int32))
    return Bins(own, no_idx, no_idx, *3 * (no_rows,), last, *4 * (no_rows,), inverse)
