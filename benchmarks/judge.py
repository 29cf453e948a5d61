r"""The worth of an answer, recomputed without the package: objective and KKT residual.

Log-likelihoods, each with its derivative by the linear predictor of every row. NumPy alone; sums of
exponentials run in logarithms. Generalized linear models are those of the tests' oracles; the
others' definitions there take rows times events, so that what is here is written for many rows, and
`tests/test_benchmarks.py` compares the two.

Cox, Breslow's ties, strata. Rows sorted by (stratum, time); a group g is a set of equal times in a
stratum with d_g events and risk sum S_g, over the rows from its first one to the stratum's end:

.. math:: \ell = \sum_i \delta_i (\eta_i - \log S_{g(i)}), \quad
          u_i = \delta_i - \exp(\eta_i + \log\sum_{g \le g(i)} d_g / S_g).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

# The oracles are modules of the tests, which are no package.
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
from oracles.reference_glm import family_terms, null_intercept


class Certificate:
    """Judge of coefficients for one data set."""

    def __init__(self, data):
        self.data = data
        self._likelihood = likelihood_of(data)
        intercept = self._likelihood.null_intercept() if data.intercept else 0.0
        _, u = self._likelihood.evaluate(np.full(data.shape[0], intercept))
        self.penalty_max = float(np.abs(data.transposed_times(u)).max())

    def judge_path(self, coefs, penalties):
        """The last fit, with the largest KKT residual of all; intercepts are the best ones."""
        worst = 0.0
        for coef, penalty in zip(coefs, penalties, strict=True):
            intercept = 0.0
            if self.data.intercept:
                intercept = self._likelihood.null_intercept(self.data.times(coef))
            found = self.judge(coef, penalty, intercept)
            worst = max(worst, found["kkt"])
        return {**found, "kkt": worst}

    def judge(self, coef, penalty, intercept=0.0):
        """Objective, KKT residual relative to the largest penalty of use, and nonzeros.

        The residual of an intercept is the sum of the derivatives of all rows.
        """
        loglik, u = self._likelihood.evaluate(self.data.times(coef) + intercept)
        gradient = self.data.transposed_times(u)
        free = np.abs(gradient - penalty * np.sign(coef))
        violation = np.where(coef != 0, free, np.maximum(np.abs(gradient) - penalty, 0.0)).max()
        if self.data.intercept:
            violation = max(violation, abs(u.sum()))
        return {
            "objective": penalty * float(np.abs(coef).sum()) - loglik,
            "kkt": float(violation) / self.penalty_max,
            "nonzeros": int(np.count_nonzero(coef)),
        }


class Cox:
    """Breslow's partial likelihood; running sums by doubling, O(n log n)."""

    def __init__(self, data):
        time = data["time"]
        stratum = np.zeros(len(time), int) if data["stratum"] is None else data["stratum"]
        self._order = np.lexsort((time, stratum))
        time, stratum = time[self._order], stratum[self._order]
        self._event = data["event"][self._order].astype(float)
        new_stratum = np.append(True, stratum[1:] != stratum[:-1])
        new_group = new_stratum | np.append(True, time[1:] != time[:-1])
        self._from_head = _distance(new_stratum)
        self._from_end = _distance(np.append(new_stratum[1:], True)[::-1])
        self._heads = np.flatnonzero(new_group)
        self._group = np.cumsum(new_group) - 1

    def evaluate(self, eta):
        eta = eta[self._order]
        log_risk = _sum_logs(eta[::-1], self._from_end)[::-1][self._heads]
        loglik = float(self._event @ (eta - log_risk[self._group]))
        with np.errstate(divide="ignore"):
            log_deaths = np.log(np.add.reduceat(self._event, self._heads))
        jumps = np.full(len(eta), -np.inf)
        jumps[self._heads] = log_deaths - log_risk
        u = np.empty(len(eta))
        u[self._order] = self._event - np.exp(eta + _sum_logs(jumps, self._from_head))
        return loglik, u


class FineGray:
    r"""Subdistribution hazards: rows with a competing event stay at risk, by G(t-)/G(T-).

    G is the Kaplan-Meier curve of the censoring; its factor at s is 1 - (censored at s)/(rows with
    a time of at least s).
    """

    def __init__(self, data):
        self._order = np.argsort(data["time"], kind="stable")
        time, event = data["time"][self._order], data["event"][self._order]
        new = np.append(True, time[1:] != time[:-1])
        self._heads, self._group = np.flatnonzero(new), np.cumsum(new) - 1
        self._of_interest, self._competing = (event == 1).astype(float), event == 2
        censored = np.add.reduceat((event == 0).astype(float), self._heads)
        with np.errstate(divide="ignore"):  # the last factor may be zero; nothing comes after it
            log_factors = np.log1p(-censored / (len(time) - self._heads))
            self._log_deaths = np.log(np.add.reduceat(self._of_interest, self._heads))
        self._log_before = np.append(0.0, np.cumsum(log_factors[:-1]))  # log G(t-)

    def evaluate(self, eta):
        eta = eta[self._order]
        add = np.logaddexp.accumulate
        carried = np.where(self._competing, eta - self._log_before[self._group], -np.inf)
        earlier = np.append(-np.inf, add(carried))[self._heads]
        observed = add(eta[::-1])[::-1][self._heads]
        log_risk = np.logaddexp(observed, self._log_before + earlier)
        loglik = float(self._of_interest @ (eta - log_risk[self._group]))
        jumps = self._log_deaths - log_risk
        until = add(jumps)
        later = np.append(add((jumps + self._log_before)[::-1])[-2::-1], -np.inf)
        expected = np.exp(eta + until[self._group]) + np.exp(carried + later[self._group])
        u = np.empty(len(eta))
        u[self._order] = self._of_interest - expected
        return loglik, u


class Multinomial:
    """A group's counts over its rows, by exp(eta) and exposure: case series; Breslow's sets."""

    def __init__(self, data):
        self._order = np.argsort(data["group"], kind="stable")
        group = data["group"][self._order]
        new = np.append(True, group[1:] != group[:-1])
        self._heads, self._group = np.flatnonzero(new), np.cumsum(new) - 1
        exposure = data["exposure"]
        self._offset = 0.0 if exposure is None else np.log(exposure)[self._order]
        self._count = data["y"][self._order]
        self._total = np.add.reduceat(self._count, self._heads)

    def evaluate(self, eta):
        z = eta[self._order] + self._offset
        z = z - np.maximum.reduceat(z, self._heads)[self._group]
        w = np.exp(z)
        total = np.add.reduceat(w, self._heads)
        u = np.empty(len(eta))
        u[self._order] = self._count - w * (self._total / total)[self._group]
        return float(self._count @ z - self._total @ np.log(total)), u


class ExactSets:
    r"""Cases of a matched set given their number, by recursion over rows in logarithms.

    :math:`B_k(j) = B_k(j-1) + e^{\eta_j} B_{k-1}(j-1)`, forward and backward; sets of all sizes
    and numbers of cases at once, filled up with rows that are never cases.
    """

    def __init__(self, data):
        group, y = np.unique(data["group"], return_inverse=True)[1], data["y"]
        self._cases = np.bincount(group, y).astype(int)
        order = np.argsort(group, kind="stable")
        sizes = np.bincount(group)
        place = np.arange(len(y)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        self._where = np.empty((2, len(y)), int)
        self._where[:, order] = group[order], place
        self._y, self._size = y, int(sizes.max())

    def evaluate(self, eta):
        z = np.full((len(self._cases), self._size), -np.inf)
        z[tuple(self._where)] = eta
        forward, backward = self._tables(z), self._tables(z[:, ::-1])[::-1]
        sets, most = np.arange(len(self._cases)), self._cases.max()
        log_all = forward[-1][sets, self._cases]
        chosen = np.zeros(z.shape)
        for j in range(self._size):
            others = np.full(len(sets), -np.inf)  # one case fewer, among the other rows
            for k in range(most):
                rest = self._cases - 1 - k
                pair = forward[j][:, k] + backward[j + 1][sets, np.maximum(rest, 0)]
                others = np.logaddexp(others, np.where(rest >= 0, pair, -np.inf))
            chosen[:, j] = np.exp(z[:, j] + others - log_all)
        loglik = float(self._y @ eta - log_all.sum())
        return loglik, self._y - chosen[tuple(self._where)]

    def _tables(self, z):
        """log B for the first 0, 1, 2, ... rows of every set."""
        table = np.full((self._size + 1, len(z), self._cases.max() + 1), -np.inf)
        table[:, :, 0] = 0.0
        for j in range(self._size):
            more = z[:, j, None] + table[j][:, :-1]
            table[j + 1][:, 1:] = np.logaddexp(table[j][:, 1:], more)
        return table


class Glm:
    """Logistic, Poisson with exposures (without the term log(y!)), half the sum of squares."""

    def __init__(self, data):
        self._family = FAMILIES.get(data.model, data.model)
        self._y, exposure = data["y"], data["exposure"]
        self._offset = np.zeros(len(self._y)) if exposure is None else np.log(exposure)

    def evaluate(self, eta):
        terms, mean, _ = family_terms(eta + self._offset, self._y, self._family)
        return float(terms.sum()), self._y - mean

    def null_intercept(self, eta=0.0):
        """The best one."""
        return float(null_intercept(self._y, self._family, self._offset + eta))


FAMILIES = {"linear": "gaussian"}


def likelihood_of(data):
    """The likelihood of a data set's model."""
    if data.model == "matched":
        return (ExactSets if data.ties == "exact" else Multinomial)(data)
    models = {"cox": Cox, "fine-gray": FineGray, "case-series": Multinomial}
    return models.get(data.model, Glm)(data)


def _distance(is_head):
    """Rows since the last head."""
    rows = np.arange(len(is_head))
    return rows - np.maximum.accumulate(np.where(is_head, rows, 0))


def _sum_logs(terms, distance):
    """Running log(sum(exp(terms))) that begins anew where `distance` is 0."""
    total, shift = terms.copy(), 1
    while shift <= distance.max():
        inside = np.flatnonzero(distance >= shift)
        total[inside] = np.logaddexp(total[inside], total[inside - shift])
        shift *= 2
    return total
