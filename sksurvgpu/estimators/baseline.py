r"""Baseline hazards, and the curves of rows.

A solver returns the logarithm of the baseline hazard accumulated over the cells (event times) of
every group (piece of time, stratum). With :math:`A_b` the part that falls into piece b, a row in
stratum s has

.. math:: \Lambda(t \mid x) = \sum_b e^{\log A_{b,s}(t) + \eta_b(x)}, \quad
          S(t \mid x) = e^{-\Lambda(t \mid x)} .

Where rows lie far from zero, :math:`A_b` and :math:`e^{\eta_b}` overflow and underflow although
their product is moderate: only the sum of the logarithms is exponentiated.

Times are those of all rows of the stratum, events and censorings, as in scikit-survival; a curve
ends with the stratum, and says so to those who ask further.

Of a row that is known to be free of events until c, only the hazard after c counts: every
:math:`A_{b,s}(t)` becomes :math:`A_{b,s}(t) - A_{b,s}(c)`, and none before c.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from pandas import Index

from .._compile import kernel
from .._memory import available
from .._warnings import warn
from ..data.sorting import order_within
from ..data.vectors import check_labels, check_row_values
from ..nonparametric.kaplan_meier import EQUAL
from ..patterns.risk_sets.plan import distinct_pairs
from ._columns import check_strata_as_in_fit
from .hazard_curves import (
    AT_ONE_TIME,
    LongCurve,
    after_nothing,
    incidence,
    step_function,
    total_hazard,
)

BLOCK_NUMBERS = 2**18  # of the curves of the rows at work, 2 MiB an array
MANY_TIMES = 300  # of a curve: more take long, and much memory, in the curves of many rows


@dataclass(frozen=True, eq=False)
class Timeline:
    """Where a fit's cells lie in time; enough to turn hazards into step functions."""

    cell_ptr: np.ndarray  # (n_pieces * n_strata + 1,): cells of each group, strata inside pieces
    cell_time: np.ndarray  # (n_cells,): event time of each cell, NaN for the first of a group
    labels: np.ndarray | None  # (n_strata,): stratum labels; None for an unstratified model
    # (n_times,): distinct times of each stratum's rows with positive weight, stratum by stratum
    times: np.ndarray
    time_ptr: np.ndarray  # (n_strata + 1,): times of each stratum

    @classmethod
    def of(cls, plan, outcome, weight) -> Timeline:
        """Read the times of a plan's rows."""
        order = plan.order if weight is None else plan.order[weight[plan.order] > 0]
        time, stratum = outcome.time[order], np.zeros(len(order), int)
        if plan.n_strata > 1:
            stratum = outcome.stratum[order]
        further, later = np.diff(stratum), np.diff(time)
        if np.any(further < 0) or np.any(later[further == 0] < 0):  # by pieces, or as they were
            order = order_within(stratum, plan.n_strata, time)
            time, stratum = time[order], stratum[order]
            further, later = np.diff(stratum), np.diff(time)
        is_new = np.ones(len(time), bool)
        is_new[1:] = (later != 0) | (further != 0)
        ends = np.cumsum(np.bincount(stratum[is_new], minlength=plan.n_strata))
        time_ptr = np.append(0, ends)
        return cls(plan.cell_ptr, plan.cell_time, outcome.stratum_labels, time[is_new], time_ptr)

    @classmethod
    def of_cells(cls, plan, labels) -> Timeline:
        """Times of cells, and ends of follow-up, of rows in partitions."""
        strata = np.arange(plan.n_strata)
        of_cell = np.repeat(np.tile(strata, plan.n_pieces), np.diff(plan.cell_ptr))
        is_time, has_rows = ~np.isnan(plan.cell_time), np.isfinite(plan.events.last)
        stratum = np.concatenate([of_cell[is_time], strata[has_rows]])
        time = np.concatenate([plan.cell_time[is_time], plan.events.last[has_rows]])
        stratum, time = distinct_pairs(stratum, time, False)
        time_ptr = np.searchsorted(stratum, np.arange(plan.n_strata + 1))
        return cls(plan.cell_ptr, plan.cell_time, labels, time, time_ptr)

    @property
    def n_strata(self) -> int:
        return len(self.time_ptr) - 1

    @property
    def n_labels(self) -> int | None:
        """Number of strata; None for an unstratified model."""
        return None if self.labels is None else len(self.labels)

    def of_stratum(self, s) -> slice:
        """Positions of a stratum's times."""
        return slice(self.time_ptr[s], self.time_ptr[s + 1])

    def name(self, s) -> str:
        """Words for the rows of a stratum."""
        return "the fit's rows" + ("" if self.labels is None else f" in stratum {self.labels[s]}")

    def last_cells(self, times, strata) -> np.ndarray:
        """Last cell at or before each time in its stratum, (n_pieces, n_times)."""
        n_pieces = (len(self.cell_ptr) - 1) // self.n_strata
        found = np.empty((n_pieces, len(times)), np.int64)
        for piece in range(n_pieces):
            group = piece * self.n_strata + strata
            _find_last(self.cell_ptr, self.cell_time, group, times, found[piece])
        return found

    def last_times(self) -> np.ndarray:
        """End of follow-up of each stratum; NaN where it has no rows."""
        ends = np.full(self.n_strata, np.nan)
        has_rows = np.diff(self.time_ptr) > 0
        ends[has_rows] = self.times[self.time_ptr[1:][has_rows] - 1]
        return ends

    def check_start(self, start, strata):
        """Start of every row as a vector, given the numbers of their strata; None for 0."""
        if start is None:
            return None
        values = np.full(len(strata), start) if np.ndim(start) == 0 else start
        vector = check_row_values(values, "start", len(strata), minimum=0)
        last = self.last_times()[strata]
        if (vector > last).any():
            row = int(np.argmax(vector > last))
            raise ValueError(
                f"`start` is {vector[row]:g} in row {row:,}, after the last time of the fit's rows "
                f"in its stratum, {last[row]:g}; nothing is known of what follows, drop such rows."
            )
        return vector

    def warn_of_unknown(self, risks, horizons, strata) -> None:
        """Warn of risks by horizons that are NaN, because the rows of a stratum end before."""
        is_unknown = np.isnan(risks)
        if not is_unknown.any():
            return
        horizon = int(np.argmax(is_unknown.any(axis=0)))
        row = int(np.argmax(is_unknown[:, horizon]))
        where = "" if self.labels is None else f" in the stratum of row {row:,}"
        warn(
            f"The risk by {horizons[horizon]:g} is NaN in {is_unknown[:, horizon].sum():,} of "
            f"{len(risks):,} rows: the fit's rows{where} end at "
            f"{self.last_times()[strata[row]]:g}, and what happens later is unknown; take an "
            "earlier horizon.",
        )


@dataclass(frozen=True, eq=False)
class Baseline:
    """Baseline hazards of a fit, and the curves of rows given their linear predictors."""

    timeline: Timeline  # times of the fit
    # (n_cells,): logarithm of the cumulative hazard at a zero predictor, from the start of each
    # group
    cells: np.ndarray

    def __reduce__(self):
        return type(self), (self.timeline, self.cells)  # without what is computed from them

    @cached_property
    def log_hazards(self) -> np.ndarray:
        """Logarithm of the hazard accumulated inside each piece, (n_pieces, n_times)."""
        timeline = self.timeline
        strata = np.repeat(np.arange(timeline.n_strata), np.diff(timeline.time_ptr))
        return self.log_hazards_at(timeline.times, strata)

    def log_hazards_at(self, times, strata) -> np.ndarray:
        """Logarithms of the cumulative hazard until each of `times` in its stratum."""
        return self.cells[self.timeline.last_cells(times, strata)]

    @cached_property
    def unique_times(self) -> np.ndarray:
        """Distinct times of all strata."""
        times = self.timeline.times
        return times if self.timeline.n_strata == 1 else np.unique(times)

    def functions(self, curve):
        """Curve at a zero predictor: a StepFunction, or {label: StepFunction} with strata."""
        timeline = self.timeline
        values = curve(self._total(self.log_hazards, np.zeros(len(self.log_hazards))))
        steps = {}
        for s in np.flatnonzero(np.diff(timeline.time_ptr)).tolist():
            own = timeline.of_stratum(s)
            times, name = timeline.times[own], timeline.name(s)
            steps[s] = step_function(times, values[own], self._first(curve), name)
        if timeline.labels is None:
            return steps[0]
        labels = timeline.labels.tolist()
        return {labels[s]: step for s, step in steps.items()}

    def strata_of(self, strata, n_rows: int, name="strata") -> np.ndarray:
        """Number of the stratum of every row."""
        labels = self.timeline.labels
        check_strata_as_in_fit(self.timeline.n_labels, strata is not None, name=name)
        if labels is None:
            return np.zeros(n_rows, int)
        given = check_labels(strata, name, n_rows)
        code = Index(labels).get_indexer(Index(given))
        is_empty = np.diff(self.timeline.time_ptr) == 0
        unknown = (code < 0) | is_empty[code]
        if unknown.any():
            row = int(np.argmax(unknown))
            known = ", ".join(map(repr, labels[:5].tolist()))
            raise ValueError(
                f"`{name}` is {given[row].item()!r} in row {row:,}, a label without rows in the "
                f"fit; known are {known}{', ...' if len(labels) > 5 else ''}."
            )
        return code

    def risks(self, predictors, strata, horizons, start) -> np.ndarray:
        """Risk of every row by each horizon; NaN beyond the follow-up of its stratum."""
        timeline = self.timeline
        shape = (-1, timeline.n_strata, len(horizons))
        each = np.repeat(np.arange(timeline.n_strata), len(horizons))
        logs = self.log_hazards_at(np.tile(horizons, timeline.n_strata), each).reshape(shape)
        since = self._since(strata, start)
        risk = incidence(
            total_hazard((log[strata] for log in logs), predictors.T[:, :, None], since)
        )
        risk[horizons > timeline.last_times()[strata][:, None]] = np.nan
        return risk

    def quantiles(self, predictors, strata, probabilities) -> np.ndarray:
        """Times by which every row has met the event with given probabilities; NaN if never."""
        wanted = np.broadcast_to(probabilities, (len(predictors), len(probabilities)))
        first, risk = self._first_reaching(wanted - EQUAL, predictors, strata)
        later, _ = self._first_reaching(risk + EQUAL, predictors, strata)
        ends = self.timeline.time_ptr[strata + 1][:, None]
        times, until = (self.timeline.times[np.minimum(k, ends - 1)] for k in (first, later))
        times = np.where(np.abs(risk - wanted) < EQUAL, 0.5 * (times + until), times)
        return np.where(wanted < EQUAL, 0.0, np.where(first < ends, times, np.nan))

    def _first_reaching(self, levels, predictors, strata):
        """Where each row's risk first is a level, or the end of its times, and the risk there."""
        ptr = self.timeline.time_ptr
        low, end = (np.broadcast_to(ptr[s][:, None], levels.shape) for s in (strata, strata + 1))
        high = end

        def risk_at(k):
            return incidence(total_hazard(self.log_hazards[:, k], predictors.T[:, :, None]))

        while (low < high).any():
            middle = (low + high) // 2
            goes_up = (low < high) & (risk_at(np.minimum(middle, end - 1)) < levels)
            low, high = np.where(goes_up, middle + 1, low), np.where(goes_up, high, middle)
        return low, risk_at(np.minimum(low, end - 1))

    def curves(self, predictors, strata, return_array, curve, start=None) -> np.ndarray:
        """Curve of every row, given its predictors, and its stratum and start where it has them."""
        make = self.arrays if return_array else self.row_functions
        return make(predictors, strata, curve, self._since(strata, start))

    def _since(self, strata, start):
        """Logarithm of each row's hazard until its start, (n_pieces, n_rows, 1)."""
        return None if start is None else self.log_hazards_at(start, strata)[:, :, None]

    def arrays(self, predictors, strata, curve, since) -> np.ndarray:
        """Curve of every row at `unique_times`; NaN beyond the follow-up of its stratum."""
        unique, timeline = self.unique_times, self.timeline
        _check_memory(len(predictors), len(unique))
        out = np.empty((len(predictors), len(unique)))
        n_at_once = max(1, BLOCK_NUMBERS // max(len(unique), 1))
        for s, rows in by_stratum(strata):
            own = timeline.of_stratum(s)
            before = np.searchsorted(timeline.times[own], unique, side="right")
            padded = after_nothing(self.log_hazards[:, own])
            logs, is_later = padded[:, before], unique > timeline.times[own][-1]
            for first in range(0, len(rows), n_at_once):
                block = rows[first : first + n_at_once]
                gone = None if since is None else since[:, block]
                values = curve(self._total(logs, predictors[block].T[:, :, None], gone))
                values[:, is_later] = np.nan
                out[block] = values
        return out

    def row_functions(self, predictors, strata, curve, since) -> np.ndarray:
        """Curve of every row as an object array of step functions."""
        out = np.empty(len(predictors), dtype=object)
        for s, rows in by_stratum(strata):
            own, name = self.timeline.of_stratum(s), self.timeline.name(s)
            times, logs = self.timeline.times[own], self.log_hazards[:, own]
            is_long = curve in AT_ONE_TIME and len(times) > MANY_TIMES
            if is_long and times[0] > 0:
                times, logs = np.append(0.0, times), after_nothing(logs)
            for i in rows:
                row = {"predictors": predictors[i], "since": None if since is None else since[:, i]}
                if is_long:
                    out[i] = LongCurve(times, logs, curve, rows=name, **row)
                else:
                    values = curve(self._total(logs, **row))
                    out[i] = step_function(times, values, self._first(curve), name)
        return out

    @staticmethod
    def _total(logs, predictors, since=None):
        """Hazard over all pieces, of which curves are made."""
        return total_hazard(logs, predictors, since)

    @staticmethod
    def _first(curve):
        """Value of a curve where nothing has happened."""
        return curve(np.zeros(1))[0]


def _check_memory(n_rows, n_times):
    """Refuse arrays that there is no memory for, which some systems only notice too late."""
    n_bytes = 8 * n_rows * n_times
    if n_bytes > available():
        raise MemoryError(
            f"the curves of {n_rows:,} rows at {n_times:,} times take {n_bytes / 2**30:,.1f} GiB, "
            "and there is less memory; leave `return_array` out, and call the curves at the times "
            "of interest, or pass fewer rows at a time."
        )


@kernel
def _find_last(cell_ptr, cell_time, group, times, found):
    """Last cell of a group at or before each time; its first one, which has none, otherwise."""
    for i in range(times.size):
        low, high = cell_ptr[group[i]] + 1, cell_ptr[group[i] + 1]
        while low < high:
            middle = (low + high) // 2
            if cell_time[middle] <= times[i]:
                low = middle + 1
            else:
                high = middle
        found[i] = low - 1


def by_stratum(strata):
    """The strata that occur, each with its rows."""
    order = np.argsort(strata, kind="stable")
    found, first = np.unique(strata[order], return_index=True)
    return zip(found.tolist(), np.split(order, first[1:]), strict=True) if len(order) else ()
