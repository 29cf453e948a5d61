"""What a pattern answers to on the device, for all fits of a batch at once."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ....data.plans.weighted import weigh
from ...largest_loglik import largest_loglik
from ..bins import Bins
from ..products import multiply_sizes


class RowData(NamedTuple):
    """What rows were observed to be; row arrays of one fit stand for all that share them."""

    value: np.ndarray  # float64 (rows,): outcome; its product with the weight is the events' part
    weight: np.ndarray  # float64 (1 or fits, rows)
    u: np.ndarray  # float64 (fits, rows): score residuals of the last evaluation


class Pattern:
    """How a likelihood is evaluated on the rows of fits, and its quadratic model.

    Methods take the fits that they are for; arrays have one row for each fit of the batch.
    """

    # Whether the log-likelihood ignores shifts of the predictor within the model's groups.
    ignores_shifts = True
    # This multiple of the model's curvature bounds the likelihood's at the model's point.
    majorant = 1.0
    # Whether the model is the Hessian of the log-likelihood where it is taken.
    is_exact = True
    # Whether bins are few, so that a column keeps a load for each.
    few: bool
    bins: Bins

    def __init__(self, layout, problem, weights, n_fits):
        self.layout, self.likelihood, self.n_fits = layout, problem.likelihood, n_fits
        make = partial(weigh, problem.plan, problem.likelihood.pattern)
        self.weighted = [make(weight) for weight in ([None] if weights is None else weights.T)]
        unweighted = self.weighted[0] if weights is None else make(None)
        self.live = self._of_weighted("live", np.uint8)
        device = layout.device
        rows = (
            device.upload(np.asarray(unweighted.observed, np.float64)),
            device.upload(np.array([weighted.weights() for weighted in self.weighted])),
            device.empty((n_fits, problem.plan.n_rows), np.float64),
        )
        self.rows = device.pack(RowData(*rows))

    def _of_weighted(self, name, dtype=np.float64):
        """Arrays that every vector of weights has of its own, one row a vector."""
        values = [getattr(weighted, name) for weighted in self.weighted]
        return self.layout.device.upload(np.array(values, dtype))

    def weighted_of(self, fit):
        """Plan under the weights of a fit."""
        return self.weighted[fit if len(self.weighted) > 1 else 0]

    @staticmethod
    def bytes_of_fit(plan):
        """Memory that the pattern takes for every fit, exact steps included."""
        return 0

    def evaluate(self, fits, eta, loglik):
        """Launch: write u, and the log-likelihood per fit, not finite where it was not found."""
        raise NotImplementedError

    def evaluate_again(self, fits, eta, loglik):
        """Launch what may find those that were not, if there is anything; whether there is."""
        return False

    def refer(self, fits, eta, rh):
        """Take the quadratic model at the last evaluation: h into `rh`, and the numbers of bins."""
        raise NotImplementedError

    def exact_steps(self, fits, eta, rh):
        """`exact.Steps` from the predictors, which they move; `rh` may be used."""
        raise NotImplementedError

    def sizes(self, eta):
        """Kernel of products of columns with what rounding errors of u follow, and its rows."""
        return multiply_sizes, self.rows

    def baseline(self, fit):
        return None

    def largest_loglik(self, fit):
        """Upper bound of the log-likelihood, for the duality gap."""
        return largest_loglik(self.likelihood, self.weighted_of(fit))

    def error_weight(self, fit):
        """Sum of the weights of rows whose errors have an unknown variance; 0 where none have."""
        return 0.0

    def reach(self, span, size):
        """The line search's R from the range and the size of a step."""
        return span if self.ignores_shifts else size


def bins_of_groups(layout, group_idx, inverse):
    """Bins of rows whose groups know no time; ``inverse`` (fits, groups) is on the device."""
    device, n_groups = layout.device, inverse.shape[1]
    no_idx, no_rows = device.empty(0, np.int32), device.empty((1, 0), np.float64)
    last = device.upload(np.arange(n_groups, dtype=np.int64))
    own = device.upload(np.asarray(group_idx, np.int32))
    bins = Bins(own, no_idx, no_idx, *3 * (no_rows,), last, *4 * (no_rows,), inverse)
    return device.pack(bins)
