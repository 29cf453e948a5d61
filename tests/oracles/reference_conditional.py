"""Likelihoods conditional on totals: multinomials of groups, and matched sets.

Conditional Poisson and self-controlled case series: with N_g events in a group,

    p_i = L_i e^eta_i / (sum over the group)    loglik = sum c_i y_i log p_i    h_i = N_g p_i

(L exposure; constants in eta are dropped).  Conditional logistic: with m cases in a stratum,

    loglik = sum over cases of eta - log B      B = sum over sets of m rows of e^(sum of their eta)

so that u_i = case_i - pi_i, pi_i the probability that row i is among the cases.  It is computed by
listing the sets (`clogit_enumerate`), by a recursion on scaled odds (`clogit_exact`) and in 60
digits (`clogit_extended`); `clogit_approx` is the Cox model with every row of a stratum at one
time.  Weights are those of groups, the same for all their rows; weight 0 is absence.
"""

from dataclasses import dataclass
from decimal import Decimal, localcontext
from itertools import combinations

import numpy as np

from oracles.reference_glm import expit
from oracles.reference_likelihoods import (
    Atom,
    Evaluation,
    case_weights,
    codes,
    cox_direct,
)


def multinomial_direct(eta, y, group, exposure=None, weights=None):
    """Evaluate the case series or conditional Poisson likelihood at eta."""
    n = len(eta)
    c, group = case_weights(n, weights), codes(n, group)
    log_rate = eta if exposure is None else eta + np.log(exposure)
    loglik, h, atoms = 0.0, np.zeros(n), []
    for g in range(group.max() + 1):
        rows = np.flatnonzero((group == g) & (c > 0))
        total = float(c[rows] @ y[rows])
        if total == 0:
            continue
        top = log_rate[rows].max()
        log_sum = np.log(np.exp(log_rate[rows] - top).sum()) + top
        p = np.zeros(n)
        p[rows] = np.exp(log_rate[rows] - log_sum)
        loglik += (c[rows] * y[rows]) @ (log_rate[rows] - log_sum)
        h += total * p
        atoms.append(Atom(total, p, g, 0.0))
    return Evaluation(loglik, np.where(c > 0, c * y, 0.0) - h, h, group, atoms)


def clogit_approx(eta, case, stratum, weights=None, ties="efron"):
    """Efron's or Breslow's approximation of the conditional logistic likelihood."""
    return cox_direct(eta, np.ones(len(eta)), case, strata=stratum, weights=weights, ties=ties)


def matched_sets(case, stratum, weights):
    """(rows, weight) of every stratum that has cases and controls."""
    stratum = codes(len(case), stratum)
    for g in range(stratum.max() + 1):
        rows = np.flatnonzero(stratum == g)
        if 0 < case[rows].sum() < len(rows) and weights[rows[0]] > 0:
            yield rows, weights[rows[0]]


def clogit_enumerate(eta, case, stratum, weights=None):
    """Exact conditional likelihood by listing every possible set of cases; h = pi."""
    n = len(eta)
    c, case = case_weights(n, weights), np.asarray(case)
    loglik, u, h, hessian = 0.0, np.zeros(n), np.zeros(n), np.zeros((n, n))
    for rows, weight in matched_sets(case, stratum, c):
        members = np.array(
            [
                np.isin(np.arange(len(rows)), chosen)
                for chosen in combinations(range(len(rows)), int(case[rows].sum()))
            ],
            float,
        )
        log_odds = members @ eta[rows]
        p = np.exp(log_odds - log_odds.max())
        loglik += weight * (eta[rows] @ case[rows] - np.log(p.sum()) - log_odds.max())
        p /= p.sum()
        pi = p @ members
        u[rows], h[rows] = weight * (case[rows] - pi), weight * pi
        hessian[np.ix_(rows, rows)] = weight * ((members.T * p) @ members - np.outer(pi, pi))
    return Evaluation(loglik, u, h, codes(n, stratum), hessian=hessian)


def tilt(eta, m):
    """t with sum expit(eta - t) near m, for 0 < m < len(eta); any t is right, this one scales."""
    low, high = eta.min() - 1.0 - np.log(len(eta)), eta.max() + 1.0 + np.log(len(eta))
    for _ in range(30):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if expit(eta - middle).sum() > m else (low, middle)
    return 0.5 * (low + high)


def counts_law(p, q):
    """Row j: the law of the number of ones among the first j of independent draws."""
    law = np.zeros((len(p) + 1, len(p) + 1))
    law[0, 0] = 1.0
    for j in range(len(p)):
        law[j + 1] = law[j] * q[j]
        law[j + 1, 1:] += law[j, :-1] * p[j]
    return law


def inclusion(eta, m):
    """Log B, and pi of every row, from the laws of the counts before and after it.

    Draws with odds e^(eta - t) have nearly m ones on average, and given m of them the law of the
    cases; log B = log P(m ones) + m t + sum log(1 + e^(eta - t)).
    """
    t = tilt(eta, m)
    p, q = expit(eta - t), expit(t - eta)
    before, after = counts_law(p, q), counts_law(p[::-1], q[::-1])[::-1]
    exactly_m = before[-1, m]
    others = [before[j, :m] @ after[j + 1, m - 1 :: -1][:m] for j in range(len(eta))]
    return np.log(exactly_m) + m * t + np.logaddexp(0.0, eta - t).sum(), p * others / exactly_m


# h of a stratum from pi; v = pi (1 - pi).  The first three majorize, the last is the solver's.
CURVATURES = {
    "pi": lambda pi: pi,
    "one minus pi": lambda pi: 1.0 - pi,
    "twice the variance": lambda pi: 2.0 * pi * (1.0 - pi),
    "exact diagonal": lambda pi: exact_diagonal(pi),
}


def exact_diagonal(pi):
    """h with h_i - h_i^2 / sum(h) = pi_i (1 - pi_i): the model's diagonal is that of the Hessian.

    Pairs and strata of one case or one control have the Hessian diag h - h h' / sum(h) itself.
    """
    m = round(pi.sum())
    if m == 1:
        return pi
    if m == len(pi) - 1:
        return 1.0 - pi
    v, largest = pi * (1.0 - pi), int(np.argmax(pi * (1.0 - pi)))

    def roots(total, largest_is_upper):
        spread = np.sqrt(np.maximum(total**2 - 4.0 * v * total, 0.0))
        h = 2.0 * v * total / (total + spread)
        if largest_is_upper:
            h[largest] = 0.5 * (total + spread[largest])
        return h

    # sum(roots) - total has one zero above 4 max v: with every root the lower one it decreases,
    # and where it is negative from the start the largest row has more than half of the total.
    low = high = 4.0 * v[largest]
    is_upper = roots(low, False).sum() < low
    for _ in range(60):
        high *= 2.0
        if (roots(high, is_upper).sum() > high) == is_upper:
            break
    for _ in range(200):
        middle = 0.5 * (low + high)
        is_right = (roots(middle, is_upper).sum() > middle) == is_upper
        low, high = (low, middle) if is_right else (middle, high)
    return roots(0.5 * (low + high), is_upper)


def clogit_exact(eta, case, stratum, weights=None, curvature="exact diagonal"):
    """Exact conditional likelihood for strata of up to some hundred rows."""
    n = len(eta)
    c, case = case_weights(n, weights), np.asarray(case)
    loglik, u, h = 0.0, np.zeros(n), np.zeros(n)
    for rows, weight in matched_sets(case, stratum, c):
        log_b, pi = inclusion(eta[rows], int(case[rows].sum()))
        loglik += weight * (eta[rows] @ case[rows] - log_b)
        u[rows] = weight * (case[rows] - pi)
        h[rows] = weight * CURVATURES[curvature](pi)
    return Evaluation(loglik, u, h, codes(n, stratum))


def clogit_coordinate(eta, case, stratum, x, weights=None):
    """Slope and curvature of the exact log-likelihood along one column.

    The law of the counts is carried with the first two derivatives of its terms along x.
    """
    c, case = case_weights(len(eta), weights), np.asarray(case)
    slope, curvature = 0.0, 0.0
    for rows, weight in matched_sets(case, stratum, c):
        m = int(case[rows].sum())
        t = tilt(eta[rows], m)
        p, q = expit(eta[rows] - t), expit(t - eta[rows])
        law = np.zeros((3, m + 1))
        law[0, 0] = 1.0
        for p_j, q_j, x_j in zip(p, q, x[rows], strict=True):
            zero, one, two = law[:, :-1].copy()
            law *= q_j
            law[0, 1:] += p_j * zero
            law[1, 1:] += p_j * (one + x_j * zero)
            law[2, 1:] += p_j * (two + 2.0 * x_j * one + x_j**2 * zero)
        mean = law[1, m] / law[0, m]
        slope += weight * (x[rows] @ case[rows] - mean)
        curvature += weight * (law[2, m] / law[0, m] - mean**2)
    return slope, curvature


@dataclass(frozen=True)
class Extended:
    """One stratum in extended precision."""

    log_b: Decimal
    pi: np.ndarray  # of Decimal


def clogit_extended(eta, m, digits=60):
    """Log B and pi of one stratum of thousands of rows, in decimal arithmetic.

    The law of all counts f is that of `inclusion`; without row i it is v, f_k = q v_k + p v_(k-1),
    solved upwards for p <= 1/2 and downwards otherwise, so that no error grows.
    """
    with localcontext() as context:
        context.prec = digits
        t = Decimal(tilt(np.asarray(eta, float), m))
        odds = np.array([(Decimal(float(e)) - t).exp() for e in eta])
        q = 1 / (1 + odds)
        p = odds * q
        law = np.full(len(eta) + 1, Decimal(0))
        law[0] = Decimal(1)
        for j in range(len(eta)):
            law[1 : j + 2] = law[1 : j + 2] * q[j] + law[: j + 1] * p[j]
            law[0] *= q[j]
        log_b = law[m].ln() + m * t - sum(q_j.ln() for q_j in q)
        is_small, others = p <= q, np.full(len(eta), Decimal(0))
        for k in range(m):
            others[is_small] = (law[k] - p[is_small] * others[is_small]) / q[is_small]
        for k in range(len(eta), m - 1, -1):
            others[~is_small] = (law[k] - q[~is_small] * others[~is_small]) / p[~is_small]
        return Extended(log_b, p * others / law[m])
