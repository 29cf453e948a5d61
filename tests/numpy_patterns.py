"""What the five patterns of likelihoods compute, slowly and obviously: for `numpy_backend`.

A pattern knows the rows of a fit, in the order of their plan, and nothing of one call in the next:

    evaluate(eta)      an `Evaluation`
    hessian(eta, V)    -V' (d^2 l / d eta^2) V
    events, group      the part of u without eta; rows in whose groups shifts of eta change nothing,
                       -1 where eta does not matter

Nothing is guarded against overflow.
"""

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import logsumexp, softmax, xlogy

from sksurvgpu.patterns.carried import CarriedPattern
from sksurvgpu.patterns.groups import GroupPattern
from sksurvgpu.patterns.risk_sets import RiskSetPattern
from sksurvgpu.patterns.rows import RowPattern
from sksurvgpu.patterns.subsets import SubsetPattern

SMALLEST_RISK = 1e-280  # sums have lost their digits to underflow below


class Evaluation(NamedTuple):
    """What an evaluation finds; the Hessian is at most diag(h)."""

    loglik: float
    u: np.ndarray
    h: np.ndarray
    baseline: Any


def plain(formula):
    """A formula as a function of Python, not compiled."""
    return getattr(formula, "py_func", formula)


def centred_square(p, V):
    """V' (diag(p) - p p' / sum p) V."""
    centred = V - p @ V / p.sum() if p.sum() > 0 else V
    return centred.T @ (p[:, None] * centred)


class Rows:
    """A sum over rows; an intercept is where the scores sum to zero."""

    def __init__(self, likelihood, plan, weight):
        self._likelihood, self._value, self._weight = likelihood, plan.value, weight
        self.events = weight * plan.value
        self.group = np.where(weight > 0, 0, -1)
        self.ignores_shifts, self.is_quadratic = likelihood.intercept, likelihood.is_quadratic

    def _terms(self, eta):
        formula = plain(self._likelihood.row_formula)
        return np.array([formula(a, b) for a, b in zip(eta, self._value, strict=True)]).T

    def _intercept(self, eta):
        if not self._likelihood.intercept:
            return 0.0
        mean = self._weight @ self._value / self._weight.sum()
        at_mean, _ = plain(self._likelihood.link_formula)(mean)
        ends = at_mean - eta.max() - 1.0, at_mean - eta.min() + 1.0
        return brentq(lambda b: self._weight @ self._terms(eta + b)[1], *ends)

    def evaluate(self, eta):
        intercept = self._intercept(eta)
        loglik, score, curvature = self._weight * self._terms(eta + intercept)
        return Evaluation(loglik.sum(), score, curvature, intercept)

    def hessian(self, eta, V):
        h = self.evaluate(eta).h
        return centred_square(h, V) if self.ignores_shifts else V.T @ (h[:, None] * V)

    def largest_loglik(self):
        return np.sum(self._weight * self._likelihood.largest_terms(self._value))


class Draws:
    """Sets of rows, drawn with probability proportional to the product of their exp(eta).

    Events of a group fall on one row each, `count` times; the cases of a matched set are m rows.
    """

    ignores_shifts, is_quadratic = True, False

    def __init__(self, likelihood, plan, weight):
        self.events, self.group = np.zeros(plan.n_rows), np.full(plan.n_rows, -1)
        self._draws = []  # rows, the sets that are possible, how often one was drawn
        for g, (begin, end) in enumerate(zip(plan.ptr[:-1], plan.ptr[1:], strict=True)):
            rows = np.arange(begin, end)[weight[begin:end] > 0]
            total, size, most = plan.value[rows].sum(), 1, len(rows)
            count = weight[rows] @ plan.value[rows]
            if likelihood.pattern is SubsetPattern:  # of all rows there is one only
                size, most, count = int(total), len(rows) - 1, weight[begin]
            if total > 0 and size <= most:
                sets = [np.isin(rows, chosen) for chosen in combinations(rows, size)]
                self._draws.append((rows, np.array(sets, float), count))
                self.events[rows] = weight[rows] * plan.value[rows]
                self.group[rows] = g

    def evaluate(self, eta):
        loglik, h = self.events @ eta, np.zeros(len(eta))
        for rows, sets, count in self._draws:
            loglik -= count * logsumexp(sets @ eta[rows])
            h[rows] = count * softmax(sets @ eta[rows]) @ sets
        return Evaluation(loglik, self.events - h, h, None)

    def hessian(self, eta, V):
        total = np.zeros(2 * [V.shape[1]])
        for rows, sets, count in self._draws:
            total += count * centred_square(softmax(sets @ eta[rows]), sets @ V[rows])
        return total

    def largest_loglik(self):
        shares = [self.events[rows] / count for rows, _, count in self._draws]
        counts = [count for _, _, count in self._draws]
        return sum(c * xlogy(p, p).sum() for c, p in zip(counts, shares, strict=True))


class RiskSets:
    """Cox-type likelihoods; ``at_risk[k, i]`` is the share of row i in the risk set of cell k."""

    ignores_shifts, is_quadratic = True, False

    def __init__(self, likelihood, plan, weight):
        self._likelihood, self._ptr, self._weight = likelihood, plan.cell_ptr, weight
        cell, leave = np.arange(plan.cell_ptr[-1])[:, None], plan.exit_idx.astype(int)
        stratum = np.searchsorted(plan.cell_ptr, leave, side="right") - 1
        enter = plan.cell_ptr[stratum] if plan.enter_idx is None else plan.enter_idx
        self._at_risk = ((enter < cell) & (cell <= leave)) * 1.0
        if likelihood.pattern.has_lanes:
            carry(plan, weight, self._at_risk)
        self._dies = ((cell == leave) & (plan.event > 0) & (weight > 0)) * 1.0
        self._deaths, self._death_weight = self._dies.sum(axis=1), self._dies @ weight
        self._times = np.flatnonzero(self._deaths)
        matters = (weight > 0) & (self._at_risk[self._times].sum(axis=0) > 0)
        self.events, self.group = weight * (plan.event > 0), np.where(matters, stratum, -1)

    def _weigh(self, eta):
        """c exp(eta) of the rows that matter, on the scale of the largest, and that scale."""
        matters = self.group >= 0
        top = eta[matters].max(initial=-np.inf)
        return self._weight * np.exp(np.where(matters, eta - top, -np.inf)), top

    def evaluate(self, eta):
        w, top = self._weigh(eta)
        logs, jump, held = np.zeros((3, len(self._deaths)))
        sums = np.array([self._at_risk @ w, self._dies @ w, self._death_weight, self._deaths]).T
        if not np.all(sums[self._times, 0] > SMALLEST_RISK):
            return Evaluation(np.nan, self.events, 0.0 * w, None)
        for k in self._times:
            logs[k], jump[k], held[k] = plain(self._likelihood.jump_formula)(*sums[k])
        h = w * (jump @ self._at_risk - held @ self._dies)
        loglik = np.sum(self.events * np.where(self.events > 0, eta - top, 0.0)) - logs.sum()
        hazard = np.concatenate([np.cumsum(part) for part in np.split(jump, self._ptr[1:-1])])
        with np.errstate(divide="ignore"):
            return Evaluation(loglik, self.events - h, h, np.log(hazard) - top)

    def hessian(self, eta, V):
        w, _ = self._weigh(eta)

        def square(v):
            """Curvature along v."""
            powers = w * v ** np.arange(3)[:, None]
            sums = np.vstack([powers @ self._at_risk.T, powers @ self._dies.T]).T
            formula = plain(self._likelihood.coordinate_formula)
            deaths = zip(self._death_weight, self._deaths, strict=True)
            cells = [(*row, *of) for row, of in zip(sums, deaths, strict=True)]
            return sum(formula(*cells[k])[1] for k in self._times)

        H = np.diag([square(v) for v in V.T])
        for a, b in combinations(range(len(H)), 2):
            H[a, b] = H[b, a] = (square(V[:, a] + V[:, b]) - H[a, a] - H[b, b]) / 2
        return H

    def largest_loglik(self):
        numbers = ((d, d, d, n) for d, n in zip(self._death_weight, self._deaths, strict=True) if n)
        return -sum(plain(self._likelihood.jump_formula)(*each)[0] for each in numbers)


def carry(plan, weight, at_risk):
    """Rows with a competing event stay at risk, with G(t_k-) / G(T_i-) of the censoring."""
    of, survival = plan.carrying, np.ones(plan.carrying.table_ptr[-1])
    for begin, end in zip(of.table_ptr[:-1], of.table_ptr[1:], strict=True):
        for t in range(begin, end - 1):
            now = of.row_table_idx == t
            lost = weight[now & of.censored].sum()
            later = (of.row_table_idx >= t) & (of.row_table_idx < end)
            left = later & ~(now & ~of.censored) if of.events_first else later
            share = lost / weight[left].sum() if lost > 0 else 0.0
            survival[t + 1] = survival[t] * (1.0 - share)
    for i in np.flatnonzero(of.competing & (weight > 0)):
        lane = np.searchsorted(of.lane_ptr, of.carry_idx[i], side="right") - 1
        later = np.arange(of.carry_idx[i] + 1, of.lane_ptr[lane + 1])
        shares = survival[of.lane_table_idx[later]] / survival[of.row_table_idx[i]]
        at_risk[later - of.lane_ptr[lane] + of.lane_cell[lane], i] = shares


PATTERNS = {
    RowPattern: Rows,
    GroupPattern: Draws,
    SubsetPattern: Draws,
    RiskSetPattern: RiskSets,
    CarriedPattern: RiskSets,
}
