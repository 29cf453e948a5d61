"""An evaluation of all rows, joined from what partitions say of theirs.

Sums of w = c exp(eta - top) come on the scale of each partition's own largest predictor `top`, and
are brought to that of the largest as they arrive.  What is scanned over cells is the CPU's.

A class here adds up the answers to one request: `fields` are those of the `Evaluate` that goes to a
partition, `add` takes its answer, in the order of partitions, and `join` makes an `Evaluation`, or
None where all have to be asked again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np

from ..._compile import specialize
from ...patterns.carried import cpu_kernels as carried
from ...patterns.largest_loglik import largest_loglik
from ...patterns.risk_sets import cpu_cells as risk_sets
from ...patterns.rows.intercept import InterceptSearch, QuadraticSearch, first_intercept
from ...patterns.weighted import censoring_survival, inverse_of
from .messages import NODES


class CellSums(NamedTuple):
    """What scans read of the weights of all rows, by the names of `risk_sets.RiskSets`."""

    cell_ptr: np.ndarray
    deaths: np.ndarray
    death_weight: np.ndarray
    least: float = risk_sets.SMALLEST_SHARE


_specialized = cache(specialize)


@dataclass(frozen=True)
class Weighed:
    """What is known of all rows under one vector of weights."""

    total: float
    rows: int
    mean: float  # weighted mean of what was counted or measured
    largest_loglik: float
    error_weight: float
    deaths: np.ndarray | None = None  # by cell, as `data.plans.weighted` has them
    death_weight: np.ndarray | None = None
    bin_inverse: np.ndarray | None = None
    of_part: np.ndarray | None = None  # (n_parts,): weight of a partition's deaths
    survival: np.ndarray | None = None  # of the curves of censoring, by entry

    @property
    def events(self):
        """Weighted sum of what was counted or measured."""
        return self.mean * self.total


class Weighing:
    """Adds up `Weights`."""

    def __init__(self, problem, arranged):
        self._problem, self._arranged = problem, arranged
        plan = problem.plan
        self._sums = dict.fromkeys(("total", "rows", "events", "largest", "error_weight"), 0.0)
        self._tables = np.zeros((2, plan.n_cells))
        self._of_part = np.zeros(problem.n_parts)
        if plan.lanes is not None:
            self._censoring = np.zeros((2, plan.lanes.table_ptr[-1]))

    def add(self, part, weights):
        """Take in the answer of a partition."""
        for name in self._sums:
            self._sums[name] += getattr(weights, name)
        if "deaths" in weights.tables:
            own = self._arranged[part].own
            for sums, name in zip(self._tables, ("deaths", "death_weight"), strict=True):
                sums[own] += weights.tables[name]
            self._of_part[part] = weights.tables["death_weight"].sum()
        if "lost" in weights.tables:
            own = self._arranged[part].own_entries
            for sums, name in zip(self._censoring, ("failed", "lost"), strict=True):
                sums[own] += weights.tables[name]

    def join(self):
        """All that is known."""
        plan, sums = self._problem.plan, self._sums
        known = {name: sums[name] for name in ("total", "rows", "error_weight")}
        known["mean"] = sums["events"] / sums["total"] if sums["total"] > 0 else 0.0
        if plan.bins is None:
            return Weighed(**known, largest_loglik=sums["largest"])
        deaths, weight = self._tables
        before = np.concatenate([[0.0], np.cumsum(weight)])
        known |= {
            "deaths": deaths,
            "death_weight": weight,
            "bin_inverse": inverse_of(before[plan.bins.end + 1] - before[plan.bins.start + 1]),
            "of_part": self._of_part,
        }
        if plan.lanes is not None:
            table_ptr, first = plan.lanes.table_ptr, plan.lanes.events_first
            known["survival"] = censoring_survival(table_ptr, *self._censoring, first)
        weighed = Weighed(**known, largest_loglik=np.nan)
        bound = largest_loglik(self._problem.likelihood, weighed)
        return replace(weighed, largest_loglik=bound)


@dataclass(frozen=True)
class Evaluation:
    """An evaluation of all rows, and what partitions need for sums over columns there."""

    loglik: float
    baseline: Callable[[], Any]
    fields: Callable[[int], dict]  # of `Slopes`, by partition
    # 1 / N of every bin of the quadratic model; None where partitions have centred it, or nothing
    # is centred
    inverse: np.ndarray | None = None
    cells: Any = None  # of risk sets, where they are not in logarithms


class Totals:
    """Patterns whose evaluations are sums: partitions make them by themselves."""

    is_sum = True  # whether partitions need nothing of each other

    def __init__(self, problem, weighed, arranged, start):
        self._problem, self._weighed, self._arranged = problem, weighed, arranged
        self.clear()

    def clear(self):
        """Begin to add up."""
        self.loglik, self._low, self._high = 0.0, np.inf, -np.inf

    def fields(self, part):
        """What a partition is told beside coefficients and weights."""
        return {}

    def add(self, part, answer):
        """Take in the answer of a partition."""
        self.loglik += answer.loglik
        self._low = np.minimum(self._low, answer.low)  # NaN, where it is not told, stays
        self._high = np.maximum(self._high, answer.high)

    def join(self):
        """The evaluation; None where all have to be asked again, with other fields."""
        baseline = 0.0 if self._problem.likelihood.pattern == "rows" else None
        return Evaluation(self.loglik, lambda: baseline, lambda part: {})

    def reach(self):
        """R of the line search; 0 where partitions do not tell how far their rows moved."""
        if getattr(self._problem.likelihood, "is_quadratic", False):
            return 0.0
        if self._problem.ignores_shifts:
            reach = self._high - self._low
        else:
            reach = max(abs(self._low), abs(self._high))
        return float(reach) if np.isfinite(reach) and reach > 0.0 else 0.0


class InterceptTotals(Totals):
    """Rows under one intercept, whose profile is known from a few of its values."""

    is_sum = False

    def __init__(self, problem, weighed, arranged, start):
        super().__init__(problem, weighed, arranged, start)
        if start is None:
            start = first_intercept(problem.likelihood, weighed.mean)
        is_line = problem.likelihood.is_quadratic
        self._search = QuadraticSearch(start) if is_line else InterceptSearch(start)

    def clear(self):
        super().clear()
        self._loglik, (self._scores, self._curvatures) = np.zeros(1), np.zeros((2, NODES))

    def fields(self, part):
        return {"center": self._search.center}

    def add(self, part, answer):
        super().add(part, answer)
        self._loglik += answer.tables["loglik"]
        self._scores += answer.tables["score"]
        self._curvatures += answer.tables["curvature"]

    def join(self):
        search = self._search
        search.read(self._loglik[0], self._scores, self._curvatures)
        if not search.found:
            return None
        where = {"intercept": search.intercept}
        # `inverse` is known once partitions have summed h: one bin
        return Evaluation(search.loglik, lambda: search.intercept, lambda part: where)


class RiskSetTotals(Totals):
    """Tables of risk sets by cell."""

    is_sum = False
    in_logs = False

    def clear(self):
        super().clear()
        plan, nothing = self._problem.plan, -np.inf if self.in_logs else 0.0
        self.top, self._mass = -np.inf, 0.0
        self._risk, self._rest = np.full(plan.n_cells, nothing), None
        self._tied = np.full(plan.n_cells, nothing) if self._problem.likelihood.uses_ties else None
        self._paired = np.zeros(self._problem.n_parts, bool)

    def fields(self, part):
        return {"in_logs": self.in_logs}

    def add(self, part, answer):
        super().add(part, answer)
        if self.in_logs:
            own, tables = self._arranged[part].own, answer.tables
            for sums, name in ((self._risk, "risk"), (self._tied, "tied")):
                if sums is not None:
                    sums[own] = np.logaddexp(sums[own], tables[name])
            return
        self._paired[part] = answer.tables["risk"].ndim == 2
        with np.errstate(all="ignore"):  # what is not finite makes a log-likelihood that is not
            self._add_on_scale(part, answer)

    def _add_on_scale(self, part, answer):
        """Bring what there is, and what a partition adds, to the larger of their scales."""
        top, mass = float(answer.top), self._weighed.of_part[part]
        if top == -np.inf:  # no row of it is at risk
            return
        if not top <= self.top:
            if self._mass:
                self.loglik += (self.top - top) * self._mass
            factor, self.top = np.exp(self.top - top), top
            self._scale(factor)
        elif mass:
            self.loglik += (top - self.top) * mass
        self._mass += mass
        self._add_tables(part, answer.tables, np.exp(top - self.top))

    def _scale(self, factor):
        if self._rest is not None:
            self._risk, self._rest = _times(self._risk, self._rest, factor)
        else:
            self._risk *= factor
        if self._tied is not None:
            self._tied *= factor

    def _add_tables(self, part, tables, scale):
        own = self._arranged[part].own
        if tables["risk"].ndim == 2 and self._rest is None:
            self._rest = np.zeros(len(self._risk))
        if self._rest is None:
            self._risk[own] += scale * tables["risk"]
        else:
            high, *low = np.atleast_2d(tables["risk"])
            more = _times(high, low[0] if low else np.zeros(len(own)), scale)
            self._risk[own], self._rest[own] = _plus(self._risk[own], self._rest[own], *more)
        if self._tied is not None:
            self._tied[own] += scale * tables["tied"]

    def join(self):
        held = None if self._tied is None else np.zeros(len(self._risk))
        cells = risk_sets.Cells(self._risk, np.zeros(len(self._risk)), self._rest, self._tied, held)
        loglik, self._risk, self._tied = self._scan(cells), None, None
        if not np.isfinite(loglik) and not self.in_logs and self._may_use_logs():
            self.in_logs = True
            return None
        top = self.top if self.top > -np.inf else 0.0
        return Evaluation(
            loglik,
            partial(self._baseline, cells.hazard, top),
            partial(self._fields_of_slopes, cells, top, self._paired),
            np.zeros_like(self._weighed.bin_inverse) if self.in_logs else self._weighed.bin_inverse,
            None if self.in_logs else cells,
        )

    def _may_use_logs(self):
        return self._rest is None and self.top < np.inf

    def _scan(self, cells):
        sums, formula = self._cell_sums(), self._problem.likelihood.jump_formula
        if self.in_logs:
            risk_sets.add_later_logs(sums.cell_ptr, cells.risk)
            scan = _specialized(risk_sets.scan_log_cells, jump_formula=formula)
        else:
            scan = _specialized(risk_sets.scan_cells, find_jumps=risk_sets.jumps_of(formula))
        return scan(sums, cells, self.loglik)

    def _cell_sums(self):
        known = self._weighed
        return CellSums(self._problem.plan.cell_ptr, known.deaths, known.death_weight)

    def _baseline(self, hazard, top):
        if self.in_logs:
            return hazard.copy()
        with np.errstate(divide="ignore"):
            return np.log(hazard) - top

    def _fields_of_slopes(self, cells, top, paired, part):
        own, bins = self._arranged[part].own, self._problem.plan.bins
        hazard = cells.hazard[own]
        if paired[part]:
            hazard = np.stack([hazard, cells.rest[own]])
        edges = np.column_stack([cells.hazard[bins.start], cells.hazard[bins.end]])
        tables = {"hazard": hazard, "edges": edges}
        if cells.held is not None:
            tables["held"] = cells.held[own]
        return {"tables": tables, "top": 0.0 if self.in_logs else top, "in_logs": self.in_logs}


class CarriedTotals(RiskSetTotals):
    """Tables of risk sets that keep rows beyond their exit, by cell and by lane cell."""

    def clear(self):
        super().clear()
        lanes = self._problem.plan.lanes
        self._carried = np.zeros(lanes.lane_ptr[-1])
        self._survival = self._weighed.survival[lanes.lane_table_idx]

    def fields(self, part):
        return {"tables": {"censoring": self._censoring(part)}}

    def _censoring(self, part):
        return self._weighed.survival[self._arranged[part].own_entries]

    def _add_tables(self, part, tables, scale):
        super()._add_tables(part, tables, scale)
        self._carried[self._arranged[part].own_lanes] += scale * tables["carried"]

    def _scale(self, factor):
        super()._scale(factor)
        self._carried *= factor

    def _may_use_logs(self):
        return False

    def _scan(self, cells):
        lanes, nothing = self._problem.plan.lanes, np.empty(0)
        carry = carried.Carry(
            np.empty(0, np.uint32),
            nothing,
            lanes.lane_ptr,
            lanes.lane_cell,
            lanes.stratum_lanes,
            self._survival,
            self._carried,
            np.zeros(len(cells.risk)),
        )
        jumps = risk_sets.jumps_of(self._problem.likelihood.jump_formula)
        scan = _specialized(carried.scan_lanes, find_jumps=jumps)
        return scan(self._cell_sums(), carry, cells, self.loglik)

    def _fields_of_slopes(self, cells, top, paired, part):
        fields = super()._fields_of_slopes(cells, top, paired, part)
        bins, lanes = self._problem.plan.bins, self._arranged[part].own_lanes
        # whole strata have nothing before or after them
        one_lane = self._problem.plan.one_lane_a_stratum
        back = self._carried if one_lane else np.zeros(len(cells.hazard))
        fields["tables"] |= {
            "censoring": self._censoring(part),
            "back": self._carried[lanes],
            "back_edges": np.column_stack([back[bins.start], back[bins.end]]),
        }
        return fields


def totals_of(problem):
    """The class that joins the evaluations of a problem."""
    pattern = problem.likelihood.pattern
    if pattern == "risk_sets":
        return RiskSetTotals
    if pattern == "carried_risk_sets":
        return CarriedTotals
    return InterceptTotals if problem.has_intercept else Totals


# Exits less entries cancel: sums are pairs of numbers, whose products and sums lose nothing else.
_SPLIT = 2.0**27 + 1.0


def _halves(number):
    scaled = _SPLIT * number
    high = scaled - (scaled - number)
    return high, number - high


def _times(high, low, factor):
    """A pair times a number (Veltkamp 1968, Dekker 1971)."""
    product = high * factor
    (a, b), (c, d) = _halves(high), _halves(factor)
    return product, (((a * c - product) + a * d) + b * c) + b * d + low * factor


def _plus(high, low, more_high, more_low):
    """Sum of two pairs (Knuth 1969)."""
    total = high + more_high
    shadow = total - high
    return total, (high - (total - shadow)) + (more_high - shadow) + low + more_low
