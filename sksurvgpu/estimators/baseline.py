r"""Baseline hazards, and the curves of rows.

A solver returns the baseline hazard accumulated over the cells (event times) of every group
(piece of time, stratum). With :math:`A_b` the part that falls into piece b, a row in stratum s has

.. math:: \Lambda(t \mid x) = \sum_b A_{b,s}(t)\, e^{\eta_b(x)}, \quad
          S(t \mid x) = e^{-\Lambda(t \mid x)} .

Times are those of all rows of the stratum, events and censorings, as in scikit-survival.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sksurv.functions import StepFunction

from ..data.checks import check_labels

__all__ = ["Baseline", "Timeline"]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Where a fit's cells lie in time; enough to turn hazards into step functions.

    Attributes
    ----------
    cell_ptr : ndarray of shape (n_pieces * n_strata + 1,)
        Cells of each group, strata inside pieces.
    cell_time : ndarray of shape (n_cells,)
        Event time of each cell, NaN for the first of a group.
    labels : ndarray of shape (n_strata,) or None
        Stratum labels; None for an unstratified model.
    times : tuple of n_strata ndarrays
        Distinct times of each stratum's rows with positive weight.
    """

    cell_ptr: np.ndarray
    cell_time: np.ndarray
    labels: np.ndarray | None
    times: tuple[np.ndarray, ...]

    @classmethod
    def of(cls, plan, outcome, weight) -> Timeline:
        """Read the times of a plan's rows."""
        order = plan.order
        if plan.n_strata > 1:
            order = np.lexsort((outcome.time, outcome.stratum))
        if weight is not None:
            order = order[weight[order] > 0]
        time = outcome.time[order]
        stratum = np.zeros(len(time), int) if outcome.stratum is None else outcome.stratum[order]
        is_new = np.ones(len(time), bool)
        is_new[1:] = (np.diff(time) != 0) | (np.diff(stratum) != 0)
        ends = np.cumsum(np.bincount(stratum[is_new], minlength=plan.n_strata))
        times = tuple(np.split(time[is_new], ends[:-1]))
        return cls(plan.cell_ptr, plan.cell_time, outcome.stratum_labels, times)

    def hazards(self, cells) -> tuple[np.ndarray, ...]:
        """Per stratum, the hazard accumulated inside each piece, (n_pieces, n_times)."""
        n_strata = len(self.times)
        n_pieces = (len(self.cell_ptr) - 1) // n_strata
        out = tuple(np.zeros((n_pieces, len(times))) for times in self.times)
        for g in range(n_pieces * n_strata):
            piece, s = divmod(g, n_strata)
            low, high = self.cell_ptr[g], self.cell_ptr[g + 1]
            position = np.searchsorted(self.cell_time[low + 1 : high], self.times[s], side="right")
            out[s][piece] = cells[low + position] - cells[low]
        return out


@dataclass(frozen=True, eq=False)
class Baseline:
    """Baseline hazards of a fit, and the curves of rows given their hazard ratios."""

    labels: np.ndarray | None
    times: tuple[np.ndarray, ...]
    hazards: tuple[np.ndarray, ...]

    @property
    def unique_times(self) -> np.ndarray:
        """Distinct times of all strata."""
        return self.times[0] if len(self.times) == 1 else np.unique(np.concatenate(self.times))

    def functions(self, curve):
        """Curve at a zero predictor: a StepFunction, or {label: StepFunction} with strata."""
        steps = [
            _step_function(times, curve(hazard.sum(axis=0)), curve) if len(times) else None
            for times, hazard in zip(self.times, self.hazards, strict=True)
        ]
        if self.labels is None:
            return steps[0]
        pairs = zip(self.labels.tolist(), steps, strict=True)
        return {label: step for label, step in pairs if step is not None}

    def strata_of(self, strata, n_rows: int) -> np.ndarray:
        """Number of the stratum of every row."""
        if self.labels is None:
            if strata is not None:
                raise ValueError("`strata` was passed, but the model was fitted without strata.")
            return np.zeros(n_rows, int)
        if strata is None:
            raise ValueError(
                f"`strata` is missing: the model has {len(self.labels):,} strata with a baseline "
                "hazard each; pass one label per row."
            )
        from pandas import Index

        given = check_labels(strata, "strata", n_rows)
        code = Index(self.labels).get_indexer(Index(given))
        is_empty = np.array([len(times) == 0 for times in self.times])
        unknown = (code < 0) | is_empty[code]
        if unknown.any():
            row = int(np.argmax(unknown))
            known = ", ".join(map(repr, self.labels[:5].tolist()))
            raise ValueError(
                f"`strata` is {given[row].item()!r} in row {row:,}, a label without rows in the "
                f"fit; known are {known}{', ...' if len(self.labels) > 5 else ''}."
            )
        return code

    def arrays(self, ratios, strata, curve) -> np.ndarray:
        """Curve of every row at `unique_times`; NaN beyond the follow-up of its stratum."""
        unique = self.unique_times
        out = np.empty((len(ratios), len(unique)))
        by_stratum = np.argsort(strata, kind="stable")
        ends = np.cumsum(np.bincount(strata, minlength=len(self.times)))
        for s, rows in enumerate(np.split(by_stratum, ends[:-1])):
            if len(rows) == 0:
                continue
            before = np.searchsorted(self.times[s], unique, side="right")
            padded = np.pad(self.hazards[s], ((0, 0), (1, 0)))
            values = curve(ratios[rows] @ padded[:, before])
            values[:, unique > self.times[s][-1]] = np.nan
            out[rows] = values
        return out

    def row_functions(self, ratios, strata, curve) -> np.ndarray:
        """Curve of every row as an object array of step functions."""
        out = np.empty(len(ratios), dtype=object)
        if curve is cumulative_hazard and ratios.shape[1] == 1:  # all rows share their values
            shared = {
                s: _step_function(self.times[s], self.hazards[s][0], curve)
                for s in np.unique(strata)
            }
            for i, s in enumerate(strata):
                out[i] = StepFunction(shared[s].x, shared[s].y, a=ratios[i, 0])
            return out
        for i, s in enumerate(strata):
            out[i] = _step_function(self.times[s], curve(ratios[i] @ self.hazards[s]), curve)
        return out


def _step_function(times, values, curve):
    """Step function from time 0 on; without a first step it would start at the first event."""
    initial = curve(np.zeros(1))
    if values[0] != initial[0] and times[0] > 0:
        times, values = np.append(0.0, times), np.append(initial, values)
    return StepFunction(times, values)


def cumulative_hazard(hazard):
    """Curve of the cumulative hazard, itself."""
    return hazard


def survival(hazard):
    """Curve of the survival probability."""
    return np.exp(-hazard)
