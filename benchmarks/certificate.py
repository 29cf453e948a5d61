r"""What an answer is worth, recomputed without the package: objective and KKT residual.

Breslow's log partial likelihood with strata. Rows sorted by (stratum, time); a group g is a set of
equal times in a stratum with d_g events and risk sum S_g, over the rows from its first one to the
stratum's end:

.. math:: \ell = \sum_i \delta_i (\eta_i - \log S_{g(i)}), \quad
          u_i = \delta_i - \exp(\eta_i + \log\sum_{g \le g(i)} d_g / S_g).

Both sums run in logarithms and by doubling: O(n log n), no cancellation, no overflow.
"""

from __future__ import annotations

import numpy as np


class Certificate:
    """Judge of coefficients for one data set."""

    def __init__(self, data):
        self.data = data
        stratum = np.zeros(len(data.time), int) if data.stratum is None else data.stratum
        self._order = np.lexsort((data.time, stratum))
        time, stratum = data.time[self._order], stratum[self._order]
        self._event = data.event[self._order].astype(float)
        new_stratum = np.append(True, stratum[1:] != stratum[:-1])
        new_group = new_stratum | np.append(True, time[1:] != time[:-1])
        self._from_head = _distance(new_stratum)
        self._from_end = _distance(np.append(new_stratum[1:], True)[::-1])
        self._heads = np.flatnonzero(new_group)
        self._group = np.cumsum(new_group) - 1
        self.penalty_max = float(np.abs(self.gradient(np.zeros(data.shape[1]))).max())

    def judge(self, coef, penalty):
        """Objective, KKT residual relative to the largest penalty of use, and nonzeros."""
        loglik, u = self._evaluate(self.data.times(coef))
        gradient = self.data.transposed_times(u)
        free = np.abs(gradient - penalty * np.sign(coef))
        violation = np.where(coef != 0, free, np.maximum(np.abs(gradient) - penalty, 0.0))
        return {
            "objective": penalty * float(np.abs(coef).sum()) - loglik,
            "kkt": float(violation.max()) / self.penalty_max,
            "nonzeros": int(np.count_nonzero(coef)),
        }

    def gradient(self, coef):
        """Gradient of the log partial likelihood."""
        return self.data.transposed_times(self._evaluate(self.data.times(coef))[1])

    def _evaluate(self, eta):
        """Log partial likelihood, and its derivative by the linear predictor of every row."""
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
