"""The row pattern: a sum of one term a row, with or without an implicit intercept.

A likelihood of this pattern says what a row adds and how that changes with its predictor: its
``row_formula(eta, y)`` returns ``(log-likelihood, score, curvature)``.  With theta_i = eta_i + b

    l = sum c_i loglik_i,   u_i = c_i score_i,   h_i = c_i curvature_i

The intercept b is not a column.  Every evaluation moves it to its optimum, sum u = 0, so that the
solver sees the profile log-likelihood max_b l: it ignores shifts of eta and u is its gradient.
Where h is minus the second derivative, diag(h) - h h'/sum h is minus its Hessian; under a larger h
that matrix is larger.
"""

from functools import cache
from typing import NamedTuple

import numpy as np

from ..._compile import BOUND, bind, device, specialize
from ...backends.cpu import tasks
from ...backends.cpu.bins import CONSTANT, Centring, bins_of_groups
from ...backends.cpu.columns import add_scaled, column_operation, entry_row, entry_value, n_entries
from ...backends.cpu.exact import Steps
from ...backends.cpu.optional import row_weight
from ...backends.cpu.pattern import PatternOnCpu
from ...backends.cpu.tasks import ALL, rows_in
from ...backends.formulas import two_sum
from ...data.vectors import inverse_of

row_formula = observed_formula = link_formula = bracket = newton_step = collect = BOUND

MOST_STEPS = 200
SMALL_STEP = 1e-8  # relative: Newton's error after such a step is its square, rounding
FIRST_MOVE, LONGER = 1.0, 4.0  # the longest towards where no root is known, and how that grows


class RowOutcomes(NamedTuple):
    """Outcomes of one fit's rows, and their case weights (None: all one)."""

    value: np.ndarray
    weight: np.ndarray


def take_observed(eta, y):
    """A row under a likelihood whose curvature is not minus the second derivative: with that."""
    loglik, score, _ = row_formula(eta, y)
    return loglik, score, observed_formula(eta, y)


# Where the intercept is looked for, and steps towards it: every backend compiles these.


def link_bracket(mean, low, high):
    """Ends between which an intercept lies, and the longest move towards an open one.

    `mean` is that of the outcomes.  Means increase with eta, so the root lies within the range of
    eta below the link of the mean outcome.
    """
    target, _ = link_formula(mean)
    return target - high, target - low, np.inf


def link_step(mean, score, curvature):
    """Newton's step on the link of the mean of means, which is nearly linear in the intercept.

    It is linear for the identity and log links: one step is exact.
    """
    target, _ = link_formula(mean)
    value, slope = link_formula(mean - score)
    return (target - value) / (slope * curvature)


def open_bracket(mean, low, high):
    """`link_bracket` where nothing is known of the root."""
    return -np.inf, np.inf, FIRST_MOVE


def plain_step(mean, score, curvature):
    return score / curvature


def intercept_formulas(link_formula):
    """Where the intercept is looked for, and the step towards it; a link knows more of both."""
    if link_formula is None:
        return open_bracket, plain_step
    return tuple(bind(formula, link_formula=link_formula) for formula in (link_bracket, link_step))


# What is known of the intercept, and the tasks of a search for it.
MEAN, COUNT, LOW, HIGH, LONGEST, INTERCEPT, STEPS = range(7)
RANGES, BRACKET, SCORES, MOVE = range(4)


@device
def _find_range(rows, eta, low, high):
    """Sums of weights and of weighted outcomes, and the range of the predictor."""
    count, total, least, largest = 0.0, 0.0, np.inf, -np.inf
    for i in rows_in(low, high):
        c = row_weight(rows.weight, i)
        if c > 0.0:
            count += c
            total += c * rows.value[i]
            least, largest = min(least, eta[i]), max(largest, eta[i])
    return count, total, least, largest


def sum_scores(rows, eta, intercept, low, high):
    """Weighted sums of score and curvature at an intercept."""
    score, curvature = 0.0, 0.0
    for i in rows_in(low, high):
        c = row_weight(rows.weight, i)
        if c > 0.0:
            _, s, h = row_formula(eta[i] + intercept, rows.value[i])
            score += c * s
            curvature += c * h
    return score, curvature


def open_search(parts, known):
    """Where the intercept lies, from the ranges of blocks, and where to begin."""
    count, total, low, high = 0.0, 0.0, np.inf, -np.inf
    for b in range(len(parts)):
        count += parts[b, 0]
        total += parts[b, 1]
        low, high = min(low, parts[b, 2]), max(high, parts[b, 3])
    low, high, longest = bracket(total / count, low, high)
    known[MEAN], known[COUNT] = total / count, count
    known[LOW], known[HIGH], known[LONGEST] = low, high, longest
    known[INTERCEPT], known[STEPS] = min(max(known[INTERCEPT], low), high), 0.0


def move(parts, known):
    """Newton's step, kept inside the bracket; whether that was the last one."""
    score, curvature = 0.0, 0.0
    for b in range(len(parts)):
        score += parts[b, 0]
        curvature += parts[b, 1]
    mean, count, intercept, longest = known[MEAN], known[COUNT], known[INTERCEPT], known[LONGEST]
    known[LOW if score > 0.0 else HIGH] = intercept
    least, most = max(known[LOW], intercept - longest), min(known[HIGH], intercept + longest)
    moved = intercept + newton_step(mean, score / count, curvature / count)
    if not least <= moved <= most:
        moved = 0.5 * (least + most)
    known[INTERCEPT], known[LONGEST] = moved, LONGER * longest
    known[STEPS] += 1.0
    return abs(moved - intercept) <= SMALL_STEP * (1.0 + abs(moved)) or known[STEPS] >= MOST_STEPS


def profile(rows, eta, edges, parts, known, sizes, task, low, high):
    """Tasks of a search for the intercept at which the scores sum to zero.

    `parts` has what a task has found of each block, and `known` what is known of the intercept.
    """
    while task < len(sizes):
        following = task + 1
        for b in range(low, min(high, sizes[task])):
            part, begin, end = parts[b], edges[b], edges[b + 1]
            if task == RANGES:
                part[0], part[1], part[2], part[3] = _find_range(rows, eta, begin, end)
            elif task == BRACKET:
                open_search(parts, known)
            elif task == SCORES:
                part[0], part[1] = sum_scores(rows, eta, known[INTERCEPT], begin, end)
            elif not move(parts, known):
                following = SCORES
        task = following
        if high != ALL:
            break
    return task


class RowsAtIntercept(NamedTuple):
    """Outcomes, and what is added to every predictor."""

    rows: RowOutcomes
    intercept: float


def add_terms(shifted, eta, u, low, high):
    """Log-likelihood of rows, and what its sum has lost; writes their u.

    Rows alike, as those of a few 0/1 columns, have terms alike, whose rounding errors would not
    cancel in a plain sum: steps near the optimum could not be told from steps that make it worse.
    """
    rows, loglik, lost = shifted.rows, 0.0, 0.0
    for i in rows_in(low, high):
        c = row_weight(rows.weight, i)
        u[i] = 0.0
        if c > 0.0:
            value = rows.value[i]
            term, score, _ = row_formula(eta[i] + shifted.intercept, value)
            loglik, error = two_sum(loglik, c * term)
            lost += error
            u[i] = c * score
    return loglik, lost


def curvature(rows, eta, intercept, h, low, high):
    """h of rows."""
    for i in rows_in(low, high):
        c = row_weight(rows.weight, i)
        h[i] = 0.0
        if c > 0.0:
            _, _, own = row_formula(eta[i] + intercept, rows.value[i])
            h[i] = c * own


def _collect(rows, values, shift, state):
    outcomes, eta, intercept, sums, _ = state
    for q in range(n_entries(rows, values)):
        i = entry_row(rows, q, shift)
        x, c = entry_value(values, q), row_weight(outcomes.weight, i)
        if c > 0.0:
            _, score, h = row_formula(eta[i] + intercept[0], outcomes.value[i])
            sums[0] += c * x * score
            sums[1] += c * x * x * h
            sums[2] += c * x * h
    return 0.0


def _row_derivatives(X, j, state):
    """Slope, and the curvature that is left when the intercept moves along."""
    sums, inverse = state[3], state[4]
    sums[:] = 0.0
    collect(X, j, state)
    centred = sums[1] - sums[2] * sums[2] * inverse
    return sums[0], centred if centred > CONSTANT * sums[1] else 0.0


@device
def _row_advance(X, j, step, state):
    _, eta, intercept, sums, inverse = state
    add_scaled(X, j, (eta, step))
    intercept[0] -= sums[2] * inverse * step


@cache
def observed_row(row_formula, observed_formula):
    """Formula of a row with its observed curvature, on which Newton's method squares its error."""
    if observed_formula is None:
        return row_formula
    formulas = {"row_formula": row_formula, "observed_formula": observed_formula}
    return device(bind(take_observed, **formulas))


@cache
def _profile(row_formula, link_formula):
    bracket, step = map(device, intercept_formulas(link_formula))
    parts = {
        "sum_scores": bind(sum_scores, row_formula=row_formula),
        "open_search": bind(open_search, bracket=bracket),
        "move": bind(move, newton_step=step),
    }
    parts = {name: device(part) for name, part in parts.items()}
    return specialize(profile, **parts)


@cache
def _evaluation(row_formula):
    return tasks.adder(device(bind(add_terms, row_formula=row_formula)))


@cache
def _curvature(row_formula):
    return specialize(curvature, row_formula=row_formula)


@cache
def _derivatives(row_formula):
    collect = column_operation(bind(_collect, row_formula=row_formula))
    return device(bind(_row_derivatives, collect=collect))


class RowsOnCpu(PatternOnCpu):
    """A sum over rows, with or without an intercept."""

    def __init__(self, problem, weight, threads):
        super().__init__(problem, weight, threads)
        plan = problem.plan
        self._rows = RowOutcomes(plan.value, self.weighted.weight)
        self.group_ptr = np.array([0, plan.n_rows])
        self._one_group = np.zeros(plan.n_rows, np.uint16)
        self.ignores_shifts = self._likelihood.intercept
        self._intercept = 0.0
        likelihood = self._likelihood
        self.is_exact = likelihood.observed_formula is None
        self._observed = observed_row(likelihood.row_formula, likelihood.observed_formula)

    def evaluate(self, eta, u):
        if self._likelihood.intercept:
            self._find_intercept(eta)
        shifted = RowsAtIntercept(self._rows, self._intercept)
        evaluate = _evaluation(self._likelihood.row_formula)
        return tasks.add_up(self._threads, evaluate, shifted, eta, u, self._row_blocks)

    def _find_intercept(self, eta):
        n_blocks, known = len(self._row_blocks) - 1, np.zeros(STEPS + 1)
        known[INTERCEPT] = self._intercept
        given = self._rows, eta, self._row_blocks, np.empty((n_blocks, 4)), known
        profile = _profile(self._observed, self._likelihood.link_formula)
        tasks.run(self._threads, profile, given, np.array([n_blocks, 1, n_blocks, 1]))
        self._intercept = float(known[INTERCEPT])

    def _write_curvature(self, formula, eta, h):
        tasks.run_blocks(
            self._threads,
            self._row_blocks,
            _curvature(formula),
            self._rows,
            eta,
            self._intercept,
            h,
        )

    def refer(self, eta, u, h):
        self._write_curvature(self._likelihood.row_formula, eta, h)
        # without an intercept nothing is centred
        total = h.sum() if self._likelihood.intercept else 0.0
        inverse = inverse_of(np.array([total]))
        return Centring(bins_of_groups(self._one_group, inverse, self.group_ptr), few=True)

    def observe(self, eta, u, h):
        self._write_curvature(self._observed, eta, h)

    def exact_steps(self, eta):
        formula, h, inverse = self._likelihood.row_formula, np.zeros(len(eta)), 0.0
        if self._likelihood.intercept:
            self._write_curvature(formula, eta, h)
            inverse = float(inverse_of(np.array([h.sum()]))[0])
        state = self._rows, eta, np.array([self._intercept]), np.zeros(3), inverse
        return Steps(_derivatives(formula), _row_advance, state)

    def events(self):
        """Nothing: a score need not be a difference."""
        return np.zeros(len(self._rows.value))

    def sizes(self, eta, u):
        if self._likelihood.link_formula is not None:  # u is what was observed less its mean
            return super().sizes(eta, u)
        h = np.empty(len(eta))
        self._write_curvature(self._likelihood.row_formula, eta, h)
        return np.abs(u) + h * (1.0 + np.abs(eta + self._intercept))

    def error_weight(self):
        return float(self.weighted.weights().sum()) if self._likelihood.is_quadratic else 0.0

    def baseline(self):
        """The intercept."""
        return self._intercept

    def reach(self, trial_eta, eta):
        return 0.0 if self._likelihood.is_quadratic else super().reach(trial_eta, eta)
