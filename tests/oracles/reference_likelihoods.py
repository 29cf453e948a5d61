"""Cox's partial likelihood straight from the definition of its risk sets.

Plain NumPy, O(rows * events), no scan and no integer in place of a time.  Row i is at risk at t
when ``start_i < t <= time_i`` (no start: from the beginning); rows of weight 0 are absent.  Every
event time (under Efron: every tied death) is an *atom* of weight d with probabilities p over the
rows at risk, and

    u = weight * event - sum_a d_a p_a      -d2 loglik / d eta2 = sum_a d_a (diag p_a - p_a p_a')

Exponentials are taken relative to the largest predictor at risk, so that no predictor is too large.
Predictors of extended precision are kept as they are.
"""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Atom:
    """One factor of the partial likelihood."""

    weight: float
    p: np.ndarray
    stratum: int
    time: float


@dataclass(frozen=True)
class Evaluation:
    """Log-likelihood, its gradient u in eta, the model's diagonal h, and where they came from."""

    loglik: float
    u: np.ndarray
    h: np.ndarray
    stratum: np.ndarray | None  # groups whose mean is free; None: no group
    atoms: list = field(default_factory=list)
    # (stratum, time, logarithm of the jump of the cumulative hazard at eta = 0)
    jumps: list = field(default_factory=list)
    hessian: np.ndarray | None = None  # -d2 loglik / d eta2 where it is not a sum over atoms


def case_weights(n, weights):
    return np.ones(n) if weights is None else np.asarray(weights, float)


def codes(n, labels):
    """Labels as integers from 0; None: all rows alike."""
    return np.zeros(n, int) if labels is None else np.unique(labels, return_inverse=True)[1]


def cox_direct(eta, time, event, start=None, strata=None, weights=None, ties="breslow"):
    """Evaluate the partial likelihood at eta."""
    n = len(time)
    c, stratum = case_weights(n, weights), codes(n, strata)
    start = np.full(n, -np.inf) if start is None else np.asarray(start, float)
    death = (np.asarray(event) > 0) & (c > 0)
    loglik, h, atoms, jumps = 0.0, np.zeros(n, eta.dtype), [], []
    for g in range(stratum.max() + 1):
        for t in np.unique(time[death & (stratum == g)]):
            at_risk = (stratum == g) & (start < t) & (t <= time) & (c > 0)
            tied = death & (stratum == g) & (time == t)
            deaths, total = tied.sum(), c[tied].sum()
            loglik += c[tied] @ eta[tied]
            fractions = np.arange(deaths) / deaths if ties == "efron" else np.zeros(1)
            top, jump = eta[at_risk].max(), 0.0
            w = np.where(at_risk, c * np.exp(np.where(at_risk, eta - top, 0.0)), 0.0)
            for fraction in fractions:
                held_back = w * (1.0 - fraction * tied)
                d = total / len(fractions)
                loglik -= d * (np.log(held_back.sum()) + top)
                p = held_back / held_back.sum()
                h += d * p
                atoms.append(Atom(d, p, g, t))
                jump += d / held_back.sum()
            jumps.append((g, t, np.log(jump) - top))
    return Evaluation(loglik, np.where(death, c, 0.0) - h, h, stratum, atoms, jumps)


def exact_hessian(evaluation):
    """-d2 loglik / d eta2."""
    if evaluation.hessian is not None:
        return evaluation.hessian
    n = len(evaluation.u)
    hessian = np.zeros((n, n))
    for atom in evaluation.atoms:
        hessian += atom.weight * (np.diag(atom.p) - np.outer(atom.p, atom.p))
    return hessian


def information(X, evaluation):
    """X' (-d2 loglik / d eta2) X, without a matrix of rows by rows where atoms do."""
    if evaluation.hessian is not None:
        return X.T @ evaluation.hessian @ X
    total = np.zeros((X.shape[1], X.shape[1]))
    for atom in evaluation.atoms:
        centred = X - atom.p @ X
        total += atom.weight * (centred.T * atom.p) @ centred
    return total


def difference_gradient(evaluate, eta, step=1e-5):
    """Central differences of the log-likelihood."""
    steps = step * np.eye(len(eta))
    return np.array([evaluate(eta + d).loglik - evaluate(eta - d).loglik for d in steps]) / (
        2 * step
    )


def difference_hessian(evaluate, eta, step=1e-5):
    """-d2 loglik / d eta2 by central differences of u."""
    steps = step * np.eye(len(eta))
    return np.array([evaluate(eta - d).u - evaluate(eta + d).u for d in steps]) / (2 * step)


def model_hessian(h, groups):
    """diag(h) - sum_g h_g h_g' / 1'h_g; diag(h) where no mean is free."""
    model = np.diag(h)
    for g in () if groups is None else np.unique(groups):
        h_g = np.where(groups == g, h, 0.0)
        if h_g.sum() > 0:
            model -= np.outer(h_g, h_g) / h_g.sum()
    return model


def bin_hessian(atoms, bins):
    """diag(sum_k h_k) - sum_k h_k h_k' / N_k for any partition of the atoms into bins."""
    n = len(atoms[0].p)
    model, bins = np.zeros((n, n)), np.asarray(bins)
    for k in np.unique(bins):
        members = [atom for atom, bin_ in zip(atoms, bins, strict=True) if bin_ == k]
        h_k = sum(atom.weight * atom.p for atom in members)
        model += np.diag(h_k) - np.outer(h_k, h_k) / sum(atom.weight for atom in members)
    return model


def baseline(evaluation, stratum, at):
    """Cumulative hazard of one stratum at eta = 0, at the given times."""
    return np.array(
        [
            sum(np.exp(log_jump) for g, t, log_jump in evaluation.jumps if g == stratum and t <= q)
            for q in at
        ]
    )


def split_rows(time, event, cuts, start=None):
    """Episodes of every row: arrays (row, piece, start, time, event), pieces (c_{b-1}, c_b]."""
    edges = [-np.inf, *sorted(cuts), np.inf]
    start = np.full(len(time), -np.inf) if start is None else start
    episodes = []
    for i in range(len(time)):
        for b in range(len(edges) - 1):
            low, high = max(start[i], edges[b]), min(time[i], edges[b + 1])
            if low < high:
                episodes.append((i, b, low, high, bool(event[i]) and high == time[i]))
    row, piece, low, high, death = (np.array(column) for column in zip(*episodes, strict=True))
    return row, piece, low, high, death


def penalty(coef, lam, l1_ratio=1.0, factor=1.0):
    """sum_j lam f_j (rho |b_j| + (1 - rho) b_j^2 / 2)."""
    return float(np.sum(lam * factor * (l1_ratio * np.abs(coef) + (1 - l1_ratio) / 2 * coef**2)))


def kkt(X, u, coef, lam, l1_ratio=1.0, factor=1.0):
    """Violation of stationarity, per column."""
    l1, l2 = lam * l1_ratio * factor, lam * (1 - l1_ratio) * factor
    slope = X.T @ u - l2 * coef
    at_zero = np.maximum(np.abs(slope) - l1, 0.0)
    return np.where(coef != 0, np.abs(slope - l1 * np.sign(coef)), at_zero)


def duality_gap(X, evaluation, coef, lam, l1_ratio=1.0, factor=1.0, highest=0.0):
    """Upper bound of objective - optimum; every column penalized."""
    gradient = np.abs(X.T @ evaluation.u)
    l1, l2 = lam * l1_ratio * factor, lam * (1 - l1_ratio) * factor
    if l1_ratio < 1:
        scale = 1.0
        conjugate = float(np.sum(np.maximum(gradient - l1, 0.0) ** 2 / (2 * l2)))
    else:
        scale = float(np.min(l1 / np.maximum(gradient, l1)))
        conjugate = 0.0
    inner = float(coef @ (X.T @ evaluation.u))
    return (
        (1 - scale) * (highest - evaluation.loglik)
        + penalty(coef, lam, l1_ratio, factor)
        - scale * inner
        + conjugate
    )
