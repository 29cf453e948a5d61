"""The row pattern on the device: formulas as in `cpu`, sums over a team."""

from functools import cache, cached_property

import numpy as np

from ..._compile import BOUND, bind
from ...backends.cuda._cuda import cuda, device
from ...backends.cuda.pattern import PatternOnDevice, make_evaluation
from ...backends.cuda.products import absolute, of_fit, product_with
from ...backends.cuda.products import multiply_sizes as multiply_sizes_of_rows
from ...backends.cuda.team import (
    meet_maxima,
    part_of,
    stage_max,
    team_sum,
    team_sums,
    total_max,
)
from ...backends.cuda.weights import add_all, number_of
from .cpu import LONGER, MOST_STEPS, SMALL_STEP, intercept_formulas, take_observed

row_formula = bracket = sum_scores = newton_step = profile = BOUND


@device
def _summarize(exchange, y, weight, eta, turn, scratch):
    """Sums of weights and of outcomes, least and largest predictor; takes two turns."""
    low, high = part_of(eta.shape[0], exchange)
    count, outcomes, up, down = 0.0, 0.0, -np.inf, -np.inf
    i = low + cuda.threadIdx.x
    while i < high:
        if weight[i] > 0.0:
            count += weight[i]
            outcomes += weight[i] * y[i]
            up, down = max(up, eta[i]), max(down, -eta[i])
        i += cuda.blockDim.x
    count, outcomes = team_sums(exchange, count, outcomes, turn, scratch)
    stage_max(up, 0, scratch)
    stage_max(down, 1, scratch)
    meet_maxima(exchange, 2, turn + 1, scratch)
    return count, outcomes, -total_max(exchange, 1, turn + 1), total_max(exchange, 0, turn + 1)


def _sum_scores(exchange, y, weight, eta, intercept, turn, scratch):
    """Weighted sums of score and curvature at an intercept; takes a turn."""
    low, high = part_of(eta.shape[0], exchange)
    score, curvature = 0.0, 0.0
    i = low + cuda.threadIdx.x
    while i < high:
        if weight[i] > 0.0:
            _, s, h = row_formula(eta[i] + intercept, y[i])
            score += weight[i] * s
            curvature += weight[i] * h
        i += cuda.blockDim.x
    return team_sums(exchange, score, curvature, turn, scratch)


def _profile(exchange, y, weight, eta, start, turn, scratch):
    """Intercept at which the scores sum to zero, and turns taken."""
    count, outcomes, low, high = _summarize(exchange, y, weight, eta, turn, scratch)
    turn, mean = turn + 2, outcomes / count
    low, high, longest = bracket(mean, low, high)
    intercept = min(max(start, low), high)
    for _ in range(MOST_STEPS):
        sums = sum_scores(exchange, y, weight, eta, intercept, turn, scratch)
        turn += 1
        if sums[0] > 0.0:
            low = intercept
        else:
            high = intercept
        least, most = max(low, intercept - longest), min(high, intercept + longest)
        moved = intercept + newton_step(mean, sums[0] / count, sums[1] / count)
        if not (least <= moved and moved <= most):
            moved = 0.5 * (least + most)
        step, intercept, longest = abs(moved - intercept), moved, LONGER * longest
        if step <= SMALL_STEP * (1.0 + abs(intercept)):
            break
    return intercept, turn


def _no_intercept(exchange, y, weight, eta, start, turn, scratch):
    return 0.0, turn


def _evaluate(exchange, state, fit, eta, turn, scratch):
    """Log-likelihood; writes u and the intercept."""
    (rows, intercepts), loglik = state, 0.0
    weight, y, (low, high) = of_fit(rows.weight, fit), rows.value, part_of(eta.shape[0], exchange)
    intercept, turn = profile(exchange, y, weight, eta, intercepts[fit], turn, scratch)
    i = low + cuda.threadIdx.x
    while i < high:
        rows.u[fit, i] = 0.0
        if weight[i] > 0.0:
            term, score, _ = row_formula(eta[i] + intercept, y[i])
            loglik += weight[i] * term
            rows.u[fit, i] = weight[i] * score
        i += cuda.blockDim.x
    loglik = team_sum(exchange, loglik, turn, scratch)
    if cuda.threadIdx.x == 0:  # of every member, all of which have read it: the same
        intercepts[fit] = intercept
    return loglik, turn + 1


def _refer(exchange, state, fit, eta, turn, scratch):
    """1 / sum h; writes h of every row."""
    (rows, intercepts, h_of_fits), total = state, 0.0
    weight, (low, high) = of_fit(rows.weight, fit), part_of(eta.shape[0], exchange)
    i = low + cuda.threadIdx.x
    while i < high:
        h = 0.0
        if weight[i] > 0.0:
            _, _, curvature = row_formula(eta[i] + intercepts[fit], rows.value[i])
            h = weight[i] * curvature
        h_of_fits[fit, i] = h
        total += h
        i += cuda.blockDim.x
    total = team_sum(exchange, total, turn, scratch)
    return 1.0 / total if total > 0.0 else 0.0, turn + 1


@cache
def evaluation(row_formula, observed_formula, link_formula, has_intercept):
    """Kernel of the evaluation."""
    profile, label = device(_no_intercept), f"{row_formula.__name__}_origin"
    if has_intercept:
        observed = row_formula
        if observed_formula is not None:
            formulas = {"row_formula": row_formula, "observed_formula": observed_formula}
            observed = device(bind(take_observed, **formulas))
        bracket, step = map(device, intercept_formulas(link_formula))
        sums = device(bind(_sum_scores, row_formula=observed))
        label = row_formula.__name__
        profile = device(bind(_profile, bracket=bracket, newton_step=step, sum_scores=sums))
    evaluate = device(bind(_evaluate, row_formula=row_formula, profile=profile))
    return make_evaluation(label, evaluate)


@cache
def curvature(row_formula):
    """Kernel of the quadratic model."""
    refer = device(bind(_refer, row_formula=row_formula))
    return make_evaluation(f"curvature_{row_formula.__name__}", refer)


def _size(state, fit, i):
    """Rounding of a score that is no difference: of its own terms, and of the predictor."""
    rows, intercepts, eta = state
    weight, theta = of_fit(rows.weight, fit)[i], eta[fit, i] + intercepts[fit]
    if not weight > 0.0:
        return 0.0
    _, score, h = row_formula(theta, rows.value[i])
    return weight * (abs(score) + h * (1.0 + abs(theta)))


@cache
def multiply_sizes(row_formula):
    return product_with(device(bind(_size, row_formula=row_formula)), absolute)


class RowsOnDevice(PatternOnDevice):
    """A sum over rows, with or without an intercept."""

    few = True

    def __init__(self, layout, problem, weights, n_fits):
        super().__init__(layout, problem, weights, n_fits)
        self.is_exact = problem.likelihood.observed_formula is None
        self.live = self._keep_counted(layout.plan.may_count)
        likelihood, n_rows = self.likelihood, problem.plan.n_rows
        self.ignores_shifts = likelihood.intercept
        self._evaluate = evaluation(
            likelihood.row_formula,
            likelihood.observed_formula,
            likelihood.link_formula,
            likelihood.intercept,
        )
        self._curvature = curvature(likelihood.row_formula)
        intercepts = layout.device.zeros(n_fits, np.float64)
        self._unread = layout.device.empty(n_fits, np.float64)
        # others read `rows`, whose events would be a part of the scores, and these have none
        self._state, no_events = (self.rows, intercepts), layout.device.zeros(n_rows, np.float64)
        self.rows = self.rows._replace(value=no_events)

    def new_model(self, row_type):
        inverse = self.layout.device.zeros((self.n_fits, 1), np.float64)
        return self._make_model(row_type, inverse=inverse)

    def refer(self, fits, eta, model):
        inverse = self._unread  # without an intercept the model's stays 0
        if self.likelihood.intercept:
            inverse = self.layout.device.view(model.inverse, np.float64, (self.n_fits,))
        self.layout.launch_teams(self._curvature, fits, (*self._state, model.h), eta, inverse)

    def sizes(self, eta):
        if self.likelihood.link_formula is not None:  # u is what was observed less its mean
            return multiply_sizes_of_rows, self._state[0]
        return multiply_sizes(self.likelihood.row_formula), (*self._state, eta)

    @cached_property
    def _largest(self):
        terms = self.likelihood.largest_terms(self._plan.value)
        return self._add_weights(terms) if np.ndim(terms) else terms * self._totals

    @cached_property
    def _totals(self):
        return self._add_weights(())

    def _add_weights(self, factor):
        """Sums of the weights of all rows, times factors."""
        device, weight = self.layout.device, self.rows.weight
        context = weight, device.empty(0, np.int32), device.upload(np.asarray(factor, float))
        return add_all(self.layout, number_of, weight.shape[1], context, self.n_weights)

    def error_weight(self, fit):
        return self._of_weights(self._totals, fit) if self.likelihood.is_quadratic else 0.0

    def baseline(self, fit):
        """The intercept."""
        return float(self.layout.device.download(self._state[1])[fit])

    def reach(self, span, size):
        return 0.0 if self.likelihood.is_quadratic else super().reach(span, size)
