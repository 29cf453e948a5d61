"""What a pattern answers to."""

from __future__ import annotations

import numpy as np

from ....data.plans.weighted import weigh
from ...largest_loglik import largest_loglik
from ..products import largest_difference, largest_range


class Pattern:
    """How a likelihood is evaluated on the rows of one fit, and its quadratic model.

    It knows the row plan under the weights of the fit, and the state of the last evaluation.
    """

    # This multiple of the model's curvature bounds the likelihood's at the model's point.
    majorant = 1.0
    # Whether the model is the Hessian of the log-likelihood where it is taken.
    is_exact = True
    # Whether the log-likelihood ignores shifts of the predictor within the model's groups.
    ignores_shifts = True
    # Offsets of the rows of each such group.
    group_ptr: np.ndarray

    def __init__(self, problem, weight):
        self._likelihood = problem.likelihood
        self.weighted = weigh(problem.plan, problem.likelihood.pattern, weight)

    def evaluate(self, eta, u):
        """Log-likelihood, not finite where it cannot be computed; writes the score residuals u."""
        raise NotImplementedError

    def refer(self, eta, u, rh):
        """Take the quadratic model at the last evaluation: h into ``rh[:, 1]``, and its centring.

        The result is a `bins.Centring`.
        """
        raise NotImplementedError

    def observe(self, eta, u, rh):
        """Minus the second derivative of every row's part of the log-likelihood into `rh`, like h.

        With the centring of `refer` it makes minus the Hessian.
        """
        self.refer(eta, u, rh)

    def exact_steps(self, eta):
        """`exact.Steps` from a predictor, which they move."""
        raise NotImplementedError

    @property
    def live(self):
        """Rows whose predictor matters."""
        return self.weighted.live

    def events(self):
        """The part of u that does not depend on eta."""
        return self.weighted.events()

    def sizes(self, eta, u):
        """What the rounding errors of u, that of the last evaluation, are relative to."""
        # u is a difference: of what was observed and what the model expects
        events = self.events()
        return np.abs(events) + np.abs(events - u)

    def largest_loglik(self):
        """Upper bound of the log-likelihood, for the duality gap."""
        return largest_loglik(self._likelihood, self.weighted)

    def error_weight(self):
        """Sum of the weights of rows whose errors have an unknown variance; 0 where none have."""
        return 0.0

    def baseline(self):
        """What predictions need of the last evaluation."""
        return None

    def reach(self, trial_eta, eta):
        """Size of a move of the predictor: the R of the line search.

        The third derivative along the move is at most R times the second.
        """
        if self.ignores_shifts:
            return largest_range(trial_eta, eta, self.live, self.group_ptr)
        return largest_difference(trial_eta, eta, self.live)
