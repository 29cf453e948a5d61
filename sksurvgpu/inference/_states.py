r"""How probabilities of states vary that follow from the hazards of several transitions.

At a time with increments :math:`a_q` of a row's hazards, whoever is in state i stays there with
probability :math:`e^{-a}`, a being the sum of those out of i, and goes to j with
:math:`a_{ij} E`, :math:`E = (1 - e^{-a}) / a`. With P the matrix of these, p the probabilities
of states before s, and :math:`v(s)` those of the state that is asked for, by t and from each state
after s,

.. math:: c_q(s) = \frac{\partial\, p^\top P(s)\, v(s)}{\partial a_q(s)}

says how much an increment counts. Events of different kinds are independent given the past, so that
with the variance :math:`w_q(s)` of an increment at known coefficients, and the covariance V of
all coefficients, the probability has the variance

.. math:: \sum_q \sum_{s \le t} c_q(s)^2 w_q(s) + d^\top V d, \quad
          d = \sum_q \sum_{s \le t} c_q(s) a_q(s) (x - \bar x_q(s)),

d being counted to the coefficients of the hazard, which it may share with others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._compile import device, kernel
from ..information.inverse import invert
from ..patterns.risk_sets.hazards import HazardSpread
from ._curves import Lines

__all__ = ["Transition", "Transitions"]

FLAT = 1e-6  # hazard below which (e^-a - E) / a is its limit, to as many digits


class Transition(NamedTuple):
    """A hazard: between which states, rows of the fit and new ones, where its coefficients are."""

    origin: int
    destination: int
    view: Any
    lines: Lines
    place: np.ndarray  # int64 (n_coef,): of all coefficients
    spread: HazardSpread


@dataclass(frozen=True, eq=False)
class Transitions:
    """All hazards, and what their coefficients vary by."""

    each: list[Transition]
    covariance: np.ndarray  # of all coefficients

    @classmethod
    def of(cls, each) -> Transitions:
        """Information of coefficients, the sum of those of the hazards that have them."""
        n_coef = 1 + max(int(q.place.max()) for q in each)
        total, size = np.zeros((n_coef, n_coef)), np.zeros(n_coef)
        for q in each:
            information, own = q.view.information()
            total[np.ix_(q.place, q.place)] += information
            size[q.place] += own
        return cls(each, invert(total, size).covariance)

    def errors(self, state, times, target):
        """Standard errors of probabilities of a state, from another one on, (n_rows, n_times)."""
        strata = np.stack([q.lines.strata for q in self.each])  # as each numbers its own
        found = np.empty((strata.shape[1], len(times)))
        kinds, of_row = np.unique(strata, axis=1, return_inverse=True)
        for k, own in enumerate(kinds.T):
            steps = [Increments.of(q, s, times[-1]) for q, s in zip(self.each, own, strict=True)]
            grid = np.unique(np.concatenate([step.time for step in steps]))
            last = np.searchsorted(grid, times, side="right")
            for number, i in enumerate(np.flatnonzero(of_row.ravel() == k)):
                found[i] = self._row(steps, number, grid, last, (state, target))
        return found

    def _row(self, steps, i, grid, last, states):
        """Standard errors of one row, (n_times,)."""
        origin, destination = (np.array([getattr(q, end) for q in self.each]) for end in ENDS)
        size = np.zeros((len(steps), len(grid)))
        at = [np.searchsorted(grid, step.time) for step in steps]
        for q, step in enumerate(steps):
            size[q, at[q]] = step.size[i]
        path = np.zeros((len(grid) + 1, 1 + max(*origin, *destination, *states)))
        path[0, states[0]] = 1.0
        _go_forward(size, origin, destination, path)
        weight, out = np.empty_like(size), np.empty(len(last))
        for h, end in enumerate(last):
            weight[:, end:] = 0.0
            _go_back(size[:, :end], origin, destination, path, states[1], weight)
            variance, slope = 0.0, np.zeros(len(self.covariance))
            for q, step in enumerate(steps):
                own = weight[q, at[q]]
                variance += own**2 @ step.variance[i]
                slope[self.each[q].place] += own @ step.slope(i)
            used = slope != 0.0
            variance += slope[used] @ self.covariance[np.ix_(used, used)] @ slope[used]
            out[h] = np.sqrt(max(variance, 0.0))
        return out


ENDS = ("origin", "destination")


class Increments(NamedTuple):
    """Increments of one hazard at its event times, for new rows of one stratum."""

    time: np.ndarray  # (n_times,)
    size: np.ndarray  # (n_rows, n_times)
    variance: np.ndarray  # (n_rows, n_times)
    columns: np.ndarray  # (n_pieces, n_rows, n_coef) of the new rows
    piece: np.ndarray  # (n_times,)
    mean: np.ndarray  # (n_times, n_coef): of the rows at risk

    @classmethod
    def of(cls, transition, stratum, until) -> Increments:
        """Read what a fit knows of the events of a stratum."""
        lines = transition.lines.of_stratum(stratum)
        atoms = transition.spread.atoms(stratum)
        is_before = atoms.time <= until
        time, at = np.unique(atoms.time[is_before], return_inverse=True)
        ends = lines.hazards(np.append(-1.0, time)[-1:])[:, :, 0]  # (n_pieces, n_rows)
        total = np.bincount(atoms.piece[is_before], atoms.step[is_before], len(ends))
        scale = np.divide(ends.T, total, out=np.zeros_like(ends.T), where=total > 0)
        piece = np.zeros(len(time), np.int64)
        piece[at] = atoms.piece[is_before]
        step = np.bincount(at, atoms.step[is_before], len(time))
        noise = np.bincount(at, (atoms.step * atoms.inverse)[is_before], len(time))
        mean = np.zeros((len(time), atoms.mean.shape[1]))
        np.add.at(mean, at, (atoms.step[:, None] * atoms.mean)[is_before])
        mean = np.divide(mean, step[:, None], out=np.zeros_like(mean), where=step[:, None] > 0)
        scale = scale[:, piece]
        return cls(time, scale * step, scale**2 * noise, lines.columns(), piece, mean)

    def slope(self, i):
        """Derivative of a row's increments in the coefficients, (n_times, n_coef)."""
        return self.size[i, :, None] * (self.columns[self.piece, i] - self.mean)


@device
def _leaving(size, origin, state, t):
    """Hazard out of a state at a time; probabilities to stay, and E."""
    total = 0.0
    for q in range(len(origin)):
        if origin[q] == state:
            total += size[q, t]
    return total, np.exp(-total), -np.expm1(-total) / total if total > 0.0 else 1.0


@kernel
def _go_forward(size, origin, destination, path):
    """Probabilities of states after every time, from those before the first."""
    for t in range(size.shape[1]):
        for state in range(path.shape[1]):
            here = path[t, state]
            if here == 0.0:
                continue
            _, stay, go = _leaving(size, origin, state, t)
            path[t + 1, state] += here * stay
            for q in range(len(origin)):
                if origin[q] == state:
                    path[t + 1, destination[q]] += here * go * size[q, t]


@kernel
def _go_back(size, origin, destination, path, target, weight):
    """How much increments count for the probability of a state after the last time."""
    later, before = np.zeros(path.shape[1]), np.zeros(path.shape[1])
    later[target] = 1.0
    for t in range(size.shape[1] - 1, -1, -1):
        for state in range(len(later)):
            total, stay, go = _leaving(size, origin, state, t)
            bend = (stay - go) / total if total > FLAT else -0.5
            away = 0.0
            for q in range(len(origin)):
                if origin[q] == state:
                    away += size[q, t] * later[destination[q]]
            for q in range(len(origin)):
                if origin[q] == state:
                    gain = go * later[destination[q]] + bend * away - stay * later[state]
                    weight[q, t] = path[t, state] * gain
            before[state] = stay * later[state] + go * away
        later[:] = before
