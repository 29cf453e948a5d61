"""Models of fits with noise: sums over rows, of which each changes little, and steps by these.

Cox, with times rounded up to a grid t_1 < ... < t_K.  Told are deaths D_k and, at the coefficients
b of every step, sums E_k of w_i = exp(x_i'b) of rows that end at t_k, of which

    S_k = E_k + ... + E_K,    A_k = D_1 / S_1 + ... + D_k / S_k
    g = sum_i x_i (d_i - w_i A(t_i)),    M = sum_i x_i x_i' w_i A(t_i)
    L_B = sum_i x_i w_i sum_{k in B, t_k <= t_i} D_k / S_k,    H = M - sum_B L_B L_B' / N_B

follow: the gradient and, with bins B of time that have N_B deaths each, the information (m_k, the
mean of x at t_k, is taken as L_B / N_B).  As A is known to all, a row's part of g is x_i times a
number that is bounded, and it is in no other row's part.  The step is b + H^-1 g, of the
variance

    H^-1 + H^-1 (v_g + v_D sum_k m_k m_k' + v_E sum_j c_j c_j' + V_H) H^-1
    c_j = sum_{k <= j} m_k D_k / S_k,    V_H = v_H (s's I + s s')

where v are the variances of noise; the terms with D and E are what theirs does to g, and the last
is what that of entries of H does to the step s.

Logistic: z_i = (1, x_i), g = sum_i z_i (y_i - p_i), H = sum_i z_i z_i' p_i (1 - p_i).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from .layout import square_of
from .noise import Release

N_BINS = 8
KEEPS = 10.0  # standard deviations that rows at risk are above the noise, at the last time


class PublicPoint(NamedTuple):
    """Where sums are told, which all know; of models without time by coefficients alone."""

    coef: np.ndarray
    hazard: np.ndarray = np.zeros(0)
    bins: np.ndarray = np.zeros(0, np.int64)  # of times

    @property
    def parts(self):
        """Cumulative hazard by time and bin (n_times, N_BINS)."""
        table = np.zeros((len(self.hazard), N_BINS))
        table[np.arange(len(self.hazard)), self.bins] = self.hazard
        return np.cumsum(table, axis=0)


class Told(NamedTuple):
    """Sums of a step.

    spread   covariance of the gradient's noise, that of sums by time in it, too
    error    standard deviation of the noise of an entry of the information
    """

    gradient: np.ndarray
    spread: np.ndarray
    information: np.ndarray
    error: float

    def spread_of(self, step):
        """Covariance of what the information's noise does to its product with a step."""
        length = step @ step
        return self.error**2 * (length * np.eye(len(step)) + np.outer(step, step))


def _pairs(x, weight, release):
    """Upper triangle of x'x, weighted."""
    first, second = np.triu_indices(x.shape[1])
    return release.round(x[:, first] * x[:, second] * weight[:, None]).sum(axis=0)


class CoxSteps:
    """Sums of rows by time, and steps by these; follow-up may end before the grid does."""

    has_time, effect = True, "hazard_ratio"

    # The sums of some rows; of the last time of a point are all rows that end there or later.
    @staticmethod
    def counts(own, rows, point, release):
        n, one = release.size // 2, release.round(1.0)
        deaths = np.bincount(own.cell[rows], own.event[rows], n)
        return one * np.concatenate([deaths, np.bincount(own.cell[rows], minlength=n)])

    @staticmethod
    def risk(own, rows, point, release):
        w = np.exp(own.predictors(rows, point.coef))
        cell = np.minimum(own.cell[rows], release.size - 1)
        return np.bincount(cell, release.round(w), release.size)

    @staticmethod
    def _hazard(own, rows, point):
        """Event, relative hazard and last time of rows."""
        n = len(point.hazard)
        cell, event = own.cell[rows], own.event[rows] & (own.cell[rows] < n)
        return event, np.exp(own.predictors(rows, point.coef)), np.minimum(cell, n - 1)

    @classmethod
    def gradient(cls, own, rows, point, release):
        event, w, cell = cls._hazard(own, rows, point)
        residual = event - w * np.cumsum(point.hazard)[cell]
        return release.round(own.x[rows] * residual[:, None]).sum(axis=0)

    @classmethod
    def matrix(cls, own, rows, point, release):
        _, w, cell = cls._hazard(own, rows, point)
        return _pairs(own.x[rows], w * np.cumsum(point.hazard)[cell], release)

    @classmethod
    def loads(cls, own, rows, point, release):
        _, w, cell = cls._hazard(own, rows, point)
        scale = w[:, None] * point.parts[cell]
        return np.array([release.round(own.x[rows] * s[:, None]).sum(axis=0) for s in scale.T])

    # What all parties make of them.
    def __init__(self, sums, noise, programme, n_columns):
        self._sums, self._noise, self._p = sums, noise, n_columns
        self._n_times, self._n_sites = len(programme.grid), len(programme.sites)

    def release(self, name, step, size, sensitivity):
        mu = self._noise.mu_at(name, step)
        return Release(name, size, sensitivity, mu, self._n_sites)

    def begin(self):
        """Coefficients of zero; rows at risk and deaths."""
        counts = self.release("counts", 0, 2 * self._n_times, 2.0**0.5)
        [found] = self._sums.ask([counts])
        deaths, ends = found.reshape(2, -1)
        at_risk = _suffix(ends)
        sigma = np.sqrt(counts.variance * np.arange(len(ends), 0, -1))
        n = int(np.argmin(np.append(at_risk > KEEPS * sigma, False)))
        if n < 2:
            raise ValueError(
                "there are too few rows for so much noise: those at risk cannot be told from it; "
                "take a larger epsilon, or fewer times in `grid`."
            )
        self.deaths, self.at_risk, self.n_rows = deaths[:n], at_risk[:n], at_risk[0]
        self.n_events = self.deaths.sum()
        self._of_counts = counts.variance
        by = np.cumsum(np.maximum(self.deaths, 0.0))
        share = (by - 0.5 * np.maximum(self.deaths, 0.0)) / max(by[-1], 1.0)
        self._bins = np.clip(np.floor(share * N_BINS), 0, N_BINS - 1).astype(np.int64)
        self._deaths_of = np.bincount(self._bins, self.deaths, N_BINS)
        return np.zeros(self._p)

    def step(self, step, coef):
        """Ask for the sums at coefficients."""
        reach = float(np.exp(self._noise.norm * np.linalg.norm(coef)))
        sums, of_ends = self._sums_at_risk(step, coef, reach)
        point = PublicPoint(coef, self.deaths / sums, self._bins)
        hazard, norm = np.cumsum(point.hazard), self._noise.norm
        most, least = max(hazard.max(), 1e-9), min(hazard.min(), 0.0)
        by_bin = float(np.linalg.norm(point.parts, axis=1).max())
        bounds = max(1.0 - reach * least, reach * most), reach * max(most, -least)
        p = self._p
        asked = [
            self.release("gradient", step, p, norm * bounds[0]),
            self.release("matrix", step, p * (p + 1) // 2, norm**2 * bounds[1]),
            self.release("loads", step, N_BINS * p, norm * reach * max(by_bin, 1e-9)),
        ]
        gradient, matrix, loads = self._sums.ask(asked, point)
        loads, matrix = loads.reshape(N_BINS, p), square_of(matrix, p)
        has = self._deaths_of > KEEPS**0.5 * self._of_counts**0.5
        unit = np.divide(1.0, self._deaths_of, out=np.zeros(N_BINS), where=has)
        matrix -= (loads.T * unit) @ loads - asked[2].variance * unit.sum() * np.eye(p)
        mean_of_bin = loads * unit[:, None]
        mean = mean_of_bin[self._bins]
        carried = np.cumsum(mean * point.hazard[:, None], axis=0)
        spread = asked[0].variance * np.eye(p)
        spread += self._of_counts * mean.T @ mean + of_ends * carried.T @ carried
        error = asked[1].variance + asked[2].variance * (mean_of_bin**2).sum()
        return Told(gradient, spread, matrix, error**0.5)

    def _sums_at_risk(self, step, coef, reach):
        """Sums of relative hazards at risk, and the variance of the noise at each time."""
        if step == 0:
            return self.at_risk, self._of_counts
        risk = self.release("risk", step, len(self.deaths), reach)
        [ends] = self._sums.ask([risk], PublicPoint(coef))
        return np.clip(_suffix(ends), self.at_risk / reach, self.at_risk * reach), risk.variance

    def project(self, coef):
        """Coefficients at which predictors are no larger than was said."""
        return _project(coef, self._noise)


def _suffix(numbers):
    return np.cumsum(numbers[::-1])[::-1]


def _project(coef, noise):
    longest = noise.effect / noise.norm * (1.0 - 1e-12)
    return coef * min(1.0, longest / max(float(np.linalg.norm(coef)), 1e-300))


class LogisticSteps:
    """Sums of rows, the first column of which is the intercept."""

    has_time, effect = False, "odds_ratio"
    KINDS = ("counts", "gradient", "matrix")

    @staticmethod
    def counts(own, rows, point, release):
        return release.round(1.0) * np.array([own.event[rows].sum(), len(own.event[rows])])

    @staticmethod
    def gradient(own, rows, point, release):
        residual = own.event[rows] - expit(own.predictors(rows, point.coef))
        return release.round(own.x[rows] * residual[:, None]).sum(axis=0)

    @staticmethod
    def matrix(own, rows, point, release):
        mean = expit(own.predictors(rows, point.coef))
        return _pairs(own.x[rows], mean * (1.0 - mean), release)

    def __init__(self, sums, noise, programme, n_columns):
        self._sums, self._noise, self._p = sums, noise, n_columns + 1
        self._n_sites, self._norm = len(programme.sites), float(np.hypot(1.0, noise.norm))

    def release(self, name, step, size, sensitivity):
        mu = self._noise.mu_at(name, step, self.KINDS)
        return Release(name, size, sensitivity, mu, self._n_sites)

    def begin(self):
        """The intercept alone."""
        [found] = self._sums.ask([self.release("counts", 0, 2, 2.0**0.5)])
        self.n_events, self.n_rows = found
        share = np.clip(self.n_events / max(self.n_rows, 1.0), 1e-6, 1.0 - 1e-6)
        return np.append(np.log(share / (1.0 - share)), np.zeros(self._p - 1))

    def step(self, step, coef):
        p = self._p
        asked = [
            self.release("gradient", step, p, self._norm),
            self.release("matrix", step, p * (p + 1) // 2, self._norm**2 / 4.0),
        ]
        gradient, matrix = self._sums.ask(asked, PublicPoint(coef))
        spread = asked[0].variance * np.eye(p)
        return Told(gradient, spread, square_of(matrix, p), asked[1].variance ** 0.5)

    def project(self, coef):
        return np.append(np.clip(coef[0], -20.0, 20.0), _project(coef[1:], self._noise))


MODELS: dict[str, Any] = {"CoxLassoCCD": CoxSteps, "LogisticCCD": LogisticSteps}
