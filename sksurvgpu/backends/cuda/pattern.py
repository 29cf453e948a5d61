"""The rows of all fits of a batch on a device: what a pattern answers there."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import int64

from ..._compile import BOUND
from ._cuda import cuda, specialize
from .model import Model
from .products import multiply_sizes
from .team import begin, my_team, n_teams, new_scratch
from .weights import keep_counted, spread

evaluate_fit = BOUND


class RowData(NamedTuple):
    """Observed outcomes of rows; row arrays of one fit stand for all that share them."""

    value: np.ndarray  # float64 (rows,): outcome; its product with the weight is the events' part
    weight: np.ndarray  # float64 (1 or fits, rows)
    u: np.ndarray  # float64 (fits, rows): score residuals of the last evaluation


def _evaluate(exchange, state, eta_of_fits, number_of_fits):
    """A number of every fit served, by its team."""
    begin()
    scratch, turn = new_scratch(), int64(0)  # a plain 0 has a type of its own: compiled twice
    team, member = my_team(exchange)
    t = team
    while t < exchange.fits.shape[0]:
        fit = exchange.fits[t]
        number, turn = evaluate_fit(exchange, state, fit, eta_of_fits[fit], turn, scratch)
        if member == 0 and cuda.threadIdx.x == 0:
            number_of_fits[fit] = number
        t += n_teams(exchange)


def make_evaluation(label, evaluate_fit):
    """Kernel that teams run; ``evaluate_fit(exchange, state, fit, eta, turn, scratch)``.

    That gives a number, mostly the log-likelihood, and the next turn.
    """
    return specialize(_evaluate, label, evaluate_fit=evaluate_fit)


class PatternOnDevice:
    """How a likelihood is evaluated on the rows of fits, and its quadratic model.

    Methods take the fits that they are for; arrays have one row for each fit of the batch.
    """

    # Whether the log-likelihood ignores shifts of the predictor within the model's groups.
    ignores_shifts = True
    # Whether the model is the Hessian of the log-likelihood where it is taken.
    is_exact = True
    # Whether it has exact steps of the kind that `exact` launches.
    has_exact_steps = False
    # Whether `evaluate_again` may find log-likelihoods that `evaluate` did not.
    has_other_way = False
    # Whether bins are few, so that a column keeps a load for each.
    few: bool
    # Kernel of the evaluation, as from `make_evaluation`, and what it takes.
    _evaluate: object
    _state: tuple

    def __init__(self, layout, problem, weights, n_fits):
        self.layout, self.likelihood, self.n_fits = layout, problem.likelihood, n_fits
        self._plan, described = problem.plan, layout.plan
        weight = described.ones if weights is None else spread(layout, weights)
        self.n_weights = weight.shape[0]  # vectors of weights: one a fit, or one for all
        u = layout.device.empty((n_fits, problem.plan.n_rows), np.float64)
        self.rows = layout.device.pack(RowData(described.observed, weight, u))
        self._nothing = layout.device.empty((1, 0), np.float64)  # in place of what takes no part

    def _keep_counted(self, value, row=None, run=None, total=None):
        """``value`` of what counts under every vector of weights, and 0 of what does not."""
        empty = self.layout.device.empty
        out = empty((self.n_weights, value.shape[0]), value.dtype)
        row = empty(0, np.int32) if row is None else row
        if run is None:
            run, total = empty(0, np.int32), empty((0, 0), np.float64)
        self.layout.launch_wide(
            keep_counted, value.shape[0], value, row, run, total, self.rows.weight, out
        )
        return out

    def _of_weights(self, numbers, fit):
        """Numbers of a fit out of those that every vector of weights has."""
        return float(numbers[fit if self.n_weights > 1 else 0])

    def _make_model(self, row_type, **given):
        """Memory of models; an array that is not given takes no part."""
        plan, nobody = self.layout.plan, self.layout.device.empty(0, np.int32)
        parts = dict.fromkeys(Model._fields, self._nothing) | {"own": plan.own, "last": plan.last}
        h = self._take(self._plan.n_rows, row_type)
        return self.layout.device.pack(
            Model(**parts | {"enter": nobody, "enter_idx": nobody, "h": h} | given)
        )

    def _take(self, size, dtype=np.float64):
        """Memory of every fit."""
        return self.layout.device.empty((self.n_fits, size), dtype)

    @staticmethod
    def bytes_of_fit(plan):
        """Memory that the pattern takes for every fit."""
        return 0

    def evaluate(self, fits, eta, loglik):
        """Launch: write u, and the log-likelihood per fit, not finite where it was not found.

        Nothing else is done: what was launched may be repeated without another call.
        """
        self.layout.launch_teams(self._evaluate, fits, self._state, eta, loglik)

    def evaluate_again(self, fits, eta, loglik):
        """Launch what may find those that were not."""
        raise NotImplementedError

    def new_model(self, row_type):
        """Memory of a quadratic model of every fit."""
        raise NotImplementedError

    def refer(self, fits, eta, model):
        """Take the quadratic model at the last evaluation."""
        raise NotImplementedError

    def sizes(self, eta):
        """Kernel of products of columns with what rounding errors of u follow, and its rows."""
        return multiply_sizes, self.rows

    def baseline(self, fit):
        return None

    def largest_loglik(self, fit):
        """Upper bound of the log-likelihood, for the duality gap."""
        return self._of_weights(self._largest, fit)

    @cached_property
    def _largest(self):
        """The bound under every vector of weights, as `Pattern.largest_loglik` has it."""
        raise NotImplementedError

    def error_weight(self, fit):
        """Sum of the weights of rows whose errors have an unknown variance; 0 where none have."""
        return 0.0

    def reach(self, span, size):
        """The line search's R from the range and the size of a step."""
        return span if self.ignores_shifts else size
