r"""How probabilities of states, and times there, vary that follow from hazards of transitions.

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

d being counted to the coefficients of the hazard, which it may share with others. For the expected
time in a state v is that from s to t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .._compile import device, kernel
from ..information.inverse import Inverse, invert
from ..patterns.risk_sets.hazards import AtomsOfStratum, HazardSpread
from ._curves import Lines

AT_ONCE = 2**23  # numbers of the new rows at work, 64 MiB an array
N_PARTS = 32  # of a time at which a state is both left and entered
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
    inverse: Inverse
    information: np.ndarray  # of all coefficients
    is_lost: np.ndarray  # coefficients that are infinite

    @classmethod
    def of(cls, each, joint=None) -> Transitions:
        """Information of coefficients, the sum of those of the hazards that have them."""
        n_coef = 1 + max(int(q.place.max()) for q in each)
        total, size = np.zeros((n_coef, n_coef)), np.zeros(n_coef)
        for q in each:
            information, own = q.view.information()
            total[np.ix_(q.place, q.place)] += information
            size[q.place] += own
        models = [q.lines.rows.estimator for q in each] if joint is None else [joint]
        is_lost = np.concatenate([model.infinite_ for model in models])
        return cls(each, invert(total, size).without_dependent(is_lost), total, is_lost)

    def errors(self, state, times, target, is_time):
        """Standard errors of probabilities of a state, from another one on, (n_rows, n_times).

        Or of the expected time there. NaN where they depend on what the data do not determine.
        """
        strata = np.stack([q.lines.strata for q in self.each])  # as each numbers its own
        found = np.empty((strata.shape[1], len(times)))
        kinds, of_row = np.unique(strata, axis=1, return_inverse=True)
        for k, own in enumerate(kinds.T):
            steps = [Increments.of(q, s, times[-1]) for q, s in zip(self.each, own, strict=True)]
            grid = self._parts_of(np.unique(np.concatenate([step.time for step in steps])), steps)
            worth = _worth(grid, times, is_time)
            rows = np.flatnonzero(of_row.ravel() == k)
            n_at_once = max(1, AT_ONCE // (len(times) * len(steps) * (1 + len(grid))))
            for first in range(0, len(rows), n_at_once):
                block = np.arange(first, min(first + n_at_once, len(rows)))
                found[rows[block]] = self._block(steps, block, grid, worth, (state, target))
        return found

    def _ends(self):
        return np.array([(q.origin, q.destination) for q in self.each]).T

    def _parts_of(self, grid, steps):
        """Times, in parts where a state is both left and entered: some go on within a time."""
        origin, destination = self._ends()
        has_event = np.array([np.isin(grid, step.time) for step in steps])
        is_passed = np.zeros(len(grid), bool)
        for state in np.intersect1d(origin, destination):
            left, entered = (has_event[ends == state].any(axis=0) for ends in (origin, destination))
            is_passed |= left & entered
        return np.repeat(grid, np.where(is_passed, N_PARTS, 1))

    def _block(self, steps, rows, grid, worth, states):
        """Standard errors of some rows, (n_rows, n_times)."""
        origin, destination = self._ends()
        at = [np.flatnonzero(np.isin(grid, step.time)) for step in steps]
        _, place, n_parts = np.unique(grid, return_inverse=True, return_counts=True)
        part = 1.0 / n_parts[place]
        size = np.zeros((len(rows), len(steps), len(grid)))
        for q, step in enumerate(steps):
            own = np.searchsorted(step.time, grid[at[q]])
            size[:, q, at[q]] = step.size(rows)[:, own] * part[at[q]]
        path = np.empty((len(grid) + 1, 1 + max(*origin, *destination, *states)))
        weight = np.zeros((len(rows), len(worth), *size.shape[1:]))
        _weigh(size, origin, destination, states, worth, path, weight)
        variance, amount = np.zeros((2, len(rows), len(worth)))
        slope = np.zeros((*variance.shape, len(self.information)))
        for q, step in enumerate(steps):
            first = np.searchsorted(grid[at[q]], step.time)
            own = np.add.reduceat(weight[:, :, q, at[q]] * part[at[q]], first, axis=2)
            variance += np.einsum("ijk,ik->ij", own**2, step.variance(rows))
            moves = own * step.size(rows)[:, None]
            amount += np.abs(moves).sum(axis=2)
            slope[:, :, self.each[q].place] += step.slopes(rows, moves)
        variance += ((slope @ self.inverse.matrix) * slope).sum(axis=2)
        error = np.sqrt(np.maximum(variance, 0.0))
        if not (self.inverse.identified & ~self.is_lost).all():
            contrasts = slope / np.where(amount > 0.0, amount, 1.0)[:, :, None]
            contrasts = contrasts.reshape(-1, len(self.information))
            is_known = self.inverse.determines(contrasts, self.information, self.is_lost)
            error[~is_known.reshape(error.shape)] = np.nan
        return error


class Increments(NamedTuple):
    """Increments of one hazard at its event times, for new rows of one stratum."""

    time: np.ndarray  # (n_times,)
    step: np.ndarray  # (n_times,): increments and their variance but for what rows are
    noise: np.ndarray
    scale: np.ndarray  # (n_rows, n_pieces): what rows are
    columns: np.ndarray  # (n_pieces, n_rows, n_coef) of the new rows
    piece: np.ndarray  # (n_times,)
    mean: np.ndarray  # (n_times, n_coef): of the rows at risk

    @classmethod
    def of(cls, transition, stratum, until) -> Increments:
        """Read what a fit knows of the events of a stratum, none where nobody was at risk."""
        lines, atoms = transition.lines.of_stratum(stratum), transition.spread.atoms(stratum)
        atoms = AtomsOfStratum(*(part[atoms.time <= until] for part in atoms))
        columns = lines.columns()
        # in the order of pieces, and so of time; of Efron's ties there are several atoms at one
        time, first = np.unique(atoms.time, return_index=True)
        piece, ends = atoms.piece[first], np.zeros(columns.shape[:2])
        if len(time):
            ends = lines.hazards(time[-1:])[:, :, 0]
        total = np.bincount(atoms.piece, atoms.step, len(ends))
        scale = np.divide(ends.T, total, out=np.zeros_like(ends.T), where=total > 0)
        step = np.add.reduceat(atoms.step, first)
        noise = np.add.reduceat(atoms.step * atoms.inverse, first)
        mean = np.add.reduceat(atoms.step[:, None] * atoms.mean, first) / step[:, None]
        return cls(time, step, noise, scale, columns, piece, mean)

    def size(self, rows):
        """Increments of rows, (n_rows, n_times)."""
        return self.scale[rows][:, self.piece] * self.step

    def variance(self, rows):
        """Their variances at known coefficients, (n_rows, n_times)."""
        return self.scale[rows][:, self.piece] ** 2 * self.noise

    def slopes(self, rows, moves):
        """Derivatives in the coefficients of sums that count increments, (n_rows, n_sums, n_coef).

        `moves` are the increments times what they count, (n_rows, n_sums, n_times).
        """
        slopes = -moves @ self.mean
        for piece, x in enumerate(self.columns[:, rows]):
            slopes += moves[:, :, self.piece == piece].sum(axis=2)[:, :, None] * x[:, None]
        return slopes


@device
def _leaving(size, origin, state, t):
    """Hazard out of a state at a time; probabilities to stay, and E."""
    total = 0.0
    for q in range(len(origin)):
        if origin[q] == state:
            total += size[q, t]
    return total, np.exp(-total), -np.expm1(-total) / total if total > 0.0 else 1.0


def _worth(grid, times, is_time):
    """Gain of being in a state from each time of the grid on, (n_times, n_grid)."""
    if is_time:
        return np.maximum(np.minimum(np.append(grid[1:], np.inf), times[:, None]) - grid, 0.0)
    last = np.searchsorted(grid, times, side="right")
    return (np.arange(1, len(grid) + 1) == last[:, None]).astype(float)


@kernel
def _weigh(size, origin, destination, states, worth, path, weight):
    """How much increments of rows, (n_rows, n_kinds, n_times), count for each of `worth`."""
    for row in range(len(size)):
        path[:] = 0.0
        path[0, states[0]] = 1.0
        _go_forward(size[row], origin, destination, path)
        for h in range(len(worth)):
            _go_back(size[row], worth[h], origin, destination, path, states[1], weight[row, h])


@device
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


@device
def _go_back(size, worth, origin, destination, path, target, weight):
    """How much increments count for what being in a state is worth after each time."""
    later, before = np.zeros(path.shape[1]), np.zeros(path.shape[1])
    for t in range(len(worth) - 1, -1, -1):
        later[target] += worth[t]
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
        later, before = before, later
